// S-KLR for several classes in one problem: the dual of the softmax loss with a margin.
//
// With f_k in the space of the kernel, g_k = f_k + b_k and a margin lam, the problem is
//
//     min_{f, b}  1/2 sum_k |f_k|^2 + sum_i C_i log sum_k exp(lam [k != y_i] + g_k(x_i) - g_{y_i}(x_i)).
//
// Its dual has a mass a_ik >= lo_i for every row and class, sum_k a_ik = C_i, and beta_ik = C_i [k = y_i] - a_ik:
//
//     min_a  1/2 sum_k beta_k' K beta_k + sum_ik a_ik log(a_ik / C_i) - lam sum_i sum_{k != y_i} a_ik
//     s.t.   sum_i beta_ik = const for every k,     f_k(x) = sum_i beta_ik k(x_i, x)
//
// The variables are above_ik = a_ik - lo_i, as in problem.hpp: a row whose own class has all the mass is absent.
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

// The iterate, in the caller's memory; written when the solver returns, and unchanged if it throws.  Matrices have a
// row per class and a column per training row.
struct SoftmaxState {
    MatrixView<double> above;     // a - lo; the entries of the own class follow from the others
    MatrixView<double> F;         // f_k(x_i), up to a constant of the caller
    std::span<double> intercept;  // b_k with sum zero, written only
};

// Solves the problem from state.above, until the violation is at most settings.tol or the relative duality gap at most
// gap_tol.  `violation` of the result is twice the largest amount by which a row violates the optimality conditions
// with these intercepts; with two classes, it is that of the binary solver.  Steps are those of pairs of rows.
template <class T>
SolveInfo solve_softmax(const SoftmaxProblem& problem, RowSource<T>& row_source, const Settings& settings,
                        double gap_tol, SoftmaxState state, const Monitor& monitor);

}  // namespace sparseklr
