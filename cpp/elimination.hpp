// The order in which backward elimination removes the points of a model.
#pragma once

#include <cstdint>
#include <span>

#include "views.hpp"

namespace sparseklr {

// Eliminates as many points as V has rows, in each step the one with the smallest |beta_b|^2 / sigma_bb, where beta
// ([n_outputs][n]) has a coefficient of each point for every output; ties go to the lower index, and the last of the
// n, the intercept, is never eliminated.  `order` receives their indices.
//
// Eliminating b conditions on beta_b = 0:
//     beta -= sigma_b beta_b / sigma_bb,   sigma -= v v',   v = sigma_b / sqrt(sigma_bb),
// where sigma_b is column b of the current sigma.  The given sigma ([n][n], symmetric) is only read: V.row(k) is the v
// of the k-th elimination, from which current columns and variances are computed.  beta is modified.
void eliminate(MatrixView<const double> sigma, MatrixView<double> beta, std::span<std::int64_t> order,
               MatrixView<double> V);

}  // namespace sparseklr
