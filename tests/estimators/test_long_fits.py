"""Fits that take long: threads, interruption, progress, memory."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import make_moons
from sklearn.metrics.pairwise import rbf_kernel
from support.problems import hard_problem

from sparseklr import SKLR, SparseKLR
from sparseklr._utils import progress
from sparseklr._utils.progress import GridProgressBar, ProgressBar
from sparseklr.dual import Status, solve_dual


@pytest.fixture(scope="module")
def moons() -> tuple[np.ndarray, np.ndarray]:
    return make_moons(300, noise=0.25, random_state=0)


def test_the_core_lets_other_threads_run() -> None:
    """Another thread makes progress between two calls of the callback, because the core releases the GIL.

    The interpreter would switch to it after the switch interval, which is therefore set to an hour.
    """
    X, y = hard_problem(1500)
    K, count, after_last_call = rbf_kernel(X, gamma=0.01), [0], []
    stop, interval = threading.Event(), sys.getswitchinterval()

    def tick() -> None:
        while not stop.is_set():
            count[0] += 1
            time.sleep(0)

    def callback(snapshot: object) -> bool:
        moved = bool(after_last_call) and count[0] > after_last_call[-1]
        after_last_call.append(count[0])
        return moved

    sys.setswitchinterval(3600)
    try:
        thread = threading.Thread(target=tick)
        thread.start()
        solution = solve_dual(K, 2 * y - 1, C=1e4, lam=0.0, tol=1e-12, callback=callback)
    finally:
        stop.set()
        thread.join()
        sys.setswitchinterval(interval)
    assert solution.status is Status.INTERRUPTED  # as the callback asked: the other thread had moved


@pytest.mark.parametrize("model", [SKLR(C=100, lam=0.1, gamma=0.05), SparseKLR(gamma=0.05)])
@pytest.mark.filterwarnings("ignore:SparseKLR found no signal")
def test_concurrent_fits_agree_with_single_fits(model) -> None:
    X, y = hard_problem(500)
    alone = clone(model).fit(X, y)
    with ThreadPoolExecutor(2) as pool:
        fitted = list(pool.map(lambda model: model.fit(X, y), [clone(model), clone(model)]))
    for other in fitted:
        np.testing.assert_array_equal(other.dual_coef_, alone.dual_coef_)


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="signals are sent to a process group")
def test_ctrl_c_stops_the_fit() -> None:
    script = """
import signal, sys, time, numpy as np
sys.path.insert(0, sys.argv[1])
from support.problems import hard_problem
from sparseklr import SKLR
from sparseklr._utils.progress import ProgressBar
X, y = hard_problem()
signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background starts with it ignored
model = SKLR(C=1e6, lam=0.0, gamma=0.01, tol=1e-9, verbose=1)
ProgressBar.__call__ = lambda *args: print("solving", flush=True)  # called from inside the solver
try:
    model.fit(X, y)
except KeyboardInterrupt:
    print("stopped", hasattr(model, "dual_coef_"), flush=True)
"""
    process = subprocess.Popen(
        [sys.executable, "-c", script, str(Path(__file__).parents[1])], stdout=subprocess.PIPE, text=True
    )
    end = threading.Timer(300, process.kill)  # the solve itself would take hours
    end.start()
    try:
        assert process.stdout.readline() == "solving\n"
        process.send_signal(signal.SIGINT)
        assert next(line for line in process.stdout if line != "solving\n") == "stopped False\n"
    finally:
        end.cancel()
        process.kill()
        process.wait()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:SparseKLR found no signal")
def test_progress_is_shown(moons, capsys, monkeypatch) -> None:
    X, y = hard_problem(2000)
    SKLR(C=1e3, lam=0.0, gamma=0.05, calibration=None, verbose=1).fit(X, y)
    assert "SKLR" in capsys.readouterr().err
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_LINES", 0.0)  # every stage prints a line
    SparseKLR(gamma=0.05, verbose=1).fit(X, y)  # more rows than the search uses: C is chosen again
    shown = capsys.readouterr().err
    stages = [
        "kernel rbf",
        "kernel laplacian",
        "relevance",
        "selection",
        "choice of C",
        "likelihood",
        "pruning",
    ]
    where = [shown.index(stage) for stage in stages]
    assert where == sorted(where)
    fractions = [int(percent) for percent in re.findall(r"SparseKLR +(\d+)%", shown)]
    assert fractions == sorted(fractions)
    assert len(fractions) > len(stages)
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)  # not installed: lines instead of a bar
    SKLR(C=1e3, lam=0.0, gamma=0.05, calibration=None, verbose=1).fit(X, y)
    assert " steps" in capsys.readouterr().err


@pytest.mark.slow
def test_memory_error(moons) -> None:
    X = np.random.default_rng(0).normal(size=(3_000_000, 1)).astype(np.float32)
    with pytest.raises(MemoryError, match="cache_size"):
        SKLR(cache_size=1e9).fit(X, X[:, 0] > 0)
    SparseKLR(cache_size=1e9).fit(*moons)  # more than needed is fine
    SparseKLR(cache_size=1e300).fit(*moons)


def test_a_search_that_needs_more_fits_than_expected(monkeypatch) -> None:
    shown: list[str] = []
    monkeypatch.setattr(ProgressBar, "_draw", lambda bar, text, seconds: shown.append(text))
    bar = GridProgressBar("search", total=1, show=True)
    bar.advance()
    bar.advance()
    assert shown == ["1 of 1 fits", "2 fits"]


MEMORY = """
import warnings
from pathlib import Path
import numpy as np
from sparseklr import SKLR

def peak():
    return int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) / 1024

rng = np.random.default_rng(0)
X = rng.standard_normal((100_000, 50), dtype=np.float32)
y = X[:, 0] + rng.normal(size=100_000) > 0
before = peak()
warnings.simplefilter("ignore")  # it has not converged
SKLR(cache_size=64, max_iter=1000, calibration=None).fit(X, y)
print(peak() - before, X.nbytes / 2**20)
"""


@pytest.mark.slow
@pytest.mark.skipif(
    not os.path.exists("/proc/self/status"), reason="only Linux reports the peak memory of a process"
)
def test_large_data_takes_the_memory_of_the_cache() -> None:
    """With 100,000 x 50 features, the kernel matrix has 40 GB, of which a thousand steps use up to 800 MB.

    The test runs in a separate process, because the peak memory of this process may come from another test,
    and the peak reported by ``getrusage`` is inherited.
    """
    extra, data = map(float, subprocess.check_output([sys.executable, "-c", MEMORY]).split())
    assert extra < 64 + 5 * data


@pytest.mark.slow
def test_large_data_starts_shows_progress_and_stops(capsys, monkeypatch) -> None:
    """With 100,000 x 50 features, an interrupt stops the fit."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100_000, 50)).astype(np.float32)
    y = X[:, 0] + rng.normal(size=100_000) > 0
    model, shown = SKLR(cache_size=64, verbose=1), ProgressBar.__call__

    def interrupt_the_third(bar: ProgressBar, snapshot: object) -> None:
        shown(bar, snapshot)
        calls.append(snapshot)
        if len(calls) == 3:
            signal.raise_signal(signal.SIGINT)

    calls: list[object] = []
    monkeypatch.setattr(ProgressBar, "__call__", interrupt_the_third)
    old = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            model.fit(X, y)
    finally:
        signal.signal(signal.SIGINT, old)
    assert "SKLR" in capsys.readouterr().err
    assert not hasattr(model, "dual_coef_")
