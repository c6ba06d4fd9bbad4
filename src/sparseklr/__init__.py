"""Sparse kernel logistic regression: few points kept, probabilities one can act on."""

# ruff: noqa: F403, F405
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any

__all__ = [
    "AccuracySparsityDisplay",
    "CompactKLR",
    "ExplanationDisplay",
    "HalfKLR",
    "ImportVectorMachine",
    "KLRPath",
    "PathInterrupted",
    "ProbabilityReport",
    "PrototypesDisplay",
    "RelevanceDisplay",
    "ReliabilityDisplay",
    "Settings",
    "Solution",
    "SolveInterrupted",
    "SparseKLR",
    "SparseKLRCV",
    "Status",
    "ThresholdedKLR",
    "expected_calibration_error",
    "half_klr_path",
    "klr_path",
    "lam_for_nu",
    "load",
    "nu_bar",
    "probability_report",
    "saturation_bound",
    "save",
    "solve_dual",
    "tabular_pipeline",
]

try:
    __version__ = version("sparseklr")
except PackageNotFoundError:  # run from the sources
    __version__ = "0+unknown"

_NEED_TABLES = ("load", "save", "tabular_pipeline")  # and the packages of the extra sparseklr[tables]

if TYPE_CHECKING:
    from ._api import *
    from .tabular import load, save, tabular_pipeline
else:

    def __getattr__(name: str) -> Any:
        """Load a public name or a public module on first use.

        ``sparseklr --help`` need not load scikit-learn; ``sparseklr.datasets`` needs no import of its own.
        """
        if name in _NEED_TABLES:
            try:
                globals().update(
                    {public: getattr(import_module(".tabular", __name__), public) for public in _NEED_TABLES}
                )
            except ModuleNotFoundError as error:
                raise ModuleNotFoundError(
                    f'sparseklr.{name} needs {error.name}: pip install "sparseklr[tables]"', name=error.name
                ) from error
            return globals()[name]
        if name in __all__:
            api = import_module("._api", __name__)
            globals().update(
                {public: getattr(api, public) for public in __all__ if public not in _NEED_TABLES}
            )
            return globals()[name]
        if not name.startswith("_") and find_spec(f"{__name__}.{name}"):
            return import_module(f".{name}", __name__)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__() -> list[str]:
        modules = (module.name for module in iter_modules(__path__) if not module.name.startswith("_"))
        return sorted({*globals(), *__all__, *modules})
