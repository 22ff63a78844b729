"""Options shared by several commands, and the panels of the help."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from pronk.cli.errors import CommandError
from pronk.estimators.registry import DEFAULT_ALGORITHM

#: Panels of the help, in the order in which it shows them.
INPUT, LEARNER, OUTPUT, RESUME, SCALE_OUT = "Input", "Learner", "Output", "Resume", "Scale-out"


class PanelCommand(TyperCommand):
    """A command whose help shows its options by panel, as plain text.

    Typer draws panels only with Rich markup, which would reflow the examples in the epilog.
    """

    def format_options(self, ctx: Any, formatter: Any) -> None:
        panels: dict[str, list[tuple[str, str]]] = {"Arguments": []}
        panels |= {title: [] for title in (INPUT, LEARNER, OUTPUT, RESUME, SCALE_OUT)}
        others: list[tuple[str, str]] = []
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is None:
                continue
            panel = getattr(parameter, "rich_help_panel", None)
            if parameter.param_type_name == "argument":
                panel = "Arguments"
            (others if panel is None else panels.setdefault(panel, [])).append(record)
        for title, records in {**panels, "Other": others}.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)


class Task(StrEnum):
    """What is predicted."""

    auto = "auto"
    regression = "regression"
    classification = "classification"


class Scale(StrEnum):
    """How columns are scaled online."""

    minmax = "minmax"
    standard = "standard"
    robust = "robust"
    none = "none"


class ScaleTarget(StrEnum):
    """How numeric targets are scaled."""

    auto = "auto"
    standard = "standard"
    none = "none"


class Encoding(StrEnum):
    """How a category gets its column."""

    onehot = "onehot"
    hash = "hash"


class Missing(StrEnum):
    """What happens to missing values."""

    error = "error"
    mean = "mean"


class Dates(StrEnum):
    """Order of day and month in dates that end with the year."""

    auto = "auto"
    dayfirst = "dayfirst"
    monthfirst = "monthfirst"
    iso = "iso"


class Order(StrEnum):
    """The order of the rows."""

    given = "given"
    random = "random"


def scale_of(algorithm: str) -> str:
    """Return the scaling of an algorithm when none is chosen."""
    return Scale.none.value if algorithm == DEFAULT_ALGORITHM else Scale.minmax.value


# -- how rows are read and prepared --------------------------------------------------------------


@dataclass(frozen=True)
class Choice:
    """An option of several commands: its type and help, its default, and how its value is read."""

    annotation: Any
    default: Any = None
    value: Callable[[Any], Any] = lambda given: given


def _several(given: Sequence[str] | None) -> tuple[str, ...]:
    return tuple(given or ())


def _names(help_text: str, panel: str = INPUT) -> Choice:
    option = typer.Option(metavar="COLUMN,..", help=help_text, rich_help_panel=panel)
    return Choice(Annotated[list[str] | None, option], None, _several)


def _text(metavar: str, help_text: str) -> Choice:
    option = typer.Option(metavar=metavar, help=help_text, rich_help_panel=INPUT)
    return Choice(Annotated[str | None, option])


def _enum(kind: type[StrEnum], default: StrEnum, help_text: str, panel: str = INPUT) -> Choice:
    option = typer.Option(help=help_text, rich_help_panel=panel)
    return Choice(Annotated[kind, option], default, lambda given: given.value)


#: How rows are read, by the field of `pronk.data.Reading`.
READING = {
    "columns": _names("Use only these columns, in this order."),
    "drop": _names("Ignore these columns."),
    "categorical": _names("Columns of categories; auto: every text column except dates."),
    "missing": _enum(
        Missing, Missing.error, "Missing values: stop with an error, or fill in the mean so far."
    ),
    "dates": _enum(
        Dates, Dates.auto, "Order in dates that end with the year; auto: inferred from the rows."
    ),
    "limit": Choice(
        Annotated[
            int | None,
            typer.Option(min=1, metavar="N", help="Stop after N rows.", rich_help_panel=INPUT),
        ]
    ),
    "delimiter": _text(
        "CHARACTER", "Delimiter of a CSV file, if it is not a comma; \\t for a tab."
    ),
    "decimal": Choice(
        Annotated[
            str,
            typer.Option(
                metavar="CHARACTER",
                help="Decimal mark in a CSV file: a point or a comma.",
                rich_help_panel=INPUT,
            ),
        ],
        ".",
    ),
    "na": Choice(
        Annotated[
            list[str] | None,
            typer.Option(
                metavar="TEXT",
                help="Text that means missing in a CSV file, besides NA, null, ..; repeatable.",
                rich_help_panel=INPUT,
            ),
        ],
        None,
        _several,
    ),
    "charset": _text(
        "NAME",
        "Text encoding, such as latin-1. Default: UTF-8, or UTF-16 with a byte-order mark.",
    ),
    "header": Choice(
        Annotated[
            bool,
            typer.Option(
                "--no-header",
                help="The CSV file has no header; its columns are named x0, x1, ..",
                rich_help_panel=INPUT,
            ),
        ],
        False,
        lambda given: not given,
    ),
    "query": _text("SQL", "Read the rows of a query; FILE is a DuckDB file, :memory: or adbc:.."),
}

#: How rows are prepared, by the field of `pronk.data.Preparing`.
PREPARING = {
    "scale": Choice(
        Annotated[
            Scale | None,
            typer.Option(
                help="Scale columns online: to [-1/2, 1/2], to deviation 1, or by quartiles. "
                "Default: minmax, but none for the default learner, which scales its input.",
                rich_help_panel=LEARNER,
            ),
        ],
        None,
        lambda given: None if given is None else given.value,
    ),
    "scale_target": _enum(
        ScaleTarget,
        ScaleTarget.auto,
        "Learn (y - mean) / deviation, both estimated from the first rows; auto: unless the "
        "learner scales its targets.",
        LEARNER,
    ),
    "encoding": _enum(
        Encoding,
        Encoding.onehot,
        "How a category gets its column: in order of appearance, or by a hash.",
        LEARNER,
    ),
    "slots": Choice(
        Annotated[
            int,
            typer.Option(
                min=2,
                metavar="N",
                help="Number of columns for each column of categories.",
                rich_help_panel=LEARNER,
            ),
        ],
        32,
    ),
}


def refuse_choices(because: str, reading: Mapping[str, Any], others: Mapping[str, Any]) -> None:
    """Raise if an option is given that a saved model has already decided."""
    defaults = {"encoding": Encoding.onehot.value, "slots": 32, "scale_target": "auto"}
    chosen = {**others, "categorical": reading["categorical"] or None}
    for name, value in chosen.items():
        if value is not None and value != defaults.get(name):
            option = f"--{name.replace('_', '-')}"
            raise CommandError(f"{option} cannot be given with {because}: the model has its own")


def with_choices(**groups: Mapping[str, Choice]) -> Callable[[Callable[..., Any]], Any]:
    """Add groups of options to a command, which receives each group as one argument, a dict."""

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


# -- single options ------------------------------------------------------------------------------


def _use_threads(context: typer.Context, n: int | None) -> None:
    """Set the number of threads until the command ends."""
    if n is not None:
        from pronk.core.runtime import limited, set_threads

        context.call_on_close(lambda before=limited.wanted: set_threads(before))
        set_threads(n or None)


#: Its callback does the work: no command receives the value.
Threads = Annotated[
    int | None,
    typer.Option(
        min=0,
        metavar="N",
        callback=_use_threads,
        expose_value=False,
        help="Threads of linear algebra. Default: 1; 0: as set in the environment.",
        rich_help_panel=SCALE_OUT,
    ),
]
TaskOption = Annotated[
    Task,
    typer.Option(
        help="auto: classification if the target looks like labels.", rich_help_panel=INPUT
    ),
]
Seed = Annotated[
    int,
    typer.Option(min=0, metavar="N", help="Seed of the random numbers.", rich_help_panel=LEARNER),
]
#: READING and the columns that are copied to the predictions.
KEEPING = {**READING, "keep": _names("Copy these columns to the predictions.", OUTPUT)}
#: Field of `pronk.data.Reading` for commands that learn.
WEIGHING = {
    "weight": _text(
        "COLUMN",
        "Column of sample weights (0: predict only), not used as a feature. Metrics count "
        "every row once.",
    )
}
IntervalOption = Annotated[
    float | None,
    typer.Option(
        "--interval",
        metavar="SHARE",
        help="Add prediction intervals that contain y with this probability, such as 0.9.",
        rich_help_panel=OUTPUT,
    ),
]
NoProbabilities = Annotated[
    bool,
    typer.Option(
        "--no-probabilities", help="Leave out class probabilities.", rich_help_panel=OUTPUT
    ),
]
#: Processes of commands that do many runs.
Workers = Annotated[
    int,
    typer.Option(
        min=1, metavar="N", help="Runs at the same time, each in a process.",
        rich_help_panel=SCALE_OUT,
    ),
]  # fmt: skip
Cluster = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS",
        help="Use the workers of a Dask scheduler (tcp://..); local:N starts N processes.",
        rich_help_panel=SCALE_OUT,
    ),
]
AsJSON = Annotated[
    bool,
    typer.Option(
        "--json", help="Print one JSON object instead of a table.", rich_help_panel=OUTPUT
    ),
]
