#!/usr/bin/env bash
# The core compiled for 64-bit ARM with warnings as errors, and its test run by qemu, each where it is installed.
set -euo pipefail
cd "$(dirname "$0")/.."
compiler=aarch64-linux-gnu-g++
if ! command -v $compiler > /dev/null; then
  echo "skipped: $compiler is not installed (Debian: g++-aarch64-linux-gnu)"
  exit 0
fi
mkdir -p build/aarch64
tools/core_test.sh build/aarch64/core_test $compiler -O3 -Werror -static
if command -v qemu-aarch64 > /dev/null; then
  qemu-aarch64 build/aarch64/core_test
else
  echo "compiled; not run: qemu-aarch64 is not installed (Debian: qemu-user)"
fi
