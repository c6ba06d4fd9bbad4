#include "decision.hpp"

#include <algorithm>
#include <atomic>
#include <exception>
#include <memory>
#include <mutex>
#include <numeric>
#include <vector>

namespace sparseklr {
namespace {

// Kernel values between the queries [first, last) and the data, in a reused buffer.
template <class T> class BlockRows {
public:
    BlockRows(const Points<T>& data, std::size_t max_rows)
        : stride_(std::max<std::size_t>(data.padded_size(), 1)), values_(stride_ * max_rows), row_(max_rows),
          index_(max_rows) {
        for (std::size_t r = 0; r < max_rows; ++r) row_[r] = values_.data() + r * stride_;
    }
    void compute(const Points<T>& data, const Points<T>& queries, std::size_t first, std::size_t last, Team& team) {
        std::iota(index_.begin(), index_.begin() + std::ptrdiff_t(last - first), first);
        data.kernel_rows(queries, {index_.data(), last - first}, {row_.data(), last - first}, team, scratch_);
    }
    const T* row(std::size_t r) const { return row_[r]; }

private:
    std::size_t stride_;
    std::vector<T> values_;
    std::vector<T*> row_;
    std::vector<std::size_t> index_;
    Scratch<T> scratch_;
};

// Carries an exception out of a parallel loop.  If several blocks fail, it is the exception of the first of them, so
// that it does not depend on the number of threads.
class FirstFailure {
public:
    template <class Work> void attempt(std::size_t block, const Work& work) noexcept {
        if (block > block_.load(std::memory_order_relaxed)) return;  // an earlier block has already failed
        try {
            work();
        } catch (...) {
            const std::lock_guard<std::mutex> guard(mutex_);
            if (block > block_) return;
            block_ = block;
            exception_ = std::current_exception();
        }
    }
    void rethrow() const {
        if (exception_) std::rethrow_exception(exception_);
    }

private:
    std::mutex mutex_;
    std::atomic<std::size_t> block_ = SIZE_MAX;
    std::exception_ptr exception_;
};

template <class T> std::size_t rows_that_fit(const Points<T>& data, std::size_t bytes) {
    return std::max<std::size_t>(bytes / (sizeof(T) * std::max<std::size_t>(data.padded_size(), 1)) / 6 * 6, 6);
}

}  // namespace

template <class T>
void kernel_matrix(const Points<T>& data, const Points<T>& queries, MatrixView<T> out, int threads) {
    const std::size_t n = queries.size();
    const std::size_t step = std::min(rows_that_fit(data, std::size_t{512} << 10), std::max<std::size_t>(n, 1));
    BlockRows<T> block(data, step);
    Team team(threads_for(threads, n * data.size(), data.n_features()));
    for (std::size_t first = 0; first < n; first += step) {
        const std::size_t last = std::min(first + step, n);
        block.compute(data, queries, first, last, team);
        for (std::size_t i = first; i < last; ++i) std::copy_n(block.row(i - first), data.size(), out.row(i).data());
    }
}

template <class T>
void decision(const Points<T>& data, const Points<T>& queries, MatrixView<const double> coef, MatrixView<double> out,
              int threads) {
    // The lanes of a vector are queries, so sums over points need no additions across lanes.
    constexpr std::size_t step = 256;
    const std::size_t n_blocks = (queries.size() + step - 1) / step;
    Team team(threads_for(threads, queries.size() * data.size(), data.n_features()), n_blocks);
    std::vector<Scratch<T>> scratch_of(team.size());
    FirstFailure failure;
    team.each(n_blocks, [&](std::size_t b, std::size_t worker) noexcept {
        failure.attempt(b, [&] {
            queries.kernel_sums(data, coef, b * step, std::min((b + 1) * step, queries.size()), out,
                                scratch_of[worker]);
        });
    });
    failure.rethrow();
}

#define SPARSEKLR_INSTANTIATE(T)                                                            \
    template void kernel_matrix<T>(const Points<T>&, const Points<T>&, MatrixView<T>, int); \
    template void decision<T>(const Points<T>&, const Points<T>&, MatrixView<const double>, MatrixView<double>, int);
SPARSEKLR_INSTANTIATE(float)
SPARSEKLR_INSTANTIATE(double)

}  // namespace sparseklr
