// The inner problem of CompactKLR, which is convex: find the coefficients beta and intercepts c that minimise, for
// given points and widths,
//
//     J(beta, c) = sum_i w_i loss(y_i, f(x_i)) + 1/(2C) sum_o beta_o' (K_zz + jitter I) beta_o,
//
// and compute the gradient of the minimum with respect to points and widths.  With K_zz + jitter I = L L' and
// v = L' beta, the penalty is |v|^2 / (2C).  Newton steps in (v, c) are computed by conjugate gradients.  The
// preconditioner is the Hessian of an earlier step.  With several outputs, it consists only of the diagonal blocks, one
// per output, as long as the additional iterations take less time than computing the other blocks.  With n rows, k
// points and m outputs, an iteration takes 2 n m k multiplications, the diagonal blocks n m k^2 / 2, and the whole
// Hessian n m^2 k^2 / 4.
#pragma once

#include <functional>
#include <span>

#include "compact.hpp"

namespace sparseklr {

struct InnerSettings {
    double C = 1;
    double tol = 1e-7;    // stop when half the squared Newton decrement, an estimate of J - min J, is at most tol * J
    int max_steps = 100;  // maximum number of Newton steps
};

struct InnerOutcome {
    double value = 0, loss = 0;  // J and its first term
    double decrement = 0;        // last estimate of J - min J
    int steps = 0, products = 0, hessians = 0;
    bool converged = false;
};

template <class T> class CompactInner {
public:
    static constexpr double jitter = 1e-6;

    CompactInner(const CompactRows<T>& rows, int threads);

    // The monitor is called many times per second; it may throw to stop the computation.
    void watch(std::function<void()> monitor) { monitor_ = std::move(monitor); }

    // Sets points and widths, and computes kernel values and the Cholesky factor.  The Hessian of the last solve
    // remains the preconditioner if the number of points is the same.  Returns false if points or gamma are not finite,
    // or if K_zz + jitter I is not positive definite; move() must then be called with other points before solve().
    [[nodiscard]] bool move(MatrixView<const double> points, std::span<const double> gamma);

    // Minimises J, starting from coef ([n_outputs][n_points + 1], with the intercept last), which it overwrites.
    InnerOutcome solve(std::span<double> coef, const InnerSettings& settings);

    // Adds the gradient of J with respect to points and log gamma, at the coefficients of the last solve.
    void gradient(double C, MatrixView<double> point_gradient, std::span<double> width_gradient) const;

    std::size_t n_points() const { return k_; }
    std::size_t n_features() const { return p_; }
    std::size_t n_outputs() const { return m_; }

private:
    double evaluate(double t);  // losses at f + t * change; sets trial, e and p
    void project(const std::vector<double>& e, std::vector<double>& out) const;
    void values(const std::vector<double>& coef, bool to_change);
    void take_hessian();
    int iterations_worth_a_hessian(bool full) const;
    [[nodiscard]] bool factorise(double C);
    void precondition(const std::vector<double>& g, std::vector<double>& out) const;
    void multiply(const std::vector<double>& direction, double C, std::vector<double>& out);
    int conjugate_gradients(const std::vector<double>& g, double C, double reduction, std::vector<double>& step);
    void whiten(std::vector<double>& g) const;                                              // L^-1 of each output
    std::vector<double> unwhitened(const std::vector<double>& v) const;                     // L^-T of each output
    const T* K(std::size_t b) const { return K_.data() + b * CompactRows<T>::block * k_; }  // [k][rows] of block b
    // The part [m][rows] for block b of an array over all rows.
    MatrixView<double> of_block(std::vector<double>& values, std::size_t b) const {
        return {values.data() + b * CompactRows<T>::block * m_, m_, rows_.rows(b)};
    }
    MatrixView<const double> of_block(const std::vector<double>& values, std::size_t b) const {
        return {values.data() + b * CompactRows<T>::block * m_, m_, rows_.rows(b)};
    }
    // Blocks of H_: (0,0), (1,0), (1,1), (2,0), ... or only those on the diagonal.
    std::size_t n_pairs() const { return full_ ? m_ * (m_ + 1) / 2 : m_; }
    MatrixView<const double> L() const { return {L_.data(), k_, k_}; }

    const CompactRows<T>& rows_;
    mutable Team team_;
    std::function<void()> monitor_;
    std::size_t m_, p_, k_ = 0;
    std::vector<double> points_, gamma_, L_, coef_;
    std::vector<double> points_transposed_, K_zz_;       // the points as a block of rows, and their kernel values
    std::vector<T> K_;                                   // block after block, each [k][rows]
    std::vector<double> f_, trial_, change_, e_, prob_;  // block after block, each [m][rows]
    std::vector<T> product_;                             // the same
    std::vector<double> H_;                              // [pairs][k + 1][k + 1] in beta: sums of h K K'
    std::vector<double> factor_;                         // Cholesky factor of the preconditioner
    bool full_ = false;  // the preconditioner is the whole Hessian, not only the block of each output
    bool has_hessian_ = false, fresh_ = false;
    double factor_C_ = 0;       // C of factor_; 0 if factor_ is not set
    int usual_iterations_ = 0;  // iterations of conjugate gradients with a fresh preconditioner
};

}  // namespace sparseklr
