// One pass over blocks of rows: kernel values, losses and every sum that fitting needs.
#include "compact.hpp"

#include <cmath>

#include "compact_loops.hpp"

namespace sparseklr {

template <class T>
ScaledPoints<T>::ScaledPoints(const double* z, const double* gamma, std::size_t k, std::size_t p)
    : root(p), points(k * p) {
    for (std::size_t j = 0; j < p; ++j) root[j] = T(std::sqrt(gamma[j]));
    for (std::size_t b = 0; b < k; ++b)
        for (std::size_t j = 0; j < p; ++j) points[b * p + j] = T(std::sqrt(gamma[j]) * z[b * p + j]);
}

template <class T>
template <class In>
CompactRows<T>::CompactRows(const In* X, std::size_t n, std::size_t p, const std::int32_t* label, const double* weight,
                            std::size_t n_classes)
    : n_(n), p_(p), n_classes_(n_classes) {
    const std::size_t padded = (n + 15) / 16 * 16;
    X_.assign(padded * p, T(0));
    label_.assign(padded, 0);
    weight_.assign(padded, 0.0);
    std::copy(label, label + n, label_.begin());
    std::copy(weight, weight + n, weight_.begin());
    for (std::size_t b = 0; b < n_blocks(); ++b) {
        T* to = X_.data() + b * block * p;
        const std::size_t first = b * block, last = std::min(first + block, n), stride = rows(b);
        for (std::size_t i = first; i < last; ++i)
            for (std::size_t j = 0; j < p; ++j) to[j * stride + i - first] = T(X[i * p + j]);
    }
}

template <class T>
double CompactRows<T>::losses(std::size_t b, const double* f, double* e, double* p) const {
    if (n_outputs() == 1) return compact_loops<T>().logistic(f, label(b), weight(b), rows(b), e, p);
    return compact_loops<T>().softmax(f, label(b), weight(b), rows(b), n_outputs(), e, p);
}

template <class T>
void CompactRows<T>::curvature_factor(std::size_t b, const double* p, std::size_t o, std::size_t q, double* h) const {
    const std::size_t n = rows(b);
    const double *w = weight(b), *p_o = p + o * n, *p_q = p + q * n;
    if (o == q)
        for (std::size_t r = 0; r < n; ++r) h[r] = w[r] * p_o[r] * (1 - p_o[r]);
    else
        for (std::size_t r = 0; r < n; ++r) h[r] = -w[r] * p_o[r] * p_q[r];
}

void gradient_from_moments(const CompactModel& model, const double* first, const double* mass, const double* second,
                           double* point_gradient, double* width_gradient) {
    const std::size_t p = model.n_features;
    for (std::size_t j = 0; j < p; ++j) width_gradient[j] -= model.gamma[j] * second[j];
    for (std::size_t b = 0; b < model.n_points; ++b)
        for (std::size_t j = 0; j < p; ++j) {
            const double z = model.points[b * p + j], moment = first[b * p + j];
            point_gradient[b * p + j] += 2 * model.gamma[j] * (moment - mass[b] * z);
            width_gradient[j] += model.gamma[j] * (2 * moment - mass[b] * z) * z;
        }
}

namespace {

void add(std::vector<double>& sum, const std::vector<double>& part) {
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += part[i];
}

// What one chunk adds up, and the room one block takes.
struct Partial {
    double loss = 0;
    std::vector<double> coef_gradient, curvature, first, mass, second;
};
template <class T> struct Room {
    std::vector<T> K, scaled, W;
    std::vector<double> f, e, p, h, wide;
};

}  // namespace

template <class T>
CompactSums CompactRows<T>::sums(const CompactModel& model, Curvature curvature, bool moving, int threads) const {
    const std::size_t k = model.n_points, p = p_, m = model.n_outputs, n = k + 1;
    const std::size_t pairs = curvature == Curvature::none ? 0 : curvature == Curvature::diagonal ? m : m * (m + 1) / 2;
    const auto& loops = compact_loops<T>();
    const ScaledPoints<T> z(model.points, model.gamma, k, p);
    const std::size_t n_chunks = compact_chunks(n_blocks(), 8 * pairs * n * n);

    std::vector<Partial> partials(n_chunks);
    for (auto& part : partials) {
        part.coef_gradient.assign(m * n, 0.0);
        part.curvature.assign(pairs * n * n, 0.0);
        if (!moving) continue;
        part.first.assign(k * p, 0.0);
        part.mass.assign(k, 0.0);
        part.second.assign(p, 0.0);
    }
    Team team(threads_for(threads, n_ * k, p + pairs * n), n_chunks);
    std::vector<Room<T>> rooms(team.size());
    for (auto& room : rooms) {
        room.K.resize(k * block);
        room.scaled.resize(p * block);
        for (auto* values : {&room.f, &room.e, &room.p}) values->resize(m * block);
        room.h.resize(block);
        if (pairs) room.wide.resize((n + 4) * block);
        if (moving) room.W.resize((k + 2) * block);
    }
    over_chunks(n_blocks(), n_chunks, team, [&](std::size_t worker, std::size_t c, std::size_t first, std::size_t last) {
        Room<T>& room = rooms[worker];
        Partial& part = partials[c];
        for (std::size_t b = first; b < last; ++b) {
            const std::size_t r = rows(b);
            loops.kernel(X(b), r, p, z.root.data(), z.points.data(), k, room.scaled.data(), room.K.data());
            loops.values(room.K.data(), r, k, model.coef, model.intercept, m, room.f.data());
            part.loss += losses(b, room.f.data(), room.e.data(), room.p.data());
            loops.project(room.K.data(), r, k, room.e.data(), m, part.coef_gradient.data());
            double* H = part.curvature.data();
            for (std::size_t o = 0; pairs && o < m; ++o)
                for (std::size_t q = curvature == Curvature::full ? 0 : o; q <= o; ++q, H += n * n) {
                    curvature_factor(b, room.p.data(), o, q, room.h.data());
                    loops.curvature(room.K.data(), r, k, room.h.data(), room.wide.data(), H);
                }
            if (moving)
                loops.moments(room.K.data(), X(b), r, k, p, room.e.data(), model.coef, m, room.W.data(),
                              part.first.data(), part.mass.data(), part.second.data());
        }
    });

    CompactSums sums;
    Partial total;
    total.coef_gradient.assign(m * n, 0.0);
    total.curvature.assign(pairs * n * n, 0.0);
    if (moving) {
        total.first.assign(k * p, 0.0);
        total.mass.assign(k, 0.0);
        total.second.assign(p, 0.0);
    }
    for (const auto& part : partials) {
        total.loss += part.loss;
        add(total.coef_gradient, part.coef_gradient);
        add(total.curvature, part.curvature);
        add(total.first, part.first);
        add(total.mass, part.mass);
        add(total.second, part.second);
    }
    for (std::size_t pair = 0; pair < pairs; ++pair) {
        double* H = total.curvature.data() + pair * n * n;
        for (std::size_t a = 0; a < n; ++a)
            for (std::size_t b = 0; b < a; ++b) H[b * n + a] = H[a * n + b];
    }
    if (moving) {
        sums.point_gradient.assign(k * p, 0.0);
        sums.width_gradient.assign(p, 0.0);
        gradient_from_moments(model, total.first.data(), total.mass.data(), total.second.data(),
                              sums.point_gradient.data(), sums.width_gradient.data());
    }
    sums.loss = total.loss;
    sums.coef_gradient = std::move(total.coef_gradient);
    sums.curvature = std::move(total.curvature);
    return sums;
}

template <class T> void CompactRows<T>::decision(const CompactModel& model, double* out, int threads) const {
    const std::size_t k = model.n_points, m = model.n_outputs;
    const auto& loops = compact_loops<T>();
    const ScaledPoints<T> z(model.points, model.gamma, k, p_);
    Team team(threads_for(threads, n_ * k, p_), n_blocks());
    std::vector<Room<T>> rooms(team.size());
    for (auto& room : rooms) {
        room.K.resize(k * block);
        room.scaled.resize(p_ * block);
        room.f.resize(m * block);
    }
    over_chunks(n_blocks(), n_blocks(), team, [&](std::size_t worker, std::size_t, std::size_t first, std::size_t last) {
        Room<T>& room = rooms[worker];
        for (std::size_t b = first; b < last; ++b) {
            const std::size_t r = rows(b), count = std::min(block, n_ - b * block);
            loops.kernel(X(b), r, p_, z.root.data(), z.points.data(), k, room.scaled.data(), room.K.data());
            loops.values(room.K.data(), r, k, model.coef, model.intercept, m, room.f.data());
            for (std::size_t i = 0; i < count; ++i)
                for (std::size_t o = 0; o < m; ++o) out[(b * block + i) * m + o] = room.f[o * r + i];
        }
    });
}

#define SPARSEKLR_COMPACT_ROWS(T)                                                                               \
    template struct ScaledPoints<T>;                                                                            \
    template class CompactRows<T>;                                                                              \
    template CompactRows<T>::CompactRows(const float*, std::size_t, std::size_t, const std::int32_t*, const double*, \
                                         std::size_t);                                                          \
    template CompactRows<T>::CompactRows(const double*, std::size_t, std::size_t, const std::int32_t*, const double*, \
                                         std::size_t);
SPARSEKLR_COMPACT_ROWS(float)
SPARSEKLR_COMPACT_ROWS(double)

}  // namespace sparseklr
