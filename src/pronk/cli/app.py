"""The commands and their options.

The module of a command is imported when the command is called, so that `pronk --help` is fast.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from pronk._version import __version__
from pronk.cli.errors import end_with
from pronk.cli.options import (
    INPUT,
    KEEPING,
    LEARNER,
    OUTPUT,
    PREPARING,
    READING,
    RESUME,
    SCALE_OUT,
    WEIGHING,
    AsJSON,
    Cluster,
    IntervalOption,
    NoProbabilities,
    Order,
    PanelCommand,
    Seed,
    Task,
    TaskOption,
    Threads,
    Workers,
    refuse_choices,
    scale_of,
    with_choices,
)
from pronk.cli.serve import SERVE_SETTINGS, ServeCommand, serve
from pronk.estimators.registry import DEFAULT_ALGORITHM

EXIT_CODES = """\b
Exit codes:
    0  success
    1  the run failed: disk full, out of memory, checksum mismatch
    2  invalid command line, data or file; the message says why
  130  interrupted from the keyboard (SIGINT); with --checkpoint, after a snapshot
  143  terminated (SIGTERM); with --checkpoint, after a snapshot
"""

app = typer.Typer(
    help="Online learning with kernels: predict every row, then learn it, in one pass.",
    epilog=EXIT_CODES,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)

FORMATS = "CSV, NDJSON, LIBSVM (also .gz), Parquet or Arrow file, a directory or pattern of files"
#: Text, not a path: the address of a database may have two slashes.
Input = Annotated[str, typer.Argument(metavar="FILE", help=f"{FORMATS}, or - for standard input.")]
Model = Annotated[Path, typer.Argument(metavar="MODEL", help="Saved model or checkpoint.")]


def _algorithm_names(incomplete: str) -> list[str]:
    """Complete the name of an algorithm in a shell."""
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
    """Online learning with kernels: predict every row, then learn it, in one pass."""
    if context.invoked_subcommand is None:
        print(context.get_help())


@app.command()
def demo(
    rows: Annotated[
        int, typer.Option(min=100, metavar="N", help="Rows of the generated file.")
    ] = 4000,
    output: Annotated[
        Path,
        typer.Option("--output", "-o", metavar="DIR", help="Folder of the file and the results."),
    ] = Path("pronk-demo"),
    seed: Seed = 0,
    threads: Threads = None,
    json: AsJSON = False,
) -> None:
    """Run `pronk run` on a generated file, then print the command for a file of your own."""
    from pronk.cli.demo import run_demo

    run_demo(output, rows=rows, seed=seed, as_json=json)


RUN_EXAMPLES = """\b
Examples:
  pronk run data.csv -t price
  pronk run data.csv -t price --interval 0.9 --predictions out.csv --keep id --report page.html
  pronk run today.csv -t label --save model.pronk
  pronk run tomorrow.csv --model model.pronk
  pronk run data.csv -t y -a fogd -p bandwidth=0.5 --metrics metrics.ndjson --checkpoint job

"""


@app.command(cls=PanelCommand, epilog=RUN_EXAMPLES + EXIT_CODES)
@with_choices(reading={**KEEPING, **WEIGHING}, preparing=PREPARING)
def run(
    file: Input,
    # -- input
    target: Annotated[
        str | None,
        typer.Option(
            "--target",
            "-t",
            metavar="COLUMN",
            help="Column to predict, or several: y1,y2. Required, except for LIBSVM files and "
            "with --model.",
            rich_help_panel=INPUT,
        ),
    ] = None,
    task: TaskOption = Task.auto,
    *,
    reading: dict[str, Any],
    skip_bad: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Skip invalid rows and write them to this file, with the reason.",
            rich_help_panel=INPUT,
        ),
    ] = None,
    delay: Annotated[
        int,
        typer.Option(min=0, metavar="N", help="Labels arrive N rows late.", rich_help_panel=INPUT),
    ] = 0,
    # -- learner
    algorithm: Annotated[
        str | None,
        typer.Option(
            "--algorithm",
            "-a",
            metavar="NAME",
            help="Name from `pronk algorithms`. Default: online-kernel, which needs no parameters.",
            autocompletion=_algorithm_names,
            rich_help_panel=LEARNER,
        ),
    ] = None,
    param: Annotated[
        list[str] | None,
        typer.Option(
            "--param",
            "-p",
            metavar="KEY=VALUE",
            help="Parameter of the learner, such as bandwidth=2; repeatable.",
            rich_help_panel=LEARNER,
        ),
    ] = None,
    by: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="Learn one model per value of this column.",
            rich_help_panel=LEARNER,
        ),
    ] = None,
    preparing: dict[str, Any],
    seed: Seed = 0,
    # -- output
    predictions: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write the prediction of every row, made before its label was used (.csv, "
            ".ndjson, .parquet; - for standard output).",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    interval: IntervalOption = None,
    no_probabilities: NoProbabilities = False,
    metrics: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write the metrics to this file during the run (.csv, .ndjson).",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    metrics_every: Annotated[
        int,
        typer.Option(
            min=1,
            metavar="N",
            help="Rows between two records of --metrics.",
            rich_help_panel=OUTPUT,
        ),
    ] = 1000,
    window: Annotated[
        int,
        typer.Option(
            min=1, metavar="N", help="Recent metrics cover the last N rows.", rich_help_panel=OUTPUT
        ),
    ] = 1000,
    report: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Write a report with charts (.html).", rich_help_panel=OUTPUT
        ),
    ] = None,
    json: AsJSON = False,
    # -- resume
    save: Annotated[
        Path | None,
        typer.Option(
            metavar="MODEL",
            help="Save the model with its scaling; with --by, a folder of models.",
            rich_help_panel=RESUME,
        ),
    ] = None,
    model: Annotated[
        Path | None,
        typer.Option(
            metavar="MODEL",
            help="Resume a saved model, with its scaling, categories and metrics. The file is "
            "replaced, unless --save names another.",
            rich_help_panel=RESUME,
        ),
    ] = None,
    again: Annotated[
        bool,
        typer.Option(
            "--again",
            help="Learn a file even if the model has already learned it.",
            rich_help_panel=RESUME,
        ),
    ] = False,
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write snapshots to this file. After an interruption, the same command resumes "
            "from the last one.",
            rich_help_panel=RESUME,
        ),
    ] = None,
    checkpoint_every: Annotated[
        int,
        typer.Option(
            min=1,
            metavar="N",
            help="Rows between two snapshots, rounded up to whole blocks.",
            rich_help_panel=RESUME,
        ),
    ] = 100_000,
    # -- scale-out
    workers: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="Share the pass among N cores, if the learner can, or with --by.",
            rich_help_panel=SCALE_OUT,
        ),
    ] = None,
    cluster: Cluster = None,
    threads: Threads = None,
) -> None:
    """Read a file once: predict every row, then learn it; print metrics, time and size.

    Rows without a label are only predicted.
    """
    from pronk.cli.run import RunOptions, run_job
    from pronk.data import Preparing, Reading

    if model is not None:
        refuse_choices("--model", reading, {**preparing, "algorithm": algorithm, "param": param})
    name = algorithm or DEFAULT_ALGORITHM
    scale = preparing["scale"] or scale_of(name)
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
            checkpoint_every=checkpoint_every,
            seed=seed,
            workers=workers,
            cluster=cluster,
            by=by,
        ),
        as_json=json,
    )


PREDICT_EXAMPLES = """\b
Examples:
  pronk predict model.pronk new.csv -o out.csv --keep id
  pronk predict model.pronk new.csv -o out.parquet --interval 0.9 -t price

"""


@app.command(cls=PanelCommand, epilog=PREDICT_EXAMPLES + EXIT_CODES)
@with_choices(reading=KEEPING)
def predict(
    model: Model,
    file: Input,
    target: Annotated[
        str | None,
        typer.Option(
            "--target",
            "-t",
            metavar="COLUMN",
            help="Column of labels, to print the metrics.",
            rich_help_panel=INPUT,
        ),
    ] = None,
    *,
    reading: dict[str, Any],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Write the predictions to this file (.csv, .ndjson, .parquet); default: print "
            "them.",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    interval: IntervalOption = None,
    no_probabilities: NoProbabilities = False,
    json: Annotated[
        bool,
        typer.Option(
            "--json",
            help="Print JSON: one object per row, or a summary with --output.",
            rich_help_panel=OUTPUT,
        ),
    ] = False,
    threads: Threads = None,
) -> None:
    """Predict the rows of a file with a saved model, without learning from them."""
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


#: The default learner, a second-order and two first-order algorithms, all bounded.
COMPARED = "online-kernel,con-kons,fogd,nogd"

COMPARE_EXAMPLES = """\b
Examples:
  pronk compare data.csv -t price
  pronk compare data.csv -t price -a online-kernel,pkawv-nystrom --runs 5 --report page.html
  pronk compare data.csv -t y -a wide=fogd,narrow=fogd -p wide:bandwidth=4 -p narrow:bandwidth=1
"""


@app.command(cls=PanelCommand, epilog=COMPARE_EXAMPLES)
@with_choices(reading={**READING, **WEIGHING}, preparing=PREPARING)
def compare(
    file: Annotated[str, typer.Argument(metavar="FILE", help=f"{FORMATS}.")],
    # -- input
    target: Annotated[
        str | None,
        typer.Option(
            "--target",
            "-t",
            metavar="COLUMN",
            help="Column to predict. Required, except for LIBSVM files.",
            rich_help_panel=INPUT,
        ),
    ] = None,
    task: TaskOption = Task.auto,
    order: Annotated[
        Order,
        typer.Option(
            help="given: as in the file; random: a different order for each run, sorted through a "
            "temporary file (in TMPDIR) if there are many rows.",
            rich_help_panel=INPUT,
        ),
    ] = Order.given,
    *,
    reading: dict[str, Any],
    # -- learner
    algorithms: Annotated[
        str,
        typer.Option(
            "--algorithms",
            "-a",
            metavar="A,B,..",
            help="Names from `pronk algorithms`; label=name to compare one algorithm with itself.",
            rich_help_panel=LEARNER,
        ),
    ] = COMPARED,
    param: Annotated[
        list[str] | None,
        typer.Option(
            "--param",
            "-p",
            metavar="[NAME:]KEY=VALUE",
            help="Parameter of one learner, or of all learners that have it; repeatable.",
            rich_help_panel=LEARNER,
        ),
    ] = None,
    preparing: dict[str, Any],
    runs: Annotated[
        int,
        typer.Option(
            min=1,
            metavar="N",
            help="Runs per learner, each with its own seed.",
            rich_help_panel=LEARNER,
        ),
    ] = 3,
    seed: Annotated[
        int,
        typer.Option(min=0, metavar="N", help="Seed of the first run.", rich_help_panel=LEARNER),
    ] = 0,
    # -- output
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="DIR",
            help="Folder of the results. Default: pronk-results/FILE-COLUMN.",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Write a report with charts (.html).", rich_help_panel=OUTPUT
        ),
    ] = None,
    figures: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Write PNG and SVG figures.", rich_help_panel=OUTPUT),
    ] = None,
    json: AsJSON = False,
    # -- resume
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Repeat finished runs.", rich_help_panel=RESUME)
    ] = False,
    # -- scale-out
    workers: Workers = 2,
    cluster: Cluster = None,
    threads: Threads = None,
) -> None:
    """Compare several learners on a file. An interrupted comparison resumes where it stopped.

    Rows without a label are only predicted.
    """
    from pronk.cli.compare import CompareOptions, compare_learners
    from pronk.data import Reading

    compare_learners(
        CompareOptions(
            reading=Reading(file, target, task=task.value, **reading),
            preparing=preparing,
            algorithms=algorithms,
            params=tuple(param or ()),
            runs=runs,
            order=order.value,
            seed=seed,
            output=output,
            report=report,
            figures=figures,
            fresh=fresh,
            workers=workers,
            cluster=cluster,
        ),
        as_json=json,
    )


@app.command(epilog=EXIT_CODES)
def inspect(model: Model, json: AsJSON = False) -> None:
    """Describe a saved model or a checkpoint: sizes, settings, certificate."""
    from pronk.cli.inspect import inspect_file

    inspect_file(model, as_json=json)


@app.command()
def algorithms(json: AsJSON = False) -> None:
    """List the algorithms with their cost per row and their papers."""
    from pronk.cli.inspect import list_algorithms

    list_algorithms(as_json=json)


app.command(cls=ServeCommand, context_settings=SERVE_SETTINGS)(serve)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the script `pronk`."""
    call(app, "pronk", arguments)


def call(app: typer.Typer, name: str, arguments: Sequence[str] | None = None) -> None:
    """Run a command of an app and exit; a failure prints one line to stderr."""
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
