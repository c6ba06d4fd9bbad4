// The time-critical loops, compiled once per instruction set (isa.hpp).
// T is the storage type of kernel values (float or double); long sums are in double precision.
#pragma once

#include <cstddef>
#include <cstdint>

namespace sparseklr {

enum class KernelKind { linear, poly, rbf, laplacian, sigmoid };
constexpr const char* kernel_name(KernelKind kind) {
    constexpr const char* names[] = {"linear", "poly", "rbf", "laplacian", "sigmoid"};
    return names[int(kind)];
}

struct Kernel {
    KernelKind kind = KernelKind::rbf;
    double gamma = 1;
    double coef0 = 0;
    double degree = 3;
    bool operator==(const Kernel&) const = default;
};

// Points are stored in panels of `lanes` points, whose values of a feature fill one cache line.
template <class T> inline constexpr std::size_t lanes = 64 / sizeof(T);

struct Extreme {
    double value;
    std::size_t index;
};

// The largest E in I_up and the smallest E in I_low; -infinity or +infinity if the set is empty.  The `side` of a point
// is 1 if it is only in I_up, -1 if it is only in I_low, and 0 if it is in both sets (see workspace.hpp).
struct Extremes {
    Extreme up, low;
};

template <class T> struct Simd {
    // norm of a row that the kernel needs: squared norm (rbf) or l1 norm (laplacian)
    T (*norm)(KernelKind, const T* row, std::size_t n_values);

    // out[j] = norm of point j of a panel, with the same rounding as `norm`
    void (*panel_norms)(KernelKind, const T* panel, std::size_t n_features, T* out);

    // out[r][offset + j] = k(queries[r], point j of the panels); a panel is n_features x lanes,
    // queries are row-major
    void (*dense_panels)(const Kernel&, const T* panels, const T* norms, std::size_t n_panels, const T* queries,
                         const T* query_norm, std::size_t n_queries, std::size_t n_features, T* const* out,
                         std::size_t offset);

    // out[lane][row] for CSR rows [begin, end); queries is n_features x lanes, scattered
    void (*csr_rows)(const Kernel&, const T* values, const std::int32_t* columns, const std::int64_t* indptr,
                     const T* norms, std::size_t begin, std::size_t end, const T* queries, const T* query_norm,
                     std::size_t n_queries, T* const* out);

    // F[k] += sum_b weight[b] rows[b][k] for k in [begin, end); rows are added in groups of four
    void (*add_rows)(double* F, const T* const* rows, const double* weight, std::size_t n_rows, std::size_t begin,
                     std::size_t end);

    // out[k] = sum_b weight[b] sign(x[k] - rows[b][k])
    void (*sign_sums)(double* out, const T* x, const T* const* rows, const double* weight, std::size_t n_rows,
                      std::size_t n);

    // sum_k a[k] row[k]
    double (*dot)(const T* row, const double* a, std::size_t n);

    Extremes (*extremes)(const double* E, const float* side, std::size_t n);

    // E[k] -= t_i row_i[k] - t_j row_j[k], and the extremes of the new E
    Extremes (*update)(double* E, const float* side, const T* row_i, const T* row_j, double t_i, double t_j,
                       std::size_t n);

    // max_j ((e - E_j) / reach)^2 / (curvature_e + curvature_j - 2 row_j) over j with E_j < e, for a point with E = e
    // and kernel row `row`, in float; curvature_j = K_jj + G''(alpha_j / C_j) / C_j in I_low, infinity elsewhere.
    // `reach`, the largest e - E_j, keeps the squares within the range of float.  The result is at most 0 if no j has a
    // finite decrease; the curvature of a dual variable within 1e-38 of its bound is infinite.
    Extreme (*second_order)(const double* E, const float* curvature, const T* row, double e, double reach,
                            double curvature_e, std::size_t n);
};

template <class T> const Simd<T>& simd();

}  // namespace sparseklr
