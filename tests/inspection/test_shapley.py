"""Shapley values against their definition, a mean over all subsets of features."""

import warnings
from itertools import product
from math import factorial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.datasets import make_classification

from sparseklr import SKLR, CompactKLR, SparseKLR, load, save
from sparseklr.shapley import Background, Groups, ProductExpansion

X, Y = make_classification(150, 6, n_informative=4, n_classes=3, random_state=0)
MODELS = [SparseKLR(), SparseKLR(kernel="laplacian"), CompactKLR(n_points=4)]


def set_values(function, row, background, weight, groups) -> dict:
    """Return the mean output for each set of groups whose columns are taken from the row."""
    subsets = list(product([0, 1], repeat=len(groups)))
    mixed = np.repeat(background[None], len(subsets), axis=0)
    for g, columns in enumerate(groups):
        inside = [s for s, subset in enumerate(subsets) if subset[g]]
        mixed[np.ix_(inside, range(len(background)), columns)] = row[columns]
    outputs = function(mixed.reshape(-1, background.shape[1]))
    means = np.tensordot(weight, outputs.reshape(len(subsets), len(background), -1), (0, 1))
    return dict(zip(subsets, means, strict=True))


def shapley_by_subsets(values: dict, n: int) -> np.ndarray:
    """Return Shapley values by definition: the weighted mean effect of a feature over all subsets of other
    features."""
    out = []
    for g in range(n):
        terms = [
            factorial(sum(s))
            * factorial(n - sum(s) - 1)
            / factorial(n)
            * (values[(*s[:g], 1, *s[g + 1 :])] - v)
            for s, v in values.items()
            if not s[g]
        ]
        out.append(np.sum(terms, axis=0))
    return np.array(out)


def interaction_by_subsets(values: dict, n: int, g: int, h: int) -> np.ndarray:
    total = 0.0
    for s in product([0, 1], repeat=n):
        if s[g] or s[h]:
            continue
        with_g, with_h, both = ([*s], [*s], [*s])
        with_g[g] = with_h[h] = both[g] = both[h] = 1
        change = values[tuple(both)] - values[tuple(with_g)] - values[tuple(with_h)] + values[s]
        total += factorial(sum(s)) * factorial(n - sum(s) - 2) / factorial(n - 1) * change
    return total


@pytest.mark.parametrize("model", MODELS, ids=str)
@pytest.mark.parametrize("labels", [Y, Y > 0], ids=["three classes", "two classes"])
def test_values_are_those_of_all_subsets(model, labels) -> None:
    model.fit(X, labels)
    background, groups = X[100:111], [[0], [1, 4], [2], [3], [5]]
    found = model.explain(X[:20], by="features", background=background, groups={"pair": ["x1", 4]})
    assert found.feature_names == ["x0", "pair", "x2", "x3", "x5"]
    for row in range(3):
        values = set_values(model.decision_function, X[row], background, np.full(11, 1 / 11), groups)
        expected = shapley_by_subsets(values, 5).reshape(found.values[row].shape)
        np.testing.assert_allclose(found.values[row], expected, atol=1e-12)
    total = found.values.sum(axis=1) + found.base_values
    np.testing.assert_allclose(total, model.decision_function(X[:20]), atol=1e-10)
    assert np.isnan(found.data[:, 1]).all()
    np.testing.assert_array_equal(found.data[:, [0, 2]], X[:20, [0, 2]])


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("n_features", [1, 2, 7, 12])
@pytest.mark.parametrize("kernel", ["rbf", "laplacian", "compact"])
def test_values_of_up_to_twelve_features(kernel, n_features, n_classes) -> None:
    """The values agree with sums over all 4096 subsets, for every kernel and every class."""
    rng = np.random.default_rng(n_features)
    rows = rng.normal(size=(120, n_features))
    score = rows[:, 0] + rows[:, -1] * rows[:, n_features // 2] + 0.5 * rng.normal(size=120)
    labels = np.searchsorted(np.quantile(score, np.arange(1, n_classes) / n_classes), score)
    model = CompactKLR(n_points=4) if kernel == "compact" else SparseKLR(kernel=kernel)
    model.fit(rows, labels)
    background, columns = rows[100:105], [[j] for j in range(n_features)]
    found = model.explain(rows[:2], by="features", background=background).values
    for row, value in zip(rows[:2], found, strict=True):
        values = set_values(model.decision_function, row, background, np.full(5, 0.2), columns)
        expected = shapley_by_subsets(values, n_features).reshape(value.shape)
        np.testing.assert_allclose(value, expected, atol=1e-12)


@pytest.mark.parametrize("model", MODELS, ids=str)
def test_interactions_are_those_of_all_subsets(model) -> None:
    model.fit(X[:, :4], Y)
    background = X[100:109, :4]
    found = model.explain(X[:2, :4], by="features", background=background, interactions=True)
    np.testing.assert_allclose(found.interactions.sum(axis=2), found.values, atol=1e-12)
    columns = [[j] for j in range(4)]
    values = set_values(model.decision_function, X[1, :4], background, np.full(9, 1 / 9), columns)
    for g, h in [(0, 1), (1, 3)]:
        pair = interaction_by_subsets(values, 4, g, h)
        np.testing.assert_allclose(2 * found.interactions[1, g, h], pair, atol=1e-12)


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    n_features=st.integers(1, 9),
    n_points=st.integers(1, 4),
    n_background=st.integers(1, 20),
    squared=st.booleans(),
    repeated=st.booleans(),
)
def test_random_expansions(seed, n_features, n_points, n_background, squared, repeated) -> None:
    """Any number of features and background rows; some values equal those of the background."""
    rng = np.random.default_rng(seed)
    draw = (
        (lambda *size: rng.integers(0, 2, size).astype(float))
        if repeated
        else (lambda *s: rng.normal(size=s))
    )
    width = rng.exponential(size=n_features) * 10.0 ** rng.integers(-2, 3)
    expansion = ProductExpansion(
        squared,
        draw(n_points, n_features),
        width,
        rng.normal(size=(2, n_points)),
        rng.normal(size=2),
        np.arange(n_features),
        lambda rows: rows,
        lambda rows: 1.0,
    )
    weight = rng.dirichlet(np.ones(n_background))
    background, row = Background(draw(n_background, n_features), weight), draw(1, n_features)
    found, _ = expansion.shapley(row, background, np.arange(n_features), False, None)
    columns = [[j] for j in range(n_features)]
    values = set_values(expansion.outputs, row[0], background.features, weight, columns)
    expected = shapley_by_subsets(values, n_features).T
    np.testing.assert_allclose(found[0], expected, atol=1e-12 * np.abs(expansion.coef).sum())


def test_threads_do_not_change_a_bit_and_many_features_are_exact() -> None:
    rng = np.random.default_rng(0)
    wide = rng.normal(size=(100, 150))
    model = SparseKLR().fit(wide, wide[:, 0] > 0)
    one = model.explain(wide, by="features")
    two = model.set_params(n_jobs=2).explain(wide, by="features")
    np.testing.assert_array_equal(one.values, two.values)
    np.testing.assert_allclose(
        one.values.sum(axis=1) + one.base_values, model.decision_function(wide), atol=1e-10
    )


@pytest.mark.parametrize("kernel", ["rbf", "laplacian"])
def test_sparse_rows_have_the_values_of_dense_ones(kernel) -> None:
    rng = np.random.default_rng(1)
    dense = rng.normal(size=(80, 40)) * (rng.random((80, 40)) < 0.1)
    dense[:, 0] += rng.normal(size=80)
    options = {"kernel": kernel, "gamma": 0.1, "scale": None, "relevance": "shared"}
    model = SparseKLR(**options).fit(dense, dense[:, 0] > 0)
    csr = SparseKLR(**options).fit(sparse.csr_array(dense), dense[:, 0] > 0)
    found = csr.explain(sparse.csr_array(dense[:5]), by="features")
    np.testing.assert_allclose(found.values, model.explain(dense[:5], by="features").values, atol=1e-9)
    np.testing.assert_allclose(
        csr.gradient(sparse.csr_array(dense[:5])), model.gradient(dense[:5]), atol=1e-9
    )


@pytest.mark.parametrize("model", MODELS, ids=str)
def test_gradient_and_partial_dependence(model) -> None:
    model.fit(X, Y)
    f, step = model.decision_function, 1e-5
    slopes = model.gradient(X[:10])
    for j, move in enumerate(step * np.eye(6)):
        np.testing.assert_allclose(
            slopes[..., j], (f(X[:10] + move) - f(X[:10] - move)) / (2 * step), atol=1e-5
        )
    grid = np.array([[-1.0, 0.5], [0.0, 2.0]])
    mixed = X[:30].copy()
    mixed[:, [4, 2]] = grid[1]
    found = model.partial_dependence(["x4", 2], grid, background=X[:30])
    np.testing.assert_allclose(found[1], f(mixed).mean(axis=0), atol=1e-12)


def test_clipped_and_ranked_features_have_exact_slopes() -> None:
    rng = np.random.default_rng(2)
    skewed = np.column_stack([np.exp(2 * rng.normal(size=300)), rng.normal(size=300)])
    model = CompactKLR(n_points=3).fit(skewed, np.log(skewed[:, 0]) + skewed[:, 1] > 0)
    assert model.scaling_.knots
    rows = np.vstack([1.0001 * skewed[:20], [[1e6, 50.0]]])  # not at the knots
    slopes, step = model.gradient(rows), 1e-7
    assert not slopes[-1].any()
    for j, move in enumerate(step * np.eye(2)):
        ahead, behind = model.decision_function(rows + move), model.decision_function(rows - move)
        np.testing.assert_allclose(slopes[:, j], (ahead - behind) / (2 * step), rtol=1e-3, atol=1e-4)


def test_all_ramps_of_a_feature_count_as_one() -> None:
    rng = np.random.default_rng(2)
    X = np.column_stack([rng.integers(4, size=300), rng.normal(size=300)]).astype(float)
    model = CompactKLR(n_points=3).fit(X, np.abs(X[:, 0] - 1) + X[:, 1] > 0.5)
    assert len(model.scaling_.kept) == 4
    rows, step = X[:20] + np.array([0.3, 0]), 1e-7
    slopes = model.gradient(rows)
    for j, move in enumerate(step * np.eye(2)):
        ahead, behind = model.decision_function(rows + move), model.decision_function(rows - move)
        np.testing.assert_allclose(slopes[:, j], (ahead - behind) / (2 * step), rtol=1e-3, atol=1e-4)
    found = model.explain(rows, by="features")
    assert found.values.shape == (20, 2)
    np.testing.assert_allclose(found.values.sum(axis=1) + found.base_values, model.decision_function(rows))


@pytest.mark.parametrize("model", MODELS, ids=str)
def test_the_background_is_in_the_model_file(model, tmp_path) -> None:
    model.fit(X, Y)
    save(model, tmp_path / "model.sklr")
    again = load(tmp_path / "model.sklr")
    found = again.explain(X[:3], by="features")
    np.testing.assert_array_equal(found.values, model.explain(X[:3], by="features").values)
    assert again._background_.features.shape[0] == 100
    # the background represents the training rows: its mean output is near theirs
    outputs = model.decision_function(X)
    assert (np.abs(found.base_values[0] - outputs.mean(axis=0)) < outputs.std(axis=0) / 10).all()


def test_sklr_with_given_background() -> None:
    model = SKLR(calibration="sigmoid").fit(X, Y)
    found = model.explain(X[:5], by="features", background=X[:9])
    total = found.values.sum(axis=1) + found.base_values
    np.testing.assert_allclose(total, model.decision_function(X[:5]), atol=1e-9)
    with pytest.raises(ValueError, match="pass background"):
        model.explain(X[:5], by="features")
    with pytest.raises(ValueError, match="with calibration='link' they are not"):
        SKLR(calibration="link").fit(X, Y).explain(X[:5], by="features", background=X[:9])


def test_frames_and_rows() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=list("abcdef"))
    found = SparseKLR().fit(frame, Y).explain(frame[:4], by="features")
    assert found.to_frame().loc[2, (1, "c")] == found.values[2, 2, 1]
    label, _, _ = found.of_row(1)
    assert label == np.argmax(found.values[1].sum(axis=0) + found.base_values[1])
    two = SparseKLR().fit(frame, Y > 0).explain(frame[:4], by="features")
    assert list(two.to_frame().columns) == list("abcdef")
    label, values, base = two.of_row(0, False)
    assert values.sum() + base == pytest.approx(-two.values[0].sum() - two.base_values[0])


def test_bad_arguments() -> None:
    model = SparseKLR(kernel="linear").fit(X, Y)
    with pytest.raises(ValueError, match=r"need kernel='rbf' or 'laplacian'.*this model has kernel='linear'"):
        model.explain(X, by="features")
    model = SparseKLR(kernel="precomputed").fit(X @ X.T, Y)
    with pytest.raises(ValueError, match="this model has kernel='precomputed'"):
        model.gradient(X @ X.T)
    model = SparseKLR().fit(X, Y)
    with pytest.raises(ValueError, match="by must be 'points' or 'features'; got 'rows'"):
        model.explain(X, by="rows")
    with pytest.raises(ValueError, match="need by='features'"):
        model.explain(X, groups={"a": [0]})
    with pytest.raises(ValueError, match="'age' is not a column of X"):
        model.explain(X, by="features", groups={"a": ["age"]})
    with pytest.raises(ValueError, match="column 'x1' is in two groups, 'a' and 'b'"):
        Groups.of({"a": [0, 1], "b": [1]}, ["x0", "x1"])
    with pytest.raises(ValueError, match="grid must have 2 columns, one for each entry of columns; got 1"):
        model.partial_dependence([0, 1], [1.0, 2.0])
    with pytest.raises(ValueError, match="label must be one of"):
        model.explain(X[:1], by="features").of_row(0, "none")


@pytest.mark.parametrize("model", [SparseKLR(), CompactKLR()], ids=str)
def test_a_model_without_points_has_no_reasons(model) -> None:
    rng = np.random.default_rng(0)
    with pytest.warns(UserWarning, match="signal"):
        model.fit(rng.normal(size=(150, 2)), np.arange(150) < 6)
    found = model.explain(np.zeros((2, 2)), by="features")
    assert not found.values.any()
    assert not model.gradient(np.zeros((2, 2))).any()
    np.testing.assert_allclose(found.base_values, model.intercept_[0])


@pytest.mark.parametrize("kernel", ["rbf", "laplacian"])
def test_a_thousand_features_need_few_nodes(kernel) -> None:
    """The number of quadrature nodes depends on the differences between rows, for narrow kernels too."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(60, 1000))
    labels = rows[:, :300].sum(axis=1) > 0
    for gamma in (1e-4, 1e-2):
        model = SparseKLR(kernel=kernel, gamma=gamma, relevance="shared", scale=None, C=10.0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a narrow kernel finds no signal
            model.fit(rows, labels)
        found = model.explain(rows[:4] / 10, by="features", background=rows[:8] / 5)
        total = found.values.sum(axis=1) + found.base_values
        np.testing.assert_allclose(total, model.decision_function(rows[:4] / 10), atol=1e-10)


def test_too_many_features_for_the_memory(monkeypatch) -> None:
    model = SparseKLR().fit(X, Y)
    monkeypatch.setattr("sparseklr.shapley.available_memory", lambda: 1000)
    with pytest.raises(MemoryError, match="the explanation of 150 rows and 6 features needs"):
        model.explain(X, by="features")
    monkeypatch.setattr("sparseklr.shapley.available_memory", lambda: 8 * 150 * (36 + 6) + 1000)
    with pytest.raises(MemoryError, match="needs"):  # the space for 8 background rows counts
        model.explain(X, by="features", interactions=True)
