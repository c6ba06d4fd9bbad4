"""How much memory a process may still use."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

_UNKNOWN = 1 << 40


def available_memory(root: str | Path = "/") -> int:
    """Bytes that can be allocated without swapping or being stopped, as far as the system reports it.

    The smaller of what the machine has available (reclaimable page cache included) and of what the limits
    of the process's control groups leave, of version 1 and 2, page cache that can be dropped not counted as
    used. A limit of a parent group holds for its children.

    Parameters
    ----------
    root : path, default="/"
        Where ``proc`` and ``sys/fs/cgroup`` are mounted.

    Returns
    -------
    int

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
    of_machine = _table(root / "proc/meminfo").get("MemAvailable:")
    rooms = [of_machine * 1024 if of_machine is not None else _free_pages()]
    for group, limit, usage, of_children in _memory_groups(root):
        most, used = _number(group / limit), _number(group / usage)
        if most is not None and used is not None:
            known = _table(group / "memory.stat")
            cache = sum(known.get(f"{of_children}{kind}_file", 0) for kind in ("active", "inactive"))
            rooms.append(most - used + cache)
    return max(0, min(rooms))


def _memory_groups(root: Path) -> Iterator[tuple[Path, str, str, str]]:
    """Every directory whose limit holds for this process, with the names of its limit and usage.

    The fourth is what the names of the page cache begin with where children are counted.

    Inside a container the path that the system gives may be that of the host; the root of what is mounted
    is then the group of the container, so all directories up to it are looked at.
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
    return int(text) if text.isdigit() else None  # "max": no limit


def _table(path: Path) -> dict[str, int]:
    """A file of lines "name number"."""
    lines = (line.split() for line in _read(path).splitlines())
    return {words[0]: int(words[1]) for words in lines if len(words) > 1 and words[1].isdigit()}


def _free_pages() -> int:
    """Where there is no /proc: free pages, or unknown."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return _UNKNOWN
