// Hot loops for the smallest machine the build targets.
#define SPARSEKLR_ISA baseline
#include "simd_impl.hpp"
SPARSEKLR_EXPORT_TABLES(baseline)
