#include "compact_move.hpp"

#include <cmath>
#include <deque>

#include "dense_algebra.hpp"

namespace sparseklr {
namespace {

using Vector = std::vector<double>;

// The objective F at x = (points, log-widths), with the best x so far.
template <class T> class Outer {
public:
    Outer(CompactInner<T>& inner, std::size_t k, std::size_t p, Vector coef, const MoveSettings& settings)
        : inner_(inner), k_(k), p_(p), settings_(settings), coef_(std::move(coef)), gamma_(p) {}

    double operator()(const Vector& x, Vector& gradient) {
        ++evaluations;
        const double* widths = x.data() + k_ * p_;
        const auto log_gamma = [&](std::size_t j) { return widths[settings_.shared ? 0 : j]; };
        double mean = 0;
        for (std::size_t j = 0; j < p_; ++j) {
            // clipped, so that gamma stays finite even for long steps of the line search
            gamma_[j] = std::exp(std::clamp(log_gamma(j), -50.0, 50.0));
            mean += log_gamma(j) / double(p_);
        }
        gradient.assign(k_ * p_ + p_, 0.0);
        const std::span<double> by_width = std::span(gradient).subspan(k_ * p_);
        if (!inner_.move({x.data(), k_, p_}, gamma_)) {  // after a very long step, a point is not finite
            gradient.resize(x.size());
            return INFINITY;
        }
        double value = inner_.solve(coef_, {settings_.C, settings_.inner_tol, 100}).value;
        inner_.gradient(settings_.C, {gradient.data(), k_, p_}, by_width);
        const double a = mean + std::log(double(p_));
        value += settings_.rho / 2 * a * a;
        for (std::size_t j = 0; j < p_; ++j) {
            const double r = log_gamma(j) - mean;
            value += settings_.tau / 2 * r * r;
            by_width[j] += settings_.rho * a / double(p_) + settings_.tau * r;
        }
        if (settings_.shared) {
            for (std::size_t j = 1; j < p_; ++j) by_width[0] += by_width[j];
            gradient.resize(k_ * p_ + 1);
        }
        if (!std::isfinite(value)) value = INFINITY;
        if (value < best_value) {
            best_value = value;
            best = x;
            best_coef = coef_;
        }
        return value;
    }

    double best_value = INFINITY;
    Vector best, best_coef;
    int evaluations = 0;

private:
    CompactInner<T>& inner_;
    std::size_t k_, p_;
    const MoveSettings& settings_;
    Vector coef_, gamma_;
};

// The latest steps and changes of the gradient g.  direction() returns minus the product of g and the approximate
// inverse Hessian that they define.
class Memory {
public:
    void add(Vector step, Vector change) {
        const double curvature = dot(step, change);
        if (!(curvature > 1e-10 * dot(change, change))) return;  // the Hessian would not be positive definite
        if (pairs_.size() == 10) pairs_.pop_front();
        pairs_.push_back({std::move(step), std::move(change), curvature});
    }
    bool empty() const { return pairs_.empty(); }
    void clear() { pairs_.clear(); }
    Vector direction(const Vector& g) const {
        Vector q(g);
        Vector alpha(pairs_.size());
        for (std::size_t i = pairs_.size(); i-- > 0;) {
            alpha[i] = dot(pairs_[i].step, q) / pairs_[i].curvature;
            for (std::size_t l = 0; l < q.size(); ++l) q[l] -= alpha[i] * pairs_[i].change[l];
        }
        if (!pairs_.empty()) {
            const Pair& last = pairs_.back();
            const double scale = last.curvature / dot(last.change, last.change);
            for (double& value : q) value *= scale;
        }
        for (std::size_t i = 0; i < pairs_.size(); ++i) {
            const double beta = alpha[i] - dot(pairs_[i].change, q) / pairs_[i].curvature;
            for (std::size_t l = 0; l < q.size(); ++l) q[l] += beta * pairs_[i].step[l];
        }
        for (double& value : q) value = -value;
        return q;
    }

private:
    struct Pair {
        Vector step, change;
        double curvature;
    };
    std::deque<Pair> pairs_;
};

// Returns the minimum of the cubic polynomial with the given values and slopes at a and b, clipped to the middle 80% of
// the interval between a and b.
double cubic_minimum(double a, double fa, double da, double b, double fb, double db) {
    const double d = da + db - 3 * (fb - fa) / (b - a);
    const double root = std::sqrt(std::max(0.0, d * d - da * db)) * (b > a ? 1 : -1);
    const double t = b - (b - a) * (db + root - d) / (db - da + 2 * root);
    const double low = std::min(a, b), high = std::max(a, b), edge = 0.1 * (high - low);
    return std::isfinite(t) ? std::clamp(t, low + edge, high - edge) : (a + b) / 2;
}

}  // namespace

template <class T>
MoveOutcome move_points(CompactInner<T>& inner, MatrixView<double> points, std::span<double> log_gamma,
                        std::span<double> coef, const MoveSettings& settings) {
    Vector x(points.data(), points.data() + points.size());
    x.insert(x.end(), log_gamma.begin(), log_gamma.end());
    Outer<T> outer(inner, points.rows, points.columns, Vector(coef.begin(), coef.end()), settings);
    Memory memory;
    MoveOutcome outcome;
    Vector g, trial, trial_g;
    double value = outer(x, g);
    while (outcome.iterations < settings.max_iter && outer.evaluations < 2 * settings.max_iter) {
        const Vector direction = memory.direction(g);
        const double slope = dot(g, direction);
        if (!(slope < 0)) {
            if (memory.empty()) break;  // the gradient is zero
            memory.clear();
            continue;
        }
        // Find a step that satisfies the Armijo condition on F and the Wolfe condition on the slope.
        double low = 0, low_value = value, low_slope = slope, high = 0, high_value = 0, high_slope = 0;
        double t = memory.empty() ? std::min(1.0, 1 / std::sqrt(-slope)) : 1.0, trial_value = 0;
        bool found = false;
        for (int attempt = 0; attempt < 20 && !found; ++attempt) {
            trial = x;
            for (std::size_t l = 0; l < x.size(); ++l) trial[l] += t * direction[l];
            trial_value = outer(trial, trial_g);
            const double trial_slope = dot(trial_g, direction);
            if (!(trial_value <= value + 1e-3 * t * slope)) {
                high = t, high_value = trial_value, high_slope = trial_slope;
            } else if (trial_slope < 0.9 * slope) {
                low = t, low_value = trial_value, low_slope = trial_slope;
            } else {
                found = true;
                break;
            }
            if (high == 0) t *= 4;
            else if (std::isfinite(high_value))
                t = cubic_minimum(low, low_value, low_slope, high, high_value, high_slope);
            else t = (low + high) / 2;
        }
        if (!found) {
            if (memory.empty()) break;  // the remaining decrease is smaller than rounding errors
            memory.clear();             // restart from the best x
            continue;
        }
        const double gain = value - trial_value;
        Vector step(x.size()), change(x.size());
        for (std::size_t l = 0; l < x.size(); ++l) {
            step[l] = trial[l] - x[l];
            change[l] = trial_g[l] - g[l];
        }
        memory.add(std::move(step), std::move(change));
        x.swap(trial);
        g.swap(trial_g);
        value = trial_value;
        ++outcome.iterations;
        if (gain <= settings.tol * std::max(std::abs(value), 1.0)) break;
    }
    outcome.value = outer.best_value;
    outcome.evaluations = outer.evaluations;
    if (outer.best.empty()) return outcome;  // no value was finite
    std::copy_n(outer.best.begin(), points.size(), points.data());
    std::copy_n(outer.best.begin() + std::ptrdiff_t(points.size()), log_gamma.size(), log_gamma.begin());
    std::copy(outer.best_coef.begin(), outer.best_coef.end(), coef.begin());
    return outcome;
}

template MoveOutcome move_points<float>(CompactInner<float>&, MatrixView<double>, std::span<double>, std::span<double>,
                                        const MoveSettings&);
template MoveOutcome move_points<double>(CompactInner<double>&, MatrixView<double>, std::span<double>,
                                         std::span<double>, const MoveSettings&);

}  // namespace sparseklr
