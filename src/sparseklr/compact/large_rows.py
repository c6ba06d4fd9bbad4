"""All rows of a source as a compact model sees them: scaled, with codes as labels, block by block."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from ..data import class_factors
from ..sources import Block, Blocks, Source, Summary, blocks_of, class_shares, draw, summarise, uniform
from ..sources.sample import Draw, in_turn
from .rows import LabelledRows
from .scaling import CLIP, SKEWED, Scaling, rank_knots

# Rows that the maps by rank of skewed features are made from.
_QUANTILE_ROWS = 131_072
# Rows of each class that a sample has at least, if there are as many.
_LEAST_OF_CLASS = 2000
# The salts of the hashes that decide which rows are held out and drawn.
_HELD_OUT, _DRAWN, _QUANTILES = 1, 2, 3


@dataclass(frozen=True, eq=False)
class Encode:
    """From labels to codes of the classes, from weights to weights times the factors of the classes."""

    classes: np.ndarray
    factors: np.ndarray

    def __call__(self, block: Block) -> Block:
        codes = np.minimum(np.searchsorted(self.classes, block.labels), len(self.classes) - 1).astype(
            np.int32
        )
        weight = block.weights
        unknown = self.classes[codes] != block.y
        if unknown.any():  # only rows of weight zero may have a class that no other row has
            weight = np.where(unknown, 0.0, weight)
        return replace(block, y=codes, weight=weight * self.factors[codes])


@dataclass(frozen=True, eq=False)
class Prepare:
    """Encoded labels and scaled features, float32."""

    encode: Encode
    scaling: Scaling

    def __call__(self, block: Block) -> Block:
        return replace(self.encode(block), X=self.scaling.transform_single(block.X))


@dataclass(frozen=True, eq=False)
class Unseen:
    """The blocks with weight zero for the rows that are held out."""

    share: float
    salt: int

    def __call__(self, block: Block) -> Block:
        held_out = uniform(block.rows, self.salt) < self.share
        return replace(block, weight=np.where(held_out, 0.0, block.weights))


@dataclass(frozen=True, eq=False)
class Split:
    """Statistic: rows that are held out, and a sample of the others, in a single pass."""

    held_out: float
    held_out_salt: int
    draw: Draw

    def __call__(self, block: Block) -> list[tuple[bool, tuple[np.ndarray, Block]]]:
        turn = uniform(block.rows, self.held_out_salt) / self.held_out
        held_out = np.flatnonzero(turn < 1)
        found = [(True, (turn[held_out], block.take(held_out)))] if len(held_out) else []
        return found + [(False, part) for part in self.draw(Unseen(self.held_out, self.held_out_salt)(block))]


@dataclass(frozen=True, eq=False)
class LargeRows:
    """The rows of a source and what a first pass said about them.

    Attributes
    ----------
    raw : Blocks
        As the source gives them.
    summary : Summary
    encode : Encode
    scaling : Scaling
    seed : int
    memory : float
        Bytes of prepared blocks that are kept for the next pass.
    """

    raw: Blocks
    summary: Summary
    encode: Encode
    scaling: Scaling
    seed: int
    memory: float

    @classmethod
    def of(
        cls,
        source: Source,
        *,
        class_weight: Any,
        scale: bool,
        seed: int,
        memory: float,
        n_jobs: int | None,
        each: Any = None,
    ) -> LargeRows:
        """One pass for classes and moments, and one for ranks if a feature is skewed."""
        blocks = blocks_of(source, n_jobs)
        summary = summarise(blocks, source, each)
        classes = summary.classes
        weights = np.array([summary.labels[label][1] for label in classes.tolist()])
        factors = class_factors(class_weight, classes, classes, weights)
        encode = Encode(classes[factors > 0], factors[factors > 0])
        if len(encode.classes) < 2:
            raise ValueError(
                "y must hold at least two classes (with positive weight); got only one class: "
                f"{encode.classes!r}."
            )
        sample = None
        if scale and (np.abs(summary.skewness) > SKEWED).any():
            share = min(1.0, _QUANTILE_ROWS / source.n_rows)
            sample = draw(blocks, np.array([share]), salt=seed + _QUANTILES, each=each)
        return cls(blocks, summary, encode, streamed_scaling(summary, sample, auto=scale), seed, memory)

    def rescaled(self, scaling: Scaling) -> LargeRows:
        """The same rows, scaled in another way."""
        return replace(self, scaling=scaling)

    @cached_property
    def blocks(self) -> Blocks:
        """The blocks, prepared."""
        return self.raw.map(Prepare(self.encode, self.scaling), self.memory)

    @property
    def classes(self) -> np.ndarray:
        return self.encode.classes

    @property
    def counts(self) -> np.ndarray:
        """Rows of each class."""
        return np.array([self.summary.labels[label][0] for label in self.classes.tolist()])

    @property
    def class_weights(self) -> np.ndarray:
        """Sum of the weights of each class, with its factor."""
        weights = np.array([self.summary.labels[label][1] for label in self.classes.tolist()])
        return weights * self.encode.factors

    @property
    def weight(self) -> float:
        """Sum of all weights."""
        return float(self.class_weights.sum())

    @property
    def n_classes(self) -> int:
        return len(self.classes)

    def unseen(self, held_out: float) -> Blocks:
        """The blocks, with weight zero for the rows that are held out."""
        return self.blocks.map(Unseen(held_out, self.seed + _HELD_OUT))

    def split(self, held_out: float, n_rows: int, each: Any = None) -> tuple[LabelledRows, LabelledRows]:
        """The rows that are held out, and about ``n_rows`` of the others, both in random order."""
        shares = class_shares(n_rows, self.counts, _LEAST_OF_CLASS)
        found = self.blocks.sum(
            Split(held_out, self.seed + _HELD_OUT, Draw(shares, self.seed + _DRAWN)), each
        )
        parts = [in_turn([part for kind, part in found if kind is which]) for which in (True, False)]
        return self._labelled(parts[0]), self._labelled(parts[1])

    def sample(self, n_rows: int) -> LabelledRows:
        """About ``n_rows`` rows, in random order."""
        shares = class_shares(n_rows, self.counts, _LEAST_OF_CLASS)
        return self._labelled(draw(self.blocks, shares, salt=self.seed + _DRAWN))

    def _labelled(self, block: Block) -> LabelledRows:
        weight = block.weights
        used = np.flatnonzero(weight > 0)
        return LabelledRows(block.X[used], block.labels[used], weight[used], self.n_classes)


def streamed_scaling(summary: Summary, sample: Block | None, *, auto: bool) -> Scaling:
    """As :meth:`Scaling.of`: moments are those of all rows, ranks those of a sample."""
    kept = np.flatnonzero(summary.greatest > summary.least)
    centre, spread = summary.mean[kept], summary.std[kept]
    if not auto:
        return Scaling(kept, centre, np.ones(len(kept)), np.inf, {})
    knots = {}
    for position, j in enumerate(kept.tolist()):
        if sample is not None and abs(summary.skewness[j]) > SKEWED:
            knots[position] = rank_knots(sample.X[:, j].astype(np.float64), sample.weights)
    return Scaling(kept, centre, np.where(spread > 0, spread, 1.0), CLIP, knots)
