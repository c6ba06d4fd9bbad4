#include "isa.hpp"

#include <cstdlib>
#include <cstring>

#include "compact_loops.hpp"
#include "dense_algebra_loops.hpp"
#include "logistic_loops.hpp"
#include "shapley_loops.hpp"
#include "simd.hpp"

#ifdef SPARSEKLR_HAVE_V3
#include <cpuid.h>
#endif

namespace sparseklr {

#define SPARSEKLR_DECLARE(isa)                              \
    extern const Simd<float> simd_float_##isa;              \
    extern const Simd<double> simd_double_##isa;            \
    extern const CompactLoops<float> compact_float_##isa;   \
    extern const CompactLoops<double> compact_double_##isa; \
    extern const LogisticLoops logistic_##isa;              \
    extern const DenseAlgebra dense_algebra_##isa;          \
    extern const ShapleyLoops shapley_##isa;
SPARSEKLR_DECLARE(baseline)
#ifdef SPARSEKLR_HAVE_V3
SPARSEKLR_DECLARE(v3)
#endif

namespace {
#ifdef SPARSEKLR_HAVE_V3
// Whether the processor supports everything that -march=x86-64-v3 allows the compiler to use (System V x86-64 ABI,
// section 3.1.1, beyond avx2).  Not every compiler recognises the names of the last three features.
bool has_v3() {
    if (!(__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi") &&
          __builtin_cpu_supports("bmi2")))
        return false;
    unsigned a, b, c, d;
    const bool movbe_f16c = __get_cpuid(1, &a, &b, &c, &d) && (c & bit_MOVBE) && (c & bit_F16C);
    return movbe_f16c && __get_cpuid(0x80000001, &a, &b, &c, &d) && (c & bit_LZCNT);
}

Isa detect() {
    const char* requested = std::getenv("SPARSEKLR_SIMD");
    const bool only_baseline = requested && std::strcmp(requested, "baseline") == 0;
    return !only_baseline && has_v3() ? Isa::x86_64_v3 : Isa::baseline;
}
#endif
}  // namespace

#ifdef SPARSEKLR_HAVE_V3
Isa isa() {
    static const Isa chosen = detect();
    return chosen;
}
#define SPARSEKLR_CHOOSE(table) (isa() == Isa::x86_64_v3 ? table##_v3 : table##_baseline)
#else
Isa isa() { return Isa::baseline; }
#define SPARSEKLR_CHOOSE(table) table##_baseline
#endif

template <> const Simd<float>& simd<float>() { return SPARSEKLR_CHOOSE(simd_float); }
template <> const Simd<double>& simd<double>() { return SPARSEKLR_CHOOSE(simd_double); }
template <> const CompactLoops<float>& compact_loops<float>() { return SPARSEKLR_CHOOSE(compact_float); }
template <> const CompactLoops<double>& compact_loops<double>() { return SPARSEKLR_CHOOSE(compact_double); }
const LogisticLoops& logistic_loops() { return SPARSEKLR_CHOOSE(logistic); }
const ShapleyLoops& shapley_loops() { return SPARSEKLR_CHOOSE(shapley); }
const DenseAlgebra& dense_algebra() { return SPARSEKLR_CHOOSE(dense_algebra); }

}  // namespace sparseklr
