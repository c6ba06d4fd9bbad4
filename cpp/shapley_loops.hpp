// The time-critical loops of Shapley values, compiled once per instruction set (isa.hpp).
#pragma once

#include <cstddef>

namespace sparseklr {

// Number of background rows whose integrals are computed at the same time.
inline constexpr std::size_t shapley_lanes = 8;

// Nodes t and weights of a quadrature rule on [0, 1]; their number is even.
struct QuadratureRule {
    const double* node;
    const double* weight;
    std::size_t size;
    double reach;  // exact up to rounding for products with sum_h |a_h - c_h| / (a_h + c_h) <= reach
};

struct ShapleyLoops {
    // out[g][r] = exp(-sum_i d(X[i][r], z[i])) over the features start[g] <= i < start[g + 1] of group g, where d is
    // the squared or the absolute difference; X is [p][rows], rows a multiple of 4.
    void (*factors)(const double* X, std::size_t rows, const double* z, const std::size_t* start, std::size_t groups,
                    bool squared, double* out);

    // sums[g] = sum_r weight[r] (a_g - c_gr) int_0^1 prod_{h != g} ((1 - t) c_hr + t a_h) dt, with c as [groups][rows]
    // and rows a multiple of shapley_lanes.  Unless `pairs` is null, pairs[g][h] for g < h is set to the corresponding
    // integral without the factors of g and h.  rules[k] is exact for polynomials of degree k - 1; a smaller rule is
    // used within its reach.
    // scratch: 56 * groups values, and 8 * groups^2 more for pairs; active: groups entries.
    void (*integrals)(const double* a, const double* c, const double* weight, std::size_t rows, std::size_t groups,
                      const QuadratureRule* rules, double* scratch, std::size_t* active, double* sums, double* pairs);
};

const ShapleyLoops& shapley_loops();

}  // namespace sparseklr
