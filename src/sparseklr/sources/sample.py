"""What a first pass over all rows tells, and samples of the rows.

Which rows belong to a sample, or are held out, is decided by a hash of the row's number: the same rows in
every run, in every process and on every cluster, and a larger sample contains a smaller one.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..equal_rows import splitmix64
from .base import Block, Source, joined
from .passes import Blocks


def uniform(rows: np.ndarray, salt: int) -> np.ndarray:
    """A number in [0, 1) for each row number, as good as random; each salt gives other numbers.

    Examples
    --------
    >>> values = uniform(np.arange(100_000), salt=1)
    >>> bool(abs((values < 0.2).mean() - 0.2) < 0.005)
    True
    """
    key = splitmix64(np.array([salt], dtype=np.uint64) + np.uint64(0x9E3779B97F4A7C15))
    mixed = splitmix64(np.asarray(rows, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15) + key)
    return (mixed >> np.uint64(11)) * 2.0**-53


class BadRowError(ValueError):
    """A row that cannot be used: its number, what is wrong with it, and the feature if it is one."""

    def __init__(self, row: int, what: str, feature: int | None = None) -> None:
        super().__init__(row, what, feature)
        self.row, self.what, self.feature = row, what, feature


class NotFiniteError(ValueError):
    """A feature of a row that is missing or infinite; the message says where."""


@dataclass(frozen=True, eq=False)
class Summary:
    """Counts, labels and moments of rows; ``+`` gives that of both.

    Rows of weight 0 count as rows and for nothing else. The moments are merged by the formulas of P. Pébay,
    "Formulas for robust, one-pass parallel computation of covariances and arbitrary-order statistical
    moments", Sandia report SAND2008-6212, 2008, with weights instead of counts.

    Attributes
    ----------
    n_rows : int
    labels : dict
        Number of rows and sum of weights of each label.
    weight : float
        Sum of the weights.
    mean, second, third : array (n_features,)
        Weighted mean, and weighted sums of squared and cubed deviations from it.
    least, greatest : array (n_features,)
    """

    n_rows: int
    labels: dict[Any, tuple[int, float]]
    weight: float
    mean: np.ndarray
    second: np.ndarray
    third: np.ndarray
    least: np.ndarray
    greatest: np.ndarray

    @classmethod
    def of(cls, block: Block) -> Summary:
        """Of one block; its values are checked."""
        check_block(block)
        w = block.weights
        X = block.X.astype(np.float64, copy=False)
        used = w > 0
        if not used.all():
            X, w = X[used], w[used]
        labels = {}
        if block.y is not None:
            values, codes = np.unique(block.y[used], return_inverse=True)
            counts, weights = np.bincount(codes), np.bincount(codes, w)
            labels = dict(
                zip(values.tolist(), zip(counts.tolist(), weights.tolist(), strict=True), strict=True)
            )
        total = float(w.sum())
        if not total:
            zero = np.zeros(X.shape[1])
            return cls(len(block), labels, 0.0, zero, zero, zero, zero + np.inf, zero - np.inf)
        mean = w @ X / total
        D = X - mean
        D2 = D * D
        return cls(
            len(block), labels, total, mean, w @ D2, w @ (D2 * D), X.min(axis=0), X.max(axis=0)
        )  # fmt: skip

    def __add__(self, other: Summary) -> Summary:
        labels = dict(self.labels)
        for label, (count, weight) in other.labels.items():
            before = labels.get(label, (0, 0.0))
            labels[label] = before[0] + count, before[1] + weight
        n_rows = self.n_rows + other.n_rows
        if not self.weight or not other.weight:
            return replace(self if self.weight else other, n_rows=n_rows, labels=labels)
        a, b, W = self.weight, other.weight, self.weight + other.weight
        d = other.mean - self.mean
        second = self.second + other.second + d**2 * a * b / W
        third = (
            self.third
            + other.third
            + d**3 * a * b * (a - b) / W**2
            + 3 * d * (a * other.second - b * self.second) / W
        )
        least, greatest = np.minimum(self.least, other.least), np.maximum(self.greatest, other.greatest)
        return Summary(n_rows, labels, W, self.mean + d * (b / W), second, third, least, greatest)

    @property
    def classes(self) -> np.ndarray:
        """The labels in order."""
        return np.array(sorted(self.labels))

    @property
    def std(self) -> np.ndarray:
        return np.sqrt(self.second / self.weight)

    @property
    def skewness(self) -> np.ndarray:
        """0 for constant features."""
        with np.errstate(invalid="ignore", divide="ignore"):
            skewness = self.third / self.weight / self.std**3
        return np.where(self.greatest > self.least, skewness, 0.0)


def check_block(block: Block) -> None:
    """Finite features, labels that are there, weights of at least zero."""
    with np.errstate(over="ignore", invalid="ignore"):
        finite = np.isfinite(block.X.sum(dtype=np.float64))
    if not finite and not (good := np.isfinite(block.X)).all():
        row, column = (int(index[0]) for index in np.nonzero(~good))
        what = f"is {block.X[row, column]}; expected a finite number"
        raise BadRowError(block.start + row, what, column)
    if block.weight is not None:
        bad = np.flatnonzero(~(block.weight >= 0) | ~np.isfinite(block.weight))
        if len(bad):
            given = block.weight[bad[0]]
            raise BadRowError(block.start + int(bad[0]), f"the weight is {given}; expected 0 or more")
    if block.y is not None and block.y.dtype.kind in "fcO":
        bad = np.flatnonzero(block.y != block.y) if block.y.dtype.kind != "O" else _missing(block.y)
        if len(bad):
            raise BadRowError(block.start + int(bad[0]), f"the label is {block.y[bad[0]]}")


def _missing(y: np.ndarray) -> np.ndarray:
    return np.flatnonzero([label is None or label != label for label in y])


@contextmanager
def naming_place(source: Source) -> Iterator[None]:
    """Let the error of a bad row say where in a source it is, and the name of its feature."""
    try:
        yield
    except BadRowError as error:
        place, names = source.place(error.row), source.feature_names
        if error.feature is None:
            raise ValueError(f"{place}: {error.what}.") from None
        name = repr(names[error.feature]) if names else error.feature
        raise NotFiniteError(f"{place}: feature {name} {error.what}.") from None


def summarise(blocks: Blocks, source: Source, each: Any = None) -> Summary:
    """The summary of all rows; an error says where the first bad row is."""
    with naming_place(source):
        summary: Summary = blocks.sum(Summary.of, each)
    kinds = {str if isinstance(label, str) else float for label in summary.labels}
    if len(kinds) > 1:
        raise ValueError(
            f"y must hold labels of one type; got both text and numbers: {list(summary.labels)[:6]}."
        )
    return summary


@dataclass(frozen=True, eq=False)
class Draw:
    """Statistic that keeps a row if its hash is below the share of its class.

    A row's turn is its hash over the share: rows in the order of their turns are in random order, and the
    first of them are a smaller sample with the same shares.
    """

    shares: np.ndarray
    salt: int

    def __call__(self, block: Block) -> list[tuple[np.ndarray, Block]]:
        share = self.shares[0] if len(self.shares) == 1 or block.y is None else self.shares[block.y]
        turn = uniform(block.rows, self.salt) / share
        kept = np.flatnonzero(turn < 1)
        part = block.take(kept)
        if np.ptp(self.shares):
            part = replace(part, weight=part.weights * (self.shares.max() / share[kept]))
        return [(turn[kept], part)] if len(kept) else []


def class_shares(n_rows: int, counts: np.ndarray, least: int = 0) -> np.ndarray:
    """The shares of the classes that a sample of about ``n_rows`` rows holds.

    With ``least`` at 0 it is uniform; otherwise at least so many rows of each class are drawn, or all of
    them.
    """
    share = min(1.0, n_rows / counts.sum())
    return np.minimum(1.0, np.maximum(share, least / np.maximum(1, counts)))


def draw(blocks: Blocks, shares: np.ndarray, *, salt: int = 0, each: Any = None) -> Block:
    """A sample of the rows in random order, as one block.

    Parameters
    ----------
    blocks : Blocks
        With codes of the classes as labels.
    shares : array (n_classes,) or (1,)
        Share of the rows of each class to draw. Where they differ, weights are divided by them, up to a
        common factor: sums over the sample then stand for sums over all rows.
    salt : int
        Another number draws another sample; with the same, a larger sample contains a smaller one.
    each : callable, optional
        As in :meth:`Blocks.sum`.
    """
    return in_turn(blocks.sum(Draw(shares, salt), each))


def in_turn(drawn: list[tuple[np.ndarray, Block]]) -> Block:
    """The rows of a sample as one block, in the order of their turns."""
    if not drawn:
        raise ValueError("no row was drawn: the sample is too small for so few rows.")
    order = np.argsort(np.concatenate([turn for turn, _ in drawn]), kind="stable")
    return joined([block for _, block in drawn]).take(order)
