"""Constraints for pip: the oldest releases that pyproject.toml allows, with their last fixes.

For example, ``numpy>=1.26`` becomes ``numpy~=1.26.0``. The extras for plots, tables and the command line
are included, because the newest releases of their packages do not work with an old numpy.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

project = tomllib.loads((Path(__file__).resolve().parents[1] / "pyproject.toml").read_text())["project"]
extras = project["optional-dependencies"]
for requirement in [*project["dependencies"], *extras["plots"], *extras["tables"], *extras["cli"]]:
    if found := re.fullmatch(r"([\w-]+)>=([\d.]+)", requirement):
        print(f"{found[1]}~={found[2]}.0")
