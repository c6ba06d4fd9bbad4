// Products with rows that are at hand, and Newton's equations of a penalised likelihood made of them.
#pragma once

#include <cstddef>
#include <vector>

namespace sparseklr {

// Rows [n][m] of kernel columns or features, in one piece.
struct RowBlock {
    const double* values;
    std::size_t n;
};

// out[i] = (row i)'coef + intercept, for the rows of all blocks.
void row_products(const std::vector<RowBlock>& blocks, std::size_t m, const double* coef, double intercept, double* out,
                  int threads);

// out[k] = sum_i weight[i] (row i)[k].
void weighted_row_sum(const std::vector<RowBlock>& blocks, std::size_t m, const double* weight, double* out, int threads);

// The system (sum_i h_i a_i a_i' + diag(ridge)) step = -gradient, a_i = (phi_i, 1), phi_i = L^-1 (row i).
struct NewtonSystem {
    std::vector<RowBlock> blocks;
    std::size_t m;
    const double* L;            // [m][m], lower; null if the rows are the phi_i themselves
    const double* information;  // [n], the h_i of all rows
    const double* ridge;        // [m + 1]
    const double* gradient;     // [m + 1]
    const double* factor;       // [m + 1][m + 1], lower Cholesky factor of a similar matrix
};

// Conjugate gradients from zero, preconditioned by the factor, until the residual has fallen by `reduction` or
// `most_products` are made.  Writes the step [m + 1] and its change of the outputs [n]; returns the products made.
std::size_t newton_step(const NewtonSystem& system, double reduction, std::size_t most_products, double* step, double* change,
                        int threads);

}  // namespace sparseklr
