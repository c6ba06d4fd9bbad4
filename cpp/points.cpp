// Dense and CSR points: storage in the layout of the hot loops, threads over the data.
#include "points.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <vector>

namespace sparseklr {
namespace {

template <class T> double kernel_at_distance_zero(const Kernel& kernel, double squared_norm) {
    switch (kernel.kind) {
        case KernelKind::linear: return squared_norm;
        case KernelKind::poly: return std::pow(kernel.gamma * squared_norm + kernel.coef0, kernel.degree);
        case KernelKind::sigmoid: return std::tanh(kernel.gamma * squared_norm + kernel.coef0);
        default: return 1.0;
    }
}

// How many of `threads` to use for so many kernel values: starting and joining them costs as much as
// 10^5 values, and far more on a busy machine.
int threads_for(int threads, std::size_t values, std::size_t operations_each) {
    return double(values) * double(operations_each + 16) < 4e6 ? 1 : threads;
}

template <class T> class DensePoints final : public Points<T> {
public:
    template <class In>
    DensePoints(KernelKind kind, const In* values, std::size_t n, std::size_t p, const double* center)
        : DensePoints(n, p) {
        std::vector<T> row(p);
        for (std::size_t i = 0; i < n; ++i) {
            T* lane = panels_.data() + i / L * L * p + i % L;
            for (std::size_t k = 0; k < p; ++k) {
                row[k] = T(double(values[i * p + k]) - (center ? center[k] : 0.0));
                lane[k * L] = row[k];
            }
            norms_[i] = simd<T>().norm(kind, row.data(), p);
        }
    }

    double diagonal(const Kernel& kernel, std::size_t i) const override {
        return kernel_at_distance_zero<T>(kernel, double(norms_[i]));
    }

    // Every value is computed alone and in a fixed order: neither the number of threads nor the
    // company it is computed in changes a bit of it.
    void kernel_rows(const Kernel& kernel, const Points<T>& other, const std::size_t* indices, std::size_t m,
                     T* const* out, int threads) const override {
        const auto& queries = dynamic_cast<const DensePoints&>(other);
        const std::size_t p = this->n_features_;
        std::vector<T> rows(m * p), norms(m);
        for (std::size_t q = 0; q < m; ++q) {
            const std::size_t i = indices[q];
            const T* lane = queries.panels_.data() + i / L * L * p + i % L;
            for (std::size_t k = 0; k < p; ++k) rows[q * p + k] = lane[k * L];
            norms[q] = queries.norms_[i];
        }
        // Panels in groups that stay in L1 while the queries pass by, written as long runs.
        const std::size_t n_panels = this->padded_size() / L;
        const std::size_t group = std::clamp<std::size_t>((std::size_t{16} << 10) / (64 * std::max<std::size_t>(p, 1)), 1, 16);
        const std::size_t n_groups = (n_panels + group - 1) / group;
        threads = threads_for(threads, m * this->n_, p);
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1)
        for (std::size_t g = 0; g < n_groups; ++g) {
            const std::size_t first = g * group;
            simd<T>().dense_panels(kernel, panels_.data() + first * L * p, norms_.data() + first * L,
                                   std::min(group, n_panels - first), rows.data(), norms.data(), m, p, out, first * L);
        }
    }

    std::unique_ptr<Points<T>> subset(const std::vector<std::size_t>& indices) const override {
        const std::size_t p = this->n_features_;
        auto part = std::make_unique<DensePoints>(indices.size(), p);
        for (std::size_t k = 0; k < indices.size(); ++k) {
            const std::size_t i = indices[k];
            for (std::size_t f = 0; f < p; ++f)
                part->panels_[k / L * L * p + f * L + k % L] = panels_[i / L * L * p + f * L + i % L];
            part->norms_[k] = norms_[i];
        }
        return part;
    }

    DensePoints(std::size_t n, std::size_t p)  // all zero
        : Points<T>(n, p), panels_(this->padded_size() * p), norms_(this->padded_size()) {}

private:
    static constexpr std::size_t L = lanes<T>;
    std::vector<T> panels_;  // n/L panels of p lines of L values
    std::vector<T> norms_;
};

template <class T> class CsrPoints final : public Points<T> {
public:
    template <class In, class Index>
    CsrPoints(KernelKind kind, const In* values, const Index* columns, const Index* indptr, std::size_t n,
              std::size_t p)
        : Points<T>(n, p), values_(values, values + indptr[n]), columns_(columns, columns + indptr[n]),
          indptr_(indptr, indptr + n + 1), norms_(n) {
        for (std::size_t i = 0; i < n; ++i)
            norms_[i] = simd<T>().norm(kind, values_.data() + indptr_[i], std::size_t(indptr_[i + 1] - indptr_[i]));
    }

    double diagonal(const Kernel& kernel, std::size_t i) const override {
        return kernel_at_distance_zero<T>(kernel, double(norms_[i]));
    }

    void kernel_rows(const Kernel& kernel, const Points<T>& other, const std::size_t* indices, std::size_t m,
                     T* const* out, int threads) const override {
        const auto& queries = dynamic_cast<const CsrPoints&>(other);
        static thread_local std::vector<T> scattered;  // all zero between calls
        if (scattered.size() < this->n_features_ * L) scattered.assign(this->n_features_ * L, T(0));
        T* const panel = scattered.data();  // the threads below have a `scattered` of their own
        threads = threads_for(threads, std::min(m, L) * this->n_, values_.size() / std::max<std::size_t>(this->n_, 1));
        for (std::size_t q = 0; q < m; q += L) {
            const std::size_t in_panel = std::min(L, m - q);
            T norms[L] = {};
            queries.scatter(indices + q, in_panel, panel, norms, false);
            constexpr std::size_t strip = 512;
            const std::size_t n_strips = (this->n_ + strip - 1) / strip;
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1)
            for (std::size_t s = 0; s < n_strips; ++s)
                simd<T>().csr_rows(kernel, values_.data(), columns_.data(), indptr_.data(), norms_.data(), s * strip,
                                   std::min(this->n_, (s + 1) * strip), panel, norms, in_panel, out + q);
            queries.scatter(indices + q, in_panel, panel, norms, true);
        }
    }

    std::unique_ptr<Points<T>> subset(const std::vector<std::size_t>& indices) const override {
        auto part = std::make_unique<CsrPoints>(indices.size(), this->n_features_);
        for (std::size_t k = 0; k < indices.size(); ++k) {
            const std::int64_t first = indptr_[indices[k]], last = indptr_[indices[k] + 1];
            part->values_.insert(part->values_.end(), values_.begin() + first, values_.begin() + last);
            part->columns_.insert(part->columns_.end(), columns_.begin() + first, columns_.begin() + last);
            part->indptr_[k + 1] = std::int64_t(part->values_.size());
            part->norms_[k] = norms_[indices[k]];
        }
        return part;
    }

    CsrPoints(std::size_t n, std::size_t p) : Points<T>(n, p), indptr_(n + 1), norms_(n) {}  // no values yet

private:
    static constexpr std::size_t L = lanes<T>;

    // Spreads some points over a dense n_features x L array, or wipes them off it again.
    void scatter(const std::size_t* indices, std::size_t m, T* dense, T* norms, bool wipe) const {
        for (std::size_t l = 0; l < m; ++l) {
            const std::size_t i = indices[l];
            norms[l] = norms_[i];
            for (std::int64_t s = indptr_[i]; s < indptr_[i + 1]; ++s)
                dense[std::size_t(columns_[s]) * L + l] = wipe ? T(0) : values_[s];
        }
    }

    std::vector<T> values_;
    std::vector<std::int32_t> columns_;
    std::vector<std::int64_t> indptr_;
    std::vector<T> norms_;
};

}  // namespace

template <class T, class In>
std::unique_ptr<Points<T>> dense_points(KernelKind kind, const In* values, std::size_t n, std::size_t n_features,
                                        const double* center) {
    return std::make_unique<DensePoints<T>>(kind, values, n, n_features, center);
}
template <class T, class In, class Index>
std::unique_ptr<Points<T>> csr_points(KernelKind kind, const In* values, const Index* columns, const Index* indptr,
                                      std::size_t n, std::size_t n_features) {
    return std::make_unique<CsrPoints<T>>(kind, values, columns, indptr, n, n_features);
}

#define SPARSEKLR_DENSE(T, In) \
    template std::unique_ptr<Points<T>> dense_points<T, In>(KernelKind, const In*, std::size_t, std::size_t, const double*);
#define SPARSEKLR_CSR(T, In, Index)                                                                          \
    template std::unique_ptr<Points<T>> csr_points<T, In, Index>(KernelKind, const In*, const Index*, const Index*, \
                                                                 std::size_t, std::size_t);
SPARSEKLR_DENSE(float, float)
SPARSEKLR_DENSE(float, double)
SPARSEKLR_DENSE(double, float)
SPARSEKLR_DENSE(double, double)
#define SPARSEKLR_CSR_INDEX(T, In) SPARSEKLR_CSR(T, In, std::int32_t) SPARSEKLR_CSR(T, In, std::int64_t)
SPARSEKLR_CSR_INDEX(float, float)
SPARSEKLR_CSR_INDEX(float, double)
SPARSEKLR_CSR_INDEX(double, float)
SPARSEKLR_CSR_INDEX(double, double)

}  // namespace sparseklr
