// Bodies of the loops in compact_loops.hpp, for the instruction set SPARSEKLR_ISA; see simd_impl.hpp.
#pragma once

#include "compact_loops.hpp"
#include "tiles_impl.hpp"

namespace sparseklr::SPARSEKLR_ISA {

// -- kernel values ------------------------------------------------------------------------------

template <class T>
void compact_kernel(const T* X, std::size_t rows, std::size_t p, const T* root, const T* points, std::size_t k,
                    T* scaled, T* K) {
    for (std::size_t j = 0; j < p; ++j)
        for (std::size_t r = 0; r < rows; ++r) scaled[j * rows + r] = root[j] * X[j * rows + r];
    in_tiles<4>(k, [&]<int P>(std::size_t b) {
        for (std::size_t r = 0; r < rows; r += 2 * width<T>) {
            vec<T> acc[P][2] = {};
            for (std::size_t j = 0; j < p; ++j) {
                const T* line = scaled + j * rows + r;
                const vec<T> x[2] = {load<T>(line), load<T>(line + width<T>)};
#pragma GCC unroll 4
                for (int i = 0; i < P; ++i) {
                    const T z = points[(b + i) * p + j];
#pragma GCC unroll 2
                    for (int v = 0; v < 2; ++v) {
                        const vec<T> d = x[v] - z;
                        acc[i][v] += d * d;
                    }
                }
            }
#pragma GCC unroll 4
            for (int i = 0; i < P; ++i)
#pragma GCC unroll 2
                for (int v = 0; v < 2; ++v)
                    store<T>(K + (b + i) * rows + r + v * width<T>, exp_nonpositive<T>(-acc[i][v]));
        }
    });
}

// -- products with coefficients and residuals ---------------------------------------------------

// Returns a vector of type E with values of type T.
template <class T, class E> inline vec<E> loaded(const T* p) {
    if constexpr (sizeof(T) == sizeof(E)) return load<E>(p);
    else return widened(p);
}

// E is the type of coefficients and sums.
template <class T, class E>
void compact_values(const T* K, std::size_t rows, std::size_t k, const E* coef, const E* start, std::size_t outputs,
                    E* f) {
    in_tiles<4>(outputs, [&]<int O>(std::size_t o) {
        constexpr int V = O == 1 ? 16 / width<E> : 2;  // vectors of rows
        for (std::size_t r = 0; r < rows; r += width<E> * V) {
            vec<E> acc[O][V];
            for (int i = 0; i < O; ++i)
                for (int v = 0; v < V; ++v) acc[i][v] = vec<E>{} + start[o + i];
            for (std::size_t b = 0; b < k; ++b) {
                vec<E> x[V];
#pragma GCC unroll 4
                for (int v = 0; v < V; ++v) x[v] = loaded<T, E>(K + b * rows + r + width<E> * v);
#pragma GCC unroll 4
                for (int i = 0; i < O; ++i) {
                    const E c = coef[(o + i) * k + b];
#pragma GCC unroll 4
                    for (int v = 0; v < V; ++v) acc[i][v] += c * x[v];
                }
            }
            for (int i = 0; i < O; ++i)
                for (int v = 0; v < V; ++v) store<E>(f + (o + i) * rows + r + width<E> * v, acc[i][v]);
        }
    });
}

template <class T, class E>
void compact_project(const T* K, std::size_t rows, std::size_t k, const E* e, std::size_t outputs, double* out) {
    in_tiles<4>(outputs, [&]<int O>(std::size_t o) {
        constexpr int V = O == 1 ? 2 : 1;  // vectors of rows
        const E* residual = e + o * rows;
        double* sums = out + o * (k + 1);
        in_tiles<O == 1 ? 4 : 3>(k, [&]<int P>(std::size_t b) {
            vec<E> acc[O][P][V] = {};
            for (std::size_t r = 0; r < rows; r += width<E> * V) {
                vec<E> x[P][V];
#pragma GCC unroll 4
                for (int i = 0; i < P; ++i)
                    for (int v = 0; v < V; ++v) x[i][v] = loaded<T, E>(K + (b + i) * rows + r + width<E> * v);
#pragma GCC unroll 4
                for (int q = 0; q < O; ++q)
#pragma GCC unroll 2
                    for (int v = 0; v < V; ++v) {
                        const vec<E> y = load<E>(residual + q * rows + r + width<E> * v);
#pragma GCC unroll 4
                        for (int i = 0; i < P; ++i) acc[q][i][v] += y * x[i][v];
                    }
            }
            for (int q = 0; q < O; ++q)
                for (int i = 0; i < P; ++i) {
                    vec<E> sum = acc[q][i][0];
                    for (int v = 1; v < V; ++v) sum += acc[q][i][v];
                    sums[q * (k + 1) + b + i] += lane_sum<E>(sum);
                }
        });
        for (int q = 0; q < O; ++q) {
            vec<E> acc{};
            for (std::size_t r = 0; r < rows; r += width<E>) acc += load<E>(residual + q * rows + r);
            sums[q * (k + 1) + k] += lane_sum<E>(acc);
        }
    });
}

// -- sums of products ---------------------------------------------------------------------------

template <class T>
void compact_curvature(const T* K, std::size_t rows, std::size_t k, const double* h, double* scratch, double* H) {
    // Rows are processed in parts, so that the kernel values of all points, as doubles, fit into the second-level
    // cache.
    const std::size_t part = k <= 128 || rows % 64 ? rows : 64, n = k + 1;
    double* wide = scratch;              // [k + 1][part], the last line all ones
    double* panel = scratch + n * part;  // [4][part], times h
    for (std::size_t first = 0; first < rows; first += part) {
        for (std::size_t b = 0; b < k; ++b)
            for (std::size_t r = 0; r < part; r += 4)
                store<double>(wide + b * part + r, widened(K + b * rows + first + r));
        for (std::size_t r = 0; r < part; ++r) wide[k * part + r] = 1;
        in_tiles<4>(n, [&]<int P>(std::size_t a) {
            for (int i = 0; i < P; ++i)
                for (std::size_t r = 0; r < part; ++r) panel[i * part + r] = h[first + r] * wide[(a + i) * part + r];
            // whole tiles up to the diagonal; entries above the diagonal are never read
            in_tiles<3>(a + P, [&]<int Q>(std::size_t b) {
                dot_tile<double, P, Q>(panel, part, wide + b * part, part, part, H + a * n + b, n);
            });
        });
    }
}

template <class T>
void compact_moments(const T* K, const T* X, std::size_t rows, std::size_t k, std::size_t p, const double* e,
                     const double* coef, std::size_t outputs, T* scratch, double* first, double* mass, double* second) {
    T* W = scratch;                 // [k][rows]
    T* total = scratch + k * rows;  // [rows]
    T* line = total + rows;         // [rows]
    for (std::size_t r = 0; r < rows; ++r) total[r] = 0;
    for (std::size_t b = 0; b < k; ++b) {
        T* w = W + b * rows;
        vd sum{};
        for (std::size_t r = 0; r < rows; r += 4) {
            vd s{};
            for (std::size_t o = 0; o < outputs; ++o) s += coef[o * k + b] * load<double>(e + o * rows + r);
            s *= widened(K + b * rows + r);
            sum += s;
            for (int l = 0; l < 4; ++l) w[r + l] = T(s[l]);
        }
        mass[b] += lane_sum<double>(sum);
        for (std::size_t r = 0; r < rows; ++r) total[r] += w[r];
    }
    in_tiles<4>(k, [&]<int P>(std::size_t b) {
        in_tiles<3>(p, [&]<int Q>(std::size_t j) {
            dot_tile<T, P, Q>(W + b * rows, rows, X + j * rows, rows, rows, first + b * p + j, p);
        });
    });
    for (std::size_t j = 0; j < p; ++j) {
        for (std::size_t r = 0; r < rows; ++r) line[r] = total[r] * X[j * rows + r];
        dot_tile<T, 1, 1>(line, rows, X + j * rows, rows, rows, second + j, p);
    }
}

template <class T>
constexpr CompactLoops<T> compact_table{compact_kernel<T>,    compact_values<T, double>, compact_project<T, double>,
                                        compact_values<T, T>, compact_project<T, T>,     compact_curvature<T>,
                                        compact_moments<T>};

}  // namespace sparseklr::SPARSEKLR_ISA

#define SPARSEKLR_EXPORT_COMPACT(isa)                                                    \
    namespace sparseklr {                                                                \
    extern const CompactLoops<float> compact_float_##isa = isa::compact_table<float>;    \
    extern const CompactLoops<double> compact_double_##isa = isa::compact_table<double>; \
    }
