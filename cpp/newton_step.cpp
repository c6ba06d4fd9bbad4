#include "newton_step.hpp"

#include <algorithm>

#include "compact_loops.hpp"
#include "simd.hpp"
#include "team.hpp"

namespace sparseklr {
namespace {

// The rows of all blocks, cut into pieces that do not depend on the number of threads.  Sums over rows are added up
// piece by piece, in order: they do not depend on it either.
class Pieces {
public:
    struct Piece {
        const double* values;
        std::size_t first, count;  // rows, counted over all blocks
    };

    Pieces(const std::vector<RowBlock>& blocks, std::size_t m, int threads) : team_(threads_for(blocks, m, threads)) {
        for (const RowBlock& block : blocks)
            for (std::size_t begin = 0; begin < block.n; begin += rows_at_once) {
                const std::size_t count = std::min(rows_at_once, block.n - begin);
                pieces_.push_back({block.values + begin * m, n_, count});
                n_ += count;
            }
    }

    std::size_t n() const { return n_; }

    template <class Body> void each(const Body& body) {
        team_.each(pieces_.size(), [&](std::size_t p, std::size_t) { body(pieces_[p]); });
    }

    // body(piece, sums) adds up `size` numbers of the piece, from zero; out is what they add up to.
    template <class Body> void sum(std::size_t size, double* out, const Body& body) {
        sums_.assign(pieces_.size() * size, 0.0);
        team_.each(pieces_.size(), [&](std::size_t p, std::size_t) { body(pieces_[p], &sums_[p * size]); });
        std::fill_n(out, size, 0.0);
        for (std::size_t p = 0; p < pieces_.size(); ++p)
            for (std::size_t k = 0; k < size; ++k) out[k] += sums_[p * size + k];
    }

private:
    static constexpr std::size_t rows_at_once = 256;
    // Below about half a millisecond a thread is not worth its start.
    static int threads_for(const std::vector<RowBlock>& blocks, std::size_t m, int threads) {
        std::size_t n = 0;
        for (const RowBlock& block : blocks) n += block.n;
        return n * m < 1'000'000 ? 1 : threads;
    }

    std::size_t n_ = 0;
    std::vector<Piece> pieces_;
    std::vector<double> sums_;
    Team team_;
};

// The matrix of the system times vectors, in one pass over the rows.
class Product {
public:
    Product(const NewtonSystem& system, int threads)
        : turned(system.m + 1), system_(system), pieces_(system.blocks, system.m, threads), coef_(system.m + 1), sums_(system.m + 2) {
        along.resize(pieces_.n());
    }

    // Sets along = A d and turned = H d; returns d'H d.
    double operator()(const std::vector<double>& d) {
        const std::size_t m = system_.m;
        const auto& loops = simd<double>();
        coef_ = d;
        if (system_.L) compact_algebra().solve_transposed(system_.L, m, coef_.data());
        pieces_.sum(m + 2, sums_.data(), [&](const Pieces::Piece& piece, double* sums) {
            for (std::size_t first = 0; first < piece.count; first += 4) {  // four rows stay in the nearest cache
                const std::size_t count = std::min<std::size_t>(4, piece.count - first);
                const double* rows[4];
                double weighted[4];
                for (std::size_t r = 0; r < count; ++r) {
                    const std::size_t i = piece.first + first + r;
                    rows[r] = piece.values + (first + r) * m;
                    along[i] = loops.dot(rows[r], coef_.data(), m) + d[m];
                    weighted[r] = system_.information[i] * along[i];
                    sums[m] += weighted[r];
                    sums[m + 1] += weighted[r] * along[i];
                }
                loops.add_rows(sums, rows, weighted, count, 0, m);
            }
        });
        std::copy_n(sums_.begin(), m + 1, turned.begin());
        double curvature = sums_[m + 1];
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
    Pieces pieces_;
    std::vector<double> coef_, sums_;
};

}  // namespace

void row_products(const std::vector<RowBlock>& blocks, std::size_t m, const double* coef, double intercept, double* out,
                  int threads) {
    const auto& loops = simd<double>();
    Pieces(blocks, m, threads).each([&](const Pieces::Piece& piece) {
        for (std::size_t r = 0; r < piece.count; ++r)
            out[piece.first + r] = loops.dot(piece.values + r * m, coef, m) + intercept;
    });
}

void weighted_row_sum(const std::vector<RowBlock>& blocks, std::size_t m, const double* weight, double* out, int threads) {
    const auto& loops = simd<double>();
    Pieces(blocks, m, threads).sum(m, out, [&](const Pieces::Piece& piece, double* sums) {
        const double* rows[4];
        for (std::size_t first = 0; first < piece.count; first += 4) {
            const std::size_t count = std::min<std::size_t>(4, piece.count - first);
            for (std::size_t r = 0; r < count; ++r) rows[r] = piece.values + (first + r) * m;
            loops.add_rows(sums, rows, weight + piece.first + first, count, 0, m);
        }
    });
}

std::size_t newton_step(const NewtonSystem& system, double reduction, std::size_t most_products, double* step, double* change,
                        int threads) {
    const std::size_t size = system.m + 1;
    const auto& algebra = compact_algebra();
    Product product(system, threads);
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
