// Types that all parts of the solver use: Problem, Settings, State and SolveInfo.
//
// The problem is the dual of kernel logistic regression with a margin lam in the loss
// (formulation 2BM of Consolo, Manno and Amaldi, 2025, with one box per sample):
//
//     min_alpha  1/2 alpha'Q alpha + sum_i C_i G(alpha_i / C_i) - lam sum_i alpha_i
//     s.t.       y'alpha = const,  lo_i <= alpha_i <= C_i - lo_i,     Q_ij = y_i y_j K_ij
//
// with G(d) = d log d + (1 - d) log(1 - d).  The solver stores above_i = alpha_i - lo_i instead of alpha_i, which would
// lose relevant digits if C_i and lo_i are huge.  F_i = sum_j above_j y_j K_ij plus a constant that the caller chooses,
// because the solver only adds the effect of changes of alpha.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace sparseklr {

struct Problem {
    std::span<const double> y;      // labels, -1 or +1
    std::span<const double> box;    // C_i > 0
    std::span<const double> bound;  // lo_i, 0 < lo_i < C_i / 2
    double lam;                     // the margin, >= 0

    std::size_t n() const { return y.size(); }
};

enum class WorkingSet { first_order, second_order, mixed };
// stalled: rounding errors prevent further progress, although the tolerance has not been reached
enum class Status { optimal, max_iter, interrupted, stalled };

struct Settings {
    WorkingSet working_set = WorkingSet::mixed;
    double tol = 1e-5;                   // largest accepted violation max_up E - min_low E (see workspace.hpp)
    std::int64_t max_iter = 10'000'000;  // maximum number of pair steps
    int threads = 1;
    double poll_seconds = 0.05;  // interval between calls of the monitor
};

// The current iterate, in memory of the caller, so that an interrupted run can resume.  The solver writes it when it
// returns, also after an interruption, with consistent values of above and F.  It is unchanged if the solver throws.
struct State {
    std::span<double> above;  // alpha - lo, from 0 to C - 2 lo
    std::span<double> F;
};

// The progress of a run.
struct Snapshot {
    std::int64_t n_iter;  // pair steps so far
    double violation;     // max_up E - min_low E
    double seconds;       // since the start
};

// The result of a run.
struct SolveInfo {
    Status status = Status::max_iter;
    std::int64_t n_iter = 0;
    double violation = 0;         // at the end
    double upper = 0, lower = 0;  // max_up E and min_low E: the intercept lies between them;
                                  // -infinity or +infinity where I_up or I_low is empty
    double min_curvature = 0;     // smallest K_ii + K_jj - 2 K_ij, relative to its terms; negative if K is not PSD
    std::vector<Snapshot> history;
};

// A function that the solver calls regularly with the latest snapshot.  If it returns false, the run stops with
// Status::interrupted.
using Monitor = std::function<bool(const Snapshot&)>;

}  // namespace sparseklr
