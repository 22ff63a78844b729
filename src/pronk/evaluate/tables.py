"""Tables of results, the same on screens, in reports and in notebooks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

from pronk.evaluate.formatting import number
from pronk.evaluate.metrics import TITLES

if TYPE_CHECKING:
    from pronk.evaluate.drawing import Style
    from pronk.evaluate.evaluation import Evaluation


@dataclass(frozen=True)
class Cell:
    """Hold the text of a cell, whether it is the best of its column, and its shade (0 to 1)."""

    text: str
    best: bool = False
    shade: float | None = None


@dataclass(frozen=True)
class TableRow:
    """Hold the name and the cells of a row."""

    name: str
    cells: list[Cell]
    line: Style | None = None
    baseline: bool = False


@dataclass(frozen=True)
class Table:
    """Hold the header, the rows and the note below a table."""

    header: list[str]
    rows: list[TableRow]
    note: str = ""

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{escape(text)}</th>" for text in self.header)
        rows = (
            f"<tr><th>{escape(row.name)}</th>"
            + "".join(f"<td>{escape(cell.text)}</td>" for cell in row.cells)
            + "</tr>"
            for row in self.rows
        )
        return f"<table><tr>{head}</tr>{''.join(rows)}</table><p>{escape(self.note)}</p>"


def metrics_table(evaluation: Evaluation, note: str = "") -> Table:
    """Return the metrics over all rows and the last ones, beside those of the baselines.

    After `Evaluation.begin_part` the rows since then have a column too.
    """
    assert evaluation.trace is not None
    columns: dict[str, Mapping[str, float]] = {}
    if evaluation.part is not None:
        columns["this input"] = evaluation.part[1]
    columns["all rows"] = evaluation.metrics
    if evaluation.window is not None and evaluation.rows > evaluation.window:
        columns[f"last {evaluation.window:,} rows"] = evaluation.recent
    columns |= evaluation.trace.baselines
    rows = [
        TableRow(
            TITLES.get(name, name),
            [
                Cell(number(one[name]) if name in one else "", best=i == 0)
                for i, one in enumerate(columns.values())
            ],
        )
        for name in evaluation.metrics
    ]
    return Table(["metric", *columns], rows, note)


def targets_table(names: Sequence[str], outputs: Sequence[Mapping[str, float]]) -> Table | None:
    """Return the metrics of each of several targets; None without any."""
    if not outputs:
        return None
    rows = [
        TableRow(name, [Cell(number(value)) for value in own.values()])
        for name, own in zip(names, outputs, strict=True)
    ]
    header = ["target", *(TITLES.get(name, name) for name in outputs[0])]
    return Table(header, rows, "The table above has the means over the targets.")
