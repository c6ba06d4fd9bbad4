// The four types shared by all parts of the solver: Problem, Settings, State, SolveInfo.
//
// The problem is the dual of kernel logistic regression with a margin lam in the loss
// (formulation 2BM of Consolo, Manno and Amaldi, 2025, with one box per sample):
//
//     min_alpha  1/2 alpha'Q alpha + sum_i C_i G(alpha_i / C_i) - lam sum_i alpha_i
//     s.t.       y'alpha = const,  lo_i <= alpha_i <= C_i - lo_i,     Q_ij = y_i y_j K_ij
//
// with G(d) = d log d + (1 - d) log(1 - d).  The variables are above_i = alpha_i - lo_i: for a huge C_i, lo_i is huge
// too, and alpha_i would lose the digits that matter.  F_i = sum_j above_j y_j K_ij, up to a constant vector of the
// caller: the solver only adds the effect of changes of alpha.
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
// stalled: rounding errors prevent further progress before the tolerance is reached
enum class Status { optimal, max_iter, interrupted, stalled };

struct Settings {
    WorkingSet working_set = WorkingSet::mixed;
    double tol = 1e-5;                   // accepted violation max_up E - min_low E, absolute
    std::int64_t max_iter = 10'000'000;  // pair steps
    int threads = 1;
    double poll_seconds = 0.05;  // interval between calls of the monitor
};

// The iterate, in the caller's memory, so that a stopped run can resume.  It is written when the solver returns, with
// above and F consistent even after an interruption, and unchanged if the solver throws.
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
    double min_curvature = 0;     // smallest K_ii + K_jj - 2 K_ij seen, relative to its terms; negative: not PSD
    std::vector<Snapshot> history;
};

// Called regularly with the latest snapshot; returning false stops the run with Status::interrupted.
using Monitor = std::function<bool(const Snapshot&)>;

}  // namespace sparseklr
