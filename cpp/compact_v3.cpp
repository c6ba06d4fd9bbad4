// Loops of CompactKLR, losses, dense algebra and Shapley values for x86-64-v3 (AVX2, FMA).  They are compiled with
// -march=x86-64-v3 and used only on processors that support it.
#define SPARSEKLR_ISA v3
#include "compact_loops_impl.hpp"
#include "dense_algebra_impl.hpp"
#include "logistic_loops_impl.hpp"
#include "shapley_loops_impl.hpp"
SPARSEKLR_EXPORT_COMPACT(v3)
SPARSEKLR_EXPORT_DENSE_ALGEBRA(v3)
SPARSEKLR_EXPORT_LOGISTIC(v3)
SPARSEKLR_EXPORT_SHAPLEY(v3)
