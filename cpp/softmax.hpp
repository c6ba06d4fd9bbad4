// S-KLR for several classes in a single problem, with the softmax loss and a margin, solved in the dual.
//
// With f_k in the space of the kernel, g_k = f_k + b_k and a margin lam, the problem is
//
//     min_{f, b}  1/2 sum_k |f_k|^2 + sum_i C_i log sum_k exp(lam [k != y_i] + g_k(x_i) - g_{y_i}(x_i)).
//
// The variables of its dual are masses a_ik >= lo_i for every row i and class k, with sum_k a_ik = C_i.  With
// beta_ik = C_i [k = y_i] - a_ik, the dual is
//
//     min_a  1/2 sum_k beta_k' K beta_k + sum_ik a_ik log(a_ik / C_i) - lam sum_i sum_{k != y_i} a_ik
//     s.t.   sum_i beta_ik = const for every k,     f_k(x) = sum_i beta_ik k(x_i, x)
//
// As in problem.hpp, the solver stores above_ik = a_ik - lo_i.  A row whose mass is all in its own class does not
// contribute to the model.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "problem.hpp"
#include "rows.hpp"
#include "views.hpp"

namespace sparseklr {

struct SoftmaxProblem {
    std::span<const std::int64_t> label;  // y_i, the class of each row
    std::size_t n_classes;                // K >= 2
    std::span<const double> box;          // C_i > 0
    std::span<const double> bound;        // lo_i, 0 < K lo_i < C_i
    double lam;                           // the margin, >= 0

    std::size_t n() const { return label.size(); }
};

// The current iterate, in memory of the caller.  The solver writes it when it returns, and leaves it unchanged if it
// throws.  Matrices have one row per class and one column per training row.
struct SoftmaxState {
    MatrixView<double> above;     // a - lo; the entry of a row's own class is determined by its other entries
    MatrixView<double> F;         // f_k(x_i), plus a constant that the caller chooses
    std::span<double> intercept;  // b_k, which sum to zero; only written
};

// Solves the problem, starting from state.above, until the violation is at most settings.tol or the relative duality
// gap is at most gap_tol.  The violation is twice the largest amount by which a row violates the optimality conditions
// with the final intercepts; with two classes, it equals the violation of the binary solver.  The number of iterations
// counts steps of pairs of rows.
template <class T>
SolveInfo solve_softmax(const SoftmaxProblem& problem, RowSource<T>& row_source, const Settings& settings,
                        double gap_tol, SoftmaxState state, const Monitor& monitor);

}  // namespace sparseklr
