// Sequential minimal optimisation: the dual solved two variables at a time.
#pragma once

#include "problem.hpp"
#include "rows.hpp"

namespace sparseklr {

// Solves the problem from state.alpha on and leaves the solution there.
// The SMO Algorithm of the paper, with either rule for the working set, and with shrinking: points
// settled at a bound are set aside until the others are solved (Joachims, 1998).
template <class T>
SolveInfo solve(const Problem& problem, RowSource<T>& row_source, const Settings& settings, State state,
                const Monitor& monitor);

}  // namespace sparseklr
