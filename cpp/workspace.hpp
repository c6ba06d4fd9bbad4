// Arrays of the pair loop, and the loops over all points in a step.
#pragma once

#include <cstddef>
#include <limits>
#include <vector>

#include "pair_step.hpp"
#include "rows.hpp"
#include "simd.hpp"
#include "team.hpp"

namespace sparseklr {

// The arrays of one run of the pair loop, on all points or on some of them.  For each point, E_i = -y_i grad_i = -(F_i
// + y_i (logit(alpha_i / C_i) - lam)).  A point is in the set I_up if y_i alpha_i can grow, and in I_low if it can
// fall.  alpha is optimal if and only if the largest E in I_up is at most the smallest E in I_low.
template <class T> struct Workspace {
    RowSource<T>& row_source;
    std::size_t n;
    Team& team;
    std::vector<double> y, room, diagonal;  // room: distance between the bounds of alpha
    std::vector<Dual> dual;
    std::vector<double> E;
    std::vector<float> side;       // 1: only in I_up, -1: only in I_low, 0: in both
    std::vector<float> curvature;  // K_ii + G''(alpha_i / C_i) / C_i in I_low, infinity elsewhere

    Workspace(RowSource<T>& source, std::size_t size, Team& threads)
        : row_source(source), n(size), team(threads), y(size), room(size), diagonal(size), dual(size), E(size),
          side(size), curvature(size) {}

    // Updates side and curvature of point i after its dual variable has changed.
    void refresh(std::size_t i) {
        const bool can_grow = dual[i].below > 0, can_fall = dual[i].above > 0;
        side[i] = float(y[i] * (int(can_grow) - int(can_fall)));
        curvature[i] = side[i] > 0 ? std::numeric_limits<float>::infinity() : float(diagonal[i] + dual[i].curvature());
    }

    // Returns the workspace of some of the points.
    Workspace part(RowSource<T>& source, const std::vector<std::size_t>& indices) const {
        Workspace w(source, indices.size(), team);
        for (std::size_t k = 0; k < indices.size(); ++k) {
            const std::size_t i = indices[k];
            w.y[k] = y[i];
            w.room[k] = room[i];
            w.diagonal[k] = diagonal[i];
            w.dual[k] = dual[i];
            w.E[k] = E[i];
            w.refresh(k);
        }
        return w;
    }

    const T* row(std::size_t i) {
        const T* pointer;
        row_source.fetch({&i, 1}, {&pointer, 1}, team);
        return pointer;
    }

    Extremes extremes() const { return simd<T>().extremes(E.data(), side.data(), n); }

    // Updates E by the pair step; returns the extremes of the new E.
    Extremes move_pair(const T* row_i, const T* row_j, double t_i, double t_j) {
        over_pieces([&](std::size_t begin, std::size_t count) {
            Extremes found = simd<T>().update(&E[begin], &side[begin], row_i + begin, row_j + begin, t_i, t_j, count);
            found.up.index += begin;
            found.low.index += begin;
            return found;
        });
        Extremes all = of_piece_[0];
        for (const Extremes& next : of_piece_) {  // among equal values, the lowest index wins
            if (next.up.value > all.up.value) all.up = next.up;
            if (next.low.value < all.low.value) all.low = next.low;
        }
        return all;
    }

    // Returns the point of I_low with the largest decrease together with point i, and this decrease divided by reach^2.
    // `reach` is the largest difference between E_i and an E in I_low.
    Extreme second_order(std::size_t i, const T* row, double reach) {
        const double own = diagonal[i] + dual[i].curvature();
        over_pieces([&](std::size_t begin, std::size_t count) {
            Extreme found = simd<T>().second_order(&E[begin], &curvature[begin], row + begin, E[i], reach, own, count);
            found.index += begin;
            return Extremes{found, {}};
        });
        Extreme best = of_piece_[0].up;
        for (const Extremes& next : of_piece_)
            if (next.up.value > best.value) best = next.up;
        return best;
    }

private:
    std::vector<Extremes> of_piece_;

    // Sets of_piece_ to body(first point, number of points) for pieces of at least 2048 points.
    template <class Body> void over_pieces(const Body& body) {
        of_piece_.resize(n / 2048 + 1);
        of_piece_.resize(team.over(n, 16, 2048, [&](std::size_t begin, std::size_t end, std::size_t piece) noexcept {
            of_piece_[piece] = body(begin, end - begin);
        }));
    }
};

}  // namespace sparseklr
