"""Configuration of the documentation site (``make docs``).

The site needs no network, neither to be built nor to be read: formulas are MathML, and no inventory of
another site is loaded.
"""

import inspect
import os
import runpy
import sys
from pathlib import Path
from pkgutil import resolve_name

import sparseklr

DOCS = Path(__file__).resolve().parent
sys.path[:0] = [str(DOCS / "extensions"), str(DOCS.parent)]  # the examples import paper
os.environ.setdefault("OMP_NUM_THREADS", "1")

project = "sparseklr"
author = "the sparseklr developers"
copyright = author
version = release = sparseklr.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "myst_parser",
    "sphinx_gallery.gen_gallery",
    # in docs/extensions
    "mathml",
    "measured",
    "layers",
    "llms",
]
exclude_patterns = ["_build", "extensions", "explorer"]
suppress_warnings = ["config.cache"]  # sphinx-gallery's settings hold functions

# -- prose ----------------------------------------------------------------------------------------
myst_enable_extensions = ["dollarmath", "colon_fence"]
myst_heading_anchors = 3
myst_fence_as_directive = ["mermaid"]  # GitHub draws these fences; docs/extensions/layers.py draws them here
myst_links_external_new_tab = False

# -- reference ------------------------------------------------------------------------------------
autosummary_generate = True
autosummary_ignore_module_all = False
templates_path = ["_templates"]
numpydoc_show_class_members = False  # the template of a class lists its methods
numpydoc_class_members_toctree = False
autodoc_typehints = "none"  # the docstrings describe the types
autodoc_member_order = "bysource"
toc_object_entries_show_parents = "hide"  # in the contents of a page: fit(), not SparseKLR.fit()
nitpicky = True
nitpick_ignore_regex = [("py:.*", r"(?!sparseklr).*")]  # references to other packages

# -- gallery --------------------------------------------------------------------------------------
sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"plot_",
    "ignore_pattern": r"demo\.py",
    "doc_module": ("sparseklr",),
    "reference_url": {"sparseklr": None},
    "backreferences_dir": "gallery/backreferences",
    "within_subsection_order": "FileNameSortKey",
    "remove_config_comments": True,
    "show_memory": False,
    "plot_gallery": "True",
    "abort_on_example_error": True,
    "download_all_examples": False,
}

# -- pages ----------------------------------------------------------------------------------------
html_theme = "pydata_sphinx_theme"
html_title = "sparseklr"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_favicon = "_static/icon.svg"
html_context = {"default_mode": "auto"}
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "navbar_end": ["versions", "theme-switcher"],
    "navbar_persistent": ["search-button"],
    "header_links_before_dropdown": 8,
    "show_prev_next": True,
    "footer_start": ["copyright"],
    "footer_end": [],
    "secondary_sidebar_items": ["page-toc"],
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "pygments_light_style": "default",
    "pygments_dark_style": "monokai",
}
_ALONE = (
    "index",
    "quickstart",
    "coming-from-svc",
    "coming-from-boosting",
    "changelog",
    "explorer",
)  # pages outside sections
html_sidebars: dict = {page: [] for page in _ALONE}


def write_explorer(app, error):
    """Write the explorer beside the pages, as a file that docs/explorer.md shows in a frame."""
    if error is None and app.builder.format == "html":
        page = runpy.run_path(str(DOCS / "explorer" / "page.py"))["page"]()
        (Path(app.outdir) / "explorer-page.html").write_text(page, encoding="utf-8")


def skip_inherited(app, what, name, obj, skip, options):
    """Skip members that are inherited from scikit-learn, which documents them."""
    return True if str(getattr(obj, "__module__", "")).startswith("sklearn") else skip


def signature_of_init(app, what, name, obj, options, signature, returns):
    """Show the parameters of ``__init__`` as those of a class, even if it has a ``__new__``."""
    if what != "class" or not (signature or "").startswith("(*args"):
        return None
    parameters = list(inspect.signature(obj.__init__).parameters.values())[1:]
    return str(inspect.Signature([p.replace(annotation=p.empty) for p in parameters])), returns


def resolve_where_defined(app, env, node, contnode):
    """Redirect links from the module that defines a public name to the page that documents it.

    Other names of the package remain without a link if they exist; otherwise Sphinx issues a warning.
    """
    parts = node.get("reftarget", "").split(".")
    if parts[0] != "sparseklr":
        return None
    for last in (1, 2):  # a function or class, a method
        for first in range(1, len(parts) - last):
            target = ".".join(parts[:first] + parts[-last:])
            found = env.get_domain("py").resolve_xref(
                env, node["refdoc"], app.builder, "obj", target, node, contnode
            )
            if found is not None:
                return found
    try:
        resolve_name(".".join(parts))
    except (ImportError, AttributeError):
        return None
    return contnode


def setup(app):
    app.connect("build-finished", write_explorer)
    app.connect("autodoc-skip-member", skip_inherited)
    app.connect("autodoc-process-signature", signature_of_init)
    app.connect("missing-reference", resolve_where_defined)
