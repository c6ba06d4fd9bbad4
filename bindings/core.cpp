// Python's view of the core: arrays in, arrays out, the GIL released while it works.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <new>
#include <variant>

#include "decision.hpp"
#include "rows.hpp"
#include "smo.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using namespace sparseklr;

namespace {

template <class T> using matrix = nb::ndarray<const T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
template <class T> using vector = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using state_vector = nb::ndarray<double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

struct PointSet {
    std::variant<std::shared_ptr<const Points<float>>, std::shared_ptr<const Points<double>>> points;
    bool single() const { return points.index() == 0; }
    std::size_t size() const {
        return std::visit([](const auto& p) { return p->size(); }, points);
    }
};

// A RowSource of either precision.
struct AnyRowSource {
    std::variant<std::shared_ptr<RowSource<float>>, std::shared_ptr<RowSource<double>>> source;
    nb::object keep_alive;  // the matrix behind GramRows
    std::size_t size() const {
        return std::visit([](const auto& s) { return s->size(); }, source);
    }
};

template <class Out> Out* new_array(std::size_t n, nb::capsule& owner) {
    Out* values = new Out[n];
    owner = nb::capsule(values, [](void* p) noexcept { delete[] static_cast<Out*>(p); });
    return values;
}

template <class T> AnyRowSource gram_row_source(matrix<T> K) {
    if (K.shape(0) != K.shape(1)) throw nb::value_error("K must be square");
    return {std::shared_ptr<RowSource<T>>(std::make_shared<GramRows<T>>(K.data(), K.shape(0), K.shape(1))), nb::cast(K)};
}

template <class In> PointSet make_dense(matrix<In> X, KernelKind kind, nb::object center, bool single) {
    vector<double> shift;
    const double* c = nullptr;
    if (!center.is_none()) {
        shift = nb::cast<vector<double>>(center);
        c = shift.data();
    }
    nb::gil_scoped_release release;
    if (single) return {std::shared_ptr<const Points<float>>(dense_points<float>(kind, X.data(), X.shape(0), X.shape(1), c))};
    return {std::shared_ptr<const Points<double>>(dense_points<double>(kind, X.data(), X.shape(0), X.shape(1), c))};
}

template <class In, class Index>
PointSet make_csr(vector<In> values, vector<Index> columns, vector<Index> indptr, std::size_t n_features,
                  KernelKind kind, bool single) {
    const std::size_t n = indptr.shape(0) - 1;
    nb::gil_scoped_release release;
    if (single)
        return {std::shared_ptr<const Points<float>>(
            csr_points<float>(kind, values.data(), columns.data(), indptr.data(), n, n_features))};
    return {std::shared_ptr<const Points<double>>(
        csr_points<double>(kind, values.data(), columns.data(), indptr.data(), n, n_features))};
}

AnyRowSource kernel_row_source(const PointSet& set, const Kernel& kernel, std::size_t cache_bytes, int threads) {
    return std::visit(
        [&]<class T>(const std::shared_ptr<const Points<T>>& points) -> AnyRowSource {
            return {std::shared_ptr<RowSource<T>>(std::make_shared<KernelRows<T>>(points, kernel, cache_bytes, threads)), nb::none()};
        },
        set.points);
}

nb::object kernel_matrix(const PointSet& data, const PointSet& queries, const Kernel& kernel, int threads) {
    return std::visit(
        [&]<class T>(const std::shared_ptr<const Points<T>>& points) {
            const auto& other = *std::get<std::shared_ptr<const Points<T>>>(queries.points);
            const std::size_t m = other.size(), n = points->size();
            nb::capsule owner;
            T* out = new_array<T>(m * n, owner);
            {
                nb::gil_scoped_release release;
                kernel_block<T>(*points, other, kernel, 0, m, out, n, threads);
            }
            return nb::cast(nb::ndarray<nb::numpy, T, nb::ndim<2>>(out, {m, n}, owner));
        },
        data.points);
}

nb::object kernel_sum(const PointSet& data, const PointSet& queries, const Kernel& kernel, matrix<double> coef, int threads) {
    const std::size_t m = queries.size(), outputs = coef.shape(0);
    if (coef.shape(1) != data.size()) throw nb::value_error("coef must have one column per point");
    nb::capsule owner;
    double* out = new_array<double>(m * outputs, owner);
    std::visit(
        [&]<class T>(const std::shared_ptr<const Points<T>>& points) {
            const auto& other = *std::get<std::shared_ptr<const Points<T>>>(queries.points);
            nb::gil_scoped_release release;
            decision<T>(*points, other, kernel, coef.data(), outputs, out, threads);
        },
        data.points);
    return nb::cast(nb::ndarray<nb::numpy, double, nb::ndim<2>>(out, {m, outputs}, owner));
}

// Runs the solver on alpha and F in place.  Returns the SolveInfo and the exception that a signal
// handler or the callback raised (None if there was none): the state is valid in either case.
nb::tuple solve_in_place(AnyRowSource& row_source, vector<double> y, vector<double> box, vector<double> bound, double lam,
                         state_vector alpha, state_vector F, const Settings& settings, nb::object callback) {
    const std::size_t n = row_source.size();
    if (y.shape(0) != n || box.shape(0) != n || bound.shape(0) != n || alpha.shape(0) != n || F.shape(0) != n)
        throw nb::value_error("y, box, bound, alpha and F must have one entry per kernel row");
    const Problem problem{n, y.data(), box.data(), bound.data(), lam};
    nb::object error = nb::none();
    const Monitor monitor = [&](const Snapshot& snapshot) {
        nb::gil_scoped_acquire gil;
        try {
            if (PyErr_CheckSignals() != 0) throw nb::python_error();
            return callback.is_none() || !nb::cast<bool>(nb::bool_(callback(snapshot)));
        } catch (nb::python_error& e) {
            error = nb::borrow(e.value());
            return false;
        }
    };
    SolveInfo info;
    {
        nb::gil_scoped_release release;
        info = std::visit(
            [&](const auto& source) { return solve(problem, *source, settings, {alpha.data(), F.data()}, monitor); },
            row_source.source);
    }
    return nb::make_tuple(std::move(info), error);
}

}  // namespace

NB_MODULE(_core, m) {
    m.doc() = "Compiled core of sparseklr; use it through the Python layer.";
    m.attr("instruction_set") = simd_name();
#ifdef _OPENMP
    m.attr("has_openmp") = true;
#else
    m.attr("has_openmp") = false;
#endif

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
        .value("interrupted", Status::interrupted);

    nb::class_<Kernel>(m, "Kernel")
        .def("__init__",
             [](Kernel* self, KernelKind kind, double gamma, double coef0, double degree) {
                 new (self) Kernel{kind, gamma, coef0, degree};
             },
             "kind"_a, "gamma"_a, "coef0"_a, "degree"_a)
        .def_ro("kind", &Kernel::kind);
    nb::class_<Settings>(m, "Settings")
        .def("__init__",
             [](Settings* self, WorkingSet working_set, double tol, std::int64_t max_iter, int threads) {
                 new (self) Settings{working_set, tol, max_iter, threads};
             },
             "working_set"_a, "tol"_a, "max_iter"_a, "threads"_a);
    nb::class_<Snapshot>(m, "Snapshot", "A moment of a run: what the callback gets.")
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
        .def_ro("stale", &SolveInfo::stale)
        .def_ro("history", &SolveInfo::history);

    nb::class_<PointSet>(m, "PointSet").def("__len__", &PointSet::size).def_prop_ro("single", &PointSet::single);
    nb::class_<AnyRowSource>(m, "RowSource").def("__len__", &AnyRowSource::size);

    m.def("gram_row_source", &gram_row_source<float>, "K"_a.noconvert());
    m.def("gram_row_source", &gram_row_source<double>, "K"_a.noconvert());
    m.def("dense_points", &make_dense<float>, "X"_a.noconvert(), "kind"_a, "center"_a.none(), "single"_a);
    m.def("dense_points", &make_dense<double>, "X"_a.noconvert(), "kind"_a, "center"_a.none(), "single"_a);
#define SPARSEKLR_CSR_BINDING(In, Index)                                                                        \
    m.def("csr_points", &make_csr<In, Index>, "values"_a.noconvert(), "columns"_a.noconvert(), "indptr"_a.noconvert(), \
          "n_features"_a, "kind"_a, "single"_a);
    SPARSEKLR_CSR_BINDING(float, std::int32_t)
    SPARSEKLR_CSR_BINDING(float, std::int64_t)
    SPARSEKLR_CSR_BINDING(double, std::int32_t)
    SPARSEKLR_CSR_BINDING(double, std::int64_t)
    m.def("kernel_row_source", &kernel_row_source, "points"_a, "kernel"_a, "cache_bytes"_a, "threads"_a);
    m.def("kernel_matrix", &kernel_matrix, "data"_a, "queries"_a, "kernel"_a, "threads"_a);
    m.def("kernel_sum", &kernel_sum, "data"_a, "queries"_a, "kernel"_a, "coef"_a, "threads"_a);
    m.def("solve_in_place", &solve_in_place, "row_source"_a, "y"_a, "box"_a, "bound"_a, "lam"_a, "alpha"_a.noconvert(),
          "F"_a.noconvert(), "settings"_a, "callback"_a.none());
}
