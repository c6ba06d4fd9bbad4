// Sequential minimal optimisation (SMO), which solves the dual problem by changing two variables at a time.
#pragma once

#include <functional>
#include <span>

#include "problem.hpp"
#include "rows.hpp"

namespace sparseklr {

// Solves the problem, starting from state.above, where it stores the solution.  The algorithm is the SMO algorithm of
// Consolo, Manno and Amaldi (2025) with shrinking: points that are settled at a bound are ignored until the problem is
// solved for all other points (Joachims, 1998).
template <class T>
SolveInfo solve(const Problem& problem, RowSource<T>& row_source, const Settings& settings, State state,
                const Monitor& monitor);

// Adds sum_k weight[k] row(indices[k]) to `out`, in double.  `before_batch` is called before each batch of rows; it may
// throw to stop the sum.
template <class T>
void add_weighted_rows(RowSource<T>& row_source, std::span<const std::size_t> indices, std::span<const double> weight,
                       std::span<double> out, Team& team, const std::function<void()>& before_batch);

}  // namespace sparseklr
