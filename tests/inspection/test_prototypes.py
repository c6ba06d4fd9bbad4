"""PrototypesDisplay agrees with the model."""

from __future__ import annotations

import matplotlib
import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_iris, make_moons
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from sparseklr import CompactKLR, PrototypesDisplay, SparseKLR

matplotlib.use("Agg")
plt = pytest.importorskip("matplotlib.pyplot")
IRIS = load_iris(as_frame=True)


@pytest.fixture(scope="module")
def iris() -> CompactKLR:
    return CompactKLR(4, C=100).fit(IRIS.data, IRIS.target_names[IRIS.target])


@pytest.fixture(scope="module")
def moons() -> CompactKLR:
    return CompactKLR(5, C=100).fit(*make_moons(150, noise=0.2, random_state=0))


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


def texts(ax) -> list[str]:
    return [text.get_text() for text in ax.texts]


# -- points -----------------------------------------------------------------------------------


def test_sign_determines_the_class_of_a_point(moons) -> None:
    display = PrototypesDisplay.from_estimator(moons)
    np.testing.assert_array_equal(display.codes, moons.dual_coef_[0] > 0)
    np.testing.assert_array_equal(display.weight, np.abs(moons.dual_coef_[0]))
    assert np.all(np.diff(display.codes[display.shown_]) >= 0)


def test_a_constant_added_to_all_classes_changes_nothing(iris) -> None:
    before = PrototypesDisplay.from_estimator(iris)
    shifted = CompactKLR(4, C=100).fit(IRIS.data, IRIS.target)
    shifted.dual_coef_ = iris.dual_coef_ + np.arange(4.0)
    after = PrototypesDisplay.from_estimator(shifted)
    np.testing.assert_array_equal(before.codes, after.codes)
    np.testing.assert_allclose(before.weight, after.weight)


def test_table_shows_the_most_important_features_of_the_heaviest_points(iris) -> None:
    display = PrototypesDisplay.from_estimator(iris, max_points=3, max_features=2)
    most = np.argsort(-iris.feature_importances_)[:2]
    np.testing.assert_array_equal(display.columns_, most)
    assert set(display.shown_) == set(np.argsort(-display.weight)[:3])
    names = [tick.get_text() for tick in display.ax_.get_xticklabels()]
    assert names == IRIS.data.columns[most].tolist()
    shown = iris.points_[np.ix_(display.shown_, most)].ravel()
    assert texts(display.ax_) == [f"{value:.3g}" for value in shown]
    labels = [tick.get_text().split("  ")[0] for tick in display.ax_.get_yticklabels()]
    assert labels == display.classes[display.codes[display.shown_]].tolist()
    assert display.ax_.get_title() == "3 of 4 points"


def test_table_is_shaded_by_the_fraction_of_rows_below(iris) -> None:
    display = PrototypesDisplay.from_estimator(iris, IRIS.data)
    shades = display.ax_.images[0].get_array()
    X = IRIS.data.to_numpy()
    for row, b in enumerate(display.shown_):
        for column, j in enumerate(display.columns_):
            value = iris.points_[b, j]
            assert np.mean(X[:, j] < value) <= shades[row, column] <= np.mean(X[:, j] <= value)


def test_table_without_rows_compares_the_points(iris) -> None:
    shades = PrototypesDisplay.from_estimator(iris).ax_.images[0].get_array()
    np.testing.assert_array_equal([shades.min(axis=0), shades.max(axis=0)], [np.zeros(4), np.ones(4)])


def test_images_are_the_points(iris) -> None:
    display = PrototypesDisplay.from_estimator(iris, image_shape=(2, 2))
    assert len(display.axes_) == 4
    assert all(ax.figure is display.figure_ for ax in display.axes_)
    for ax, b in zip(display.axes_, display.shown_, strict=True):
        np.testing.assert_array_equal(ax.images[0].get_array(), iris.points_[b].reshape(2, 2))


def test_images_fill_the_axes_that_are_given(iris) -> None:
    figure, (left, _) = plt.subplots(1, 2)
    display = PrototypesDisplay.from_estimator(iris, image_shape=(2, 2), ax=left)
    assert display.figure_ is figure
    figure.canvas.draw()
    assert all(ax.get_position().x1 < 0.51 for ax in display.axes_)


def test_plane_marks_the_points_on_the_probabilities(moons) -> None:
    X, y = make_moons(150, noise=0.2, random_state=0)
    figure, ax = plt.subplots()
    display = PrototypesDisplay.from_estimator(moons, X, y, ax=ax)
    assert display.ax_ is ax
    assert display.figure_ is figure
    rows, first, second = (np.asarray(marks.get_offsets()) for marks in ax.collections[-3:])
    np.testing.assert_array_equal(rows, X)
    np.testing.assert_array_equal(np.vstack([first, second]), moons.points_[display.shown_])
    assert [text.get_text() for text in ax.get_legend().get_texts()] == [
        "point that supports 0",
        "point that supports 1",
    ]


def test_boundary_on_the_plane_is_that_of_the_model(moons) -> None:
    ax = PrototypesDisplay.from_estimator(moons).ax_
    (boundary,) = (lines for lines in ax.collections if len(getattr(lines, "levels", ())) == 1)
    vertices = np.vstack([path.vertices for path in boundary.get_paths()])
    assert len(vertices) > 50
    p = moons.predict_proba(vertices)[:, 1]
    assert np.max(np.abs(p - 0.5)) < 0.1  # of linear interpolation between the cells


def test_plane_of_two_of_many_features(iris) -> None:
    names = ("petal width (cm)", "petal length (cm)")
    display = PrototypesDisplay.from_estimator(iris, IRIS.data, features=names)
    assert (display.ax_.get_xlabel(), display.ax_.get_ylabel()) == names
    np.testing.assert_array_equal(display.columns_, [3, 2])
    assert "other features at their median" in display.ax_.get_title()
    (surface,) = display.ax_.images
    assert surface.get_array().shape[2] == 3
    assert 0 <= surface.get_array().min() <= surface.get_array().max() <= 1
    by_index = PrototypesDisplay.from_estimator(iris, IRIS.data, features=(3, 2))
    np.testing.assert_array_equal(by_index.ax_.images[0].get_array(), surface.get_array())


def test_points_of_other_models_and_of_sparse_data() -> None:
    X, y = make_moons(60, noise=0.3, random_state=0)
    model = SparseKLR().fit(sparse.csr_array(X), y)
    display = PrototypesDisplay.from_estimator(model, sparse.csr_array(X), y)
    np.testing.assert_array_equal(display.points, model.support_vectors_.toarray())


def test_pipeline_shows_its_last_step() -> None:
    X, y = IRIS.data, IRIS.target
    pipeline = make_pipeline(StandardScaler(), CompactKLR(3, C=10)).fit(X, y)
    display = PrototypesDisplay.from_estimator(pipeline, X)
    assert display.feature_names.tolist() == X.columns.tolist()
    np.testing.assert_allclose(display.X, pipeline[0].transform(X))


@pytest.mark.parametrize("arguments", [{}, {"image_shape": (2, 2)}, {"features": (0, 1)}])
def test_model_without_points_has_a_title(arguments) -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 4)), np.arange(40) % 2
    model = CompactKLR().fit(np.ones((40, 4)), y)
    assert model.n_points_ == 0
    display = PrototypesDisplay.from_estimator(model, X, **arguments)
    title = display.ax_.get_title() or display.figure_.get_suptitle()
    assert title.startswith("The model has no points")


# -- what is refused --------------------------------------------------------------------------


def test_needs_a_fitted_model_with_points() -> None:
    with pytest.raises(NotFittedError):
        PrototypesDisplay.from_estimator(CompactKLR())
    with pytest.raises(TypeError, match="expected a CompactKLR"):
        PrototypesDisplay.from_estimator(SVC().fit(IRIS.data, IRIS.target))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"kind": "plane"}, "features: expected the names or indices of two of the 4 features"),
        ({"features": ("petal", 0)}, "features: there is no feature 'petal'"),
        ({"image_shape": (3, 3)}, r"image_shape: expected \(height, width\) with a product of 4"),
        ({"kind": "images"}, r"image_shape: expected .* got None"),
        ({"kind": "cloud"}, "kind: expected 'auto', 'table', 'images' or 'plane'; got 'cloud'"),
        ({"X": np.ones((3, 2))}, r"X: expected an array with 4 features; got an array of shape \(3, 2\)"),
        ({"y": [1, 2]}, "y must have one label for each row of X; got 2 labels for no rows"),
        ({"feature_names": ["a"]}, "feature_names has 1 names; the model has 4 features"),
    ],
)
def test_errors_name_wrong_arguments(iris, arguments, message) -> None:
    with pytest.raises(ValueError, match=message):
        PrototypesDisplay.from_estimator(iris, **arguments)
