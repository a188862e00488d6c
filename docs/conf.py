"""Sphinx: sphinx-build -W --keep-going -n docs docs/_build"""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent), str(HERE)]  # the checkout, installed or not; and fill.py

import xpapply  # noqa: E402

project = "xpapply"
author = "The xpapply developers"
copyright = "2026, The xpapply developers"
version = release = xpapply.__version__

extensions = ["sphinx.ext.autodoc", "numpydoc", "myst_parser", "fill"]
exclude_patterns = ["_build"]
default_role = "py:obj"
nitpicky = True
nitpick_ignore_regex = [
    ("py:obj", r"Plan\.\w+"),  # attributes, listed under Plan
    ("py:obj", r"[a-z_.0-9]+"),  # names of parameters, modules and other libraries
    ("py:.*", r"(numpy|np|cupy|torch|functools|collections|typing|types|contextlib)\..*"),
    ("py:class", r".*"),  # types in numpydoc's prose
]

autodoc_typehints = "none"  # the docstrings give types with shapes
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3

html_theme = "furo"
html_title = f"xpapply {release}"
html_static_path = ["_static"] if (HERE / "_static").is_dir() else []
html_copy_source = False
