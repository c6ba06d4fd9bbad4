#!/usr/bin/env bash
# Builds tests/cpp/core_test.cpp with the whole core: core_test.sh PROGRAM COMPILER FLAGS...
# The loops for x86-64-v3 and v4 are left out: they are the same sources with another -march.
set -euo pipefail
cd "$(dirname "$0")/.."
program=$1 compiler=$2
flags="${*:3}"
mkdir -p "$program.o"
printf '%s\n' tests/cpp/core_test.cpp cpp/*.cpp | grep -v '_v[34].cpp' |
  xargs -P "$(nproc)" -I{} sh -c "$compiler -std=c++20 -Wall -Wextra -Wno-psabi -Icpp $flags -c {} -o $program.o/\$(basename {}).o"
$compiler $flags "$program.o"/*.o -o "$program"
