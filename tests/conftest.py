"""Fixtures and settings for all tests: benchmark sets, a browser, Hypothesis, and the mark ``numerical``."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.database import DirectoryBasedExampleDatabase
from joblib import parallel_config
from sklearn.datasets import load_iris
from sklearn.preprocessing import minmax_scale
from support.standins import DATA, PUBLISHED, stand_in

from paper.datasets import BENCHMARKS, load_benchmark
from sparseklr.datasets import make_ringnorm
from sparseklr.streaming import fit as stream

ROOT = Path(__file__).parents[1]

# New inputs in every run; failing ones are kept in .hypothesis and tried again first. On CI, Hypothesis would
# draw the same ones each time and keep none.
settings.register_profile(
    "sparseklr",
    deadline=None,
    print_blob=True,
    derandomize=False,
    database=DirectoryBasedExampleDatabase(ROOT / ".hypothesis/examples"),
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("sparseklr")

# The tests of the built site belong to `make docs-test`; without a site there is nothing to look at.
collect_ignore = [] if (ROOT / "docs/_build/html/index.html").exists() else ["project/test_site.py"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Doctests show numbers, so they must pass on every machine, like the tests marked ``numerical``."""
    for item in items:
        if isinstance(item, pytest.DoctestItem):
            item.add_marker(pytest.mark.numerical)


@pytest.fixture(autouse=True)
def jobs_by_default() -> Iterator[None]:
    """Everything whose ``n_jobs`` is None uses the number of threads that tests/machines.py sets.

    Joblib's default would start processes, each with its own threads of linear algebra.
    """
    with parallel_config("threading", n_jobs=int(os.environ.get("SPARSEKLR_TEST_JOBS", "1"))):
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
    """Stream a fit of 12,000 rows, with all limits reduced to a fifteenth."""
    small = replace(
        stream.STREAM, in_memory_rows=1000, C_rows=2048, validation_rows=2000, least_fisher_rows=512
    )
    monkeypatch.setattr(stream, "STREAM", small)


@pytest.fixture(scope="session")
def iris() -> tuple[np.ndarray, np.ndarray]:
    return load_iris(return_X_y=True)


@pytest.fixture(scope="session")
def ring() -> tuple[np.ndarray, np.ndarray]:
    """12,000 rows of six features."""
    return make_ringnorm(12_000, 6, random_state=0)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A browser without a window; tests that need it are skipped where there is none."""
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    path = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if path is None:
        pytest.skip("no chromium on PATH")
    flags = "no-sandbox disable-gpu disable-background-networking disable-component-update disable-sync"
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=path, args=[f"--{flag}" for flag in [*flags.split(), "no-first-run"]]
        )
        yield browser
        browser.close()


@pytest.fixture
def open_file(browser: Any) -> Iterator[Callable[..., Any]]:
    """Open files in the browser; they must cause no errors and request nothing but themselves."""
    complaints: list[str] = []
    requests: list[str] = []
    opened: list[tuple[str, Any]] = []

    def open_file(path: Path, width: int = 1200, scheme: str = "light", touch: bool = False) -> Any:
        page = browser.new_page(
            viewport={"width": width, "height": 900}, color_scheme=scheme, has_touch=touch
        )
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda request: requests.append(request.url))
        page.goto(path.as_uri())
        opened.append((path.as_uri(), page))
        return page

    yield open_file
    for _, page in opened:
        page.close()
    assert complaints == []
    assert [url for url in requests if not url.startswith("data:")] == [url for url, _ in opened]
