#!/usr/bin/env bash
# The compiled core under sanitizers: addresses, leaks and undefined behaviour, with and without Python, and threads.
#
# Everything is built below build/sanitize and nothing else is touched. A report of a sanitizer ends the script with
# an error. PYTHON is an interpreter that has the packages that the tests need.
set -euo pipefail
cd "$(dirname "$0")/.."
PYTHON=${PYTHON:-.venv/bin/python}
build=build/sanitize
mkdir -p $build
export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
export UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1

echo "== the core alone: addresses, leaks, undefined behaviour"
tools/core_test.sh $build/core_address g++ -O1 -g -fsanitize=address,undefined -fno-sanitize-recover=all
$build/core_address

echo "== the core alone: threads"
tools/core_test.sh $build/core_threads g++ -O1 -g -fsanitize=thread
$build/core_threads

echo "== the core and its bindings in Python: addresses, undefined behaviour"
# An environment that sees the packages of PYTHON's, but has its own sparseklr.
site=$($PYTHON -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
$PYTHON -m venv $build/venv
own=$($build/venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
$build/venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --force-reinstall \
  --config-settings=cmake.define.SPARSEKLR_SANITIZE=address,undefined --config-settings=install.strip=false \
  --config-settings=build-dir=$build/module .
echo "$site" > "$own/packages.pth"
# Python itself is not instrumented, so the runtimes come first; what Python leaks is none of our business. The tests
# of memory itself are left out: the sanitizer keeps what is freed for a while, and ends a process that gets no more.
LD_PRELOAD="$(g++ -print-file-name=libasan.so) $(g++ -print-file-name=libubsan.so) $(g++ -print-file-name=libstdc++.so)" \
ASAN_OPTIONS=detect_leaks=0 PYTHONMALLOC=malloc \
  $build/venv/bin/python -m pytest -q -n 2 -p no:cacheprovider -k "not memory" tests/core/test_kernels.py \
  tests/core/test_kernel_limits.py tests/core/test_threads.py tests/compact/test_core.py tests/dual/test_solver.py \
  tests/dual/test_solver_limits.py
