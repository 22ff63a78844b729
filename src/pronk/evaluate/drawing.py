"""Pictures as data: lines, points and bands, and their SVG for a page or a notebook.

The SVG has the size of its container: an inner picture with coordinates from 0 to 1,000 stretches,
texts outside it keep their size. The page defines the colours, for light and dark mode.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from importlib.resources import files

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

#: Distinct on white for colour-blind readers too; the pages have the same.
COLOURS = (
    "#0072b2", "#c44e00", "#007a5a", "#a83279", "#7a6200", "#5a4fcf", "#008ba3", "#b0171f",
)  # fmt: skip
#: The style sheet of a page with pictures: its colours, for light and dark mode, and the SVG's.
STYLE = files("pronk.evaluate").joinpath("chart.css").read_text(encoding="utf-8")
#: Solid, dashed, dotted, ..: 8 colours and 4 dashes give 32 different pairs.
DASHES = ((), (6, 3), (2, 2), (9, 3, 2, 3))


@dataclass(frozen=True)
class Style:
    """Hold a colour, by its index in `COLOURS` or -1 for grey, and the index of the dashes."""

    colour: int
    dashes: int = 0

    @classmethod
    def of(cls, i: int, grey: bool = False) -> Style:
        """Return the style of the i-th of many learners."""
        return cls(-1 if grey else i % len(COLOURS), (i + i // len(COLOURS)) % len(DASHES))

    @property
    def name(self) -> str:
        """The colour's name in the style sheet of a page."""
        return "--grey" if self.colour < 0 else f"--c{self.colour}"

    @property
    def dasharray(self) -> str:
        return " ".join(map(str, DASHES[self.dashes]))


@dataclass(frozen=True)
class Curve:
    """A line, or points, with its name; NaN values are not drawn."""

    name: str
    x: Array
    y: Array
    dashed: bool = False
    points: bool = False
    band: tuple[Array, Array] | None = None
    """Lower and upper ends of a band."""
    kind: str = ""
    """What the line shows, if a learner has several."""
    style: Style | None = None
    """Where it is not that of the curve's position."""


@dataclass(frozen=True)
class Picture:
    """One chart: curves, points or a table of counts, with title and caption."""

    name: str
    title: str
    caption: str
    x: str
    y: str
    curves: list[Curve] = field(default_factory=list)
    log_x: bool = False
    log_y: bool = False
    percent: bool = False
    """Whether y is a share (and x too, unless x counts rows)."""
    alarms: list[int] = field(default_factory=list)
    counts: tuple[list[str], NDArray[np.int64]] | None = None
    along: bool = True
    """Whether the picture belongs to those along the stream."""
    first: bool = False
    """Whether it comes before everything else."""

    def style(self, i: int) -> Style:
        """Return the style of a curve."""
        return self.curves[i].style or Style(i % len(COLOURS), int(self.curves[i].dashed))

    def band(self, curve: Curve) -> tuple[Array, Array]:
        """Return the ends of a band; on a logarithmic axis they do not reach zero."""
        assert curve.band is not None
        low, high = curve.band
        return (np.maximum(low, curve.y / 10), high) if self.log_y else (low, high)

    def y_axis(self) -> Axis:
        """Return the vertical axis."""
        values = [curve.y for curve in self.curves]
        values += [end for one in self.curves if one.band is not None for end in self.band(one)]
        zero = [np.zeros(1)] if self.name == "points" else []
        return Axis(values + zero, self.log_y, self.percent, nice=True)

    def x_axis(self) -> Axis:
        """Return the horizontal axis."""
        share = self.percent and self.x != "rows"
        return Axis([curve.x for curve in self.curves], self.log_x, share)


# -- axes ------------------------------------------------------------------------------------------


class Axis:
    """Map values to 0 .. 1, and choose ticks with their texts."""

    def __init__(
        self,
        values: Sequence[Array],
        log: bool = False,
        percent: bool = False,
        *,
        nice: bool = False,
    ) -> None:
        self.log, self.percent = log, percent
        joined = np.concatenate([np.asarray(one, dtype=np.float64) for one in values])
        known = joined[np.isfinite(joined) & ((joined > 0) | (not log))]
        if log:
            known = np.log10(known)
        low, high = (float(known.min()), float(known.max())) if len(known) else (0.0, 1.0)
        if high - low <= 1e-9 * max(abs(low), abs(high)):  # a constant is drawn in the middle
            room = 0.1 if log else 0.1 * abs(low) or 1.0
            low, high = low - room, high + room
        self.low, self.high = low, high
        if nice and not log:
            step = self._step()
            self.low = math.floor(self.low / step + 1e-9) * step
            self.high = math.ceil(self.high / step - 1e-9) * step

    def __call__(self, values: Array) -> Array:
        """Return the positions of values; NaN where a value cannot be drawn."""
        values = np.asarray(values, dtype=np.float64)
        if self.log:
            values = np.log10(np.where(values > 0, values, np.nan))
        return (np.where(np.isfinite(values), values, np.nan) - self.low) / (self.high - self.low)

    def _step(self) -> float:
        """Return the distance between ticks of a linear axis: 1, 2 or 5 times a power of ten."""
        rough = (self.high - self.low) / 6
        power = 10.0 ** math.floor(math.log10(rough))
        return next(k * power for k in (1, 2, 5, 10) if k * power >= rough * (1 - 1e-9))

    def ticks(self) -> list[tuple[float, str]]:
        """Return positions and texts of the ticks."""
        values: Array = np.zeros(0)
        step = 0.0
        if self.log:
            powers = range(math.floor(self.low), math.ceil(self.high) + 1)
            each = (1,) if self.high - self.low >= 2 else (1, 2, 5)
            values = np.array([k * 10.0**p for p in powers for k in each])
            exponents = np.log10(values)
            values = values[(exponents >= self.low - 1e-9) & (exponents <= self.high + 1e-9)]
            values = values[:: 1 + len(values) // 8]
        if len(values) < 2:  # a linear axis, or one with less than a factor of two
            plain = Axis([10.0 ** np.array([self.low, self.high])]) if self.log else self
            step = plain._step()
            first, last = math.ceil(plain.low / step - 1e-9), math.floor(plain.high / step + 1e-9)
            values = np.array([step * k for k in range(first, last + 1)])
        texts = [self.text(value, step) for value in values]
        return [*zip(self(values).tolist(), texts, strict=True)]

    def text(self, value: float, step: float) -> str:
        """Format the value of a tick so that it differs from the next one."""
        if abs(value) < 1e-9 * step or value == 0:
            return "0%" if self.percent else "0"
        size = abs(value)
        digits = max(2, 1 + math.floor(math.log10(size / step) + 1e-9)) if step else 2
        if self.percent:
            return f"{100 * value:.{digits}g}%" if size < 1 else f"{100 * value:.0f}%"
        if 1e4 <= size < 1e15:
            if digits > 3 and value == round(value) and size < 1e9:
                return f"{value:,.0f}"
            thousands = int(math.log10(size) / 3 + 1e-9)
            scaled = f"{value / 1000**thousands:.{max(digits, 3)}g}"
            return scaled + ("", "k", "M", "G", "T")[thousands]
        if size >= 1e15 or size < 1e-3:
            mantissa, _, exponent = f"{value:.{digits - 1}e}".partition("e")
            return f"{float(mantissa):g}e{int(exponent)}"
        return f"{value:.{max(digits, 4)}g}"


# -- SVG -------------------------------------------------------------------------------------------


def svg(picture: Picture) -> str:
    """Return a picture as SVG, whose script-free markup a page contains as it is.

    Attributes describe axes and curves, from which the script of a page reads values to show.
    """
    x_axis, y_axis = picture.x_axis(), picture.y_axis()
    around, inside = [], []
    for place, text in y_axis.ticks():
        at = f"{100 * (1 - place):.2f}%"
        around.append(f'<line class="grid" x2="100%" y1="{at}" y2="{at}"/>')
        around.append(f'<text class="up" x="-6" y="{at}">{escape(text)}</text>')
    for place, text in x_axis.ticks():
        around.append(f'<text class="across" x="{100 * place:.2f}%" y="100%">{escape(text)}</text>')
    for row in picture.alarms:
        at = f"{1000 * float(x_axis(np.array([row]))[0]):.1f}"
        inside.append(f'<path class="event" d="M{at} 0V1000"><title>row {row:,}</title></path>')
    for i, curve in enumerate(picture.curves):
        style, name = picture.style(i), escape(curve.name, quote=True)
        x, y = 1000 * x_axis(curve.x), 1000 * (1 - y_axis(curve.y))
        drawn, colour = [], f'stroke="var({style.name})"'
        if curve.band is not None:
            ends = [1000 * (1 - y_axis(end)) for end in picture.band(curve)]
            d = "".join(
                _polyline(np.r_[part[0], part[0][::-1]], np.r_[part[1], part[2][::-1]]) + "Z"
                for part in _pieces(x, *ends)
            )
            drawn.append(f'<path class="band" fill="var({style.name})" d="{d}"/>')
        if curve.points:
            kind = "points" if len(curve.x) > 1 else "point"
            known = np.isfinite(x) & np.isfinite(y)
            d = "".join(f"M{a:.2f} {b:.2f}h0" for a, b in zip(x[known], y[known], strict=True))
            drawn.append(f'<path class="{kind}" {colour} d="{d}"/>')
        else:
            d = "".join(_polyline(*part) for part in _pieces(x, y))
            dashes = f' stroke-dasharray="{style.dasharray}"' if style.dasharray else ""
            drawn.append(f'<path class="line" {colour}{dashes} d="{d}"/>')
        shown = f"{name}: {escape(curve.kind)}" if curve.kind else name
        inside.append(f'<g data-name="{name}" data-shown="{shown}">{"".join(drawn)}</g>')
    described = " ".join(
        f'data-{name}="{int(axis.log)},{axis.low:.12g},{axis.high:.12g}"'
        for name, axis in (("x", x_axis), ("y", y_axis))
    )
    percent = ' data-percent="y"' if picture.percent else ""
    percent += ' data-rows="x"' if picture.x == "rows" else ""
    return (
        f"{_keys(picture)}"
        f'<div class="plot"><svg role="img" aria-label="{escape(picture.title, quote=True)}">'
        f'{"".join(around)}<text class="title-x" x="100%" y="100%">{escape(picture.x)}</text>'
        f'<text class="title-y" x="0" y="0">{escape(picture.y)}</text>'
        '<svg class="inside" width="100%" height="100%" viewBox="0 0 1000 1000" '
        f'preserveAspectRatio="none" {described}{percent}>{"".join(inside)}</svg></svg></div>'
    )


def swatch(style: Style, points: bool = False) -> str:
    """Return a small line, or a dot, as in the legend of a page."""
    mark = (
        f'<circle cx="22" cy="6" r="3" fill="var({style.name})"/>'
        if points
        else f'<line x2="28" y1="6" y2="6" stroke="var({style.name})" '
        f'stroke-dasharray="{style.dasharray}"/>'
    )
    return f'<svg class="swatch" viewBox="0 0 28 12" aria-hidden="true">{mark}</svg>'


def _keys(picture: Picture) -> str:
    """Return the legend of a picture, unless the page has one for all."""
    kinds = list(dict.fromkeys(one.kind for one in picture.curves))
    if len(kinds) > 1:
        keys = [(Style(-1, i), kind, False) for i, kind in enumerate(kinds)]
    elif len(picture.curves) > 1 and picture.curves[0].style is None:
        keys = [(picture.style(i), c.name, c.points) for i, c in enumerate(picture.curves)]
    else:
        return ""
    spans = [f"<span>{swatch(style, dot)}{escape(name)}</span>" for style, name, dot in keys]
    return f'<p class="keys">{"".join(spans)}</p>'


def _pieces(x: Array, *values: Array) -> list[tuple[Array, ...]]:
    """Return the runs in which all values are known."""
    known = np.isfinite(x)
    for one in values:
        known &= np.isfinite(one)
    ends = np.flatnonzero(np.diff(np.r_[False, known, False]))
    return [tuple(a[i:j] for a in (x, *values)) for i, j in zip(ends[::2], ends[1::2], strict=True)]


def _polyline(x: Array, y: Array) -> str:
    points = " ".join(f"{a:.2f} {b:.2f}" for a, b in zip(x, y, strict=True))
    return f"M{points}" + ("h0" if len(x) == 1 else "")


@dataclass(frozen=True)
class Charts:
    """Pictures that a notebook shows, with a line of text below them."""

    pictures: list[Picture]
    below: str

    def _repr_html_(self) -> str:
        drawn = (f"<h4>{escape(one.title)}</h4>{svg(one)}" for one in self.pictures)
        return f"<style>{STYLE}</style>{''.join(drawn)}<p>{escape(self.below)}</p>"
