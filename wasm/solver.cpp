// Functions that the explorer's page calls: the core, compiled to WebAssembly, with plain arrays as arguments.
//
// Points lie on a plane, so rows of X have two values; labels are -1 and +1, and the kernel is
// exp(-gamma |x - z|^2).  Arrays belong to the caller.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <vector>

#include "compact_inner.hpp"
#include "decision.hpp"
#include "smo.hpp"

using namespace sparseklr;

namespace {

constexpr std::size_t n_features = 2;
constexpr double bound_fraction = 1e-9;  // a dual variable below this fraction of C counts as zero

MatrixView<const double> plane_points(const double* X, int n) { return {X, std::size_t(n), n_features}; }

Kernel rbf(double gamma) { return {KernelKind::rbf, gamma, 0, 3}; }

double log1p_exp(double x) { return x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x)); }
double x_log_x(double x) { return x > 0 ? x * std::log(x) : 0; }

}  // namespace

extern "C" {

enum { INTERCEPT, PRIMAL, GAP, N_ITER, CONVERGED, REPORT_SIZE };

// Solves the dual of sparse kernel logistic regression.  alpha becomes the solution, F = K (alpha y); report is the
// intercept, the primal objective, the duality gap, the number of pair steps and whether the tolerance was reached.
void solve_dual(const double* X, const double* y, int n, double C, double lam, double gamma, double tol, double* alpha,
                double* F, double* report) {
    const std::size_t size = std::size_t(n);
    const std::vector<double> box(size, C), bound(size, bound_fraction * C);
    // The lower bound counts as zero: the start needs no kernel row.
    std::fill(alpha, alpha + size, 0.0);
    std::fill(F, F + size, 0.0);
    KernelRows<double> rows(dense_points<double>(rbf(gamma), plane_points(X, n)), std::size_t{64} << 20);
    Settings settings;
    settings.tol = tol * (lam > 1 ? lam : 1);
    settings.max_iter = 200000;  // the page must respond; the gap bounds the remaining decrease
    const SolveInfo info = solve(Problem{{y, size}, box, bound, lam}, rows, settings, State{{alpha, size}, {F, size}},
                                 {});

    int ends = 0;
    double intercept = 0;
    for (const double end : {info.upper, info.lower})
        if (std::isfinite(end)) {
            intercept += end;
            ++ends;
        }
    intercept /= ends ? ends : 1;
    double norm = 0, loss = 0, dual = 0;
    for (std::size_t i = 0; i < size; ++i) {
        norm += alpha[i] * y[i] * F[i];
        loss += C * log1p_exp(lam - y[i] * (F[i] + intercept));
        dual += C * (x_log_x(alpha[i] / C) + x_log_x(1 - alpha[i] / C)) - lam * alpha[i];
    }
    report[INTERCEPT] = intercept;
    report[PRIMAL] = norm / 2 + loss;
    report[GAP] = norm + loss + dual;
    report[N_ITER] = double(info.n_iter);
    report[CONVERGED] = info.status == Status::optimal;
}

// Fits the penalised likelihood of all rows on the n_kept points Z: coef becomes n_kept coefficients and the intercept.
// Returns whether Newton's method converged.
int refit(const double* X, const double* y, int n, const double* Z, int n_kept, double C, double gamma, double* coef) {
    std::vector<std::int32_t> label(std::size_t(n), 0);
    for (int i = 0; i < n; ++i) label[std::size_t(i)] = y[i] > 0;
    const std::vector<double> weight(std::size_t(n), 1.0);
    const CompactRows<double> rows(plane_points(X, n), label, weight, 2);
    CompactInner<double> inner(rows, 1);
    for (int b = 0; b <= n_kept; ++b) coef[b] = 0;
    const double widths[n_features] = {gamma, gamma};
    if (!inner.move(plane_points(Z, n_kept), widths)) return 0;
    InnerSettings settings;
    settings.C = C;
    settings.tol = 1e-10;
    return inner.solve({coef, std::size_t(n_kept) + 1}, settings).converged;
}

// out[i] = sum_b coef[b] k(Q_i, Z_b) + intercept
void evaluate(const double* Z, const double* coef, int n_kept, double intercept, double gamma, const double* Q, int m,
              double* out) {
    const auto data = dense_points<double>(rbf(gamma), plane_points(Z, n_kept));
    const auto queries = dense_points<double>(rbf(gamma), plane_points(Q, m));
    decision<double>(*data, *queries, {coef, 1, std::size_t(n_kept)}, {out, 1, std::size_t(m)}, 1);
    for (int i = 0; i < m; ++i) out[i] += intercept;
}

}  // extern "C"
