// Python's view of what the refit computes: products with kernel columns, Newton steps, losses, the order of elimination.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <vector>

#include "compact_loops.hpp"
#include "elimination.hpp"
#include "newton_step.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using namespace sparseklr;

namespace {

template <class T> using matrix = nb::ndarray<const T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
template <class T> using vector = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using state_matrix = nb::ndarray<double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using state_vector = nb::ndarray<double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

void check_threads(int threads) {
    if (threads < 1) throw nb::value_error("threads must be at least 1");
}

// Losses and derivatives of points, as the three rows of `out`; returns the weighted sum of the losses.
double cross_entropy(vector<double> f, vector<double> target, vector<double> weight, state_matrix out) {
    const std::size_t n = f.shape(0);
    if (target.shape(0) != n || weight.shape(0) != n || out.shape(0) != 3 || out.shape(1) != n)
        throw nb::value_error("f, target and weight must be of one length n, out (3, n)");
    double* values = out.data();
    nb::gil_scoped_release release;
    return compact_loops<double>().cross_entropy(f.data(), target.data(), weight.data(), n, values, values + n, values + 2 * n);
}

// Blocks of rows [n][m]; checks their width.
std::vector<RowBlock> row_blocks(const std::vector<matrix<double>>& blocks, std::size_t m, std::size_t n) {
    std::vector<RowBlock> out;
    for (const auto& block : blocks) {
        if (block.shape(1) != m) throw nb::value_error("blocks must have a column for each coefficient");
        out.push_back({block.data(), block.shape(0)});
        n -= block.shape(0);
    }
    if (n != 0) throw nb::value_error("there must be one entry for each row of the blocks");
    return out;
}

// out[i] = (row i)'coef + intercept
void row_products_of(const std::vector<matrix<double>>& blocks, vector<double> coef, double intercept, state_vector out, int threads) {
    check_threads(threads);
    const std::vector<RowBlock> rows = row_blocks(blocks, coef.shape(0), out.shape(0));
    nb::gil_scoped_release release;
    row_products(rows, coef.shape(0), coef.data(), intercept, out.data(), threads);
}

// out[k] = sum_i weight[i] (row i)[k]
void weighted_sum_of_rows(const std::vector<matrix<double>>& blocks, vector<double> weight, state_vector out, int threads) {
    check_threads(threads);
    const std::vector<RowBlock> rows = row_blocks(blocks, out.shape(0), weight.shape(0));
    nb::gil_scoped_release release;
    weighted_row_sum(rows, out.shape(0), weight.data(), out.data(), threads);
}

// `blocks` are rows of kernel columns with the factor L of their kernel matrix, or of features without one.  Returns the
// number of products made.
std::size_t solve_newton(const std::vector<matrix<double>>& blocks, std::optional<matrix<double>> L, vector<double> information,
                         vector<double> ridge, vector<double> gradient, matrix<double> factor, double reduction,
                         std::size_t most_products, state_vector step, state_vector change, int threads) {
    check_threads(threads);
    const std::size_t size = ridge.shape(0);
    if (size == 0 || gradient.shape(0) != size || step.shape(0) != size || factor.shape(0) != size || factor.shape(1) != size)
        throw nb::value_error("ridge, gradient, step and factor must be of one size, at least 1");
    if (L && (L->shape(0) + 1 != size || L->shape(1) + 1 != size)) throw nb::value_error("L must be smaller than factor by one");
    if (information.shape(0) != change.shape(0)) throw nb::value_error("information and change must be of one length");
    const NewtonSystem system{row_blocks(blocks, size - 1, information.shape(0)), size - 1, L ? L->data() : nullptr,
                              information.data(), ridge.data(), gradient.data(), factor.data()};
    nb::gil_scoped_release release;
    return newton_step(system, reduction, most_products, step.data(), change.data(), threads);
}

// Takes as many coefficients away as V has rows, and says which in `gone`.
void eliminate_some(matrix<double> sigma, state_vector beta, nb::ndarray<std::int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu> gone,
                    state_matrix V) {
    const std::size_t n = beta.shape(0), size = gone.shape(0);
    if (sigma.shape(0) != n || sigma.shape(1) != n || V.shape(0) != size || V.shape(1) != n || size >= n)
        throw nb::value_error("sigma must be (n, n), beta (n,), gone (size,) and V (size, n), size below n");
    nb::gil_scoped_release release;
    eliminate(sigma.data(), beta.data(), n, size, gone.data(), V.data());
}

}  // namespace

void bind_refit(nb::module_& m) {
    m.def("cross_entropy", &cross_entropy, "f"_a, "target"_a, "weight"_a, "out"_a.noconvert());
    m.def("eliminate", &eliminate_some, "sigma"_a, "beta"_a.noconvert(), "gone"_a.noconvert(), "V"_a.noconvert());
    m.def("newton_step", &solve_newton, "blocks"_a.noconvert(), "L"_a.none(), "information"_a, "ridge"_a, "gradient"_a,
          "factor"_a, "reduction"_a, "most_products"_a, "step"_a.noconvert(), "change"_a.noconvert(), "threads"_a);
    m.def("row_products", &row_products_of, "blocks"_a.noconvert(), "coef"_a, "intercept"_a, "out"_a.noconvert(), "threads"_a);
    m.def("weighted_row_sum", &weighted_sum_of_rows, "blocks"_a.noconvert(), "weight"_a, "out"_a.noconvert(), "threads"_a);
}
