// Sequential minimal optimisation: solves the dual two variables at a time.
#pragma once

#include <functional>
#include <span>

#include "problem.hpp"
#include "rows.hpp"

namespace sparseklr {

// Solves the problem from state.above and stores the solution there, by the SMO algorithm of the paper with either
// working-set rule, and with shrinking: points settled at a bound are set aside until the others are solved
// (Joachims, 1998).
template <class T>
SolveInfo solve(const Problem& problem, RowSource<T>& row_source, const Settings& settings, State state,
                const Monitor& monitor);

// Adds sum_k weight[k] row(indices[k]) to `out`, in double, with the rows of the solver.  `before_batch` is called
// regularly; an exception that it throws ends the sum.
template <class T>
void add_weighted_rows(RowSource<T>& row_source, std::span<const std::size_t> indices, std::span<const double> weight,
                       std::span<double> out, Team& team, const std::function<void()>& before_batch);

}  // namespace sparseklr
