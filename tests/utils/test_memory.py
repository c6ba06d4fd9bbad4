"""available_memory on simulated systems: memory of the machine, and limits of control groups."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sparseklr._utils.memory import available_memory
from sparseklr.kernels import Kernel, cache_bytes

GB = 1 << 30
UNLIMITED_V1 = 9223372036854771712


def system(root: Path, files: dict[str, str]) -> Path:
    """Files below ``root``; the machine has 2 GB free and 8 GB available."""
    meminfo = f"MemTotal: {16 << 20} kB\nMemFree: {2 << 20} kB\nMemAvailable: {8 << 20} kB\n"
    for name, text in ({"proc/meminfo": meminfo} | files).items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def test_reclaimable_cache_is_available(tmp_path: Path) -> None:
    assert available_memory(system(tmp_path, {})) == 8 * GB
    assert available_memory(system(tmp_path, {"proc/self/cgroup": "0::/\n"})) == 8 * GB


def v2(path: str, limit: str, used: int, cache: int = 0) -> dict[str, str]:
    group = f"sys/fs/cgroup/{path}".rstrip("/")
    return {
        f"{group}/memory.max": f"{limit}\n",
        f"{group}/memory.current": f"{used}\n",
        f"{group}/memory.stat": f"anon 1\nactive_file {cache // 2}\ninactive_file {cache // 2}\n",
    }


@pytest.mark.parametrize(
    ("groups", "expected"),
    [
        ({"a/b": (f"{4 * GB}", GB, 0)}, 3 * GB),
        ({"a/b": (f"{4 * GB}", 3 * GB, 2 * GB)}, 3 * GB),  # its page cache can be dropped
        ({"a/b": ("max", 3 * GB, 0)}, 8 * GB),
        ({"a/b": ("max", GB, 0), "a": (f"{2 * GB}", GB, 0)}, GB),  # the parent's limit holds too
        ({"": (f"{2 * GB}", GB, 0)}, GB),  # a container that sees only its own group, under a host's path
        ({"a/b": (f"{GB}", 2 * GB, 0)}, 0),
    ],
)
def test_limit_of_a_control_group(tmp_path: Path, groups: dict, expected: int) -> None:
    files = {"proc/self/cgroup": "0::/a/b\n"}
    for path, (limit, used, cache) in groups.items():
        files |= v2(path, limit, used, cache)
    assert available_memory(system(tmp_path, files)) == expected


def v1(path: str, limit: int, used: int, cache: int) -> dict[str, str]:
    group = f"sys/fs/cgroup/memory/{path}".rstrip("/")
    return {
        f"{group}/memory.limit_in_bytes": f"{limit}\n",
        f"{group}/memory.usage_in_bytes": f"{used}\n",
        f"{group}/memory.stat": f"cache 1\ninactive_file 1\ntotal_active_file {cache}\n",
    }


@pytest.mark.parametrize(
    ("path", "limit", "used", "cache", "expected"),
    [
        ("docker/1", 4 * GB, 2 * GB, GB, 3 * GB),
        ("docker/1", UNLIMITED_V1, 2 * GB, GB, 8 * GB),
        ("", 4 * GB, 3 * GB, 0, GB),
    ],
)
def test_limit_of_a_control_group_of_version_1(
    tmp_path: Path, path: str, limit: int, used: int, cache: int, expected: int
) -> None:
    listing = "9:cpu,cpuacct:/x\n4:memory:/docker/1\n0::/\n"
    files = {"proc/self/cgroup": listing} | v1(path, limit, used, cache)
    assert available_memory(system(tmp_path, files)) == expected


def test_unreadable_files_are_ignored(tmp_path: Path) -> None:
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_bytes(b"nonsense\n0::/\xff\n")
    files = v2("", f"{4 * GB}", GB)
    assert available_memory(system(tmp_path, files)) == 3 * GB


def test_without_proc(tmp_path: Path) -> None:
    assert available_memory(tmp_path) > 0


def test_the_cache_takes_half_of_what_is_available(monkeypatch) -> None:
    monkeypatch.setattr("sparseklr.kernels.available_memory", lambda: 100 << 20)
    assert cache_bytes("auto") == 50 << 20
    with pytest.raises(MemoryError, match=r"cache_size=4000.* 100 MB are available"):
        Kernel("linear").row_source(np.ones((5000, 1)), cache_size=4000)
