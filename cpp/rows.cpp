// Cache of kernel rows.
#include "rows.hpp"

#include <algorithm>
#include <new>

#ifdef __linux__
#include <sys/mman.h>
#endif

namespace sparseklr {

template <class T> void RowMemory<T>::grow() {
    const std::size_t huge_page = std::size_t{2} << 20;
    const std::size_t bytes = (chunk_values_ * sizeof(T) + huge_page - 1) / huge_page * huge_page;
    // Huge pages are used only for large chunks, so that a small cache stays small.
    const bool large = bytes > 4 * huge_page;
    const std::align_val_t alignment{large ? huge_page : 64};
    void* memory = ::operator new(large ? bytes : chunk_values_ * sizeof(T), alignment);
#ifdef __linux__
    if (large) madvise(memory, bytes, MADV_HUGEPAGE);  // first touch costs a page fault per 2 MB, not per 4 KB
#endif
    chunks_.emplace_back(static_cast<T*>(memory), Free{alignment});
}

template <class T>
KernelRows<T>::KernelRows(std::shared_ptr<const Points<T>> points, std::size_t cache_bytes,
                          std::shared_ptr<RowMemory<T>> memory)
    : points_(std::move(points)), cache_bytes_(cache_bytes),
      stride_(std::max<std::size_t>(points_->padded_size(), lanes<T>)),
      slots_(
          std::clamp<std::size_t>(cache_bytes / (stride_ * sizeof(T)), 4, std::max<std::size_t>(points_->size(), 4))),
      memory_(memory ? std::move(memory)
                     : std::make_shared<RowMemory<T>>(
                           std::clamp<std::size_t>((std::size_t{32} << 20) / sizeof(T), stride_, slots_ * stride_))),
      chunk_rows_(memory_->chunk_values() / stride_), slot_of_(points_->size(), none) {}

// Returns a free slot: a new slot, or the slot of the least recently used row.
template <class T> std::uint32_t KernelRows<T>::claim_slot() {
    if (slot_.size() < slots_) {
        slot_.emplace_back();
        return std::uint32_t(slot_.size() - 1);
    }
    const std::uint32_t slot = oldest_;
    unlink(slot);
    slot_of_[slot_[slot].owner] = none;
    return slot;
}

template <class T> void KernelRows<T>::unlink(std::uint32_t slot) {
    Slot& s = slot_[slot];
    (s.older == none ? oldest_ : slot_[s.older].newer) = s.newer;
    (s.newer == none ? newest_ : slot_[s.newer].older) = s.older;
    s.older = s.newer = none;
}

template <class T> void KernelRows<T>::push_newest(std::uint32_t slot) {
    slot_[slot].older = newest_;
    slot_[slot].newer = none;
    (newest_ == none ? oldest_ : slot_[newest_].newer) = slot;
    newest_ = slot;
}

template <class T> void KernelRows<T>::fetch(std::span<const std::size_t> indices, std::span<const T*> out,
                                             Team& team) {
    if (memory_->changes_to(this)) clear();
    try {
        find_or_compute(indices, out, team);
    } catch (...) {  // some slots may be claimed but not filled, so the cache is emptied
        clear();
        throw;
    }
}

template <class T>
void KernelRows<T>::find_or_compute(std::span<const std::size_t> indices, std::span<const T*> out, Team& team) {
    for (std::size_t k = 0; k < indices.size(); ++k) {  // rows that are already cached must not be evicted
        const std::uint32_t slot = slot_of_[indices[k]];
        if (slot == none) continue;
        unlink(slot);
        push_newest(slot);
        out[k] = address(slot);
    }
    std::vector<std::size_t> missing;
    std::vector<std::uint32_t> claimed;
    std::vector<T*> where;
    for (std::size_t k = 0; k < indices.size(); ++k) {
        if (slot_of_[indices[k]] != none) continue;
        missing.push_back(indices[k]);
        claimed.push_back(claim_slot());
        where.push_back(address(claimed.back()));
        out[k] = where.back();
    }
    if (missing.empty()) return;
    points_->kernel_rows(*points_, missing, where, team, scratch_);
    for (std::size_t k = 0; k < missing.size(); ++k) {  // only filled rows can be found
        slot_[claimed[k]].owner = std::uint32_t(missing[k]);
        slot_of_[missing[k]] = claimed[k];
        push_newest(claimed[k]);
    }
}

template <class T> void KernelRows<T>::clear() {
    slot_.clear();
    std::fill(slot_of_.begin(), slot_of_.end(), none);
    oldest_ = newest_ = none;
}

// Recomputing a row of the subset is cheaper than gathering it from this cache.
template <class T> std::unique_ptr<RowSource<T>> KernelRows<T>::subset(const std::vector<std::size_t>& indices) {
    return std::make_unique<KernelRows<T>>(points_->subset(indices), cache_bytes_, memory_);
}

namespace {
// Rows of a submatrix, gathered on first use.
template <class T> class SubGramRows final : public RowSource<T> {
public:
    SubGramRows(MatrixView<const T> K, std::vector<std::size_t> indices)
        : K_(K), indices_(std::move(indices)), rows_(indices_.size()) {}
    std::size_t size() const override { return indices_.size(); }
    double diagonal(std::size_t i) const override { return double(K_(indices_[i], indices_[i])); }
    std::size_t capacity() const override { return std::max<std::size_t>(indices_.size(), 4); }
    void fetch(std::span<const std::size_t> indices, std::span<const T*> out, Team&) override {
        for (std::size_t k = 0; k < indices.size(); ++k) {
            std::unique_ptr<T[]>& row = rows_[indices[k]];
            if (!row) {
                row.reset(new T[indices_.size()]);
                const std::span<const T> full = K_.row(indices_[indices[k]]);
                for (std::size_t j = 0; j < indices_.size(); ++j) row[j] = full[indices_[j]];
            }
            out[k] = row.get();
        }
    }
    std::unique_ptr<RowSource<T>> subset(const std::vector<std::size_t>& indices) override {
        std::vector<std::size_t> original(indices.size());
        for (std::size_t k = 0; k < indices.size(); ++k) original[k] = indices_[indices[k]];
        rows_.clear();
        rows_.resize(indices_.size());
        return std::make_unique<SubGramRows>(K_, std::move(original));
    }

private:
    MatrixView<const T> K_;
    std::vector<std::size_t> indices_;
    std::vector<std::unique_ptr<T[]>> rows_;
};
}  // namespace

template <class T> std::unique_ptr<RowSource<T>> GramRows<T>::subset(const std::vector<std::size_t>& indices) {
    return std::make_unique<SubGramRows<T>>(K_, indices);
}

template class GramRows<float>;
template class GramRows<double>;
template class KernelRows<float>;
template class KernelRows<double>;

}  // namespace sparseklr
