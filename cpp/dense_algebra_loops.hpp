// The loops behind dense_algebra.hpp, compiled once per instruction set (isa.hpp).  Matrices are row-major.
#pragma once

#include <cstddef>

namespace sparseklr {

struct DenseAlgebra {
    bool (*cholesky)(double* A, std::size_t n);
    void (*solve_lower)(const double* L, std::size_t n, double* B, std::size_t m);
    void (*solve_vector)(const double* L, std::size_t n, double* x);
    void (*solve_transposed)(const double* L, std::size_t n, double* x);
    double (*dot)(const double* a, const double* b, std::size_t n);
};

const DenseAlgebra& dense_algebra();

}  // namespace sparseklr
