// Views of arrays owned by the caller: std::span for vectors, MatrixView for matrices, CsrView for sparse rows.
#pragma once

#include <cstddef>
#include <span>
#include <type_traits>

namespace sparseklr {

// A row-major matrix; rows follow each other without gaps.
template <class T> struct MatrixView {
    T* values = nullptr;
    std::size_t rows = 0, columns = 0;

    T* data() const { return values; }
    std::size_t size() const { return rows * columns; }
    T& operator()(std::size_t i, std::size_t j) const { return values[i * columns + j]; }
    std::span<T> row(std::size_t i) const { return {values + i * columns, columns}; }
    std::span<T> flat() const { return {values, size()}; }

    operator MatrixView<const T>() const
        requires(!std::is_const_v<T>)
    {
        return {values, rows, columns};
    }
};

// Rows of a matrix with n_features columns in compressed form: row i consists of values[indptr[i]] to
// values[indptr[i + 1] - 1], in the columns given by the same positions of `columns`.
template <class T, class Index> struct CsrView {
    std::span<const T> values;
    std::span<const Index> columns;
    std::span<const Index> indptr;  // one entry more than there are rows
    std::size_t n_features = 0;

    std::size_t n_rows() const { return indptr.size() - 1; }
};

}  // namespace sparseklr
