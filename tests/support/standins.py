"""Data for the tests: the published benchmark sets if they are available, and stand-ins otherwise.

Two of the twelve sets need no file: ``wisconsin`` comes with scikit-learn, and ``monk2`` follows from its
definition. For the others a stand-in of the same shape and class counts is drawn from Breiman's generators.
It replaces the published set in tests of reading and running, which do not depend on the values; tests that
compare with published values are marked with ``needs_published``.
"""

from __future__ import annotations

import os
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer

from paper.datasets import BENCHMARKS
from sparseklr.datasets import make_ringnorm, make_twonorm, make_waveform

HOME = Path(os.environ.get("SPARSEKLR_DATA") or Path(__file__).resolve().parents[3] / "shared" / "data")
PUBLISHED = any(HOME.glob("*.csv*"))
needs_published = pytest.mark.skipif(
    not PUBLISHED, reason="about the published values: set SPARSEKLR_DATA to a directory of <name>.csv.gz"
)


_ARENA = HOME / "arena"
needs_arena = pytest.mark.skipif(
    not any(_ARENA.glob("*.csv.gz")), reason="about tables in the folder arena of SPARSEKLR_DATA"
)


def arena_table(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Numeric features and labels of a table of the arena."""
    rows = np.genfromtxt(_ARENA / f"{name}.csv.gz", delimiter=",", skip_header=1, dtype=str)
    return rows[:, :-1].astype(float), rows[:, -1]


def available(*published: str) -> list[str]:
    """Names of sets for a test of real data: three that need no file, and more where there are files."""
    return ["monk2", "wisconsin", "waveform", *(published if PUBLISHED else ())]


def stand_in(name: str) -> tuple[np.ndarray, list[str]]:
    """Features and original labels of a set with the shape and the class counts of the published one."""
    spec = BENCHMARKS[name]
    if name == "wisconsin":
        X, y = load_breast_cancer(return_X_y=True)
        return X, np.where(y == 0, "M", "B").tolist()
    if name == "monk2":
        X = np.array(
            list(product((1, 2, 3), (1, 2, 3), (1, 2), (1, 2, 3), (1, 2, 3, 4), (1, 2))), dtype=float
        )
        _, a2, _, a4, a5, _ = X.T
        return X, [str(int(label)) for label in ((a5 == 3) & (a4 == 1)) | ((a5 != 4) & (a2 != 3))]
    if name == "waveform":
        X, y = make_waveform(2 * spec.n_samples, random_state=0)
    else:
        make = make_ringnorm if name == "ring" else make_twonorm
        X, y = make(3 * spec.n_samples, spec.n_features, random_state=0)
        # the label that becomes 1 has the generator's class 1
        y = np.array([label for label in spec.class_counts if label != spec.positive] + [spec.positive])[y]
    wanted = {label: np.flatnonzero(y.astype(str) == label)[:n] for label, n in spec.class_counts.items()}
    rows = np.sort(np.concatenate(list(wanted.values())))
    return X[rows].round(3), y[rows].astype(str).tolist()


def write_stand_in(name: str, folder: Path) -> Path:
    """The stand-in as ``<name>.csv``, the plain form in which ``load_benchmark`` takes a set."""
    X, labels = stand_in(name)
    header = ",".join([*(f"f{j}" for j in range(X.shape[1])), "target"])
    rows = (",".join([*map(repr, row), label]) for row, label in zip(X.tolist(), labels, strict=True))
    path = folder / f"{name}.csv"
    path.write_text("\n".join([header, *rows]) + "\n")
    return path


if PUBLISHED:
    DATA = HOME
else:
    _folder = TemporaryDirectory(prefix="sparseklr-stand-ins-")  # removed at the end of the process
    DATA = Path(_folder.name)
    for _name in ("ionosphere", "sonar", "monk2"):  # those of --quick
        write_stand_in(_name, DATA)
