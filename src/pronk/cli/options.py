"""Options shared by several commands, tables of options, and the panels of the help."""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import typer
from typer.core import TyperCommand

from pronk.cli.screen import CommandError

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


# -- tables of options ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Option:
    """An entry of a table: the type and help of an option, its default, how its value is read."""

    annotation: Any
    default: Any = None
    value: Callable[[Any], Any] = lambda given: given


def option(
    panel: str | None,
    kind: Any,
    metavar: str | None,
    help_text: str,
    *names: str,
    default: Any = None,
    **more: Any,
) -> Option:
    """Return an option of a table; ``names`` are needed only if the field's name is not enough.

    ``kind`` is a type that Typer reads; `list` is a repeatable option, whose value is a tuple of
    texts. Without a default the value may be None. ``more`` are arguments of `typer.Option`.
    """
    given = typer.Option(*names, metavar=metavar, help=help_text, rich_help_panel=panel, **more)
    if kind is list:
        return Option(Annotated[list[str] | None, given], None, lambda texts: tuple(texts or ()))
    return Option(Annotated[kind | None if default is None else kind, given], default)


def switch_off(panel: str, help_text: str, name: str) -> Option:
    """Return a flag whose value is True unless it is given."""
    given = typer.Option(name, help=help_text, rich_help_panel=panel)
    return Option(Annotated[bool, given], False, operator.not_)


def with_options(**tables: Mapping[str, Option]) -> Callable[[Callable[..., Any]], Any]:
    """Add tables of options to a command, which receives each table as one argument, a dict."""

    def decorate(command: Callable[..., Any]) -> Any:
        keyword = inspect.Parameter.KEYWORD_ONLY
        parameters = []
        for name, own in inspect.signature(command, eval_str=True).parameters.items():
            if name not in tables:
                parameters.append(own.replace(kind=keyword))
            for one, given in tables.get(name, {}).items():
                parameters.append(
                    inspect.Parameter(
                        one, keyword, default=given.default, annotation=given.annotation
                    )
                )

        def call(**given: Any) -> Any:
            for name, table in tables.items():
                given[name] = {one: table[one].value(given.pop(one)) for one in table}
            return command(**given)

        call.__name__, call.__doc__ = command.__name__, command.__doc__
        call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        call.__annotations__ = {one.name: one.annotation for one in parameters}
        return call

    return decorate


# -- how rows are read and prepared --------------------------------------------------------------

#: How rows are read, by the field of `pronk.data.Reading`.
READING = {
    "columns": option(INPUT, list, "COLUMN,..", "Use only these columns, in this order."),
    "drop": option(INPUT, list, "COLUMN,..", "Ignore these columns."),
    "categorical": option(
        INPUT, list, "COLUMN,..", "Columns of categories; auto: every text column except dates."
    ),
    "missing": option(
        INPUT,
        Literal["error", "mean"],
        None,
        "Missing values: stop with an error, or fill in the mean so far.",
        default="error",
    ),
    "dates": option(
        INPUT,
        Literal["auto", "dayfirst", "monthfirst", "iso"],
        None,
        "Order in dates that end with the year; auto: inferred from the rows.",
        default="auto",
    ),
    "limit": option(INPUT, int, "N", "Stop after N rows.", min=1),
    "delimiter": option(
        INPUT, str, "CHARACTER", "Delimiter of a CSV file, if it is not a comma; \\t for a tab."
    ),
    "decimal": option(
        INPUT, str, "CHARACTER", "Decimal mark in a CSV file: a point or a comma.", default="."
    ),
    "na": option(
        INPUT, list, "TEXT", "Text that means missing in a CSV file, besides NA, null, ..; "
        "repeatable.",
    ),
    "charset": option(
        INPUT, str, "NAME",
        "Text encoding, such as latin-1. Default: UTF-8, or UTF-16 with a byte-order mark.",
    ),
    "header": switch_off(
        INPUT, "The CSV file has no header; its columns are named x0, x1, ..", "--no-header"
    ),
    "query": option(
        INPUT, str, "SQL", "Read the rows of a query; FILE is a DuckDB file, :memory: or adbc:.."
    ),
}  # fmt: skip
#: Further fields of `Reading` for commands that learn.
TASK = {
    "task": option(
        INPUT,
        Literal["auto", "regression", "classification"],
        None,
        "auto: classification if the target looks like labels.",
        default="auto",
    )
}
WEIGHT = {
    "weight": option(
        INPUT, str, "COLUMN",
        "Column of sample weights (0: predict only), not used as a feature. Metrics count every "
        "row once.",
    )
}  # fmt: skip
#: Further field of `Reading` for commands that write predictions.
KEEP = {"keep": option(OUTPUT, list, "COLUMN,..", "Copy these columns to the predictions.")}

#: How rows are prepared, by the field of `pronk.data.Preparing`.
PREPARING = {
    "scale": option(
        LEARNER,
        Literal["minmax", "standard", "robust", "none"],
        None,
        "Scale columns online: to [-1/2, 1/2], to deviation 1, or by quartiles. Default: minmax, "
        "but none for the default learner, which scales its input.",
    ),
    "scale_target": option(
        LEARNER,
        Literal["auto", "standard", "none"],
        None,
        "Learn (y - mean) / deviation, both estimated from the first rows; auto: unless the "
        "learner scales its targets.",
        default="auto",
    ),
    "encoding": option(
        LEARNER,
        Literal["onehot", "hash"],
        None,
        "How a category gets its column: in order of appearance, or by a hash.",
        default="onehot",
    ),
    "slots": option(
        LEARNER, int, "N", "Number of columns for each column of categories.", default=32, min=2
    ),
}


def refuse_choices(because: str, given: Mapping[str, Any]) -> None:
    """Raise if an option is given that a saved model has already decided."""
    for name, value in given.items():
        default = PREPARING[name].default if name in PREPARING else None
        if value not in (None, (), default):
            raise CommandError(
                f"--{name.replace('_', '-')} cannot be given with {because}: the model has its own"
            )


#: What the predictions contain.
PREDICTIONS = {
    "interval": option(
        OUTPUT,
        float,
        "SHARE",
        "Add prediction intervals that contain y with this probability, such as 0.9.",
    ),
    "probabilities": switch_off(OUTPUT, "Leave out class probabilities.", "--no-probabilities"),
}

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
Seed = Annotated[
    int,
    typer.Option(min=0, metavar="N", help="Seed of the random numbers.", rich_help_panel=LEARNER),
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
