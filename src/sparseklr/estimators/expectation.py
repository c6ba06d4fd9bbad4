"""What to expect of a fit of SparseKLR to many rows, said before it starts."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from sklearn.base import clone

from .._warn import warn
from ..kernels import cache_bytes

# From this many rows on it is said, from a trial fit to this many of them.
MANY, TRIAL = 50_000, 4000
# The time of the pair steps grows with this power of the rows (measured from 10 000 to 50 000 rows).
_POWER = 1.8
# What the refit keeps of its features at most.
_REFIT_BYTES = 1 << 29


def say_what_to_expect(estimator: Any, X: Any, y: np.ndarray) -> None:
    """Warn, with the time and memory that a fit is expected to take at most, if there are many rows.

    The time is that of a trial fit times the power of the ratio of the rows; what grows linearly, as the
    refit does, takes less. A fit that goes on from an earlier one says nothing.
    """
    n = len(y)
    if n < MANY or estimator.kernel == "precomputed" or getattr(estimator, "_unfinished", None) is not None:
        return
    some = np.random.default_rng(0).permutation(n)[:TRIAL]
    expected = ""
    if len(np.unique(y[some])) == len(np.unique(y)):
        start = time.perf_counter()
        clone(estimator).set_params(verbose=0, warm_start=False).fit(X[some], y[some])
        expected = f"up to about {_words((time.perf_counter() - start) * (n / TRIAL) ** _POWER)} and "
    room = min(cache_bytes(estimator.cache_size, X), 4 * n * n) + 4 * n * X.shape[1]
    room += _REFIT_BYTES if estimator.calibration == "refit" else 0
    warn(
        f"{type(estimator).__name__} on {n} rows: expect {expected}up to {room / 2**30:.1f} GB of memory. "
        f"Its time grows like n^{_POWER}. CompactKLR is made for this many rows: its time is linear in them."
    )


def _words(seconds: float) -> str:
    """A time in words.

    >>> _words(12.3), _words(600), _words(2e4)
    ('12 seconds', '10 minutes', '5.6 hours')
    """
    if seconds < 90:
        return f"{seconds:.0f} seconds"
    return f"{seconds / 60:.0f} minutes" if seconds < 5400 else f"{seconds / 3600:.1f} hours"
