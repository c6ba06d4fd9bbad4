"""Fits that take long: threads, interruption, progress, callbacks, memory."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from sklearn.datasets import make_moons
from sklearn.exceptions import NotFittedError

from sparseklr import SparseKLR


@pytest.fixture(scope="module")
def moons() -> tuple[np.ndarray, np.ndarray]:
    return make_moons(300, noise=0.25, random_state=0)


def hard_problem(n: int = 6000) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.normal(size=(n, 5)), rng.integers(0, 2, n)


def test_two_fits_in_two_threads_overlap() -> None:
    """While one thread is inside a fit, another one makes progress: the GIL is released."""
    X, y = hard_problem(3000)
    ticks, stop = [], threading.Event()

    def tick() -> None:
        while not stop.is_set():
            ticks.append(time.perf_counter())
            time.sleep(0.001)

    with ThreadPoolExecutor(3) as pool:
        pool.submit(tick)
        time.sleep(0.05)
        start = time.perf_counter()
        fits = [
            pool.submit(SparseKLR(C=1e4, lam=0.1, gamma=0.05, calibration=None).fit, X, y) for _ in range(2)
        ]
        models = [fit.result() for fit in fits]
        end = time.perf_counter()
        stop.set()
    inside = [t for t in ticks if start < t < end]
    assert len(inside) > 20
    assert max(np.diff(inside)) < 0.5 * (end - start)
    np.testing.assert_array_equal(models[0].dual_coef_, models[1].dual_coef_)


@pytest.mark.skipif(os.name != "posix", reason="signals are sent to a process group")
def test_ctrl_c_is_answered_and_warm_start_keeps_the_state() -> None:
    script = """
import signal, sys, time, numpy as np
sys.path.insert(0, sys.argv[1])
from test_long_fits import hard_problem
from sparseklr import SparseKLR
X, y = hard_problem()
signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background starts with it ignored
model = SparseKLR(C=1e6, lam=0.0, gamma=0.01, tol=1e-9, warm_start=True)
print("ready", flush=True)
try:
    model.fit(X, y)
except KeyboardInterrupt:
    print("stopped", hasattr(model, "converged_"), len(model._unfinished.support), flush=True)
cold = SparseKLR(C=1e6, lam=0.0, gamma=0.01, tol=1e-9)
signal.setitimer(signal.ITIMER_REAL, 0.5)
signal.signal(signal.SIGALRM, signal.default_int_handler)
try:
    cold.fit(X, y)
except KeyboardInterrupt:
    print("cold", hasattr(cold, "dual_coef_"), flush=True)
"""
    process = subprocess.Popen(
        [sys.executable, "-c", script, os.path.dirname(__file__)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout.readline() == "ready\n"
        time.sleep(1.0)
        process.send_signal(signal.SIGINT)
        sent = time.perf_counter()
        answer = process.stdout.readline().split()
        assert time.perf_counter() - sent < 5  # half a second on an idle machine
        assert answer[:2] == ["stopped", "False"]
        assert int(answer[2]) > 0
        assert process.stdout.readline() == "cold False\n"
    finally:
        process.kill()
        process.wait()


def test_progress_is_shown(moons, capsys, monkeypatch) -> None:
    X, y = hard_problem(2000)
    SparseKLR(C=1e3, lam=0.0, gamma=0.05, calibration=None, verbose=1).fit(X, y)
    assert "SparseKLR" in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)  # not installed: lines instead of a bar
    SparseKLR(C=1e3, lam=0.0, gamma=0.05, calibration=None, verbose=1).fit(X, y)
    assert "steps, violation" in capsys.readouterr().err


def test_scikit_learn_callbacks(moons) -> None:
    callback = pytest.importorskip("sklearn.callback", reason="scikit-learn has callbacks from 1.9 on")
    seen = []

    class Recorder:
        def setup(self, estimator, context):
            seen.append("setup")

        def teardown(self, estimator, context):
            seen.append("teardown")

        def on_fit_task_begin(self, estimator, context):
            seen.append(f"begin {context.task_name}")

        def on_fit_task_end(self, estimator, context):
            seen.append(f"end {context.task_name}")

    assert isinstance(Recorder(), callback.FitCallback)
    SparseKLR().set_callbacks(Recorder()).fit(*moons)
    assert seen == ["setup", "begin fit", "begin binary problem", "end binary problem", "end fit", "teardown"]


def test_memory_that_cannot_be_had(moons) -> None:
    X = np.random.default_rng(0).normal(size=(3_000_000, 1)).astype(np.float32)
    with pytest.raises(MemoryError, match="cache_size"):
        SparseKLR(cache_size=1e9).fit(X, X[:, 0] > 0)
    SparseKLR(cache_size=1e9).fit(*moons)  # more than needed is fine


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no interval timers on this system")
def test_large_data_starts_shows_progress_and_stops(capsys) -> None:
    """100000 x 50: never the full kernel matrix (40 GB), an interrupt is answered, the state is kept."""
    resource = pytest.importorskip("resource")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100_000, 50)).astype(np.float32)
    y = X[:, 0] + rng.normal(size=100_000) > 0
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    model = SparseKLR(cache_size=64, warm_start=True, verbose=1)
    old = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, 3.0)
        with pytest.raises(KeyboardInterrupt):
            model.fit(X, y)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)
    extra = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    assert extra < 64 + 20 * X.nbytes / 2**20
    assert "SparseKLR" in capsys.readouterr().err
    assert len(model._unfinished.support) > 0
    with pytest.raises(NotFittedError, match="interrupted"):
        model.predict(X)
