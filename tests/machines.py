"""Run the numerically sensitive tests as on other machines.

The same program rounds differently on another processor: compiled loops, NumPy and OpenBLAS choose their code
by the features of the processor, and threads add numbers in another order. This script starts the tests
marked ``numerical`` once for each machine of a table that this one can imitate, and prints the number that
passed. The output of the tests goes to files; a machine that exceeds its time limit counts as failed, and the
script prints which tests were running.

    python tests/machines.py            all machines, all numerical tests
    python tests/machines.py --quick    the machines that differ most, without most of scikit-learn's checks
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parents[1]

# Prints which code a process would run; two environments with the same answer count as one machine.
PROBE = """
import os, numpy as np, scipy.linalg, threadpoolctl
from numpy._core._multiarray_umath import __cpu_dispatch__ as dispatch, __cpu_features__ as features
from sparseklr import _core
np.linalg.inv(np.eye(50) @ np.ones((50, 50)) + np.eye(50))  # an illegal instruction would show here
blas = {pool["architecture"] for pool in threadpoolctl.threadpool_info() if pool["user_api"] == "blas"}
wide = [name for name in dispatch if features[name]]
print(f"core {_core.instruction_set}, BLAS {'/'.join(sorted(blas))}, NumPy {'/'.join(wide) or 'baseline'}, "
      f"threads {os.environ['OMP_NUM_THREADS']}")
"""


@dataclass(frozen=True)
class Machine:
    """A name, the environment variables that imitate the machine, and whether ``--quick`` includes it."""

    name: str
    variables: dict[str, str]
    quick: bool = False

    def environment(self) -> dict[str, str]:
        # The tests that use threads by themselves do so in every environment.
        single = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "SPARSEKLR_TEST_JOBS": "1"}
        return {**os.environ, **single, **self.variables}

    def processes(self, jobs: int) -> int:
        """Number of test processes whose threads together are at most ``jobs``.

        The threads of an OpenBLAS product spin until the last one has finished its part. With more threads
        than processors, most of them spin while the thread that they wait for has no processor: small
        products take a hundred times as long.
        """
        return max(1, jobs // int(self.environment()["OPENBLAS_NUM_THREADS"]))

    def probe(self) -> str | None:
        """A description of the code that runs on this machine; None if this processor cannot run it."""
        command = [sys.executable, "-W", "ignore", "-c", PROBE]
        done = subprocess.run(command, env=self.environment(), capture_output=True, text=True, cwd=ROOT)
        return done.stdout.strip() if done.returncode == 0 else None


def machines() -> Iterator[Machine]:
    """All machines; one whose variables have no effect on this processor is omitted."""
    two = {"OMP_NUM_THREADS": "2", "OPENBLAS_NUM_THREADS": "2", "SPARSEKLR_TEST_JOBS": "2"}
    yield Machine("this one", {})
    yield Machine("two threads", two)
    narrow = {"SPARSEKLR_SIMD": "baseline"}
    yield Machine("core without AVX2", narrow)
    yield Machine("core without AVX-512", {"SPARSEKLR_SIMD": "x86-64-v3"})
    for core in ("Prescott", "Nehalem", "Sandybridge", "Haswell", "Zen", "SkylakeX", "Cooperlake"):
        yield Machine(f"OpenBLAS of {core}", {"OPENBLAS_CORETYPE": core}, quick=core == "Haswell")
    without = {}
    for name, marks in (("AVX-512", ("AVX512", "X86_V4")), ("AVX2", ("AVX2", "FMA3", "X86_V3"))):
        features = dispatched(*marks)
        # Features that build on those left out have to go with them: AVX-512 is above AVX2.
        without[name] = " ".join([*features, *(dispatched("AVX512", "X86_V4") if name == "AVX2" else ())])
        if features:
            yield Machine(f"NumPy without {name}", {"NPY_DISABLE_CPU_FEATURES": without[name]})
    oldest = {**narrow, "OPENBLAS_CORETYPE": "Prescott", "NPY_DISABLE_CPU_FEATURES": without["AVX2"]}
    yield Machine("oldest x86-64", oldest)
    yield Machine("oldest x86-64, two threads", {**oldest, **two}, quick=True)


def dispatched(*marks: str) -> list[str]:
    """Processor features used by NumPy and present here whose names begin with one of ``marks``."""
    from numpy._core._multiarray_umath import __cpu_dispatch__, __cpu_features__

    return [name for name in __cpu_dispatch__ if __cpu_features__[name] and name.startswith(marks)]


@dataclass(frozen=True)
class Outcome:
    passed: int
    failures: list[str]
    seconds: float


def run_tests(machine: Machine, quick: bool, jobs: int, limit: float, more: list[str]) -> Outcome:
    """Run the tests of a machine for at most ``limit`` seconds.

    Their output goes to a file, because a pipe would stay open as long as any process that a test started.
    """
    start = time.perf_counter()
    folder = Path(tempfile.mkdtemp(prefix="machine-"))
    report, log = folder / "report.xml", folder / "output.txt"
    command = [sys.executable, "-m", "pytest", "-m", "numerical", f"--junitxml={report}", "-v", "-r", "N"]
    command += [
        "-n",
        str(machine.processes(jobs)),
        "--dist",
        "worksteal",
        "-p",
        "no:cacheprovider",
        "--tb=short",
    ]
    if quick:  # of scikit-learn's checks those that compare two fits
        command += ["-k", "not estimator_checks or weight_equivalence"]
    print(f"  output in {log}", flush=True)
    with log.open("w") as output:
        tests = subprocess.Popen(
            [*command, *more],
            env=machine.environment(),
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=ROOT,
            start_new_session=True,
        )
        try:
            tests.wait(limit)
            failures = []
        except subprocess.TimeoutExpired:
            os.killpg(tests.pid, signal.SIGABRT)  # every process of the tests writes its stacks to the file
            time.sleep(5)
            running = ", ".join(unfinished(log.read_text(errors="replace"))) or "no test"
            failures = [f"the time limit of {limit:g} s, while running: {running}"]
        finally:
            kill_group(tests)
    cases = list(ElementTree.parse(report).iter("testcase")) if report.exists() else []
    failed = [
        f"{case.get('classname')}::{case.get('name')}"
        for case in cases
        if case.find("failure") is not None or case.find("error") is not None
    ]
    skipped = sum(case.find("skipped") is not None for case in cases)
    passed = len(cases) - len(failed) - skipped
    failures += failed
    if not failures and (not cases or tests.returncode != 0):
        failures = [f"the tests ended with status {tests.returncode}"]
    if failures:
        print(log.read_text(errors="replace")[-20_000:], file=sys.stderr)
    return Outcome(passed, failures, time.perf_counter() - start)


def kill_group(tests: subprocess.Popen) -> None:
    """End the test process and all processes that it has left behind."""
    with suppress(ProcessLookupError):  # if all have ended
        os.killpg(tests.pid, signal.SIGKILL)
    tests.wait()


def unfinished(output: str) -> list[str]:
    """The tests that began and did not end, from the output of ``pytest -v -n``."""
    ended = set(re.findall(r"^\[gw\d+\] \[ *\d+%\] [A-Z]+ (.+?) *$", output, re.MULTILINE))
    begun = re.findall(r"^([^\s\[]\S*::.+?) *(?:Fatal Python error.*)?$", output, re.MULTILINE)
    return [test for test in dict.fromkeys(begun) if test not in ended]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a short selection")
    parser.add_argument("--jobs", type=int, default=2, help="threads of all test processes together")
    parser.add_argument("--limit", type=float, default=1800, help="seconds for the tests of one machine")
    args, more = parser.parse_known_args()
    console = Console()
    table = Table("machine", "code", "passed", "failed", "seconds", title="numerical tests as other machines")
    seen: dict[str, str] = {}
    failed: dict[str, list[str]] = {}
    for machine in machines():
        if args.quick and not machine.quick:
            if not machine.variables:  # what "make test" runs anyway
                seen[machine.probe() or ""] = machine.name
            continue
        code = machine.probe()
        if code is None:
            table.add_row(machine.name, "this processor cannot run it", "", "", "")
            continue
        if code in seen:
            table.add_row(machine.name, f"as {seen[code]}", "", "", "")
            continue
        seen[code] = machine.name
        console.print(f"{machine.name}: {code}")
        outcome = run_tests(machine, args.quick, args.jobs, args.limit, more)
        cells = (str(outcome.passed), str(len(outcome.failures)), f"{outcome.seconds:.0f}")
        table.add_row(machine.name, code, *cells)
        if outcome.failures:
            failed[machine.name] = outcome.failures
    console.print(table)
    for name, failures in failed.items():
        console.print(f"failed on {name}:", *failures, sep="\n  ", soft_wrap=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
