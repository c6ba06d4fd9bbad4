// Order in which backward elimination removes the points of a model.
#pragma once

#include <cstdint>
#include <span>

#include "views.hpp"

namespace sparseklr {

// Eliminates as many points as V has rows, and stores their indices in `order`.  beta ([n_outputs][n]) contains the
// coefficients of the points for every output; the last of the n columns is the intercept, which is never eliminated.
// Each step eliminates the point b with the smallest |beta_b|^2 / sigma_bb, and among equal ones the lowest index.
//
// Eliminating b conditions the normal distribution of the coefficients on beta_b = 0:
//     beta -= sigma_b beta_b / sigma_bb,   sigma -= v v',   v = sigma_b / sqrt(sigma_bb),
// where sigma_b is column b of the current covariance.  The given covariance sigma ([n][n], symmetric) is not modified.
// V.row(k) is the vector v of the k-th elimination, from which current columns and variances are computed.  beta is
// modified.
void eliminate(MatrixView<const double> sigma, MatrixView<double> beta, std::span<std::int64_t> order,
               MatrixView<double> V);

}  // namespace sparseklr
