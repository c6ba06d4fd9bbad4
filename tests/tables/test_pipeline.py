"""Features, scales and the pipeline for data frames; model files from Python and from the command line."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.datasets import make_moons
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

import sparseklr
from sparseklr import SKLR, SKLRCV, CompactKLR, SparseKLR, load, save, tabular_pipeline
from sparseklr.baselines import HalfKLR, ImportVectorMachine, ThresholdedKLR
from sparseklr.cli import main
from sparseklr.persistence import ModelFileError
from sparseklr.tables.features import DATE_PARTS, TableFeatures
from sparseklr.tables.reader import TableReader

pytestmark = pytest.mark.filterwarnings("ignore::sparseklr.tables.cells.TableWarning")


def table(n: int = 200, seed: int = 0) -> tuple[pd.DataFrame, np.ndarray]:
    """Return a table with every kind of column and missing values; only the first three columns are
    informative."""
    rng = np.random.default_rng(seed)
    X, y = make_moons(n, noise=0.2, random_state=seed)
    frame = pd.DataFrame(
        {
            "a": X[:, 0].round(4).astype(str),
            "b": X[:, 1],
            "city": rng.choice(["Oslo", "Rome", "Lima"], n),
            "when": pd.date_range("2020-01-01", periods=n, freq="37h"),
            "name": [
                f"{first} {last}" for first, last in zip(*rng.choice(list("abcdefgh"), (2, n)), strict=True)
            ],
        }
    )
    frame.loc[5, "a"] = "n/k"
    frame.loc[::20, "b"] = np.nan
    frame.loc[::21, "city"] = None
    frame.loc[::22, "when"] = pd.NaT
    frame.loc[::23, "name"] = None
    return frame, np.where(y == 1, "yes", "no")


# -- features -----------------------------------------------------------------------------------


def test_features() -> None:
    """Standardised numbers and parts of dates, indicators, categories, and cross-fitted scores of text."""
    frame, y = table()
    read = TableReader().fit_transform(frame, y)
    features = TableFeatures()
    made = pd.DataFrame(features.fit_transform(read, y), columns=features.get_feature_names_out())
    dates = [f"when_{part}" for part in DATE_PARTS]
    assert made.columns.tolist() == [
        *("a", "b", *dates, "a_missing", "b_missing", "when_missing"),
        *("city_Lima", "city_Oslo", "city_Rome", "city_None", "name_score"),
    ]
    when = frame["when"].dt
    parts = {"year": when.year, "month": when.month, "day": when.day, "hour": when.hour}
    parts["weekday"] = when.day_of_week + 1
    for part, values in parts.items():
        filled = values.fillna(values.median()).to_numpy(dtype=float)
        expected = (filled - filled.mean()) / (filled.std() or 1)
        np.testing.assert_allclose(made[f"when_{part}"], expected, atol=1e-9)
    assert made["b_missing"].to_numpy().nonzero()[0].tolist() == list(range(0, 200, 20))
    again = pd.DataFrame(features.transform(read), columns=made.columns)
    np.testing.assert_array_equal(again.iloc[:, :-1], made.iloc[:, :-1])
    assert not np.allclose(again["name_score"], made["name_score"])
    assert np.array_equal(
        features.scores_[0].decision_function(frame["name"].fillna("")), again["name_score"]
    )


def test_text_log_odds_of_a_row_do_not_depend_on_its_label() -> None:
    """If text is unrelated to the classes, its log-odds are uninformative for new and training rows."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 400)
    text = pd.DataFrame({"t": [f"{a} {b}" for a, b in rng.integers(0, 300, (400, 2))]})
    features = TableFeatures()
    crossed, own = features.fit_transform(text, y)[:, 0], features.transform(text)[:, 0]
    assert abs(roc_auc_score(y, crossed) - 0.5) < 0.1
    assert roc_auc_score(y, own) > 0.9


@pytest.mark.parametrize("columns", [["b"], ["when"], ["city"], ["name"], ["city", "b"]])
def test_table_with_a_single_column_of_any_kind(columns: list[str]) -> None:
    frame, y = table()
    model = tabular_pipeline().fit(frame[columns], y)
    prob = model.predict_proba(frame[columns])
    assert np.isfinite(prob).all()
    assert len(model[:-1].get_feature_names_out()) == model[-1].n_features_in_
    assert (model["features"].scaler_ is None) == (set(columns) <= {"city", "name"})


@pytest.mark.slow
def test_missing_and_new_values_at_prediction() -> None:
    """A column may be missing in every row, categories may be new, and dates may come as text."""
    frame, y = table()
    model = tabular_pipeline().fit(frame, y)
    for name in frame.columns:
        assert np.isfinite(model.predict_proba(frame.assign(**{name: None}))).all()
    assert np.isfinite(model.predict_proba(frame.assign(city="Quito", name="zzz"))).all()
    as_text = frame.assign(when=frame["when"].dt.strftime("%Y-%m-%d %H:%M:%S"))
    np.testing.assert_array_equal(model.predict_proba(as_text), model.predict_proba(frame))


def test_large_numbers_keep_their_digits() -> None:
    """Times that differ by less than a minute, which float32 cannot distinguish, are kept apart."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=200)
    frame = pd.DataFrame({"t": 1.7e9 + x})
    made = tabular_pipeline()[:-1].fit_transform(frame, x > 0)
    np.testing.assert_allclose(made[:, 0], (x - x.mean()) / x.std(), atol=1e-6)


def test_features_do_not_depend_on_the_layout_in_memory() -> None:
    """Features are bit-equal, since any bit may change which model is chosen."""
    X = np.random.default_rng(0).normal(size=(500, 4))
    y = X[:, 0] > 0
    names = list("abcd")
    by_rows = pd.DataFrame(np.ascontiguousarray(X), columns=names)
    by_columns = pd.DataFrame({name: X[:, k] for k, name in enumerate(names)})
    expected = StandardScaler().fit_transform(X)
    for frame in (by_rows, by_columns, pl.from_pandas(by_rows)):
        made = tabular_pipeline()[:-1].fit_transform(frame, y)
        np.testing.assert_array_equal(made, expected)


def test_numbers_are_standardised_with_weights() -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(np.exp(rng.normal(size=(400, 2))), columns=["a", "b"])
    weight = np.where(np.arange(400) < 200, rng.integers(1, 4, 400), 0)
    made = TableFeatures().fit(frame, sample_weight=weight).transform(frame)
    expected = StandardScaler().fit(frame.to_numpy().repeat(weight, axis=0)).transform(frame.to_numpy())
    np.testing.assert_allclose(made, expected, rtol=1e-9, atol=1e-12)


def test_units_and_long_tails_do_not_matter() -> None:
    """The estimator maps the standardised numbers as it maps the numbers themselves."""
    X, y = make_moons(200, noise=0.3, random_state=0)
    frame = pd.DataFrame(np.exp(3 * X) * [1e-6, 1e6], columns=["a", "b"])
    model, alone = tabular_pipeline().fit(frame, y), SparseKLR().fit(frame, y)
    assert len(alone.scaling_.knots) == 2
    np.testing.assert_allclose(model.predict_proba(frame), alone.predict_proba(frame), atol=1e-6)


# -- the pipeline -------------------------------------------------------------------------------


@pytest.mark.slow
def test_pipeline_in_scikit_learn() -> None:
    frame, y = table()
    model = tabular_pipeline(SparseKLR(), drop=["name", "when"])
    assert clone(model).get_params()["read__drop"] == ["name", "when"]
    assert cross_val_score(model, frame, y, cv=3).mean() > 0.85
    three = np.where(frame["b"] > 0.8, "maybe", y)
    assert tabular_pipeline().fit(frame, three).predict_proba(frame).shape == (200, 3)


@pytest.mark.slow
@pytest.mark.parametrize(
    "estimator",
    [SKLRCV([1e3], lams=[0.1], cv=2), SKLR(calibration="link"), RandomForestClassifier(5)],
)
def test_other_estimators(estimator: Any) -> None:
    frame, y = table()
    model = tabular_pipeline(estimator).fit(frame, y)
    assert (model.predict(frame) == y).mean() > 0.85


@pytest.mark.slow
def test_polars() -> None:
    frame, y = table()
    model = tabular_pipeline().fit(pl.from_pandas(frame), pl.Series(y))
    other = tabular_pipeline().fit(frame, y)
    np.testing.assert_array_equal(model.predict_proba(pl.from_pandas(frame)), other.predict_proba(frame))


# -- model files --------------------------------------------------------------------------------


@pytest.mark.slow
def test_round_trip_is_bit_equal(tmp_path: Path) -> None:
    frame, y = table()
    model = tabular_pipeline().fit(frame, y)
    model[-1].keep_prediction_only()
    save(model, tmp_path / "m.sklr")
    back = load(tmp_path / "m.sklr")
    np.testing.assert_array_equal(back.predict_proba(frame), model.predict_proba(frame))
    assert back["read"].columns_ == model["read"].columns_
    np.testing.assert_array_equal(back["read"].seen(frame), True)
    assert (tmp_path / "m.sklr").stat().st_size < 100_000


@pytest.mark.parametrize(
    "model",
    [
        SparseKLR(),
        SKLR(),
        SKLRCV([1e3], lams=[0.1], cv=2),
        CompactKLR(n_points=5),
        HalfKLR(),
        ImportVectorMachine(),
        ThresholdedKLR(n_points=10),
    ],
    ids=lambda model: type(model).__name__,
)
def test_every_estimator_can_be_saved(model: Any, tmp_path: Path) -> None:
    X, y = make_moons(80, noise=0.3, random_state=0)
    save(model.fit(X, y), tmp_path / "m.sklr")
    np.testing.assert_array_equal(load(tmp_path / "m.sklr").predict_proba(X), model.predict_proba(X))


def test_files_are_shared_with_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    frame, y = table()
    frame.assign(y=y).to_csv(tmp_path / "data.csv", index=False)
    data, ours, theirs = (str(tmp_path / name) for name in ("data.csv", "ours.sklr", "theirs.sklr"))
    model = tabular_pipeline().fit(pd.read_csv(data).drop(columns="y"), y)
    save(model, ours, metadata={"target": "y"})
    assert main(["fit", data, "--target", "y", "--model", "sparse", "-o", theirs]) == 0
    losses = []
    for path in (ours, theirs):
        capsys.readouterr()
        assert main(["evaluate", path, data, "--json"]) == 0
        losses.append(json.loads(capsys.readouterr().out)["log_loss"])
    assert losses[0] == losses[1]
    np.testing.assert_array_equal(load(theirs).predict_proba(frame), model.predict_proba(frame))


def test_models_without_a_reader(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Models fitted to a data frame of numbers have column names; those fitted to an array do not."""
    X, y = make_moons(100, noise=0.2, random_state=0)
    frame = pd.DataFrame(X, columns=["u", "v"])
    frame.to_csv(tmp_path / "data.csv", index=False)
    model = make_pipeline(StandardScaler(), HalfKLR()).fit(frame, y)
    save(model, tmp_path / "named.sklr")
    assert main(["predict", str(tmp_path / "named.sklr"), str(tmp_path / "data.csv")]) == 0
    lines = capsys.readouterr().out.splitlines()[1:]
    prob = np.array([line.split(",")[1:] for line in lines], dtype=float)
    np.testing.assert_allclose(prob, model.predict_proba(frame))
    save(HalfKLR().fit(X, y), tmp_path / "array.sklr")
    assert main(["predict", str(tmp_path / "array.sklr"), str(tmp_path / "data.csv")]) == 2
    assert "has no column names" in capsys.readouterr().err


@pytest.mark.parametrize("model", [SparseKLR(), tabular_pipeline()])
def test_unfitted_is_not_saved(tmp_path: Path, model: Any) -> None:
    with pytest.raises(NotFittedError):
        save(model, tmp_path / "model.sklr")
    assert not list(tmp_path.iterdir())


def test_what_cannot_be_saved(tmp_path: Path) -> None:
    X, y = make_moons(60, random_state=0)
    model = make_pipeline(FunctionTransformer(np.nan_to_num), SparseKLR()).fit(X, y)
    (tmp_path / "m.sklr").write_text("precious")
    with pytest.raises(
        ValueError,
        match=r"a model file cannot contain numpy\.nan_to_num .in sklearn.*FunctionTransformer.func",
    ):
        save(model, tmp_path / "m.sklr")
    with pytest.raises(
        ModelFileError, match=r"m\.sklr: the file is not a model written by sparseklr, or it is damaged"
    ):
        load(tmp_path / "m.sklr")
    assert (tmp_path / "m.sklr").read_text() == "precious"
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "nothing.sklr")
    fitted = SparseKLR().fit(X, y)
    with pytest.raises(FileNotFoundError, match=r"m\.sklr"):
        save(fitted, tmp_path / "nowhere" / "m.sklr")
    assert [path.name for path in tmp_path.iterdir()] == ["m.sklr"]


WITHOUT = """
import sys, tempfile
for name in sys.argv[1:]:
    sys.modules[name] = None
import numpy as np, sparseklr
X = np.random.default_rng(0).normal(size=(40, 2))
for model in (sparseklr.SparseKLR(), sparseklr.CompactKLR(max_points=1)):
    model.fit(X, X[:, 0] > 0)
    with tempfile.TemporaryDirectory() as folder:
        sparseklr.save(model, f"{folder}/m.sklr")
        same = sparseklr.load(f"{folder}/m.sklr")
    assert (same.predict_proba(X) == model.predict_proba(X)).all()
"""


@pytest.mark.slow
def test_models_of_arrays_are_saved_without_the_packages_for_tables() -> None:
    absent = ["pandas", "pyarrow", "polars", "rich", "dask", "matplotlib"]
    done = subprocess.run([sys.executable, "-c", WITHOUT, *absent], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_error_names_the_missing_extra() -> None:
    script = (
        "import sys, sparseklr; sys.modules['pandas'] = None; sparseklr.SparseKLR; sparseklr.tabular_pipeline"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stderr.splitlines()[-1].endswith('needs pandas: pip install "sparseklr[tables]"')
    assert sparseklr.tabular_pipeline is tabular_pipeline


# -- explanations and sets -------------------------------------------------------------------------


def test_predictions_are_explained_by_the_columns_of_the_table(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    n = 120
    frame = pd.DataFrame(
        {"income": rng.normal(size=n).round(3), "city": rng.choice(["Oslo", "Rome", "Bern"], n)}
    )
    frame["two"] = rng.choice(["a", "b"], n)
    frame["day"] = pd.date_range("2020-01-01", periods=n, freq="37h").astype(str)
    frame["text"] = [" ".join(rng.choice(list("abcdefgh"), 6)) + str(k) for k in range(n)]
    frame.loc[3:9, "income"] = np.nan
    frame.loc[0, "city"] = "Rare"
    y = np.where((frame["income"] > 0) == (frame["city"] == "Oslo"), "yes", "no")
    model = tabular_pipeline().fit(frame, y)
    groups, names = model["features"].column_groups(), model["features"].get_feature_names_out()
    assert sorted(j for positions in groups.values() for j in positions) == list(range(len(names)))
    for column, positions in groups.items():
        assert all(str(names[j]).startswith(column) for j in positions)
    found = model.explain(frame[:6])
    assert set(found.feature_names) == {"income", "city", "two", "day", "text"}
    total = found.values.sum(axis=1) + found.base_values
    np.testing.assert_allclose(total, model.decision_function(frame[:6]), atol=1e-10)
    city = found.feature_names.index("city")
    assert list(found.data[:, city]) == list(frame["city"][:6])
    # a column that only the row has changed has all of the difference
    other = frame[1:2].assign(city="Oslo" if frame["city"][1] != "Oslo" else "Rome")
    alone = model.explain(other, background=frame[1:2]).values[0]
    assert np.flatnonzero(alone).tolist() == [city]
    save(model, tmp_path / "model.sklr")
    again = load(tmp_path / "model.sklr")
    np.testing.assert_array_equal(again.explain(frame[:6]).values, found.values)
    np.testing.assert_array_equal(again.predict_set(frame, 0.8), model.predict_p_values(frame) > 1 - 0.8)
    np.testing.assert_array_equal(
        again.familiarity(frame), model[-1].familiarity(model[:-1].transform(frame))
    )
    lower, upper = again.predict_interval(frame)
    assert (lower <= upper).all()
    assert again.explain(frame[:2], by="points").contributions.shape[0] == 2
