"""Write two files for language models and other tools beside the pages.

``llms.txt`` (https://llmstxt.org) lists the pages with a sentence about each; ``llms-api.md`` has the
signature, parameters, attributes and methods of every public name.
"""

import inspect
import re
from pathlib import Path
from pkgutil import resolve_name

from docutils import nodes
from numpydoc.docscrape import NumpyDocString

SECTIONS = {
    "Start": ("quickstart", "coming-from-svc", "coming-from-boosting"),
    "User guide": ("guide/",),
    "Method": ("method/",),
    "Optional": ("export", "architecture", "design/", "errata", "changelog", "contributing"),
}
RULES = """\
- `SparseKLR()` replaces `SVC(probability=True)`; `CompactKLR()` needs fewer points and fits millions of rows.
- Both scale the features, choose kernel and regularisation themselves, and follow scikit-learn's interface.
- `tabular_pipeline()` accepts data frames with text, dates and missing values; `sparseklr fit` reads files.
"""


def first_sentence(document):
    """The first sentence of a page, without markup."""
    for paragraph in document.findall(nodes.paragraph):
        text = " ".join(paragraph.astext().split())
        note = isinstance(paragraph.children[0], nodes.emphasis)  # below a measured table
        if isinstance(paragraph.parent, nodes.section | nodes.list_item) and not note and len(text) > 20:
            return re.split(r"(?<=[.?!]) (?=[A-Z`])", text)[0].rstrip(":")
    return ""


def index(app):
    """The text of ``llms.txt``."""
    env = app.env
    lines = [
        f"# sparseklr {app.config.release}",
        "",
        f"> {first_sentence(env.get_doctree('index'))}",
        "",
        RULES,
        "## API",
        "",
        "- [API on one page](llms-api.md): signatures, parameters, attributes and methods of public names",
    ]
    for title, patterns in SECTIONS.items():
        pages = [
            page
            for pattern in patterns
            for page in sorted(env.found_docs)
            if page == pattern or (pattern.endswith("/") and page.startswith(pattern))
        ]
        lines += ["", f"## {title}", ""]
        lines += [
            f"- [{env.titles[page].astext()}]({page}.html): {first_sentence(env.get_doctree(page))}".rstrip(
                ": "
            )
            for page in pages
        ]
    return "\n".join(lines) + "\n"


def public_names(reference):
    """The full names listed by the autosummary directives of docs/api/index.rst."""
    module, names = "", []
    for line in reference.splitlines():
        if found := re.match(r"\.\. currentmodule:: ([\w.]+)", line):
            module = found[1]
        elif found := re.fullmatch(r"   (\w+)", line):
            names.append(f"{module}.{found[1]}")
    return names


def summary(text):
    """The first paragraph of a docstring."""
    return without_roles(" ".join((inspect.cleandoc(text or "").split("\n\n")[0]).split()))


def without_roles(text):
    """Text without the roles of Sphinx: ``:class:`~a.B` `` becomes a.B in backquotes."""
    return re.sub(r":\w+:(`)~?([^`]+)`", r"\1\2`", text)


def signature(name, obj):
    if inspect.isclass(obj):
        parameters = list(inspect.signature(obj.__init__).parameters.values())[1:]
        found = inspect.Signature([p.replace(annotation=p.empty) for p in parameters])
    else:
        found = inspect.signature(obj)
        parameters = [p.replace(annotation=p.empty) for p in found.parameters.values()]
        found = inspect.Signature(parameters)
    return f"{name}{found}"


def described(entries):
    """Lines for the parameters or attributes of a docstring: name, type and first sentence."""
    for entry in entries:
        sentence = re.split(r"(?<=\.) ", " ".join(" ".join(entry.desc).split()))[0]
        kind = f" ({entry.type})" if entry.type else ""
        yield without_roles(f"- `{entry.name}`{kind}: {sentence}").rstrip(": ")


def entry(name):
    """The lines of one public name."""
    obj = resolve_name(name)
    parsed = NumpyDocString(inspect.getdoc(obj) or "")
    lines = [f"## {name}", "", f"`{signature(name, obj)}`", "", summary(inspect.getdoc(obj))]
    for title in ("Parameters", "Attributes", "Returns"):
        if found := list(described(parsed[title])):
            lines += ["", f"{title}:", "", *found]
    if inspect.isclass(obj):
        methods = [
            f"- `{signature(key, member)}`: {summary(inspect.getdoc(member))}"
            for key, member in inspect.getmembers(obj, inspect.isroutine)
            if not key.startswith("_") and getattr(member, "__module__", "").startswith("sparseklr")
        ]
        lines += ["", "Methods:", "", *methods] if methods else []
    return lines


def api(names, release):
    """The text of ``llms-api.md``."""
    lines = [f"# API of sparseklr {release}", "", "Import each name from the module before its last dot.", ""]
    for name in names:
        lines += [*entry(name), ""]
    return "\n".join(lines)


def write(app, error):
    if error is None and app.builder.format == "html":
        out = Path(app.outdir)
        names = public_names((Path(app.srcdir) / "api" / "index.rst").read_text("utf-8"))
        (out / "llms.txt").write_text(index(app), "utf-8")
        (out / "llms-api.md").write_text(api(names, app.config.release), "utf-8")


def setup(app):
    app.connect("build-finished", write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
