"""A Sphinx extension that writes equations as MathML, which browsers show by themselves: no script is fetched from elsewhere."""

from __future__ import annotations

from typing import Any

from docutils import nodes
from docutils.utils.math import latex2mathml
from sphinx.application import Sphinx

NAME = "mathml"


def mathml(equation: str, *, displayed: bool) -> str:
    """Return an equation as MathML.

    Parameters
    ----------
    equation : in TeX's notation.
    displayed : whether it stands by itself, rather than in a line of text.

    Raises
    ------
    ValueError
        Where docutils does not know what is in the equation.
    """
    return str(latex2mathml.tex2mathml(equation, as_block=displayed))


def _write(writer: Any, node: nodes.math) -> None:
    writer.body.append(mathml(node.astext(), displayed=False))
    raise nodes.SkipNode


def _write_displayed(writer: Any, node: nodes.math_block) -> None:
    writer.body.append(f'<div class="equation">{mathml(node.astext(), displayed=True)}</div>\n')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, Any]:
    """Let Sphinx write equations so."""
    app.add_html_math_renderer(NAME, (_write, None), (_write_displayed, None))
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
