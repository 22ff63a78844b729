"""Options shared by several commands, tables of options, and the panels of the help."""

from __future__ import annotations

import inspect
import operator
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup

from pronk._hints import did_you_mean
from pronk.cli.screen import CommandError

#: Panels of the help, in the order in which it shows them.
INPUT, LEARNER, OUTPUT, RESUME, SCALE_OUT = "Input", "Learner", "Output", "Resume", "Scale-out"


class CommandGroup(TyperGroup):
    """Commands in which the end of a file is a failure.

    Typer takes EOFError for the user's, who ends a dialogue; there is none.
    """

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except EOFError as error:
            raise CommandError(f"failed: EOFError: {error}", 1) from error


class PanelCommand(TyperCommand):
    """A command whose help shows its options by panel, as plain text.

    Typer draws panels only with Rich markup, which would reflow the examples in the epilog.
    """

    def format_options(self, ctx: Any, formatter: Any) -> None:
        panels: dict[str, list[tuple[str, str]]] = {"Arguments": []}
        panels |= {title: [] for title in (INPUT, LEARNER, OUTPUT, RESUME, SCALE_OUT)}
        others: list[tuple[str, str]] = []
        parameter: Any
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is None:
                continue
            panel = getattr(parameter, "rich_help_panel", None)
            if parameter.param_type_name == "argument":
                panel, record = "Arguments", (str(parameter.metavar), record[1])
            (others if panel is None else panels.setdefault(panel, [])).append(record)
        for title, records in {**panels, "Other": others}.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)


# -- tables of options ---------------------------------------------------------------------------


class Option(NamedTuple):
    """An entry of a table: type and help by the name of its field, default, how a value is read."""

    annotation: Callable[[str], Any]
    default: Any = None
    value: Callable[[Any], Any] = lambda given: given


#: Words for a value in the help, by its type.
_METAVARS = {int: "N", float: "N", Path: "FILE"}


def option(
    panel: str | None,
    kind: Any,
    help_text: str,
    metavar: str | None = None,
    *,
    short: str | None = None,
    default: Any = None,
    value: Callable[[Any], Any] = lambda given: given,
    prefix: str = "--",
    **more: Any,
) -> Option:
    """Return an option of a table; its name is that of its field.

    ``kind`` is a type that Typer reads; `list` is a repeatable option, whose value is a tuple of
    texts. Without a default the value may be None. ``value`` converts what was given, and ``more``
    are arguments of `typer.Option`.
    """
    type_ = list[str] if kind is list else kind
    type_ = type_ | None if default is None else type_
    more |= {"metavar": metavar or _METAVARS.get(kind), "help": help_text, "rich_help_panel": panel}

    def annotation(name: str) -> Any:
        names = [f"{prefix}{name.replace('_', '-')}", *([short] if short else [])]
        return Annotated[type_, typer.Option(*names, **more)]

    def read(given: Any) -> Any:
        return value(tuple(given or ()) if kind is list else given)

    return Option(annotation, default, read)


#: Further arguments of a flag --no-NAME, whose value is True unless it is given.
OFF: dict[str, Any] = {"default": False, "value": operator.not_, "prefix": "--no-"}


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
                        one, keyword, default=given.default, annotation=given.annotation(one)
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
    "columns": option(INPUT, list, "Use only these columns, in this order.", "COLUMN,.."),
    "drop": option(INPUT, list, "Ignore these columns.", "COLUMN,.."),
    "categorical": option(
        INPUT,
        list,
        "Columns of categories, such as codes; auto, which is the default, adds every text column "
        "except dates.",
        "COLUMN,..",
        value=lambda given: given or None,
    ),
    "missing": option(
        INPUT,
        Literal["error", "mean"],
        "Missing values: stop with an error, or fill in the mean so far, which is the default.",
    ),
    "strict": option(
        INPUT,
        bool,
        "Guess nothing: stop with an error at text that --categorical does not name and at "
        "missing values.",
        default=False,
    ),
    "dates": option(
        INPUT,
        Literal["auto", "dayfirst", "monthfirst", "iso"],
        "Order of day and month in dates such as 3/4/2024; auto: inferred from the rows.",
        default="auto",
    ),
    "limit": option(INPUT, int, "Stop after N rows.", min=1),
    "delimiter": option(
        INPUT,
        str,
        "Delimiter of a CSV file; \\t for a tab. Default: found by the first lines.",
        "CHARACTER",
    ),
    "decimal": option(
        INPUT,
        str,
        "Decimal mark in a CSV file: a point or a comma. Default: found by the first lines.",
        "CHARACTER",
    ),
    "na": option(
        INPUT,
        list,
        "Text, or a number, that means missing in a CSV file, besides NA, null, ..; repeatable.",
        "TEXT",
    ),
    "charset": option(
        INPUT,
        str,
        "Text encoding, such as latin-1. Default: UTF-8, UTF-16 with a byte-order mark, or else "
        "cp1252.",
        "NAME",
    ),
    "header": option(
        INPUT, bool, "The CSV file has no header; its columns are named x0, x1, ..", **OFF
    ),
    "query": option(
        INPUT, str, "Read the rows of a query; FILE is a DuckDB file, :memory: or adbc:..", "SQL"
    ),
}
#: What a saved model has decided.
DECIDED_BY_THE_MODEL = ("categorical", "missing", "strict")
#: Further fields of `Reading` for commands that learn.
TASK = {
    "task": option(
        INPUT,
        Literal["auto", "regression", "classification"],
        "auto: classification if the target looks like labels.",
        default="auto",
    )
}
WEIGHT = {
    "weight": option(
        INPUT,
        str,
        "Column of sample weights (0: predict only), not used as a feature. Metrics count every "
        "row once.",
        "COLUMN",
    )
}
TIMES = {
    "time": option(
        INPUT,
        str,
        "Column of the rows' times: windows and half-lives count time instead of rows. It stays a "
        "feature unless it is in --drop.",
        "COLUMN",
    )
}
#: Further field of `Reading` for commands that write predictions.
KEEP = {"keep": option(OUTPUT, list, "Copy these columns to the predictions.", "COLUMN,..")}

#: How rows are prepared, by the field of `pronk.data.Preparing`.
PREPARING = {
    "scale": option(
        LEARNER,
        Literal["minmax", "standard", "robust", "none"],
        "Scale columns online: to [-1/2, 1/2], to deviation 1, or by quartiles. Default: minmax, "
        "but none for the default learner, which scales its input.",
    ),
    "scale_target": option(
        LEARNER,
        Literal["auto", "standard", "none"],
        "Learn (y - mean) / deviation, both estimated from the first rows; auto: unless the "
        "learner scales its targets.",
        default="auto",
    ),
    "encoding": option(
        LEARNER,
        Literal["onehot", "hash"],
        "How a category gets its column: in order of appearance, or by a hash.",
        default="onehot",
    ),
    "slots": option(
        LEARNER, int, "Number of columns for each column of categories.", default=32, min=2
    ),
}


def refuse_choices(because: str, given: Mapping[str, Any]) -> None:
    """Raise if an option is given that a saved model has already decided."""
    for name, value in given.items():
        default = PREPARING[name].default if name in PREPARING else None
        if value not in (None, (), False, default):
            raise CommandError(
                f"--{name.replace('_', '-')} cannot be given with {because}: the model has its own"
            )


def read_levels(text: str | None) -> tuple[float, ...] | None:
    """Read the levels of `--quantiles`."""
    if text is None:
        return None
    try:
        return tuple(float(word) for word in text.split(","))
    except ValueError:
        raise CommandError(f"--quantiles: {text!r} must be levels such as 0.1,0.5,0.9") from None


#: What the predictions contain.
PREDICTIONS = {
    "interval": option(
        OUTPUT,
        float,
        "Add prediction intervals that contain y with this probability, such as 0.9.",
        "SHARE",
    ),
    "quantiles": option(
        OUTPUT,
        str,
        "Add quantiles of y at these levels, such as 0.1,0.5,0.9.",
        "LEVELS",
        value=read_levels,
    ),
    "probabilities": option(OUTPUT, bool, "Leave out class probabilities.", **OFF),
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
AsJSON = Annotated[
    bool,
    typer.Option(
        "--json", help="Print one JSON object instead of a table.", rich_help_panel=OUTPUT
    ),
]


def check_exists(files: Sequence[str], reading: Mapping[str, Any]) -> None:
    """Raise at once if a file does not exist, before the libraries that read it are loaded."""
    for name in files:
        remote = "://" in name or name == "-" or reading.get("query") is not None
        if remote or set(name) & set("*?[") or os.path.lexists(name):
            continue
        folder = Path(name).parent
        beside = [one.name for one in folder.iterdir()] if folder.is_dir() else []
        hint = did_you_mean(Path(name).name, beside, cutoff=0.75)
        raise CommandError(f"file {name!r} does not exist{hint}")
