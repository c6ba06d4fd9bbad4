"""What all tests share: benchmark sets, Hypothesis' settings, and which tests hang on rounding."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from joblib import parallel_config
from sklearn.preprocessing import minmax_scale
from standins import DATA, PUBLISHED, stand_in

from sparseklr.compact import large
from sparseklr.datasets import BENCHMARKS, load_benchmark, make_ringnorm
from sparseklr.estimators import compact_klr

# New inputs in every run; failing ones are kept in .hypothesis and tried again first.
settings.register_profile(
    "sparseklr", deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("sparseklr")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Doctests show numbers: they are to pass on every machine, like the tests marked ``numerical``."""
    for item in items:
        if isinstance(item, pytest.DoctestItem):
            item.add_marker(pytest.mark.numerical)


@pytest.fixture(autouse=True)
def jobs_by_default() -> Iterator[None]:
    """Runs everything whose ``n_jobs`` is None with as many threads as tests/machines.py asks for."""
    with parallel_config(n_jobs=int(os.environ.get("SPARSEKLR_TEST_JOBS", "1"))):
        yield


@pytest.fixture(scope="session")
def benchmark() -> Callable[[str], tuple[np.ndarray, np.ndarray]]:
    """Loads a benchmark set or its stand-in: features in [0, 1], labels -1/+1."""

    def load(name: str) -> tuple[np.ndarray, np.ndarray]:
        if PUBLISHED:
            data = load_benchmark(name, data_home=DATA)
            X, positive = data.data, data.target == 1
        else:
            X, labels = stand_in(name)
            positive = np.array(labels) == BENCHMARKS[name].positive
        return np.ascontiguousarray(minmax_scale(X)), np.where(positive, 1.0, -1.0)

    return load


@pytest.fixture
def small_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fit of 12 000 rows is streamed, with everything at a fifteenth of its size."""
    monkeypatch.setattr(compact_klr, "LARGE", 3000)
    monkeypatch.setattr(large, "BASE", 2048)
    monkeypatch.setattr(large, "HELD_OUT", 2000)
    monkeypatch.setattr(large, "STARTERS", 1000)
    monkeypatch.setattr(large, "LEAST_FISHER", 512)


@pytest.fixture(scope="session")
def ring() -> tuple[np.ndarray, np.ndarray]:
    """12 000 rows of six features."""
    return make_ringnorm(12_000, 6, random_state=0)
