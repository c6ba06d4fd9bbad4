"""Amount of memory that is available to the process."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

_UNKNOWN = 1 << 40


def available_memory(root: str | Path = "/") -> int:
    """Return the number of bytes that the process can allocate without swapping.

    It is the smaller of two numbers: the available memory of the machine, and the memory that the control
    groups (versions 1 and 2) of the process still allow. Page cache that the system can reclaim counts as
    available.

    Parameters
    ----------
    root : path, default="/"
        Directory in which ``proc`` and ``sys/fs/cgroup`` are mounted.

    Returns
    -------
    int
        Number of bytes; a very large number if the available memory is unknown.

    References
    ----------
    Linux kernel documentation: Documentation/filesystems/proc.rst (MemAvailable),
    Documentation/admin-guide/cgroup-v1/memory.rst, Documentation/admin-guide/cgroup-v2.rst.

    Examples
    --------
    >>> available_memory() > 0
    True
    """
    root = Path(root)
    machine = _table(root / "proc/meminfo").get("MemAvailable:")
    available = [machine * 1024 if machine is not None else _free_pages()]
    for group, limit, usage, prefix in _memory_groups(root):
        most, used = _number(group / limit), _number(group / usage)
        if most is not None and used is not None:
            statistics = _table(group / "memory.stat")
            cache = sum(statistics.get(f"{prefix}{kind}_file", 0) for kind in ("active", "inactive"))
            available.append(most - used + cache)
    return max(0, min(available))


def _memory_groups(root: Path) -> Iterator[tuple[Path, str, str, str]]:
    """Yield each control group directory whose memory limit applies to this process, with names of its files.

    The first name is that of the file with the limit, and the second that of the file with the usage. A third
    string is the prefix of the page-cache statistics that include child groups. Inside a container, the path
    of the control group may refer to the host, so all directories up to the mounted root are considered.
    """
    mounted = root / "sys/fs/cgroup"
    for line in _read(root / "proc/self/cgroup").splitlines():
        _, controllers, path = [*line.split(":", 2), "no", ""][:3]
        if controllers == "":
            top, names = mounted, ("memory.max", "memory.current", "")
        elif "memory" in controllers.split(","):
            top = mounted / "memory"
            names = "memory.limit_in_bytes", "memory.usage_in_bytes", "total_"
        else:
            continue
        group = top / path.lstrip("/")
        while group != top and top in group.parents:
            yield group, *names
            group = group.parent
        yield top, *names


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="surrogateescape")
    except OSError:
        return ""


def _number(path: Path) -> int | None:
    text = _read(path).strip()
    return int(text) if text.isdigit() else None  # "max" means no limit


def _table(path: Path) -> dict[str, int]:
    """Return the content of a file with lines of the form "name number" as a dictionary."""
    lines = (line.split() for line in _read(path).splitlines())
    return {words[0]: int(words[1]) for words in lines if len(words) > 1 and words[1].isdigit()}


def _free_pages() -> int:
    """Return the free memory in bytes on systems without /proc, or a very large number if it is unknown."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return _UNKNOWN
