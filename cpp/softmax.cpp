#include "softmax.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <utility>
#include <vector>

#include "pair_rows.hpp"
#include "smo.hpp"

// Let G_ik = log a_ik - f_k(x_i) - lam [k != y_i], which is the derivative of the dual objective with respect to a_ik
// up to a constant that depends only on i.  The masses a are optimal if and only if there are intercepts b such that
//
//     G_ik - b_k <= G_il - b_l   for all i, k, l with above_ik > 0.
//
// If only the masses of two classes p and q may change, the problem is that of binary S-KLR: the variable of row i is
// its mass of p or of q, whichever is smaller, its box is a_ip + a_iq, and the kernel is 2 K.  The solver sweeps over
// the pairs of classes and solves the binary problems that violate the optimality conditions by the methods of smo.cpp.
// The accepted violation decreases from sweep to sweep.  A binary problem contains only rows with mass of p or q that
// are not settled, about 2 n / K rows.  Its steps are therefore much cheaper than those of a problem of one class
// against all others.

namespace sparseklr {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr int most_passes = 8;  // of balance_intercepts

enum class Stop { tolerance, max_iter, interrupted, stalled };

template <class T> class SoftmaxSolver {
public:
    SoftmaxSolver(const SoftmaxProblem& problem, RowSource<T>& row_source, const Settings& settings, double gap_tol,
                  SoftmaxState state, const Monitor& monitor)
        : problem_(problem), row_source_(row_source), settings_(settings), gap_tol_(gap_tol), state_(state),
          monitor_(monitor), team_(settings.threads), n_(problem.n()), n_classes_(problem.n_classes),
          start_(state.above.flat().begin(), state.above.flat().end()), above_(start_), G_(n_ * n_classes_),
          holders_(n_classes_), intercept_(n_classes_) {
        for (std::size_t i = 0; i < n_; ++i) balance_row(i);
        start_ = above_;
        info_.min_curvature = infinity;
    }

    SolveInfo run() {
        std::vector<double> F(state_.F.flat().begin(), state_.F.flat().end());
        set_gradient(F);
        Stop stop = Stop::tolerance;
        for (int trial = 0;; ++trial) {
            const std::int64_t before = info_.n_iter;
            stop = sweep_until_solved();
            // F is recomputed, because the final violation must not contain accumulated rounding errors.
            F.assign(state_.F.flat().begin(), state_.F.flat().end());
            add_changes_since_start(F);
            set_gradient(F);
            if (stop != Stop::tolerance || info_.n_iter == before) break;
            if (trial == 3) {
                stop = Stop::stalled;
                break;
            }
        }
        info_.violation = 2 * balance_intercepts();
        info_.status = stop == Stop::interrupted ? Status::interrupted
                       : stop == Stop::max_iter  ? Status::max_iter
                       : stop == Stop::stalled   ? Status::stalled
                                                 : Status::optimal;
        info_.history.push_back({info_.n_iter, info_.violation, seconds()});
        std::copy(above_.begin(), above_.end(), state_.above.data());
        std::copy(F.begin(), F.end(), state_.F.data());
        std::copy(intercept_.begin(), intercept_.end(), state_.intercept.data());
        return std::move(info_);
    }

private:
    double& above(std::size_t k, std::size_t i) { return above_[k * n_ + i]; }
    double& G(std::size_t k, std::size_t i) { return G_[k * n_ + i]; }
    double room(std::size_t i) const { return problem_.box[i] - double(n_classes_) * problem_.bound[i]; }

    // The largest mass of row i absorbs the rounding errors of the sum.
    std::size_t balance_row(std::size_t i) {
        std::size_t largest = std::size_t(problem_.label[i]);
        for (std::size_t k = 0; k < n_classes_; ++k)
            if (above(k, i) > above(largest, i)) largest = k;
        double others = 0;
        for (std::size_t k = 0; k < n_classes_; ++k)
            if (k != largest) others += above(k, i);
        above(largest, i) = std::max(room(i) - others, 0.0);
        return largest;
    }

    void set_gradient(const std::vector<double>& F) {
        for (std::size_t k = 0; k < n_classes_; ++k) {
            for (std::size_t i = 0; i < n_; ++i) {
                const double margin = std::size_t(problem_.label[i]) == k ? 0 : problem_.lam;
                G(k, i) = std::log(problem_.bound[i] + above(k, i)) - F[k * n_ + i] - margin;
            }
            find_holders(k);
        }
    }

    void find_holders(std::size_t k) {
        holders_[k].clear();
        for (std::size_t i = 0; i < n_; ++i)
            if (above(k, i) > 0) holders_[k].push_back(i);
    }

    // Sweeps over the pairs of classes until the optimality conditions hold up to the tolerance, or the duality gap is
    // small enough.  A sweep solves the pairs whose violation exceeds a target, which is half of the largest violation
    // in the previous sweep; with a smaller target, the next pairs would undo the additional accuracy.  Mass is moved
    // along cycles of three or more classes if no pair violates the tolerance, and after sweeps that hardly reduce the
    // largest violation.
    Stop sweep_until_solved() {
        double target = infinity, checked = infinity;
        while (true) {
            const std::int64_t before = info_.n_iter;
            double worst = 0;
            for (std::size_t p = 0; p < n_classes_; ++p)
                for (std::size_t q = p + 1; q < n_classes_; ++q) {
                    const Ends ends = ends_of(p, q);
                    const double violation = ends.up - ends.low;
                    if (!std::isfinite(violation))
                        throw std::range_error("the decision values overflow: kernel values times C are too large");
                    worst = std::max(worst, violation);
                    if (!(violation > target)) continue;
                    if (info_.n_iter >= settings_.max_iter) return Stop::max_iter;
                    if (!solve_pair(p, q, ends, 0.5 * target)) return Stop::interrupted;
                }
            info_.history.push_back({info_.n_iter, worst, seconds()});
            if (!poll(worst)) return Stop::interrupted;
            const bool pairs_solved = worst <= settings_.tol;
            if (pairs_solved || worst <= 0.8 * checked) {  // checking takes as long as many pair steps
                checked = worst;
                if (2 * balance_intercepts() <= settings_.tol || relative_gap() <= gap_tol_) return Stop::tolerance;
                if (pairs_solved && info_.n_iter >= settings_.max_iter) return Stop::max_iter;
                if (pairs_solved && !move_along_cycles()) return Stop::stalled;
            } else if (target < infinity) {  // slow progress
                balance_intercepts();
                move_along_cycles();
            }
            if (!pairs_solved && target <= settings_.tol && info_.n_iter == before) return Stop::stalled;
            target = std::max(settings_.tol, std::min(target, 0.5 * worst));
        }
    }

    // Returns the row with the largest violation of an edge from class k to another class (see balance_intercepts).
    struct Edge {
        double violation;
        std::size_t row, to;
    };
    Edge worst_edge(std::size_t k) {
        Edge worst{-infinity, 0, k};
        for (std::size_t l = 0; l < n_classes_; ++l)
            for (const std::size_t i : holders_[k]) {
                const double violation = G(k, i) - G(l, i) - intercept_[k] + intercept_[l];
                if (l != k && violation > worst.violation) worst = {violation, i, l};
            }
        return worst;
    }

    // Moves mass along cycles of classes; returns false if no mass can move.  Pairs of classes do not suffice, for
    // example if each of three rows has mass of two of three classes.  Following the worst edge of every class leads to
    // a cycle.  With balanced intercepts, the violation of all edges of some cycle is about as large as the largest
    // one.
    bool move_along_cycles() {
        bool moved = false;
        for (std::size_t round = 0; round < std::min<std::size_t>(n_classes_, 8); ++round) {
            std::vector<Edge> edge;
            for (std::size_t k = 0; k < n_classes_; ++k) edge.push_back(worst_edge(k));
            std::vector<std::size_t> found_from(n_classes_, n_classes_);  // start of the first path to each class
            bool any = false;
            for (std::size_t first = 0; first < n_classes_; ++first) {
                std::size_t k = first;
                for (; found_from[k] == n_classes_; k = edge[k].to) found_from[k] = first;
                if (found_from[k] != first) continue;
                std::vector<std::size_t> cycle{k};
                while ((k = edge[k].to) != cycle.front()) cycle.push_back(k);
                any = move_along_cycle(edge, cycle) || any;
            }
            if (!any || !poll(settings_.tol)) break;
            moved = true;
        }
        return moved;
    }

    // Moves mass t from each class of the cycle to the next class, each in the row of its edge, which preserves all
    // sums over rows.  Returns false if the violation of the cycle is within the tolerance.
    bool move_along_cycle(const std::vector<Edge>& edge, const std::vector<std::size_t>& cycle) {
        const std::size_t m = cycle.size();
        double gain = 0, curvature = 0, most = infinity;
        for (std::size_t s = 0; s < m; ++s) {
            const std::size_t i = edge[cycle[s]].row, next = edge[cycle[(s + 1) % m]].row;
            const T* row;
            row_source_.fetch({&i, 1}, {&row, 1}, team_);
            gain += edge[cycle[s]].violation;
            curvature += row_source_.diagonal(i) + row_source_.diagonal(next) - 2 * double(row[next]);
            most = std::min(most, above(cycle[s], i));
        }
        if (!(2 * gain > double(m) * settings_.tol && most > 0)) return false;
        const auto derivative = [&](double t) {
            double value = -gain + std::max(curvature, 0.0) * t;
            for (const std::size_t from : cycle) {
                const auto [violation, i, to] = edge[from];
                const double lo = problem_.bound[i];
                value += std::log1p(t / (lo + above(to, i))) - std::log1p(-t / (lo + above(from, i)));
            }
            return value;
        };
        double t = most;
        if (derivative(most) > 0)
            for (double low = 0, high = most; t = 0.5 * (low + high), low < t && t < high;)
                (derivative(t) > 0 ? high : low) = t;
        for (std::size_t s = 0; s < m; ++s) {
            const std::size_t from = cycle[s], i = edge[from].row, to = edge[from].to;
            set_above(from, i, std::max(above(from, i) - t, 0.0));
            set_above(to, i, above(to, i) + t);
            const std::size_t rows[] = {i, edge[cycle[(s + m - 1) % m]].row};
            const double weight[] = {-t, t};
            add_weighted_rows<T>(row_source_, rows, weight, {&G(from, 0), n_}, team_, [] {});
        }
        for (const std::size_t from : cycle) find_holders(from);
        ++info_.n_iter;
        return true;
    }

    struct Ends {
        double up, low;
    };

    // Returns the largest E_i = G_iq - G_ip among the rows whose mass of p can grow, and the smallest among the rows
    // whose mass of p can fall.
    Ends ends_of(std::size_t p, std::size_t q) {
        const double *Gp = &G(p, 0), *Gq = &G(q, 0);
        Ends ends{-infinity, infinity};
        for (const std::size_t i : holders_[q]) ends.up = std::max(ends.up, Gq[i] - Gp[i]);
        for (const std::size_t i : holders_[p]) ends.low = std::min(ends.low, Gq[i] - Gp[i]);
        return ends;
    }

    // Solves the binary problem of two classes; returns false if the monitor requested a stop.
    bool solve_pair(std::size_t p, std::size_t q, const Ends& ends, double tol) {
        std::vector<std::size_t> rows;
        std::set_union(holders_[p].begin(), holders_[p].end(), holders_[q].begin(), holders_[q].end(),
                       std::back_inserter(rows));
        std::erase_if(rows, [&](std::size_t i) {  // rows that are settled (see smo.cpp)
            const double E = G(q, i) - G(p, i);
            return (above(p, i) == 0 && E < ends.low) || (above(q, i) == 0 && E > ends.up);
        });
        const std::size_t m = rows.size();
        std::vector<double> y(m), box(m), bound(m), smaller(m), F(m);
        for (std::size_t r = 0; r < m; ++r) {
            const std::size_t i = rows[r];
            const double mass_p = above(p, i), mass_q = above(q, i);
            bound[r] = problem_.bound[i];
            y[r] = mass_p <= mass_q ? 1 : -1;
            smaller[r] = std::min(mass_p, mass_q);
            box[r] = mass_p + mass_q + 2 * bound[r];
            F[r] = G(p, i) - G(q, i) - std::log((bound[r] + mass_p) / (bound[r] + mass_q));
        }
        PairRows<T> source(row_source_, rows);
        Settings settings = settings_;
        settings.tol = tol;
        settings.max_iter = settings_.max_iter - info_.n_iter;
        const std::vector<double> before = smaller;
        const Monitor monitor = [&](const Snapshot& now) {
            return !monitor_ || monitor_({info_.n_iter + now.n_iter, now.violation, seconds()});
        };
        SolveInfo info;
        try {
            info = solve<T>({y, box, bound, 0.0}, source, settings, {smaller, F}, monitor);
        } catch (const SourceError& thrown) { throw thrown.error; }
        info_.n_iter += info.n_iter;
        info_.min_curvature = std::min(info_.min_curvature, info.min_curvature);
        // move the masses, and update G
        std::vector<std::size_t> changed;
        std::vector<double> moved;
        for (std::size_t r = 0; r < m; ++r) {
            if (smaller[r] == before[r]) continue;
            const std::size_t i = rows[r], mine = y[r] > 0 ? p : q, other = y[r] > 0 ? q : p;
            const double change = smaller[r] - before[r];
            changed.push_back(i);
            moved.push_back(y[r] * change);
            set_above(mine, i, smaller[r]);
            set_above(other, i, std::max(above(other, i) - change, 0.0));
        }
        sum_.assign(n_, 0.0);
        bool go_on = info.status != Status::interrupted;
        add_weighted_rows<T>(row_source_, changed, moved, sum_, team_, [&] { go_on = go_on && poll(tol); });
        double *Gp = &G(p, 0), *Gq = &G(q, 0);
        for (std::size_t i = 0; i < n_; ++i) {
            Gp[i] += sum_[i];
            Gq[i] -= sum_[i];
        }
        find_holders(p);
        find_holders(q);
        return go_on;
    }

    void set_above(std::size_t k, std::size_t i, double value) {
        G(k, i) += std::log((problem_.bound[i] + value) / (problem_.bound[i] + above(k, i)));
        above(k, i) = value;
    }

    // F -= K (above - start), class by class, in batches of rows that are fetched once for all classes.
    void add_changes_since_start(std::vector<double>& F) {
        for (std::size_t i = 0; i < n_; ++i) balance_row(i);
        std::vector<std::size_t> changed;
        for (std::size_t i = 0; i < n_; ++i)
            for (std::size_t k = 0; k < n_classes_; ++k)
                if (above(k, i) != start_[k * n_ + i]) {
                    changed.push_back(i);
                    break;
                }
        const std::size_t batch = std::min<std::size_t>(row_source_.capacity() / 4 * 4, 512);
        std::vector<const T*> row(batch), used;
        std::vector<double> weight;
        for (std::size_t first = 0; first < changed.size(); first += batch) {
            const std::span<const std::size_t> some(changed.data() + first, std::min(batch, changed.size() - first));
            row_source_.fetch(some, row, team_);
            for (std::size_t k = 0; k < n_classes_; ++k) {
                used.clear();
                weight.clear();
                for (std::size_t r = 0; r < some.size(); r += 4) {  // groups of add_rows, for any size of the batch
                    const std::size_t last = std::min(r + 4, some.size());
                    const auto change = [&](std::size_t j) { return above(k, some[j]) - start_[k * n_ + some[j]]; };
                    bool any = false;
                    for (std::size_t j = r; j < last; ++j) any = any || change(j) != 0;
                    for (std::size_t j = r; any && j < last; ++j) {
                        used.push_back(row[j]);
                        weight.push_back(-change(j));
                    }
                }
                team_.over(n_, 16, 2048, [&](std::size_t begin, std::size_t end, std::size_t) noexcept {
                    simd<T>().add_rows(&F[k * n_], used.data(), weight.data(), used.size(), begin, end);
                });
            }
        }
    }

    // Chooses intercepts that minimise the largest violation max_k (G_ik - b_k) - min_l (G_il - b_l) of a row i, where
    // above_ik > 0, and returns this violation.  A violation is an edge from class k to class l of a graph.  Raising
    // b_k lowers the edges from k and raises the edges to k, so the intercept of each class in turn is set such that
    // its largest incoming and outgoing edges are equal (max-balancing: Schneider and Schneider, Mathematics of
    // Operations Research 16, 1991).  The largest violation converges to the largest mean of a cycle.
    double balance_intercepts() {
        double largest = infinity;
        for (int pass = 0; pass < most_passes; ++pass) {
            const double before = largest;
            largest = 0;
            for (std::size_t k = 0; k < n_classes_; ++k) {
                double from = -infinity, to = -infinity;
                for (std::size_t l = 0; l < n_classes_; ++l) {
                    if (l == k) continue;
                    const Ends ends = ends_of(k, l);
                    from = std::max(from, -ends.low - intercept_[k] + intercept_[l]);
                    to = std::max(to, ends.up - intercept_[l] + intercept_[k]);
                }
                intercept_[k] += 0.5 * (from - to);
                largest = std::max(largest, 0.5 * (from + to));
            }
            if (largest > 0.99 * before) break;
        }
        largest = 0;  // recomputed with the final intercepts
        for (std::size_t k = 0; k < n_classes_; ++k) largest = std::max(largest, worst_edge(k).violation);
        return largest;
    }

    // The relative duality gap (primal + dual) / max(|primal|, |dual|) of the problem in the variables above.
    double relative_gap() {
        double norm = 0, loss = 0, entropy = 0;
        std::vector<double> g(n_classes_);
        for (std::size_t i = 0; i < n_; ++i) {
            const std::size_t own = std::size_t(problem_.label[i]);
            double most = -infinity, others = 0, own_f = 0;
            for (std::size_t k = 0; k < n_classes_; ++k) {
                const double mass = above(k, i), margin = k == own ? 0 : problem_.lam;
                const double f = std::log(problem_.bound[i] + mass) - G(k, i) - margin;
                g[k] = f + intercept_[k] + margin;
                most = std::max(most, g[k]);
                if (k == own) {
                    own_f = f;
                    continue;
                }
                norm -= mass * f;
                others += mass;
                if (mass > 0) entropy += mass * (std::log(mass / problem_.box[i]) - problem_.lam);
            }
            norm += others * own_f;
            const double rest = problem_.box[i] - others;
            if (rest > 0) entropy += rest * std::log(rest / problem_.box[i]);
            double sum = 0;
            for (const double value : g)
                if (value > most - 40) sum += std::exp(value - most);
            loss += problem_.box[i] * (most + std::log(sum) - g[own]);
        }
        const double primal = 0.5 * norm + loss, dual = 0.5 * norm + entropy;
        return (primal + dual) / std::max({std::abs(primal), std::abs(dual), std::numeric_limits<double>::min()});
    }

    // Calls the monitor if it is due; returns false once the monitor has requested a stop.
    bool poll(double violation) {
        using namespace std::chrono;
        const auto now = steady_clock::now();
        if (stopped_ || !monitor_ || duration<double>(now - last_poll_).count() < settings_.poll_seconds)
            return !stopped_;
        last_poll_ = now;
        stopped_ = !monitor_({info_.n_iter, violation, seconds()});
        return !stopped_;
    }

    double seconds() const {
        return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_time_).count();
    }

    const SoftmaxProblem problem_;
    RowSource<T>& row_source_;
    const Settings settings_;
    const double gap_tol_;
    SoftmaxState state_;
    const Monitor& monitor_;
    Team team_;
    const std::size_t n_, n_classes_;
    std::vector<double> start_, above_, G_;          // a row per class
    std::vector<std::vector<std::size_t>> holders_;  // rows with above_ik > 0, for each class
    std::vector<double> intercept_, sum_;
    std::chrono::steady_clock::time_point start_time_ = std::chrono::steady_clock::now(), last_poll_ = start_time_;
    bool stopped_ = false;  // by the monitor
    SolveInfo info_;
};

}  // namespace

template <class T>
SolveInfo solve_softmax(const SoftmaxProblem& problem, RowSource<T>& row_source, const Settings& settings,
                        double gap_tol, SoftmaxState state, const Monitor& monitor) {
    return SoftmaxSolver<T>(problem, row_source, settings, gap_tol, state, monitor).run();
}

template SolveInfo solve_softmax<float>(const SoftmaxProblem&, RowSource<float>&, const Settings&, double, SoftmaxState,
                                        const Monitor&);
template SolveInfo solve_softmax<double>(const SoftmaxProblem&, RowSource<double>&, const Settings&, double,
                                         SoftmaxState, const Monitor&);

}  // namespace sparseklr
