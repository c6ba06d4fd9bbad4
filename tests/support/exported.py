"""Models to export, and the runtimes with which users run exported models."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sparseklr import SKLR, SKLRCV, CompactKLR, SparseKLR
from sparseklr.baselines import HalfKLR, ImportVectorMachine, ThresholdedKLR

KERNELS = {
    "rbf": {},
    "linear": {"kernel": "linear"},
    "poly": {"kernel": "poly", "degree": 2, "coef0": 0.5},
    "laplacian": {"kernel": "laplacian"},
    "sigmoid": {"kernel": "sigmoid", "gamma": 0.01},
}
CALIBRATIONS = ("sigmoid", "link", None)
OTHERS = {
    "SKLRCV": SKLRCV(Cs=(10.0, 100.0), lams=(0.1,), cv=2),
    "CompactKLR": CompactKLR(n_points=6, C=10.0),
    "ThresholdedKLR": ThresholdedKLR(n_points=10),
    "ImportVectorMachine": ImportVectorMachine(),
    "HalfKLR": HalfKLR(C=10),
}


def two_classes() -> tuple[np.ndarray, np.ndarray]:
    """150 tumours, eight of the features, labels 0 and 1."""
    X, y = load_breast_cancer(return_X_y=True)
    return X[:150, :8], y[:150]


def three_classes() -> tuple[np.ndarray, np.ndarray]:
    """Irises, with labels that are text and need quoting."""
    X, y = load_iris(return_X_y=True)
    return X, np.array(['"setosa"??/', "versicolour\\", "virginica é"])[y]


def cases() -> Iterator[tuple[str, Any, bool]]:
    """Name, estimator, and whether to fit it to more than two classes."""
    for several in (False, True):
        classes = "three" if several else "two"
        for kernel, options in KERNELS.items():
            yield f"{kernel}-{classes}", SparseKLR(**options), several
            for calibration in CALIBRATIONS:
                estimator = SKLR(C=100, calibration=calibration, **options)
                yield f"{kernel}-{calibration}-{classes}", estimator, several
        for name, estimator in OTHERS.items():
            yield f"{name}-{classes}", estimator, several


CASES = [pytest.param(estimator, several, id=name) for name, estimator, several in cases()]


def fitted(estimator: Any, several: bool) -> tuple[Any, np.ndarray]:
    """A fitted pipeline and rows to predict, some of them far from the training data."""
    X, y = three_classes() if several else two_classes()
    far = X[:10] + 5 * X.std(axis=0)
    return make_pipeline(StandardScaler(), estimator).fit(X, y), np.vstack([X, far])


# -- runners ----------------------------------------------------------------------------------


def run_onnx(graph: Any, inputs: Any) -> tuple[np.ndarray, np.ndarray]:
    """Labels and probabilities by onnxruntime."""
    import onnxruntime

    session = onnxruntime.InferenceSession(graph.SerializeToString(), providers=["CPUExecutionProvider"])
    label, probabilities = session.run(None, inputs if isinstance(inputs, dict) else {"X": inputs})
    return label, probabilities


_MAIN = """
#include <stdio.h>
#include "model.h"
int main(void)
{
    REAL x[MODEL_N_FEATURES], proba[MODEL_N_CLASSES];
    for (;;) {
        int j;
        for (j = 0; j < MODEL_N_FEATURES; ++j) if (scanf(FORMAT, &x[j]) != 1) return 0;
        model_predict_proba(x, proba);
        printf(PLACEHOLDER "\\n", model_classes[model_predict(x)]);
        for (j = 0; j < MODEL_N_CLASSES; ++j) printf("%.17g ", (double)proba[j]);
        printf("\\n");
    }
}
"""


def run_c(header: str, X: np.ndarray, home: Path, real: str = "double") -> tuple[list[str], np.ndarray]:
    """Labels (as printed) and probabilities by the header, compiled with every warning an error."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    (home / "model.h").write_text(header, encoding="utf-8")
    placeholder = re.search(r'printf\("(%\w+)', header)
    assert placeholder
    formats = {"REAL": real, "FORMAT": '"%lf"' if real == "double" else '"%f"'}
    formats["PLACEHOLDER"] = f'"{placeholder[1]}"'
    defines = [f"-D{name}={value}" for name, value in formats.items()]
    warnings = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-Wconversion", "-Wdouble-promotion"]
    (home / "main.c").write_text(_MAIN)
    build = [compiler, *warnings, *defines, "-O1", "main.c", "-o", "main", "-lm"]
    subprocess.run(build, cwd=home, check=True)
    rows = "\n".join(" ".join(map(repr, row)) for row in X.tolist())
    lines = subprocess.run([home / "main"], input=rows, capture_output=True, text=True, check=True).stdout
    labels, values = lines.splitlines()[::2], lines.splitlines()[1::2]
    return labels, np.array([[float(value) for value in line.split()] for line in values])


def run_json(text: str, X: np.ndarray) -> np.ndarray:
    """Probabilities by the reader of the documentation, in node."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("no node")
    page = (Path(__file__).resolve().parents[2] / "docs" / "export.md").read_text(encoding="utf-8")
    reader = re.search(r"```javascript\n(.*?)```", page, re.S)
    assert reader
    program = f"{reader[1]}\nconst m = {text};\nconst X = {json.dumps(X.tolist())};\n"
    program += "console.log(JSON.stringify(X.map(x => predictProba(m, x))));"
    run = subprocess.run([node, "-"], input=program, capture_output=True, text=True, check=True)
    return np.array(json.loads(run.stdout))
