// Interventional Shapley values of a sum of product kernels, exact up to rounding.
#pragma once

#include <span>

#include "views.hpp"

namespace sparseklr {

// f_o(x) = sum_b coef(o, b) prod_g k_g(x, z_b), where group g of features has the factor
// k_g(x, z) = exp(-sum_{i in g} d(x_i, z_i)) and d is the squared (rbf) or the absolute (Laplacian) difference.
// Rows and points are already multiplied by the widths.
struct ProductModel {
    MatrixView<const double> points;           // [n_points][p]
    MatrixView<const double> coef;             // [n_outputs][n_points]
    std::span<const std::size_t> group_start;  // the features of group g are [group_start[g], group_start[g + 1])
    bool squared = true;

    std::size_t n_groups() const { return group_start.size() - 1; }
};

// The players of the game are the groups of features, and the value of a set S of groups is
// v(S) = sum_r weight_r f(x_S, r_rest), where r are the background rows.  The Shapley value of group g is
//
//     phi_g = sum_r weight_r sum_b coef_b (a_g - c_g) int_0^1 prod_{h != g} ((1 - t) c_h + t a_h) dt,
//     a_g = k_g(x, z_b),  c_g = k_g(r, z_b),
//
// because t^|S| (1 - t)^(n - 1 - |S|) integrates to the Shapley weight of S.  The integrand is a polynomial, so
// Gauss-Legendre quadrature with ceil(n / 2) nodes is exact.  The interaction index of two groups is a similar
// integral, in which the factors of both groups are removed from the product (Grabisch and Roubens 1999).
//
// values is [n_rows][n_outputs * n_groups].  interactions is empty, or [n_rows][n_outputs * n_groups^2], of which only
// the entries above the diagonal are set.  Results do not depend on the number of threads.
void shapley_values(const ProductModel& model, MatrixView<const double> rows, MatrixView<const double> background,
                    std::span<const double> weight, MatrixView<double> values, MatrixView<double> interactions,
                    int threads);

}  // namespace sparseklr
