"""`pronk data list|fetch|check`: the papers' data sets."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from pronk.cli.options import AsJSON

data = typer.Typer(help="The papers' data sets: list them, fetch them, check them.")


@data.callback(invoke_without_command=True)
def sets(context: typer.Context) -> None:
    """The papers' data sets: list them, fetch them, check them."""
    if context.invoked_subcommand is None:
        print(context.get_help())


@data.command("list")
def list_sets(json: AsJSON = False) -> None:
    """List the data sets and where they are."""
    from rich.table import Table

    from pronk.cli import screen
    from pronk.paper.data import DATASETS, directories, locate

    if json:
        screen.print_json(
            {
                dataset.name: {
                    "rows": dataset.rows,
                    "columns": dataset.columns,
                    "task": dataset.task,
                    "here": bool(locate(dataset)),
                    "can_be_fetched": bool(dataset.source),
                }
                for dataset in DATASETS.values()
            }
        )
        return
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("name", style="bold", no_wrap=True)
    for title in ("rows", "columns"):
        table.add_column(title, justify="right")
    for title in ("task", "here", "can be fetched"):
        table.add_column(title)
    for dataset in DATASETS.values():
        table.add_row(
            dataset.name,
            f"{dataset.rows:,}",
            str(dataset.columns),
            dataset.task,
            "yes" if locate(dataset) else "",
            "yes" if dataset.source else "",
        )
    console = screen.output()
    console.print(table)
    console.print("\nLooked for in: " + ", ".join(map(str, directories())), markup=False)


@data.command()
def check(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME]..", help="All that are here, if none.")
    ] = None,
    json: AsJSON = False,
) -> None:
    """Verify the checksums of data sets; the exit code is 1 where one is missing or differs."""
    from pronk.cli import screen
    from pronk.paper.data import DATASETS, DataError, find, locate, read

    chosen = [find(name) for name in names] if names else [*filter(locate, DATASETS.values())]
    console, failed = screen.messages() if json else screen.output(), False
    checked: dict[str, str] = {}
    for dataset in chosen:
        try:
            X, _ = read(dataset)
            checked[dataset.name] = "verified"
            console.print(f"{dataset.name}: {X.shape[0]:,} rows of {X.shape[1]} columns, verified")
        except DataError as error:
            failed = True
            checked[dataset.name] = str(error)
            console.print(f"{dataset.name}: {error}", style="red", markup=False, soft_wrap=True)
    if not chosen:
        console.print("no data set is here; `pronk data list` lists them")
    if json:
        screen.print_json(checked)
    if failed:
        raise SystemExit(1)


class _Bars:
    """A progress bar for each file."""

    def __init__(self, bars: Any) -> None:
        self.bars = bars
        self.shown: dict[str, Any] = {}

    def __call__(self, name: str, done: int, total: int | None) -> None:
        if name not in self.shown:
            self.shown[name] = self.bars.add_task(name, total=total)
        self.bars.update(self.shown[name], completed=done)


@data.command()
def fetch(
    names: Annotated[list[str], typer.Argument(metavar="NAME..", help="Data sets to download.")],
    mirror: Annotated[
        str | None,
        typer.Option("--from", metavar="URL", help="A directory that holds files of these names."),
    ] = None,
    again: Annotated[bool, typer.Option("--again", help="Even if it is here.")] = False,
    json: AsJSON = False,
) -> None:
    """Download data sets from their original public sources, verify and store them."""
    from rich.progress import BarColumn, DownloadColumn, TextColumn, TransferSpeedColumn

    from pronk.cli import screen
    from pronk.paper.data import find, locate
    from pronk.paper.fetch import fetch as download

    messages = screen.messages()
    console = messages if json else screen.output()
    stored: dict[str, dict[str, Any]] = {}
    for dataset in [find(name) for name in names]:
        here = locate(dataset)
        if here and not again:
            stored[dataset.name] = {"files": here, "fetched": False}
            console.print(f"{dataset.name} is here already")
            continue
        columns = (
            TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn(),
        )  # fmt: skip
        with screen.bars(messages, *columns) as bars:
            path = download(dataset, _Bars(bars), mirror)
        stored[dataset.name] = {"files": [path], "fetched": True}
        console.print(f"{dataset.name}: verified and stored as {path}", markup=False)
    if json:
        screen.print_json(stored)
