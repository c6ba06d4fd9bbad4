// Dense linear algebra for matrices whose size is the number of points of a model, as used by CompactKLR and by the
// refit of SparseKLR.  Triangular matrices are lower triangular.
#pragma once

#include <span>

#include "dense_algebra_loops.hpp"
#include "views.hpp"

namespace sparseklr {

// Overwrites the lower triangle of A by its Cholesky factor L, A = L L'.  Returns false if A is not positive definite
// or not finite.
[[nodiscard]] inline bool cholesky(MatrixView<double> A) { return dense_algebra().cholesky(A.data(), A.rows); }
// B = L^-1 B
inline void solve_lower(MatrixView<const double> L, MatrixView<double> B) {
    dense_algebra().solve_lower(L.data(), L.rows, B.data(), B.columns);
}
// x = L^-1 x, for the first L.rows entries of x
inline void solve_vector(MatrixView<const double> L, std::span<double> x) {
    dense_algebra().solve_vector(L.data(), L.rows, x.data());
}
// x = L^-T x, for the first L.rows entries of x
inline void solve_transposed(MatrixView<const double> L, std::span<double> x) {
    dense_algebra().solve_transposed(L.data(), L.rows, x.data());
}
// sum_i a_i b_i
[[nodiscard]] inline double dot(std::span<const double> a, std::span<const double> b) {
    return dense_algebra().dot(a.data(), b.data(), a.size());
}

}  // namespace sparseklr
