"""A fit of many rows that is interrupted, killed or out of disk goes on, and ends with the same model."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys

import numpy as np
import pytest
from large_rows import assert_same
from sklearn.base import clone

from sparseklr import CompactKLR
from sparseklr.compact import checkpoint


class Stop(Exception):
    """The power fails."""


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
def test_fit_goes_on_from_a_checkpoint(small_is_large, ring, tmp_path, monkeypatch, n_saves):
    file = tmp_path / "fit.npz"
    expected = CompactKLR(max_points=4).fit(*ring)
    model = CompactKLR(max_points=4, checkpoint=file)
    with monkeypatch.context() as patch:
        fail_after(patch, n_saves)
        with pytest.raises(Stop):
            model.fit(*ring)
    assert not hasattr(model, "dual_coef_")
    assert file.exists()
    with monkeypatch.context() as patch:
        saved = fail_after(patch, -1)
        assert_same(model.fit(*ring), expected)
    assert not file.exists()
    assert list(tmp_path.iterdir()) == []
    # what was done is not done again
    assert len(saved) < len(expected.path_["n_points"]) - 1 + expected.n_iter_


def test_interrupt_leaves_a_checkpoint(small_is_large, ring, tmp_path, monkeypatch):
    file = tmp_path / "fit.npz"
    model = CompactKLR(max_points=4, checkpoint=file).fit(*ring)
    before = dict(model.__dict__)
    save = checkpoint.Checkpoint.save

    def interrupted(self, state):
        save(self, state)
        raise KeyboardInterrupt

    monkeypatch.setattr(checkpoint.Checkpoint, "save", interrupted)
    with pytest.raises(KeyboardInterrupt):
        model.fit(ring[0], 1 - ring[1])
    assert file.exists()
    assert model.__dict__ == before


KILLED = """
import sys, time
from sparseklr import CompactKLR, SparseKLR
from sparseklr.compact import checkpoint, large
from sparseklr.datasets import make_ringnorm
from sparseklr.estimators import compact_klr
compact_klr.MANY_ROWS = 3000
large.BASE, large.HELD_OUT, large.STARTERS, large.LEAST_FISHER = 2048, 2000, 1000, 512
X, y = make_ringnorm(12_000, 6, random_state=0)
save = checkpoint.Checkpoint.save
def slowly(self, state):
    save(self, state)
    print(len(state.models), flush=True)
    time.sleep(30)
checkpoint.Checkpoint.save = slowly
CompactKLR(max_points=4, checkpoint=sys.argv[1]).fit(X, y)
"""


def test_killed_fit_ends_with_the_same_model(small_is_large, ring, tmp_path):
    file = tmp_path / "fit.npz"
    with subprocess.Popen(
        [sys.executable, "-c", KILLED, str(file)], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "1\n"
        process.send_signal(signal.SIGKILL)
    assert file.exists()
    assert_same(CompactKLR(max_points=4, checkpoint=file).fit(*ring), CompactKLR(max_points=4).fit(*ring))


def test_checkpoint_of_another_fit(small_is_large, ring, tmp_path, monkeypatch):
    X, y = ring
    file = tmp_path / "fit.npz"
    model = CompactKLR(max_points=4, checkpoint=str(file))
    with monkeypatch.context() as patch:
        fail_after(patch, 1)
        with pytest.raises(Stop):
            model.fit(X, y)
    content = file.read_bytes()
    with pytest.raises(ValueError, match="another fit, which differs in the rows, the labels"):
        model.fit(X[1:], y[1:])
    with pytest.raises(ValueError, match="differs in max_points"):
        clone(model).set_params(max_points=8).fit(X, y)
    with monkeypatch.context() as patch:
        patch.setattr(checkpoint, "FORMAT", 99)
        with pytest.raises(ValueError, match=r"another version \(format 1; expected 99\)"):
            model.fit(X, y)
    assert file.read_bytes() == content
    for damage in (content[:200], b"", b"not at all"):
        file.write_bytes(damage)
        with pytest.raises(ValueError, match="not a checkpoint of CompactKLR, or it is damaged"):
            model.fit(X, y)
    with pytest.raises(ValueError, match="there is no directory"):
        CompactKLR(checkpoint=tmp_path / "none" / "fit.npz").fit(X, y)


def header_of(file):
    with np.load(file) as content:
        return json.loads(str(content["header"])), {name: content[name] for name in content.files}


def damages(header, arrays):
    """Files of the right format whose parts are missing, of another kind, or do not fit together."""
    for other in ([], "text", 3, None, {}, {"format": 1}):
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


def test_a_malformed_checkpoint_is_our_own_error(small_is_large, ring, tmp_path, monkeypatch):
    X, y = ring
    file = tmp_path / "fit.npz"
    model = CompactKLR(max_points=4, checkpoint=file)
    with monkeypatch.context() as patch:
        fail_after(patch, 4)
        with pytest.raises(Stop):
            model.fit(X, y)
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
    """The fit goes on, with one warning; the file written before is still there until the end."""
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
        model = CompactKLR(max_points=4, checkpoint=file).fit(*ring)
    assert len([w for w in caught if w.category is RuntimeWarning]) == 1
    assert len(seen) > 1
    assert all(seen)
    assert list(tmp_path.iterdir()) == []
    assert_same(model, CompactKLR(max_points=4).fit(*ring))
