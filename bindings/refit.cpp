// Python bindings of the refit: products with kernel columns, Newton steps, losses, elimination order.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <vector>

#include "arrays.hpp"
#include "elimination.hpp"
#include "logistic_loops.hpp"
#include "newton_step.hpp"
#include "simd.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using namespace sparseklr;
using namespace sparseklr::python;

namespace {

// Stores the losses of points, and their first and second derivatives, in the three rows of `out`; returns the weighted
// sum of the losses.
double cross_entropy(vector<double> f, vector<double> target, vector<double> weight, out_matrix<double> out) {
    const std::size_t n = f.shape(0);
    if (target.shape(0) != n || weight.shape(0) != n || out.shape(0) != 3 || out.shape(1) != n)
        throw nb::value_error("f, target and weight must have the same length n, and out must have shape (3, n)");
    const MatrixView<double> rows = view(out);
    nb::gil_scoped_release release;
    return logistic_loops().cross_entropy(f.data(), target.data(), weight.data(), n, rows.row(0).data(),
                                          rows.row(1).data(), rows.row(2).data());
}

// The weighted sum of the losses at a f + b; its derivatives in a and b; its second derivatives in aa, ab and bb.
auto affine_loss_of(vector<double> f, vector<double> target, vector<double> weight, double a, double b) {
    if (target.shape(0) != f.shape(0) || weight.shape(0) != f.shape(0))
        throw nb::value_error("f, target and weight must have the same length");
    const AffineLoss sum = affine_loss(view(f), view(target), view(weight), a, b);
    return nb::make_tuple(sum.value, sum.slope[0], sum.slope[1], sum.curvature[0], sum.curvature[1], sum.curvature[2]);
}

// out[i][k] = sum_b weight[i][b] sign(X[i][k] - Z[b][k])
void sign_sums_of(matrix<double> X, matrix<double> Z, matrix<double> weight, out_matrix<double> out) {
    const std::size_t n = X.shape(0), m = Z.shape(0), p = X.shape(1);
    if (Z.shape(1) != p || weight.shape(0) != n || weight.shape(1) != m || out.shape(0) != n || out.shape(1) != p)
        throw nb::value_error("X and out must be (n, p), Z (m, p) and weight (n, m)");
    nb::gil_scoped_release release;
    std::vector<const double*> rows(m);
    for (std::size_t b = 0; b < m; ++b) rows[b] = view(Z).row(b).data();
    for (std::size_t i = 0; i < n; ++i)
        simd<double>().sign_sums(view(out).row(i).data(), view(X).row(i).data(), rows.data(),
                                 view(weight).row(i).data(), m, p);
}

// Blocks of rows [n][m]; validates their width.
RowBlocks row_blocks(const std::vector<matrix<double>>& blocks, std::size_t m, std::size_t n) {
    RowBlocks out;
    for (const auto& block : blocks) {
        if (block.shape(1) != m) throw nb::value_error("blocks must have one column for each coefficient");
        out.push_back(view(block));
        n -= block.shape(0);
    }
    if (n != 0) throw nb::value_error("there must be one entry for each row of the blocks");
    return out;
}

// out[i] = (row i)'coef + intercept
void row_products_of(const std::vector<matrix<double>>& blocks, vector<double> coef, double intercept,
                     out_vector<double> out, int threads) {
    check_threads(threads);
    const RowBlocks rows = row_blocks(blocks, coef.shape(0), out.shape(0));
    nb::gil_scoped_release release;
    row_products(rows, view(coef), intercept, view(out), threads);
}

// out[k] = sum_i weight[i] (row i)[k]
void weighted_sum_of_rows(const std::vector<matrix<double>>& blocks, vector<double> weight, out_vector<double> out,
                          int threads) {
    check_threads(threads);
    const RowBlocks rows = row_blocks(blocks, out.shape(0), weight.shape(0));
    nb::gil_scoped_release release;
    weighted_row_sum(rows, view(weight), view(out), threads);
}

// `blocks` contain kernel columns, with L the Cholesky factor of their kernel matrix, or features, with an empty L.
// Returns the number of products.
std::size_t solve_newton(const std::vector<matrix<double>>& blocks, std::optional<matrix<double>> L,
                         vector<double> information, vector<double> ridge, vector<double> gradient,
                         matrix<double> factor, double reduction, std::size_t most_products, out_vector<double> step,
                         out_vector<double> change, int threads) {
    check_threads(threads);
    const std::size_t size = ridge.shape(0);
    if (size == 0 || gradient.shape(0) != size || step.shape(0) != size || factor.shape(0) != size ||
        factor.shape(1) != size)
        throw nb::value_error("ridge, gradient, step and factor must have the same size, at least 1");
    if (L && (L->shape(0) + 1 != size || L->shape(1) + 1 != size))
        throw nb::value_error("L must have one row and one column less than factor");
    if (information.shape(0) != change.shape(0))
        throw nb::value_error("information and change must have the same length");
    const NewtonSystem system{row_blocks(blocks, size - 1, information.shape(0)),
                              L ? view(*L) : MatrixView<const double>{},
                              view(information),
                              view(ridge),
                              view(gradient),
                              view(factor)};
    nb::gil_scoped_release release;
    return newton_step(system, reduction, most_products, view(step), view(change), threads);
}

// Eliminates as many points as V has rows, and stores their indices in `gone`.
void eliminate_some(matrix<double> sigma, out_matrix<double> beta, out_vector<std::int64_t> gone,
                    out_matrix<double> V) {
    const std::size_t n = beta.shape(1), size = gone.shape(0);
    if (sigma.shape(0) != n || sigma.shape(1) != n || V.shape(0) != size || V.shape(1) != n || size >= n)
        throw nb::value_error("sigma must be (n, n), beta (n_outputs, n), gone (size,) and V (size, n), size below n");
    nb::gil_scoped_release release;
    eliminate(view(sigma), view(beta), view(gone), view(V));
}

}  // namespace

void bind_refit(nb::module_& m) {
    m.def("affine_loss", &affine_loss_of, "f"_a, "target"_a, "weight"_a, "a"_a, "b"_a);
    m.def("cross_entropy", &cross_entropy, "f"_a, "target"_a, "weight"_a, "out"_a.noconvert());
    m.def("eliminate", &eliminate_some, "sigma"_a, "beta"_a.noconvert(), "gone"_a.noconvert(), "V"_a.noconvert());
    m.def("newton_step", &solve_newton, "blocks"_a.noconvert(), "L"_a.none(), "information"_a, "ridge"_a, "gradient"_a,
          "factor"_a, "reduction"_a, "most_products"_a, "step"_a.noconvert(), "change"_a.noconvert(), "threads"_a);
    m.def("row_products", &row_products_of, "blocks"_a.noconvert(), "coef"_a, "intercept"_a, "out"_a.noconvert(),
          "threads"_a);
    m.def("sign_sums", &sign_sums_of, "X"_a, "Z"_a, "weight"_a, "out"_a.noconvert());
    m.def("weighted_row_sum", &weighted_sum_of_rows, "blocks"_a.noconvert(), "weight"_a, "out"_a.noconvert(),
          "threads"_a);
}
