"""The commands and their options.

The module of a command is imported when the command is called, so that `pronk --help` is fast.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from pronk._version import __version__
from pronk.cli import screen
from pronk.cli.options import (
    DECIDED_BY_THE_MODEL,
    INPUT,
    KEEP,
    LEARNER,
    OUTPUT,
    PREDICTIONS,
    PREPARING,
    READING,
    RESUME,
    SCALE_OUT,
    TASK,
    TIMES,
    WEIGHT,
    AsJSON,
    CommandGroup,
    Option,
    PanelCommand,
    Seed,
    Threads,
    Workers,
    check_exists,
    option,
    refuse_choices,
    with_options,
)
from pronk.cli.screen import end_with, writing
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
    cls=CommandGroup,
    help="Online learning with kernels: predict every row, then learn it, in one pass.",
    epilog=EXIT_CODES,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)

FORMATS = "CSV, NDJSON, LIBSVM (also .gz), Parquet or Arrow file, a directory or pattern of files"
#: Text, not a path: the address of a database may have two slashes.
Input = Annotated[
    list[str], typer.Argument(metavar="FILE", help=f"{FORMATS}, or - for standard input.")
]
Model = Annotated[Path, typer.Argument(metavar="MODEL", help="Saved model or checkpoint.")]


def _algorithm_names(incomplete: str) -> list[str]:
    """Complete the name of an algorithm in a shell."""
    from pronk.estimators.registry import algorithms

    return [name for name in algorithms() if name.startswith(incomplete)]


def _target(help_text: str) -> dict[str, Option]:
    return {"target": option(INPUT, str, help_text, "COLUMN", short="-t")}


REPORT = option(OUTPUT, Path, "Write a report with charts (.html).")


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
    from pronk.data.generated import write_rentals

    with writing("--output", output, 2):
        output.mkdir(parents=True, exist_ok=True)
        write_rentals(output / "rentals.csv", rows, seed)
    command = ["run", str(output / "rentals.csv"), "--target", "rentals", "--interval", "0.9"]
    files = {"predictions": "predictions.csv", "save": "model.pronk", "report": "page.html"}
    for name, file in files.items():
        command += [f"--{name}", str(output / file)]
    console = screen.messages() if json else screen.output()

    def show(text: str, style: str = "") -> None:  # without wrapping, so that it can be copied
        console.print(text, style=style, markup=False, soft_wrap=True)

    show(f"Generated {output / 'rentals.csv'}. The command that learns it:\n")
    show(f"    {shlex.join(['pronk', *command])}\n", "bold")
    app(args=[*command, *(["--json"] if json else [])], standalone_mode=False)
    # In a clone the command is in .venv, which may not be on the PATH.
    name = sys.argv[0] if Path(sys.argv[0]).name == "pronk" else "pronk"
    own = [name, "run", "FILE", "--target", "COLUMN", "--report", "page.html"]
    show(f"\nOpen {output / 'page.html'} in a browser. The command for a file of your own:\n")
    show(f"    {shlex.join(own)}\n", "bold")


RUN_EXAMPLES = """\b
Examples:
  pronk run data.csv -t price
  pronk run data.csv -t price --interval 0.9 --predictions out.csv --keep id --report page.html
  pronk run today.csv -t label --save model.pronk
  pronk run tomorrow.csv --model model.pronk
  pronk run data.csv -t y -a fogd -p bandwidth=0.5 --metrics metrics.ndjson --checkpoint job

"""


#: The options of `pronk run`, by the field of `pronk.cli.run.RunOptions`.
RUN = {
    "skip_bad": option(
        INPUT, Path, "Skip invalid rows and write them to this file, with the reason."
    ),
    "delay": option(INPUT, int, "Labels arrive N rows late.", default=0, min=0),
    "algorithm": option(
        LEARNER,
        str,
        "Name from `pronk algorithms`. Default: online-kernel, which needs no parameters.",
        "NAME",
        short="-a",
        autocompletion=_algorithm_names,
    ),
    "param": option(
        LEARNER,
        list,
        "Parameter of the learner, such as bandwidth=2; repeatable.",
        "KEY=VALUE",
        short="-p",
    ),
    "by": option(LEARNER, str, "Learn one model per value of this column.", "COLUMN"),
    "seed": Option(lambda _: Seed, 0),
    "predictions": option(
        OUTPUT,
        Path,
        "Write the prediction of every row, made before its label was used (.csv, .ndjson, "
        ".parquet; - for standard output).",
    ),
    **PREDICTIONS,
    "metrics": option(
        OUTPUT, Path, "Write the metrics to this file during the run (.csv, .ndjson)."
    ),
    "metrics_every": option(
        OUTPUT, int, "Rows between two records of --metrics.", default=1000, min=1
    ),
    "window": option(OUTPUT, int, "Recent metrics cover the last N rows.", default=1000, min=1),
    "report": REPORT,
    "on_alarm": option(
        OUTPUT,
        str,
        "Start this command at each drift alarm, with the alarm as JSON on its standard input.",
        "COMMAND",
    ),
    "save": option(
        RESUME, Path, "Save the model with its scaling; with --by, a folder of models.", "MODEL"
    ),
    "model": option(
        RESUME,
        Path,
        "Resume a saved model, with its scaling, categories and metrics. The file is replaced, "
        "unless --save names another.",
        "MODEL",
    ),
    "again": option(
        RESUME, bool, "Learn a file even if the model has already learned it.", default=False
    ),
    "checkpoint": option(
        RESUME,
        Path,
        "Write snapshots to this file. After an interruption, the same command resumes from the "
        "last one.",
    ),
    "checkpoint_every": option(
        RESUME,
        int,
        "Rows between two snapshots, rounded up to whole blocks.",
        default=100_000,
        min=1,
    ),
    "workers": option(SCALE_OUT, int, "Share the models of --by among N processes.", min=1),
    "cluster": option(SCALE_OUT, str, "local:N is --workers N.", metavar="local:N"),
}


@app.command(cls=PanelCommand, epilog=RUN_EXAMPLES + EXIT_CODES)
@with_options(
    reading={
        **_target(
            "Column to predict, or several: y1,y2. Required, except for LIBSVM files and "
            "with --model."
        ),
        **TASK,
        **READING,
        **KEEP,
        **WEIGHT,
        **TIMES,
    },
    options=RUN,
    preparing=PREPARING,
)
def run(
    file: Input,
    reading: dict[str, Any],
    options: dict[str, Any],
    preparing: dict[str, Any],
    json: AsJSON = False,
    threads: Threads = None,
) -> None:  # fmt: skip
    """Read a file once: predict every row, then learn it; print metrics, time and size.

    Rows without a label are only predicted.
    """
    check_exists(file, reading)
    from pronk.cli.run import RunOptions, run_job
    from pronk.cli.scale_out import local_workers
    from pronk.data import Preparing, Reading

    if options["model"] is not None:
        own = {name: options[name] for name in ("algorithm", "param")}
        decided = {name: reading[name] for name in DECIDED_BY_THE_MODEL}
        refuse_choices("--model", {**preparing, **own, **decided})
    options["workers"] = local_workers(options["workers"], options.pop("cluster"))
    name = options.pop("algorithm") or DEFAULT_ALGORITHM
    scale = preparing["scale"] or ("none" if name == DEFAULT_ALGORITHM else "minmax")
    job = RunOptions(
        reading=Reading("\n".join(file), skip_bad=options["skip_bad"] is not None, **reading),
        preparing=Preparing(**{**preparing, "scale": scale}),
        algorithm=name,
        **options,
    )
    run_job(job, as_json=json)


PREDICT_EXAMPLES = """\b
Examples:
  pronk predict model.pronk new.csv -o out.csv --keep id
  pronk predict model.pronk new.csv -o out.parquet --interval 0.9 -t price

"""


@app.command(cls=PanelCommand, epilog=PREDICT_EXAMPLES + EXIT_CODES)
@with_options(
    reading={
        **_target("Column of labels, to print the metrics."),
        **{name: one for name, one in READING.items() if name not in DECIDED_BY_THE_MODEL},
        **KEEP,
    },
    options={
        "output": option(
            OUTPUT,
            Path,
            "Write the predictions to this file (.csv, .ndjson, .parquet); default: print them.",
            short="-o",
        ),
        **PREDICTIONS,
    },
)
def predict(
    model: Model,
    file: Input,
    reading: dict[str, Any],
    options: dict[str, Any],
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

    with screen.without_skip_bad():
        predict_file(model, Reading("\n".join(file), **reading), as_json=json, **options)


#: The default learner, a second-order and two first-order algorithms, all bounded.
COMPARED = "online-kernel,con-kons,fogd,nogd"

COMPARE_EXAMPLES = """\b
Examples:
  pronk compare data.csv -t price
  pronk compare data.csv -t price -a online-kernel,pkawv-nystrom --runs 5 --report page.html
  pronk compare data.csv -t y -a wide=fogd,narrow=fogd -p wide:bandwidth=4 -p narrow:bandwidth=1
"""


#: The options of `pronk compare`, by the field of `pronk.cli.compare.CompareOptions`.
COMPARE = {
    "order": option(
        INPUT,
        Literal["given", "random"],
        "given: as in the file; random: a different order for each run, with all rows in memory.",
        default="given",
    ),
    "algorithms": option(
        LEARNER,
        str,
        "Names from `pronk algorithms`; label=name to compare one algorithm with itself.",
        "A,B,..",
        short="-a",
        default=COMPARED,
    ),
    "param": option(
        LEARNER,
        list,
        "Parameter of one learner, or of all learners that have it; repeatable.",
        "[NAME:]KEY=VALUE",
        short="-p",
    ),
    "runs": option(LEARNER, int, "Runs per learner, each with its own seed.", default=3, min=1),
    "seed": option(LEARNER, int, "Seed of the first run.", default=0, min=0),
    "output": option(
        OUTPUT,
        Path,
        "Folder of the results. Default: pronk-results/FILE-COLUMN.",
        "DIR",
        short="-o",
    ),
    "report": REPORT,
    "fresh": option(RESUME, bool, "Repeat finished runs.", default=False),
    "workers": Option(lambda _: Workers, 2),
}


@app.command(cls=PanelCommand, epilog=COMPARE_EXAMPLES)
@with_options(
    reading={
        **_target("Column to predict. Required, except for LIBSVM files."),
        **TASK,
        **READING,
        **WEIGHT,
        **TIMES,
    },
    options=COMPARE,
    preparing=PREPARING,
)
def compare(
    file: Annotated[list[str], typer.Argument(metavar="FILE", help=f"{FORMATS}.")],
    reading: dict[str, Any],
    options: dict[str, Any],
    preparing: dict[str, Any],
    json: AsJSON = False,
    threads: Threads = None,
) -> None:
    """Compare several learners on a file. An interrupted comparison resumes where it stopped.

    Rows without a label are only predicted.
    """
    from pronk.cli.compare import CompareOptions, compare_learners
    from pronk.data import Reading

    job = CompareOptions(
        reading=Reading("\n".join(file), **reading), preparing=preparing, **options
    )
    with screen.without_skip_bad():
        compare_learners(job, as_json=json)


@app.command(epilog=EXIT_CODES)
def inspect(model: Model, json: AsJSON = False) -> None:
    """Describe a saved model or a checkpoint: sizes, settings, certificate."""
    from pronk.cli.inspect import inspect_file

    inspect_file(model, as_json=json)


@app.command()
def algorithms(json: AsJSON = False) -> None:
    """List the algorithms with their cost per row and their papers."""
    from pronk.cli.algorithms import list_algorithms

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
