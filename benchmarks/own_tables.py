"""``sparseklr fit`` without options on six messy tables, compared with baselines after manual preprocessing.

The tables are synthetic: churn, medical (units, bounds, missing values), wide (200 columns), flights (42,000 rows),
fraud (a rare class) and reviews (free text). The command line reads a messy CSV file. LogisticRegression and
HistGradientBoostingClassifier get the same rows after manual preprocessing: imputed and standardised numbers, encoded
categories, components of dates, and TF-IDF of the text. All models are evaluated on the same 30% of the rows. On every
table, the log-loss of the command line must be at most 1.02 times the lower log-loss of the two baselines.

    python -m benchmarks.own_tables [--tables churn medical] [--seeds 1]
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.decomposition import TruncatedSVD
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler

from sparseklr.cli import main as sparseklr

from .common import show

LIMIT = 1.02


@dataclass(frozen=True, eq=False)
class Table:
    """A table after manual preprocessing, and the content of the messy file."""

    clean: pd.DataFrame  # numbers, categories, and text in columns that begin with "text"
    messy: pd.DataFrame
    y: np.ndarray


def _labels(log_odds: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return np.where(rng.random(len(log_odds)) < 1 / (1 + np.exp(-log_odds)), "yes", "no")


def _with_parts(frame: pd.DataFrame, name: str) -> pd.DataFrame:
    """Return a table in which the number of days, the month and the weekday replace a date."""
    day = frame[name].dt
    parts = {f"{name}_days": (frame[name] - pd.Timestamp("2020-01-01")).dt.days.astype(float)}
    parts |= {f"{name}_month": day.month.astype(float), f"{name}_weekday": day.day_of_week.astype(float)}
    return frame.drop(columns=name).assign(**parts)


def churn(rng: np.random.Generator, n: int = 4000) -> Table:
    tenure, price = rng.exponential(24, n).round(), rng.normal(60, 18, n).round(2)
    calls = rng.poisson(1.5, n).astype(float)
    plan = rng.choice(["basic", "plus", "pro"], n, p=[0.5, 0.3, 0.2])
    paperless = rng.choice(["yes", "no"], n)
    signup = pd.Timestamp("2018-01-01") + pd.to_timedelta(rng.integers(0, 2000, n), "D")
    f = -0.6 - 0.03 * tenure + 0.02 * (price - 60) + 0.35 * calls + 0.7 * (plan == "basic")
    f += 0.5 * (paperless == "yes") - 0.8 * ((plan == "pro") & (calls > 2))
    clean = pd.DataFrame(
        {
            "tenure": tenure,
            "price": price,
            "calls": calls,
            "plan": plan,
            "paperless": paperless,
            "signup": signup,
        }
    )
    spelling = rng.integers(0, 3, n)
    messy = clean.assign(
        price=[f"USD {value:.2f}" for value in price],
        tenure=[f"{value:.0f} months" for value in tenure],
        paperless=[(one, one.upper(), one.title())[k] for one, k in zip(paperless, spelling, strict=True)],
        signup=signup.strftime("%d.%m.%Y"),
        customer_id=rng.permutation(n) + 10_000,
    )
    return Table(_with_parts(clean, "signup"), messy, _labels(f, rng))


def medical(rng: np.random.Generator, n: int = 900) -> Table:
    age, bmi = rng.normal(58, 14, n).round(), rng.normal(27, 4.5, n).round(1)
    glucose = np.exp(rng.normal(1.75, 0.25, n)).round(1)
    crp = np.exp(rng.normal(0.5, 1.2, n)).round(1)
    pressure = rng.normal(132, 17, n).round()
    smoker = rng.choice(["yes", "no"], n, p=[0.3, 0.7])
    f = 0.05 * (age - 58) + 0.06 * (bmi - 27) + 0.35 * (glucose - 6) + 0.3 * np.log(crp + 0.1)
    f += 0.02 * (pressure - 132) + 0.7 * (smoker == "yes") - 0.8
    clean = pd.DataFrame(
        {
            "age": age,
            "bmi": bmi,
            "glucose": glucose,
            "crp": np.maximum(crp, 0.3),
            "pressure": pressure,
            "smoker": smoker,
        }
    )
    y = _labels(f, rng)
    clean.loc[rng.random(n) < 0.05, "pressure"] = np.nan
    spelling = rng.integers(0, 2, n)
    messy = clean.assign(
        bmi=[f"{value} kg/m2" for value in bmi],
        glucose=[f"{value} mmol/L" for value in glucose],
        crp=[f"{value}" if value > 0.3 else "<0.3" for value in clean["crp"]],
        pressure=["n/k" if np.isnan(value) else f"{value:.0f}" for value in clean["pressure"]],
        smoker=[(one, one.upper())[k] for one, k in zip(smoker, spelling, strict=True)],
    )
    return Table(clean, messy, y)


def wide(rng: np.random.Generator, n: int = 1500) -> Table:
    X = rng.normal(size=(n, 200))
    f = 1.5 * X[:, 0] - 1.2 * X[:, 1] + 1.5 * X[:, 2] + X[:, 3] * X[:, 4]
    clean = pd.DataFrame(X.round(3), columns=[f"m{k}" for k in range(200)])
    return Table(clean, clean, _labels(f, rng))


def flights(rng: np.random.Generator, n: int = 60_000) -> Table:
    hour = rng.integers(5, 23, n)
    day = pd.Timestamp("2023-01-01") + pd.to_timedelta(rng.integers(0, 365, n), "D")
    distance = np.exp(rng.normal(6.6, 0.6, n)).round()
    wind, rain = rng.gamma(2, 6, n).round(1), rng.exponential(1, n).round(1) * (rng.random(n) < 0.3)
    carrier, origin = rng.choice(list("ABCDEF"), n), rng.choice(["JFK", "LGA", "EWR", "BOS"], n)
    load, age, crew = (
        rng.beta(8, 2, n).round(2),
        rng.gamma(3, 4, n).round(),
        rng.integers(0, 5, n).astype(float),
    )
    effect = dict(zip("ABCDEF", rng.normal(0, 0.4, 6), strict=True))
    f = -2.0 + 0.11 * (hour - 12) + 0.03 * wind + 0.35 * rain + 0.6 * (origin == "EWR") + 1.5 * (load - 0.8)
    f += np.array([effect[one] for one in carrier]) + 0.5 * np.sin(2 * np.pi * day.dayofyear / 365)
    f += 0.25 * np.maximum(hour - 17, 0) * (origin == "LGA") + 0.02 * wind * (rain > 1)
    clean = pd.DataFrame(
        {"hour": hour.astype(float), "day": day, "distance": distance, "wind": wind, "rain": rain, "carrier": carrier,
         "origin": origin, "load": load, "age": age, "crew": crew}
    )  # fmt: skip
    messy = clean.assign(
        wind=[f"{value} km/h" for value in wind],
        load=[f"{100 * value:.0f}%" for value in load],
        day=day.strftime("%Y-%m-%d"),
        flight_id=np.arange(n) + 1,
    )
    return Table(_with_parts(clean, "day"), messy, _labels(f, rng))


def fraud(rng: np.random.Generator, n: int = 20_000) -> Table:
    amount = np.exp(rng.normal(3.5, 1.3, n)).round(2)
    hour, past = rng.integers(0, 24, n).astype(float), rng.poisson(8, n).astype(float)
    foreign, channel = rng.choice(["yes", "no"], n, p=[0.1, 0.9]), rng.choice(["web", "shop", "app"], n)
    f = -6.4 + 0.8 * (np.log(amount) - 3.5) + 1.8 * (foreign == "yes") + 0.8 * (channel == "web")
    f += 1.0 * ((hour < 5) & (amount > 60)) - 0.1 * past
    clean = pd.DataFrame(
        {"amount": amount, "hour": hour, "past": past, "foreign": foreign, "channel": channel}
    )
    messy = clean.assign(amount=[f"${value:,.2f}" for value in amount])
    return Table(clean, messy, _labels(f, rng))


def reviews(rng: np.random.Generator, n: int = 3000) -> Table:
    good = [
        "great",
        "lovely",
        "excellent",
        "perfect",
        "happy",
        "recommend",
        "works",
        "fast",
        "solid",
        "superb",
        "nice",
        "sturdy",
    ]
    bad = [
        "broken",
        "awful",
        "slow",
        "refund",
        "poor",
        "terrible",
        "disappointed",
        "waste",
        "cheap",
        "failed",
        "late",
        "rude",
    ]
    other = np.array(
        [
            f"{a}{b}"
            for a in ("ba", "co", "di", "fu", "ge", "ha")
            for b in ("lo", "mi", "nar", "pet", "rus", "ti")
        ]
    )
    mood, price = rng.normal(size=n), np.exp(rng.normal(3, 0.8, n)).round(2)
    texts = []
    for value in mood:
        words = rng.choice(other, rng.integers(6, 25)).astype(object)
        tell = rng.random(len(words)) < 0.3
        happy = rng.random(len(words)) < 1 / (1 + np.exp(-1.5 * value))
        words[tell] = np.where(happy, rng.choice(good, len(words)), rng.choice(bad, len(words)))[tell]
        texts.append(" ".join(words))
    f = 2 * mood - 0.5 * (np.log(price) - 3)
    clean = pd.DataFrame({"text": texts, "price": price})
    return Table(clean, clean.assign(price=[f"{value} EUR" for value in price]), _labels(f, rng))


TABLES: dict[str, Callable[[np.random.Generator], Table]] = {
    "churn": churn,
    "medical": medical,
    "wide": wide,
    "flights": flights,
    "fraud": fraud,
    "reviews": reviews,
}


def baselines(clean: pd.DataFrame) -> dict[str, Any]:
    """Return pipelines of the two baselines, with preprocessing for the columns of a table."""
    text = [name for name in clean.columns if name.startswith("text")]
    numbers = [name for name in clean.columns if clean[name].dtype.kind == "f"]
    categories = [name for name in clean.columns if name not in (*text, *numbers)]
    imputed = make_pipeline(SimpleImputer(strategy="median", add_indicator=True), StandardScaler())
    linear = [(imputed, numbers), (OneHotEncoder(handle_unknown="ignore"), categories)]
    linear += [(TfidfVectorizer(), name) for name in text]
    trees: list[Any] = [("passthrough", numbers), (OrdinalEncoder(), categories)]
    trees += [(make_pipeline(TfidfVectorizer(), TruncatedSVD(30, random_state=0)), name) for name in text]
    return {
        "logistic regression": make_pipeline(
            make_column_transformer(*linear), LogisticRegression(max_iter=1000)
        ),
        "gradient boosting": make_pipeline(
            make_column_transformer(*trees, sparse_threshold=0),
            HistGradientBoostingClassifier(learning_rate=0.05, early_stopping=True, random_state=0),
        ),
    }


def command_line(train: pd.DataFrame, test: pd.DataFrame) -> tuple[float, str, float]:
    """Return the log-loss of ``sparseklr fit`` without options, the model that it chose, and its CPU seconds."""
    with tempfile.TemporaryDirectory() as folder:
        paths = {name: str(Path(folder) / name) for name in ("train.csv", "test.csv", "model.sklr")}
        train.to_csv(paths["train.csv"], index=False)
        test.to_csv(paths["test.csv"], index=False)
        start = time.process_time()
        found = _json("fit", paths["train.csv"], "--target", "y", "-o", paths["model.sklr"], "--json")
        seconds = time.process_time() - start
        measures = _json("evaluate", paths["model.sklr"], paths["test.csv"], "--json")
    return measures["log_loss"], found["estimator"], seconds


def _json(*argv: str) -> dict[str, Any]:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = sparseklr(list(argv))
    if code:
        raise RuntimeError(err.getvalue())
    return dict(json.loads(out.getvalue()))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=list(TABLES))
    parser.add_argument("--seeds", type=int, default=1)
    args = parser.parse_args()
    rows, missed = [], []
    for name in args.tables:
        for seed in range(args.seeds):
            table = TABLES[name](np.random.default_rng(seed))
            train, test = train_test_split(
                np.arange(len(table.y)), test_size=0.3, stratify=table.y, random_state=seed
            )
            losses = {}
            for label, model in baselines(table.clean).items():
                model.fit(table.clean.iloc[train], table.y[train])
                losses[label] = log_loss(table.y[test], model.predict_proba(table.clean.iloc[test]))
            messy = table.messy.assign(y=table.y)
            ours, chosen, seconds = command_line(messy.iloc[train], messy.iloc[test])
            ratio = ours / min(losses.values())
            missed += [name] if ratio > LIMIT else []
            rows.append([name, len(train), ours, *losses.values(), f"{ratio:.3f}", chosen, f"{seconds:.1f}"])
            print(*rows[-1], flush=True)
    show(
        "sparseklr fit without options, log-loss on the test rows",
        [
            "table",
            "rows",
            "sparseklr fit",
            "logistic regression",
            "gradient boosting",
            "ratio",
            "chosen",
            "CPU seconds",
        ],
        rows,
    )
    print(f"ratio above {LIMIT}: {', '.join(missed) or 'none'} of {len(rows)}")


if __name__ == "__main__":
    main()
