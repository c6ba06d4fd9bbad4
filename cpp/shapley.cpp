#include "shapley.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "shapley_loops.hpp"
#include "team.hpp"

namespace sparseklr {
namespace {

// Number of rows that are explained with the same factors of the background rows.
constexpr std::size_t rows_at_once = 16;

// The largest S = sum_h |a_h - c_h| / (a_h + c_h) for which n nodes integrate the product over h with an error below
// 1e-17 times the product of the means of a_h and c_h.  On the Bernstein ellipse rho of
// u = 2t - 1, the product is at most B = exp(S (rho + 1 / rho) / 2) times the product of the means.  The error is at
// most 3 B rho^(-2n) times the product of the means (Trefethen, Approximation Theory and Approximation Practice,
// theorem 19.3).  rho = 4n / S is nearly optimal.
double reach(std::size_t n) {
    double low = 0, high = 2 * double(n);  // rho >= 2
    for (int step = 0; step < 50; ++step) {
        const double S = 0.5 * (low + high), rho = 4 * double(n) / S;
        (2 * double(n) * std::log(rho) - S * (rho + 1 / rho) / 2 > 41 ? low : high) = S;
    }
    return low;
}

// Gauss-Legendre rules on [0, 1]: rules()[k] is exact for polynomials of degree k - 1, for k up to `most`, or exact up
// to rounding for products with differences up to `limit`.
class QuadratureRules {
public:
    QuadratureRules(std::size_t most, double limit) {
        std::vector<std::size_t> rule_of(most + 1, 0);
        std::vector<std::size_t> sizes, first;
        for (std::size_t k = 1; k <= most; ++k) {
            if (sizes.empty() || (2 * sizes.back() < k && reach(sizes.back()) < limit)) {
                // Every even number of nodes up to 32, then each one an eighth larger; a larger rule is exact too.
                const std::size_t needed = (k + 1) / 2;
                sizes.push_back((needed + (needed > 32 ? needed / 8 : 0) + 1) / 2 * 2);
                first.push_back(node_.size());
                add(sizes.back());
            }
            rule_of[k] = sizes.size() - 1;
        }
        for (std::size_t k = 0; k <= most; ++k) {
            if (sizes.empty()) {
                rules_.push_back(QuadratureRule{});
                continue;
            }
            const std::size_t rule = rule_of[k], at = first[rule];
            rules_.push_back({node_.data() + at, weight_.data() + at, sizes[rule], reach(sizes[rule])});
        }
    }
    QuadratureRules(const QuadratureRules&) = delete;
    QuadratureRules& operator=(const QuadratureRules&) = delete;

    const QuadratureRule* rules() const { return rules_.data(); }

private:
    // Newton's method on the Legendre polynomial P_n, started at Tricomi's approximation of its roots.
    void add(std::size_t n) {
        for (std::size_t i = 0; i < n; ++i) {
            double x = std::cos(pi * (double(i) + 0.75) / (double(n) + 0.5)), slope = 1;
            for (int step = 0; step < 100; ++step) {
                double last = 1, value = x;
                for (std::size_t k = 2; k <= n; ++k) {
                    const double next = (double(2 * k - 1) * x * value - double(k - 1) * last) / double(k);
                    last = value;
                    value = next;
                }
                slope = double(n) * (x * value - last) / (x * x - 1);
                const double change = value / slope;
                x -= change;
                if (std::abs(change) < 1e-15) break;
            }
            node_.push_back(0.5 * (1 + x));
            weight_.push_back(1 / ((1 - x * x) * slope * slope));
        }
    }

    static constexpr double pi = 3.14159265358979323846;
    std::vector<double> node_, weight_;
    std::vector<QuadratureRule> rules_;
};

// out[i][l] = rows(begin + l, i) for l < `size`; beyond `end`, the last row is repeated.
void transpose(MatrixView<const double> rows, std::size_t begin, std::size_t end, std::size_t size, double* out) {
    for (std::size_t l = 0; l < size; ++l)
        for (std::size_t i = 0; i < rows.columns; ++i) out[i * size + l] = rows(std::min(begin + l, end - 1), i);
}

// The largest -log k(x, z) over rows x and points z.
double largest_distance(const ProductModel& model, MatrixView<const double> rows) {
    double largest = 0;
    for (std::size_t r = 0; r < rows.rows; ++r)
        for (std::size_t b = 0; b < model.points.rows; ++b) {
            double distance = 0;
            for (std::size_t i = 0; i < rows.columns; ++i) {
                const double d = rows(r, i) - model.points(b, i);
                distance += model.squared ? d * d : std::abs(d);
            }
            largest = std::max(largest, distance);
        }
    return largest;
}

struct ShapleyWorkspace {
    std::vector<double> rows, of_rows, of_background, a, scratch, sums, pairs;
    std::vector<std::size_t> active;

    ShapleyWorkspace(std::size_t p, std::size_t groups, std::size_t n_background, bool interactions)
        : rows(p * rows_at_once), of_rows(groups * rows_at_once), of_background(groups * n_background), a(groups),
          scratch((7 + (interactions ? groups : 0)) * groups * shapley_lanes), sums(groups),
          pairs(interactions ? groups * groups : 0), active(groups) {}
};

}  // namespace

void shapley_values(const ProductModel& model, MatrixView<const double> rows, MatrixView<const double> background,
                    std::span<const double> weight, MatrixView<double> values, MatrixView<double> interactions,
                    int threads) {
    const ShapleyLoops& loops = shapley_loops();
    const std::size_t groups = model.n_groups(), p = model.points.columns, outputs = model.coef.rows;
    const std::size_t padded = (background.rows + shapley_lanes - 1) / shapley_lanes * shapley_lanes;
    const bool with_pairs = interactions.size() != 0;
    std::vector<double> background_columns(p * padded);
    transpose(background, 0, background.rows, padded, background_columns.data());
    std::vector<double> padded_weight(padded, 0.0);
    std::copy(weight.begin(), weight.end(), padded_weight.begin());
    // |a - c| / (a + c) = tanh(|log a - log c| / 2)
    const double limit = 0.5 * (largest_distance(model, rows) + largest_distance(model, background));
    const QuadratureRules rules(groups, limit);

    const std::size_t n_pieces = (rows.rows + rows_at_once - 1) / rows_at_once;
    Team team(threads, n_pieces);
    std::vector<ShapleyWorkspace> workspaces(team.size(), ShapleyWorkspace(p, groups, padded, with_pairs));
    std::fill(values.flat().begin(), values.flat().end(), 0.0);
    if (with_pairs) std::fill(interactions.flat().begin(), interactions.flat().end(), 0.0);
    team.each(n_pieces, [&](std::size_t piece, std::size_t worker) noexcept {
        ShapleyWorkspace& work = workspaces[worker];
        const std::size_t begin = piece * rows_at_once, end = std::min(rows.rows, begin + rows_at_once);
        transpose(rows, begin, end, rows_at_once, work.rows.data());
        for (std::size_t b = 0; b < model.points.rows; ++b) {
            const double* point = model.points.row(b).data();
            const std::size_t* start = model.group_start.data();
            loops.factors(work.rows.data(), rows_at_once, point, start, groups, model.squared, work.of_rows.data());
            loops.factors(background_columns.data(), padded, point, start, groups, model.squared,
                          work.of_background.data());
            for (std::size_t r = begin; r < end; ++r) {
                for (std::size_t g = 0; g < groups; ++g) work.a[g] = work.of_rows[g * rows_at_once + r - begin];
                double* pairs = with_pairs ? work.pairs.data() : nullptr;
                loops.integrals(work.a.data(), work.of_background.data(), padded_weight.data(), padded, groups,
                                rules.rules(), work.scratch.data(), work.active.data(), work.sums.data(), pairs);
                for (std::size_t o = 0; o < outputs; ++o) {
                    const double coef = model.coef(o, b);
                    double* out = values.row(r).data() + o * groups;
                    for (std::size_t g = 0; g < groups; ++g) out[g] += coef * work.sums[g];
                    if (!with_pairs) continue;
                    double* pair_out = interactions.row(r).data() + o * groups * groups;
                    for (std::size_t k = 0; k < groups * groups; ++k) pair_out[k] += coef * pairs[k];
                }
            }
        }
    });
}

}  // namespace sparseklr
