#include "elimination.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "simd.hpp"

namespace sparseklr {

void eliminate(MatrixView<const double> sigma, MatrixView<double> beta, std::span<std::int64_t> order,
               MatrixView<double> V) {
    const std::size_t n = beta.columns, size = V.rows;
    constexpr double tiny = 1e-300;
    std::vector<double> variance(n), taken(size);
    std::vector<const double*> before(size);
    std::vector<char> left(n, 1);
    left[n - 1] = 0;  // the intercept
    for (std::size_t i = 0; i < n; ++i) variance[i] = sigma(i, i);
    for (std::size_t k = 0; k < size; ++k) {
        std::size_t b = n;
        double least = 0;
        for (std::size_t i = 0; i < n; ++i) {
            if (!left[i]) continue;
            double square = 0;
            for (std::size_t o = 0; o < beta.rows; ++o) square += beta(o, i) * beta(o, i);
            const double saliency = square / variance[i];
            if (b == n || saliency < least) {
                b = i;
                least = saliency;
            }
        }
        left[b] = 0;
        order[k] = std::int64_t(b);
        double* const column = V.row(k).data();
        std::copy_n(sigma.row(b).data(), n, column);
        for (std::size_t j = 0; j < k; ++j) taken[j] = -V(j, b);
        simd<double>().add_rows(column, before.data(), taken.data(), k, 0, n);
        before[k] = column;
        const double scale = std::max(column[b], tiny), root = std::sqrt(scale);
        for (std::size_t o = 0; o < beta.rows; ++o) {
            const double ratio = beta(o, b) / scale;
            for (std::size_t i = 0; i < n; ++i) beta(o, i) -= column[i] * ratio;
        }
        for (std::size_t i = 0; i < n; ++i) {
            column[i] /= root;
            variance[i] = std::max(variance[i] - column[i] * column[i], tiny);
        }
    }
}

}  // namespace sparseklr
