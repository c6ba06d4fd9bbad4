// Kernel rows for the binary problem of two classes: some columns of the rows of another source, multiplied by 2.
#pragma once

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "rows.hpp"

namespace sparseklr {

// An error of the underlying source.  Its row number already refers to that source, so smo.cpp must not translate it.
struct SourceError {
    NonFiniteKernel error;
};

// Mass (softmax.hpp) that moves from one class to another changes the coefficients of both classes, so the kernel of
// the binary problem is 2 K.  Rows are gathered at their first use and cached in two generations of capacity() rows.  A
// requested row joins the young generation; when the young generation is full, it replaces the old one.
template <class T> class PairRows final : public RowSource<T> {
public:
    PairRows(RowSource<T>& source, std::vector<std::size_t> indices)
        : source_(source), indices_(std::move(indices)), rows_(indices_.size()), young_(indices_.size()) {}
    std::size_t size() const override { return indices_.size(); }
    double diagonal(std::size_t i) const override { return 2 * source_.diagonal(indices_[i]); }
    std::size_t capacity() const override { return std::max<std::size_t>(4, std::min(size(), source_.capacity())); }

    void fetch(std::span<const std::size_t> indices, std::span<const T*> out, Team& team) override {
        for (std::size_t k = 0; k < indices.size(); ++k) {
            const std::size_t i = indices[k];
            if (!young_[i]) {
                if (n_young_ == capacity()) next_generation();
                if (!rows_[i]) rows_[i] = gather(i, team);
                young_[i] = true;
                ++n_young_;
            }
            out[k] = rows_[i].get();
        }
    }

    std::unique_ptr<RowSource<T>> subset(const std::vector<std::size_t>& indices) override {
        std::vector<std::size_t> original(indices.size());
        for (std::size_t k = 0; k < indices.size(); ++k) original[k] = indices_[indices[k]];
        return std::make_unique<PairRows>(source_, std::move(original));
    }

private:
    std::unique_ptr<T[]> gather(std::size_t i, Team& team) {
        const T* full;
        try {
            source_.fetch({&indices_[i], 1}, {&full, 1}, team);
        } catch (const NonFiniteKernel& error) { throw SourceError{error}; }
        std::unique_ptr<T[]> row(new T[size()]);
        for (std::size_t j = 0; j < size(); ++j) row[j] = 2 * full[indices_[j]];
        return row;
    }

    void next_generation() {
        for (std::size_t i = 0; i < size(); ++i) {
            if (!young_[i]) rows_[i].reset();
            young_[i] = false;
        }
        n_young_ = 0;
    }

    RowSource<T>& source_;
    std::vector<std::size_t> indices_;
    std::vector<std::unique_ptr<T[]>> rows_;
    std::vector<bool> young_;
    std::size_t n_young_ = 0;
};

}  // namespace sparseklr
