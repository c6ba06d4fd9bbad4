// The instruction set of the time-critical loops, chosen once per process.
//
// The loops are compiled once per instruction set, each time into a table of functions: Simd, CompactLoops,
// LogisticLoops, ShapleyLoops and DenseAlgebra.  isa.cpp chooses among the tables; only Simd has one for x86-64-v4.
// Functions in the tables take raw pointers and sizes: a unit compiled for one instruction set must not instantiate a
// library template such as std::span, because the linker could share the instance with units for a smaller machine.
#pragma once

namespace sparseklr {

enum class Isa { baseline, x86_64_v3, x86_64_v4 };

// The best instruction set that the processor supports.  The environment variable SPARSEKLR_SIMD, a name of
// isa_name(), sets a lower one.
Isa isa();

constexpr const char* isa_name(Isa set) {
    constexpr const char* names[] = {"baseline", "x86-64-v3", "x86-64-v4"};
    return names[int(set)];
}

}  // namespace sparseklr
