"""Log-loss of SparseKLR on the arena's tables for each scale, relative to that of ``scale="auto"``.

Run as ``python -m benchmarks.table_scale``; "rule" is the scaling of CompactKLR.
"""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.metrics import log_loss
from sklearn.model_selection import StratifiedShuffleSplit
from sklearn.pipeline import Pipeline

from sparseklr import SparseKLR, tabular_pipeline
from sparseklr.scaling import Scaling
from sparseklr.tables.features import TableFeatures

from .common import DATA

SCALES = ("auto", "standard", "squash", "quantile", "rule")


class RuleFeatures(TableFeatures):
    """Features whose numbers are scaled as CompactKLR scales them."""

    def fit(self, X, y=None, sample_weight=None):
        super().fit(X, y, sample_weight)
        if self.imputer_ is not None:
            filled = self.imputer_.transform(self._parts(X)[0])
            self.scaler_ = Scaling.of(filled, np.ones(len(filled)))
        return self


def pipeline(scale: str) -> Pipeline:
    """A pipeline with the given scale."""
    model = tabular_pipeline(SparseKLR(), scale="standard" if scale == "rule" else scale)
    return model.set_params(features=RuleFeatures("standard")) if scale == "rule" else model


def losses(path, splits: int = 6, rows: int = 1500) -> pd.DataFrame:
    """The log-losses on a table, with a row for each split and a column for each scale."""
    frame = pd.read_csv(path, keep_default_na=False, na_values=[""])
    y = frame.pop("target").astype(str).to_numpy()
    if not any(kind.kind in "if" for kind in frame.dtypes):
        return pd.DataFrame(columns=SCALES)
    n_train = min(rows, int(0.7 * len(y)))
    split = StratifiedShuffleSplit(splits, train_size=n_train, test_size=len(y) - n_train, random_state=0)
    found = []
    for train, test in split.split(frame, y):
        fitted = {scale: pipeline(scale).fit(frame.iloc[train], y[train]) for scale in SCALES}
        found.append(
            {
                scale: log_loss(y[test], model.predict_proba(frame.iloc[test]), labels=model.classes_)
                for scale, model in fitted.items()
            }
        )
    return pd.DataFrame(found, columns=SCALES)


def main() -> None:
    warnings.simplefilter("ignore")
    found = {}
    for path in sorted((Path(DATA) / "arena").glob("*.csv.gz")):
        table = losses(path)
        if len(table):
            found[path.name] = np.log(table.div(table["auto"], axis=0)).mean()
            print(path.name, np.exp(found[path.name]).round(3).to_dict(), flush=True)
    ratios = pd.DataFrame(found).T
    summary = {"ratio": np.exp(ratios.mean()), "error": ratios.std() / len(ratios) ** 0.5, "largest": np.exp(ratios.max())}  # fmt: skip
    print(pd.DataFrame(summary).round(3))


if __name__ == "__main__":
    main()
