// Bodies of the loops in dense_algebra_loops.hpp, for the instruction set SPARSEKLR_ISA; see simd_impl.hpp.
#pragma once

#include "dense_algebra_loops.hpp"
#include "tiles_impl.hpp"

namespace sparseklr::SPARSEKLR_ISA {

inline double dense_dot(const double* a, const double* b, std::size_t n) {
    double total = 0;
    const std::size_t whole = n / 4 * 4;
    dot_tile<double, 1, 1>(a, 0, b, 0, whole, &total, 0);
    for (std::size_t i = whole; i < n; ++i) total += a[i] * b[i];
    return total;
}

// C[i][j] -= sum_l A[i][l] B[l][j] for P rows and 4 V columns.
template <int P, int V>
inline void subtract_tile(const double* A, std::size_t stride_a, const double* B, std::size_t stride_b,
                          std::size_t inner, double* C, std::size_t stride_c) {
    vd acc[P][V];
    for (int i = 0; i < P; ++i)
        for (int v = 0; v < V; ++v) acc[i][v] = load<double>(C + i * stride_c + 4 * v);
    for (std::size_t l = 0; l < inner; ++l) {
        vd y[V];
#pragma GCC unroll 4
        for (int v = 0; v < V; ++v) y[v] = load<double>(B + l * stride_b + 4 * v);
#pragma GCC unroll 4
        for (int i = 0; i < P; ++i) {
            const double x = A[i * stride_a + l];
#pragma GCC unroll 4
            for (int v = 0; v < V; ++v) acc[i][v] -= x * y[v];
        }
    }
    for (int i = 0; i < P; ++i)
        for (int v = 0; v < V; ++v) store<double>(C + i * stride_c + 4 * v, acc[i][v]);
}

// Factorises panels of columns in turn.  The contribution of the columns before a panel is a product of rows, computed
// by dot_tile; within the panel, the factorisation proceeds entry by entry.
inline bool cholesky(double* A, std::size_t n) {
    constexpr std::size_t panel = 24;
    double taken[4 * panel];
    for (std::size_t first = 0; first < n; first += panel) {
        const std::size_t last = first + panel < n ? first + panel : n, columns = last - first;
        in_tiles<4>(n - first, [&]<int P>(std::size_t offset) {
            const std::size_t i = first + offset;
            for (std::size_t t = 0; t < P * columns; ++t) taken[t] = 0;
            in_tiles<3>(columns, [&]<int Q>(std::size_t j) {  // first is a multiple of 4
                dot_tile<double, P, Q>(A + i * n, n, A + (first + j) * n, n, first, taken + j, columns);
            });
            for (int r = 0; r < P; ++r)
                for (std::size_t j = 0; j < columns && first + j <= i + r; ++j)
                    A[(i + r) * n + first + j] -= taken[r * columns + j];
        });
        for (std::size_t i = first; i < n; ++i) {
            double* row = A + i * n;
            for (std::size_t j = first; j < last && j <= i; ++j) {
                const double* other = A + j * n;
                double value = row[j];
                for (std::size_t l = first; l < j; ++l) value -= row[l] * other[l];
                if (j < i) {
                    row[j] = value / other[j];
                } else {
                    if (!(value > 0)) return false;
                    row[j] = __builtin_sqrt(value);
                }
            }
        }
    }
    return true;
}

inline void solve_lower(const double* L, std::size_t n, double* B, std::size_t m) {
    constexpr std::size_t panel = 16;
    const std::size_t whole = m / 12 * 12;
    for (std::size_t first = 0; first < n; first += panel) {
        const std::size_t last = first + panel < n ? first + panel : n;
        // subtract the contribution of the rows above the panel, then solve within it
        in_tiles<4>(last - first, [&]<int P>(std::size_t offset) {
            const std::size_t i = first + offset;
            for (std::size_t c = 0; c < whole; c += 12)
                subtract_tile<P, 3>(L + i * n, n, B + c, m, first, B + i * m + c, m);
            for (int r = 0; r < P && whole < m; ++r)
                for (std::size_t l = 0; l < first; ++l) {
                    const double factor = L[(i + r) * n + l];
                    for (std::size_t c = whole; c < m; ++c) B[(i + r) * m + c] -= factor * B[l * m + c];
                }
        });
        for (std::size_t i = first; i < last; ++i) {
            double* row = B + i * m;
            for (std::size_t l = first; l < i; ++l) {
                const double factor = L[i * n + l];
                for (std::size_t c = 0; c < m; ++c) row[c] -= factor * B[l * m + c];
            }
            const double inverse = 1 / L[i * n + i];
            for (std::size_t c = 0; c < m; ++c) row[c] *= inverse;
        }
    }
}

// With a single column, the entries are computed by dot products, which read L along its rows.
inline void solve_vector(const double* L, std::size_t n, double* x) {
    for (std::size_t i = 0; i < n; ++i) x[i] = (x[i] - dense_dot(L + i * n, x, i)) / L[i * n + i];
}

inline void solve_transposed(const double* L, std::size_t n, double* x) {
    for (std::size_t i = n; i-- > 0;) {
        x[i] /= L[i * n + i];
        const double factor = x[i];
        for (std::size_t a = 0; a < i; ++a) x[a] -= factor * L[i * n + a];
    }
}

}  // namespace sparseklr::SPARSEKLR_ISA

#define SPARSEKLR_EXPORT_DENSE_ALGEBRA(isa)                                                           \
    namespace sparseklr {                                                                             \
    extern const DenseAlgebra dense_algebra_##isa{isa::cholesky, isa::solve_lower, isa::solve_vector, \
                                                  isa::solve_transposed, isa::dense_dot};             \
    }
