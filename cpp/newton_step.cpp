#include "newton_step.hpp"

#include <algorithm>
#include <vector>

#include "compact_loops.hpp"
#include "simd.hpp"

namespace sparseklr {

std::size_t newton_step(const NewtonSystem& system, double reduction, std::size_t most_products, double* step, double* change) {
    const auto& [phi, n, m, information, ridge, gradient, factor] = system;
    const auto& algebra = compact_algebra();
    const auto& loops = simd<double>();
    std::vector<double> residual(m + 1), z(m + 1), direction(m + 1), turned(m + 1), along(n), weighted(n);
    std::vector<const double*> rows(n);
    for (std::size_t i = 0; i < n; ++i) rows[i] = phi + i * m;
    std::fill_n(step, m + 1, 0.0);
    std::fill_n(change, n, 0.0);
    // by copies: Clang before 16 does not let a lambda refer to structured bindings
    const auto precondition = [&, m = m, factor = factor] {  // z = H^-1 residual; returns residual'z
        z = residual;
        algebra.solve_vector(factor, m + 1, z.data());
        algebra.solve_transposed(factor, m + 1, z.data());
        return algebra.dot(residual.data(), z.data(), m + 1);
    };
    for (std::size_t k = 0; k <= m; ++k) residual[k] = -gradient[k];
    const double first = precondition();
    double size = first;
    direction = z;
    for (std::size_t products = 1;; ++products) {
        double intercept = 0, curvature = 0;
        for (std::size_t i = 0; i < n; ++i) {
            along[i] = loops.dot(rows[i], direction.data(), m) + direction[m];
            weighted[i] = information[i] * along[i];
            intercept += weighted[i];
            curvature += weighted[i] * along[i];
        }
        for (std::size_t k = 0; k <= m; ++k) {
            turned[k] = ridge[k] * direction[k];
            curvature += turned[k] * direction[k];
        }
        loops.add_rows(turned.data(), rows.data(), weighted.data(), n, 0, m);
        turned[m] += intercept;
        const double length = size / std::max(curvature, 1e-300);
        for (std::size_t i = 0; i < n; ++i) change[i] += length * along[i];
        for (std::size_t k = 0; k <= m; ++k) {
            step[k] += length * direction[k];
            residual[k] -= length * turned[k];
        }
        if (products >= most_products) return products;
        const double last = size;
        size = precondition();
        if (size <= reduction * reduction * first) return products;
        for (std::size_t k = 0; k <= m; ++k) direction[k] = z[k] + size / last * direction[k];
    }
}

}  // namespace sparseklr
