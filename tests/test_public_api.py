"""The public names, frozen: a change here is a change for users."""

import pkgutil
import subprocess
import sys
from importlib import import_module

import pytest

import sparseklr

NAMES = """
AccuracySparsityDisplay CompactKLR ExplanationDisplay KLRPath PathInterrupted
ProbabilityReport PrototypesDisplay RelevanceDisplay ReliabilityDisplay Settings Solution SolveInterrupted
SparseKLR SparseKLRCV Status
expected_calibration_error klr_path lam_for_nu load nu_bar probability_report
saturation_bound save solve_dual tabular_pipeline
"""
ROOMS = "dual probability estimators baselines inspection datasets tabular"


def test_public_names() -> None:
    assert sparseklr.__all__ == NAMES.split()
    assert all(getattr(sparseklr, name).__doc__ for name in sparseklr.__all__)
    assert not hasattr(sparseklr, "paper_saturation_bound")  # wrong as printed: only in sparseklr.dual.theory


def test_every_public_module_is_an_attribute() -> None:
    modules = [module.name for module in pkgutil.iter_modules(sparseklr.__path__) if module.name[0] != "_"]
    assert modules
    assert set(modules) <= set(dir(sparseklr))
    for name in modules:  # as where nothing has loaded it before
        assert sparseklr.__getattr__(name) is import_module(f"sparseklr.{name}")
    script = "import sparseklr; print(len(sparseklr.datasets.BENCHMARKS))"
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, text=True).stdout == "12\n"
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        sparseklr.nothing  # noqa: B018


def test_import_loads_nothing_heavy() -> None:
    script = "import sparseklr, sys; print([name for name in ('numpy', 'sklearn') if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, text=True).stdout == "[]\n"


@pytest.mark.parametrize("room", ROOMS.split())
def test_a_folder_says_what_lives_there_and_exports_it(room) -> None:
    module = import_module(f"sparseklr.{room}")
    assert len(module.__doc__.strip().splitlines()) >= 3
    assert all(hasattr(module, name) for name in module.__all__)
