"""Sample weights: validation, the factors of ``class_weight``, and the number of observations per row."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
from sklearn.utils import check_array
from sklearn.utils.class_weight import compute_class_weight

# Largest allowed weight; sums and squares of larger weights might overflow.
_LARGEST_WEIGHT = 1e150
# Weights are interpreted as numbers of observations if, for some k <= MOST_PARTS, they are integer multiples
# of (smallest weight / k) within the relative tolerance _WHOLE. The multiples must be at most MOST_COPIES,
# because for larger multiples the tolerance would accept too many non-integers.
MOST_PARTS, MOST_COPIES, _WHOLE = 16, 1_000_000, 1e-9
# Range of C times the largest weight in which fourth powers and their inverses do not overflow.
_LOSS_WEIGHTS = 1e-75, 1e75


def check_weight(sample_weight: Any, n_samples: int) -> np.ndarray:
    """Return sample weights as float64, all 1 for None; raise an error unless they are valid.

    Weights must be finite and non-negative, and at least one weight must be positive.
    """
    if sample_weight is None or isinstance(sample_weight, Real):
        sample_weight = np.full(n_samples, 1.0 if sample_weight is None else sample_weight)
    weight: np.ndarray = check_array(
        sample_weight, ensure_2d=False, dtype=np.float64, input_name="sample_weight"
    )
    if weight.shape != (n_samples,):
        raise ValueError(
            f"sample_weight must contain one number for each of the {n_samples} rows; its shape is "
            f"{weight.shape}."
        )
    if weight.min() < 0:
        raise ValueError(f"sample_weight must be non-negative; got a weight of {weight.min():g}.")
    if not weight.any():
        raise ValueError("sample_weight must contain a positive value; all weights are zero.")
    check_largest("sample_weight", weight)
    return weight


def weighted_classes(
    y: np.ndarray, weight: np.ndarray | None, class_weight: Any
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return positions and class codes of the rows with positive weight, the classes, and the weights.

    The weights include the factors of ``class_weight``.
    """
    weight = np.ones(len(y)) if weight is None else weight
    if class_weight is not None:
        rows = weight > 0  # rows of weight 0 are ignored
        present, codes = np.unique(y[rows], return_inverse=True)
        by_class = class_factors(class_weight, present, y[rows], weight[rows])
        weight = weight.copy()
        with np.errstate(over="ignore"):
            weight[rows] *= by_class[codes]
        check_largest("class_weight times sample_weight", weight)
    kept = np.flatnonzero(weight > 0)
    labels = y[kept]
    classes = np.unique(labels)
    if len(classes) < 2:
        raise ValueError(
            f"y must contain at least two classes (with positive weight); got only one class: {classes!r}."
        )
    # return_inverse would sort all labels together with their positions, which takes longer
    return kept, np.searchsorted(classes, labels), classes, weight[kept]


def observation_counts(weight: np.ndarray) -> np.ndarray:
    """Return the number of observations that each row represents, as int64; 0 for a row of weight 0.

    If all weights are integer multiples of a common unit, they count observations: a row of weight 2 among
    rows of weight 1 is a repeated row. The unit is the largest possible one. A common factor therefore has no
    effect, and rows of equal weight represent one observation each. Other weights measure importance, and
    each row represents one observation.

    Examples
    --------
    >>> observation_counts(np.array([0.2, 0.3, 0.0, 0.2]))
    array([2, 3, 0, 2])
    >>> observation_counts(np.array([1.0, 0.7351, 2.0]))
    array([1, 1, 1])
    """
    used = weight > 0
    counts = used.astype(np.int64)
    least = weight[used].min(initial=np.inf)
    with np.errstate(over="ignore"):
        quotient = np.unique(weight[used] / least)
    if not len(quotient) or quotient[-1] > MOST_COPIES:
        return counts
    for parts in range(1, MOST_PARTS + 1):
        whole = np.rint(parts * quotient)
        if whole[-1] <= MOST_COPIES and (np.abs(parts * quotient - whole) <= _WHOLE * whole).all():
            counts[used] = np.rint(parts * (weight[used] / least)).astype(np.int64)
            break
    return counts


def check_largest(name: str, weight: np.ndarray) -> None:
    """Raise an error if sums or squares of the weights might overflow."""
    if not weight.max() <= _LARGEST_WEIGHT:
        raise ValueError(f"{name} must be at most {_LARGEST_WEIGHT:g}; got {weight.max():g}.")


def class_factors(class_weight: Any, classes: np.ndarray, y: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Return the factor that ``class_weight`` assigns to each class.

    An error is raised unless the factors are finite and non-negative.

    Examples
    --------
    >>> y = np.array(["no", "no", "yes"])
    >>> class_factors("balanced", np.array(["no", "yes"]), y, np.ones(3))
    array([0.75, 1.5 ])
    """
    if isinstance(class_weight, dict):
        for label, factor in class_weight.items():
            if not isinstance(factor, Real) or not 0 <= float(factor) < np.inf:
                raise ValueError(
                    f"class_weight must be non-negative, finite numbers; got {factor!r} for class {label!r}."
                )
    with np.errstate(over="ignore"):
        factors: np.ndarray = compute_class_weight(class_weight, classes=classes, y=y, sample_weight=weight)
    if not np.isfinite(factors).all():
        largest = classes.tolist()[np.argmax(factors)]
        raise ValueError(
            f"class_weight={class_weight!r} overflows for class {largest!r}, because the total weights of "
            "the classes differ too much."
        )
    return factors


def loss_weights(C: float, weight: np.ndarray, unit: float = 1.0) -> np.ndarray:
    """Return the weight ``C * weight * unit`` of the loss of each row.

    An error is raised if the largest weight is out of range.
    """
    with np.errstate(over="ignore"):
        product = C * weight * unit
    least, most = _LOSS_WEIGHTS
    if not least <= product.max() <= most:
        size = "" if unit == 1 else f" times the size of the kernel, about {unit:.1g},"
        raise ValueError(
            f"C times the largest sample_weight{size} must lie between {least:g} and {most:g}; C={C:g} gives "
            f"{product.max():g}."
        )
    return product
