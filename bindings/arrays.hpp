// Helpers for the bindings: views of Python arrays, arrays returned to Python, and validation of arguments.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstddef>
#include <initializer_list>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "views.hpp"

namespace sparseklr::python {

namespace nb = nanobind;

// Read-only arrays.
template <class T> using matrix = nb::ndarray<const T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
template <class T> using vector = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
// Arrays that are modified in place; their arguments must be bound with noconvert().
template <class T> using out_matrix = nb::ndarray<T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
template <class T> using out_vector = nb::ndarray<T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

template <class T> MatrixView<const T> view(const matrix<T>& array) {
    return {array.data(), array.shape(0), array.shape(1)};
}
template <class T> std::span<const T> view(const vector<T>& array) { return {array.data(), array.shape(0)}; }
template <class T> MatrixView<T> view(const out_matrix<T>& array) {
    return {array.data(), array.shape(0), array.shape(1)};
}
template <class T> std::span<T> view(const out_vector<T>& array) { return {array.data(), array.shape(0)}; }

// NumPy arrays that take ownership of the values.
template <class T> nb::object to_numpy(std::unique_ptr<T[]> values, std::initializer_list<std::size_t> shape) {
    nb::capsule owner(values.get(), [](void* p) noexcept { delete[] static_cast<T*>(p); });
    return nb::cast(nb::ndarray<nb::numpy, T>(values.release(), shape, owner));
}
template <class T> nb::object to_numpy(std::vector<T>&& values, std::initializer_list<std::size_t> shape) {
    auto* kept = new std::vector<T>(std::move(values));
    nb::capsule owner(kept, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
    return nb::cast(nb::ndarray<nb::numpy, T>(kept->data(), shape, owner));
}

inline void check_threads(int threads) {
    if (threads < 1) throw nb::value_error("threads must be at least 1");
}

// Lets Python handle signals; may be called with or without the GIL.
inline void check_signals() {
    nb::gil_scoped_acquire gil;
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
}

}  // namespace sparseklr::python
