// Sources of kernel rows: a matrix, or points and a kernel function with a bounded cache.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <span>
#include <utility>
#include <vector>

#include "points.hpp"

namespace sparseklr {

// Interface through which the solver accesses a kernel matrix: its diagonal and its rows.
template <class T> class RowSource {
public:
    virtual ~RowSource() = default;
    virtual std::size_t size() const = 0;
    virtual double diagonal(std::size_t i) const = 0;
    // Number of rows that can be stored at once, at least 4.
    virtual std::size_t capacity() const = 0;
    // Sets out[k] to row indices[k]; there may be at most capacity() distinct indices.  A pointer stays valid until its
    // row is evicted to make space for other rows; the least recently requested rows are evicted first.
    virtual void fetch(std::span<const std::size_t> indices, std::span<const T*> out, Team& team) = 0;
    // The same kernel for a subset of the points.  A source and its subset may share memory: fetching rows from one of
    // them then invalidates rows fetched from the other.
    virtual std::unique_ptr<RowSource> subset(const std::vector<std::size_t>& indices) = 0;
};

// Rows of a given square matrix.
template <class T> class GramRows final : public RowSource<T> {
public:
    explicit GramRows(MatrixView<const T> K) : K_(K) {}
    std::size_t size() const override { return K_.rows; }
    double diagonal(std::size_t i) const override { return double(K_(i, i)); }
    std::size_t capacity() const override { return K_.rows < 4 ? 4 : K_.rows; }
    void fetch(std::span<const std::size_t> indices, std::span<const T*> out, Team&) override {
        for (std::size_t k = 0; k < indices.size(); ++k) out[k] = K_.row(indices[k]).data();
    }
    std::unique_ptr<RowSource<T>> subset(const std::vector<std::size_t>& indices) override;

private:
    MatrixView<const T> K_;
};

// Memory for kernel rows, in chunks of equal size, which grows as needed.  A source and its subsets use the same memory
// in turn, because writing to new memory takes more time than computing kernel rows with few features.
template <class T> class RowMemory {
public:
    explicit RowMemory(std::size_t chunk_values) : chunk_values_(chunk_values) {}
    std::size_t chunk_values() const { return chunk_values_; }
    // Returns chunk number `index`, which is at most the number of existing chunks; a new chunk is then allocated.
    T* chunk(std::size_t index) {
        if (index == chunks_.size()) grow();
        return chunks_[index].get();
    }
    // Returns whether another user has used this memory since `user` did, so that the rows of `user` are lost.
    bool changes_to(const void* user) { return std::exchange(user_, user) != user; }

private:
    void grow();
    struct Free {
        std::align_val_t alignment;
        void operator()(T* p) const { ::operator delete(p, alignment); }
    };
    std::size_t chunk_values_;
    std::vector<std::unique_ptr<T[], Free>> chunks_;
    const void* user_ = nullptr;
};

// Rows of the kernel matrix of a set of points, in a cache of at most `cache_bytes`; the least recently used rows are
// evicted first.  The cache has space for at least four rows: SMO needs two, and rows are added in groups of four.
template <class T> class KernelRows final : public RowSource<T> {
public:
    KernelRows(std::shared_ptr<const Points<T>> points, std::size_t cache_bytes,
               std::shared_ptr<RowMemory<T>> memory = nullptr);
    std::size_t size() const override { return points_->size(); }
    double diagonal(std::size_t i) const override { return points_->diagonal(i); }
    std::size_t capacity() const override { return slots_; }
    void fetch(std::span<const std::size_t> indices, std::span<const T*> out, Team& team) override;
    std::unique_ptr<RowSource<T>> subset(const std::vector<std::size_t>& indices) override;

private:
    static constexpr std::uint32_t none = UINT32_MAX;
    struct Slot {
        std::uint32_t owner = none, older = none, newer = none;
    };
    T* address(std::uint32_t slot) const { return memory_->chunk(slot / chunk_rows_) + slot % chunk_rows_ * stride_; }
    void find_or_compute(std::span<const std::size_t> indices, std::span<const T*> out, Team& team);
    std::uint32_t claim_slot();
    void unlink(std::uint32_t slot);
    void push_newest(std::uint32_t slot);
    void clear();

    std::shared_ptr<const Points<T>> points_;
    Scratch<T> scratch_;
    std::size_t cache_bytes_;
    std::size_t stride_, slots_;
    std::shared_ptr<RowMemory<T>> memory_;
    std::size_t chunk_rows_;
    std::vector<Slot> slot_;
    std::vector<std::uint32_t> slot_of_;  // point -> slot or none
    std::uint32_t oldest_ = none, newest_ = none;
};

}  // namespace sparseklr
