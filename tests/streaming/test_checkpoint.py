"""A fit that is interrupted, killed or out of disk space resumes, and returns the same model."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys

import numpy as np
import pytest
from sklearn.base import clone
from support.large_rows import assert_same

from sparseklr import CompactKLR
from sparseklr.streaming import ArraySource, checkpoint


class Stop(Exception):
    """A simulated power failure."""


def fail_after(monkeypatch, n_saves):
    saved = []
    save = checkpoint.Checkpoint.save

    def counting(self, state):
        save(self, state)
        saved.append(state)
        if len(saved) == n_saves:
            raise Stop

    monkeypatch.setattr(checkpoint.Checkpoint, "save", counting)
    return saved


@pytest.mark.parametrize("n_saves", [1, 2, 4])
def test_fit_resumes_from_a_checkpoint(small_is_large, ring, tmp_path, monkeypatch, n_saves):
    file = tmp_path / "fit.npz"
    expected = CompactKLR(max_points=4).fit(*ring)
    model = CompactKLR(max_points=4)
    with monkeypatch.context() as patch:
        fail_after(patch, n_saves)
        with pytest.raises(Stop):
            model.fit_source(ArraySource(*ring), checkpoint=file)
    assert not hasattr(model, "dual_coef_")
    assert file.exists()
    with monkeypatch.context() as patch:
        saved = fail_after(patch, -1)
        assert_same(model.fit_source(ArraySource(*ring), checkpoint=file), expected)
    assert not file.exists()
    assert list(tmp_path.iterdir()) == []
    # finished work is not repeated
    assert len(saved) < len(expected.search_results_["n_points"]) - 1 + expected.n_iter_


def test_interrupt_leaves_a_checkpoint(small_is_large, ring, tmp_path, monkeypatch):
    file = tmp_path / "fit.npz"
    model = CompactKLR(max_points=4).fit(*ring)
    before = dict(model.__dict__)
    save = checkpoint.Checkpoint.save

    def interrupted(self, state):
        save(self, state)
        raise KeyboardInterrupt

    monkeypatch.setattr(checkpoint.Checkpoint, "save", interrupted)
    with pytest.raises(KeyboardInterrupt):
        model.fit_source(ArraySource(ring[0], 1 - ring[1]), checkpoint=file)
    assert file.exists()
    assert model.__dict__ == before


KILLED = """
import sys, time
from sparseklr import CompactKLR, SparseKLR
from dataclasses import replace
from sparseklr.datasets import make_ringnorm
from sparseklr.streaming import checkpoint, fit
fit.STREAM = replace(
    fit.STREAM, in_memory_rows=1000, C_rows=2048, validation_rows=2000, least_fisher_rows=512
)
X, y = make_ringnorm(12_000, 6, random_state=0)
save = checkpoint.Checkpoint.save
def slowly(self, state):
    save(self, state)
    print(len(state.models), flush=True)
    time.sleep(30)
checkpoint.Checkpoint.save = slowly
CompactKLR(max_points=4).fit_source(fit.ArraySource(X, y), checkpoint=sys.argv[1])
"""


@pytest.mark.slow
def test_killed_fit_ends_with_the_same_model(small_is_large, ring, tmp_path):
    file = tmp_path / "fit.npz"
    with subprocess.Popen(
        [sys.executable, "-c", KILLED, str(file)], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "1\n"
        process.send_signal(signal.SIGKILL)
    assert file.exists()
    resumed = CompactKLR(max_points=4).fit_source(ArraySource(*ring), checkpoint=file)
    assert_same(resumed, CompactKLR(max_points=4).fit(*ring))


def test_checkpoint_of_another_fit(small_is_large, ring, tmp_path, monkeypatch):
    X, y = ring
    file = tmp_path / "fit.npz"
    model, source = CompactKLR(max_points=4), ArraySource(X, y)
    with monkeypatch.context() as patch:
        fail_after(patch, 1)
        with pytest.raises(Stop):
            model.fit_source(source, checkpoint=str(file))
    content = file.read_bytes()
    with pytest.raises(ValueError, match="another fit, which differs in the rows, the labels"):
        model.fit_source(ArraySource(X[1:], y[1:]), checkpoint=file)
    with pytest.raises(ValueError, match="differs in max_points"):
        clone(model).set_params(max_points=8).fit_source(source, checkpoint=file)
    with monkeypatch.context() as patch:
        patch.setattr(checkpoint, "FORMAT", 99)
        with pytest.raises(ValueError, match=r"sparseklr wrote this file \(format 2; expected 99\)"):
            model.fit_source(source, checkpoint=str(file))
    assert file.read_bytes() == content
    for damage in (content[:200], b"", b"not at all"):
        file.write_bytes(damage)
        with pytest.raises(ValueError, match="not a checkpoint of CompactKLR, or it is damaged"):
            model.fit_source(source, checkpoint=str(file))
    with pytest.raises(ValueError, match="does not exist"):
        CompactKLR().fit_source(source, checkpoint=tmp_path / "none" / "fit.npz")


def header_of(file):
    with np.load(file) as content:
        return json.loads(str(content["header"])), {name: content[name] for name in content.files}


def damages(header, arrays):
    """Files of the right format with missing, mistyped or inconsistent parts."""
    for other in ([], "text", 3, None, {}, {"format": 2}):
        yield other, arrays
    for name in ("identity", "Cs", "seconds", "descent"):
        for value in (3, "text", [None], {"a": 1}, [[1.0]]):
            if (name, value) == ("identity", {"a": 1}):  # of another fit
                continue
            yield {**header, name: value}, arrays
        yield {key: value for key, value in header.items() if key != name}, arrays
    for key, value in {"n_steps": "many", "damping": None, "unknown": 1, "done": 0}.items():
        yield {**header, "descent": {**header["descent"], key: value}}, arrays
    yield {**header, "Cs": header["Cs"] * 2}, arrays
    for name in set(arrays) - {"header"}:
        whole = arrays[name]
        for value in (whole[..., :-1], whole.ravel()[0], whole[None], whole.astype(str), whole * np.nan):
            yield header, {**arrays, name: value}
        yield header, {key: value for key, value in arrays.items() if key != name}


def test_malformed_checkpoint_raises_value_error(small_is_large, ring, tmp_path, monkeypatch):
    X, y = ring
    file = tmp_path / "fit.npz"
    with monkeypatch.context() as patch:
        fail_after(patch, 4)
        with pytest.raises(Stop):
            CompactKLR(max_points=4).fit_source(ArraySource(X, y), checkpoint=file)
    header, arrays = header_of(file)
    assert header["descent"] is not None
    reader = checkpoint.Checkpoint(file)  # of whatever fit
    assert len(reader.load().models) == len(header["Cs"])
    for other, contents in damages(header, arrays):
        np.savez(file, **{**contents, "header": np.array(json.dumps(other))})
        with pytest.raises(ValueError, match="not a checkpoint of CompactKLR, or it is damaged"):
            reader.load()
    np.savez(file, header=np.array("{"), **{k: v for k, v in arrays.items() if k != "header"})
    with pytest.raises(ValueError, match="not a checkpoint of CompactKLR, or it is damaged"):
        reader.load()


def test_full_disk(small_is_large, ring, tmp_path, monkeypatch):
    """The fit continues with one warning; the previous file is kept until the end."""
    file, seen = tmp_path / "fit.npz", []
    fsync, calls = os.fsync, []

    def full(descriptor):
        calls.append(descriptor)
        if len(calls) > 1:
            seen.append(file.exists())
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", full)
    with pytest.warns(RuntimeWarning, match="could not be written .No space left on device") as caught:
        model = CompactKLR(max_points=4).fit_source(ArraySource(*ring), checkpoint=file)
    assert len([w for w in caught if w.category is RuntimeWarning]) == 1
    assert len(seen) > 1
    assert all(seen)
    assert list(tmp_path.iterdir()) == []
    assert_same(model, CompactKLR(max_points=4).fit(*ring))
