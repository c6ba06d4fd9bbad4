// Sequential minimal optimisation: pairs, and blocks of points solved by pairs.
#pragma once

#include "problem.hpp"
#include "rows.hpp"

namespace sparseklr {

// Solves the problem from state.alpha on and leaves the solution there.
// Working sets first_order and second_order are the SMO Algorithm of the paper on all points;
// block is the same algorithm on blocks of the most violating points.
template <class T>
Outcome solve(const Problem& problem, RowSource<T>& rows, const Settings& settings, State state,
              const Monitor& monitor);

}  // namespace sparseklr
