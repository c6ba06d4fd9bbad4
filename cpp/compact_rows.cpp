// One pass over blocks of rows: kernel values, losses and all sums needed for fitting.
#include "compact.hpp"

#include <cmath>

#include "compact_loops.hpp"
#include "logistic_loops.hpp"

namespace sparseklr {

template <class T>
ScaledPoints<T>::ScaledPoints(MatrixView<const double> z, std::span<const double> gamma)
    : root(z.columns), points(z.size()) {
    const std::size_t p = z.columns;
    for (std::size_t j = 0; j < p; ++j) root[j] = T(std::sqrt(gamma[j]));
    for (std::size_t b = 0; b < z.rows; ++b)
        for (std::size_t j = 0; j < p; ++j) points[b * p + j] = T(std::sqrt(gamma[j]) * z(b, j));
}

template <class T>
template <class In>
CompactRows<T>::CompactRows(MatrixView<const In> X, std::span<const std::int32_t> label, std::span<const double> weight,
                            std::size_t n_classes)
    : n_(X.rows), p_(X.columns), n_classes_(n_classes) {
    const std::size_t padded = (n_ + 15) / 16 * 16;
    X_.assign(padded * p_, T(0));
    label_.assign(padded, 0);
    weight_.assign(padded, 0.0);
    std::copy(label.begin(), label.end(), label_.begin());
    std::copy(weight.begin(), weight.end(), weight_.begin());
    for (std::size_t b = 0; b < n_blocks(); ++b) {
        const MatrixView<T> to{X_.data() + b * block * p_, p_, rows(b)};
        const std::size_t first = b * block, last = std::min(first + block, n_);
        for (std::size_t i = first; i < last; ++i)
            for (std::size_t j = 0; j < p_; ++j) to(j, i - first) = T(X(i, j));
    }
}

template <class T>
double CompactRows<T>::losses(std::size_t b, MatrixView<const double> f, MatrixView<double> e,
                              MatrixView<double> p) const {
    const std::int32_t* y = label(b).data();
    const double* w = weight(b).data();
    if (f.rows == 1) return logistic_loops().logistic(f.data(), y, w, f.columns, e.data(), p.data());
    return logistic_loops().softmax(f.data(), y, w, f.columns, f.rows, e.data(), p.data());
}

template <class T>
void CompactRows<T>::curvature_factor(std::size_t b, MatrixView<const double> p, std::size_t o, std::size_t q,
                                      std::span<double> h) const {
    const std::span<const double> w = weight(b), p_o = p.row(o), p_q = p.row(q);
    if (o == q)
        for (std::size_t r = 0; r < w.size(); ++r) h[r] = w[r] * p_o[r] * (1 - p_o[r]);
    else
        for (std::size_t r = 0; r < w.size(); ++r) h[r] = -w[r] * p_o[r] * p_q[r];
}

void gradient_from_moments(MatrixView<const double> points, std::span<const double> gamma, const Moments& moments,
                           MatrixView<double> point_gradient, std::span<double> width_gradient) {
    const std::size_t p = points.columns;
    for (std::size_t j = 0; j < p; ++j) width_gradient[j] -= gamma[j] * moments.second[j];
    for (std::size_t b = 0; b < points.rows; ++b)
        for (std::size_t j = 0; j < p; ++j) {
            const double z = points(b, j), first = moments.first(b, j), mass = moments.mass[b];
            point_gradient(b, j) += 2 * gamma[j] * (first - mass * z);
            width_gradient[j] += gamma[j] * (2 * first - mass * z) * z;
        }
}

namespace {

void add(std::vector<double>& sum, const std::vector<double>& part) {
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += part[i];
}

// Sums over the rows of one chunk.
struct ChunkSums {
    double loss = 0;
    std::vector<double> coef_gradient, curvature, moments;

    ChunkSums(std::size_t n_coef, std::size_t n_curvature, std::size_t n_moments)
        : coef_gradient(n_coef), curvature(n_curvature), moments(n_moments) {}
    void operator+=(const ChunkSums& other) {
        loss += other.loss;
        add(coef_gradient, other.coef_gradient);
        add(curvature, other.curvature);
        add(moments, other.moments);
    }
};

// Scratch memory for one block of rows.
template <class T> struct BlockMemory {
    std::vector<T> K, scaled, W;
    std::vector<double> f, e, p, h, curvature;
};

}  // namespace

template <class T>
CompactSums CompactRows<T>::sums(const CompactModel& model, Curvature curvature, bool moving, int threads) const {
    const std::size_t k = model.n_points(), p = p_, m = model.n_outputs(), n = k + 1;
    const std::size_t pairs = curvature == Curvature::none ? 0 : curvature == Curvature::diagonal ? m : m * (m + 1) / 2;
    const auto& loops = compact_loops<T>();
    const ScaledPoints<T> z(model.points, model.gamma);
    const std::size_t n_chunks = compact_chunks(n_blocks(), 8 * pairs * n * n);
    const ChunkSums zero(m * n, pairs * n * n, moving ? Moments::size(k, p) : 0);
    std::vector<ChunkSums> partials(n_chunks, zero);
    Team team(threads_for(threads, n_ * k, p + pairs * n), n_chunks);
    std::vector<BlockMemory<T>> memories(team.size());
    for (auto& memory : memories) {
        memory.K.resize(k * block);
        memory.scaled.resize(p * block);
        for (auto* values : {&memory.f, &memory.e, &memory.p}) values->resize(m * block);
        memory.h.resize(block);
        if (pairs) memory.curvature.resize((n + 4) * block);
        if (moving) memory.W.resize((k + 2) * block);
    }
    over_chunks(n_blocks(), n_chunks, team,
                [&](std::size_t worker, std::size_t c, std::size_t first, std::size_t last) noexcept {
                    BlockMemory<T>& memory = memories[worker];
                    ChunkSums& part = partials[c];
                    for (std::size_t b = first; b < last; ++b) {
                        const std::size_t r = rows(b);
                        const MatrixView<double> f{memory.f.data(), m, r}, e{memory.e.data(), m, r},
                            probability{memory.p.data(), m, r};
                        loops.kernel(X(b).data(), r, p, z.root.data(), z.points.data(), k, memory.scaled.data(),
                                     memory.K.data());
                        loops.values(memory.K.data(), r, k, model.coef.data(), model.intercept.data(), m, f.data());
                        part.loss += losses(b, f, e, probability);
                        loops.project(memory.K.data(), r, k, e.data(), m, part.coef_gradient.data());
                        double* H = part.curvature.data();
                        for (std::size_t o = 0; pairs && o < m; ++o)
                            for (std::size_t q = curvature == Curvature::full ? 0 : o; q <= o; ++q, H += n * n) {
                                curvature_factor(b, probability, o, q, memory.h);
                                loops.curvature(memory.K.data(), r, k, memory.h.data(), memory.curvature.data(), H);
                            }
                        if (moving) {
                            const Moments moments(part.moments, k, p);
                            loops.moments(memory.K.data(), X(b).data(), r, k, p, e.data(), model.coef.data(), m,
                                          memory.W.data(), moments.first.data(), moments.mass.data(),
                                          moments.second.data());
                        }
                    }
                });

    ChunkSums total = zero;
    for (const ChunkSums& part : partials) total += part;
    for (std::size_t pair = 0; pair < pairs; ++pair) {
        const MatrixView<double> H{total.curvature.data() + pair * n * n, n, n};
        for (std::size_t a = 0; a < n; ++a)
            for (std::size_t b = 0; b < a; ++b) H(b, a) = H(a, b);
    }
    CompactSums sums;
    if (moving) {
        sums.point_gradient.assign(k * p, 0.0);
        sums.width_gradient.assign(p, 0.0);
        gradient_from_moments(model.points, model.gamma, Moments(total.moments, k, p),
                              {sums.point_gradient.data(), k, p}, sums.width_gradient);
    }
    sums.loss = total.loss;
    sums.coef_gradient = std::move(total.coef_gradient);
    sums.curvature = std::move(total.curvature);
    return sums;
}

template <class T>
void CompactRows<T>::decision(const CompactModel& model, MatrixView<double> out, int threads) const {
    const std::size_t k = model.n_points(), m = model.n_outputs();
    const auto& loops = compact_loops<T>();
    const ScaledPoints<T> z(model.points, model.gamma);
    Team team(threads_for(threads, n_ * k, p_), n_blocks());
    std::vector<BlockMemory<T>> memories(team.size());
    for (auto& memory : memories) {
        memory.K.resize(k * block);
        memory.scaled.resize(p_ * block);
        memory.f.resize(m * block);
    }
    over_chunks(n_blocks(), n_blocks(), team,
                [&](std::size_t worker, std::size_t, std::size_t first, std::size_t last) noexcept {
                    BlockMemory<T>& memory = memories[worker];
                    for (std::size_t b = first; b < last; ++b) {
                        const std::size_t r = rows(b), count = std::min(block, n_ - b * block);
                        loops.kernel(X(b).data(), r, p_, z.root.data(), z.points.data(), k, memory.scaled.data(),
                                     memory.K.data());
                        loops.values(memory.K.data(), r, k, model.coef.data(), model.intercept.data(), m,
                                     memory.f.data());
                        for (std::size_t i = 0; i < count; ++i)
                            for (std::size_t o = 0; o < m; ++o) out(b * block + i, o) = memory.f[o * r + i];
                    }
                });
}

#define SPARSEKLR_COMPACT_ROWS(T)                                                                 \
    template struct ScaledPoints<T>;                                                              \
    template class CompactRows<T>;                                                                \
    template CompactRows<T>::CompactRows(MatrixView<const float>, std::span<const std::int32_t>,  \
                                         std::span<const double>, std::size_t);                   \
    template CompactRows<T>::CompactRows(MatrixView<const double>, std::span<const std::int32_t>, \
                                         std::span<const double>, std::size_t);
SPARSEKLR_COMPACT_ROWS(float)
SPARSEKLR_COMPACT_ROWS(double)

}  // namespace sparseklr
