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
    "expected_calibration_error",
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

# Names that need an extra: the package that has them, and the extra.
_WITH_EXTRA = {
    "load": ("model_files", "files"),
    "save": ("model_files", "files"),
    "tabular_pipeline": ("tabular", "tables"),
}

if TYPE_CHECKING:
    from ._api import *
    from .model_files import load, save
    from .tabular import tabular_pipeline
else:

    def __getattr__(name: str) -> Any:
        """Load a public name or a public module on first use.

        ``sparseklr --help`` need not load scikit-learn; ``sparseklr.datasets`` needs no import of its own.
        """
        if name in _WITH_EXTRA:
            package, extra = _WITH_EXTRA[name]
            try:
                globals()[name] = getattr(import_module(f".{package}", __name__), name)
            except ModuleNotFoundError as error:
                missing = (error.name or "").partition(".")[0]
                raise ModuleNotFoundError(
                    f'sparseklr.{name} needs {missing}: pip install "sparseklr[{extra}]"', name=error.name
                ) from error
            return globals()[name]
        if name in __all__:
            api = import_module("._api", __name__)
            globals().update(
                {public: getattr(api, public) for public in __all__ if public not in _WITH_EXTRA}
            )
            return globals()[name]
        if not name.startswith("_") and find_spec(f"{__name__}.{name}"):
            return import_module(f".{name}", __name__)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__() -> list[str]:
        modules = (module.name for module in iter_modules(__path__) if not module.name.startswith("_"))
        return sorted({*globals(), *__all__, *modules})
