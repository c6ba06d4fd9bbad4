"""Put the built site into a folder of published versions: python tools/publish_docs.py BUILT SITE VERSION

``SITE/VERSION`` receives the pages; VERSION is ``dev`` or a release such as ``0.2``, and the patch number of
0.2.1 is dropped. ``SITE/versions.json`` lists the versions for the menu of the pages, and ``SITE/index.html``
redirects to the newest release, or to ``dev`` if there is none.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
from pathlib import Path

REDIRECT = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>sparseklr</title>
<meta http-equiv="refresh" content="0; url={0}/"></head>
<body><a href="{0}/">sparseklr {0}</a></body></html>
"""


def folder(version: str) -> str:
    """Return ``dev``, or the major and minor number of a release or of its tag."""
    if version == "dev":
        return version
    found = re.fullmatch(r"v?(\d+\.\d+)(\.\w+)*", version)
    if not found:
        raise SystemExit(f"VERSION is {version!r}; expected dev, or a release such as 0.2.1")
    return found[1]


def publish(built: Path, site: Path, version: str) -> None:
    target = site / folder(version)
    if not (built / "index.html").exists():
        raise SystemExit(f"{built} has no index.html: run make docs")
    if target.exists():
        shutil.rmtree(target)
    shutil.copytree(built, target, ignore=shutil.ignore_patterns(".doctrees", ".buildinfo"))
    releases = sorted(
        (path.name for path in site.iterdir() if re.fullmatch(r"\d+\.\d+", path.name)),
        key=lambda name: tuple(map(int, name.split("."))),
        reverse=True,
    )
    names = [*releases, *(["dev"] if (site / "dev").exists() else [])]
    (site / "versions.json").write_text(json.dumps(names) + "\n")
    (site / "index.html").write_text(REDIRECT.format(names[0]))
    (site / ".nojekyll").touch()  # GitHub would ignore folders whose names begin with an underscore


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("built", type=Path)
    parser.add_argument("site", type=Path)
    parser.add_argument("version")
    given = parser.parse_args()
    given.site.mkdir(parents=True, exist_ok=True)
    publish(given.built, given.site, given.version)


if __name__ == "__main__":
    main()
