"""Passes over all blocks of a source: sums along a fixed tree, summaries, and samples.

**Sums.** The blocks are the leaves of a binary tree, in order. A node is the sum of its two children, left
before right. A node without a sibling moves up unchanged. The value of the root is bit-identical, whichever
process computes which part and in whatever order. The error of pairwise summation grows only with the
logarithm of the number of terms (N. Higham, "The accuracy of floating point summation", SIAM J. Sci. Comput.
14, 1993).

**Samples.** A hash of the row number decides whether a row belongs to a sample. Every run, process and
cluster therefore draws the same rows, and a larger sample contains a smaller one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import count
from operator import add
from typing import Any

import numpy as np

from .._utils.threads import ThreadPool, n_threads, one_thread
from ..samples import splitmix64
from .sources import Block, Source, joined

Prepare = Callable[[Block], Block]

# -- sums along a fixed tree -------------------------------------------------------------------------

# Partial sums: (level, position) of a node of the tree -> sum over the leaves below this node
Forest = dict[tuple[int, int], Any]


def grow(forest: Forest, new: Iterable[tuple[tuple[int, int], Any]], n_leaves: int) -> Forest:
    """Insert nodes into a forest, replace pairs of siblings with their parent, and return the forest.

    The forest is modified in place. After m > 1 consecutive leaves have been inserted, at most 2 log2(m)
    nodes remain.

    Examples
    --------
    >>> grow({}, [((0, leaf), [leaf]) for leaf in (3, 2, 1)], n_leaves=5)
    {(1, 1): [2, 3], (0, 1): [1]}
    """
    for (level, position), value in new:
        while True:
            count = -(-n_leaves >> level)  # number of nodes on this level, n_leaves / 2**level rounded up
            sibling = position ^ 1
            if count == 1 or (sibling < count and (level, sibling) not in forest):
                break
            if sibling < count:
                other = forest.pop((level, sibling))
                value = add(value, other) if position < sibling else add(other, value)
            level, position = level + 1, position // 2
        forest[level, position] = value
    return forest


def merge(*forests: Forest, n_leaves: int) -> Forest:
    """Return a new forest with the nodes of the given forests."""
    result: Forest = {}
    for forest in forests:
        grow(result, forest.items(), n_leaves)
    return result


def root(forest: Forest) -> Any:
    """Return the sum over all leaves."""
    ((_, value),) = forest.items()
    return value


# -- blocks ----------------------------------------------------------------------------------------


class Blocks(ABC):
    """All blocks of a source, together with the threads or workers that process them."""

    n_rows: int
    n_blocks: int

    @abstractmethod
    def map(self, prepare: Prepare, memory: float = 0.0) -> Blocks:
        """Return the blocks transformed by a function that keeps their rows.

        Up to ``memory`` bytes of transformed blocks are cached.
        """

    @abstractmethod
    def sum(self, statistic: Callable[[Block], Any], each: Callable[[int], None] | None = None) -> Any:
        """Return the sum of ``statistic(block)`` over all blocks, computed by ``+`` along a fixed tree.

        Arrays are added, and lists are concatenated in the order of the blocks. ``each`` is called in the
        current thread with the number of rows of each finished block.
        """


class LocalBlocks(Blocks):
    """The blocks of a source, processed by threads of the current process.

    The function ``prepare`` is applied to every block. Up to ``memory`` bytes of prepared blocks are cached.
    """

    def __init__(
        self, source: Source, n_jobs: int | None = None, prepare: Prepare | None = None, memory: float = 0.0
    ) -> None:
        self.source, self.threads = source, n_threads(n_jobs)
        self._prepare, self._memory = prepare, memory
        self._kept: dict[int, Block] = {}

    @property
    def n_rows(self) -> int:  # type: ignore[override]
        return self.source.n_rows

    @property
    def n_blocks(self) -> int:  # type: ignore[override]
        return self.source.n_blocks

    def map(self, prepare: Prepare, memory: float = 0.0) -> LocalBlocks:
        before = self._prepare
        both = prepare if before is None else lambda block: prepare(before(block))
        return LocalBlocks(self.source, self.threads, both, memory)

    def sum(self, statistic: Callable[[Block], Any], each: Callable[[int], None] | None = None) -> Any:
        forest: Forest = {}
        with one_thread:
            for number, (rows, value) in enumerate(self.results(statistic)):
                grow(forest, [((0, number), value)], self.n_blocks)
                if each is not None:
                    each(rows)
        return root(forest)

    def results(self, statistic: Callable[[Block], Any]) -> Iterator[tuple[int, Any]]:
        """Yield the number of rows and the value ``statistic(block)`` of each block, in order."""

        def work(number: int, raw: Block | None) -> tuple[int, Any]:
            block = self._kept[number] if raw is None else self._prepared(number, raw)
            return len(block), statistic(block)

        if self.threads == 1:
            for number, raw in enumerate(self._raw()):
                yield work(number, raw)
            return
        pool = ThreadPool(self.threads, thread_name_prefix="sparseklr")
        waiting: deque[Future] = deque()
        try:
            for number, raw in enumerate(self._raw()):
                waiting.append(pool.submit(work, number, raw))
                del raw
                if len(waiting) > 2 * self.threads:  # bounds the number of blocks in memory
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:  # after an error or an interruption, wait only for the blocks in progress
            pool.shutdown(cancel_futures=True)

    def _raw(self) -> Iterator[Block | None]:
        """Yield the blocks of the source, with None in place of the first blocks, which are cached."""
        n_kept = next(number for number in count() if number not in self._kept)
        for _ in range(n_kept):
            yield None
        if n_kept < self.n_blocks:
            yield from self.source.blocks(n_kept)

    def _prepared(self, number: int, raw: Block) -> Block:
        """Return the prepared block, and cache it if the memory suffices."""
        block = raw if self._prepare is None else self._prepare(raw)
        n_bytes = sum(part.nbytes for part in (block.X, block.y, block.weight) if part is not None)
        if (number + 1) * self.source.block_rows * n_bytes / len(block) <= self._memory:
            self._kept[number] = block
        return block


# -- summary ---------------------------------------------------------------------------------------


class BadRowError(ValueError):
    """Error for an invalid row: its number, the problem, and the feature if the problem concerns one."""

    def __init__(self, row: int, what: str, feature: int | None = None) -> None:
        super().__init__(row, what, feature)
        self.row, self.what, self.feature = row, what, feature


class NotFiniteError(ValueError):
    """Error for a feature value that is missing or infinite; the message gives the position of the value."""


@dataclass(frozen=True, eq=False)
class Summary:
    """The number of rows, their labels and their moments; ``+`` combines two summaries.

    Rows of weight 0 affect only the number of rows. Moments are combined by the formulas of P. Pébay,
    "Formulas for robust, one-pass parallel computation of covariances and arbitrary-order statistical
    moments", Sandia report SAND2008-6212, 2008, with weights instead of counts.
    """

    n_rows: int
    labels: dict[Any, tuple[int, float]]  # number of rows and sum of weights of each label
    weight: float  # sum of the weights
    mean: np.ndarray  # weighted mean of each feature
    second: np.ndarray  # weighted sum of squared deviations from the mean
    third: np.ndarray  # weighted sum of cubed deviations
    least: np.ndarray  # smallest value of each feature
    greatest: np.ndarray  # largest value of each feature

    @classmethod
    def of(cls, block: Block) -> Summary:
        """Check the values of a block, and return its summary."""
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
        for label, (n_rows, weight) in other.labels.items():
            before = labels.get(label, (0, 0.0))
            labels[label] = before[0] + n_rows, before[1] + weight
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
        """The sorted labels."""
        return np.array(sorted(self.labels))

    @property
    def std(self) -> np.ndarray:
        """The weighted standard deviation of each feature."""
        return np.sqrt(self.second / self.weight)

    @property
    def skewness(self) -> np.ndarray:
        """The skewness of each feature; 0 for constant features."""
        with np.errstate(invalid="ignore", divide="ignore"):
            skewness = self.third / self.weight / self.std**3
        return np.where(self.greatest > self.least, skewness, 0.0)


def check_block(block: Block) -> None:
    """Raise an error unless features are finite, labels are present and weights are non-negative."""
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
        if block.y.dtype.kind == "O":
            bad = np.flatnonzero([label is None or label != label for label in block.y])
        else:
            bad = np.flatnonzero(block.y != block.y)
        if len(bad):
            raise BadRowError(block.start + int(bad[0]), f"the label is {block.y[bad[0]]}")


@contextmanager
def naming_place(source: Source) -> Iterator[None]:
    """Add the position in the source and the name of the feature to the error about an invalid row."""
    try:
        yield
    except BadRowError as error:
        place, names = source.place(error.row), source.feature_names
        if error.feature is None:
            raise ValueError(f"{place}: {error.what}.") from None
        name = repr(names[error.feature]) if names else error.feature
        raise NotFiniteError(f"{place}: feature {name} {error.what}.") from None


def summarise(blocks: Blocks, source: Source, each: Any = None) -> Summary:
    """Return the summary of all rows; an error names the position of the first invalid row."""
    with naming_place(source):
        summary: Summary = blocks.sum(Summary.of, each)
    kinds = {str if isinstance(label, str) else float for label in summary.labels}
    if len(kinds) > 1:
        raise ValueError(
            f"y must contain labels of one type; got text and numbers: {list(summary.labels)[:6]}."
        )
    return summary


# -- samples ---------------------------------------------------------------------------------------


def uniform(rows: np.ndarray, salt: int) -> np.ndarray:
    """Return a pseudo-random number in [0, 1) for each row number; it depends on the salt.

    Examples
    --------
    >>> values = uniform(np.arange(100_000), salt=1)
    >>> bool(abs((values < 0.2).mean() - 0.2) < 0.005)
    True
    """
    key = splitmix64(np.array([salt], dtype=np.uint64) + np.uint64(0x9E3779B97F4A7C15))
    mixed = splitmix64(np.asarray(rows, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15) + key)
    return (mixed >> np.uint64(11)) * 2.0**-53


@dataclass(frozen=True, eq=False)
class Draw:
    """Function that draws the rows whose hash is below the sampling fraction of their class.

    The *turn* of a row is its hash divided by the fraction. Sorting the rows by turn gives a random order.
    The first rows in this order form a smaller sample with the same ratios of the fractions.
    """

    fractions: np.ndarray
    salt: int

    def __call__(self, block: Block) -> list[tuple[np.ndarray, Block]]:
        uniformly = len(self.fractions) == 1 or block.y is None
        fraction = self.fractions[0] if uniformly else self.fractions[block.y]
        turn = uniform(block.rows, self.salt) / fraction
        kept = np.flatnonzero(turn < 1)
        part = block.take(kept)
        if np.ptp(self.fractions):
            part = replace(part, weight=part.weights * (self.fractions.max() / fraction[kept]))
        return [(turn[kept], part)] if len(kept) else []


def class_fractions(n_rows: int, counts: np.ndarray, least: int = 0) -> np.ndarray:
    """Return the sampling fraction of each class for about ``n_rows`` rows.

    The fractions are equal, except that at least ``least`` rows of each class are drawn, or all rows of a
    class that has fewer.
    """
    fraction = min(1.0, n_rows / counts.sum())
    return np.minimum(1.0, np.maximum(fraction, least / np.maximum(1, counts)))


def draw(blocks: Blocks, fractions: np.ndarray, *, salt: int = 0) -> Block:
    """Return a sample of the rows in random order, as one block; labels must be class codes.

    ``fractions`` contains the sampling fraction of each class, or a single fraction for all classes. If
    fractions differ, the weights are divided by them, up to a common factor. Sums over the sample then
    estimate sums over all rows. With the same ``salt``, a larger sample contains a smaller one.
    """
    return in_turn(blocks.sum(Draw(fractions, salt)))


def in_turn(drawn: list[tuple[np.ndarray, Block]]) -> Block:
    """Return the rows of a sample as one block, sorted by their turns."""
    if not drawn:
        raise ValueError("the sample is empty, because the sampling fraction is too small.")
    order = np.argsort(np.concatenate([turn for turn, _ in drawn]), kind="stable")
    return joined([block for _, block in drawn]).take(order)
