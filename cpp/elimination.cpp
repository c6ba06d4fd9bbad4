#include "elimination.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "simd.hpp"

namespace sparseklr {

void eliminate(const double* sigma, double* beta, std::size_t n, std::size_t size, std::int64_t* gone, double* V) {
    constexpr double tiny = 1e-300;
    std::vector<double> variance(n), taken(size);
    std::vector<const double*> before(size);
    std::vector<char> left(n, 1);
    left[n - 1] = 0;  // the intercept
    for (std::size_t i = 0; i < n; ++i) variance[i] = sigma[i * n + i];
    for (std::size_t k = 0; k < size; ++k) {
        std::size_t b = n;
        double least = 0;
        for (std::size_t i = 0; i < n; ++i) {
            if (!left[i]) continue;
            const double saliency = beta[i] * beta[i] / variance[i];
            if (b == n || saliency < least) {
                b = i;
                least = saliency;
            }
        }
        left[b] = 0;
        gone[k] = std::int64_t(b);
        double* const column = V + k * n;
        std::copy_n(sigma + b * n, n, column);
        for (std::size_t j = 0; j < k; ++j) taken[j] = -V[j * n + b];
        simd<double>().add_rows(column, before.data(), taken.data(), k, 0, n);
        before[k] = column;
        const double scale = std::max(column[b], tiny), root = std::sqrt(scale), share = beta[b] / scale;
        for (std::size_t i = 0; i < n; ++i) {
            beta[i] -= column[i] * share;
            column[i] /= root;
            variance[i] = std::max(variance[i] - column[i] * column[i], tiny);
        }
    }
}

}  // namespace sparseklr
