// Python bindings of the refit: products with kernel columns, Newton steps, losses, elimination order.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <vector>

#include "arrays.hpp"
#include "elimination.hpp"
#include "logistic_loops.hpp"
#include "newton_step.hpp"

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
    m.def("cross_entropy", &cross_entropy, "f"_a, "target"_a, "weight"_a, "out"_a.noconvert());
    m.def("eliminate", &eliminate_some, "sigma"_a, "beta"_a.noconvert(), "gone"_a.noconvert(), "V"_a.noconvert());
    m.def("newton_step", &solve_newton, "blocks"_a.noconvert(), "L"_a.none(), "information"_a, "ridge"_a, "gradient"_a,
          "factor"_a, "reduction"_a, "most_products"_a, "step"_a.noconvert(), "change"_a.noconvert(), "threads"_a);
    m.def("row_products", &row_products_of, "blocks"_a.noconvert(), "coef"_a, "intercept"_a, "out"_a.noconvert(),
          "threads"_a);
    m.def("weighted_row_sum", &weighted_sum_of_rows, "blocks"_a.noconvert(), "weight"_a, "out"_a.noconvert(),
          "threads"_a);
}
