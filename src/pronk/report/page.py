"""What the pages share: tables, and a template rendered to a self-contained HTML file.

A page loads nothing from the network, and its Content-Security-Policy forbids it. The template
engine escapes all texts, except for the scripts, styles and data embedded here. Tables and settings
need no JavaScript; charts need it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

# -- tables ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Stroke:
    """Hold the colour and the dashes of a learner."""

    colour: str
    dashes: str


@dataclass(frozen=True)
class Cell:
    """Hold the text of a cell, and whether it is the best of its column."""

    text: str
    best: bool = False


@dataclass(frozen=True)
class TableRow:
    """Hold the name and the cells of a row."""

    name: str
    cells: list[Cell]
    line: Stroke | None = None
    baseline: bool = False


@dataclass(frozen=True)
class Table:
    """Hold the header, the rows and the note below a table."""

    header: list[str]
    rows: list[TableRow]
    note: str = ""


# -- rendering -------------------------------------------------------------------------------------


@cache
def _environment() -> Any:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    return Environment(
        loader=PackageLoader("pronk.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def render(template: str, data: dict[str, Any], **values: Any) -> str:
    """Return a page as text; ``data`` is embedded as JSON for its script."""
    from markupsafe import Markup

    embedded = {
        "style": _file("page.css"),
        "script": _script(_file("page.js")),
        "libraries": _script(_libraries()),
        "data": _json(data),
    }
    marked = {name: Markup(text) for name, text in embedded.items()}
    text: str = _environment().get_template(template).render(**values, **marked)
    return text


def _file(name: str) -> str:
    return files("pronk.report").joinpath(name).read_text(encoding="utf-8")


@cache
def vega_lite_version() -> str:
    """Return the version of Vega-Lite in the page: Altair's if vl-convert has it, or the newest."""
    import altair
    import vl_convert

    wanted = ".".join(altair.SCHEMA_VERSION.lstrip("v").split(".")[:2])
    known: list[str] = vl_convert.get_vegalite_versions()
    return wanted if wanted in known else known[-1]


@cache
def _libraries() -> str:
    """Return the code of Vega, Vega-Lite and Vega-Embed from vl-convert."""
    import vl_convert

    version = vega_lite_version()
    bundle: str = vl_convert.javascript_bundle(vl_version=version)  # type: ignore[call-arg]
    return bundle


def _script(text: str) -> str:
    """Escape a text so that it cannot end the script element that contains it."""
    return text.replace("</script", "<\\/script").replace("<!--", "<\\!--")


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
