"""Progress bars for long fits, on terminals and in notebooks."""

from __future__ import annotations

import math
import os
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

# Without a terminal or tqdm, progress is printed in lines, at least this number of seconds apart.
SECONDS_BETWEEN_LINES = 2.0


@dataclass(frozen=True)
class Iteration:
    """Progress of an iterative method; the compiled solver reports the same three numbers."""

    n_iter: int  # number of iterations so far
    violation: float  # measure of convergence that is compared with the tolerance
    seconds: float  # time since the start


class ProgressBar:
    """Solver callback that shows progress towards convergence.

    It shows the violation of the optimality conditions relative to the tolerance, on a logarithmic scale.

    On a terminal or in a notebook, it shows a bar with tqdm, if tqdm is installed (``sparseklr[progress]``).
    Otherwise, it prints a line on standard error every two seconds. It shows nothing on a terminal that
    reports a width of 0, as some build servers do.

    Examples
    --------
    >>> with ProgressBar("fit", tolerance=1e-3, show=False) as progress:
    ...     pass  # solve_dual(..., callback=progress)
    """

    def __init__(self, title: str, tolerance: float, show: bool = True) -> None:
        self.title, self.tolerance = title, tolerance
        self.show = show and not (sys.stderr.isatty() and _width() == 0)
        self._start: float | None = None
        self._done = 0.0
        self._seconds = 0.0
        self._last_line = -math.inf
        self._bar: Any = None

    def __enter__(self) -> Self:
        if self.show and (sys.stderr.isatty() or "ipykernel" in sys.modules):
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # tqdm warns if ipywidgets is not installed
                    from tqdm.auto import tqdm
            except ImportError:
                return self
            form = "{desc} {percentage:3.0f}%|{bar}| {elapsed}{postfix}"
            self._bar = tqdm(total=100, desc=self.title, bar_format=form, mininterval=0)
        return self

    def __call__(self, at: Iteration) -> bool:
        if not self.show:
            return False
        self._start = self._start or max(at.violation, self.tolerance * 1.001)
        # The violation may rise, but the displayed progress must not fall.
        progress = math.log(self._start / at.violation) / math.log(self._start / self.tolerance)
        self._done = max(self._done, min(1.0, progress))
        self._draw(f"{at.n_iter} steps", at.seconds)
        return False

    def _draw(self, text: str, seconds: float) -> None:
        self._seconds = seconds
        text = ", ".join([text, *time_left(self._done, seconds)])
        if self._bar is not None:
            self._bar.n = round(100 * self._done)
            self._bar.set_postfix_str(text)
        elif seconds - self._last_line >= SECONDS_BETWEEN_LINES:
            self._last_line = seconds
            print(f"{self.title} {self._done:4.0%}, {text}", file=sys.stderr)

    def __exit__(self, kind: type | None, value: BaseException | None, trace: TracebackType | None) -> None:
        if self._bar is not None:
            if kind is None:
                self._bar.n = 100
                self._bar.set_postfix_str("")
            self._bar.close()
        elif kind is None and self._last_line >= 0:
            print(f"{self.title} 100%, {self._seconds:.0f} s", file=sys.stderr)


def _width() -> int:
    """Return the number of columns of the terminal, or 80 if it is unknown."""
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns
    except (OSError, ValueError):
        return 80


def time_left(done: float, seconds: float) -> list[str]:
    """Return a list with a text about the remaining time; it is empty if the time cannot be estimated yet.

    Examples
    --------
    >>> time_left(0.25, 10.0), time_left(0.5, 300.0), time_left(0.01, 2.0)
    (['about 30 s left'], ['about 5 min left'], [])
    """
    if done < 0.05 or done >= 1 or seconds < 1:
        return []
    left = seconds * (1 - done) / done
    return [f"about {left:.0f} s left" if left < 100 else f"about {left / 60:.0f} min left"]


# A function that is called with the name of the current step of a fit and the finished fraction of the fit.
Report = Callable[[str, float], None]


def silent(name: str, fraction: float) -> None:
    """Do nothing: a ``Report`` for fits without a progress bar."""


def between(report: Report, start: float, end: float) -> Report:
    """Return a ``Report`` for a part of a fit, which begins and ends at the given fractions of the fit."""
    return lambda name, fraction: report(name, start + (end - start) * fraction)


class StageProgressBar(ProgressBar):
    """Progress bar with the name of the current step of a fit, the finished fraction and the time left."""

    def __init__(self, title: str, show: bool = True) -> None:
        super().__init__(title, tolerance=1.0, show=show)
        self._began = time.perf_counter()

    def stage(self, name: str, fraction: float) -> None:
        self._done = max(self._done, min(1.0, fraction))
        if self.show:
            self._draw(name, time.perf_counter() - self._began)


class GridProgressBar(StageProgressBar):
    """Progress bar with the number of finished fits and the expected number, which a search may exceed."""

    def __init__(self, title: str, total: int, show: bool) -> None:
        super().__init__(title, show)
        self._total, self._count = total, 0

    def advance(self) -> None:
        self._count += 1
        expected = f" of {self._total}" if self._count <= self._total else ""
        self.stage(f"{self._count}{expected} fits", self._count / self._total)
