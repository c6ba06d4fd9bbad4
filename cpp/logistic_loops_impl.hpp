// Bodies of the loops in logistic_loops.hpp, for the instruction set SPARSEKLR_ISA; see simd_impl.hpp.
#pragma once

#include "logistic_loops.hpp"
#include "tiles_impl.hpp"

namespace sparseklr::SPARSEKLR_ISA {

// log(1 + u) for u >= 0: 1 + u = 2^n (1 + t) with t in [-0.29, 0.42], log(1 + t) = 2 atanh(t / (2 + t)).
// Within 2 units in the last place of the result or of 1 + u.
inline vd log1p_nonnegative(vd u) {
    typedef std::int64_t bits __attribute__((vector_size(32)));
    constexpr double root2 = 1.4142135623730951, ln2 = 0.6931471805599453;
    const vd m = 1 + u;
    bits b;
    memcpy(&b, &m, sizeof b);
    bits n = (b >> 52) - 1023;
    b = (b & ((std::int64_t(1) << 52) - 1)) | (std::int64_t(1023) << 52);
    vd fraction;
    memcpy(&fraction, &b, sizeof fraction);  // in [1, 2)
    const bits large = fraction > root2;
    fraction = large ? 0.5 * fraction : fraction;
    n = large ? n + 1 : n;
    const vd t = n == 0 ? u : fraction - 1;  // u itself keeps the digits that 1 + u loses
    const vd s = t / (2 + t), q = s * s;
    vd sum = vd{} + 1.0 / 23;
    for (int d = 21; d >= 1; d -= 2) sum = sum * q + 1.0 / d;
    return __builtin_convertvector(n, vd) * ln2 + 2 * s * sum;
}

inline vd indicator(const std::int32_t* label, std::int32_t value) {
    return vd{double(label[0] == value), double(label[1] == value), double(label[2] == value),
              double(label[3] == value)};
}

inline double logistic(const double* f, const std::int32_t* label, const double* weight, std::size_t rows, double* e,
                       double* p) {
    vd loss{};
    for (std::size_t r = 0; r < rows; r += 4) {
        const vd x = load<double>(f + r), w = load<double>(weight + r), y = indicator(label + r, 1);
        const vd u = exp_nonpositive<double>(-magnitude<double>(x));
        const vd major = 1 / (1 + u), minor = u * major;  // sigmoid(|x|), sigmoid(-|x|)
        const vd up = x > 0 ? major : minor, down = x > 0 ? minor : major;
        const vd signed_x = (1 - 2 * y) * x;  // the loss is log(1 + exp(signed_x))
        loss += w * (larger<double>(signed_x, vd{}) + log1p_nonnegative(u));
        store<double>(e + r, w * (y > 0 ? -down : up));
        store<double>(p + r, up);
    }
    return lane_sum<double>(loss);
}

inline double softmax(const double* f, const std::int32_t* label, const double* weight, std::size_t rows,
                      std::size_t outputs, double* e, double* p) {
    vd loss{};
    for (std::size_t r = 0; r < rows; r += 4) {
        const vd w = load<double>(weight + r);
        vd top = load<double>(f + r);
        for (std::size_t o = 1; o < outputs; ++o) top = larger<double>(top, load<double>(f + o * rows + r));
        vd sum{}, own{};
        for (std::size_t o = 0; o < outputs; ++o) {
            const vd below = load<double>(f + o * rows + r) - top, u = exp_nonpositive<double>(below);
            store<double>(p + o * rows + r, u);
            sum += u;
            own += indicator(label + r, std::int32_t(o)) * below;
        }
        loss += w * (log1p_nonnegative(larger<double>(sum - 1, vd{})) - own);
        const vd inverse = 1 / sum;
        for (std::size_t o = 0; o < outputs; ++o) {
            const vd q = load<double>(p + o * rows + r) * inverse;
            store<double>(p + o * rows + r, q);
            store<double>(e + o * rows + r, w * (q - indicator(label + r, std::int32_t(o))));
        }
    }
    return lane_sum<double>(loss);
}

inline void four_cross_entropies(const double* f, const double* target, const double* weight, double* loss,
                                 double* slope, double* curvature) {
    const vd x = load<double>(f), t = load<double>(target), w = load<double>(weight);
    const vd finite = x - x;  // zero, or not a number
    const vd u = exp_nonpositive<double>(-magnitude<double>(x));
    const vd major = 1 / (1 + u), minor = u * major;
    const vd p = x > 0 ? major : minor, q = x > 0 ? minor : major;
    const vd up = larger<double>(x, vd{}), down = larger<double>(-x, vd{});
    store<double>(loss, log1p_nonnegative(u) + (1 - t) * up + t * down + finite);
    store<double>(slope, w * ((1 - t) * p - t * q) + finite);
    store<double>(curvature, w * (p * q) + finite);
}

inline double cross_entropy(const double* f, const double* target, const double* weight, std::size_t n, double* loss,
                            double* slope, double* curvature) {
    vd sum{};
    const std::size_t whole = n / 4 * 4;
    for (std::size_t i = 0; i < whole; i += 4) {
        four_cross_entropies(f + i, target + i, weight + i, loss + i, slope + i, curvature + i);
        sum += load<double>(weight + i) * load<double>(loss + i);
    }
    double total = lane_sum<double>(sum);
    if (whole < n) {
        double in[3][4] = {}, out[3][4];
        const std::size_t bytes = (n - whole) * sizeof(double);
        memcpy(in[0], f + whole, bytes);
        memcpy(in[1], target + whole, bytes);
        memcpy(in[2], weight + whole, bytes);
        four_cross_entropies(in[0], in[1], in[2], out[0], out[1], out[2]);
        memcpy(loss + whole, out[0], bytes);
        memcpy(slope + whole, out[1], bytes);
        memcpy(curvature + whole, out[2], bytes);
        for (std::size_t i = whole; i < n; ++i) total += weight[i] * loss[i];
    }
    return total;
}

}  // namespace sparseklr::SPARSEKLR_ISA

#define SPARSEKLR_EXPORT_LOGISTIC(isa)                                                          \
    namespace sparseklr {                                                                       \
    extern const LogisticLoops logistic_##isa{isa::logistic, isa::softmax, isa::cross_entropy}; \
    }
