// Time-critical loops for x86-64-v3 (AVX2, FMA), compiled with -march=x86-64-v3 and used only on such processors.
#define SPARSEKLR_ISA v3
#include "simd_impl.hpp"
SPARSEKLR_EXPORT_TABLES(v3)
