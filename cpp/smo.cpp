#include "smo.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <numeric>

#include "pair_step.hpp"

namespace sparseklr {
namespace {

constexpr double huge = 1e300;

// E_i = -y_i grad_i = -(F_i + y_i (logit(alpha_i / C_i) - lam)).  A point is in I_up if E may push
// it (y_i alpha_i can grow), in I_low if y_i alpha_i can fall; optimal iff max_up E <= min_low E.
// Arrays of one run, on all points or on a block of them.
struct Workspace {
    std::size_t n;
    std::vector<double> y, lo, diagonal;
    std::vector<Dual> dual;
    std::vector<double> E;
    std::vector<double> up_off, low_off;  // 0 for members of I_up (I_low), -huge (+huge) for others
    std::vector<double> curvature;        // K_ii + G''(alpha_i / C_i) / C_i

    explicit Workspace(std::size_t size)
        : n(size), y(size), lo(size), diagonal(size), dual(size), E(size), up_off(size), low_off(size), curvature(size) {}

    // Membership and curvature of point i, after its dual changed.
    void refresh(std::size_t i) {
        const bool can_grow = dual[i].rest > lo[i], can_fall = dual[i].alpha > lo[i];
        const bool up = y[i] > 0 ? can_grow : can_fall, low = y[i] > 0 ? can_fall : can_grow;
        up_off[i] = up ? 0 : -huge;
        low_off[i] = low ? 0 : huge;
        curvature[i] = diagonal[i] + dual[i].curvature();
    }
};

struct Clock {
    using time_point = std::chrono::steady_clock::time_point;
    time_point start = std::chrono::steady_clock::now(), last_poll = start;

    double seconds() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(); }
    bool due(double every) {
        const auto now = std::chrono::steady_clock::now();
        if (std::chrono::duration<double>(now - last_poll).count() < every) return false;
        last_poll = now;
        return true;
    }
};

struct PairLoop {
    Extreme up, low;          // at the end
    std::int64_t steps = 0;
    double min_curvature = std::numeric_limits<double>::infinity();
    bool stopped = false;     // by `watch`
};

// The paper's SMO Algorithm.  `row(i)` gives kernel row i in the workspace's order; `watch(steps,
// violation)` is called every 256 steps and may stop the loop.
template <class T, class Row, class Watch>
PairLoop pair_loop(Workspace& w, const Row& row, bool second_order, double tol, std::int64_t max_steps,
                   const Watch& watch) {
    const Simd<T>& loops = simd<T>();
    const SimdCommon& common = simd_common();
    PairLoop out;
    while (true) {
        // 1. i: the most violating point of I_up; stop when no point of I_low lies below it
        out.up = common.arg_max(w.E.data(), w.up_off.data(), w.n);
        out.low = common.arg_min(w.E.data(), w.low_off.data(), w.n);
        const double violation = out.up.value - out.low.value;
        if (!(violation > tol) || out.steps >= max_steps) return out;
        if (out.steps % 256 == 255 && !watch(out.steps, violation)) {
            out.stopped = true;
            return out;
        }
        // 2. j: largest decrease promised by the second-order model (or the extreme point of I_low)
        const std::size_t i = out.up.index;
        const T* row_i = row(i);
        const std::size_t j = second_order ? loops.second_order(w.E.data(), w.low_off.data(), w.curvature.data(), row_i,
                                                                out.up.value, w.curvature[i], w.n).index
                                           : out.low.index;
        const T* row_j = row(j);
        // 3. the two-variable problem
        const double gap = w.E[i] - w.E[j];
        const double eta = w.diagonal[i] + w.diagonal[j] - 2 * double(row_i[j]);
        out.min_curvature = std::min(out.min_curvature, eta);
        Dual &a = w.dual[i], &b = w.dual[j];
        const double t_max = std::min((w.y[i] > 0 ? a.rest : a.alpha) - w.lo[i], (w.y[j] > 0 ? b.alpha : b.rest) - w.lo[j]);
        const double t = pair_step(a, w.y[i], b, w.y[j], gap, std::max(eta, 0.0), t_max, 1e-3 * std::min(gap, tol));
        // 4. move, and keep E up to date
        const double logit_a = a.logit(), logit_b = b.logit();
        a.move(w.y[i] * t, w.lo[i]);
        b.move(-w.y[j] * t, w.lo[j]);
        loops.update(w.E.data(), row_i, row_j, t, w.n);
        w.E[i] -= w.y[i] * (a.logit() - logit_a);
        w.E[j] -= w.y[j] * (b.logit() - logit_b);
        w.refresh(i);
        w.refresh(j);
        ++out.steps;
    }
}

// Points that violate optimality most, half of them from either side.
class BlockSelector {
public:
    explicit BlockSelector(std::size_t n) : taken_(n, 0) {}

    const std::vector<std::size_t>& choose(const Workspace& w, double max_up, double min_low, std::size_t size) {
        block_.clear();
        take(w, size / 2, [&](std::size_t k) { return w.E[k] + w.up_off[k]; }, min_low);
        take(w, size - block_.size(), [&](std::size_t k) { return -(w.E[k] + w.low_off[k]); }, -max_up);
        for (std::size_t k : block_) taken_[k] = 0;
        std::sort(block_.begin(), block_.end());
        return block_;
    }

private:
    template <class Score>
    void take(const Workspace& w, std::size_t count, const Score& score, double threshold) {
        candidates_.clear();
        for (std::size_t k = 0; k < w.n; ++k)
            if (!taken_[k] && score(k) > threshold) candidates_.push_back(k);
        if (candidates_.size() > count) {
            std::nth_element(candidates_.begin(), candidates_.begin() + std::ptrdiff_t(count), candidates_.end(),
                             [&](std::size_t a, std::size_t b) { return score(a) > score(b) || (score(a) == score(b) && a < b); });
            candidates_.resize(count);
        }
        for (std::size_t k : candidates_) {
            taken_[k] = 1;
            block_.push_back(k);
        }
    }
    std::vector<char> taken_;
    std::vector<std::size_t> block_, candidates_;
};

template <class T> class Solver {
public:
    Solver(const Problem& problem, RowSource<T>& rows, const Settings& settings, State state, const Monitor& monitor)
        : problem_(problem), rows_(rows), settings_(settings), state_(state), monitor_(monitor), all_(problem.n) {
        for (std::size_t i = 0; i < problem.n; ++i) {
            all_.y[i] = problem.y[i];
            all_.lo[i] = problem.bound[i];
            all_.diagonal[i] = rows.diagonal(i);
            all_.dual[i] = {state.alpha[i], problem.box[i] - state.alpha[i]};
            all_.refresh(i);
            all_.E[i] = -(state.F[i] + problem.y[i] * (all_.dual[i].logit() - problem.lam));
        }
    }

    Outcome run() {
        if (settings_.working_set == WorkingSet::block) run_blocks();
        else run_pairs();
        for (std::size_t i = 0; i < problem_.n; ++i) {
            state_.alpha[i] = all_.dual[i].alpha;
            state_.F[i] = -all_.E[i] - problem_.y[i] * (all_.dual[i].logit() - problem_.lam);
        }
        return std::move(out_);
    }

private:
    // Keeps the record; false when the monitor asks to stop.
    bool report(std::int64_t n_iter, double violation) {
        const Record record{n_iter, violation, clock_.seconds()};
        out_.history.push_back(record);
        return !monitor_ || !clock_.due(settings_.poll_seconds) || monitor_(record);
    }

    void finish(const Extreme& up, const Extreme& low, bool stopped) {
        out_.upper = up.value;
        out_.lower = low.value;
        out_.violation = up.value - low.value;
        out_.status = stopped ? Status::interrupted : out_.violation <= settings_.tol ? Status::optimal : Status::max_iter;
        out_.history.push_back({out_.n_iter, out_.violation, clock_.seconds()});
    }

    void run_pairs() {
        std::int64_t next_record = 0;
        const auto row = [this](std::size_t i) {
            const T* pointer;
            rows_.fetch(&i, 1, &pointer);
            return pointer;
        };
        const auto watch = [&](std::int64_t steps, double violation) {
            if (steps >= next_record) {
                next_record = steps + std::max<std::int64_t>(1024, steps / 64);
                return report(steps, violation);
            }
            return !monitor_ || !clock_.due(settings_.poll_seconds) || monitor_({steps, violation, clock_.seconds()});
        };
        const PairLoop loop = pair_loop<T>(all_, row, settings_.working_set == WorkingSet::second_order, settings_.tol,
                                           settings_.max_iter, watch);
        out_.n_iter = loop.steps;
        out_.min_curvature = loop.min_curvature;
        finish(loop.up, loop.low, loop.stopped);
    }

    void run_blocks() {
        const Simd<T>& loops = simd<T>();
        const SimdCommon& common = simd_common();
        const std::size_t size = std::min({settings_.block_size, rows_.capacity(), problem_.n});
        BlockSelector selector(problem_.n);
        std::vector<const T*> row(size);
        std::vector<T> gram(size * size);
        std::vector<double> weight(size), before(size);
        out_.min_curvature = std::numeric_limits<double>::infinity();
        bool stopped = false;
        while (true) {
            const Extreme up = common.arg_max(all_.E.data(), all_.up_off.data(), all_.n);
            const Extreme low = common.arg_min(all_.E.data(), all_.low_off.data(), all_.n);
            const double violation = up.value - low.value;
            if (!(violation > settings_.tol) || out_.n_iter >= settings_.max_iter || stopped) {
                finish(up, low, stopped);
                return;
            }
            stopped = !report(out_.n_iter, violation);
            if (stopped) continue;

            const std::vector<std::size_t>& block = selector.choose(all_, up.value, low.value, size);
            const std::size_t m = block.size();
            rows_.fetch(block.data(), m, row.data());
            Workspace w(m);
            for (std::size_t k = 0; k < m; ++k) {
                const std::size_t i = block[k];
                w.y[k] = all_.y[i];
                w.lo[k] = all_.lo[i];
                w.diagonal[k] = all_.diagonal[i];
                w.dual[k] = all_.dual[i];
                w.E[k] = all_.E[i];
                w.refresh(k);
                for (std::size_t l = 0; l < m; ++l) gram[k * m + l] = row[k][block[l]];
            }
            const auto gram_row = [&](std::size_t k) { return gram.data() + k * m; };
            const auto watch = [&](std::int64_t steps, double inner) {
                if (monitor_ && clock_.due(settings_.poll_seconds))
                    return monitor_({out_.n_iter + steps, std::max(inner, violation), clock_.seconds()});
                return true;
            };
            const double inner_tol = std::max(0.1 * violation, 0.5 * settings_.tol);
            const PairLoop loop = pair_loop<T>(w, gram_row, true, inner_tol, settings_.max_iter - out_.n_iter, watch);
            out_.n_iter += loop.steps;
            out_.min_curvature = std::min(out_.min_curvature, loop.min_curvature);
            stopped = loop.stopped;

            std::size_t changed = 0;
            for (std::size_t k = 0; k < m; ++k) {
                const std::size_t i = block[k];
                const Dual old = all_.dual[i];
                const double moved = w.dual[k].alpha <= w.dual[k].rest ? w.dual[k].alpha - old.alpha : old.rest - w.dual[k].rest;
                if (moved == 0) continue;
                all_.E[i] -= all_.y[i] * (w.dual[k].logit() - old.logit());
                all_.dual[i] = w.dual[k];
                all_.refresh(i);
                row[changed] = row[k];
                weight[changed++] = -all_.y[i] * moved;
            }
            const std::size_t strip = 2048, n_strips = (all_.n + strip - 1) / strip;
#pragma omp parallel for num_threads(settings_.threads) schedule(static) if (settings_.threads > 1)
            for (std::size_t s = 0; s < n_strips; ++s)
                loops.add_rows(all_.E.data(), row.data(), weight.data(), changed, s * strip, std::min(all_.n, (s + 1) * strip));
        }
    }

    const Problem problem_;
    RowSource<T>& rows_;
    const Settings settings_;
    State state_;
    const Monitor& monitor_;
    Workspace all_;
    Clock clock_;
    Outcome out_;
};

}  // namespace

template <class T>
Outcome solve(const Problem& problem, RowSource<T>& rows, const Settings& settings, State state, const Monitor& monitor) {
    return Solver<T>(problem, rows, settings, state, monitor).run();
}

template Outcome solve<float>(const Problem&, RowSource<float>&, const Settings&, State, const Monitor&);
template Outcome solve<double>(const Problem&, RowSource<double>&, const Settings&, State, const Monitor&);

}  // namespace sparseklr
