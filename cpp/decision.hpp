// Kernel values between two sets of points, in blocks.
#pragma once

#include "points.hpp"

namespace sparseklr {

// out[(i - begin) * stride + j] = k(queries[i], data[j]) for i in [begin, end).
template <class T>
void kernel_block(const Points<T>& data, const Points<T>& queries, std::size_t begin,
                  std::size_t end, T* out, std::size_t stride, int threads);

// out[i * n_outputs + o] = sum_j coef[o * data.size() + j] k(queries[i], data[j]).
// Needs about 1 MB per thread, whatever the sizes.
template <class T>
void decision(const Points<T>& data, const Points<T>& queries, const double* coef,
              std::size_t n_outputs, double* out, int threads);

}  // namespace sparseklr
