// Python bindings of the sums over rows and of the inner solver of CompactKLR.
#include <chrono>
#include <memory>
#include <mutex>
#include <variant>

#include "arrays.hpp"
#include "compact_move.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using namespace sparseklr;
using namespace sparseklr::python;

namespace {

// Coefficients of one output or of several, written in place.
using coefficients = nb::ndarray<double, nb::c_contig, nb::device::cpu>;
std::span<double> view(const coefficients& array) { return {array.data(), array.size()}; }
using python::view;

struct CompactRowSet {
    std::variant<std::shared_ptr<const CompactRows<float>>, std::shared_ptr<const CompactRows<double>>> rows;
    template <class Body> auto visit(const Body& body) const {
        return std::visit([&](const auto& held) { return body(*held); }, rows);
    }
};

struct CompactSolver {
    CompactRowSet rows;  // kept alive
    std::variant<std::unique_ptr<CompactInner<float>>, std::unique_ptr<CompactInner<double>>> inner;
    std::mutex in_use;  // every method changes the inner solver, so only one may run at a time
};

template <class In>
CompactRowSet make_rows(matrix<In> X, vector<std::int32_t> label, vector<double> weight, std::size_t n_classes,
                        bool single) {
    const std::size_t n = X.shape(0);
    if (label.shape(0) != n || weight.shape(0) != n)
        throw nb::value_error("labels and weights must have one entry per row of X");
    if (n_classes < 2) throw nb::value_error("n_classes must be at least 2");
    for (std::size_t i = 0; i < n; ++i)
        if (label.data()[i] < 0 || std::size_t(label.data()[i]) >= n_classes)
            throw nb::value_error("labels must be 0, 1, ..., n_classes - 1");
    nb::gil_scoped_release release;
    if (single) return {std::make_shared<const CompactRows<float>>(view(X), view(label), view(weight), n_classes)};
    return {std::make_shared<const CompactRows<double>>(view(X), view(label), view(weight), n_classes)};
}

CompactModel make_model(const CompactRowSet& rows, const matrix<double>& points, const vector<double>& gamma,
                        const matrix<double>& coef, const vector<double>& intercept) {
    const CompactModel model{view(points), view(gamma), view(coef), view(intercept)};
    rows.visit([&](const auto& held) {
        if (model.n_features() != held.n_features() || gamma.shape(0) != held.n_features())
            throw nb::value_error("points and gamma must have one column per feature of the rows");
        if (model.n_outputs() != held.n_outputs() || coef.shape(1) != model.n_points() ||
            intercept.shape(0) != model.n_outputs())
            throw nb::value_error("coef must have shape (n_outputs, n_points), and intercept (n_outputs,)");
    });
    return model;
}

nb::dict sums(const CompactRowSet& rows, matrix<double> points, vector<double> gamma, matrix<double> coef,
              vector<double> intercept, Curvature curvature, bool moving, int threads) {
    const CompactModel model = make_model(rows, points, gamma, coef, intercept);
    CompactSums found;
    {
        nb::gil_scoped_release release;
        found = rows.visit([&](const auto& held) { return held.sums(model, curvature, moving, threads); });
    }
    const std::size_t n = model.n_points() + 1;
    nb::dict out;
    out["loss"] = found.loss;
    out["coef_gradient"] = to_numpy(std::move(found.coef_gradient), {model.n_outputs(), n});
    if (const std::size_t pairs = found.curvature.size() / (n * n))
        out["curvature"] = to_numpy(std::move(found.curvature), {pairs, n, n});
    if (moving) {
        out["point_gradient"] = to_numpy(std::move(found.point_gradient), {model.n_points(), model.n_features()});
        out["width_gradient"] = to_numpy(std::move(found.width_gradient), {model.n_features()});
    }
    return out;
}

nb::object decision(const CompactRowSet& rows, matrix<double> points, vector<double> gamma, matrix<double> coef,
                    vector<double> intercept, int threads) {
    const CompactModel model = make_model(rows, points, gamma, coef, intercept);
    const std::size_t n = rows.visit([](const auto& held) { return held.size(); });
    const std::size_t m = model.n_outputs();
    std::vector<double> out(n * m);
    {
        nb::gil_scoped_release release;
        rows.visit([&](const auto& held) { held.decision(model, {out.data(), n, m}, threads); });
    }
    return to_numpy(std::move(out), {n, m});
}

void make_inner(CompactSolver* self, const CompactRowSet& rows, int threads) {
    new (self) CompactSolver{rows, {}, {}};
    std::visit(
        [&]<class T>(const std::shared_ptr<const CompactRows<T>>& held) {
            self->inner = std::make_unique<CompactInner<T>>(*held, threads);
        },
        rows.rows);
}

// Calls body(inner) without the GIL.  Every 0.05 seconds, Python handles signals and calls `check`, unless it is None.
// An exception from a signal handler or from `check` stops the body.
template <class Body> auto watched(CompactSolver& self, nb::handle check, const Body& body) {
    const auto monitor = [check, last = std::chrono::steady_clock::now()]() mutable {
        const auto now = std::chrono::steady_clock::now();
        if (now - last < std::chrono::milliseconds(50)) return;
        last = now;
        nb::gil_scoped_acquire gil;
        check_signals();
        if (!check.is_none()) check();
    };
    nb::gil_scoped_release release;
    const std::lock_guard<std::mutex> lock(self.in_use);
    return std::visit(
        [&](const auto& inner) {
            struct Watch {
                decltype(*inner) watched;
                ~Watch() { watched.watch({}); }  // `check` must not outlive this call
            } watch{*inner};
            inner->watch(monitor);
            return body(*inner);
        },
        self.inner);
}

void move(CompactSolver& self, matrix<double> points, vector<double> gamma) {
    self.rows.visit([&](const auto& held) {
        if (points.shape(1) != held.n_features() || gamma.shape(0) != held.n_features())
            throw nb::value_error("points and gamma must have one column per feature of the rows");
    });
    if (!watched(self, nb::none(), [&](auto& inner) { return inner.move(view(points), view(gamma)); }))
        throw nb::value_error("points and gamma must be finite");
}

InnerOutcome solve(CompactSolver& self, coefficients coef, double C, double tol, int max_steps) {
    return watched(self, nb::none(), [&](auto& inner) {
        if (coef.size() != inner.n_outputs() * (inner.n_points() + 1))
            throw nb::value_error("coef must have shape (n_outputs, n_points + 1)");
        return inner.solve(view(coef), {C, tol, max_steps});
    });
}

MoveOutcome descend(CompactSolver& self, out_matrix<double> points, out_vector<double> log_gamma, coefficients coef,
                    double C, double rho, double tau, bool shared, int max_iter, double tol, double inner_tol,
                    nb::object check) {
    const auto [p,
                m] = self.rows.visit([](const auto& held) { return std::pair{held.n_features(), held.n_outputs()}; });
    if (points.shape(1) != p || log_gamma.shape(0) != (shared ? 1 : p))
        throw nb::value_error(
            "points must have one column per feature of the rows, and log_gamma one entry per feature, or one entry "
            "if shared is set");
    if (coef.size() != m * (points.shape(0) + 1)) throw nb::value_error("coef must be (n_outputs, n_points + 1)");
    const MoveSettings settings{C, rho, tau, shared, max_iter, tol, inner_tol};
    return watched(self, check, [&](auto& inner) {
        return move_points(inner, view(points), view(log_gamma), view(coef), settings);
    });
}

nb::tuple gradient(CompactSolver& self, double C) {
    const std::size_t p = self.rows.visit([](const auto& held) { return held.n_features(); });
    std::size_t k = 0;
    std::vector<double> points, widths(p, 0.0);
    watched(self, nb::none(), [&](auto& inner) {
        k = inner.n_points();
        points.assign(k * p, 0.0);
        inner.gradient(C, {points.data(), k, p}, widths);
    });
    return nb::make_tuple(to_numpy(std::move(points), {k, p}), to_numpy(std::move(widths), {p}));
}

}  // namespace

void bind_compact(nb::module_& m) {
    nb::enum_<Curvature>(m, "Curvature")
        .value("none", Curvature::none)
        .value("diagonal", Curvature::diagonal)
        .value("full", Curvature::full);
    nb::class_<InnerOutcome>(m, "InnerOutcome")
        .def_ro("value", &InnerOutcome::value)
        .def_ro("loss", &InnerOutcome::loss)
        .def_ro("decrement", &InnerOutcome::decrement)
        .def_ro("steps", &InnerOutcome::steps)
        .def_ro("products", &InnerOutcome::products)
        .def_ro("hessians", &InnerOutcome::hessians)
        .def_ro("converged", &InnerOutcome::converged);
    nb::class_<MoveOutcome>(m, "MoveOutcome")
        .def_ro("value", &MoveOutcome::value)
        .def_ro("iterations", &MoveOutcome::iterations)
        .def_ro("evaluations", &MoveOutcome::evaluations);
    nb::class_<CompactRowSet>(m, "CompactRows", "Rows with labels and weights, and sums over them.")
        .def("__len__",
             [](const CompactRowSet& self) { return self.visit([](const auto& held) { return held.size(); }); })
        .def("sums", &sums, "points"_a, "gamma"_a, "coef"_a, "intercept"_a, "curvature"_a, "moving"_a, "threads"_a)
        .def("decision", &decision, "points"_a, "gamma"_a, "coef"_a, "intercept"_a, "threads"_a);
    m.def("compact_rows", &make_rows<float>, "X"_a.noconvert(), "label"_a, "weight"_a, "n_classes"_a, "single"_a);
    m.def("compact_rows", &make_rows<double>, "X"_a.noconvert(), "label"_a, "weight"_a, "n_classes"_a, "single"_a);
    nb::class_<CompactSolver>(m, "CompactInner", "Solver for the coefficients, given points and widths.")
        .def("__init__", &make_inner, "rows"_a, "threads"_a)
        .def("move", &move, "points"_a, "gamma"_a)
        .def("solve", &solve, "coef"_a.noconvert(), "C"_a, "tol"_a, "max_steps"_a)
        .def("gradient", &gradient, "C"_a)
        .def("descend", &descend, "points"_a.noconvert(), "log_gamma"_a.noconvert(), "coef"_a.noconvert(), "C"_a,
             "rho"_a, "tau"_a, "shared"_a, "max_iter"_a, "tol"_a, "inner_tol"_a, "check"_a.none());
}
