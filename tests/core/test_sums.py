"""Compiled sums over rows: losses of affine maps of outputs, and sums of signs."""

from __future__ import annotations

import numpy as np
import pytest

from sparseklr import _core


def test_affine_loss_and_its_derivatives() -> None:
    rng = np.random.default_rng(0)
    f, target, weight = rng.normal(size=601), rng.uniform(size=601), rng.uniform(0.5, 2, size=601)
    a, b, out = 1.7, -0.4, np.empty((3, 601))
    value = _core.cross_entropy(a * f + b, target, weight, out)
    _, slope, curvature = out
    expected = [value, slope @ f, slope.sum(), curvature @ f**2, curvature @ f, curvature.sum()]
    np.testing.assert_allclose(_core.affine_loss(f, target, weight, a, b), expected, rtol=1e-12)


@pytest.mark.parametrize("n_features", [1, 7, 19])
def test_sums_of_signs(n_features: int) -> None:
    rng = np.random.default_rng(0)
    X, Z = (rng.integers(0, 4, size=(n, n_features)).astype(float) for n in (23, 11))
    weight, out = rng.normal(size=(23, 11)), np.empty_like(X)
    _core.sign_sums(X, Z, weight, out)
    expected = np.einsum("ib,ibk->ik", weight, np.sign(X[:, None] - Z))
    np.testing.assert_allclose(out, expected, atol=1e-12)


def test_lengths_are_checked() -> None:
    ones = np.ones(3)
    with pytest.raises(ValueError, match="the same length"):
        _core.affine_loss(ones, ones, np.ones(2), 1.0, 0.0)
    with pytest.raises(ValueError, match=r"Z \(m, p\)"):
        _core.sign_sums(np.ones((3, 2)), np.ones((2, 3)), np.ones((3, 2)), np.ones((3, 2)))
