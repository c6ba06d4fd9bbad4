// Logistic and softmax losses with their derivatives, compiled once per instruction set (isa.hpp).
#pragma once

#include <cstddef>
#include <cstdint>

namespace sparseklr {

struct LogisticLoops {
    // Weighted losses of one output with labels 0 and 1: returns the sum of w (log(1 + exp f) - y f), and sets the
    // derivative e = w (p - y) and the probability p of every row.
    double (*logistic)(const double* f, const std::int32_t* label, const double* weight, std::size_t rows, double* e,
                       double* p);

    // The same for the softmax of several outputs: the sum of w (log sum_o exp f_o - f_label).
    double (*softmax)(const double* f, const std::int32_t* label, const double* weight, std::size_t rows,
                      std::size_t outputs, double* e, double* p);

    // Loss and derivatives of points with weight w, of which the fraction `target` = t belongs to the positive class:
    //     loss = -t log p - (1 - t) log(1 - p),   slope = w (p - t),   curvature = w p (1 - p),
    // where p = 1 / (1 + exp(-f)).  Returns sum w loss.  The results of a point are NaN if f is not finite.
    double (*cross_entropy)(const double* f, const double* target, const double* weight, std::size_t n, double* loss,
                            double* slope, double* curvature);
};

const LogisticLoops& logistic_loops();

}  // namespace sparseklr
