// Bodies of the loops in shapley_loops.hpp, for the instruction set SPARSEKLR_ISA; see simd_impl.hpp.
#pragma once

#include "shapley_loops.hpp"
#include "tiles_impl.hpp"

namespace sparseklr::SPARSEKLR_ISA {

inline void shapley_factors(const double* X, std::size_t rows, const double* z, const std::size_t* start,
                            std::size_t groups, bool squared, double* out) {
    for (std::size_t g = 0; g < groups; ++g)
        for (std::size_t r = 0; r < rows; r += 4) {
            vd distance{};
            for (std::size_t i = start[g]; i < start[g + 1]; ++i) {
                const vd d = load<double>(X + i * rows + r) - z[i];
                distance += squared ? d * d : magnitude<double>(d);
            }
            store<double>(out + g * rows + r, exp_nonpositive<double>(-distance));
        }
}

// One tile of background rows: two vectors of four, with two nodes at a time.
struct ShapleyTile {
    static constexpr std::size_t line = shapley_lanes;  // values of one group
    std::size_t n;                                      // groups that differ between the row and the background
    double* c;                                          // [n][line]
    double* d;                                          // [n][line], a - c
    double* prefix;                                     // [n][2 nodes][line], products of the factors before
    double* suffix;                                     // [n][2 nodes][line], of those after; only for pairs
    double* sum;                                        // [n][line], integrals
    double* pair;                                       // [n][n][line]; null without pairs

    vd at(const double* values, std::size_t g, int v) const { return load<double>(values + g * line + 4 * v); }
    vd factor(std::size_t g, int v, double t) const { return at(c, g, v) + t * at(d, g, v); }

    void add_nodes(const double* node, const double* weight) const {
        vd run[2][2];
        for (int k = 0; k < 2; ++k)
            for (int v = 0; v < 2; ++v) run[k][v] = vd{} + 1.0;
        for (std::size_t g = 0; g < n; ++g)
#pragma GCC unroll 2
            for (int k = 0; k < 2; ++k)
#pragma GCC unroll 2
                for (int v = 0; v < 2; ++v) {
                    store<double>(prefix + (2 * g + k) * line + 4 * v, run[k][v]);
                    run[k][v] *= factor(g, v, node[k]);
                }
        for (int k = 0; k < 2; ++k)
            for (int v = 0; v < 2; ++v) run[k][v] = vd{} + weight[k];
        for (std::size_t g = n; g-- > 0;)
#pragma GCC unroll 2
            for (int v = 0; v < 2; ++v) {
                vd total = at(sum, g, v);
#pragma GCC unroll 2
                for (int k = 0; k < 2; ++k) {
                    total += at(prefix, 2 * g + k, v) * run[k][v];
                    if (pair) store<double>(suffix + (2 * g + k) * line + 4 * v, run[k][v]);
                    run[k][v] *= factor(g, v, node[k]);
                }
                store<double>(sum + g * line + 4 * v, total);
            }
        if (pair) add_pairs(node);
    }

    void add_pairs(const double* node) const {
        for (int k = 0; k < 2; ++k)
            for (int v = 0; v < 2; ++v)
                for (std::size_t g = 0; g < n; ++g) {
                    vd between = at(prefix, 2 * g + k, v);
                    for (std::size_t h = g + 1; h < n; ++h) {
                        double* total = pair + (g * n + h) * line + 4 * v;
                        store<double>(total, load<double>(total) + between * at(suffix, 2 * h + k, v));
                        between *= factor(h, v, node[k]);
                    }
                }
    }
};

inline void shapley_integrals(const double* a, const double* c, const double* weight, std::size_t rows,
                              std::size_t groups, const QuadratureRule* rules, double* scratch, std::size_t* active,
                              double* sums, double* pairs) {
    constexpr std::size_t line = shapley_lanes;
    const std::size_t stride = groups * line;
    for (std::size_t g = 0; g < groups; ++g) sums[g] = 0;
    if (pairs)
        for (std::size_t k = 0; k < groups * groups; ++k) pairs[k] = 0;
    for (std::size_t r = 0; r < rows; r += line) {
        ShapleyTile tile{0,
                         scratch,
                         scratch + stride,
                         scratch + 2 * stride,
                         scratch + 4 * stride,
                         scratch + 6 * stride,
                         pairs ? scratch + 7 * stride : nullptr};
        double constant = 1;            // product of the factors that do not depend on t
        double differences[line] = {};  // sums of |a - c| / (a + c)
        for (std::size_t g = 0; g < groups; ++g) {
            const double* from = c + g * rows + r;
            bool differs = false;
            for (std::size_t l = 0; l < line; ++l) differs |= from[l] != a[g];
            if (!differs) {
                constant *= a[g];
                continue;
            }
            for (std::size_t l = 0; l < line; ++l) {
                tile.c[tile.n * line + l] = from[l];
                const double d = a[g] - from[l], sum = a[g] + from[l];
                tile.d[tile.n * line + l] = d;
                differences[l] += sum > 0 ? (d > 0 ? d : -d) / sum : 0;
                tile.sum[tile.n * line + l] = 0;
            }
            active[tile.n++] = g;
        }
        if (tile.n == 0) continue;
        if (pairs)
            for (std::size_t k = 0; k < tile.n * tile.n * line; ++k) tile.pair[k] = 0;
        double most = 0;
        for (double difference : differences) most = difference > most ? difference : most;
        std::size_t degree = 1;
        while (degree < tile.n && rules[degree].reach < most) ++degree;
        const QuadratureRule& rule = rules[degree];
        for (std::size_t k = 0; k < rule.size; k += 2) tile.add_nodes(rule.node + k, rule.weight + k);
        for (std::size_t g = 0; g < tile.n; ++g) {
            vd total{};
            for (int v = 0; v < 2; ++v)
                total += load<double>(weight + r + 4 * v) * tile.at(tile.d, g, v) * tile.at(tile.sum, g, v);
            sums[active[g]] += constant * lane_sum<double>(total);
            for (std::size_t h = g + 1; pairs && h < tile.n; ++h) {
                vd both{};
                for (int v = 0; v < 2; ++v)
                    both += load<double>(weight + r + 4 * v) * tile.at(tile.d, g, v) * tile.at(tile.d, h, v) *
                            tile.at(tile.pair, g * tile.n + h, v);
                pairs[active[g] * groups + active[h]] += constant * lane_sum<double>(both);
            }
        }
    }
}

}  // namespace sparseklr::SPARSEKLR_ISA

#define SPARSEKLR_EXPORT_SHAPLEY(isa)                                                      \
    namespace sparseklr {                                                                  \
    extern const ShapleyLoops shapley_##isa{isa::shapley_factors, isa::shapley_integrals}; \
    }
