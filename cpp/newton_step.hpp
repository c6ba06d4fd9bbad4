// Products with stored rows, and the solution of the Newton equations of a penalised likelihood.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "views.hpp"

namespace sparseklr {

// Rows of kernel columns or features in several blocks [n_b][m]; row numbers i run over all blocks.
using RowBlocks = std::vector<MatrixView<const double>>;

// out[i] = (row i)'coef + intercept, for the rows of all blocks.
void row_products(const RowBlocks& blocks, std::span<const double> coef, double intercept, std::span<double> out,
                  int threads);

// out[k] = sum_i weight[i] (row i)[k].
void weighted_row_sum(const RowBlocks& blocks, std::span<const double> weight, std::span<double> out, int threads);

// The weighted sum of the cross-entropies of points at the outputs a f + b, and its derivatives in (a, b).
struct AffineLoss {
    double value, slope[2], curvature[3];  // d/da, d/db; d2/da2, d2/dadb, d2/db2
};
AffineLoss affine_loss(std::span<const double> f, std::span<const double> target, std::span<const double> weight,
                       double a, double b);

// The system (sum_i h_i a_i a_i' + diag(ridge)) step = -gradient, a_i = (phi_i, 1), phi_i = L^-1 (row i).
struct NewtonSystem {
    RowBlocks blocks;
    MatrixView<const double> L;           // [m][m], lower; empty if the rows are the phi_i themselves
    std::span<const double> information;  // [n], the h_i of all rows
    std::span<const double> ridge;        // [m + 1]
    std::span<const double> gradient;     // [m + 1]
    MatrixView<const double> factor;      // [m + 1][m + 1], lower Cholesky factor of a similar matrix

    std::size_t m() const { return ridge.size() - 1; }
};

// Solves the system by conjugate gradients, preconditioned with the factor and started from zero.  Stops when the
// residual is `reduction` times the initial one, or after `most_products` products.  Sets the step [m + 1] and the
// change of the outputs [n] that it causes; returns the number of products.
std::size_t newton_step(const NewtonSystem& system, double reduction, std::size_t most_products, std::span<double> step,
                        std::span<double> change, int threads);

}  // namespace sparseklr
