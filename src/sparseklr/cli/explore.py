"""``sparseklr explore``: the page on which points can be dragged and the model seen to change."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

from .options import add_command, add_output

EXAMPLES = """\
  sparseklr explore
  sparseklr explore -o explorer.html"""


def add_parser(subparsers: Any) -> None:
    parser = add_command(
        subparsers,
        "explore",
        run,
        "Open a page on which points on a plane can be added, dragged and labelled, while the model is "
        "solved again at every move. The page is a single file that loads nothing.",
        EXAMPLES,
    )
    add_output(parser, "write the page to this file instead of opening it", required=False)


def run(args: Namespace) -> None:
    import tempfile
    import webbrowser
    from pathlib import Path

    from ..explorer import page
    from .files import check_output, writing

    if args.output:
        with writing(check_output(args.output, args.force)) as temporary:
            temporary.write_text(page(), encoding="utf-8")
        print(f"Page written to {args.output}")
        return
    path = Path(tempfile.mkdtemp(prefix="sparseklr-")) / "explorer.html"
    path.write_text(page(), encoding="utf-8")
    opened = webbrowser.open(path.as_uri())
    print(f"{'Opened' if opened else 'No browser found; open'} {path}")
