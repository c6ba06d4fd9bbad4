#include "isa.hpp"

#include <cstdlib>
#include <cstring>

#include "compact_loops.hpp"
#include "dense_algebra_loops.hpp"
#include "logistic_loops.hpp"
#include "shapley_loops.hpp"
#include "simd.hpp"

#ifdef SPARSEKLR_X86_64
#include <cpuid.h>
#endif

namespace sparseklr {

#define SPARSEKLR_DECLARE_SIMD(isa)            \
    extern const Simd<float> simd_float_##isa; \
    extern const Simd<double> simd_double_##isa;
#define SPARSEKLR_DECLARE(isa)                              \
    SPARSEKLR_DECLARE_SIMD(isa)                             \
    extern const CompactLoops<float> compact_float_##isa;   \
    extern const CompactLoops<double> compact_double_##isa; \
    extern const LogisticLoops logistic_##isa;              \
    extern const DenseAlgebra dense_algebra_##isa;          \
    extern const ShapleyLoops shapley_##isa;
SPARSEKLR_DECLARE(baseline)

#ifdef SPARSEKLR_X86_64
SPARSEKLR_DECLARE(v3)
SPARSEKLR_DECLARE_SIMD(v4)

namespace {
// Returns whether the processor supports every feature that -march=x86-64-v3 lets the compiler use (System V x86-64
// ABI, section 3.1.1).  Not every compiler recognises the names of the last three features.
bool has_v3() {
    if (!(__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi") &&
          __builtin_cpu_supports("bmi2")))
        return false;
    unsigned a, b, c, d;
    const bool movbe_f16c = __get_cpuid(1, &a, &b, &c, &d) && (c & bit_MOVBE) && (c & bit_F16C);
    return movbe_f16c && __get_cpuid(0x80000001, &a, &b, &c, &d) && (c & bit_LZCNT);
}

bool has_v4() {
    return has_v3() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vl");
}

Isa detect() {
    const char* requested = std::getenv("SPARSEKLR_SIMD");
    const auto is_requested = [&](Isa set) { return requested && std::strcmp(requested, isa_name(set)) == 0; };
    if (is_requested(Isa::baseline) || !has_v3()) return Isa::baseline;
    return is_requested(Isa::x86_64_v3) || !has_v4() ? Isa::x86_64_v3 : Isa::x86_64_v4;
}
}  // namespace

Isa isa() {
    static const Isa chosen = detect();
    return chosen;
}
#define SPARSEKLR_CHOOSE(table) (isa() == Isa::baseline ? table##_baseline : table##_v3)
#define SPARSEKLR_CHOOSE_SIMD(table) (isa() == Isa::x86_64_v4 ? table##_v4 : SPARSEKLR_CHOOSE(table))
#else
Isa isa() { return Isa::baseline; }
#define SPARSEKLR_CHOOSE(table) table##_baseline
#define SPARSEKLR_CHOOSE_SIMD(table) table##_baseline
#endif

template <> const Simd<float>& simd<float>() { return SPARSEKLR_CHOOSE_SIMD(simd_float); }
template <> const Simd<double>& simd<double>() { return SPARSEKLR_CHOOSE_SIMD(simd_double); }
template <> const CompactLoops<float>& compact_loops<float>() { return SPARSEKLR_CHOOSE(compact_float); }
template <> const CompactLoops<double>& compact_loops<double>() { return SPARSEKLR_CHOOSE(compact_double); }
const LogisticLoops& logistic_loops() { return SPARSEKLR_CHOOSE(logistic); }
const ShapleyLoops& shapley_loops() { return SPARSEKLR_CHOOSE(shapley); }
const DenseAlgebra& dense_algebra() { return SPARSEKLR_CHOOSE(dense_algebra); }

}  // namespace sparseklr
