// Sets of points, dense or CSR, that evaluate a kernel between each other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "simd.hpp"

namespace sparseklr {

// A set of points that can evaluate the kernel between others of its kind and all of its own.
template <class T> class Points {
public:
    virtual ~Points() = default;
    std::size_t size() const { return n_; }
    std::size_t n_features() const { return n_features_; }
    // Rows need room for padded_size() values; those past size() are undefined.
    std::size_t padded_size() const { return (n_ + lanes<T> - 1) / lanes<T> * lanes<T>; }
    virtual double diagonal(const Kernel& kernel, std::size_t i) const = 0;
    // out[k][j] = k(queries[indices[k]], this[j]); queries is a set of the same kind.
    virtual void kernel_rows(const Kernel& kernel, const Points& queries, const std::size_t* indices,
                             std::size_t m, T* const* out, int threads) const = 0;
    virtual std::unique_ptr<Points> subset(const std::vector<std::size_t>& indices) const = 0;

protected:
    Points(std::size_t n, std::size_t n_features) : n_(n), n_features_(n_features) {}
    std::size_t n_, n_features_;
};

// `center` is subtracted from every point when given: distances lose fewer digits.
template <class T, class In>
std::unique_ptr<Points<T>> dense_points(KernelKind kind, const In* values, std::size_t n,
                                        std::size_t n_features, const double* center);
template <class T, class In, class Index>
std::unique_ptr<Points<T>> csr_points(KernelKind kind, const In* values, const Index* columns,
                                      const Index* indptr, std::size_t n, std::size_t n_features);

}  // namespace sparseklr
