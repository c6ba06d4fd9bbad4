// Chooses the instruction set once, when first asked.
#include "simd.hpp"

#include <cstdlib>
#include <cstring>

#ifdef SPARSEKLR_HAVE_V3
#include <cpuid.h>
#endif

namespace sparseklr {

#define SPARSEKLR_DECLARE(isa)                      \
    extern const Simd<float> simd_float_##isa;      \
    extern const Simd<double> simd_double_##isa;
SPARSEKLR_DECLARE(baseline)
#ifdef SPARSEKLR_HAVE_V3
SPARSEKLR_DECLARE(v3)
#endif

namespace {
#ifdef SPARSEKLR_HAVE_V3
// Whether the processor has everything that -march=x86-64-v3 lets the compiler use (System V x86-64 ABI,
// section 3.1.1, beyond what avx2 implies).  Not every compiler knows the last three by name.
bool has_v3() {
    if (!(__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi") &&
          __builtin_cpu_supports("bmi2")))
        return false;
    unsigned a, b, c, d;
    const bool movbe_f16c = __get_cpuid(1, &a, &b, &c, &d) && (c & bit_MOVBE) && (c & bit_F16C);
    return movbe_f16c && __get_cpuid(0x80000001, &a, &b, &c, &d) && (c & bit_LZCNT);
}
#endif

// SPARSEKLR_SIMD=baseline switches the wide loops off (to test them, or to rule them out).
bool use_v3() {
#ifdef SPARSEKLR_HAVE_V3
    static const bool yes = [] {
        const char* wish = std::getenv("SPARSEKLR_SIMD");
        return !(wish && std::strcmp(wish, "baseline") == 0) && has_v3();
    }();
    return yes;
#else
    return false;
#endif
}
}  // namespace

#ifdef SPARSEKLR_HAVE_V3
#define SPARSEKLR_CHOOSE(what) (use_v3() ? what##_v3 : what##_baseline)
#else
#define SPARSEKLR_CHOOSE(what) what##_baseline
#endif

template <> const Simd<float>& simd<float>() { return SPARSEKLR_CHOOSE(simd_float); }
template <> const Simd<double>& simd<double>() { return SPARSEKLR_CHOOSE(simd_double); }
const char* simd_name() { return use_v3() ? "x86-64-v3" : "baseline"; }

}  // namespace sparseklr
