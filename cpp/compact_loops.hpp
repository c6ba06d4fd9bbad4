// The time-critical loops of CompactKLR, compiled once per instruction set (isa.hpp).
//
// A block consists of `rows` rows of data, a multiple of 16.  Every array over the rows of a block is contiguous, so
// the lanes of a vector are rows, and all lanes are used for any number of points or features.  T is the type of the
// data and of kernel values (float or double); sums over all rows are doubles.
#pragma once

#include <cstddef>
#include <cstdint>

namespace sparseklr {

template <class T> struct CompactLoops {
    // K[b][r] = exp(-sum_j (root_j x_jr - z_bj)^2), where root is the square root of gamma, X is [p][rows], and the
    // points z, [k][p], are already multiplied by root.  `scaled` is scratch memory of the size of X.
    void (*kernel)(const T* X, std::size_t rows, std::size_t p, const T* root, const T* points, std::size_t k,
                   T* scaled, T* K);

    // f[o][r] = start[o] + sum_b coef[o][b] K[b][r]
    void (*values)(const T* K, std::size_t rows, std::size_t k, const double* coef, const double* start,
                   std::size_t outputs, double* f);

    // out[o][b] += sum_r K[b][r] e[o][r], and out[o][k] += sum_r e[o][r]
    void (*project)(const T* K, std::size_t rows, std::size_t k, const double* e, std::size_t outputs, double* out);

    // The same two products with coefficients, residuals and sums in T.  This precision suffices for search directions,
    // whose rounding errors do not accumulate.
    void (*fast_values)(const T* K, std::size_t rows, std::size_t k, const T* coef, const T* start, std::size_t outputs,
                        T* f);
    void (*fast_project)(const T* K, std::size_t rows, std::size_t k, const T* e, std::size_t outputs, double* out);

    // H[a][b] += sum_r h[r] K[a][r] K[b][r] for b <= a <= k, where K[k][r] = 1; H is [k + 1][k + 1].
    // scratch: (k + 5) * rows doubles.
    void (*curvature)(const T* K, std::size_t rows, std::size_t k, const double* h, double* scratch, double* H);

    // The moments for the gradient in points and widths (see Moments in compact.hpp), with W[b][r] = K[b][r] s[b][r],
    // s[b][r] = sum_o e[o][r] coef[o][b]:
    // first[b][j] += sum_r W[b][r] X[j][r], mass[b] += sum_r W[b][r],
    // second[j] += sum_r (sum_b W[b][r]) X[j][r]^2.  scratch: (k + 2) * rows values.
    void (*moments)(const T* K, const T* X, std::size_t rows, std::size_t k, std::size_t p, const double* e,
                    const double* coef, std::size_t outputs, T* scratch, double* first, double* mass, double* second);
};

template <class T> const CompactLoops<T>& compact_loops();

}  // namespace sparseklr
