"""Errors found in a case, and a context manager that records them during fits and predictions."""

from __future__ import annotations

import re
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

ROOT = Path(__file__).resolve().parents[1]

# Words that name an argument in an error message: arguments of this package, and of scikit-learn's splitters
# and checks.
_ARGUMENTS = re.compile(
    r"\b(X|y|K|sample_weight|class_weight|kernel|gamma|coef0|degree|C|Cs|lam|lams|lam_scale|nu|tol|max_iter|bound|"
    r"working_set|calibration|box|prune|cache_size|n_jobs|random_state|alpha0|cv|n_splits|scoring|selection|"
    r"estimator|epsilon|delta_k|max_points|n_candidates|refit|algorithm|n_points|"
    r"threshold|retrain|fit_intercept|warm_start|labels?|classes|features?|columns?|scale|relevance|update|sample\(s\)|samples)\b"
)


@dataclass
class Findings:
    """Errors found in one case; documented exceptions are not errors."""

    about: str = ""
    found: list[str] = field(default_factory=list)
    fits: int = 0
    warned: list[str] = field(default_factory=list)  # messages of the last watched call
    announce: Callable[[str], None] = lambda about: None

    def start(self, about: str) -> None:
        """Print the name of the next step, before it can fail."""
        self.about = about
        self.announce(about)

    def add(self, what: str) -> None:
        if what not in self.found:
            self.found.append(what)

    def finite(self, what: str, values: Any) -> None:
        values = values.data if sparse.issparse(values) else np.asarray(values)
        if values.dtype.kind == "f" and not np.isfinite(values).all():
            self.add(f"non-finite: {what} has {(~np.isfinite(values)).sum()} of {values.size}")

    @contextmanager
    def watch(self, what: str, *, tame: bool) -> Iterator[None]:
        """Record NumPy's warnings and uninformative exceptions; raise Stopped after any exception."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                yield
            except Exception as error:
                if not isinstance(error, (ValueError, TypeError, MemoryError)):
                    self.add(f"{what}: {type(error).__name__}: {error} at {_place(error)}")
                elif not _ARGUMENTS.search(str(error)):
                    self.add(f"{what}: names no argument: {type(error).__name__}: {error} at {_place(error)}")
                elif tame:
                    self.add(f"{what}: refused: {type(error).__name__}: {error} at {_place(error)}")
                raise Stopped from error
            finally:
                self.warned = [str(warning.message) for warning in caught]
                for warning in caught:
                    # check_array sums all values to detect infinite ones, and warns if the sum overflows
                    if "encountered in reduce" in str(warning.message):
                        continue
                    if issubclass(warning.category, RuntimeWarning):
                        place = f"{Path(warning.filename).name}:{warning.lineno}"
                        self.add(f"{what}: RuntimeWarning: {warning.message} at {place}")


class Stopped(Exception):
    """Exception that ends a case after its finding was recorded."""


def _place(error: BaseException) -> str:
    """Return the innermost line of this repository in the traceback of an error."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if str(ROOT / "src") in frame.filename] or frames
    return f"{Path(ours[-1].filename).name}:{ours[-1].lineno}"


def snapshot(given: Any) -> list[bytes]:
    """Return a copy of the content of an argument, to check later that a call did not modify it."""
    if given is None:
        return []
    if sparse.issparse(given):
        parts = [
            getattr(given, name)
            for name in ("data", "indices", "indptr", "row", "col")
            if hasattr(given, name)
        ]
        return [np.asarray(part).tobytes() for part in parts]
    if hasattr(given, "to_numpy"):
        given = given.to_numpy()
    array = np.asarray(given)
    return [array.tobytes() if array.dtype != object else repr(array.tolist()).encode()]
