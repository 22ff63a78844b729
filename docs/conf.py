"""Configuration of the documentation site: `make docs` builds it into docs/_build/html."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE / "extensions"), str(HERE.parent / "src"), str(HERE.parent)]

from pronk import __version__  # noqa: E402

project = "pronk"
author = "the pronk developers"
copyright = author
version = release = __version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "mathml",  # the rest is in docs/extensions
    "docstrings",
    "algorithm_pages",
    "command_line_page",
    "gallery",
    "notebooks",
    "llms",
    "result_pages",
]
myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 3
exclude_patterns = ["_build", "generated/fragments", "extensions"]

autodoc_typehints = "none"
autodoc_member_order = "bysource"
napoleon_google_docstring = False
# Types are prose ("rows, or None"): as fields, their words would be taken for references.
napoleon_use_param = False
napoleon_use_rtype = False
default_role = "literal"
toc_object_entries_show_parents = "hide"
html_math_renderer = "mathml"
# Outputs (```text) have no copy button; prompts of examples are not copied.
copybutton_selector = "div:not(.highlight-text):not(.highlight-none) > div.highlight > pre"
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

html_theme = "pydata_sphinx_theme"
html_title = "pronk"
html_static_path = ["_static"]
html_css_files = ["pronk.css"]
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "logo": {"text": "pronk"},
    "show_prev_next": False,
    "navbar_align": "left",
    "header_links_before_dropdown": 5,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "show_toc_level": 2,
    "pygments_light_style": "tango",
    "pygments_dark_style": "monokai",
}
# A page without neighbours in its part needs no left column.
ALONE = ("index", "tutorial", "map", "faq", "symptoms", "which", "theory", "errata")
html_sidebars = {page: [] for page in ALONE}
