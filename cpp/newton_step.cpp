#include "newton_step.hpp"

#include <algorithm>

#include "compact_loops.hpp"
#include "simd.hpp"

namespace sparseklr {
namespace {

// The matrix of the system times vectors, in one pass over the rows.
class Product {
public:
    explicit Product(const NewtonSystem& system) : system_(system), coef_(system.m + 1) {
        std::size_t n = 0;
        for (const RowBlock& block : system.blocks) n += block.n;
        along.resize(n);
        turned.resize(system.m + 1);
    }

    // Sets along = A d and turned = H d; returns d'H d.
    double operator()(const std::vector<double>& d) {
        const std::size_t m = system_.m;
        const auto& loops = simd<double>();
        coef_ = d;
        if (system_.L) compact_algebra().solve_transposed(system_.L, m, coef_.data());
        std::fill(turned.begin(), turned.end(), 0.0);
        double curvature = 0;
        std::size_t i = 0;
        for (const RowBlock& block : system_.blocks)
            for (std::size_t first = 0; first < block.n; first += 4) {  // four rows stay in the nearest cache
                const std::size_t count = std::min<std::size_t>(4, block.n - first);
                const double* rows[4];
                double weighted[4];
                for (std::size_t r = 0; r < count; ++r, ++i) {
                    rows[r] = block.values + (first + r) * m;
                    along[i] = loops.dot(rows[r], coef_.data(), m) + d[m];
                    weighted[r] = system_.information[i] * along[i];
                    curvature += weighted[r] * along[i];
                    turned[m] += weighted[r];
                }
                loops.add_rows(turned.data(), rows, weighted, count, 0, m);
            }
        if (system_.L) compact_algebra().solve_vector(system_.L, m, turned.data());
        for (std::size_t k = 0; k <= m; ++k) {
            turned[k] += system_.ridge[k] * d[k];
            curvature += system_.ridge[k] * d[k] * d[k];
        }
        return curvature;
    }

    std::vector<double> along, turned;

private:
    const NewtonSystem& system_;
    std::vector<double> coef_;
};

}  // namespace

std::size_t newton_step(const NewtonSystem& system, double reduction, std::size_t most_products, double* step, double* change) {
    const std::size_t size = system.m + 1;
    const auto& algebra = compact_algebra();
    Product product(system);
    std::vector<double> residual(size), z(size);
    std::fill_n(step, size, 0.0);
    std::fill_n(change, product.along.size(), 0.0);
    const auto precondition = [&] {  // z = (factor factor')^-1 residual; returns residual'z
        z = residual;
        algebra.solve_vector(system.factor, size, z.data());
        algebra.solve_transposed(system.factor, size, z.data());
        return algebra.dot(residual.data(), z.data(), size);
    };
    for (std::size_t k = 0; k < size; ++k) residual[k] = -system.gradient[k];
    const double first = precondition();
    double left = first;
    std::vector<double> direction = z;
    for (std::size_t products = 1;; ++products) {
        const double length = left / std::max(product(direction), 1e-300);
        for (std::size_t i = 0; i < product.along.size(); ++i) change[i] += length * product.along[i];
        for (std::size_t k = 0; k < size; ++k) {
            step[k] += length * direction[k];
            residual[k] -= length * product.turned[k];
        }
        if (products >= most_products) return products;
        const double last = left;
        left = precondition();
        if (left <= reduction * reduction * first) return products;
        for (std::size_t k = 0; k < size; ++k) direction[k] = z[k] + left / last * direction[k];
    }
}

}  // namespace sparseklr
