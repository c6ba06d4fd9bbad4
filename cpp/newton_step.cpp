#include "newton_step.hpp"

#include <algorithm>
#include <type_traits>

#include "dense_algebra.hpp"
#include "logistic_loops.hpp"
#include "simd.hpp"
#include "team.hpp"

namespace sparseklr {
namespace {

// The rows of all blocks, divided into pieces that do not depend on the number of threads.  The sums over the pieces
// are added in a fixed order, so results do not depend on the number of threads either.
class Pieces {
public:
    struct Piece {
        MatrixView<const double> rows;
        std::size_t first;  // number of its first row, counted over all blocks
    };

    Pieces(const RowBlocks& blocks, std::size_t m, int threads) : team_(threads_for(blocks, m, threads)) {
        for (const MatrixView<const double>& block : blocks)
            for (std::size_t begin = 0; begin < block.rows; begin += rows_at_once) {
                const std::size_t count = std::min(rows_at_once, block.rows - begin);
                pieces_.push_back({{block.values + begin * m, count, m}, n_});
                n_ += count;
            }
    }

    std::size_t n() const { return n_; }

    template <class Body> void each(const Body& body) {
        static_assert(std::is_nothrow_invocable_v<const Body&, const Piece&>, "the body must be noexcept");
        team_.each(pieces_.size(), [&](std::size_t p, std::size_t) noexcept { body(pieces_[p]); });
    }

    // Calls body(piece, sums) for every piece, which adds the contributions of the piece to `sums`, initially zero.
    // Sets `out` to the total over all pieces.
    template <class Body> void sum(std::span<double> out, const Body& body) {
        static_assert(std::is_nothrow_invocable_v<const Body&, const Piece&, double*>, "the body must be noexcept");
        const std::size_t size = out.size();
        sums_.assign(pieces_.size() * size, 0.0);
        team_.each(pieces_.size(), [&](std::size_t p, std::size_t) noexcept { body(pieces_[p], &sums_[p * size]); });
        std::fill(out.begin(), out.end(), 0.0);
        for (std::size_t p = 0; p < pieces_.size(); ++p)
            for (std::size_t k = 0; k < size; ++k) out[k] += sums_[p * size + k];
    }

private:
    static constexpr std::size_t rows_at_once = 256;
    // Starting a thread does not save time if the work takes less than about half a millisecond.
    static int threads_for(const RowBlocks& blocks, std::size_t m, int threads) {
        std::size_t n = 0;
        for (const MatrixView<const double>& block : blocks) n += block.rows;
        return n * m < 1'000'000 ? 1 : threads;
    }

    std::size_t n_ = 0;
    std::vector<Piece> pieces_;
    std::vector<double> sums_;
    Team team_;
};

// Multiplies the matrix of the system with vectors, in one pass over the rows.
class Product {
public:
    Product(const NewtonSystem& system, int threads)
        : H_d(system.m() + 1), system_(system), pieces_(system.blocks, system.m(), threads), coef_(system.m() + 1),
          sums_(system.m() + 2) {
        A_d.resize(pieces_.n());
    }

    // Sets A_d to A d, where row i of A is a_i, and H_d to H d, where H = A' diag(h) A + diag(ridge).  Returns d'H d.
    double operator()(const std::vector<double>& d) {
        const std::size_t m = system_.m();
        const auto& loops = simd<double>();
        coef_ = d;
        if (system_.L.data()) solve_transposed(system_.L, coef_);
        pieces_.sum(sums_, [&](const Pieces::Piece& piece, double* sums) noexcept {
            for (std::size_t first = 0; first < piece.rows.rows; first += 4) {  // four rows fit into the L1 cache
                const std::size_t count = std::min<std::size_t>(4, piece.rows.rows - first);
                const double* rows[4];
                double weighted[4];
                for (std::size_t r = 0; r < count; ++r) {
                    const std::size_t i = piece.first + first + r;
                    rows[r] = piece.rows.row(first + r).data();
                    A_d[i] = loops.dot(rows[r], coef_.data(), m) + d[m];
                    weighted[r] = system_.information[i] * A_d[i];
                    sums[m] += weighted[r];
                    sums[m + 1] += weighted[r] * A_d[i];
                }
                loops.add_rows(sums, rows, weighted, count, 0, m);
            }
        });
        std::copy_n(sums_.begin(), m + 1, H_d.begin());
        double curvature = sums_[m + 1];
        if (system_.L.data()) solve_vector(system_.L, H_d);
        for (std::size_t k = 0; k <= m; ++k) {
            H_d[k] += system_.ridge[k] * d[k];
            curvature += system_.ridge[k] * d[k] * d[k];
        }
        return curvature;
    }

    std::vector<double> A_d, H_d;

private:
    const NewtonSystem& system_;
    Pieces pieces_;
    std::vector<double> coef_, sums_;
};

}  // namespace

void row_products(const RowBlocks& blocks, std::span<const double> coef, double intercept, std::span<double> out,
                  int threads) {
    const std::size_t m = coef.size();
    const auto& loops = simd<double>();
    Pieces(blocks, m, threads).each([&](const Pieces::Piece& piece) noexcept {
        for (std::size_t r = 0; r < piece.rows.rows; ++r)
            out[piece.first + r] = loops.dot(piece.rows.row(r).data(), coef.data(), m) + intercept;
    });
}

void weighted_row_sum(const RowBlocks& blocks, std::span<const double> weight, std::span<double> out, int threads) {
    const std::size_t m = out.size();
    const auto& loops = simd<double>();
    Pieces(blocks, m, threads).sum(out, [&](const Pieces::Piece& piece, double* sums) noexcept {
        const double* rows[4];
        for (std::size_t first = 0; first < piece.rows.rows; first += 4) {
            const std::size_t count = std::min<std::size_t>(4, piece.rows.rows - first);
            for (std::size_t r = 0; r < count; ++r) rows[r] = piece.rows.row(first + r).data();
            loops.add_rows(sums, rows, weight.data() + piece.first + first, count, 0, m);
        }
    });
}

AffineLoss affine_loss(std::span<const double> f, std::span<const double> target, std::span<const double> weight,
                       double a, double b) {
    constexpr std::size_t strip = 256;
    double moved[strip], loss[strip], slope[strip], curvature[strip];
    AffineLoss sum{};
    for (std::size_t first = 0; first < f.size(); first += strip) {
        const std::size_t count = std::min(strip, f.size() - first);
        for (std::size_t i = 0; i < count; ++i) moved[i] = a * f[first + i] + b;
        sum.value += logistic_loops().cross_entropy(moved, &target[first], &weight[first], count, loss, slope,
                                                    curvature);
        double part[5] = {};
        for (std::size_t i = 0; i < count; ++i) {
            const double x = f[first + i], h = curvature[i];
            part[0] += slope[i] * x;
            part[1] += slope[i];
            part[2] += h * x * x;
            part[3] += h * x;
            part[4] += h;
        }
        for (int k = 0; k < 2; ++k) sum.slope[k] += part[k];
        for (int k = 0; k < 3; ++k) sum.curvature[k] += part[2 + k];
    }
    return sum;
}

std::size_t newton_step(const NewtonSystem& system, double reduction, std::size_t most_products, std::span<double> step,
                        std::span<double> change, int threads) {
    const std::size_t size = system.m() + 1;
    Product product(system, threads);
    std::vector<double> residual(size), z(size);
    std::fill(step.begin(), step.end(), 0.0);
    std::fill(change.begin(), change.end(), 0.0);
    const auto precondition = [&] {  // z = (factor factor')^-1 residual; returns residual'z
        z = residual;
        solve_vector(system.factor, z);
        solve_transposed(system.factor, z);
        return dot(residual, z);
    };
    for (std::size_t k = 0; k < size; ++k) residual[k] = -system.gradient[k];
    const double first = precondition();
    double left = first;
    std::vector<double> direction = z;
    for (std::size_t products = 1;; ++products) {
        const double length = left / std::max(product(direction), 1e-300);
        for (std::size_t i = 0; i < product.A_d.size(); ++i) change[i] += length * product.A_d[i];
        for (std::size_t k = 0; k < size; ++k) {
            step[k] += length * direction[k];
            residual[k] -= length * product.H_d[k];
        }
        if (products >= most_products) return products;
        const double last = left;
        left = precondition();
        if (left <= reduction * reduction * first) return products;
        for (std::size_t k = 0; k < size; ++k) direction[k] = z[k] + left / last * direction[k];
    }
}

}  // namespace sparseklr
