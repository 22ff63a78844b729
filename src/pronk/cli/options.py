"""Choices and options that several commands have."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

#: What runs when no algorithm is named. It scales its columns itself.
DEFAULT_ALGORITHM = "online-kernel"


class Task(StrEnum):
    """What is predicted."""

    auto = "auto"
    regression = "regression"
    classification = "classification"


class Scale(StrEnum):
    """How columns are scaled on the way."""

    minmax = "minmax"
    standard = "standard"
    robust = "robust"
    none = "none"


class Encoding(StrEnum):
    """How a category gets its slot."""

    hash = "hash"
    onehot = "onehot"


class Missing(StrEnum):
    """What a missing value is."""

    error = "error"
    mean = "mean"


class Order(StrEnum):
    """In which order the rows come."""

    given = "given"
    random = "random"


def scale_of(algorithm: str) -> str:
    """The scaling of an algorithm where none is chosen."""
    return Scale.none.value if algorithm == DEFAULT_ALGORITHM else Scale.minmax.value


def column_names(texts: Sequence[str] | None) -> list[str]:
    """The names in ``--columns a,b --columns c``."""
    return [name for text in texts or () for name in text.split(",")]


# -- how rows are read and prepared --------------------------------------------------------------

Columns = Annotated[
    list[str] | None,
    typer.Option(metavar="COLUMN,..", help="Use these columns only, in this order."),
]
Drop = Annotated[list[str] | None, typer.Option(metavar="COLUMN", help="Leave a column out.")]
CategoricalColumns = Annotated[
    list[str] | None, typer.Option(metavar="COLUMN", help="A column of categories.")
]
EncodingOption = Annotated[
    Encoding, typer.Option(help="Slots of categories: by a hash, or as they come.")
]
Slots = Annotated[
    int, typer.Option(min=2, metavar="N", help="Columns that a categorical column becomes.")
]
MissingOption = Annotated[
    Missing, typer.Option(help="A missing value: an error, or the mean so far.")
]
ScaleOption = Annotated[
    Scale | None,
    typer.Option(
        help="Scale columns as the stream goes: to [-1/2, 1/2], to deviation 1, by quartiles. "
        "By default minmax, and none for the learner without parameters, which scales itself.",
    ),
]
Limit = Annotated[int | None, typer.Option(min=1, metavar="N", help="Stop after so many rows.")]
Delimiter = Annotated[
    str | None, typer.Option(metavar="CHARACTER", help="Of a CSV file, if it is not a comma.")
]
NoHeader = Annotated[
    bool, typer.Option("--no-header", help="A CSV file has no names; they are x0, x1, ..")
]
Query = Annotated[
    str | None,
    typer.Option(metavar="SQL", help="Rows of a query; FILE is a DuckDB file, :memory: or adbc:.."),
]

# -- how it is run -----------------------------------------------------------------------------


def _use_threads(context: typer.Context, n: int | None) -> None:
    """Set the number for the time of the command."""
    if n is not None:
        from pronk.parts.threads import limited, set_threads

        context.call_on_close(lambda before=limited.wanted: set_threads(before))
        set_threads(n or None)


#: It acts by itself: no command has to pass it on.
Threads = Annotated[
    int | None,
    typer.Option(
        min=0,
        metavar="N",
        callback=_use_threads,
        expose_value=False,
        help="Threads of linear algebra: 1 if not given; 0: as the environment says.",
    ),
]

# -- what comes out ------------------------------------------------------------------------------

Keep = Annotated[
    list[str] | None,
    typer.Option(metavar="COLUMN,..", help="Carry columns along into the predictions."),
]
IntervalOption = Annotated[
    float | None,
    typer.Option(
        "--interval",
        metavar="SHARE",
        help="Predict numbers with an interval that holds y with this probability, as 0.9.",
    ),
]
NoProbabilities = Annotated[
    bool,
    typer.Option("--no-probabilities", help="Leave the probabilities of classes out."),
]

AsJSON = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")]
Figures = Annotated[Path | None, typer.Option(metavar="DIR", help="Write figures as PNG and SVG.")]
