"""Sums over blocks along a fixed binary tree.

The blocks are the leaves, in order; a node is the sum of its two children, left before right; a node without
a sibling moves up as it is. Whoever computes whichever part of the tree, in whatever order, the root has the
same bits. Pairwise summation has, besides, an error that grows with the logarithm of the number of terms
(N. Higham, "The accuracy of floating point summation", SIAM J. Sci. Comput. 14, 1993).
"""

from __future__ import annotations

from collections.abc import Iterable
from operator import add
from typing import Any

Forest = dict[tuple[int, int], Any]  # (level, position) -> sum over the leaves below


def grow(forest: Forest, new: Iterable[tuple[tuple[int, int], Any]], n_leaves: int) -> Forest:
    """Insert nodes into a forest, in place, and replace pairs of siblings by their parent.

    Of a run of m consecutive leaves at most 2 log2(m) nodes are left.

    Examples
    --------
    >>> grow({}, [((0, leaf), [leaf]) for leaf in (3, 2, 1)], n_leaves=5)
    {(1, 1): [2, 3], (0, 1): [1]}
    """
    for (level, position), value in new:
        while True:
            count = -(-n_leaves >> level)  # nodes of this level: n_leaves / 2**level, rounded up
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
    """One forest of several; its arguments stay as they are."""
    result: Forest = {}
    for forest in forests:
        grow(result, forest.items(), n_leaves)
    return result


def root(forest: Forest) -> Any:
    """The sum over all leaves."""
    ((_, value),) = forest.items()
    return value
