// The instruction set of the time-critical loops, chosen once per process.
//
// The loops are compiled once per instruction set, each time into a table of functions: Simd, CompactLoops,
// LogisticLoops, ShapleyLoops and DenseAlgebra.  isa.cpp chooses among the tables.  Functions in the tables take raw pointers and
// sizes: a unit compiled for one instruction set must not instantiate a library template such as std::span, because
// the linker could share the instance with units for a smaller machine.
#pragma once

namespace sparseklr {

enum class Isa { baseline, x86_64_v3 };

// The best instruction set that the processor supports, unless SPARSEKLR_SIMD=baseline is set in the environment.
Isa isa();

constexpr const char* isa_name(Isa set) { return set == Isa::baseline ? "baseline" : "x86-64-v3"; }

}  // namespace sparseklr
