"""A small table of every kind of column, and the command line as a function."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from sparseklr.cli import main


def shop(n: int = 160, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    x, z = rng.normal(size=(2, n)).round(3)
    city = rng.choice(["Oslo", "Rome", "Köln"], n)
    y = np.where(x + (city == "Rome") + 0.3 * rng.normal(size=n) > z, "yes", "no")
    day = (pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, n), "D")).strftime("%d/%m/%Y")
    return pd.DataFrame({"number": range(501, 501 + n), "x": x, "z": z, "city": city, "day": day, "y": y})


def run(*argv: Any, code: int = 0) -> None:
    assert main([str(arg) for arg in argv]) == code
