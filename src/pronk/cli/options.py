"""Choices and options that several commands have."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from pronk.cli.errors import CommandError
from pronk.estimators.registry import DEFAULT_ALGORITHM


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


class ScaleTarget(StrEnum):
    """How numbers to learn are scaled."""

    auto = "auto"
    standard = "standard"
    none = "none"


class Encoding(StrEnum):
    """How a category gets its slot."""

    onehot = "onehot"
    hash = "hash"


class Missing(StrEnum):
    """What a missing value is."""

    error = "error"
    mean = "mean"


class Dates(StrEnum):
    """How dates in text that have the year last are read."""

    auto = "auto"
    dayfirst = "dayfirst"
    monthfirst = "monthfirst"
    iso = "iso"


class Order(StrEnum):
    """In which order the rows come."""

    given = "given"
    random = "random"


def scale_of(algorithm: str) -> str:
    """The scaling of an algorithm where none is chosen."""
    return Scale.none.value if algorithm == DEFAULT_ALGORITHM else Scale.minmax.value


# -- how rows are read and prepared --------------------------------------------------------------


@dataclass(frozen=True)
class Choice:
    """One option of several commands: its type and help, its default, what becomes of its value."""

    annotation: Any
    default: Any = None
    value: Callable[[Any], Any] = lambda given: given


def _several(given: Sequence[str] | None) -> tuple[str, ...]:
    return tuple(given or ())


def _names(help_text: str) -> Choice:
    option = typer.Option(metavar="COLUMN,..", help=help_text)
    return Choice(Annotated[list[str] | None, option], None, _several)


def _text(metavar: str, help_text: str) -> Choice:
    return Choice(Annotated[str | None, typer.Option(metavar=metavar, help=help_text)])


#: How rows are read, by the field of `pronk.data.Reading`.
READING = {
    "columns": _names("Use these columns only, in this order."),
    "drop": _names("Leave columns out."),
    "categorical": _names("Columns of categories; auto: all text but dates."),
    "missing": Choice(
        Annotated[Missing, typer.Option(help="A missing value: an error, or the mean so far.")],
        Missing.error,
        lambda given: given.value,
    ),
    "dates": Choice(
        Annotated[
            Dates,
            typer.Option(help="Dates with the year last: day or month first; auto: by the rows."),
        ],
        Dates.auto,
        lambda given: given.value,
    ),
    "limit": Choice(
        Annotated[int | None, typer.Option(min=1, metavar="N", help="Stop after so many rows.")]
    ),
    "delimiter": _text("CHARACTER", "Of a CSV file, if it is not a comma; \\t for a tab."),
    "decimal": Choice(
        Annotated[
            str, typer.Option(metavar="CHARACTER", help="Of numbers in a CSV file: . or a comma.")
        ],
        ".",
    ),
    "na": Choice(
        Annotated[
            list[str] | None,
            typer.Option(metavar="TEXT", help="Means missing in a CSV file, beside NA, null, .."),
        ],
        None,
        _several,
    ),
    "charset": _text("NAME", "Encoding of text, as latin-1; else UTF-8, or UTF-16 by its mark."),
    "header": Choice(
        Annotated[
            bool, typer.Option("--no-header", help="A CSV file has no names; they are x0, x1, ..")
        ],
        False,
        lambda given: not given,
    ),
    "query": _text("SQL", "Rows of a query; FILE is a DuckDB file, :memory: or adbc:.."),
}

#: How rows are prepared, by the field of `pronk.data.Preparing`.
PREPARING = {
    "encoding": Choice(
        Annotated[Encoding, typer.Option(help="Slots of categories: as they come, or by a hash.")],
        Encoding.onehot,
        lambda given: given.value,
    ),
    "slots": Choice(
        Annotated[
            int,
            typer.Option(min=2, metavar="N", help="Columns that a categorical column becomes."),
        ],
        32,
    ),
    "scale": Choice(
        Annotated[
            Scale | None,
            typer.Option(
                help="Scale columns as the stream goes: to [-1/2, 1/2], to deviation 1, by "
                "quartiles. By default minmax, and none for the learner without parameters, which "
                "scales itself.",
            ),
        ],
        None,
        lambda given: None if given is None else given.value,
    ),
    "scale_target": Choice(
        Annotated[
            ScaleTarget,
            typer.Option(
                help="Learn (y - mean) / deviation, of the first rows; auto: unless the learner "
                "does so itself.",
            ),
        ],
        ScaleTarget.auto,
        lambda given: given.value,
    ),
}


def refuse_choices(because: str, reading: Mapping[str, Any], others: Mapping[str, Any]) -> None:
    """Refuse what a saved model has decided already."""
    usual = {"encoding": Encoding.onehot.value, "slots": 32, "scale_target": "auto"}
    chosen = {**others, "categorical": reading["categorical"] or None}
    for name, value in chosen.items():
        if value is not None and value != usual.get(name):
            option = f"--{name.replace('_', '-')}"
            raise CommandError(f"{option}: with {because} it is the model's, and cannot be chosen")


def with_choices(**groups: Mapping[str, Choice]) -> Callable[[Callable[..., Any]], Any]:
    """Let a command have the options of groups; each group is one argument, a dict, to it."""

    def decorate(command: Callable[..., Any]) -> Any:
        own = inspect.signature(command, eval_str=True).parameters
        options = []
        for name, parameter in own.items():
            if name not in groups:
                options.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY))
            options += [
                inspect.Parameter(
                    one,
                    inspect.Parameter.KEYWORD_ONLY,
                    default=choice.default,
                    annotation=choice.annotation,
                )
                for one, choice in groups.get(name, {}).items()
            ]

        def call(**given: Any) -> Any:
            for name, group in groups.items():
                given[name] = {one: group[one].value(given.pop(one)) for one in group}
            return command(**given)

        call.__name__, call.__doc__ = command.__name__, command.__doc__
        call.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]
        call.__annotations__ = {option.name: option.annotation for option in options}
        return call

    return decorate


# -- how it is run -----------------------------------------------------------------------------


def _use_threads(context: typer.Context, n: int | None) -> None:
    """Set the number for the time of the command."""
    if n is not None:
        from pronk.core.runtime import limited, set_threads

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

#: Columns that go along, a field of `pronk.data.Reading` too.
KEEPING = {**READING, "keep": _names("Carry columns along into the predictions.")}
#: What only those who learn have, a field of `pronk.data.Reading` too.
WEIGHING = {
    "weight": _text(
        "COLUMN",
        "How much each row counts when it is learned (0: predicted only); no feature. Metrics "
        "count each row once.",
    )
}
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

Jobs = Annotated[
    int,
    typer.Option("--jobs", "--workers", min=1, metavar="N", help="Processes side by side."),
]
Cluster = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS", help="A Dask scheduler, tcp://.., does the runs; local:N starts N."
    ),
]
AsJSON = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")]
Figures = Annotated[Path | None, typer.Option(metavar="DIR", help="Write figures as PNG and SVG.")]
