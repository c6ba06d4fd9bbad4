// Loops of CompactKLR for the smallest machine the build targets.
#define SPARSEKLR_ISA baseline
#include "compact_loops_impl.hpp"
SPARSEKLR_EXPORT_COMPACT(baseline)
