"""Threads in a forked process, beyond the limits of the system and in absurd numbers.

Each test runs a script in a separate process, which may hang or crash.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

DATA = """
import os, sys, time, warnings
import numpy as np
from sparseklr import CompactKLR, SparseKLR, _core
warnings.simplefilter("ignore")
rng = np.random.default_rng(0)
X = rng.normal(size=(3000, 5))
y = (X[:, 0] * X[:, 1] + 0.3 * rng.normal(size=3000) > 0).astype(int)

def sparse(n_jobs):
    return SparseKLR(gamma=0.3, n_jobs=n_jobs).fit(X[:1500], y[:1500])

def compact(n_jobs):
    return CompactKLR(n_points=8, n_jobs=n_jobs).fit(X[:1500], y[:1500])
"""


def run(script: str) -> str:
    done = subprocess.run([sys.executable, "-c", DATA + script], capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, f"exit status {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


# -- a forked process ---------------------------------------------------------------------------

FORK = """
def in_child(name, work, expected):
    child = os.fork()
    if child == 0:
        os._exit(0 if np.array_equal(work(), expected) else 1)
    for _ in range(300):
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            print(name, "ended" if status == 0 else f"failed with status {status}")
            return
        time.sleep(0.1)
    os.kill(child, 9)
    os.waitpid(child, 0)
    print(name, "hangs")
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="a system without fork")
@pytest.mark.parametrize("estimator", ["sparse", "compact"])
def test_a_forked_child_fits_and_predicts(estimator: str) -> None:
    output = run(
        FORK
        + f"""
fit = {estimator}
model = fit(2)
expected = model.predict_proba(X)
in_child("predict", lambda: model.predict_proba(X), expected)
in_child("fit", lambda: fit(2).predict_proba(X), expected)
"""
    )
    assert output.splitlines() == ["predict ended", "fit ended"]


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="a system without fork")
def test_a_solver_made_before_a_fork_works_in_the_child() -> None:
    """Its threads sleep in the parent while the child uses and destroys it."""
    output = run(
        FORK
        + """
rows = _core.compact_rows(X, y.astype(np.int32), np.ones(len(y)), 2, False)
inner = _core.CompactInner(rows, 2)

def solve():
    inner.move(X[:20].copy(), np.ones(5))
    coef = np.zeros((1, 21))
    inner.solve(coef, 1.0, 1e-9, 100)
    return coef

def solve_and_delete():
    global inner
    coef = solve()
    del inner
    return coef

solve()  # the next ones begin with the Hessian of this one
expected = _core.CompactInner(rows, 1)
inner, other = expected, inner
solve()
expected = solve()
inner = other
in_child("inner solver", solve_and_delete, expected)
print("parent", "equal" if np.array_equal(solve(), expected) else "differs")
"""
    )
    assert output.splitlines() == ["inner solver ended", "parent equal"]


# -- limits of the system -----------------------------------------------------------------------

NO_THREADS = """
import resource, threading
SparseKLR().fit(X[:100], y[:100]), CompactKLR(n_points=3).fit(X[:100], y[:100])  # all modules are loaded now
expected = {name: fit(1).predict_proba(X) for name, fit in (("sparse", sparse), ("compact", compact))}
if os.getuid() == 0:  # to whom the limit does not apply
    os.setgid(65534)
    os.setuid(65534)
resource.setrlimit(resource.RLIMIT_NPROC, (1, 1))
try:
    threading.Thread(target=int).start()
    print("thread started")
except RuntimeError:
    for name, fit in (("sparse", sparse), ("compact", compact)):
        print(name, "equal" if np.array_equal(fit(2).predict_proba(X), expected[name]) else "differs")
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the limit of threads is that of Linux")
def test_caller_works_alone_if_no_thread_can_start() -> None:
    output = run(NO_THREADS).splitlines()
    if output == ["thread started"]:
        pytest.skip("RLIMIT_NPROC has no effect here")
    assert output == ["sparse equal", "compact equal"]


@pytest.mark.slow
@pytest.mark.parametrize("estimator", ["sparse", "compact"])
def test_absurdly_many_jobs(estimator: str) -> None:
    output = run(f"print({estimator}(100_000).predict_proba(X).shape)")
    assert output.split("\n")[0] == "(3000, 2)"
