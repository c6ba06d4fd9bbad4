#include "smo.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <memory>
#include <stdexcept>

#include "pair_step.hpp"

// What was tried and left out: blocks of 256..1024 points solved by an inner SMO (ThunderSVM,
// oneDAL), chosen by violation or by promised decrease.  They win where the support fits into one
// block (ring, spambase) and lose 5 to 40 times where it does not (magic): the block over-fits
// itself and the next one undoes it.  A pair chosen over all points wastes nothing.

namespace sparseklr {
namespace {

// E_i = -y_i grad_i = -(F_i + y_i (logit(alpha_i / C_i) - lam)).  A point is in I_up if y_i alpha_i
// can grow, in I_low if it can fall; alpha is optimal iff max_up E <= min_low E.
// These are the arrays of one run of the pair loop, on all points or on some of them.
template <class T> struct Workspace {
    RowSource<T>* row_source;
    std::size_t n;
    std::vector<double> y, box, lo, diagonal;
    std::vector<Dual> dual;
    std::vector<double> E;
    std::vector<float> side;       // 1 I_up only, -1 I_low only, 0 both
    std::vector<float> curvature;  // K_ii + G''(alpha_i / C_i) / C_i

    Workspace(RowSource<T>* source, std::size_t size)
        : row_source(source), n(size), y(size), box(size), lo(size), diagonal(size), dual(size), E(size), side(size), curvature(size) {}

    // Side and curvature of point i, after its dual changed.
    void refresh(std::size_t i) {
        const bool can_grow = dual[i].rest > lo[i], can_fall = dual[i].alpha > lo[i];
        side[i] = float(y[i] * (int(can_grow) - int(can_fall)));
        curvature[i] = float(diagonal[i] + dual[i].curvature());
    }

    // The workspace of some of the points.
    Workspace part(RowSource<T>* source, const std::vector<std::size_t>& indices) const {
        Workspace w(source, indices.size());
        for (std::size_t k = 0; k < indices.size(); ++k) {
            const std::size_t i = indices[k];
            w.y[k] = y[i];
            w.box[k] = box[i];
            w.lo[k] = lo[i];
            w.diagonal[k] = diagonal[i];
            w.dual[k] = dual[i];
            w.E[k] = E[i];
            w.refresh(k);
        }
        return w;
    }

    const T* row(std::size_t i) {
        const T* pointer;
        row_source->fetch(&i, 1, &pointer);
        return pointer;
    }

    Extremes extremes() const { return simd<T>().extremes(E.data(), side.data(), n); }
};

class Clock {
public:
    double seconds() const { return since(start_); }
    bool due(double every) {
        if (since(last_poll_) < every) return false;
        last_poll_ = std::chrono::steady_clock::now();
        return true;
    }

private:
    using time_point = std::chrono::steady_clock::time_point;
    static double since(time_point then) {
        return std::chrono::duration<double>(std::chrono::steady_clock::now() - then).count();
    }
    time_point start_ = std::chrono::steady_clock::now(), last_poll_ = start_;
};

enum class Stop { tolerance, max_iter, interrupted, shrink };

template <class T> class Solver {
public:
    Solver(const Problem& problem, RowSource<T>& row_source, const Settings& settings, State state, const Monitor& monitor)
        : problem_(problem), settings_(settings), state_(state), monitor_(monitor), all_(&row_source, problem.n) {
        for (std::size_t i = 0; i < problem.n; ++i) {
            all_.y[i] = problem.y[i];
            all_.box[i] = problem.box[i];
            all_.lo[i] = problem.bound[i];
            all_.diagonal[i] = row_source.diagonal(i);
            // the other end of the box may be nearer than the last digit of alpha
            all_.dual[i] = {std::max(state.alpha[i], all_.lo[i]), std::max(problem.box[i] - state.alpha[i], all_.lo[i])};
            all_.refresh(i);
            all_.E[i] = -(state.F[i] + problem.y[i] * (all_.dual[i].logit() - problem.lam));
        }
        info_.min_curvature = std::numeric_limits<double>::infinity();
    }

    SolveInfo run() {
        Stop stop = optimise_pairs(all_);
        while (stop == Stop::shrink) {
            const std::vector<Dual> before = all_.dual;
            stop = solve_unsettled(all_);
            if (!add_changes(all_, before)) stop = Stop::interrupted;
            if (stop == Stop::tolerance) stop = optimise_pairs(all_);
        }
        const Extremes ends = all_.extremes();
        info_.upper = ends.up.value;
        info_.lower = ends.low.value;
        info_.violation = ends.up.value - ends.low.value;
        info_.status = stop == Stop::interrupted ? Status::interrupted
                      : stop == Stop::max_iter  ? Status::max_iter
                                                : Status::optimal;
        info_.history.push_back({info_.n_iter, info_.violation, clock_.seconds()});
        for (std::size_t i = 0; i < problem_.n; ++i) {
            state_.alpha[i] = all_.dual[i].alpha;
            state_.F[i] = -all_.E[i] - problem_.y[i] * (all_.dual[i].logit() - problem_.lam);
        }
        return std::move(info_);
    }

private:
    // The SMO Algorithm of the paper on the points of w.
    Stop optimise_pairs(Workspace<T>& w) {
        const Simd<T>& loops = simd<T>();
        // about every 10^6 kernel values: a step on many points takes long
        const std::int64_t poll_every = std::clamp<std::int64_t>((std::int64_t{1} << 20) / std::int64_t(w.n + 1), 1, 256);
        std::int64_t next_poll = info_.n_iter + poll_every;
        const std::int64_t patience = std::int64_t(std::max<std::size_t>(1000, w.n / 2));
        std::int64_t next_shrink = info_.n_iter + patience;
        Extremes ends = w.extremes();
        while (true) {
            // 1. i: the most violating point of I_up; stop when no point of I_low lies below it
            const double violation = ends.up.value - ends.low.value;
            if (!(violation > settings_.tol)) return Stop::tolerance;
            if (violation == std::numeric_limits<double>::infinity())
                throw std::range_error("the decision values overflow: kernel values times C are too large");
            if (info_.n_iter >= settings_.max_iter) return Stop::max_iter;
            if (info_.n_iter >= next_poll) {
                next_poll += poll_every;
                if (!poll_monitor(violation)) return Stop::interrupted;
            }
            if (info_.n_iter >= next_shrink) {
                next_shrink += patience;
                if (4 * unsettled_points(w, ends).size() < 3 * w.n) return Stop::shrink;
            }
            // 2. j: the largest decrease promised by the second-order model, or the extreme of I_low
            const std::size_t i = ends.up.index;
            const T* row_i = w.row(i);
            std::size_t j = ends.low.index;
            if (second_order_step()) {
                const Extreme promised = loops.second_order(w.E.data(), w.side.data(), w.curvature.data(), row_i, w.E[i],
                                                            double(w.curvature[i]), w.n);
                if (promised.value > 0 && std::isfinite(promised.value)) j = promised.index;
            }
            const T* row_j = w.row(j);
            // 3. the two-variable problem: alpha_i += y_i t, alpha_j -= y_j t
            const double gap = w.E[i] - w.E[j];
            const double eta = w.diagonal[i] + w.diagonal[j] - 2 * double(row_i[j]);
            info_.min_curvature = std::min(info_.min_curvature, eta / (std::abs(w.diagonal[i]) + std::abs(w.diagonal[j]) +
                                                                     2 * std::abs(double(row_i[j])) + 1e-300));
            Dual &a = w.dual[i], &b = w.dual[j];
            const double t_max = std::min((w.y[i] > 0 ? a.rest : a.alpha) - w.lo[i],
                                          (w.y[j] > 0 ? b.alpha : b.rest) - w.lo[j]);
            const double t = pair_step(a, w.y[i], b, w.y[j], gap, std::max(eta, 0.0), t_max,
                                       1e-3 * std::min(gap, settings_.tol));
            // 4. move, and keep E up to date
            const double logit_a = a.logit(), logit_b = b.logit();
            a.move(w.y[i] * t, w.box[i], w.lo[i]);
            b.move(-w.y[j] * t, w.box[j], w.lo[j]);
            w.E[i] -= w.y[i] * (a.logit() - logit_a);
            w.E[j] -= w.y[j] * (b.logit() - logit_b);
            w.refresh(i);
            w.refresh(j);
            ends = loops.update(w.E.data(), w.side.data(), row_i, row_j, t, w.n);
            ++info_.n_iter;
        }
    }

    // A dual close to an end of its box is stiff: its violation may be large, the decrease it offers
    // never is.  The second-order rule leaves such points of I_low alone until all others are solved
    // to much higher accuracy; the mixed rule takes the most violating pair every tenth time
    // (3 to 20 times fewer steps at tol 1e-8, up to 2 times fewer at 1e-3).
    bool second_order_step() const {
        return settings_.working_set == WorkingSet::second_order ||
               (settings_.working_set == WorkingSet::mixed && info_.n_iter % 10 != 9);
    }

    // The points that are not settled at a bound.  A point of I_up only with E below min_low E (of
    // I_low only, above max_up E) is settled: it would stay where it is.
    static std::vector<std::size_t> unsettled_points(const Workspace<T>& w, const Extremes& ends) {
        std::vector<std::size_t> unsettled;
        for (std::size_t k = 0; k < w.n; ++k) {
            const bool settled = (w.side[k] > 0 && w.E[k] < ends.low.value) || (w.side[k] < 0 && w.E[k] > ends.up.value);
            if (!settled) unsettled.push_back(k);
        }
        return unsettled;
    }

    // Solves for the unsettled points of w (and, of those, for the unsettled again), then writes
    // their duals back; E of w is left as it was.
    Stop solve_unsettled(Workspace<T>& w) {
        const std::vector<std::size_t> indices = unsettled_points(w, w.extremes());
        const std::unique_ptr<RowSource<T>> row_source = w.row_source->subset(indices);
        Workspace<T> part = w.part(row_source.get(), indices);
        Stop stop;
        try {
            stop = optimise_pairs(part);
            if (stop == Stop::shrink) stop = solve_unsettled(part);
        } catch (NonFiniteKernel& error) {
            error.row = indices[error.row];  // as w counts the points
            throw;
        }
        for (std::size_t k = 0; k < indices.size(); ++k) w.dual[indices[k]] = part.dual[k];
        return stop;
    }

    // Brings E of all points up to date with duals that were changed elsewhere.  False if the monitor asked
    // to stop meanwhile; what was begun is finished nevertheless, so that the duals and E stay consistent.
    bool add_changes(Workspace<T>& w, const std::vector<Dual>& before) {
        bool go_on = true;
        std::vector<std::size_t> changed;
        std::vector<double> weight;
        for (std::size_t i = 0; i < w.n; ++i) {
            const Dual &now = w.dual[i], &old = before[i];
            const double moved = now.alpha <= now.rest ? now.alpha - old.alpha : old.rest - now.rest;
            if (moved == 0) continue;
            w.E[i] -= w.y[i] * (now.logit() - old.logit());
            w.refresh(i);
            changed.push_back(i);
            weight.push_back(-w.y[i] * moved);
        }
        const std::size_t batch = std::min<std::size_t>(w.row_source->capacity(), 512);
        std::vector<const T*> row(batch);
        for (std::size_t first = 0; first < changed.size(); first += batch) {
            const std::size_t m = std::min(batch, changed.size() - first);
            go_on = go_on && poll_monitor(latest_violation_);
            w.row_source->fetch(changed.data() + first, m, row.data());
            const std::size_t strip = 2048, n_strips = (w.n + strip - 1) / strip;
            const int threads = threads_for(settings_.threads, m * w.n, 1);
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1)
            for (std::size_t s = 0; s < n_strips; ++s)
                simd<T>().add_rows(w.E.data(), row.data(), weight.data() + first, m, s * strip, std::min(w.n, (s + 1) * strip));
        }
        return go_on;
    }

    // Asks the monitor when it is due whether to go on; keeps a snapshot whenever a sixty-fourth more
    // steps were made.
    bool poll_monitor(double violation) {
        latest_violation_ = violation;
        const Snapshot now{info_.n_iter, violation, clock_.seconds()};
        if (info_.n_iter >= next_snapshot_) {
            info_.history.push_back(now);
            next_snapshot_ = info_.n_iter + std::max<std::int64_t>(1024, info_.n_iter / 64);
        }
        return !monitor_ || !clock_.due(settings_.poll_seconds) || monitor_(now);
    }

    const Problem problem_;
    const Settings settings_;
    State state_;
    const Monitor& monitor_;
    Workspace<T> all_;
    std::int64_t next_snapshot_ = 0;
    double latest_violation_ = 0;  // that the monitor was shown
    Clock clock_;
    SolveInfo info_;
};

}  // namespace

template <class T>
SolveInfo solve(const Problem& problem, RowSource<T>& row_source, const Settings& settings, State state,
                const Monitor& monitor) {
    return Solver<T>(problem, row_source, settings, state, monitor).run();
}

template SolveInfo solve<float>(const Problem&, RowSource<float>&, const Settings&, State, const Monitor&);
template SolveInfo solve<double>(const Problem&, RowSource<double>&, const Settings&, State, const Monitor&);

}  // namespace sparseklr
