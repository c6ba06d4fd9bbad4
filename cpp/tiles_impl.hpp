// Helpers that several loop bodies use, for the instruction set SPARSEKLR_ISA; see simd_impl.hpp.
#pragma once

#include "simd_impl.hpp"

namespace sparseklr::SPARSEKLR_ISA {

template <class T> inline double lane_sum(vec<T> v) {
    double total = 0;
    for (int l = 0; l < width<T>; ++l) total += double(v[l]);
    return total;
}

// Four values as doubles.
inline vd widened(const double* p) { return load<double>(p); }
inline vd widened(const float* p) {
    typedef float half __attribute__((vector_size(16)));
    half v;
    memcpy(&v, p, sizeof v);
    return __builtin_convertvector(v, vd);
}

// Calls body.template operator()<count>() for whole tiles of N items, then for each remaining item.
template <int N, class Body> inline void in_tiles(std::size_t n, const Body& body) {
    std::size_t i = 0;
    for (; i + N <= n; i += N) body.template operator()<N>(i);
    for (; i < n; ++i) body.template operator()<1>(i);
}

// C[a][b] += sum_r A[a][r] B[b][r] for a tile of entries, whose sums stay in registers.
template <class T, int P, int Q>
inline void dot_tile(const T* A, std::size_t stride_a, const T* B, std::size_t stride_b, std::size_t rows, double* C,
                     std::size_t stride_c) {
    vec<T> acc[P][Q] = {};
    for (std::size_t r = 0; r < rows; r += width<T>) {
        vec<T> y[Q];
#pragma GCC unroll 4
        for (int j = 0; j < Q; ++j) y[j] = load<T>(B + j * stride_b + r);
#pragma GCC unroll 4
        for (int i = 0; i < P; ++i) {
            const vec<T> x = load<T>(A + i * stride_a + r);
#pragma GCC unroll 4
            for (int j = 0; j < Q; ++j) acc[i][j] += x * y[j];
        }
    }
    for (int i = 0; i < P; ++i)
        for (int j = 0; j < Q; ++j) C[i * stride_c + j] += lane_sum<T>(acc[i][j]);
}

}  // namespace sparseklr::SPARSEKLR_ISA
