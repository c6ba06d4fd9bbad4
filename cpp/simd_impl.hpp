// Bodies of the time-critical loops. One translation unit per instruction set includes this file; it defines
// SPARSEKLR_ISA (a namespace) and is compiled with its own -march. No code here may call a library template, because
// the linker could use the instance in translation units for other instruction sets.
//
// Vectors are the vector types of GCC and Clang, of 64 bytes with AVX-512 and of 32 bytes otherwise; the compiler
// splits them on processors with narrower registers.  Results do not depend on this size, because lanes are separate
// values, not partial sums.
#pragma once

#include <math.h>
#include <string.h>
#if defined(__FMA__)
#include <immintrin.h>
#endif
#if defined(__AVX512F__)
#define SPARSEKLR_VECTOR 64
#else
#define SPARSEKLR_VECTOR 32
#endif

#include "simd.hpp"

namespace sparseklr::SPARSEKLR_ISA {

constexpr double infinity = __builtin_inf();

template <class T> struct Vec;
template <> struct Vec<float> {
    typedef float type __attribute__((vector_size(SPARSEKLR_VECTOR)));
    typedef std::int32_t bits __attribute__((vector_size(SPARSEKLR_VECTOR)));
    // cut-off, 1/ln 2, ln 2 in two parts, the number that leaves the rounded exponent in the low bits
    static constexpr float least = -87.0f, log2e = 1.44269504f, ln2_hi = 0.693359375f, ln2_lo = -2.12194440e-4f,
                           shifter = 0x1.8p23f;
    static constexpr std::int32_t bias = 127, mantissa = 23;
    static constexpr int terms = 7;
};
template <> struct Vec<double> {
    typedef double type __attribute__((vector_size(SPARSEKLR_VECTOR)));
    typedef std::int64_t bits __attribute__((vector_size(SPARSEKLR_VECTOR)));
    static constexpr double least = -708.0, log2e = 1.4426950408889634, ln2_hi = 0x1.62e42fefa38p-1,
                            ln2_lo = 0x1.ef35793c7673p-45, shifter = 0x1.8p52;
    static constexpr std::int64_t bias = 1023, mantissa = 52;
    static constexpr int terms = 12;
};

template <class T> using vec = typename Vec<T>::type;
template <class T> constexpr int width = SPARSEKLR_VECTOR / sizeof(T);  // values in one vector
template <class T> constexpr int per_panel = lanes<T> / width<T>;       // vectors in one panel line

template <class T> inline vec<T> load(const T* p) {
    vec<T> v;
    memcpy(&v, p, sizeof v);
    return v;
}
template <class T> inline void store(T* p, vec<T> v) { memcpy(p, &v, sizeof v); }
template <class T> inline vec<T> larger(vec<T> a, vec<T> b) { return a > b ? a : b; }
template <class T> inline vec<T> smaller(vec<T> a, vec<T> b) { return a < b ? a : b; }
template <class T> inline vec<T> magnitude(vec<T> a) { return a < 0 ? -a : a; }

constexpr double inverse_factorial[] = {
    1.,        1.,         1. / 2,      1. / 6,       1. / 24,       1. / 120,      1. / 720,
    1. / 5040, 1. / 40320, 1. / 362880, 1. / 3628800, 1. / 39916800, 1. / 479001600};

// Returns e^x for x <= 0, as 2^n e^r with x = n ln 2 + r and |r| <= ln(2)/2, by the Taylor series of e^r.  The error is
// at most 2 units in the last place.  For x < least, the result is e^least.
template <class T> inline vec<T> exp_nonpositive(vec<T> x) {
    using V = Vec<T>;
    x = larger<T>(x, vec<T>{} + V::least);
    const vec<T> shifted = x * V::log2e + V::shifter;
    const vec<T> n = shifted - V::shifter;
    const vec<T> r = (x - n * V::ln2_hi) - n * V::ln2_lo;
    vec<T> sum = vec<T>{} + T(inverse_factorial[V::terms]);
    for (int k = V::terms - 1; k >= 0; --k) sum = sum * r + T(inverse_factorial[k]);
    typename V::bits exponent;
    memcpy(&exponent, &shifted, sizeof exponent);
    exponent = (exponent + V::bias) << V::mantissa;
    vec<T> scale;
    memcpy(&scale, &exponent, sizeof scale);
    return sum * scale;
}

// Returns kernel values, given the inner products or distances, one vector at a time.
template <class T, KernelKind kind>
inline vec<T> finish(const Kernel& kernel, vec<T> acc, T norm_a, vec<T> norm_b) {
    const T gamma = T(kernel.gamma);
    if constexpr (kind == KernelKind::rbf)
        return exp_nonpositive<T>(-gamma * larger<T>(norm_a + norm_b - 2 * acc, vec<T>{}));
    else if constexpr (kind == KernelKind::laplacian) return exp_nonpositive<T>(-gamma * larger<T>(acc, vec<T>{}));
    else if constexpr (kind == KernelKind::linear) return acc;
    else {
        vec<T> out;
        for (int l = 0; l < width<T>; ++l) {
            const double z = kernel.gamma * double(acc[l]) + kernel.coef0;
            out[l] = T(kind == KernelKind::poly ? pow(z, kernel.degree) : tanh(z));
        }
        return out;
    }
}

// Calls body.template operator()<kind>() for the kind given at run time.
template <class Body> inline void with_kind(KernelKind kind, const Body& body) {
    switch (kind) {
        case KernelKind::linear: return body.template operator()<KernelKind::linear>();
        case KernelKind::poly: return body.template operator()<KernelKind::poly>();
        case KernelKind::rbf: return body.template operator()<KernelKind::rbf>();
        case KernelKind::laplacian: return body.template operator()<KernelKind::laplacian>();
        case KernelKind::sigmoid: return body.template operator()<KernelKind::sigmoid>();
    }
}

// Returns a * b + c, with a single rounding if the processor supports it.  The fusion is explicit, because norms and
// products of equal points must have the same rounding, which would otherwise depend on compiler options.
template <class T> inline T multiply_add(T a, T b, T c) {
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
    if constexpr (sizeof(T) == sizeof(float)) return __builtin_fmaf(a, b, c);
    else return __builtin_fma(a, b, c);
#else
    return a * b + c;
#endif
}
template <class T> inline vec<T> multiply_add(vec<T> a, vec<T> b, vec<T> c) {
#if defined(__AVX512F__)
    if constexpr (sizeof(T) == sizeof(float)) return vec<T>(_mm512_fmadd_ps(__m512(a), __m512(b), __m512(c)));
    else return vec<T>(_mm512_fmadd_pd(__m512d(a), __m512d(b), __m512d(c)));
#elif defined(__FMA__)
    if constexpr (sizeof(T) == sizeof(float)) return vec<T>(_mm256_fmadd_ps(__m256(a), __m256(b), __m256(c)));
    else return vec<T>(_mm256_fmadd_pd(__m256d(a), __m256d(b), __m256d(c)));
#elif defined(__ARM_FEATURE_FMA)
    for (int l = 0; l < width<T>; ++l) c[l] = multiply_add<T>(a[l], b[l], c[l]);
    return c;
#else
    return a * b + c;
#endif
}

template <class T> T norm(KernelKind kind, const T* row, std::size_t n_values) {
    T sum = 0;
    if (kind == KernelKind::laplacian)
        for (std::size_t k = 0; k < n_values; ++k) sum += row[k] < 0 ? -row[k] : row[k];
    else  // same order and rounding as in the panels, so that the distance of equal points is exactly 0
        for (std::size_t k = 0; k < n_values; ++k) sum = multiply_add<T>(row[k], row[k], sum);
    return sum;
}

// The same for the points of a panel, one in each lane.
template <class T> void panel_norms(KernelKind kind, const T* panel, std::size_t n_features, T* out) {
    for (std::size_t v = 0; v < lanes<T>; v += width<T>) {
        vec<T> sum{};
        for (std::size_t k = 0; k < n_features; ++k) {
            const vec<T> x = load<T>(panel + k * lanes<T> + v);
            sum = kind == KernelKind::laplacian ? sum + magnitude<T>(x) : multiply_add<T>(x, x, sum);
        }
        store<T>(out + v, sum);
    }
}

// Computes kernel values between R queries and N consecutive panels.  Each panel line is loaded once for R queries.
// The accumulators stay in registers, which requires explicit unrolling.
template <class T, KernelKind kind, int R, int N>
inline void dense_tile(const Kernel& kernel, const T* panels, const T* norms, const T* queries, const T* query_norm,
                       std::size_t n_features, T* const* out, std::size_t offset) {
    constexpr int V = per_panel<T>;
    vec<T> acc[R][N * V] = {};
    for (std::size_t k = 0; k < n_features; ++k) {
        vec<T> line[N * V];
#pragma GCC unroll 8
        for (int v = 0; v < N * V; ++v)
            line[v] = load<T>(panels + (v / V * n_features + k) * lanes<T> + v % V * width<T>);
#pragma GCC unroll 8
        for (int r = 0; r < R; ++r) {
            const T x = queries[r * n_features + k];
#pragma GCC unroll 8
            for (int v = 0; v < N * V; ++v) {
                if constexpr (kind == KernelKind::laplacian) acc[r][v] += magnitude<T>(line[v] - x);
                else acc[r][v] = multiply_add<T>(line[v], x - vec<T>{}, acc[r][v]);
            }
        }
    }
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
        for (int v = 0; v < N * V; ++v)
            store<T>(out[r] + offset + v * width<T>,
                     finish<T, kind>(kernel, acc[r][v], query_norm[r], load<T>(norms + v * width<T>)));
}

// Each addition to a sum must wait for the previous one, so a tile has at least eight independent sums.
template <class T>
void dense_panels(const Kernel& kernel, const T* panels, const T* norms, std::size_t n_panels, const T* queries,
                  const T* query_norm, std::size_t n_queries, std::size_t n_features, T* const* out,
                  std::size_t offset) {
    with_kind(kernel.kind, [&]<KernelKind kind>() {
        constexpr std::size_t L = lanes<T>;
        const auto rows = [&]<int R, int N>(std::size_t r) {
            std::size_t panel = 0;
            const auto tile = [&]<int M>() {
                dense_tile<T, kind, R, M>(kernel, panels + panel * L * n_features, norms + panel * L,
                                          queries + r * n_features, query_norm + r, n_features, out + r,
                                          offset + panel * L);
                panel += M;
            };
            while (panel + N <= n_panels) tile.template operator()<N>();
            while (panel < n_panels) tile.template operator()<1>();
        };
        constexpr int R = 6;
        std::size_t r = 0;
        for (; r + R <= n_queries; r += R) rows.template operator()<R, 2 / per_panel<T>>(r);
        for (; r < n_queries; ++r) rows.template operator()<1, 4>(r);
    });
}

template <class T>
void csr_rows(const Kernel& kernel, const T* values, const std::int32_t* columns, const std::int64_t* indptr,
              const T* norms, std::size_t begin, std::size_t end, const T* queries, const T* query_norm,
              std::size_t n_queries, T* const* out) {
    with_kind(kernel.kind, [&]<KernelKind kind>() {
        constexpr int V = per_panel<T>;
        constexpr std::size_t batch = lanes<T>;  // rows per tile, which is transposed when it is written
        alignas(64) T tile[batch][lanes<T>];
        vec<T> base[V];
        for (int v = 0; v < V; ++v) base[v] = load<T>(query_norm + v * width<T>);
        for (std::size_t first = begin; first < end; first += batch) {
            const std::size_t last = first + batch < end ? first + batch : end;
            for (std::size_t i = first; i < last; ++i) {
                vec<T> acc[V] = {};
                // The sum of |a - b| over all features is sum |b| plus the sum of |a - b| - |b| over features with a !=
                // 0.  For equal points, the second sum is minus the first, with the same rounding.
                for (std::int64_t s = indptr[i]; s < indptr[i + 1]; ++s) {
                    const T* line = queries + std::size_t(columns[s]) * lanes<T>;
#pragma GCC unroll 8
                    for (int v = 0; v < V; ++v) {
                        const vec<T> q = load<T>(line + v * width<T>);
                        if constexpr (kind == KernelKind::laplacian)
                            acc[v] += magnitude<T>(q - values[s]) - magnitude<T>(q);
                        else acc[v] = multiply_add<T>(q, values[s] - vec<T>{}, acc[v]);
                    }
                }
                if constexpr (kind == KernelKind::laplacian)
                    for (int v = 0; v < V; ++v) acc[v] += base[v];
                for (int v = 0; v < V; ++v)
                    store<T>(tile[i - first] + v * width<T>, finish<T, kind>(kernel, acc[v], norms[i], base[v]));
            }
            for (std::size_t l = 0; l < n_queries; ++l)
                for (std::size_t i = first; i < last; ++i) out[l][i] = tile[i - first][l];
        }
    });
}

template <class T>
void add_rows(double* F, const T* const* rows, const double* weight, std::size_t n_rows, std::size_t begin,
              std::size_t end) {
    constexpr std::size_t strip = 1024;  // length of the part of F that stays in the first-level cache
    for (std::size_t first = begin; first < end; first += strip) {
        const std::size_t last = first + strip < end ? first + strip : end;
        std::size_t b = 0;
        for (; b + 4 <= n_rows; b += 4) {
            const T *r0 = rows[b], *r1 = rows[b + 1], *r2 = rows[b + 2], *r3 = rows[b + 3];
            const double w0 = weight[b], w1 = weight[b + 1], w2 = weight[b + 2], w3 = weight[b + 3];
            for (std::size_t k = first; k < last; ++k)
                F[k] += (w0 * double(r0[k]) + w1 * double(r1[k])) + (w2 * double(r2[k]) + w3 * double(r3[k]));
        }
        for (; b < n_rows; ++b)
            for (std::size_t k = first; k < last; ++k) F[k] += weight[b] * double(rows[b][k]);
    }
}

template <class T>
void sign_sums(double* out, const T* x, const T* const* rows, const double* weight, std::size_t n_rows, std::size_t n) {
    for (std::size_t k = 0; k < n; ++k) out[k] = 0;
    for (std::size_t b = 0; b < n_rows; ++b) {
        const T* z = rows[b];
        const double w = weight[b];
        for (std::size_t k = 0; k < n; ++k) out[k] += w * (double(x[k] > z[k]) - double(x[k] < z[k]));  // no branches
    }
}

template <class T> double dot(const T* row, const double* a, std::size_t n) {
    constexpr std::size_t L = 16;
    double sum[L] = {};
    std::size_t k = 0;
    for (; k + L <= n; k += L)
        for (std::size_t l = 0; l < L; ++l) sum[l] += a[k + l] * double(row[k + l]);
    for (std::size_t l = 0; k < n; ++k, ++l) sum[l] += a[k] * double(row[k]);
    for (std::size_t half = L / 2; half > 0; half /= 2)
        for (std::size_t l = 0; l < half; ++l) sum[l] += sum[l + half];
    return sum[0];
}

using vd = vec<double>;

// width<double> values as doubles, and width<float> values as floats.  (GCC would convert and join the halves of a
// generic vector in memory.)
typedef float half __attribute__((vector_size(SPARSEKLR_VECTOR / 2)));
inline vd widen(const double* p) { return load<double>(p); }
inline vd widen(const float* p) {
#if defined(__AVX512F__)
    return vd(_mm512_maskz_cvtps_pd(__mmask8(-1), _mm256_loadu_ps(p)));  // GCC warns about the version without a mask
#elif defined(__FMA__)
    return vd(_mm256_cvtps_pd(_mm_loadu_ps(p)));
#else
    return vd{double(p[0]), double(p[1]), double(p[2]), double(p[3])};
#endif
}
inline vec<float> narrow(vd a, vd b) {
    const half low = __builtin_convertvector(a, half), high = __builtin_convertvector(b, half);
#if defined(__AVX512F__)
    return vec<float>(_mm512_insertf32x8(_mm512_castps256_ps512(__m256(low)), __m256(high), 1));
#elif defined(__FMA__)
    return vec<float>(_mm256_set_m128(__m128(high), __m128(low)));
#else
    return vec<float>{low[0], low[1], low[2], low[3], high[0], high[1], high[2], high[3]};
#endif
}
inline vec<float> narrow(const float* p) { return load<float>(p); }
inline vec<float> narrow(const double* p) { return narrow(load<double>(p), load<double>(p + width<double>)); }

// The largest value of every lane, initially minus infinity, and the block where it occurs first.
struct Largest {
    vd value = vd{} - infinity;
    Vec<double>::bits block{};

    void offer(vd candidate, std::size_t first) {
        const Vec<double>::bits better = candidate > value;
        value = better ? candidate : value;
        block = better ? Vec<double>::bits{} + std::int64_t(first) : block;
    }
    // The first index with the largest value; value_at(index) is looked up in the blocks that have it.
    template <class ValueAt> Extreme result(std::size_t block_size, const ValueAt& value_at) const {
        Extreme best{-infinity, 0};
        for (int l = 0; l < width<double>; ++l)
            if (value[l] > best.value) best.value = value[l];
        std::size_t lowest = SIZE_MAX;
        for (int l = 0; l < width<double>; ++l) {
            if (!(value[l] == best.value)) continue;
            std::size_t k = std::size_t(block[l]) + std::size_t(l);
            const std::size_t end = std::size_t(block[l]) + block_size;
            while (k < end && !(value_at(k) == best.value)) k += width<double>;
            if (k < end && k < lowest) lowest = k;
        }
        if (lowest != SIZE_MAX) best.index = lowest;
        return best;
    }
};

// Which of width<float> consecutive points are in I_up and in I_low, and the running extremes of E in these sets.
struct Ends {
    vd highest = vd{} - infinity, lowest = vd{} + infinity;
#if defined(__AVX512F__)
    __mmask16 up, low;
    void enter(const float* side) {
        const __m512 s = __m512(load<float>(side));
        up = _mm512_cmp_ps_mask(s, _mm512_setzero_ps(), _CMP_GE_OQ);
        low = _mm512_cmp_ps_mask(s, _mm512_setzero_ps(), _CMP_LE_OQ);
    }
    void offer(vd e, int first) {  // of the eight points from `first` on
        highest = vd(_mm512_mask_max_pd(__m512d(highest), __mmask8(up >> first), __m512d(e), __m512d(highest)));
        lowest = vd(_mm512_mask_min_pd(__m512d(lowest), __mmask8(low >> first), __m512d(e), __m512d(lowest)));
    }
#else
    const float* sides;
    void enter(const float* side) { sides = side; }
    void offer(vd e, int first) {
        const vd s = widen(sides + first), none = vd{} - infinity;
        highest = larger<double>(s >= 0 ? e : none, highest);
        lowest = smaller<double>(s <= 0 ? e : -none, lowest);
    }
#endif
};

// Returns the extremes of E; with `moves`, E is first updated by the pair step.  The loop only compares values; the
// indices of the extremes are found afterwards.
template <class T, bool moves>
inline Extremes scan(double* E, const float* side, const T* row_i, const T* row_j, double t_i, double t_j,
                     std::size_t n) {
    constexpr std::size_t W = width<double>, both = width<float>, block = 8 * W;
    const std::size_t whole = n / both * both;
    Largest up, low;  // low: of -E
    for (std::size_t first = 0; first < whole; first += block) {
        const std::size_t last = first + block < whole ? first + block : whole;
        Ends ends;
        for (std::size_t k = first; k < last; k += both) {
            ends.enter(side + k);
#pragma GCC unroll 2
            for (std::size_t h = 0; h < both; h += W) {
                vd e = load<double>(E + k + h);
                if constexpr (moves) {
                    e = multiply_add<double>(vd{} - t_i, widen(row_i + k + h), e);
                    e = multiply_add<double>(vd{} + t_j, widen(row_j + k + h), e);
                    store<double>(E + k + h, e);
                }
                ends.offer(e, int(h));
            }
        }
        up.offer(ends.highest, first);
        low.offer(-ends.lowest, first);
    }
    const auto of_up = [=](std::size_t k) { return k < whole && side[k] >= 0 ? E[k] : -infinity; };
    const auto of_low = [=](std::size_t k) { return k < whole && side[k] <= 0 ? -E[k] : -infinity; };
    Extreme u = up.result(block, of_up), l = low.result(block, of_low);
    for (std::size_t k = whole; k < n; ++k) {
        if constexpr (moves)
            E[k] = multiply_add<double>(t_j, double(row_j[k]), multiply_add<double>(-t_i, double(row_i[k]), E[k]));
        if (side[k] >= 0 && E[k] > u.value) u = {E[k], k};
        if (side[k] <= 0 && -E[k] > l.value) l = {-E[k], k};
    }
    return {u, {-l.value, l.index}};
}

template <class T>
Extremes update(double* E, const float* side, const T* row_i, const T* row_j, double t_i, double t_j, std::size_t n) {
    return scan<T, true>(E, side, row_i, row_j, t_i, t_j, n);
}

inline Extremes extremes(const double* E, const float* side, std::size_t n) {
    return scan<double, false>(const_cast<double*>(E), side, nullptr, nullptr, 0, 0, n);
}

template <class T>
Extreme second_order(const double* E, const float* curvature, const T* row, double e, double reach, double curvature_e,
                     std::size_t n) {
    constexpr std::size_t W = width<float>;
    constexpr float tiny = 1e-12f;
    using vf = vec<float>;
    using indices = Vec<float>::bits;
    const float scale = float(1 / (reach > 1e-30 ? reach : 1e-30)), base = float(curvature_e);
    vf most{};
    indices where{}, at{};  // in vectors
    std::size_t k = 0;
    for (; k + W <= n; k += W, at += 1) {
        const vf difference = narrow(e - load<double>(E + k), e - load<double>(E + k + width<double>));
        const vf gap = larger<float>(difference * scale, vf{});
        const vf q = larger<float>(base + narrow(curvature + k) - 2 * narrow(row + k), vf{} + tiny);
        const vf decrease = gap * gap / q;
        const indices better = decrease > most;
        most = better ? decrease : most;
        where = better ? at : where;
    }
    Extreme best{0, 0};
    for (int l = 0; l < width<float>; ++l) {
        const std::size_t index = std::size_t(where[l]) * W + std::size_t(l);
        if (double(most[l]) > best.value || (double(most[l]) == best.value && index < best.index))
            best = {double(most[l]), index};
    }
    for (; k < n; ++k) {
        const float gap = float(e - E[k]) * scale, q = base + curvature[k] - 2 * float(row[k]);
        const float decrease = gap * gap / (q > tiny ? q : tiny);
        if (gap > 0 && double(decrease) > best.value) best = {double(decrease), k};
    }
    return best;
}

template <class T>
constexpr Simd<T> table{norm<T>,      panel_norms<T>, dense_panels<T>, csr_rows<T>, add_rows<T>,
                        sign_sums<T>, dot<T>,         extremes,        update<T>,   second_order<T>};

}  // namespace sparseklr::SPARSEKLR_ISA

#define SPARSEKLR_EXPORT_TABLES(isa)                                  \
    namespace sparseklr {                                             \
    extern const Simd<float> simd_float_##isa = isa::table<float>;    \
    extern const Simd<double> simd_double_##isa = isa::table<double>; \
    }
