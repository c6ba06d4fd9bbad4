// Newton's equations of a penalised likelihood whose features are at hand.
#pragma once

#include <cstddef>

namespace sparseklr {

// The system (sum_i h_i a_i a_i' + diag(ridge)) step = -gradient, a_i = (phi_i, 1).
struct NewtonSystem {
    const double* phi;          // [n][m]
    std::size_t n, m;
    const double* information;  // [n], the h_i
    const double* ridge;        // [m + 1]
    const double* gradient;     // [m + 1]
    const double* factor;       // [m + 1][m + 1], lower Cholesky factor of a similar matrix
};

// Conjugate gradients from zero, preconditioned by the factor, until the residual has fallen by `reduction` or
// `most_products` are made.  Writes the step [m + 1] and its change of the outputs [n]; returns the products made.
std::size_t newton_step(const NewtonSystem& system, double reduction, std::size_t most_products, double* step, double* change);

}  // namespace sparseklr
