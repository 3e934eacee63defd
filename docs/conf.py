"""Settings of Sphinx for the documentation site; `make docs` builds it."""

from __future__ import annotations

import os
import pathlib
import sys

HERE = pathlib.Path(__file__).parent
sys.path[:0] = [str(HERE.parent), str(HERE)]
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("KERAS_BACKEND", "tensorflow")

import hetero_mtf  # noqa: E402

project = "hetero_mtf"
author = "the hetero_mtf developers"
copyright = f"{author}, Apache-2.0"  # noqa: A001 - Sphinx's own name
version = release = hetero_mtf.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.autosummary", "parameter_types", "equations", "numpydoc"]
exclude_patterns = ["_build", "examples", "results/**/README.md"]
templates_path = ["templates"]
default_role = "py:obj"  # `name` in a docstring is a link where there is such a name, else code
nitpicky = True
smartquotes = False  # "--option" stays as it is
nitpick_ignore_regex = [("py:.*", ".*")]  # types and names of other libraries; links between pages are always checked

myst_heading_anchors = 4
myst_enable_extensions = ["dollarmath"]

autosummary_generate = True
autodoc_typehints = "none"  # the types are in the lists of parameters
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False

html_math_renderer = "mathml"

html_theme = "pydata_sphinx_theme"
html_title = "hetero_mtf"
html_static_path = ["static"]
html_css_files = ["pages.css"]
html_sidebars = {path.stem: [] for path in HERE.glob("*.md") if path.stem != "api"} | {"genindex": [], "search": []}
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "header_links_before_dropdown": 5,
    "navbar_align": "left",
    "navbar_end": ["theme-switcher"],
    "footer_start": ["copyright"],
    "footer_end": ["sphinx-version"],
    "show_prev_next": True,
    "secondary_sidebar_items": ["page-toc"],
}
