"""Command line of the fuzz tests, which runs random cases for some time or repeats one case."""

from __future__ import annotations

import argparse
import faulthandler
import json
import re
import secrets
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .findings import ROOT, Findings, Stopped
from .inputs import draw
from .subjects import SUBJECTS


def try_case(seed: int, only: str | None, announce: Callable[[str], None]) -> Findings:
    """Run the case with the given seed and return its findings."""
    rng = np.random.default_rng(seed)
    parts = np.array([parts for parts, _ in SUBJECTS.values()], dtype=float)
    name = only or str(rng.choice(list(SUBJECTS), p=parts / parts.sum()))
    findings = Findings(announce=announce)
    try:
        SUBJECTS[name][1](rng, draw(rng), findings)
    except Stopped:
        pass
    except Exception:
        findings.add(f"the fuzzer itself: {traceback.format_exc()}")
    return findings


# -- the worker ------------------------------------------------------------------------------


def work(limit: float) -> None:
    """Run the cases whose seeds arrive on standard input, and print the findings of each case.

    A case that takes too long ends the process with a traceback. The limit applies to the CPU time, which
    other programs do not affect. A larger limit applies to the wall-clock time, in case the process sleeps.
    """
    faulthandler.enable()
    faulthandler.register(signal.SIGPROF, chain=True)

    def announce(about: str) -> None:
        print(json.dumps(about), flush=True)

    for line in sys.stdin:
        signal.setitimer(signal.ITIMER_PROF, limit)
        faulthandler.dump_traceback_later(20 * limit, exit=True)
        began = time.process_time()
        findings = try_case(*json.loads(line), announce)
        seconds = time.process_time() - began
        signal.setitimer(signal.ITIMER_PROF, 0)
        faulthandler.cancel_dump_traceback_later()
        answer = {"found": findings.found, "fits": findings.fits, "seconds": seconds}
        print(json.dumps(answer | {"about": findings.about}), flush=True)


class Worker:
    """A process that runs cases; if it dies, a new process replaces it."""

    def __init__(self, limit: float) -> None:
        self.limit = limit
        self.process: subprocess.Popen[str] | None = None

    def try_case(self, seed: int, only: str | None) -> dict[str, Any]:
        if self.process is None:
            command = [sys.executable, "-m", "fuzz", "--worker", "--limit", str(self.limit)]
            pipes: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
            # Ctrl-C must reach only the command line, so that the current case is completed.
            self.process = subprocess.Popen(command, cwd=ROOT, text=True, start_new_session=True, **pipes)
        process: Any = self.process
        process.stdin.write(json.dumps([seed, only]) + "\n")
        process.stdin.flush()
        about: Any = "before the first step"
        for line in process.stdout:
            about = json.loads(line)
            if isinstance(about, dict):
                return about
        trace, code = process.stderr.read(), process.wait()
        self.process = None
        place = next((line.strip() for line in trace.splitlines() if "src/sparseklr" in line), "")
        hang = code == -signal.SIGPROF or "Timeout" in trace
        what = f"hang: more than {self.limit:g} s" if hang else f"crash: exit code {code}"
        return {"about": about, "found": [f"{what}: {place}", trace[-3000:]], "fits": 1, "seconds": 0.0}

    def close(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()


# -- the command -----------------------------------------------------------------------------


@dataclass
class Tally:
    """Counts of cases and failures; the first three failures of each kind are printed in full."""

    cases: int = 0
    fits: int = 0
    failures: int = 0
    seconds: float = 0.0  # CPU time
    slowest: tuple[float, str] = (0.0, "")
    kinds: Counter[str] = field(default_factory=Counter)

    def add(self, again: str, answer: dict[str, Any]) -> None:
        self.cases += 1
        self.fits += answer["fits"]
        self.seconds += answer["seconds"]
        self.slowest = max(self.slowest, (answer["seconds"], again))
        if not answer["found"]:
            return
        self.failures += 1
        kind = re.sub(r"[-+]?\d+\.?\d*(e[-+]?\d+)?", "#", answer["found"][0])[:150]
        self.kinds[kind] += 1
        lines = [answer["about"], *answer["found"]] if self.kinds[kind] <= 3 else [kind]
        print(f"FAILED {again}", *lines, sep="\n  ", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__)
    parser.add_argument(
        "--seconds", type=float, default=60, help="number of seconds for which new cases are run"
    )
    parser.add_argument("--seed", type=int, help="repeat one case in this process")
    parser.add_argument("--only", choices=list(SUBJECTS), help="test only this subject")
    parser.add_argument(
        "--limit", type=float, default=60, help="CPU seconds after which a case is reported as a hang"
    )
    parser.add_argument("--jobs", type=int, default=1, help="number of processes")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        work(args.limit)
        return 0
    if args.seed is not None:
        findings = try_case(args.seed, args.only, lambda about: print(about, flush=True))
        print(*findings.found, f"{len(findings.found)} findings", sep="\n  ")
        return 1 if findings.found else 0

    tally, end, first = Tally(), time.monotonic() + args.seconds, secrets.randbits(40)
    stopped = threading.Event()

    def run_cases(number: int) -> None:
        worker, seed = Worker(args.limit), first + number
        try:
            while time.monotonic() < end and not stopped.is_set():
                again = f"python -m fuzz --seed {seed}" + (f" --only {args.only}" if args.only else "")
                tally.add(again, worker.try_case(seed, args.only))
                seed += args.jobs
        finally:
            worker.close()

    signal.signal(signal.SIGINT, lambda *_: stopped.set())  # the totals are printed nevertheless
    with ThreadPoolExecutor(args.jobs) as pool:
        list(pool.map(run_cases, range(args.jobs)))
    print(f"{tally.cases} cases, {tally.fits} fits, {tally.failures} failures")
    print(f"{tally.seconds:.0f} CPU seconds; slowest case {tally.slowest[0]:.1f} s: {tally.slowest[1]}")
    for kind, count in tally.kinds.most_common():
        print(f"  {count:5d}  {kind}")
    return 1 if tally.failures else 0


if __name__ == "__main__":
    sys.exit(main())
