// Python bindings of the compiled core.  The GIL is released during computations.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <sstream>
#include <variant>

#include "arrays.hpp"
#include "decision.hpp"
#include "isa.hpp"
#include "rows.hpp"
#include "shapley.hpp"
#include "smo.hpp"
#include "softmax.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using namespace sparseklr;
using namespace sparseklr::python;

namespace {

// Points in float or double precision.
struct PointSet {
    std::variant<std::shared_ptr<const Points<float>>, std::shared_ptr<const Points<double>>> points;
    bool single() const { return points.index() == 0; }
    std::size_t size() const {
        return std::visit([](const auto& p) { return p->size(); }, points);
    }
    std::size_t n_features() const {
        return std::visit([](const auto& p) { return p->n_features(); }, points);
    }
    Layout layout() const {
        return std::visit([](const auto& p) { return p->layout(); }, points);
    }
    const Kernel& kernel() const {
        return std::visit([](const auto& p) -> const Kernel& { return p->kernel(); }, points);
    }
};

// A RowSource in float or double precision.  The solver modifies its cache, so only one solver may use it at a time.
struct AnyRowSource {
    std::variant<std::shared_ptr<RowSource<float>>, std::shared_ptr<RowSource<double>>> source;
    nb::object keep_alive;  // the matrix behind GramRows
    std::unique_ptr<std::mutex> in_use = std::make_unique<std::mutex>();
    std::size_t size() const {
        return std::visit([](const auto& s) { return s->size(); }, source);
    }
};

template <class T> AnyRowSource gram_row_source(matrix<T> K) {
    if (K.shape(0) != K.shape(1)) throw nb::value_error("K must be square");
    return {std::shared_ptr<RowSource<T>>(std::make_shared<GramRows<T>>(view(K))), nb::cast(K)};
}

// Returns make<T>(), which creates points in the precision T: float if requested and accurate enough, otherwise double.
template <class Make> PointSet make_points(const Kernel& kernel, bool single, const Make& make) {
    nb::gil_scoped_release release;
    if (single) {
        std::shared_ptr<const Points<float>> points = make.template operator()<float>();
        if (float_suffices(kernel, points->largest_norm())) return {points};
    }
    return {std::shared_ptr<const Points<double>>(make.template operator()<double>())};
}

template <class In> PointSet make_dense(matrix<In> X, const Kernel& kernel, nb::object center, bool single) {
    vector<double> shift;
    if (!center.is_none()) {
        shift = nb::cast<vector<double>>(center);
        if (shift.shape(0) != X.shape(1)) throw nb::value_error("center must have one entry per column of X");
    }
    const std::span<const double> c = center.is_none() ? std::span<const double>() : view(shift);
    return make_points(kernel, single, [&]<class T>() { return dense_points<T>(kernel, view(X), c); });
}

template <class In, class Index>
PointSet make_csr(vector<In> values, vector<Index> columns, vector<Index> indptr, std::size_t n_features,
                  const Kernel& kernel, bool single) {
    if (indptr.shape(0) == 0) throw nb::value_error("indptr must not be empty");
    if (columns.shape(0) != values.shape(0)) throw nb::value_error("values and columns must have the same length");
    if (n_features > std::size_t(INT32_MAX)) throw nb::value_error("n_features must be below 2**31");
    const std::size_t n = indptr.shape(0) - 1;
    if (indptr(0) != 0) throw nb::value_error("indptr must begin with 0");
    for (std::size_t i = 0; i < n; ++i)
        if (indptr(i + 1) < indptr(i)) throw nb::value_error("indptr must not decrease");
    if (std::size_t(indptr(n)) > values.shape(0)) throw nb::value_error("indptr must not exceed the number of values");
    for (std::size_t s = 0; s < std::size_t(indptr(n)); ++s)
        if (columns(s) < 0 || std::size_t(columns(s)) >= n_features)
            throw nb::value_error("column indices must be at least 0 and below n_features");
    const CsrView<In, Index> X{view(values), view(columns), view(indptr), n_features};
    return make_points(kernel, single, [&]<class T>() { return csr_points<T>(kernel, X); });
}

AnyRowSource kernel_row_source(const PointSet& set, std::size_t cache_bytes) {
    return std::visit(
        [&]<class T>(const std::shared_ptr<const Points<T>>& points) -> AnyRowSource {
            return {std::shared_ptr<RowSource<T>>(std::make_shared<KernelRows<T>>(points, cache_bytes)), nb::none()};
        },
        set.points);
}

void check_alike(const PointSet& data, const PointSet& queries) {
    if (data.single() != queries.single() || data.layout() != queries.layout())
        throw nb::value_error("data and queries must have the same precision, and must both be dense or both be CSR");
    if (data.n_features() != queries.n_features())
        throw nb::value_error("data and queries must have the same number of features");
    if (!(data.kernel() == queries.kernel())) throw nb::value_error("data and queries must have the same kernel");
}

nb::object matrix_of_kernel(const PointSet& data, const PointSet& queries, int threads) {
    check_threads(threads);
    check_alike(data, queries);
    return std::visit(
        [&]<class T>(const std::shared_ptr<const Points<T>>& points) {
            const auto& other = *std::get<std::shared_ptr<const Points<T>>>(queries.points);
            const std::size_t m = other.size(), n = points->size();
            std::unique_ptr<T[]> out(new T[m * n]);
            {
                nb::gil_scoped_release release;
                kernel_matrix<T>(*points, other, {out.get(), m, n}, threads);
            }
            return to_numpy(std::move(out), {m, n});
        },
        data.points);
}

// `first_row` is the number of the first query in error messages.
nb::object kernel_sum(const PointSet& data, const PointSet& queries, matrix<double> coef, int threads,
                      std::size_t first_row) {
    check_threads(threads);
    check_alike(data, queries);
    const std::size_t m = queries.size(), outputs = coef.shape(0);
    if (coef.shape(1) != data.size()) throw nb::value_error("coef must have one column per point");
    std::vector<double> out(m * outputs);
    try {
        std::visit(
            [&]<class T>(const std::shared_ptr<const Points<T>>& points) {
                const auto& other = *std::get<std::shared_ptr<const Points<T>>>(queries.points);
                nb::gil_scoped_release release;
                decision<T>(*points, other, view(coef), {out.data(), outputs, m}, threads);
            },
            data.points);
    } catch (NonFiniteKernel& error) {
        error.row += first_row;
        throw;
    }
    return to_numpy(std::move(out), {outputs, m});
}

// Translates NonFiniteKernel to a Python exception of the given class.  Its message contains the kernel, the row and
// advice.
void translate_non_finite_kernel(const std::exception_ptr& thrown, void* python_class) {
    try {
        std::rethrow_exception(thrown);
    } catch (const NonFiniteKernel& error) {
        const Kernel& kernel = error.kernel;
        std::ostringstream text;
        text << "kernel='" << kernel_name(kernel.kind) << "'";
        if (kernel.kind != KernelKind::linear) text << " with gamma=" << kernel.gamma;
        if (kernel.kind == KernelKind::poly) text << ", degree=" << kernel.degree;
        if (kernel.kind == KernelKind::poly || kernel.kind == KernelKind::sigmoid) text << ", coef0=" << kernel.coef0;
        text << " gives NaN or infinity in row " << error.row << " (counted from 0): ";
        if (kernel.kind == KernelKind::poly && kernel.degree != std::floor(kernel.degree))
            text << "if degree is not a whole number, gamma * <x, y> + coef0 must be >= 0 for every pair of rows.";
        else text << "the features are too large; scale them.";
        const nb::handle type(static_cast<PyObject*>(python_class));
        nb::object raised = type(text.str());
        raised.attr("kernel") = kernel;
        raised.attr("row") = error.row;
        PyErr_SetObject(type.ptr(), raised.ptr());
    }
}

// Returns K @ coef, computed from the kernel rows of the solver.
nb::object row_sum(AnyRowSource& row_source, vector<double> coef, int threads) {
    check_threads(threads);
    const std::size_t n = row_source.size();
    if (coef.shape(0) != n) throw nb::value_error("coef must have one entry per kernel row");
    std::vector<std::size_t> indices;
    std::vector<double> weight;
    for (std::size_t i = 0; i < n; ++i)
        if (coef(i) != 0) {
            indices.push_back(i);
            weight.push_back(coef(i));
        }
    std::vector<double> out(n, 0.0);
    {
        nb::gil_scoped_release release;
        const std::lock_guard<std::mutex> lock(*row_source.in_use);
        Team team(threads);
        std::visit([&](const auto& source) { add_weighted_rows(*source, indices, weight, out, team, check_signals); },
                   row_source.source);
    }
    return to_numpy(std::move(out), {n});
}

// A monitor that lets Python handle signals and calls `callback`. If one of the two raises an exception, the run ends.
Monitor calling(const nb::object& callback) {
    return [&callback](const Snapshot& snapshot) {
        nb::gil_scoped_acquire gil;
        check_signals();
        return callback.is_none() || !nb::cast<bool>(nb::bool_(callback(snapshot)));
    };
}

// Runs the solver, which updates above (alpha - bound) and F in place.
SolveInfo solve_in_place(AnyRowSource& row_source, vector<double> y, vector<double> box, vector<double> bound,
                         double lam, out_vector<double> above, out_vector<double> F, const Settings& settings,
                         nb::object callback) {
    const std::size_t n = row_source.size();
    if (y.shape(0) != n || box.shape(0) != n || bound.shape(0) != n || above.shape(0) != n || F.shape(0) != n)
        throw nb::value_error("y, box, bound, above and F must have one entry per kernel row");
    for (std::size_t i = 0; i < n; ++i)
        if (!(bound(i) > 0 && bound(i) < box(i) / 2 && std::isfinite(box(i)) && std::isfinite(above(i)) &&
              std::isfinite(F(i))))
            throw nb::value_error("bound must satisfy 0 < bound < box / 2, and above and F must be finite");
    check_threads(settings.threads);
    const Problem problem{view(y), view(box), view(bound), lam};
    const Monitor monitor = calling(callback);
    nb::gil_scoped_release release;
    const std::lock_guard<std::mutex> lock(*row_source.in_use);
    return std::visit(
        [&](const auto& source) { return solve(problem, *source, settings, {view(above), view(F)}, monitor); },
        row_source.source);
}

nb::tuple shapley(matrix<double> points, matrix<double> coef, vector<std::size_t> group_start, bool squared,
                  matrix<double> rows, matrix<double> background, vector<double> weight, bool interactions,
                  int threads) {
    check_threads(threads);
    const std::size_t p = points.shape(1), n_groups = group_start.shape(0) - 1;
    if (coef.shape(1) != points.shape(0)) throw nb::value_error("coef must have one column per point");
    if (rows.shape(1) != p || background.shape(1) != p)
        throw nb::value_error("points, rows and background must have the same number of columns");
    if (background.shape(0) == 0 || weight.shape(0) != background.shape(0))
        throw nb::value_error("background must not be empty, and weight must have one entry per row of background");
    if (group_start.shape(0) == 0 || group_start(0) != 0 || group_start(n_groups) != p)
        throw nb::value_error("group_start must begin with 0 and end with the number of columns");
    for (std::size_t g = 0; g < n_groups; ++g)
        if (group_start(g + 1) < group_start(g)) throw nb::value_error("group_start must not decrease");
    const std::size_t n = rows.shape(0), m = coef.shape(0);
    std::vector<double> values(n * m * n_groups), pairs(interactions ? n * m * n_groups * n_groups : 0);
    {
        nb::gil_scoped_release release;
        shapley_values({view(points), view(coef), view(group_start), squared}, view(rows), view(background),
                       view(weight), {values.data(), n, m * n_groups},
                       {pairs.data(), interactions ? n : 0, m * n_groups * n_groups}, threads);
    }
    nb::object both = nb::none();
    if (interactions) both = to_numpy(std::move(pairs), {n, m, n_groups, n_groups});
    return nb::make_tuple(to_numpy(std::move(values), {n, m, n_groups}), both);
}

// Runs the solver of the softmax problem, which updates above, F and the intercepts in place.  Matrices have one row
// per class.
SolveInfo solve_softmax_in_place(AnyRowSource& row_source, vector<std::int64_t> label, vector<double> box,
                                 vector<double> bound, double lam, out_matrix<double> above, out_matrix<double> F,
                                 out_vector<double> intercept, const Settings& settings, double gap_tol,
                                 nb::object callback) {
    const std::size_t n = row_source.size(), n_classes = intercept.shape(0);
    if (label.shape(0) != n || box.shape(0) != n || bound.shape(0) != n || above.shape(1) != n || F.shape(1) != n)
        throw nb::value_error("label, box, bound, above and F must have one entry per kernel row");
    if (n_classes < 2 || above.shape(0) != n_classes || F.shape(0) != n_classes)
        throw nb::value_error("above, F and intercept must have one row for each of at least two classes");
    for (std::size_t i = 0; i < n; ++i)
        if (!(label(i) >= 0 && std::size_t(label(i)) < n_classes && bound(i) > 0 &&
              double(n_classes) * bound(i) < box(i) && std::isfinite(box(i))))
            throw nb::value_error("bound must satisfy 0 < n_classes * bound < box, and labels must be below n_classes");
    for (std::size_t s = 0; s < n * n_classes; ++s)
        if (!(above.data()[s] >= 0 && std::isfinite(above.data()[s]) && std::isfinite(F.data()[s])))
            throw nb::value_error("above must be non-negative, and above and F must be finite");
    check_threads(settings.threads);
    const SoftmaxProblem problem{view(label), n_classes, view(box), view(bound), lam};
    const Monitor monitor = calling(callback);
    const SoftmaxState state{view(above), view(F), view(intercept)};
    nb::gil_scoped_release release;
    const std::lock_guard<std::mutex> lock(*row_source.in_use);
    return std::visit(
        [&](const auto& source) { return solve_softmax(problem, *source, settings, gap_tol, state, monitor); },
        row_source.source);
}

}  // namespace

void bind_compact(nb::module_& m);  // compact.cpp
void bind_refit(nb::module_& m);    // refit.cpp

NB_MODULE(_core, m) {
    m.doc() = "Compiled core of sparseklr, for internal use.";
    m.attr("instruction_set") = isa_name(isa());

    const nb::object non_finite_kernel = nb::steal(
        PyErr_NewException("sparseklr._core.NonFiniteKernel", PyExc_ValueError, nullptr));
    m.attr("NonFiniteKernel") = non_finite_kernel;  // keeps it alive
    nb::register_exception_translator(translate_non_finite_kernel, non_finite_kernel.ptr());

    nb::enum_<KernelKind>(m, "KernelKind")
        .value("linear", KernelKind::linear)
        .value("poly", KernelKind::poly)
        .value("rbf", KernelKind::rbf)
        .value("laplacian", KernelKind::laplacian)
        .value("sigmoid", KernelKind::sigmoid);
    nb::enum_<WorkingSet>(m, "WorkingSet")
        .value("first_order", WorkingSet::first_order)
        .value("second_order", WorkingSet::second_order)
        .value("mixed", WorkingSet::mixed);
    nb::enum_<Status>(m, "Status")
        .value("optimal", Status::optimal)
        .value("max_iter", Status::max_iter)
        .value("interrupted", Status::interrupted)
        .value("stalled", Status::stalled);

    nb::class_<Kernel>(m, "Kernel")
        .def(
            "__init__",
            [](Kernel* self, KernelKind kind, double gamma, double coef0, double degree) {
                if (!(std::isfinite(gamma) && std::isfinite(coef0) && std::isfinite(degree)))
                    throw nb::value_error("gamma, coef0 and degree must be finite");
                new (self) Kernel{kind, gamma, coef0, degree};
            },
            "kind"_a, "gamma"_a, "coef0"_a, "degree"_a)
        .def_ro("kind", &Kernel::kind)
        .def_ro("gamma", &Kernel::gamma);
    nb::class_<Settings>(m, "Settings")
        .def(
            "__init__",
            [](Settings* self, WorkingSet working_set, double tol, std::int64_t max_iter, int threads,
               double poll_seconds) { new (self) Settings{working_set, tol, max_iter, threads, poll_seconds}; },
            "working_set"_a, "tol"_a, "max_iter"_a, "threads"_a, "poll_seconds"_a);
    nb::class_<Snapshot>(m, "Snapshot", "Progress of a solver run, which is passed to the callback.")
        .def_ro("n_iter", &Snapshot::n_iter)
        .def_ro("violation", &Snapshot::violation)
        .def_ro("seconds", &Snapshot::seconds);
    nb::class_<SolveInfo>(m, "SolveInfo")
        .def_ro("status", &SolveInfo::status)
        .def_ro("n_iter", &SolveInfo::n_iter)
        .def_ro("violation", &SolveInfo::violation)
        .def_ro("upper", &SolveInfo::upper)
        .def_ro("lower", &SolveInfo::lower)
        .def_ro("min_curvature", &SolveInfo::min_curvature)
        .def_ro("history", &SolveInfo::history);

    nb::class_<PointSet>(m, "PointSet").def("__len__", &PointSet::size).def_prop_ro("single", &PointSet::single);
    nb::class_<AnyRowSource>(m, "RowSource").def("__len__", &AnyRowSource::size);

    m.def("gram_row_source", &gram_row_source<float>, "K"_a.noconvert());
    m.def("gram_row_source", &gram_row_source<double>, "K"_a.noconvert());
    m.def("dense_points", &make_dense<float>, "X"_a.noconvert(), "kernel"_a, "center"_a.none(), "single"_a);
    m.def("dense_points", &make_dense<double>, "X"_a.noconvert(), "kernel"_a, "center"_a.none(), "single"_a);
#define SPARSEKLR_CSR_BINDING(In, Index)                                                                               \
    m.def("csr_points", &make_csr<In, Index>, "values"_a.noconvert(), "columns"_a.noconvert(), "indptr"_a.noconvert(), \
          "n_features"_a, "kernel"_a, "single"_a);
    SPARSEKLR_CSR_BINDING(float, std::int32_t)
    SPARSEKLR_CSR_BINDING(float, std::int64_t)
    SPARSEKLR_CSR_BINDING(double, std::int32_t)
    SPARSEKLR_CSR_BINDING(double, std::int64_t)
    m.def("kernel_row_source", &kernel_row_source, "points"_a, "cache_bytes"_a);
    m.def("kernel_matrix", &matrix_of_kernel, "data"_a, "queries"_a, "threads"_a);
    m.def("kernel_sum", &kernel_sum, "data"_a, "queries"_a, "coef"_a, "threads"_a, "first_row"_a);
    m.def("row_sum", &row_sum, "row_source"_a, "coef"_a, "threads"_a);
    m.def("solve_in_place", &solve_in_place, "row_source"_a, "y"_a, "box"_a, "bound"_a, "lam"_a, "above"_a.noconvert(),
          "F"_a.noconvert(), "settings"_a, "callback"_a.none());
    m.def("shapley_values", &shapley, "points"_a, "coef"_a, "group_start"_a, "squared"_a, "rows"_a, "background"_a,
          "weight"_a, "interactions"_a, "threads"_a);
    m.def("solve_softmax_in_place", &solve_softmax_in_place, "row_source"_a, "label"_a, "box"_a, "bound"_a, "lam"_a,
          "above"_a.noconvert(), "F"_a.noconvert(), "intercept"_a.noconvert(), "settings"_a, "gap_tol"_a,
          "callback"_a.none());
    bind_compact(m);
    bind_refit(m);
}
