"""What the pages share: a template rendered to a self-contained HTML file.

A page loads nothing from the network, and its Content-Security-Policy forbids it. The template
engine escapes all texts, except for the script, the style and the SVG embedded here. Only the
values under the pointer and the choice of learners need JavaScript.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any

from pronk.evaluate.drawing import STYLE, svg, swatch


@cache
def _environment() -> Any:
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        loader=PackageLoader("pronk.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["drawn"] = lambda picture: Markup(svg(picture))
    environment.filters["swatch"] = lambda style: Markup(swatch(style))
    return environment


def render(template: str, **values: Any) -> str:
    """Return a page as text."""
    from markupsafe import Markup

    style, script = Markup(STYLE + _file("page.css")), Markup(_file("page.js"))
    text: str = _environment().get_template(template).render(**values, style=style, script=script)
    return text


def _file(name: str) -> str:
    return files("pronk.report").joinpath(name).read_text(encoding="utf-8")
