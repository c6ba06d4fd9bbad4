// Choice of the instruction set for the time-critical loops, once per process.
//
// The loops are compiled once per instruction set, each time into tables of functions: Simd, CompactLoops,
// LogisticLoops, ShapleyLoops and DenseAlgebra.  isa.cpp chooses a table for the processor; only Simd has a table for
// x86-64-v4.  Functions in the tables take raw pointers and sizes.  A translation unit for a larger instruction set
// must not instantiate a library template such as std::span, because the linker could use the instance in other
// translation units too.
#pragma once

namespace sparseklr {

enum class Isa { baseline, x86_64_v3, x86_64_v4 };

// Returns the best instruction set that the processor supports, or a lower one if the environment variable
// SPARSEKLR_SIMD contains its name (see isa_name()).
Isa isa();

constexpr const char* isa_name(Isa set) {
    constexpr const char* names[] = {"baseline", "x86-64-v3", "x86-64-v4"};
    return names[int(set)];
}

}  // namespace sparseklr
