// Kernel values between two sets of points, in blocks.
#pragma once

#include "points.hpp"

namespace sparseklr {

// out(i, j) = k(queries[i], data[j])
template <class T>
void kernel_matrix(const Points<T>& data, const Points<T>& queries, MatrixView<T> out, int threads);

// out(o, i) = sum_j coef(o, j) k(queries[i], data[j]).
template <class T>
void decision(const Points<T>& data, const Points<T>& queries, MatrixView<const double> coef, MatrixView<double> out,
              int threads);

}  // namespace sparseklr
