"""Output streams of the command line: closed pipes, limited encodings, and hostile text."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from sparseklr.cli import files, main
from sparseklr.cli.files import PackingSettings
from sparseklr.cli.options import CliError

ESCAPE = "\x1b]0;owned\x07\x9b2J"


def sparseklr(*argv: Any, **environment: str) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "sparseklr", *map(str, argv)]
    return subprocess.run(command, capture_output=True, env={**os.environ, **environment})


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("streams")
    rng = np.random.default_rng(0)
    x, z = rng.normal(size=(2, 100)).round(3)
    frame = pd.DataFrame({"größe": x, "b": z, "y": np.where(x > 0, "ünï", "no")})
    frame.to_csv(home / "u.csv", index=False)
    hostile = frame.rename(columns={"größe": f"a{ESCAPE}"})
    hostile["c"] = rng.choice([f"p{ESCAPE}", "q"], 100)
    hostile["y"] = np.where(x > 0, f"yes{ESCAPE}", "no")
    hostile.to_csv(home / "hostile.csv", index=False)
    assert (
        main(["fit", str(home / "u.csv"), "--target", "y", "--model", "sparse", "-o", str(home / "m.sklr")])
        == 0
    )
    return home


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="needs pipes as Unix has them")
def test_broken_pipe_is_not_an_error(home):
    read, write = os.pipe()
    os.close(read)  # as head does, before anything is written
    command = [sys.executable, "-m", "sparseklr", "show", home / "m.sklr"]
    done = subprocess.run(command, stdout=write, stderr=subprocess.PIPE)
    os.close(write)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.slow
def test_characters_missing_from_the_terminal_encoding(home, tmp_path):
    argv = ("fit", home / "u.csv", "--target", "y", "--model", "sparse", "-o", tmp_path / "n.sklr")
    done = sparseklr(*argv, PYTHONIOENCODING="ascii")
    assert done.returncode == 0, done.stderr
    assert b"?n?" in done.stdout
    assert (tmp_path / "n.sklr").exists()


@pytest.mark.slow
def test_terminal_escapes_are_printed_as_text(home, tmp_path, capfd):
    data, model = home / "hostile.csv", tmp_path / "m.sklr"
    assert (
        main(["fit", str(data), "--target", "y", "--model", "sparse", "--test-size", "0.3", "-o", str(model)])
        == 0
    )
    assert main(["show", str(model)]) == 0
    assert main(["evaluate", str(model), str(data)]) == 0
    assert main(["explain", str(model), str(data), "--row", "1"]) == 0
    assert main(["predict", str(model), str(data), "--id", f"no{ESCAPE}"]) == 2
    shown = capfd.readouterr()
    for text in (shown.out, shown.err):
        assert not set(text) & set("\x1b\x07\x9b")
    assert r"yes\x1b]0;owned\x07\x9b2J" in shown.out
    assert r"no\x1b" in shown.err


# -- packed tables ----------------------------------------------------------------------------------


@pytest.mark.slow
def test_decompression_bomb_is_rejected_early(tmp_path, capfd):
    import bz2

    content = b"x,y\n" + b"1,a\n" * (1 << 20)
    for name, pack in {"t.csv.gz": gzip.compress, "t.csv.bz2": bz2.compress}.items():
        (tmp_path / name).write_bytes(pack(content))
        assert files.read_bytes(str(tmp_path / name)) == content  # small ones may be of any ratio
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(files, "SETTINGS", PackingSettings(unpacked=1 << 20))
            assert (
                main(
                    [
                        "fit",
                        str(tmp_path / name),
                        "--target",
                        "y",
                        "--model",
                        "sparse",
                        "-o",
                        str(tmp_path / "m.sklr"),
                    ]
                )
                == 2
            )
        message = capfd.readouterr().err
        assert "the decompressed file has more than 1 MB (100 times its compressed size)" in message
        assert "decompress the file first" in message
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(files, "available_memory", lambda: 4 << 20)
            with pytest.raises(CliError, match=r"more than 2 MB \(half of the available memory\)"):
                files.read_bytes(str(tmp_path / name))
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"x": rng.normal(size=100_000), "y": rng.choice(["a", "b"], 100_000)})
    table.to_csv(tmp_path / "usual.csv.gz", index=False)
    with pytest.MonkeyPatch.context() as patch:  # a table of numbers is far below the ratio
        patch.setattr(files, "SETTINGS", PackingSettings(unpacked=1 << 20))
        assert len(files.read_bytes(str(tmp_path / "usual.csv.gz"))) > 2 << 20


# -- rows of the training ---------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("n_categories", "decimals"), [(3, None), (3, 3)], ids=["few", "many"])
def test_equal_rows_are_reported_only_if_unexpected(tmp_path, capfd, n_categories, decimals):
    """In a table with few categories, every new row equals a training row."""

    def table(seed: int) -> pd.DataFrame:
        draw = np.random.default_rng(seed)
        frame = pd.DataFrame({f"c{k}": draw.choice(list("abcdef")[:n_categories], 400) for k in range(3)})
        if decimals is not None:
            frame["x"] = draw.normal(size=400).round(decimals)
        frame["y"] = np.where((frame["c0"] == "a") ^ (draw.random(400) < 0.2), "yes", "no")
        return frame

    for name, seed in {"train": 0, "new": 1}.items():
        table(seed).to_csv(tmp_path / f"{name}.csv", index=False)
    model = str(tmp_path / "m.sklr")
    fit = ["fit", str(tmp_path / "train.csv"), "--target", "y", "--model", "sparse", "-o", model]
    assert main(fit) == 0
    said = {}
    for name in ("train", "new"):
        capfd.readouterr()
        assert main(["evaluate", model, str(tmp_path / f"{name}.csv")]) == 0
        said[name] = "identical to training rows" in capfd.readouterr().err
    assert said == {"train": decimals is not None, "new": False}
