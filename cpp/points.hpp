// Sets of points, dense or CSR, and kernel values between the points of two sets.
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
    std::size_t row;  // index of a point or of a query
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
    // The largest squared norm, or l1 norm for the Laplacian kernel; infinity if it overflows.
    double largest_norm() const { return largest_norm_; }
    // Kernel rows have padded_size() values; the values beyond size() are undefined.
    std::size_t padded_size() const { return (n_ + lanes<T> - 1) / lanes<T> * lanes<T>; }
    // k(point i, point i); throws NonFiniteKernel
    double diagonal(std::size_t i) const;
    // out[k][j] = k(queries[indices[k]], this[j]); queries is a set of the same layout and kernel.
    // Throws NonFiniteKernel instead of returning a value that is not finite.
    void kernel_rows(const Points& queries, std::span<const std::size_t> indices, std::span<T* const> out, Team& team,
                     Scratch<T>& scratch) const;
    // sum(o, i) = sum_k coef(o, k) k(points[k], this[i]) for i in [begin, end), where begin is a multiple of lanes.
    // Throws NonFiniteKernel with the index of the point of this set.
    void kernel_sums(const Points& points, MatrixView<const double> coef, std::size_t begin, std::size_t end,
                     MatrixView<double> sum, Scratch<T>& scratch) const;
    virtual std::unique_ptr<Points> subset(const std::vector<std::size_t>& indices) const = 0;

protected:
    Points(const Kernel& kernel, Layout layout, std::size_t n, std::size_t n_features)
        : kernel_(kernel), layout_(layout), n_(n), n_features_(n_features) {}
    // kernel_rows without checks, for the points [begin, end) of this set; out[k][0] is the value for point `begin`,
    // which is a multiple of lanes.  `queries` has the same layout, so it may be cast to the class of this set.
    virtual void compute_rows(const Points& queries, std::span<const std::size_t> indices, std::span<T* const> out,
                              std::size_t begin, std::size_t end, Team& team, Scratch<T>& scratch) const = 0;
    virtual T norm(std::size_t i) const = 0;
    void find_largest_norm();  // must be called when all norms are known
    bool norms_overflow() const { return largest_norm_ == std::numeric_limits<double>::infinity(); }

    Kernel kernel_;
    Layout layout_;
    std::size_t n_, n_features_;
    std::size_t largest_ = 0;  // the point of largest norm

private:
    // Returns whether all kernel values are certainly finite; throws if a distance overflows.
    bool surely_finite(const Points& queries) const;

    double largest_norm_ = 0;
};

// Unless it is empty, `center` is subtracted from every point, which reduces cancellation in distances.
template <class T, class In>
std::unique_ptr<Points<T>> dense_points(const Kernel& kernel, MatrixView<const In> X,
                                        std::span<const double> center = {});
// Column indices must lie in [0, n_features) and be distinct within a row.
template <class T, class In, class Index>
std::unique_ptr<Points<T>> csr_points(const Kernel& kernel, const CsrView<In, Index>& X);

// Returns whether float is accurate enough for kernel values between points of at most this norm.  No intermediate
// value may come near the limits of float, and the error of distance kernels must be at most 2e-5.
bool float_suffices(const Kernel& kernel, double largest_norm);

}  // namespace sparseklr
