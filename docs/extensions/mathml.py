"""Convert formulas to MathML, which browsers draw without a script or further files."""

import re

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml

# TeX takes a single digit as an argument, but docutils takes the whole number, so write \tfrac12 as
# \tfrac{1}2.
_DIGIT = re.compile(r"(\\[td]?frac)\s*(\d)")


def mathml(tex, *, block):
    """Convert a formula to a ``math`` element."""
    return str(tex2mathml(_DIGIT.sub(r"\1{\2}", tex), as_block=block))


def visit_inline(translator, node):
    translator.body.append(mathml(node.astext(), block=False))
    raise nodes.SkipNode


def visit_block(translator, node):
    translator.body.append(f'<div class="formula">{mathml(node.astext(), block=True)}</div>')
    raise nodes.SkipNode


def setup(app):
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_block, None))
    app.config.html_math_renderer = "mathml"
    return {"parallel_read_safe": True, "parallel_write_safe": True}
