// Time-critical loops for x86-64-v4 (AVX-512), compiled with -march=x86-64-v4 and used only on such processors.
#define SPARSEKLR_ISA v4
#include "simd_impl.hpp"
SPARSEKLR_EXPORT_TABLES(v4)
