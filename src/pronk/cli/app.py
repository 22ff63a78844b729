"""The commands and their options. What they do is imported when a command is called."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from pronk._version import __version__
from pronk.cli.compare import EXAMPLES as COMPARE_EXAMPLES
from pronk.cli.compare import compare
from pronk.cli.errors import end_with
from pronk.cli.options import (
    KEEPING,
    PREPARING,
    WEIGHING,
    AsJSON,
    IntervalOption,
    NoProbabilities,
    Task,
    Threads,
    refuse_choices,
    scale_of,
    with_choices,
)
from pronk.cli.serve import SERVE_SETTINGS, ServeCommand, serve
from pronk.estimators.registry import DEFAULT_ALGORITHM

EXIT_CODES = """\b
Exit codes:
    0  done
    1  the run failed: a full disk, no memory, a checksum that differs
    2  the command line, the data or a file cannot be used; the message says why
  130  stopped from the keyboard (SIGINT); with --checkpoint after a snapshot
  143  stopped by SIGTERM; with --checkpoint after a snapshot
"""

app = typer.Typer(
    help="Learn from streams with kernels: one pass, predict then learn.",
    epilog=EXIT_CODES,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


FILE = (
    "CSV, NDJSON, LIBSVM (also .gz), Parquet or Arrow file; a directory or pattern of them; "
    "- for standard input."
)
#: Text, not a path: the address of a database may have two slashes.
Input = Annotated[str, typer.Argument(metavar="FILE", help=FILE)]
Seed = Annotated[int, typer.Option(min=0, metavar="N", help="Seed of everything random.")]


def _algorithm_names(incomplete: str) -> list[str]:
    """For the completion of a shell."""
    from pronk.estimators.registry import algorithms

    return [name for name in algorithms() if name.startswith(incomplete)]


def _version(wanted: bool) -> None:
    if wanted:
        print(f"pronk {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def pronk(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Learn from streams with kernels: one pass, predict then learn."""
    if context.invoked_subcommand is None:
        print(context.get_help())


@app.command()
def demo(
    rows: Annotated[
        int, typer.Option(min=100, metavar="N", help="Rows of the generated file.")
    ] = 4000,
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="Where the file and the results are written.")
    ] = Path("pronk-demo"),
    seed: Seed = 0,
    threads: Threads = None,
    json: AsJSON = False,
) -> None:
    """Run the main job on a generated file; end with the command for your own file."""
    from pronk.cli.demo import run_demo

    run_demo(out, rows=rows, seed=seed, as_json=json)


RUN_EXAMPLES = """\b
Examples:
  pronk run data.csv -t price
  pronk run data.csv -t price --interval 0.9 --predictions out.csv --keep id --report page.html
  pronk run today.csv -t label --save model.pronk
  pronk run tomorrow.csv -t label --model model.pronk --save model.pronk
  pronk run data.csv -t y -a fogd -p bandwidth=0.5 --metrics course.ndjson --checkpoint job

"""


@app.command(epilog=RUN_EXAMPLES + EXIT_CODES)
@with_choices(reading={**KEEPING, **WEIGHING}, preparing=PREPARING)
def run(
    file: Input,
    reading: dict[str, Any],
    preparing: dict[str, Any],
    algorithm: Annotated[
        str | None,
        typer.Option(
            "--algorithm",
            "-a",
            metavar="NAME",
            help="A name that `pronk algorithms` lists; by default the learner without parameters.",
            autocompletion=_algorithm_names,
        ),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(
            "--target",
            "-t",
            metavar="COLUMN",
            help="The column to predict, or several: y1,y2. LIBSVM has its own.",
        ),
    ] = None,
    task: Annotated[Task, typer.Option(help="auto: labels if the target looks like it.")] = (
        Task.auto
    ),
    param: Annotated[
        list[str] | None,
        typer.Option(
            "--param", "-p", metavar="KEY=VALUE", help="A parameter: alpha=0.1, bandwidth=2, .."
        ),
    ] = None,
    no_scale: Annotated[bool, typer.Option("--no-scale", help="The same as --scale none.")] = False,
    model: Annotated[
        Path | None,
        typer.Option(
            metavar="MODEL",
            help="Go on with a saved model, its scaling, categories and metrics; it is saved "
            "again, elsewhere with --save.",
        ),
    ] = None,
    again: Annotated[
        bool, typer.Option("--again", help="Learn a file that the --model has learned already.")
    ] = False,
    skip_bad: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Leave bad rows out and write them here with the reason."
        ),
    ] = None,
    delay: Annotated[
        int, typer.Option(min=0, metavar="N", help="Labels come so many rows late.")
    ] = 0,
    save: Annotated[
        Path | None, typer.Option(metavar="MODEL", help="Save the model (with its scaling).")
    ] = None,
    predictions: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write row, y, prediction, .. (.csv, .ndjson, .parquet); - prints them.",
        ),
    ] = None,
    interval: IntervalOption = None,
    no_probabilities: NoProbabilities = False,
    metrics: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Write how the run goes, record by record (.csv, .ndjson)."
        ),
    ] = None,
    metrics_every: Annotated[
        int, typer.Option(min=1, metavar="N", help="Rows between two records of --metrics.")
    ] = 1000,
    window: Annotated[
        int, typer.Option(min=1, metavar="N", help="Rows that the recent metrics speak of.")
    ] = 1000,
    report: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a page with pictures (.html).")
    ] = None,
    checkpoint: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Keep a snapshot here; a killed run goes on from it."),
    ] = None,
    every: Annotated[
        int, typer.Option(min=1, metavar="N", help="Rows between snapshots, up to whole blocks.")
    ] = 100_000,
    seed: Seed = 0,
    threads: Threads = None,
    workers: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="N", help="Cores that share the pass of a learner that can, or --by."
        ),
    ] = None,
    cluster: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="A Dask scheduler, tcp://..; local:N starts N."),
    ] = None,
    by: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="A model for each key in this column.")
    ] = None,
    json: AsJSON = False,
) -> None:
    """Walk a file once: predict each row, then learn it; show loss, time and size.

    A row without a label is predicted only.
    """
    from pronk.cli.models import RunOptions
    from pronk.cli.run import run_job
    from pronk.data import Preparing, Reading

    if model is not None:
        refuse_choices(
            "--model",
            reading,
            {**preparing, "algorithm": algorithm, "param": param, "no_scale": no_scale or None},
        )
    name = algorithm or DEFAULT_ALGORITHM
    scale = "none" if no_scale else preparing["scale"] or scale_of(name)
    run_job(
        RunOptions(
            reading=Reading(
                file, target, task=task.value, skip_bad=skip_bad is not None, **reading
            ),
            preparing=Preparing(**{**preparing, "scale": scale}),
            algorithm=name,
            params=tuple(param or ()),
            model=model,
            again=again,
            delay=delay,
            skip_bad=skip_bad,
            save=save,
            predictions=predictions,
            interval=interval,
            probabilities=not no_probabilities,
            metrics=metrics,
            metrics_every=metrics_every,
            window=window,
            report=report,
            checkpoint=checkpoint,
            every=every,
            seed=seed,
            workers=workers,
            cluster=cluster,
            by=by,
        ),
        as_json=json,
    )


Model = Annotated[Path, typer.Argument(metavar="MODEL", help="A saved model, or a checkpoint.")]


PREDICT_EXAMPLES = """\b
Examples:
  pronk predict model.pronk new.csv -o out.csv --keep id
  pronk predict model.pronk new.csv -o out.parquet --interval 0.9 -t price

"""


@app.command(epilog=PREDICT_EXAMPLES + EXIT_CODES)
@with_choices(reading=KEEPING)
def predict(
    model: Model,
    file: Input,
    reading: dict[str, Any],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Write row, prediction, probabilities (.csv, .ndjson, .parquet); else print them.",
        ),
    ] = None,
    interval: IntervalOption = None,
    no_probabilities: NoProbabilities = False,
    target: Annotated[
        str | None,
        typer.Option("--target", "-t", metavar="COLUMN", help="Score against this column."),
    ] = None,
    threads: Threads = None,
    json: Annotated[
        bool, typer.Option("--json", help="Print JSON: a summary, or an object a row.")
    ] = False,
) -> None:
    """Predict the rows of a file with a saved model, which learns nothing from them."""
    from pronk.cli.predict import predict_file
    from pronk.data import Reading

    predict_file(
        model,
        Reading(file, target, **reading),
        output=output,
        interval=interval,
        probabilities=not no_probabilities,
        as_json=json,
    )


@app.command(epilog=EXIT_CODES)
def inspect(model: Model, json: AsJSON = False) -> None:
    """Tell what a saved model or a checkpoint is: sizes, settings, certificate."""
    from pronk.cli.inspect import inspect_file

    inspect_file(model, as_json=json)


@app.command()
def algorithms(json: AsJSON = False) -> None:
    """List the algorithms with their cost a row and their papers."""
    from pronk.cli.inspect import list_algorithms

    list_algorithms(as_json=json)


app.command(epilog=COMPARE_EXAMPLES)(compare)
app.command(cls=ServeCommand, context_settings=SERVE_SETTINGS)(serve)


def main(arguments: Sequence[str] | None = None) -> None:
    """The script `pronk`."""
    call(app, "pronk", arguments)


def call(app: typer.Typer, name: str, arguments: Sequence[str] | None = None) -> None:
    """Run a command of an app; a failure is one line on stderr and an exit code."""
    try:
        code = app(
            args=None if arguments is None else list(arguments),
            prog_name=name,
            standalone_mode=False,
        )
        if code == 130:  # Typer turns an interrupt into this
            raise KeyboardInterrupt
    except BaseException as error:
        code = end_with(error)
    sys.exit(code if isinstance(code, int) else 0)
