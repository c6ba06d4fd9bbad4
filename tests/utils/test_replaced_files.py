"""Replacement of files in one step: threads, long names, modes, planted links, failures."""

from __future__ import annotations

import os
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from sparseklr._utils.files import replacing


def write(path, content: bytes) -> None:
    with replacing(path) as temporary:
        temporary.write_bytes(content)


def test_threads_replacing_one_file_do_not_interfere(tmp_path):
    path = tmp_path / "model.sklr"
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda k: write(path, bytes([k]) * 100_000), range(200)))  # raises what a thread raised
    assert len(set(path.read_bytes())) == 1
    assert list(tmp_path.iterdir()) == [path]


def test_longest_file_names(tmp_path):
    path = tmp_path / ("n" * 249 + ".sklr")
    write(path, b"content")
    assert path.read_bytes() == b"content"


@pytest.mark.skipif(sys.platform == "win32", reason="symbolic links need rights there")
def test_a_planted_link_is_not_followed(tmp_path):
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    shared = tmp_path / "shared"
    shared.mkdir()
    (shared / f".{os.getpid()}-model.sklr").symlink_to(victim)  # the name that was used up to 0.2
    write(shared / "model.sklr", b"content")
    assert victim.read_bytes() == b"precious"
    assert not (shared / "model.sklr").is_symlink()


@pytest.mark.skipif(sys.platform == "win32", reason="there are no modes there")
@pytest.mark.parametrize("mode", [0o600, 0o664, 0o444])
def test_the_mode_of_a_file_is_kept(tmp_path, mode):
    path = tmp_path / "model.sklr"
    path.write_bytes(b"old")
    path.chmod(mode)
    write(path, b"new")
    assert path.read_bytes() == b"new"
    assert path.stat().st_mode & 0o777 == mode


@pytest.mark.skipif(sys.platform == "win32", reason="there are no modes there")
def test_a_new_file_has_the_mode_of_any_new_file(tmp_path):
    usual = tmp_path / "usual"
    usual.write_bytes(b"")
    write(tmp_path / "model.sklr", b"new")
    assert (tmp_path / "model.sklr").stat().st_mode == usual.stat().st_mode


def test_failure_leaves_only_the_old_file(tmp_path):
    path = tmp_path / "model.sklr"
    path.write_bytes(b"old")
    with pytest.raises(TypeError), replacing(path) as temporary:
        temporary.write_text(b"bytes")  # after the file was opened
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]
    with pytest.raises(OSError, match=r"missing.*model"):
        write(tmp_path / "missing" / "model.sklr", b"new")
