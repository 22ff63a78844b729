"""Render a template to a self-contained HTML page that loads nothing from the network.

The template engine escapes all texts, except for the scripts, styles and data embedded here. The
page's Content-Security-Policy forbids network access. Tables and settings need no JavaScript;
charts need it.
"""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Any


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
def _libraries() -> str:
    """Return the code of Vega, Vega-Lite and Vega-Embed from vl-convert, for Altair's version."""
    import altair
    import vl_convert

    wanted = ".".join(altair.SCHEMA_VERSION.lstrip("v").split(".")[:2])
    known = vl_convert.get_vegalite_versions()
    version = wanted if wanted in known else known[-1]
    bundle: str = vl_convert.javascript_bundle(vl_version=version)  # type: ignore[call-arg]
    return bundle


def _script(text: str) -> str:
    """Escape a text so that it cannot end the script element that contains it."""
    return text.replace("</script", "<\\/script").replace("<!--", "<\\!--")


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
