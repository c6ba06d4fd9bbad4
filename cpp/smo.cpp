#include "smo.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <memory>
#include <stdexcept>
#include <utility>

#include "workspace.hpp"

// Working sets are pairs.  Working sets of 256 to 1024 points, solved by an inner SMO as in ThunderSVM and oneDAL, are
// faster only if the support fits into one of them.  Otherwise they are 5 to 40 times slower, because each one undoes
// the progress of the previous one.

namespace sparseklr {
namespace {

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

constexpr double epsilon = std::numeric_limits<double>::epsilon();

enum class Stop { tolerance, max_iter, interrupted, stalled, shrink };
// Kind of the latest step: normal, between points of very unequal weight, or without effect because of rounding.
enum class Latest { usual, unequal, lost };

template <class T> class Solver {
public:
    Solver(const Problem& problem, RowSource<T>& row_source, const Settings& settings, State state,
           const Monitor& monitor)
        : problem_(problem), settings_(settings), state_(state), monitor_(monitor), team_(settings.threads),
          all_(row_source, problem.n(), team_) {
        for (std::size_t i = 0; i < problem.n(); ++i) {
            all_.y[i] = problem.y[i];
            all_.room[i] = problem.box[i] - 2 * problem.bound[i];
            all_.diagonal[i] = row_source.diagonal(i);
            const double above = std::clamp(state.above[i], 0.0, all_.room[i]);
            all_.dual[i] = {above, all_.room[i] - above, problem.bound[i]};
            all_.refresh(i);
            all_.E[i] = -(state.F[i] + problem.y[i] * (all_.dual[i].logit() - problem.lam));
        }
        info_.min_curvature = std::numeric_limits<double>::infinity();
    }

    SolveInfo run() {
        const std::vector<Dual> start_dual = all_.dual;
        const std::vector<double> start_E = all_.E;
        Stop stop = optimise_and_shrink();
        // The violation is correct only if E is accurate.  If accumulated rounding errors may reach the tolerance, E is
        // recomputed, and the solver continues with the new E.
        for (int trial = 0; stop == Stop::tolerance && rounding_ > settings_.tol; ++trial) {
            all_.E = start_E;
            if (!add_changes(all_, start_dual)) stop = Stop::interrupted;
            else stop = trial < 3 ? optimise_and_shrink() : Stop::stalled;
        }
        // E also contains the rounding errors of the start and of the changes added to it.
        double size = problem_.lam;
        for (std::size_t i = 0; i < problem_.n(); ++i)
            size += std::max(start_dual[i].above, all_.dual[i].above) * std::abs(all_.diagonal[i]);
        if (stop == Stop::tolerance && epsilon * size > 1e3 * settings_.tol) stop = Stop::stalled;
        const Extremes ends = all_.extremes();
        info_.upper = ends.up.value;
        info_.lower = ends.low.value;
        info_.violation = ends.up.value - ends.low.value;
        info_.status = stop == Stop::interrupted ? Status::interrupted
                       : stop == Stop::max_iter  ? Status::max_iter
                       : stop == Stop::stalled   ? Status::stalled
                                                 : Status::optimal;
        info_.history.push_back({info_.n_iter, info_.violation, clock_.seconds()});
        for (std::size_t i = 0; i < problem_.n(); ++i) state_.above[i] = all_.dual[i].above;
        // The next run may start from F with a smaller margin, so F is recomputed if it has lost accuracy.
        const bool digits_lost = epsilon * problem_.lam * std::max(1.0, problem_.lam) > 1e-2 * settings_.tol;
        if (digits_lost) add_changed_rows(all_, start_dual, 1, state_.F, [] {});
        else
            for (std::size_t i = 0; i < problem_.n(); ++i)
                state_.F[i] = -all_.E[i] - problem_.y[i] * (all_.dual[i].logit() - problem_.lam);
        return std::move(info_);
    }

private:
    Stop optimise_and_shrink() {
        rounding_ = 0;
        Stop stop = optimise_pairs(all_);
        while (stop == Stop::shrink) {
            const std::vector<Dual> before = all_.dual;
            stop = solve_unsettled(all_);
            if (!add_changes(all_, before)) stop = Stop::interrupted;
            if (stop == Stop::tolerance) stop = optimise_pairs(all_);
        }
        return stop;
    }

    // The SMO algorithm of Consolo, Manno and Amaldi (2025), on the points of w.
    Stop optimise_pairs(Workspace<T>& w) {
        // about every 10^6 kernel values, because a step on many points takes long
        const std::int64_t poll_every = std::clamp<std::int64_t>((std::int64_t{1} << 20) / std::int64_t(w.n + 1), 1,
                                                                 256);
        std::int64_t next_poll = info_.n_iter + poll_every;
        const std::int64_t patience = std::int64_t(std::max<std::size_t>(1000, w.n / 2));
        std::int64_t next_shrink = info_.n_iter + patience;
        Extremes ends = w.extremes();
        Latest latest = Latest::usual;
        double least_violation = std::numeric_limits<double>::infinity();
        std::int64_t least_at = info_.n_iter;  // number of steps after which the violation was smallest
        while (true) {
            // 1. stop when the smallest E in I_low is not below the largest E in I_up
            const double violation = ends.up.value - ends.low.value;
            if (violation < least_violation) least_violation = violation, least_at = info_.n_iter;
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
                // Near the attainable accuracy, steps may repeat in a cycle because of rounding: the solver stops if
                // half of all steps have not reduced the smallest violation.
                const double least = attainable(w, ends);
                const bool cycle = info_.n_iter >= 2 * least_at && violation <= 1e3 * least;
                if (violation <= least || cycle) return Stop::stalled;
                if (4 * unsettled_points(w, ends).size() < 3 * w.n) return Stop::shrink;
            }
            // 2. choose a pair
            const auto [i, j] = select_working_set(w, ends, latest);
            if (i == j) return Stop::stalled;
            const T *row_i = w.row(i), *row_j = w.row(j);
            const double stiffness = w.dual[i].curvature() / w.dual[j].curvature();
            // 3. solve the two-variable problem: alpha_i += y_i t, alpha_j -= y_j t
            const double gap = w.E[i] - w.E[j];
            const double eta = w.diagonal[i] + w.diagonal[j] - 2 * double(row_i[j]);
            info_.min_curvature = std::min(
                info_.min_curvature,
                eta / (std::abs(w.diagonal[i]) + std::abs(w.diagonal[j]) + 2 * std::abs(double(row_i[j])) + 1e-300));
            Dual &a = w.dual[i], &b = w.dual[j];
            const double t_max = std::min(w.y[i] > 0 ? a.below : a.above, w.y[j] > 0 ? b.above : b.below);
            const double t = pair_step(a, w.y[i], b, w.y[j], gap, std::max(eta, 0.0), t_max,
                                       1e-3 * std::min(gap, settings_.tol));
            // 4. move the pair, and update E
            const double logit_a = a.logit(), logit_b = b.logit();
            const double t_i = w.y[i] * a.move(w.y[i] * t, w.room[i]);
            const double t_j = -w.y[j] * b.move(-w.y[j] * t, w.room[j]);
            const bool none = t_i == 0 && t_j == 0,
                       lost = std::abs(t_i - t_j) > 0.5 * std::max(std::abs(t_i), std::abs(t_j));
            if (none && latest == Latest::lost)
                return Stop::stalled;  // no variable has changed, so the next step would be the same
            if (none) latest = Latest::lost;
            else if (latest != Latest::unequal && (stiffness > 1e10 || stiffness < 1e-10)) latest = Latest::unequal;
            else latest = latest == Latest::usual && lost ? Latest::lost : Latest::usual;
            w.E[i] -= w.y[i] * (a.logit() - logit_a);
            w.E[j] -= w.y[j] * (b.logit() - logit_b);
            w.refresh(i);
            w.refresh(j);
            ends = w.move_pair(row_i, row_j, t_i, t_j);
            rounding_ += epsilon * std::abs(t) * std::max(std::abs(w.diagonal[i]), std::abs(w.diagonal[j]));
            ++info_.n_iter;
        }
    }

    // Chooses the pair (i, j).  i is the point of I_up with the largest E.  j is the point of I_low with the largest
    // decrease in the second-order model (in double, if float is not accurate enough), or with the smallest E.
    //
    // The curvature of a dual variable close to its bound is large, so its violation may be large although the possible
    // decrease is small.  The second-order rule ignores such points of I_low until all others are solved to much higher
    // accuracy.  The mixed rule takes the most violating pair in every tenth step, which needs fewer steps in total.
    //
    // If weights differ by many orders of magnitude, a point of small weight may move from one end of its box to the
    // other and back, while its partner of large weight hardly moves.  A step of such an unequal pair is therefore
    // followed by a step of the pair with the largest decrease among the pairs that violate the tolerance.  Points of
    // large weight are thus solved before points of small weight.  (Points of equal weight are never so unequal,
    // because the bound keeps the curvature below 1e9 / C.)
    //
    // Because of rounding, the step of a pair of large weight may have no effect.  The next pair is then the most
    // violating pair that can move, or {i, i} if no pair can move.
    std::pair<std::size_t, std::size_t> select_working_set(Workspace<T>& w, const Extremes& ends, Latest latest) {
        if (latest == Latest::lost) return most_promising_movable(w, ends);
        if (latest == Latest::unequal) {
            const std::size_t i = most_promising_up(w, ends);
            return {i, most_promising_low(w, i, ends)};
        }
        const std::size_t i = ends.up.index;
        const bool second_order = settings_.working_set == WorkingSet::second_order ||
                                  (settings_.working_set == WorkingSet::mixed && info_.n_iter % 10 != 9);
        if (!second_order) return {i, ends.low.index};
        const Extreme promised = w.second_order(i, w.row(i), ends.up.value - ends.low.value);
        if (!(promised.value > 0 && std::isfinite(promised.value))) return {i, most_promising_low(w, i, ends)};
        const bool solved = !(w.E[i] - w.E[promised.index] > 1e-3 * settings_.tol);
        return {i, solved ? ends.low.index : promised.index};
    }

    // Returns the point of I_up with the largest decrease together with the most violating point of I_low.
    std::size_t most_promising_up(const Workspace<T>& w, const Extremes& ends) const {
        Extreme best{0, ends.up.index};
        for (std::size_t k = 0; k < w.n; ++k) {
            const double gap = w.E[k] - ends.low.value;
            if (w.side[k] < 0 || !(gap > settings_.tol)) continue;
            const double promised = gap * gap / (w.diagonal[k] + w.dual[k].curvature());
            if (promised > best.value) best = {promised, k};
        }
        return best.index;
    }

    // Returns the point of I_low with the largest decrease together with i, computed in double.
    std::size_t most_promising_low(Workspace<T>& w, std::size_t i, const Extremes& ends) const {
        const T* row = w.row(i);
        Extreme best{0, ends.low.index};
        const double curvature = w.diagonal[i] + w.dual[i].curvature();
        for (std::size_t k = 0; k < w.n; ++k) {
            const double gap = w.E[i] - w.E[k];
            if (w.side[k] > 0 || !(gap > settings_.tol)) continue;
            const double q = curvature + w.diagonal[k] + w.dual[k].curvature() - 2 * double(row[k]);
            const double promised = gap * gap / std::max(q, 1e-12);
            if (promised > best.value) best = {promised, k};
        }
        return best.index;
    }

    // Returns the pair with the largest decrease among pairs of an extreme point and another point, if their violation
    // is at least half of the largest violation and their step changes a dual variable.
    std::pair<std::size_t, std::size_t> most_promising_movable(Workspace<T>& w, const Extremes& ends) const {
        const std::size_t up = ends.up.index, low = ends.low.index;
        std::pair<std::size_t, std::size_t> best{up, up};
        double most = 0;
        const double half = 0.5 * (ends.up.value - ends.low.value);
        const auto last_digit = [&](std::size_t k) { return epsilon * std::min(w.dual[k].above, w.dual[k].below); };
        const auto consider = [&](std::size_t i, std::size_t j, double kernel) {
            const double gap = w.E[i] - w.E[j];
            if (w.side[i] < 0 || w.side[j] > 0 || gap < half) return;
            const double q = w.diagonal[i] + w.diagonal[j] - 2 * kernel + w.dual[i].curvature() + w.dual[j].curvature();
            const double promised = gap * gap / std::max(q, 1e-12);
            if (promised > most && gap > q * std::min(last_digit(i), last_digit(j))) most = promised, best = {i, j};
        };
        const T* row = w.row(up);
        for (std::size_t k = 0; k < w.n; ++k) consider(up, k, double(row[k]));
        row = w.row(low);
        for (std::size_t k = 0; k < w.n; ++k) consider(k, low, double(row[k]));
        return best;
    }

    // The violation below which steps make no progress, because of rounding errors in E and in the dual variables.
    static double attainable(const Workspace<T>& w, const Extremes& ends) {
        double largest = std::max(std::abs(ends.up.value), std::abs(ends.low.value));
        for (std::size_t k = 0; k < w.n; ++k)
            largest = std::max(largest, std::min(w.dual[k].alpha(), w.dual[k].rest()) * std::abs(w.diagonal[k]));
        return 8 * epsilon * largest;
    }

    // Returns the points that are not settled at a bound.  A point is settled if it is only in I_up and its E is below
    // min_low E, or if it is only in I_low and its E is above max_up E; no step would then move it.
    static std::vector<std::size_t> unsettled_points(const Workspace<T>& w, const Extremes& ends) {
        std::vector<std::size_t> unsettled;
        for (std::size_t k = 0; k < w.n; ++k) {
            const bool settled = (w.side[k] > 0 && w.E[k] < ends.low.value) ||
                                 (w.side[k] < 0 && w.E[k] > ends.up.value);
            if (!settled) unsettled.push_back(k);
        }
        return unsettled;
    }

    // Solves the problem for the unsettled points of w (recursively), and writes their dual variables back to w.  E of
    // w is not updated.
    Stop solve_unsettled(Workspace<T>& w) {
        const std::vector<std::size_t> indices = unsettled_points(w, w.extremes());
        const std::unique_ptr<RowSource<T>> row_source = w.row_source.subset(indices);
        Workspace<T> part = w.part(*row_source, indices);
        Stop stop;
        try {
            stop = optimise_pairs(part);
            if (stop == Stop::shrink) stop = solve_unsettled(part);
        } catch (NonFiniteKernel& error) {
            error.row = indices[error.row];  // indices with respect to w
            throw;
        }
        for (std::size_t k = 0; k < indices.size(); ++k) w.dual[indices[k]] = part.dual[k];
        return stop;
    }

    // Updates E of all points after dual variables were changed by solve_unsettled.  Returns false if the monitor
    // requested a stop; the update is completed nevertheless, so that dual variables and E stay consistent.
    bool add_changes(Workspace<T>& w, const std::vector<Dual>& before) {
        bool go_on = true;
        for (std::size_t i = 0; i < w.n; ++i) {
            const Dual &now = w.dual[i], &old = before[i];
            if (now.change_since(old) == 0) continue;
            w.E[i] -= w.y[i] * (now.logit() - old.logit());
            w.refresh(i);
        }
        add_changed_rows(w, before, -1, w.E, [&] { go_on = go_on && poll_monitor(latest_violation_); });
        return go_on;
    }

    // out += sign * K (y * change of the dual variables)
    void add_changed_rows(Workspace<T>& w, const std::vector<Dual>& before, double sign, std::span<double> out,
                          const std::function<void()>& before_batch) {
        std::vector<std::size_t> changed;
        std::vector<double> weight;
        for (std::size_t i = 0; i < w.n; ++i) {
            const double moved = w.dual[i].change_since(before[i]);
            if (moved == 0) continue;
            changed.push_back(i);
            weight.push_back(sign * w.y[i] * moved);
        }
        add_weighted_rows<T>(w.row_source, changed, weight, out, team_, before_batch);
    }

    // Calls the monitor if it is due, and stores a snapshot whenever the number of steps has grown by a 64th.
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
    Team team_;
    Workspace<T> all_;
    std::int64_t next_snapshot_ = 0;
    double rounding_ = 0;          // approximate rounding error of the steps in E
    double latest_violation_ = 0;  // violation that was last passed to the monitor
    Clock clock_;
    SolveInfo info_;
};

}  // namespace

template <class T>
void add_weighted_rows(RowSource<T>& row_source, std::span<const std::size_t> indices, std::span<const double> weight,
                       std::span<double> out, Team& team, const std::function<void()>& before_batch) {
    // rows are added in whole groups of add_rows, so that the cache size does not affect rounding
    const std::size_t n = row_source.size(), batch = std::min<std::size_t>(row_source.capacity() / 4 * 4, 512);
    std::vector<const T*> row(batch);
    for (std::size_t first = 0; first < indices.size(); first += batch) {
        const std::size_t m = std::min(batch, indices.size() - first);
        before_batch();
        row_source.fetch(indices.subspan(first, m), row, team);
        const std::size_t strip = 2048, n_strips = (n + strip - 1) / strip;
        team.each(n_strips, [&](std::size_t s, std::size_t) noexcept {
            simd<T>().add_rows(out.data(), row.data(), weight.data() + first, m, s * strip,
                               std::min(n, (s + 1) * strip));
        });
    }
}

template <class T>
SolveInfo solve(const Problem& problem, RowSource<T>& row_source, const Settings& settings, State state,
                const Monitor& monitor) {
    return Solver<T>(problem, row_source, settings, state, monitor).run();
}

template void add_weighted_rows<float>(RowSource<float>&, std::span<const std::size_t>, std::span<const double>,
                                       std::span<double>, Team&, const std::function<void()>&);
template void add_weighted_rows<double>(RowSource<double>&, std::span<const std::size_t>, std::span<const double>,
                                        std::span<double>, Team&, const std::function<void()>&);
template SolveInfo solve<float>(const Problem&, RowSource<float>&, const Settings&, State, const Monitor&);
template SolveInfo solve<double>(const Problem&, RowSource<double>&, const Settings&, State, const Monitor&);

}  // namespace sparseklr
