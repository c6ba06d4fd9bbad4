// Bodies of the loops in compact_loops.hpp, for the instruction set SPARSEKLR_ISA; see simd_impl.hpp.
#pragma once

#include "compact_loops.hpp"
#include "simd_impl.hpp"

namespace sparseklr::SPARSEKLR_ISA {

using vd = vec<double>;

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

// Calls body.template operator()<count>() for whole tiles of N items, then singly.
template <int N, class Body> inline void in_tiles(std::size_t n, const Body& body) {
    std::size_t i = 0;
    for (; i + N <= n; i += N) body.template operator()<N>(i);
    for (; i < n; ++i) body.template operator()<1>(i);
}

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

template <class T>
void compact_values(const T* K, std::size_t rows, std::size_t k, const double* coef, const double* start,
                    std::size_t outputs, double* f) {
    in_tiles<4>(outputs, [&]<int O>(std::size_t o) {
        constexpr int V = O == 1 ? 4 : 2;  // vectors of four rows
        for (std::size_t r = 0; r < rows; r += 4 * V) {
            vd acc[O][V];
            for (int i = 0; i < O; ++i)
                for (int v = 0; v < V; ++v) acc[i][v] = vd{} + start[o + i];
            for (std::size_t b = 0; b < k; ++b) {
                vd x[V];
#pragma GCC unroll 4
                for (int v = 0; v < V; ++v) x[v] = widened(K + b * rows + r + 4 * v);
#pragma GCC unroll 4
                for (int i = 0; i < O; ++i) {
                    const double c = coef[(o + i) * k + b];
#pragma GCC unroll 4
                    for (int v = 0; v < V; ++v) acc[i][v] += c * x[v];
                }
            }
            for (int i = 0; i < O; ++i)
                for (int v = 0; v < V; ++v) store<double>(f + (o + i) * rows + r + 4 * v, acc[i][v]);
        }
    });
}

template <class T>
void compact_project(const T* K, std::size_t rows, std::size_t k, const double* e, std::size_t outputs, double* out) {
    for (std::size_t o = 0; o < outputs; ++o) {
        const double* residual = e + o * rows;
        double* sums = out + o * (k + 1);
        in_tiles<4>(k, [&]<int P>(std::size_t b) {
            vd acc[P][2] = {};
            for (std::size_t r = 0; r < rows; r += 8) {
                const vd x[2] = {load<double>(residual + r), load<double>(residual + r + 4)};
#pragma GCC unroll 4
                for (int i = 0; i < P; ++i)
#pragma GCC unroll 2
                    for (int v = 0; v < 2; ++v) acc[i][v] += x[v] * widened(K + (b + i) * rows + r + 4 * v);
            }
            for (int i = 0; i < P; ++i) sums[b + i] += lane_sum<double>(acc[i][0] + acc[i][1]);
        });
        vd acc{};
        for (std::size_t r = 0; r < rows; r += 4) acc += load<double>(residual + r);
        sums[k] += lane_sum<double>(acc);
    }
}

// -- losses -------------------------------------------------------------------------------------

// log(1 + u) for u >= 0: 1 + u = 2^n (1 + t) with t in [-0.29, 0.42], log(1 + t) = 2 atanh(t / (2 + t)).
// Within 2 units in the last place of the result or of 1 + u.
inline vd log1p_nonnegative(vd u) {
    typedef std::int64_t bits __attribute__((vector_size(32)));
    constexpr double root2 = 1.4142135623730951, ln2 = 0.6931471805599453;
    const vd m = 1 + u;
    bits b;
    memcpy(&b, &m, sizeof b);
    bits n = (b >> 52) - 1023;
    b = (b & ((std::int64_t(1) << 52) - 1)) | (std::int64_t(1023) << 52);
    vd fraction;
    memcpy(&fraction, &b, sizeof fraction);  // in [1, 2)
    const bits large = fraction > root2;
    fraction = large ? 0.5 * fraction : fraction;
    n = large ? n + 1 : n;
    const vd t = n == 0 ? u : fraction - 1;  // u itself keeps the digits that 1 + u loses
    const vd s = t / (2 + t), q = s * s;
    vd sum = vd{} + 1.0 / 23;
    for (int d = 21; d >= 1; d -= 2) sum = sum * q + 1.0 / d;
    return __builtin_convertvector(n, vd) * ln2 + 2 * s * sum;
}

inline vd indicator(const std::int32_t* label, std::int32_t value) {
    return vd{double(label[0] == value), double(label[1] == value), double(label[2] == value), double(label[3] == value)};
}

inline double compact_logistic(const double* f, const std::int32_t* label, const double* weight, std::size_t rows,
                               double* e, double* p) {
    vd loss{};
    for (std::size_t r = 0; r < rows; r += 4) {
        const vd x = load<double>(f + r), w = load<double>(weight + r), y = indicator(label + r, 1);
        const vd u = exp_nonpositive<double>(-magnitude<double>(x));
        const vd major = 1 / (1 + u), minor = u * major;  // sigmoid(|x|), sigmoid(-|x|)
        const vd up = x > 0 ? major : minor, down = x > 0 ? minor : major;
        const vd signed_x = (1 - 2 * y) * x;  // the loss is log(1 + exp(signed_x))
        loss += w * (larger<double>(signed_x, vd{}) + log1p_nonnegative(u));
        store<double>(e + r, w * (y > 0 ? -down : up));
        store<double>(p + r, up);
    }
    return lane_sum<double>(loss);
}

inline double compact_softmax(const double* f, const std::int32_t* label, const double* weight, std::size_t rows,
                              std::size_t outputs, double* e, double* p) {
    vd loss{};
    for (std::size_t r = 0; r < rows; r += 4) {
        const vd w = load<double>(weight + r);
        vd top = load<double>(f + r);
        for (std::size_t o = 1; o < outputs; ++o) top = larger<double>(top, load<double>(f + o * rows + r));
        vd sum{}, own{};
        for (std::size_t o = 0; o < outputs; ++o) {
            const vd below = load<double>(f + o * rows + r) - top, u = exp_nonpositive<double>(below);
            store<double>(p + o * rows + r, u);
            sum += u;
            own += indicator(label + r, std::int32_t(o)) * below;
        }
        loss += w * (log1p_nonnegative(larger<double>(sum - 1, vd{})) - own);
        const vd inverse = 1 / sum;
        for (std::size_t o = 0; o < outputs; ++o) {
            const vd q = load<double>(p + o * rows + r) * inverse;
            store<double>(p + o * rows + r, q);
            store<double>(e + o * rows + r, w * (q - indicator(label + r, std::int32_t(o))));
        }
    }
    return lane_sum<double>(loss);
}

inline void four_cross_entropies(const double* f, const double* target, const double* weight, double* loss,
                                 double* slope, double* curvature) {
    const vd x = load<double>(f), t = load<double>(target), w = load<double>(weight);
    const vd finite = x - x;  // zero, or not a number
    const vd u = exp_nonpositive<double>(-magnitude<double>(x));
    const vd major = 1 / (1 + u), minor = u * major;
    const vd p = x > 0 ? major : minor, q = x > 0 ? minor : major;
    const vd up = larger<double>(x, vd{}), down = larger<double>(-x, vd{});
    store<double>(loss, log1p_nonnegative(u) + (1 - t) * up + t * down + finite);
    store<double>(slope, w * ((1 - t) * p - t * q) + finite);
    store<double>(curvature, w * (p * q) + finite);
}

inline double cross_entropy(const double* f, const double* target, const double* weight, std::size_t n, double* loss,
                            double* slope, double* curvature) {
    vd sum{};
    const std::size_t whole = n / 4 * 4;
    for (std::size_t i = 0; i < whole; i += 4) {
        four_cross_entropies(f + i, target + i, weight + i, loss + i, slope + i, curvature + i);
        sum += load<double>(weight + i) * load<double>(loss + i);
    }
    double total = lane_sum<double>(sum);
    if (whole < n) {
        double in[3][4] = {}, out[3][4];
        const std::size_t bytes = (n - whole) * sizeof(double);
        memcpy(in[0], f + whole, bytes);
        memcpy(in[1], target + whole, bytes);
        memcpy(in[2], weight + whole, bytes);
        four_cross_entropies(in[0], in[1], in[2], out[0], out[1], out[2]);
        memcpy(loss + whole, out[0], bytes);
        memcpy(slope + whole, out[1], bytes);
        memcpy(curvature + whole, out[2], bytes);
        for (std::size_t i = whole; i < n; ++i) total += weight[i] * loss[i];
    }
    return total;
}

// -- sums of products ---------------------------------------------------------------------------

// C[a][b] += sum_r A[a][r] B[b][r] for a tile; accumulators stay in registers.
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

template <class T>
void compact_curvature(const T* K, std::size_t rows, std::size_t k, const double* h, double* scratch, double* H) {
    // Sub-blocks of rows such that the doubles of all points stay in the second-level cache.
    const std::size_t part = k <= 128 || rows % 64 ? rows : 64, n = k + 1;
    double* wide = scratch;              // [k + 1][part], the last line all ones
    double* panel = scratch + n * part;  // [4][part], times h
    for (std::size_t first = 0; first < rows; first += part) {
        for (std::size_t b = 0; b < k; ++b)
            for (std::size_t r = 0; r < part; r += 4) store<double>(wide + b * part + r, widened(K + b * rows + first + r));
        for (std::size_t r = 0; r < part; ++r) wide[k * part + r] = 1;
        in_tiles<4>(n, [&]<int P>(std::size_t a) {
            for (int i = 0; i < P; ++i)
                for (std::size_t r = 0; r < part; ++r) panel[i * part + r] = h[first + r] * wide[(a + i) * part + r];
            // whole tiles up to the diagonal: what lies above it in the last ones is never read
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

// -- linear algebra of the model ----------------------------------------------------------------

inline double compact_dot(const double* a, const double* b, std::size_t n) {
    double total = 0;
    const std::size_t whole = n / 4 * 4;
    dot_tile<double, 1, 1>(a, 0, b, 0, whole, &total, 0);
    for (std::size_t i = whole; i < n; ++i) total += a[i] * b[i];
    return total;
}

// C[i][j] -= sum_l A[i][l] B[l][j] for P rows and 4 V columns.
template <int P, int V>
inline void subtract_tile(const double* A, std::size_t stride_a, const double* B, std::size_t stride_b, std::size_t inner,
                          double* C, std::size_t stride_c) {
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

// Panels of columns: what the columns before a panel take from it is a product of rows with rows, which runs at
// the speed of dot_tile; inside the panel it goes entry by entry.
inline bool compact_cholesky(double* A, std::size_t n) {
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
                for (std::size_t j = 0; j < columns && first + j <= i + r; ++j) A[(i + r) * n + first + j] -= taken[r * columns + j];
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

inline void compact_solve_lower(const double* L, std::size_t n, double* B, std::size_t m) {
    constexpr std::size_t panel = 16;
    const std::size_t whole = m / 12 * 12;
    for (std::size_t first = 0; first < n; first += panel) {
        const std::size_t last = first + panel < n ? first + panel : n;
        // take off what the rows above the panel give, then solve within it
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

// One column: sums instead of updates, for they read L along its rows.
inline void compact_solve_vector(const double* L, std::size_t n, double* x) {
    for (std::size_t i = 0; i < n; ++i) x[i] = (x[i] - compact_dot(L + i * n, x, i)) / L[i * n + i];
}

inline void compact_solve_transposed(const double* L, std::size_t n, double* x) {
    for (std::size_t i = n; i-- > 0;) {
        x[i] /= L[i * n + i];
        const double factor = x[i];
        for (std::size_t a = 0; a < i; ++a) x[a] -= factor * L[i * n + a];
    }
}

template <class T>
constexpr CompactLoops<T> compact_table{compact_kernel<T>, compact_values<T>,    compact_project<T>, compact_logistic,
                                        compact_softmax,   cross_entropy,        compact_curvature<T>, compact_moments<T>};

}  // namespace sparseklr::SPARSEKLR_ISA

#define SPARSEKLR_EXPORT_COMPACT(isa)                                                                        \
    namespace sparseklr {                                                                                     \
    extern const CompactLoops<float> compact_float_##isa = isa::compact_table<float>;                         \
    extern const CompactLoops<double> compact_double_##isa = isa::compact_table<double>;                      \
    extern const CompactAlgebra compact_algebra_##isa{isa::compact_cholesky, isa::compact_solve_lower,         \
                                                      isa::compact_solve_vector, isa::compact_solve_transposed, \
                                                      isa::compact_dot};                                       \
    }
