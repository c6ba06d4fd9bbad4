// The model of CompactKLR, and sums over rows of data from which it is fitted.
//
//     f_o(x) = sum_b coef[o][b] k(x, z_b) + intercept[o],   k(x, z) = exp(-sum_j gamma_j (x_j - z_j)^2)
//
// With two classes, there is one output o and the loss is logistic; with more, there is one output per class and the
// loss is the softmax loss.  Fitting needs only sums over rows, which CompactRows::sums() returns.  Sums over several
// sets of rows can be added.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <span>
#include <type_traits>
#include <vector>

#include "team.hpp"
#include "views.hpp"

namespace sparseklr {

struct CompactModel {
    MatrixView<const double> points;    // [n_points][n_features]
    std::span<const double> gamma;      // [n_features], >= 0
    MatrixView<const double> coef;      // [n_outputs][n_points]
    std::span<const double> intercept;  // [n_outputs]

    std::size_t n_points() const { return points.rows; }
    std::size_t n_features() const { return points.columns; }
    std::size_t n_outputs() const { return coef.rows; }
};

// Second derivatives to compute: none, those of each output with itself, or those of all pairs of outputs.
enum class Curvature { none, diagonal, full };

struct CompactSums {
    double loss = 0;                     // sum of weighted log-losses
    std::vector<double> coef_gradient;   // [n_outputs][n_points + 1], the intercept last
    std::vector<double> curvature;       // [pairs][n_points + 1][n_points + 1]; pairs (0,0), (1,0), (1,1), (2,0), ...
    std::vector<double> point_gradient;  // [n_points][n_features]
    std::vector<double> width_gradient;  // [n_features], in log gamma
};

// Blocks of rows are grouped into chunks that do not depend on the number of threads.  The sums over the chunks are
// added in a fixed order, so results do not depend on the number of threads either.
inline std::size_t compact_chunks(std::size_t n_blocks, std::size_t bytes_per_chunk) {
    const std::size_t affordable = (std::size_t{256} << 20) / std::max<std::size_t>(bytes_per_chunk, 1);
    return std::min(n_blocks, std::clamp<std::size_t>(affordable, 1, 32));
}

// Calls body(worker, chunk, first block, end of blocks) for every chunk; the body must be noexcept.  Between chunks the
// calling thread calls the monitor, if there is one.  If the monitor throws, the loop ends.
template <class Body>
void over_chunks(std::size_t n_blocks, std::size_t n_chunks, Team& team, const Body& body,
                 const std::function<void()>& monitor = {}) {
    static_assert(std::is_nothrow_invocable_v<const Body&, std::size_t, std::size_t, std::size_t, std::size_t>,
                  "the body must be noexcept");
    std::atomic<bool> ended = false;
    std::exception_ptr reason;  // exceptions must not leave a parallel loop
    team.each(n_chunks, [&](std::size_t c, std::size_t worker) noexcept {
        if (ended) return;
        if (monitor && worker == 0) try {
                monitor();
            } catch (...) {
                reason = std::current_exception();
                ended = true;
                return;
            }
        body(worker, c, c * n_blocks / n_chunks, (c + 1) * n_blocks / n_chunks);
    });
    if (reason) std::rethrow_exception(reason);
}

// Points and kernel coefficients in the layout of the loop that computes kernel values.
template <class T> struct ScaledPoints {
    std::vector<T> root, points;  // square root of gamma; points times it
    ScaledPoints(MatrixView<const double> z, std::span<const double> gamma);
};

// Rows with labels and weights, in blocks of 256 rows stored side by side.
template <class T> class CompactRows {
public:
    static constexpr std::size_t block = 256;

    // Labels are 0, 1, ..., n_classes - 1.
    template <class In>
    CompactRows(MatrixView<const In> X, std::span<const std::int32_t> label, std::span<const double> weight,
                std::size_t n_classes);

    std::size_t size() const { return n_; }
    std::size_t n_features() const { return p_; }
    std::size_t n_outputs() const { return n_classes_ == 2 ? 1 : n_classes_; }
    std::size_t n_blocks() const { return (n_ + block - 1) / block; }

    // Rows of a block, with the padding of the last one to a multiple of 16 (rows of weight 0).
    std::size_t rows(std::size_t b) const { return b + 1 < n_blocks() ? block : (n_ - b * block + 15) / 16 * 16; }
    MatrixView<const T> X(std::size_t b) const { return {X_.data() + b * block * p_, p_, rows(b)}; }
    std::span<const std::int32_t> label(std::size_t b) const { return {label_.data() + b * block, rows(b)}; }
    std::span<const double> weight(std::size_t b) const { return {weight_.data() + b * block, rows(b)}; }

    // Losses of a block, their derivatives e and the probabilities p, all [n_outputs][rows].
    double losses(std::size_t b, MatrixView<const double> f, MatrixView<double> e, MatrixView<double> p) const;
    // Factor of the second derivative between outputs o and q of each row: w p_o (1{o = q} - p_q).
    void curvature_factor(std::size_t b, MatrixView<const double> p, std::size_t o, std::size_t q,
                          std::span<double> h) const;

    CompactSums sums(const CompactModel& model, Curvature curvature, bool moving, int threads) const;

    // out(i, o) = f_o(x_i)
    void decision(const CompactModel& model, MatrixView<double> out, int threads) const;

private:
    std::size_t n_, p_, n_classes_;
    std::vector<T> X_;  // block after block, each [p][rows]
    std::vector<std::int32_t> label_;
    std::vector<double> weight_;
};

// Sums over rows r that determine the gradient with respect to points and widths.  Let e_or be the derivative of the
// loss of row r with respect to output o, and W_rb = k(x_r, z_b) sum_o e_or coef_ob.  Then
//
//     first_bj = sum_r W_rb x_rj,   mass_b = sum_r W_rb,   second_j = sum_r sum_b W_rb x_rj^2.
struct Moments {
    MatrixView<double> first;  // [n_points][n_features]
    std::span<double> mass;    // [n_points]
    std::span<double> second;  // [n_features]

    static std::size_t size(std::size_t k, std::size_t p) { return k * p + k + p; }
    // A view of an array of size(k, p) numbers, which the caller owns.
    Moments(std::span<double> memory, std::size_t k, std::size_t p)
        : first{memory.data(), k, p}, mass(memory.subspan(k * p, k)), second(memory.subspan(k * p + k, p)) {}
};

// Adds the derivatives of the loss with respect to points and log gamma to the given arrays.  Since
// d k(x, z_b) / d z_bj = 2 gamma_j (x_j - z_bj) k and d k(x, z_b) / d log gamma_j = -gamma_j (x_j - z_bj)^2 k, they are
//
//     for z_bj:         2 gamma_j (first_bj - mass_b z_bj),
//     for log gamma_j:  -gamma_j (second_j - 2 sum_b first_bj z_bj + sum_b mass_b z_bj^2).
void gradient_from_moments(MatrixView<const double> points, std::span<const double> gamma, const Moments& moments,
                           MatrixView<double> point_gradient, std::span<double> width_gradient);

}  // namespace sparseklr
