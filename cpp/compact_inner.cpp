#include "compact_inner.hpp"

#include <algorithm>
#include <cmath>

#include "compact_loops.hpp"
#include "dense_algebra.hpp"

namespace sparseklr {
template <class T>
CompactInner<T>::CompactInner(const CompactRows<T>& rows, int threads)
    : rows_(rows), team_(threads, rows.n_blocks()), m_(rows.n_outputs()), p_(rows.n_features()) {
    const std::size_t padded = (rows.size() + 15) / 16 * 16;
    for (auto* values : {&f_, &trial_, &change_, &e_, &prob_}) values->assign(m_ * padded, 0.0);
    product_.assign(m_ * padded, T(0));
}

template <class T>
bool CompactInner<T>::move(MatrixView<const double> points, std::span<const double> gamma) {
    const auto finite = [](double value) { return std::isfinite(value); };
    if (!std::all_of(gamma.begin(), gamma.end(), finite)) return false;
    if (!std::all_of(points.data(), points.data() + points.size(), finite)) return false;
    const std::size_t padded = (rows_.size() + 15) / 16 * 16, k = points.rows, block = CompactRows<T>::block;
    if (k != k_) has_hessian_ = full_ = false;
    k_ = k;
    points_.assign(points.data(), points.data() + points.size());
    gamma_.assign(gamma.begin(), gamma.end());
    K_.resize(k * padded);
    const ScaledPoints<T> z(points, gamma);
    std::vector<std::vector<T>> scaled(team_.size(), std::vector<T>(p_ * block));
    over_chunks(
        rows_.n_blocks(), rows_.n_blocks(), team_,
        [&](std::size_t worker, std::size_t b, std::size_t, std::size_t) noexcept {
            compact_loops<T>().kernel(rows_.X(b).data(), rows_.rows(b), p_, z.root.data(), z.points.data(), k,
                                      scaled[worker].data(), K_.data() + b * block * k);
        },
        monitor_);
    // The kernel matrix of the points, which are treated as another block of rows, in double precision.
    const std::size_t lines = (k + 15) / 16 * 16;
    points_transposed_.assign(lines * p_, 0.0);
    for (std::size_t a = 0; a < k; ++a)
        for (std::size_t j = 0; j < p_; ++j) points_transposed_[j * lines + a] = points(a, j);
    const ScaledPoints<double> own(points, gamma);
    std::vector<double> scratch(lines * p_);
    K_zz_.resize(k * lines);
    compact_loops<double>().kernel(points_transposed_.data(), lines, p_, own.root.data(), own.points.data(), k,
                                   scratch.data(), K_zz_.data());
    L_.resize(k * k);
    for (std::size_t a = 0; a < k; ++a) {
        std::copy_n(K_zz_.begin() + std::ptrdiff_t(a * lines), k, L_.begin() + std::ptrdiff_t(a * k));
        L_[a * k + a] += jitter;
    }
    return cholesky({L_.data(), k, k});  // the jitter is much larger than rounding errors
}

// -- sums over rows -----------------------------------------------------------------------------

template <class T> void CompactInner<T>::values(const std::vector<double>& coef, bool to_change) {
    const std::size_t n = k_ + 1;
    std::vector<double> weights(m_ * k_), start(m_);
    for (std::size_t o = 0; o < m_; ++o) {
        std::copy_n(coef.begin() + std::ptrdiff_t(o * n), k_, weights.begin() + std::ptrdiff_t(o * k_));
        start[o] = coef[o * n + k_];
    }
    std::vector<double>& out = to_change ? change_ : f_;
    over_chunks(
        rows_.n_blocks(), rows_.n_blocks(), team_,
        [&](std::size_t, std::size_t b, std::size_t, std::size_t) noexcept {
            compact_loops<T>().values(K(b), rows_.rows(b), k_, weights.data(), start.data(), m_,
                                      of_block(out, b).data());
        },
        monitor_);
}

template <class T> double CompactInner<T>::evaluate(double t) {
    std::vector<double> loss(rows_.n_blocks());
    over_chunks(
        rows_.n_blocks(), rows_.n_blocks(), team_,
        [&](std::size_t, std::size_t b, std::size_t, std::size_t) noexcept {
            const std::span<const double> f = of_block(f_, b).flat(), change = of_block(change_, b).flat();
            const std::span<double> trial = of_block(trial_, b).flat();
            for (std::size_t i = 0; i < f.size(); ++i) trial[i] = f[i] + t * change[i];
            loss[b] = rows_.losses(b, of_block(trial_, b), of_block(e_, b), of_block(prob_, b));
        },
        monitor_);
    double total = 0;
    for (double part : loss) total += part;
    return total;
}

template <class T> void CompactInner<T>::project(const std::vector<double>& e, std::vector<double>& out) const {
    const std::size_t size = m_ * (k_ + 1);
    const std::size_t n_chunks = compact_chunks(rows_.n_blocks(), 8 * size);
    std::vector<double> partial(n_chunks * size, 0.0);
    over_chunks(
        rows_.n_blocks(), n_chunks, team_,
        [&](std::size_t, std::size_t c, std::size_t first, std::size_t last) noexcept {
            for (std::size_t b = first; b < last; ++b)
                compact_loops<T>().project(K(b), rows_.rows(b), k_, of_block(e, b).data(), m_,
                                           partial.data() + c * size);
        },
        monitor_);
    out.assign(size, 0.0);
    for (std::size_t c = 0; c < n_chunks; ++c)
        for (std::size_t i = 0; i < size; ++i) out[i] += partial[c * size + i];
}

template <class T> void CompactInner<T>::take_hessian() {
    const std::size_t block = CompactRows<T>::block, n = k_ + 1, size = n_pairs() * n * n;
    const std::size_t n_chunks = compact_chunks(rows_.n_blocks(), 8 * size);
    std::vector<double> partial(n_chunks * size, 0.0);
    std::vector<std::vector<double>> scratch(team_.size(), std::vector<double>((n + 5) * block));
    over_chunks(
        rows_.n_blocks(), n_chunks, team_,
        [&](std::size_t worker, std::size_t c, std::size_t first, std::size_t last) noexcept {
            const std::span<double> all(scratch[worker]), h = all.first(block), products = all.subspan(block);
            for (std::size_t b = first; b < last; ++b) {
                double* H = partial.data() + c * size;
                for (std::size_t o = 0; o < m_; ++o)
                    for (std::size_t q = full_ ? 0 : o; q <= o; ++q, H += n * n) {
                        rows_.curvature_factor(b, of_block(prob_, b), o, q, h);
                        compact_loops<T>().curvature(K(b), rows_.rows(b), k_, h.data(), products.data(), H);
                    }
            }
        },
        monitor_);
    H_.assign(size, 0.0);
    for (std::size_t c = 0; c < n_chunks; ++c)
        for (std::size_t i = 0; i < size; ++i) H_[i] += partial[c * size + i];
    for (std::size_t pair = 0; pair < n_pairs(); ++pair)
        for (std::size_t a = 0; a < n; ++a)
            for (std::size_t b = 0; b < a; ++b) H_[(pair * n + b) * n + a] = H_[(pair * n + a) * n + b];
    has_hessian_ = fresh_ = true;
    factor_C_ = 0;
}

// out = Hessian times direction, with both vectors in the variables (v, c).  In the variables (beta, c), the losses
// contribute sum_r u_or (k_r, 1) for output o, where u_or = w_r p_or (d_or - sum_q p_qr d_qr), k_r are the kernel
// values of row r, and d_r are the outputs of the direction at row r.
template <class T>
void CompactInner<T>::multiply(const std::vector<double>& direction, double C, std::vector<double>& out) {
    const std::size_t n = k_ + 1, size = m_ * n;
    const std::vector<double> coef = unwhitened(direction);
    std::vector<T> weights(m_ * k_), start(m_);
    for (std::size_t o = 0; o < m_; ++o) {
        for (std::size_t b = 0; b < k_; ++b) weights[o * k_ + b] = T(coef[o * n + b]);
        start[o] = T(coef[o * n + k_]);
    }
    const std::size_t n_chunks = compact_chunks(rows_.n_blocks(), 8 * size);
    std::vector<double> partial(n_chunks * size, 0.0);
    over_chunks(
        rows_.n_blocks(), n_chunks, team_,
        [&](std::size_t, std::size_t c, std::size_t first, std::size_t last) noexcept {
            double mean[CompactRows<T>::block];
            for (std::size_t b = first; b < last; ++b) {
                const std::size_t r = rows_.rows(b);
                const MatrixView<T> u{product_.data() + b * CompactRows<T>::block * m_, m_, r};
                const MatrixView<const double> p = of_block(prob_, b);
                const std::span<const double> w = rows_.weight(b);
                compact_loops<T>().fast_values(K(b), r, k_, weights.data(), start.data(), m_, u.data());
                std::fill_n(mean, r, 0.0);
                for (std::size_t o = 0; o < m_; ++o)
                    for (std::size_t i = 0; i < r; ++i) mean[i] += p(o, i) * u(o, i);
                for (std::size_t o = 0; o < m_; ++o)
                    for (std::size_t i = 0; i < r; ++i) u(o, i) = T(w[i] * p(o, i) * (u(o, i) - mean[i]));
                compact_loops<T>().fast_project(K(b), r, k_, u.data(), m_, partial.data() + c * size);
            }
        },
        monitor_);
    out.assign(size, 0.0);
    for (std::size_t c = 0; c < n_chunks; ++c)
        for (std::size_t i = 0; i < size; ++i) out[i] += partial[c * size + i];
    whiten(out);
    for (std::size_t o = 0; o < m_; ++o)
        for (std::size_t b = 0; b < k_; ++b) out[o * n + b] += direction[o * n + b] / C;
}

// -- linear algebra of the model ----------------------------------------------------------------

template <class T> void CompactInner<T>::whiten(std::vector<double>& g) const {
    for (std::size_t o = 0; o < m_; ++o) solve_vector(L(), std::span(g).subspan(o * (k_ + 1), k_));
}

template <class T> std::vector<double> CompactInner<T>::unwhitened(const std::vector<double>& v) const {
    std::vector<double> beta = v;
    for (std::size_t o = 0; o < m_; ++o) solve_transposed(L(), std::span(beta).subspan(o * (k_ + 1), k_));
    return beta;
}

// Computes the Cholesky factor of the preconditioner, which is the whole Hessian or its diagonal blocks, one per
// output.  Let h_r be the second derivative of the loss of row r with respect to two outputs.  In the variables (beta,
// c), the block of the Hessian of the losses for these outputs is
//
//     [ H   h ]     H = sum_r h_r k_r k_r',  h = sum_r h_r k_r,  s = sum_r h_r,
//     [ h'  s ]
//
// In the variables (v, c), with beta = L^-T v and the penalty |v|^2 / (2C), a diagonal block of the Hessian of the
// objective is
//
//     M = [ L^-1 H L^-T + I/C   L^-1 h ]
//         [ h' L^-T             s      ].
//
// A constant added to all intercepts does not change the probabilities, so the whole Hessian is singular in this
// direction.  Gradients have no component in this direction, so its curvature is arbitrary: 1 is added to the entries
// of all pairs of intercepts.
template <class T> bool CompactInner<T>::factorise(double C) {
    if (factor_C_ == C) return true;
    const std::size_t n = k_ + 1, line = full_ ? m_ * n : n;
    factor_.assign((full_ ? 1 : m_) * line * line, 0.0);
    std::vector<double> left(k_ * n), right(n * k_);
    const double* H = H_.data();
    for (std::size_t o = 0; o < m_; ++o)
        for (std::size_t q = full_ ? 0 : o; q <= o; ++q, H += n * n) {
            double* corner = factor_.data() + (full_ ? (o * line + q) * n : o * n * n);
            const auto M = [&](std::size_t a, std::size_t b) -> double& { return corner[a * line + b]; };
            // left = L^-1 [H, h]; right is its transpose, H L^-T above h' L^-T
            std::copy_n(H, k_ * n, left.begin());
            solve_lower(L(), {left.data(), k_, n});
            for (std::size_t a = 0; a < k_; ++a)
                for (std::size_t b = 0; b < n; ++b) right[b * k_ + a] = left[a * n + b];
            // left = L^-1 H L^-T, [k][k]
            std::copy_n(right.begin(), k_ * k_, left.begin());
            solve_lower(L(), {left.data(), k_, k_});
            for (std::size_t a = 0; a < k_; ++a) {
                for (std::size_t b = 0; b < k_; ++b) M(a, b) = left[a * k_ + b];
                M(k_, a) = M(a, k_) = right[k_ * k_ + a];
            }
            const double total = H[n * n - 1];
            M(k_, k_) = full_ ? total + 1 : total;
            if (o != q) continue;
            for (std::size_t a = 0; a < k_; ++a) M(a, a) += 1 / C;
            M(k_, k_) += 1e-12 * (1 + total);  // without it, M is singular if all probabilities are 0 or 1
            if (!full_ && !cholesky({corner, n, n})) return false;
        }
    if (full_ && !cholesky({factor_.data(), line, line})) return false;
    factor_C_ = C;
    return true;
}

template <class T>
void CompactInner<T>::precondition(const std::vector<double>& g, std::vector<double>& out) const {
    const std::size_t line = full_ ? g.size() : k_ + 1;
    out = g;
    for (std::size_t first = 0; first < g.size(); first += line) {
        const MatrixView<const double> M{factor_.data() + first * line, line, line};
        const std::span<double> x = std::span(out).subspan(first, line);
        solve_vector(M, x);
        solve_transposed(M, x);
    }
}

// step = -H^-1 g, solved until the residual is `reduction` times the initial one in the norm of the preconditioner.
template <class T>
int CompactInner<T>::conjugate_gradients(const std::vector<double>& g, double C, double reduction,
                                         std::vector<double>& step) {
    std::vector<double> residual(g), z, direction, product;
    for (double& x : residual) x = -x;
    step.assign(g.size(), 0.0);
    precondition(residual, z);
    direction = z;
    double rz = dot(residual, z);
    const double enough = reduction * reduction * rz;
    int iterations = 0;
    while (rz > enough && iterations < 60) {
        multiply(direction, C, product);
        ++iterations;
        const double curvature = dot(direction, product);
        if (!(curvature > 0)) break;
        const double t = rz / curvature;
        for (std::size_t i = 0; i < step.size(); ++i) {
            step[i] += t * direction[i];
            residual[i] -= t * product[i];
        }
        precondition(residual, z);
        const double next = dot(residual, z);
        for (std::size_t i = 0; i < step.size(); ++i) direction[i] = z[i] + next / rz * direction[i];
        rz = next;
    }
    return iterations;
}

// Number of iterations that take as long as computing and factorising a new Hessian, by the numbers of multiplications.
// Multiplications for the Hessian are two to four times as fast as in an iteration, despite double precision.
// The whole Hessian also remains useful for longer, and saves more iterations.
template <class T> int CompactInner<T>::iterations_worth_a_hessian(bool full) const {
    const double m = double(m_), k = double(k_), rows = double(rows_.size()), order = full ? m * k : k;
    const double pairs = full ? m * (m + 1) / 2 : m, factors = full ? 1 : m;
    const double hessian = pairs * k * k * (rows / 2 + k) + factors * order * order * order / 6;
    const double iteration = 2 * rows * m * k + factors * order * order;
    return std::max(1, int(hessian / iteration / (full ? 2 : 8)));
}

// -- the solve ----------------------------------------------------------------------------------

template <class T>
InnerOutcome CompactInner<T>::solve(std::span<double> coef, const InnerSettings& settings) {
    const std::size_t n = k_ + 1, size = m_ * n;
    const double C = settings.C;
    const int worth_a_hessian = iterations_worth_a_hessian(full_);
    coef_.assign(coef.begin(), coef.end());
    std::vector<double> v(coef_), g, z, step;
    for (std::size_t o = 0; o < m_; ++o)  // v = L' beta
        for (std::size_t b = 0; b < k_; ++b) {
            double sum = 0;
            for (std::size_t a = b; a < k_; ++a) sum += L_[a * k_ + b] * coef_[o * n + a];
            v[o * n + b] = sum;
        }
    const auto penalty = [&](const std::vector<double>& x) {
        double sum = 0;
        for (std::size_t o = 0; o < m_; ++o) {
            const std::span<const double> v_o = std::span(x).subspan(o * n, k_);
            sum += dot(v_o, v_o);
        }
        return sum / (2 * C);
    };
    values(coef_, false);
    std::fill(change_.begin(), change_.end(), 0.0);
    InnerOutcome outcome;
    outcome.loss = evaluate(0);
    outcome.value = outcome.loss + penalty(v);
    fresh_ = false;
    while (true) {
        project(e_, g);
        whiten(g);
        for (std::size_t o = 0; o < m_; ++o)
            for (std::size_t b = 0; b < k_; ++b) g[o * n + b] += v[o * n + b] / C;
        if (!has_hessian_) {
            take_hessian();
            ++outcome.hessians;
        }
        if (!factorise(C)) break;
        precondition(g, z);
        outcome.decrement = dot(g, z) / 2;
        const double enough = settings.tol * outcome.value;
        if (outcome.decrement <= enough || outcome.decrement <= 1e-300) {
            outcome.converged = true;
            break;
        }
        if (outcome.steps == settings.max_steps) break;
        if (fresh_ && (m_ == 1 || full_)) {
            step.resize(size);
            for (std::size_t i = 0; i < size; ++i) step[i] = -z[i];
        } else {
            const double reduction = std::clamp(std::sqrt(enough / outcome.decrement) / 2, 1e-3, 0.3);
            const int iterations = conjugate_gradients(g, C, reduction, step);
            outcome.products += iterations;
            if (fresh_) {
                usual_iterations_ = iterations;
                if (iterations > iterations_worth_a_hessian(true)) {
                    full_ = true;
                    has_hessian_ = false;
                    usual_iterations_ = 1;
                }
            } else if (iterations > usual_iterations_ + worth_a_hessian) has_hessian_ = false;
        }
        const double slope = dot(g, step);
        values(unwhitened(step), true);
        double t = 1, value = 0;
        std::vector<double> moved(size);
        while (true) {
            for (std::size_t i = 0; i < size; ++i) moved[i] = v[i] + t * step[i];
            outcome.loss = evaluate(t);
            value = outcome.loss + penalty(moved);
            if (value <= outcome.value + 1e-4 * t * slope || t < 1e-10) break;
            t /= 2;
        }
        if (!(value < outcome.value)) {  // the remaining decrease is smaller than rounding errors
            outcome.loss = evaluate(0);
            outcome.converged = outcome.decrement <= 1e-9 * std::abs(outcome.value);
            break;
        }
        std::swap(f_, trial_);
        v.swap(moved);
        outcome.value = value;
        ++outcome.steps;
        fresh_ = false;
        if (k_ <= 16 && m_ == 1) has_hessian_ = false;  // a new Hessian takes less time than an iteration
    }
    coef_ = unwhitened(v);
    std::copy(coef_.begin(), coef_.end(), coef.begin());
    return outcome;
}

template <class T>
void CompactInner<T>::gradient(double C, MatrixView<double> point_gradient, std::span<double> width_gradient) const {
    const std::size_t block = CompactRows<T>::block, n = k_ + 1, size = Moments::size(k_, p_);
    std::vector<double> coef(m_ * k_);
    for (std::size_t o = 0; o < m_; ++o)
        std::copy_n(coef_.begin() + std::ptrdiff_t(o * n), k_, coef.begin() + std::ptrdiff_t(o * k_));
    const std::size_t n_chunks = compact_chunks(rows_.n_blocks(), 8 * size);
    std::vector<double> partial(n_chunks * size, 0.0), total(size, 0.0);
    std::vector<std::vector<T>> scratch(team_.size(), std::vector<T>((k_ + 2) * block));
    over_chunks(
        rows_.n_blocks(), n_chunks, team_,
        [&](std::size_t worker, std::size_t c, std::size_t first, std::size_t last) noexcept {
            const Moments sums(std::span<double>(partial).subspan(c * size, size), k_, p_);
            for (std::size_t b = first; b < last; ++b)
                compact_loops<T>().moments(K(b), rows_.X(b).data(), rows_.rows(b), k_, p_, of_block(e_, b).data(),
                                           coef.data(), m_, scratch[worker].data(), sums.first.data(), sums.mass.data(),
                                           sums.second.data());
        },
        monitor_);
    for (std::size_t c = 0; c < n_chunks; ++c)
        for (std::size_t i = 0; i < size; ++i) total[i] += partial[c * size + i];
    const MatrixView<const double> points{points_.data(), k_, p_};
    gradient_from_moments(points, gamma_, Moments(total, k_, p_), point_gradient, width_gradient);

    // The penalty is 1/2 sum_o,a,b beta_oa beta_ob k(z_a, z_b) / C, a sum over pairs of points.  Its derivatives with
    // respect to points are those of a loss whose rows are the points, with e = beta / C.  The derivatives with respect
    // to widths are half of those.
    const std::size_t lines = (k_ + 15) / 16 * 16;
    std::vector<double> e(m_ * lines, 0.0), memory(size, 0.0), own_scratch((k_ + 2) * lines), widths(p_, 0.0);
    for (std::size_t o = 0; o < m_; ++o)
        for (std::size_t b = 0; b < k_; ++b) e[o * lines + b] = coef[o * k_ + b] / C;
    const Moments own(memory, k_, p_);
    compact_loops<double>().moments(K_zz_.data(), points_transposed_.data(), lines, k_, p_, e.data(), coef.data(), m_,
                                    own_scratch.data(), own.first.data(), own.mass.data(), own.second.data());
    gradient_from_moments(points, gamma_, own, point_gradient, widths);
    for (std::size_t j = 0; j < p_; ++j) width_gradient[j] += widths[j] / 2;
}

template class CompactInner<float>;
template class CompactInner<double>;

}  // namespace sparseklr
