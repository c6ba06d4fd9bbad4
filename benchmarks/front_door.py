"""``sparseklr fit --model sparse`` on messy files, compared with ``SparseKLR`` on clean arrays.

Eight of the twelve sets are written as messy CSV files of the kinds that occur in practice: with semicolons and decimal
commas, an index, row names, an identifier, currency and percent signs, unreadable values, other encodings, or empty and
constant columns. ``SparseKLR()`` gets the same rows as clean arrays. Both models are fitted to the same training rows,
and their log-loss and accuracy are measured on the same test rows, which the command line reads from equally messy
files. On every set, the ratio of the mean log-losses may exceed 1.00 by at most its standard error over the splits.
``--sets``, ``--rows`` and ``--splits`` run a part of the benchmark.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.metrics import log_loss
from sklearn.model_selection import StratifiedShuffleSplit

from paper.datasets import load_benchmark
from sparseklr import SparseKLR
from sparseklr.cli import main as sparseklr

from .common import DATA, show

Quirk = Callable[[pd.DataFrame], bytes]


def semicolons(frame: pd.DataFrame) -> bytes:
    return frame.to_csv(sep=";", decimal=",", index=False).encode()


def with_index(frame: pd.DataFrame) -> bytes:
    return frame.to_csv().encode()


def with_identifier(frame: pd.DataFrame) -> bytes:
    numbers = np.random.default_rng(len(frame)).permutation(len(frame)) + 100_001
    return frame.assign(case_id=numbers).to_csv(sep="\t", index=False).encode("utf-16")


def with_odd_tokens(frame: pd.DataFrame) -> bytes:
    """Write a file in which 1% of the values in every fifth column cannot be read as numbers."""
    frame = frame.astype(object)
    for k, name in enumerate(frame.columns[:-1:5]):
        frame.iloc[7 + k :: 101, 5 * k] = ("n/k", "-", "unknown")[k % 3]
        frame[name] = frame[name].astype(str)
    return frame.to_csv(index=False).encode()


def with_money(frame: pd.DataFrame) -> bytes:
    first, second = frame.columns[:2]
    money, share = frame[first].map("${:,.4f}".format), frame[second].map("{:.4f}%".format)
    return frame.assign(**{first: money, second: share}).to_csv(index=False).encode()


def windows(frame: pd.DataFrame) -> bytes:
    renamed = frame.rename(columns={frame.columns[0]: "Größe"}).assign(Straße="", Art="Prüfung")
    return renamed.to_csv(sep=";", decimal=",", index=True).encode("cp1252")


def names_of_rows(frame: pd.DataFrame) -> bytes:
    """Write row names without a header, as R does."""
    return frame.set_axis([f"r{k}" for k in range(len(frame))]).to_csv().removeprefix(",").encode()


def padded(frame: pd.DataFrame) -> bytes:
    return frame.to_csv(index=False, sep="|").replace("|", " | ").encode()


QUIRKS: dict[str, Quirk] = {
    "ionosphere": with_index,
    "wisconsin": semicolons,
    "diabetes": with_odd_tokens,
    "banknote": windows,
    "monk2": padded,
    "spambase": with_identifier,
    "magic": with_money,
    "waveform": names_of_rows,
}


def by_command(train: pd.DataFrame, test: pd.DataFrame, write: Quirk) -> tuple[float, float]:
    """Run ``sparseklr fit`` and ``evaluate``; return the log-loss and the accuracy."""
    with tempfile.TemporaryDirectory() as folder:
        paths = {name: str(Path(folder) / f"{name}.csv") for name in ("train", "test")}
        Path(paths["train"]).write_bytes(write(train))
        Path(paths["test"]).write_bytes(write(test))
        model = str(Path(folder) / "model.sklr")
        _call("fit", paths["train"], "--target", "target", "--model", "sparse", "-o", model, "--json")
        found = _call("evaluate", model, paths["test"], "--json")
    return found["log_loss"], found["accuracy"]


def _call(*argv: str) -> dict:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = sparseklr(list(argv))
    if code:
        raise RuntimeError(err.getvalue())
    return json.loads(out.getvalue())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", nargs="*", default=list(QUIRKS), help="data sets to use")
    parser.add_argument("--rows", type=int, default=800, help="maximum number of training rows")
    parser.add_argument(
        "--splits", type=int, default=10, help="number of random splits, with 70%% of the rows for training"
    )
    args = parser.parse_args()
    rows, ratios, worse = [], [], []
    for name in args.sets:
        data = load_benchmark(name, data_home=DATA)
        X, y = np.asarray(data.data), np.asarray(data.target)
        frame = pd.DataFrame(X, columns=[f"f{k}" for k in range(X.shape[1])]).assign(target=y)
        size = min(args.rows, round(0.7 * len(y)))
        ours, clean = [], []
        for train, test in StratifiedShuffleSplit(args.splits, train_size=size, random_state=0).split(X, y):
            test = test[:4000]
            found = by_command(
                frame.iloc[train].reset_index(drop=True),
                frame.iloc[test].reset_index(drop=True),
                QUIRKS[name],
            )
            ours.append(found)
            model = SparseKLR().fit(X[train], y[train])
            clean.append((log_loss(y[test], model.predict_proba(X[test])), model.score(X[test], y[test])))
        loss, accuracy = np.array(ours, dtype=float).T
        clean_loss, clean_accuracy = np.array(clean).T
        ratio = loss.mean() / clean_loss.mean()
        error = np.std(loss - ratio * clean_loss) / clean_loss.mean() / np.sqrt(max(len(loss) - 1, 1))
        ratios.append(ratio)
        if ratio > 1 + max(error, 0.005):
            worse.append(name)
        rows.append(
            [
                name,
                QUIRKS[name].__name__.replace("_", " "),
                float(loss.mean()),
                float(clean_loss.mean()),
                f"{ratio:.3f} ± {error:.3f}",
                float(accuracy.mean()),
                float(clean_accuracy.mean()),
            ]
        )
    show(
        "sparseklr fit on messy files against SparseKLR on clean arrays, means over the splits",
        ["set", "file", "log-loss", "clean", "ratio", "accuracy", "clean"],
        rows,
    )
    means = np.mean([[row[2], row[3]] for row in rows], axis=0)
    print(
        f"ratio above 1.00 by more than its standard error: {', '.join(worse) or 'none'} of {len(rows)} sets"
    )
    print(
        f"mean log-loss {means[0]:.4f}, clean {means[1]:.4f}; "
        f"geometric mean of the ratios {np.exp(np.mean(np.log(ratios))):.3f}"
    )


if __name__ == "__main__":
    main()
