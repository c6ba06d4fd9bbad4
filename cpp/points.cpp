// Dense and CSR points, stored in the layout that the time-critical loops need.
#include "points.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <vector>

namespace sparseklr {

// -- common to dense and CSR points -------------------------------------------------------------

namespace {

// Minimum amount of work for a thread, which takes a few microseconds.
constexpr std::size_t least_operations = std::size_t{1} << 16;

bool by_distance(const Kernel& kernel) {
    return kernel.kind == KernelKind::rbf || kernel.kind == KernelKind::laplacian;
}

// Upper bound on the magnitude of kernel values between points of at most this norm: |<a, b>| <= |a| |b|.
double largest_value(const Kernel& kernel, double norm) {
    switch (kernel.kind) {
        case KernelKind::linear: return norm;
        case KernelKind::poly: return std::pow(std::abs(kernel.gamma) * norm + std::abs(kernel.coef0), kernel.degree);
        default: return 1.0;
    }
}

}  // namespace

bool float_suffices(const Kernel& kernel, double largest_norm) {
    constexpr double large = 1e30;
    if (!(largest_norm <= large && largest_value(kernel, largest_norm) <= large)) return false;
    if (!by_distance(kernel)) return true;
    // The absolute rounding error of a distance is as large as the rounding error of the norms.
    return kernel.gamma >= 1 / large && kernel.gamma <= large && kernel.gamma * largest_norm <= 128;
}

template <class T> double Points<T>::diagonal(std::size_t i) const {
    const double squared_norm = double(norm(i));
    double value = 1;
    switch (kernel_.kind) {
        case KernelKind::linear: value = squared_norm; break;
        case KernelKind::poly: value = std::pow(kernel_.gamma * squared_norm + kernel_.coef0, kernel_.degree); break;
        case KernelKind::sigmoid: value = std::tanh(kernel_.gamma * squared_norm + kernel_.coef0); break;
        default: break;
    }
    if (!std::isfinite(value)) throw NonFiniteKernel(kernel_, i);
    return value;
}

template <class T> void Points<T>::find_largest_norm() {
    largest_norm_ = -1;
    for (std::size_t i = 0; i < n_; ++i) {
        const double candidate = std::isfinite(norm(i)) ? double(norm(i)) : std::numeric_limits<double>::infinity();
        if (candidate > largest_norm_) {
            largest_norm_ = candidate;
            largest_ = i;
        }
    }
    largest_norm_ = std::max(largest_norm_, 0.0);
}

// The norms and the kernel parameters nearly always imply that kernel values are finite; if not, every value is
// checked.
template <class T> bool Points<T>::surely_finite(const Points& queries) const {
    if (queries.layout_ != layout_) throw std::logic_error("points and queries differ in layout");
    constexpr double largest = std::numeric_limits<T>::max();
    const double norm = std::max(largest_norm_, queries.largest_norm_);
    bool sure = norm <= largest / 4;  // |a|^2 + |b|^2 - 2 <a, b> does not overflow
    // The exponential would hide a distance that overflows.
    if (!sure && by_distance(kernel_))
        throw NonFiniteKernel(kernel_, queries.largest_norm_ < largest_norm_ ? largest_ : queries.largest_);
    if (kernel_.kind == KernelKind::poly) {
        const bool power_of_any_number = kernel_.degree >= 0 && kernel_.degree == std::floor(kernel_.degree);
        sure = sure && power_of_any_number && largest_value(kernel_, norm) <= largest;
    }
    return sure;
}

template <class T>
void Points<T>::kernel_rows(const Points& queries, std::span<const std::size_t> indices, std::span<T* const> out,
                            Team& team, Scratch<T>& scratch) const {
    const bool sure = surely_finite(queries);
    compute_rows(queries, indices, out, 0, n_, team, scratch);
    if (sure) return;
    for (std::size_t k = 0; k < indices.size(); ++k)
        if (!std::all_of(out[k], out[k] + n_, [](T value) { return std::isfinite(value); }))
            throw NonFiniteKernel(kernel_, indices[k]);
}

template <class T>
void Points<T>::kernel_sums(const Points& points, MatrixView<const double> coef, std::size_t begin, std::size_t end,
                            MatrixView<double> sum, Scratch<T>& scratch) const {
    constexpr std::size_t most = 48;  // number of points at once, whose rows fit into the first-level cache
    const bool sure = surely_finite(points);
    // Only whole vectors are computed, so that the rounding of a sum does not depend on its position.
    const std::size_t count = end - begin, stride = (count + lanes<float> - 1) / lanes<float> * lanes<float>;
    scratch.rows.resize(most * stride);
    scratch.sums.assign(coef.rows * stride, 0.0);
    std::array<std::size_t, most> index;
    std::array<T*, most> row;
    for (std::size_t k = 0; k < most; ++k) row[k] = scratch.rows.data() + k * stride;
    Team alone(1);
    for (std::size_t first = 0; first < points.size(); first += most) {
        const std::size_t m = std::min(most, points.size() - first);
        std::iota(index.begin(), index.end(), first);
        compute_rows(points, {index.data(), m}, {row.data(), m}, begin, end, alone, scratch);
        for (std::size_t i = 0; i < count && !sure; ++i)
            for (std::size_t k = 0; k < m; ++k)
                if (!std::isfinite(row[k][i])) throw NonFiniteKernel(kernel_, begin + i);
        for (std::size_t o = 0; o < coef.rows; ++o)
            simd<T>().add_rows(scratch.sums.data() + o * stride, row.data(), coef.row(o).data() + first, m, 0, stride);
    }
    for (std::size_t o = 0; o < coef.rows; ++o)
        std::copy_n(scratch.sums.data() + o * stride, count, sum.row(o).data() + begin);
}

template class Points<float>;
template class Points<double>;

namespace {

// Index of the entry of largest magnitude.
template <class In> std::size_t largest_entry(std::span<const In> values) {
    const auto smaller = [](In a, In b) { return std::abs(a) < std::abs(b); };
    return std::size_t(std::max_element(values.begin(), values.end(), smaller) - values.begin());
}

// -- dense --------------------------------------------------------------------------------------

template <class T> class DensePoints final : public Points<T> {
public:
    template <class In>
    DensePoints(const Kernel& kernel, MatrixView<const In> X, std::span<const double> center)
        : DensePoints(kernel, X.rows, X.columns) {
        const std::size_t n = X.rows, p = X.columns;
        for (std::size_t first = 0; first < n; first += L) {
            T* const panel = panels_.data() + first * p;
            const std::size_t count = std::min(L, n - first);
            for (std::size_t k = 0; k < p; ++k) {
                const double shift = center.empty() ? 0.0 : center[k];
                for (std::size_t l = 0; l < count; ++l) panel[k * L + l] = T(double(X(first + l, k)) - shift);
            }
            simd<T>().panel_norms(kernel.kind, panel, p, norms_.data() + first);
        }
        this->find_largest_norm();
        // one point may have made the center overflow, and with it all norms
        if (this->norms_overflow()) this->largest_ = largest_entry(X.flat()) / p;
    }

    std::unique_ptr<Points<T>> subset(const std::vector<std::size_t>& indices) const override {
        const std::size_t p = this->n_features_;
        auto part = std::make_unique<DensePoints>(this->kernel_, indices.size(), p);
        for (std::size_t k = 0; k < indices.size(); ++k) {
            const std::size_t i = indices[k];
            for (std::size_t f = 0; f < p; ++f)
                part->panels_[k / L * L * p + f * L + k % L] = panels_[i / L * L * p + f * L + i % L];
            part->norms_[k] = norms_[i];
        }
        part->find_largest_norm();
        return part;
    }

    DensePoints(const Kernel& kernel, std::size_t n, std::size_t p)  // all zero
        : Points<T>(kernel, Layout::dense, n, p), panels_(this->padded_size() * p), norms_(this->padded_size()) {}

protected:
    T norm(std::size_t i) const override { return norms_[i]; }

    // Every kernel value is computed separately and in a fixed order.  It is therefore bit-identical for any number of
    // threads, and does not depend on the values that are computed with it.
    void compute_rows(const Points<T>& other, std::span<const std::size_t> indices, std::span<T* const> out,
                      std::size_t from, std::size_t to, Team& team, Scratch<T>& scratch) const override {
        const auto& queries = static_cast<const DensePoints&>(other);
        const std::size_t m = indices.size(), p = this->n_features_;
        std::vector<T>& rows = scratch.gathered;
        rows.resize(m * (p + 1));
        T* const norms = rows.data() + m * p;
        for (std::size_t q = 0; q < m; ++q) {
            const std::size_t i = indices[q];
            const T* lane = queries.panels_.data() + i / L * L * p + i % L;
            for (std::size_t k = 0; k < p; ++k) rows[q * p + k] = lane[k * L];
            norms[q] = queries.norms_[i];
        }
        // A group of panels stays in the first-level cache for all queries, and results are written in long runs.
        const std::size_t first_panel = from / L, n_panels = (to + L - 1) / L - first_panel;
        const std::size_t group = std::clamp<std::size_t>((std::size_t{16} << 10) / (64 * std::max<std::size_t>(p, 1)),
                                                          1, 16);
        team.over(n_panels, group, least_operations / (L * m * (p + 16)),
                  [&](std::size_t begin, std::size_t end, std::size_t) noexcept {
                      for (std::size_t first = begin; first < end; first += group)
                          simd<T>().dense_panels(this->kernel_, panels_.data() + (first_panel + first) * L * p,
                                                 norms_.data() + (first_panel + first) * L,
                                                 std::min(group, end - first), rows.data(), norms, m, p, out.data(),
                                                 first * L);
                  });
    }

private:
    static constexpr std::size_t L = lanes<T>;
    std::vector<T> panels_;  // n/L panels, each of p lines with L values
    std::vector<T> norms_;
};

// -- CSR ----------------------------------------------------------------------------------------

template <class T> class CsrPoints final : public Points<T> {
public:
    template <class In, class Index>
    CsrPoints(const Kernel& kernel, const CsrView<In, Index>& X) : CsrPoints(kernel, X.n_rows(), X.n_features) {
        const std::size_t n_values = std::size_t(X.indptr.back());
        values_.assign(X.values.begin(), X.values.begin() + std::ptrdiff_t(n_values));
        columns_.assign(X.columns.begin(), X.columns.begin() + std::ptrdiff_t(n_values));
        indptr_.assign(X.indptr.begin(), X.indptr.end());
        for (std::size_t i = 0; i < this->n_; ++i)
            norms_[i] = simd<T>().norm(kernel.kind, values_.data() + indptr_[i],
                                       std::size_t(indptr_[i + 1] - indptr_[i]));
        this->find_largest_norm();
    }

    std::unique_ptr<Points<T>> subset(const std::vector<std::size_t>& indices) const override {
        auto part = std::make_unique<CsrPoints>(this->kernel_, indices.size(), this->n_features_);
        for (std::size_t k = 0; k < indices.size(); ++k) {
            const std::int64_t first = indptr_[indices[k]], last = indptr_[indices[k] + 1];
            part->values_.insert(part->values_.end(), values_.begin() + first, values_.begin() + last);
            part->columns_.insert(part->columns_.end(), columns_.begin() + first, columns_.begin() + last);
            part->indptr_[k + 1] = std::int64_t(part->values_.size());
            part->norms_[k] = norms_[indices[k]];
        }
        part->find_largest_norm();
        return part;
    }

    CsrPoints(const Kernel& kernel, std::size_t n, std::size_t p)  // no values yet
        : Points<T>(kernel, Layout::csr, n, p), indptr_(n + 1), norms_(n) {}

protected:
    T norm(std::size_t i) const override { return norms_[i]; }

    void compute_rows(const Points<T>& other, std::span<const std::size_t> indices, std::span<T* const> out,
                      std::size_t from, std::size_t to, Team& team, Scratch<T>& scratch) const override {
        const auto& queries = static_cast<const CsrPoints&>(other);
        const std::size_t m = indices.size();
        std::vector<T>& panel = scratch.scattered;
        if (panel.size() < this->n_features_ * L) panel.assign(this->n_features_ * L, T(0));
        for (std::size_t q = 0; q < m; q += L) {
            const std::size_t in_panel = std::min(L, m - q);
            T norms[L] = {};
            queries.scatter(indices.subspan(q, in_panel), panel, norms, false);
            const std::size_t per_row = L * (values_.size() / std::max<std::size_t>(this->n_, 1) + 16);
            team.over(to - from, L, least_operations / per_row,
                      [&](std::size_t begin, std::size_t end, std::size_t) noexcept {
                          simd<T>().csr_rows(this->kernel_, values_.data(), columns_.data(), indptr_.data() + from,
                                             norms_.data() + from, begin, end, panel.data(), norms, in_panel,
                                             out.data() + q);
                      });
            queries.scatter(indices.subspan(q, in_panel), panel, norms, true);
        }
    }

private:
    static constexpr std::size_t L = lanes<T>;

    // Scatters some points into a dense n_features x L array, or clears them from it.
    void scatter(std::span<const std::size_t> indices, std::span<T> dense, std::span<T, L> norms, bool wipe) const {
        for (std::size_t l = 0; l < indices.size(); ++l) {
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
std::unique_ptr<Points<T>> dense_points(const Kernel& kernel, MatrixView<const In> X, std::span<const double> center) {
    return std::make_unique<DensePoints<T>>(kernel, X, center);
}
template <class T, class In, class Index>
std::unique_ptr<Points<T>> csr_points(const Kernel& kernel, const CsrView<In, Index>& X) {
    return std::make_unique<CsrPoints<T>>(kernel, X);
}

#define SPARSEKLR_DENSE(T, In)                                                                   \
    template std::unique_ptr<Points<T>> dense_points<T, In>(const Kernel&, MatrixView<const In>, \
                                                            std::span<const double>);
#define SPARSEKLR_CSR(T, In, Index) \
    template std::unique_ptr<Points<T>> csr_points<T, In, Index>(const Kernel&, const CsrView<In, Index>&);
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
