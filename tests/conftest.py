"""Fixtures: the benchmark data where it is there, and a Hypothesis profile for CI."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from sklearn.preprocessing import minmax_scale

from sparseklr.datasets import load_benchmark

settings.register_profile(
    "sparseklr", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("sparseklr")

DATA = Path(os.environ.get("SPARSEKLR_DATA") or Path(__file__).resolve().parents[2] / "shared" / "data")


@pytest.fixture(scope="session")
def benchmark() -> Callable[[str], tuple[np.ndarray, np.ndarray]]:
    """Loads a benchmark set: features in [0, 1], labels -1/+1; skips where the data is absent."""

    def load(name: str) -> tuple[np.ndarray, np.ndarray]:
        if not DATA.is_dir():
            pytest.skip("benchmark data absent: set SPARSEKLR_DATA to the directory that holds it")
        data = load_benchmark(name, data_home=DATA)
        return np.ascontiguousarray(minmax_scale(data.data)), np.where(data.target == 1, 1.0, -1.0)

    return load
