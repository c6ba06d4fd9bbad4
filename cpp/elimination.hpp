// The order in which the points of a model are eliminated.
#pragma once

#include <cstddef>
#include <cstdint>

namespace sparseklr {

// Takes `size` coefficients away, one after the other, each time the one whose beta_b^2 / sigma_bb is smallest; the
// last of the n, the intercept, stays.  sigma (n x n, symmetric) is only read: what the k-th of them takes from it is
// the outer product of V[k] (n values) with itself.  beta is moved.  Ties go to the lower index.
void eliminate(const double* sigma, double* beta, std::size_t n, std::size_t size, std::int64_t* gone, double* V);

}  // namespace sparseklr
