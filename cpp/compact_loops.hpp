// The loops of CompactKLR that decide its speed, compiled once per instruction set and chosen at run time.
//
// Rows stand side by side: a block holds `rows` of them (a multiple of 16), and every array over the rows of a
// block is contiguous, so the lanes of a vector are rows and no number of points or features leaves lanes idle.
// T is the type of the data and of kernel values (float or double); every sum over rows ends in double.
#pragma once

#include <cstddef>
#include <cstdint>

namespace sparseklr {

template <class T> struct CompactLoops {
    // K[b][r] = exp(-sum_j (root_j x_jr - z_bj)^2); X is [p][rows], points are [k][p], already times root
    // (the square root of gamma); scaled is scratch of the size of X.
    void (*kernel)(const T* X, std::size_t rows, std::size_t p, const T* root, const T* points, std::size_t k,
                   T* scaled, T* K);

    // f[o][r] = start[o] + sum_b coef[o][b] K[b][r]
    void (*values)(const T* K, std::size_t rows, std::size_t k, const double* coef, const double* start,
                   std::size_t outputs, double* f);

    // out[o][b] += sum_r K[b][r] e[o][r], and out[o][k] += sum_r e[o][r]
    void (*project)(const T* K, std::size_t rows, std::size_t k, const double* e, std::size_t outputs, double* out);

    // Weighted losses of one output with labels 0 and 1: the sum of w (log(1 + exp f) - y f), its derivative
    // e = w (p - y) and probability p of every row.
    double (*logistic)(const double* f, const std::int32_t* label, const double* weight, std::size_t rows, double* e,
                       double* p);

    // The same of the softmax of several outputs: the sum of w (log sum_o exp f_o - f_label).
    double (*softmax)(const double* f, const std::int32_t* label, const double* weight, std::size_t rows,
                      std::size_t outputs, double* e, double* p);

    // Any number of points of which the share `target` belongs to the positive class: the loss of each, whatever
    // it weighs, and its weight times the two derivatives.  Returns the weighted sum; all is NaN where f is not finite.
    double (*cross_entropy)(const double* f, const double* target, const double* weight, std::size_t n, double* loss,
                            double* slope, double* curvature);

    // H[a][b] += sum_r h[r] K[a][r] K[b][r] for b <= a <= k, where K[k][r] = 1; H is [k + 1][k + 1].
    // scratch: (k + 5) * rows doubles.
    void (*curvature)(const T* K, std::size_t rows, std::size_t k, const double* h, double* scratch, double* H);

    // The moments that the gradient in points and widths is made of, with W[b][r] = K[b][r] s[b][r],
    // s[b][r] = sum_o e[o][r] coef[o][b]:
    // first[b][j] += sum_r W[b][r] X[j][r], mass[b] += sum_r W[b][r],
    // second[j] += sum_r (sum_b W[b][r]) X[j][r]^2.  scratch: (k + 2) * rows values.
    void (*moments)(const T* K, const T* X, std::size_t rows, std::size_t k, std::size_t p, const double* e,
                    const double* coef, std::size_t outputs, T* scratch, double* first, double* mass, double* second);
};

// Dense linear algebra of the size of the model; matrices are row-major, triangles are lower.
struct CompactAlgebra {
    // A = L L', L in place of the lower triangle; false if A is not positive definite
    bool (*cholesky)(double* A, std::size_t n);
    // B = L^-1 B for B of n rows and m columns
    void (*solve_lower)(const double* L, std::size_t n, double* B, std::size_t m);
    // x = L^-1 x and x = L^-T x
    void (*solve_vector)(const double* L, std::size_t n, double* x);
    void (*solve_transposed)(const double* L, std::size_t n, double* x);
    // sum_i a_i b_i
    double (*dot)(const double* a, const double* b, std::size_t n);
};

template <class T> const CompactLoops<T>& compact_loops();
const CompactAlgebra& compact_algebra();

}  // namespace sparseklr
