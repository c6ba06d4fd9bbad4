// Loops of CompactKLR, losses, dense algebra and Shapley values for the least capable processor that the build
// supports.
#define SPARSEKLR_ISA baseline
#include "compact_loops_impl.hpp"
#include "dense_algebra_impl.hpp"
#include "logistic_loops_impl.hpp"
#include "shapley_loops_impl.hpp"
SPARSEKLR_EXPORT_COMPACT(baseline)
SPARSEKLR_EXPORT_DENSE_ALGEBRA(baseline)
SPARSEKLR_EXPORT_LOGISTIC(baseline)
SPARSEKLR_EXPORT_SHAPLEY(baseline)
