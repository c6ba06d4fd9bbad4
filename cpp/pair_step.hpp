// The two-variable subproblem of SMO: minimisation of a strictly convex function of one variable.
#pragma once

#include <algorithm>
#include <cmath>

namespace sparseklr {

// A dual variable, stored as its distances from the lower and the upper bound, so that neither distance suffers from
// cancellation (Yu, Huang and Lin, Machine Learning 85, 2011, use the distances from 0 and C).
struct Dual {
    double above, below, lo;  // alpha = lo + above, C - alpha = lo + below

    double alpha() const { return lo + above; }
    double rest() const { return lo + below; }
    double logit() const { return std::log(alpha() / rest()); }    // G'(alpha / C)
    double curvature() const { return 1 / alpha() + 1 / rest(); }  // G''(alpha / C) / C
    Dual moved(double by) const { return {above + by, below - by, lo}; }

    // Adds `by` to the variable, clipped to the bounds, and keeps both distances consistent; a bound is reached
    // exactly.  `room` is above + below, the distance between the bounds.  Returns the actual change of alpha, which
    // rounding and the bounds may make smaller than `by`.
    double move(double by, double room) {
        const Dual before = *this;
        if (above <= below) {
            above = std::max(above + by, 0.0);
            below = std::max(room - above, 0.0);
            if (below == 0) above = room;
        } else {
            below = std::max(below - by, 0.0);
            above = std::max(room - below, 0.0);
            if (above == 0) below = room;
        }
        return change_since(before);
    }

    double change_since(const Dual& before) const {
        return above <= below ? above - before.above : before.below - below;
    }
};

// Minimises the dual along alpha_i += y_i t, alpha_j -= y_j t for 0 <= t <= t_max.
// The derivative is
//     phi(t) = -gap + eta t + y_i [logit_i(t) - logit_i(0)] - y_j [logit_j(t) - logit_j(0)],
// where gap = E_i - E_j > 0 and eta = K_ii + K_jj - 2 K_ij >= 0.  Every term except -gap increases with t, so
// gap / eta is an upper bound on the root.  It is nearly exact if the kernel term dominates, and Newton's
// method starts there.  If a Newton step leaves the bracket of the root, it is replaced by bisection.  The
// bisection is on a logarithmic scale while the bracket spans orders of magnitude.
inline double pair_step(const Dual& i, double yi, const Dual& j, double yj, double gap, double eta, double t_max,
                        double accuracy) {
    const double ui = i.logit(), uj = j.logit();
    const auto phi = [&](double t) {
        return -gap + eta * t + yi * (i.moved(yi * t).logit() - ui) - yj * (j.moved(-yj * t).logit() - uj);
    };
    const auto slope = [&](double t) { return eta + i.moved(yi * t).curvature() + j.moved(-yj * t).curvature(); };
    double high = eta * t_max > gap ? gap / eta : t_max, low = 0;
    double t = high;
    double value = phi(t);
    if (value <= 0) return t;  // the minimum is at t_max or beyond
    for (int step = 0; step < 100 && std::abs(value) > accuracy; ++step) {
        (value > 0 ? high : low) = t;
        double next = t - value / slope(t);
        if (!(next > low && next < high)) {
            if (low == 0) next = std::min(gap / slope(0.0), 0.5 * high);
            else next = high > 4 * low ? std::sqrt(low) * std::sqrt(high) : 0.5 * (low + high);
        }
        if (next == t) break;
        t = next;
        value = phi(t);
    }
    return t;
}

}  // namespace sparseklr
