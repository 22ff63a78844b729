"""The commands and their options. What they do is imported when a command is called.

Exit codes: 0 done; 1 the run failed; 2 the command line or the data cannot be used; 130 stopped
from the keyboard.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from pronk._version import __version__
from pronk.cli.compare import compare, report_again
from pronk.cli.data import data
from pronk.cli.errors import report
from pronk.cli.options import Scale, Task
from pronk.cli.paper import paper

app = typer.Typer(
    help="Learn from streams with kernels: one pass, predict then learn.",
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


JSON = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")]
Seed = Annotated[int, typer.Option(min=0, metavar="N", help="Seed of everything random.")]


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
        int, typer.Option(min=1000, metavar="N", help="Rows of the generated stream.")
    ] = 200_000,
    seed: Seed = 0,
    json: JSON = False,
) -> None:
    """Race several learners over a generated stream that drifts and jumps."""
    from pronk.cli.demo import run_demo

    run_demo(rows=rows, seed=seed, as_json=json)


@app.command()
def run(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="CSV (also .gz) or Parquet file.")],
    target: Annotated[
        str, typer.Option("--target", "-t", metavar="COLUMN", help="The column to predict.")
    ],
    algorithm: Annotated[
        str,
        typer.Option(
            "--algorithm", "-a", metavar="NAME", help="A name that `pronk algorithms` lists."
        ),
    ],
    task: Annotated[Task, typer.Option(help="auto: labels if the target looks like it.")] = (
        Task.auto
    ),
    param: Annotated[
        list[str] | None,
        typer.Option(
            "--param", "-p", metavar="KEY=VALUE", help="A parameter: alpha=0.1, bandwidth=2, .."
        ),
    ] = None,
    drop: Annotated[
        list[str] | None, typer.Option(metavar="COLUMN", help="Leave a column out.")
    ] = None,
    scale: Annotated[
        Scale,
        typer.Option(help="Scale columns as the stream goes: to [-1/2, 1/2], to deviation 1."),
    ] = Scale.minmax,
    no_scale: Annotated[bool, typer.Option("--no-scale", help="The same as --scale none.")] = False,
    save: Annotated[
        Path | None, typer.Option(metavar="MODEL", help="Save the model (with its scaling).")
    ] = None,
    predictions: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write row, y, prediction (.csv or .parquet)."),
    ] = None,
    limit: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Stop after so many rows.")
    ] = None,
    delimiter: Annotated[
        str | None, typer.Option(metavar="CHARACTER", help="Of a CSV file, if it is not a comma.")
    ] = None,
    seed: Seed = 0,
    json: JSON = False,
) -> None:
    """Walk a file once: predict each row, then learn it; show loss, time and size."""
    from pronk.cli.run import Job, run_job

    run_job(
        Job(
            file=file,
            target=target,
            algorithm=algorithm,
            task=task.value,
            params=tuple(param or ()),
            drop=tuple(drop or ()),
            scale="none" if no_scale else scale.value,
            save=save,
            predictions=predictions,
            limit=limit,
            delimiter=delimiter,
            seed=seed,
        ),
        as_json=json,
    )


@app.command()
def algorithms(json: JSON = False) -> None:
    """List the algorithms with their cost a row and their papers."""
    from pronk.cli.listing import list_algorithms

    list_algorithms(as_json=json)


app.command()(compare)
app.command("report")(report_again)
app.command()(paper)
app.add_typer(data, name="data")


def main(arguments: Sequence[str] | None = None) -> None:
    """The script `pronk`: run a command; a failure is one line on stderr and an exit code."""
    try:
        code = app(
            args=None if arguments is None else list(arguments),
            prog_name="pronk",
            standalone_mode=False,
        )
        if code == 130:  # Typer turns an interrupt into this
            raise KeyboardInterrupt
    except BaseException as error:
        code = report(error)
    sys.exit(code if isinstance(code, int) else 0)
