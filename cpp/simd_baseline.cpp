// Time-critical loops for the least capable processor that the build supports.
#define SPARSEKLR_ISA baseline
#include "simd_impl.hpp"
SPARSEKLR_EXPORT_TABLES(baseline)
