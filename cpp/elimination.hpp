// The order in which the points of a model are eliminated.
#pragma once

#include <cstdint>
#include <span>

#include "views.hpp"

namespace sparseklr {

// Eliminates coefficients one after the other, as many as V has rows, each time the one whose beta_b^2 / sigma_bb is
// smallest; ties go to the lower index, and the last of the n, the intercept, stays.  `order` becomes their indices.
//
// Eliminating b conditions on beta_b = 0:
//     beta -= sigma_b beta_b / sigma_bb,   sigma -= v v',   v = sigma_b / sqrt(sigma_bb),
// sigma_b being column b of the present sigma.  The given sigma ([n][n], symmetric) is only read: the v of the k-th
// elimination is V.row(k), and columns and variances are updated with these.  beta is changed.
void eliminate(MatrixView<const double> sigma, std::span<double> beta, std::span<std::int64_t> order,
               MatrixView<double> V);

}  // namespace sparseklr
