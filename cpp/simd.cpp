// Chooses the instruction set once, when first asked.
#include "simd.hpp"

#include <cstdlib>
#include <cstring>

namespace sparseklr {

#define SPARSEKLR_DECLARE(isa)                      \
    extern const Simd<float> simd_float_##isa;      \
    extern const Simd<double> simd_double_##isa;
SPARSEKLR_DECLARE(baseline)
#ifdef SPARSEKLR_HAVE_V3
SPARSEKLR_DECLARE(v3)
#endif

namespace {
// SPARSEKLR_SIMD=baseline switches the wide loops off (to test them, or to rule them out).
bool use_v3() {
#ifdef SPARSEKLR_HAVE_V3
    static const bool yes = [] {
        const char* wish = std::getenv("SPARSEKLR_SIMD");
        return !(wish && std::strcmp(wish, "baseline") == 0) && __builtin_cpu_supports("avx2") &&
               __builtin_cpu_supports("fma");
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
