// Sets of points, dense or CSR, that evaluate a kernel between each other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <limits>
#include <memory>
#include <span>
#include <vector>

#include "simd.hpp"
#include "team.hpp"
#include "views.hpp"

namespace sparseklr {

// Thrown if a kernel value is not finite.
struct NonFiniteKernel : std::exception {
    NonFiniteKernel(const Kernel& k, std::size_t i) : kernel(k), row(i) {}
    const char* what() const noexcept override { return "a kernel value is not finite"; }
    Kernel kernel;
    std::size_t row;  // row of the points or of the queries
};

// Scratch memory of kernel_rows, owned and reused by the caller.
template <class T> struct Scratch {
    std::vector<T> gathered;   // dense queries, row-major
    std::vector<T> scattered;  // CSR queries, n_features x lanes; all zero between calls
    std::vector<T> rows;       // of kernel_sums
    std::vector<double> sums;  // of kernel_sums, n_outputs x rows
};

enum class Layout { dense, csr };

// A set of points with a kernel. It computes kernel values between its points and those of another set of
// the same layout.
template <class T> class Points {
public:
    virtual ~Points() = default;
    std::size_t size() const { return n_; }
    std::size_t n_features() const { return n_features_; }
    const Kernel& kernel() const { return kernel_; }
    Layout layout() const { return layout_; }
    // The largest norm: squared, or of absolute values for the Laplacian kernel; infinity if it overflows.
    double largest_norm() const { return largest_norm_; }
    // Rows have padded_size() values; those past size() are undefined.
    std::size_t padded_size() const { return (n_ + lanes<T> - 1) / lanes<T> * lanes<T>; }
    // k(point i, itself); throws NonFiniteKernel
    double diagonal(std::size_t i) const;
    // out[k][j] = k(queries[indices[k]], this[j]); queries is a set of the same layout and kernel.
    // Throws NonFiniteKernel instead of returning a value that is not finite.
    void kernel_rows(const Points& queries, std::span<const std::size_t> indices, std::span<T* const> out, Team& team,
                     Scratch<T>& scratch) const;
    // sum(o, i) = sum_k coef(o, k) k(points[k], this[i]) for i in [begin, end); begin is a multiple of lanes.  Throws
    // NonFiniteKernel with the number of the point of this set.
    void kernel_sums(const Points& points, MatrixView<const double> coef, std::size_t begin, std::size_t end,
                     MatrixView<double> sum, Scratch<T>& scratch) const;
    virtual std::unique_ptr<Points> subset(const std::vector<std::size_t>& indices) const = 0;

protected:
    Points(const Kernel& kernel, Layout layout, std::size_t n, std::size_t n_features)
        : kernel_(kernel), layout_(layout), n_(n), n_features_(n_features) {}
    // kernel_rows without the checks, for the points [begin, end) of this set: out[k][0] belongs to `begin`, a multiple
    // of lanes.  `queries` has this set's layout and may be cast to its class.
    virtual void compute_rows(const Points& queries, std::span<const std::size_t> indices, std::span<T* const> out,
                              std::size_t begin, std::size_t end, Team& team, Scratch<T>& scratch) const = 0;
    virtual T norm(std::size_t i) const = 0;
    void find_largest_norm();  // call when all norms are known
    bool norms_overflow() const { return largest_norm_ == std::numeric_limits<double>::infinity(); }

    Kernel kernel_;
    Layout layout_;
    std::size_t n_, n_features_;
    std::size_t largest_ = 0;  // the point of largest norm

private:
    // Whether every kernel value is finite for sure; throws if a distance overflows.
    bool surely_finite(const Points& queries) const;

    double largest_norm_ = 0;
};

// `center` is subtracted from every point unless it is empty, so that distances lose fewer digits.
template <class T, class In>
std::unique_ptr<Points<T>> dense_points(const Kernel& kernel, MatrixView<const In> X,
                                        std::span<const double> center = {});
// Column indices must lie in [0, n_features) and be distinct within a row.
template <class T, class In, class Index>
std::unique_ptr<Points<T>> csr_points(const Kernel& kernel, const CsrView<In, Index>& X);

// Whether float is accurate enough for kernel values between points of at most this norm: no intermediate value comes
// near the limits of float, and values of distance kernels have an error of at most 2e-5.
bool float_suffices(const Kernel& kernel, double largest_norm);

}  // namespace sparseklr
