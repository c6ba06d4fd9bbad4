// Bodies of the hot loops.  Included by one translation unit per instruction set, each of which
// defines SPARSEKLR_ISA (a namespace) and is compiled with its own -march.  Nothing here may call
// a library template that the linker could share with a unit built for a smaller machine.
//
// Vectors are the 32-byte types of GCC and Clang; the compiler splits them on machines with narrower
// registers.
#pragma once

#include <math.h>
#include <string.h>
#if defined(__FMA__)
#include <immintrin.h>
#endif

#include "simd.hpp"

namespace sparseklr::SPARSEKLR_ISA {

constexpr double infinity = __builtin_inf();

template <class T> struct Vec;
template <> struct Vec<float> {
    typedef float type __attribute__((vector_size(32)));
    typedef std::int32_t bits __attribute__((vector_size(32)));
    // cut-off, 1/ln 2, ln 2 in two parts, the number that leaves the rounded exponent in the low bits
    static constexpr float least = -87.0f, log2e = 1.44269504f, ln2_hi = 0.693359375f, ln2_lo = -2.12194440e-4f,
                           shifter = 0x1.8p23f;
    static constexpr std::int32_t bias = 127, mantissa = 23;
    static constexpr int terms = 7;
};
template <> struct Vec<double> {
    typedef double type __attribute__((vector_size(32)));
    typedef std::int64_t bits __attribute__((vector_size(32)));
    static constexpr double least = -708.0, log2e = 1.4426950408889634, ln2_hi = 0x1.62e42fefa38p-1,
                            ln2_lo = 0x1.ef35793c7673p-45, shifter = 0x1.8p52;
    static constexpr std::int64_t bias = 1023, mantissa = 52;
    static constexpr int terms = 12;
};

template <class T> using vec = typename Vec<T>::type;
template <class T> constexpr int width = 32 / sizeof(T);           // values in one vector
template <class T> constexpr int per_panel = lanes<T> / width<T>;  // vectors in one panel line

template <class T> inline vec<T> load(const T* p) {
    vec<T> v;
    memcpy(&v, p, sizeof v);
    return v;
}
template <class T> inline void store(T* p, vec<T> v) { memcpy(p, &v, sizeof v); }
template <class T> inline vec<T> larger(vec<T> a, vec<T> b) { return a > b ? a : b; }
template <class T> inline vec<T> magnitude(vec<T> a) { return a < 0 ? -a : a; }

constexpr double inverse_factorial[] = {
    1.,        1.,         1. / 2,      1. / 6,       1. / 24,       1. / 120,      1. / 720,
    1. / 5040, 1. / 40320, 1. / 362880, 1. / 3628800, 1. / 39916800, 1. / 479001600};

// e^x for x <= 0: x = n ln 2 + r, |r| <= ln(2)/2, Taylor series of e^r, exponent set by its bits.
// Within 2 units in the last place; flushes to e^least below it.
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

// From the accumulated product (or distance) to the kernel value, one vector at a time.
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

// a * b + c, with a single rounding where the machine supports it.  The fusion is explicit: otherwise it would depend
// on compiler options, and norms and products of equal points must be rounded alike.
template <class T> inline T multiply_add(T a, T b, T c) {
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
    if constexpr (sizeof(T) == sizeof(float)) return __builtin_fmaf(a, b, c);
    else return __builtin_fma(a, b, c);
#else
    return a * b + c;
#endif
}
template <class T> inline vec<T> multiply_add(vec<T> a, T b, vec<T> c) {
    const vec<T> all = b - vec<T>{};
#if defined(__FMA__)
    if constexpr (sizeof(T) == sizeof(float)) return vec<T>(_mm256_fmadd_ps(__m256(a), __m256(all), __m256(c)));
    else return vec<T>(_mm256_fmadd_pd(__m256d(a), __m256d(all), __m256d(c)));
#elif defined(__ARM_FEATURE_FMA)
    for (int l = 0; l < width<T>; ++l) c[l] = multiply_add<T>(a[l], all[l], c[l]);
    return c;
#else
    return a * all + c;
#endif
}

template <class T> T norm(KernelKind kind, const T* row, std::size_t n_values) {
    T sum = 0;
    if (kind == KernelKind::laplacian)
        for (std::size_t k = 0; k < n_values; ++k) sum += row[k] < 0 ? -row[k] : row[k];
    else  // in the order and with the rounding of the panels: the distance of equal points is exactly 0
        for (std::size_t k = 0; k < n_values; ++k) sum = multiply_add<T>(row[k], row[k], sum);
    return sum;
}

// Computes R queries against one panel.  Each panel line is loaded once for R queries; R * per_panel
// accumulators stay in registers, which requires explicit unrolling.
template <class T, KernelKind kind, int R>
inline void dense_tile(const Kernel& kernel, const T* panel, const T* panel_norm, const T* queries, const T* query_norm,
                       std::size_t n_features, T* const* out, std::size_t offset) {
    constexpr int V = per_panel<T>;
    vec<T> acc[R][V] = {};
    for (std::size_t k = 0; k < n_features; ++k) {
        vec<T> line[V];
#pragma GCC unroll 8
        for (int v = 0; v < V; ++v) line[v] = load<T>(panel + k * lanes<T> + v * width<T>);
#pragma GCC unroll 8
        for (int r = 0; r < R; ++r) {
            const T x = queries[r * n_features + k];
#pragma GCC unroll 8
            for (int v = 0; v < V; ++v) {
                if constexpr (kind == KernelKind::laplacian) acc[r][v] += magnitude<T>(line[v] - x);
                else acc[r][v] = multiply_add<T>(line[v], x, acc[r][v]);
            }
        }
    }
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
        for (int v = 0; v < V; ++v)
            store<T>(out[r] + offset + v * width<T>,
                     finish<T, kind>(kernel, acc[r][v], query_norm[r], load<T>(panel_norm + v * width<T>)));
}

template <class T>
void dense_panels(const Kernel& kernel, const T* panels, const T* norms, std::size_t n_panels, const T* queries,
                  const T* query_norm, std::size_t n_queries, std::size_t n_features, T* const* out,
                  std::size_t offset) {
    with_kind(kernel.kind, [&]<KernelKind kind>() {
        constexpr std::size_t L = lanes<T>;
        constexpr int R = 6;
        std::size_t r = 0;
        for (; r + R <= n_queries; r += R)
            for (std::size_t panel = 0; panel < n_panels; ++panel)
                dense_tile<T, kind, R>(kernel, panels + panel * L * n_features, norms + panel * L,
                                       queries + r * n_features, query_norm + r, n_features, out + r,
                                       offset + panel * L);
        for (; r < n_queries; ++r)
            for (std::size_t panel = 0; panel < n_panels; ++panel)
                dense_tile<T, kind, 1>(kernel, panels + panel * L * n_features, norms + panel * L,
                                       queries + r * n_features, query_norm + r, n_features, out + r,
                                       offset + panel * L);
    });
}

template <class T>
void csr_rows(const Kernel& kernel, const T* values, const std::int32_t* columns, const std::int64_t* indptr,
              const T* norms, std::size_t begin, std::size_t end, const T* queries, const T* query_norm,
              std::size_t n_queries, T* const* out) {
    with_kind(kernel.kind, [&]<KernelKind kind>() {
        constexpr int V = per_panel<T>;
        constexpr std::size_t batch = lanes<T>;  // rows per tile, transposed on the way out
        alignas(64) T tile[batch][lanes<T>];
        vec<T> base[V];
        for (int v = 0; v < V; ++v) base[v] = load<T>(query_norm + v * width<T>);
        for (std::size_t first = begin; first < end; first += batch) {
            const std::size_t last = first + batch < end ? first + batch : end;
            for (std::size_t i = first; i < last; ++i) {
                vec<T> acc[V] = {};
                // |a - b| summed over all features = sum |b| + sum over a != 0 of (|a - b| - |b|); for equal points the
                // second sum is minus the first, rounded alike
                for (std::int64_t s = indptr[i]; s < indptr[i + 1]; ++s) {
                    const T* line = queries + std::size_t(columns[s]) * lanes<T>;
#pragma GCC unroll 8
                    for (int v = 0; v < V; ++v) {
                        const vec<T> q = load<T>(line + v * width<T>);
                        if constexpr (kind == KernelKind::laplacian)
                            acc[v] += magnitude<T>(q - values[s]) - magnitude<T>(q);
                        else acc[v] = multiply_add<T>(q, values[s], acc[v]);
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
    constexpr std::size_t strip = 1024;  // part of F that stays in L1 while the rows stream by
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

template <class T> double dot(const T* row, const double* a, std::size_t n) {
    constexpr std::size_t L = 16;
    double sum[L] = {};
    std::size_t k = 0;
    for (; k + L <= n; k += L)
        for (std::size_t l = 0; l < L; ++l) sum[l] += a[k + l] * double(row[k + l]);
    double total = 0;
    for (; k < n; ++k) total += a[k] * double(row[k]);
    for (std::size_t l = 0; l < L; ++l) total += sum[l];
    return total;
}

// The largest value and its index per lane; lanes are combined at the end, ties go to the lower index.
// Minus infinity until a larger value is found.
struct Largest {
    typedef double vd __attribute__((vector_size(32)));
    typedef std::int64_t vi __attribute__((vector_size(32)));
    vd value = vd{} - infinity;
    vi index{};

    void offer(vd candidate, vi at) {
        const vi better = candidate > value;
        value = better ? candidate : value;
        index = better ? at : index;
    }
    Extreme result() const {
        Extreme best{value[0], std::size_t(index[0])};
        for (int l = 1; l < 4; ++l)
            if (value[l] > best.value || (value[l] == best.value && std::size_t(index[l]) < best.index))
                best = {value[l], std::size_t(index[l])};
        return best;
    }
};

template <class T> inline Largest::vd widen(const T* p) {
    return Largest::vd{double(p[0]), double(p[1]), double(p[2]), double(p[3])};
}

// The extremes of E, which moves by the pair step on the way (`moves`) or stays.
template <class T, bool moves>
inline Extremes scan(double* E, const float* side, const T* row_i, const T* row_j, double t_i, double t_j,
                     std::size_t n) {
    using vd = Largest::vd;
    Largest up, low;  // low: of -E
    Largest::vi at{0, 1, 2, 3};
    const vd none = vd{} - infinity;
    std::size_t k = 0;
    for (; k + 4 <= n; k += 4, at += 4) {
        vd e = load<double>(E + k);
        if constexpr (moves) {
            e -= t_i * widen<T>(row_i + k) - t_j * widen<T>(row_j + k);
            store<double>(E + k, e);
        }
        const vd s = widen<float>(side + k);
        up.offer(s >= 0 ? e : none, at);
        low.offer(s <= 0 ? -e : none, at);
    }
    Extreme u = up.result(), l = low.result();
    for (; k < n; ++k) {
        if constexpr (moves) E[k] -= t_i * double(row_i[k]) - t_j * double(row_j[k]);
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
Extreme second_order(const double* E, const float* side, const float* curv, const T* row, double e, double curv_of_e,
                     std::size_t n) {
    using vd = Largest::vd;
    Largest best;
    Largest::vi at{0, 1, 2, 3};
    constexpr double tiny = 1e-12;
    std::size_t k = 0;
    for (; k + 4 <= n; k += 4, at += 4) {
        vd gap = larger<double>(e - load<double>(E + k), vd{});
        gap = widen<float>(side + k) <= 0 ? gap : vd{};
        const vd q = larger<double>(curv_of_e + widen<float>(curv + k) - 2 * widen<T>(row + k), vd{} + tiny);
        best.offer(gap * gap / q, at);
    }
    Extreme found = best.result();
    for (; k < n; ++k) {
        const double gap = e - E[k];
        double q = curv_of_e + double(curv[k]) - 2 * double(row[k]);
        q = q > tiny ? q : tiny;
        if (side[k] <= 0 && gap > 0 && gap * gap / q > found.value) found = {gap * gap / q, k};
    }
    return found;
}

template <class T>
constexpr Simd<T> table{norm<T>, dense_panels<T>, csr_rows<T>, add_rows<T>,
                        dot<T>,  extremes,        update<T>,   second_order<T>};

}  // namespace sparseklr::SPARSEKLR_ISA

#define SPARSEKLR_EXPORT_TABLES(isa)                                  \
    namespace sparseklr {                                             \
    extern const Simd<float> simd_float_##isa = isa::table<float>;    \
    extern const Simd<double> simd_double_##isa = isa::table<double>; \
    }
