// Chooses the instruction set of the loops of CompactKLR, as simd.cpp does for the others.
#include "compact_loops.hpp"

#include <cstring>

#include "simd.hpp"

namespace sparseklr {

#define SPARSEKLR_DECLARE_COMPACT(isa)                     \
    extern const CompactLoops<float> compact_float_##isa;   \
    extern const CompactLoops<double> compact_double_##isa; \
    extern const CompactAlgebra compact_algebra_##isa;
SPARSEKLR_DECLARE_COMPACT(baseline)
#ifdef SPARSEKLR_HAVE_V3
SPARSEKLR_DECLARE_COMPACT(v3)
#define SPARSEKLR_CHOOSE_COMPACT(what) (std::strcmp(simd_name(), "baseline") ? what##_v3 : what##_baseline)
#else
#define SPARSEKLR_CHOOSE_COMPACT(what) what##_baseline
#endif

template <> const CompactLoops<float>& compact_loops<float>() { return SPARSEKLR_CHOOSE_COMPACT(compact_float); }
template <> const CompactLoops<double>& compact_loops<double>() { return SPARSEKLR_CHOOSE_COMPACT(compact_double); }
const CompactAlgebra& compact_algebra() { return SPARSEKLR_CHOOSE_COMPACT(compact_algebra); }

}  // namespace sparseklr
