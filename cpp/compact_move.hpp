// The outer problem of CompactKLR: find the points z and log-widths that minimise
//
//     F(z, log gamma) = min over (beta, c) of J + rho/2 a^2 + tau/2 sum_j r_j^2,
//     log gamma_j = -log p + a + r_j,  sum_j r_j = 0,
//
// where J is the objective of the inner problem (compact_inner.hpp).  The method is L-BFGS (Nocedal and Wright,
// Numerical Optimization, algorithms 7.4 and 7.5).
#pragma once

#include "compact_inner.hpp"

namespace sparseklr {

struct MoveSettings {
    double C = 1;
    double rho = 0.1, tau = 1;  // factors of the penalty on the mean log-width and on the deviations from it
    bool shared = false;        // whether all features have the same width; log_gamma then has a single entry
    int max_iter = 25;
    double tol = 1e-7;        // stop when a step lowers F by less than the fraction tol
    double inner_tol = 1e-5;  // tolerance of the inner problem (InnerSettings)
};

struct MoveOutcome {
    double value = 0;  // F
    int iterations = 0, evaluations = 0;
};

// Minimises F from points ([k][p]), log_gamma ([p], or [1] if shared) and coef ([n_outputs][k + 1]), which are
// overwritten by the best values found.  They are unchanged if the monitor of `inner` throws.
template <class T>
MoveOutcome move_points(CompactInner<T>& inner, MatrixView<double> points, std::span<double> log_gamma,
                        std::span<double> coef, const MoveSettings& settings);

}  // namespace sparseklr
