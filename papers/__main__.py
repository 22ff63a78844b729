"""`python -m papers`: reproduce a table or figure; list, fetch and check the data sets."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from papers import TITLES, load_experiment
from pronk.cli import screen
from pronk.cli.app import call
from pronk.cli.options import AsJSON, CommandGroup, Threads, Workers

app = typer.Typer(
    cls=CommandGroup,
    help="Reproduce a table or figure of a paper, printed values beside ours. Run from a clone.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


# -- a table or figure ---------------------------------------------------------------------------


def table(
    context: typer.Context,
    quick: Annotated[
        bool, typer.Option("--quick", help="Only the first rows, and two runs.")
    ] = False,
    runs: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Runs; default: the paper's number.")
    ] = None,
    workers: Workers = 2,
    data: Annotated[
        list[str] | None, typer.Option(metavar="SET", help="Only this data set (repeatable).")
    ] = None,
    output: Annotated[
        Path,
        typer.Option("--output", "-o", metavar="DIR", help="Folder of records, page and figures."),
    ] = Path("pronk-results"),
    write_docs: Annotated[
        bool, typer.Option("--write-docs", help="Also store page and figures in docs/results.")
    ] = False,
    fresh: Annotated[bool, typer.Option("--fresh", help="Repeat finished runs.")] = False,
    threads: Threads = None,
    json: AsJSON = False,
) -> None:
    """Reproduce it. An interrupted command resumes where it stopped."""
    from papers.experiment import Options

    docs = Path("docs") / "results"
    if write_docs and not docs.parent.is_dir():
        raise typer.BadParameter("there is no directory docs here", param_hint="--write-docs")
    options = Options(quick=quick, runs=runs, data=tuple(data or ()))
    places = [output, docs] if write_docs else [output]
    _make(str(context.info_name), options, workers, places, fresh, json)


for _name, _title in TITLES.items():
    app.command(_name, help=f"{_title}.")(table)


def _make(
    name: str,
    options: Any,
    workers: int,
    places: list[Path],
    fresh: bool,
    json: bool,
) -> None:
    """Run what is not recorded yet, print the page and write it to every place."""
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn

    from papers.experiment import command, run_experiment
    from papers.page import as_json, draw_figures, markdown, parts
    from pronk.cli.outputs import open_store, results_folder

    chosen, messages = load_experiment(name), screen.messages()
    with results_folder(places[0]):
        store = open_store(places[0] / f"{name}.jsonl", fresh)
    columns = (
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
    )  # fmt: skip
    with screen.bars(messages, *columns) as bars:
        bar = bars.add_task(name, total=None)
        records = run_experiment(
            chosen,
            options,
            store,
            workers,
            started=lambda jobs: bars.update(bar, total=len(jobs), completed=0),
            done=lambda job, _: bars.update(
                bar, advance=1, description=f"{job.group}: {job.label.replace('|', ' ')}"
            ),
        )
    page, repeat = chosen.page(options, records), command(chosen, options)
    data = parts(page, repeat, records)
    if not json:
        _show(page)
    paths = [places[0] / f"{name}.md", *(place / f"{name}.json" for place in places[1:])]
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        draw_figures(page, path.parent)
        text = markdown(data) if path.suffix == ".md" else as_json(data)
        path.write_text(text, encoding="utf-8")
    if json:
        tables = [
            {"title": section.title, "header": section.header, "rows": section.rows}
            for section in page.sections
        ]
        screen.print_json(
            {"name": name, "title": page.title, "intro": page.intro, "tables": tables,
             "notes": page.notes, "command": repeat, "pages": [str(path) for path in paths]}
        )  # fmt: skip
    for path in paths:
        messages.print(f"written: {path}", markup=False, soft_wrap=True)


def _show(page: Any) -> None:
    from rich.table import Table

    console = screen.output()
    console.print(page.title, style="bold", markup=False)
    for text in page.intro:
        console.print(text, style="dim", markup=False)
    for section in page.sections:
        shown = Table(box=None, pad_edge=False, title=section.title, title_justify="left")
        for i, head in enumerate(section.header):
            shown.add_column(head, justify="left" if i < section.left else "right", no_wrap=i == 0)
        for row in section.rows:
            shown.add_row(*row)
        console.print()
        console.print(shown)
    console.print()
    for note in page.notes:
        console.print("- " + note.replace("**", ""), style="dim", markup=False)


# -- data sets -----------------------------------------------------------------------------------

data_app = typer.Typer(help="List, fetch and check the papers' data sets.")
app.add_typer(data_app, name="data")


@app.callback(invoke_without_command=True)
@data_app.callback(invoke_without_command=True)
def without_a_command(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        print(context.get_help())


@data_app.command("list")
def list_sets(json: AsJSON = False) -> None:
    """List the data sets and where they are."""
    from rich.table import Table

    from papers.datasets import DATASETS, directories, locate

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


@data_app.command()
def check(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME]..", help="All that are here, if none.")
    ] = None,
    json: AsJSON = False,
) -> None:
    """Verify the checksums of data sets; the exit code is 1 where one is missing or differs."""
    from papers.datasets import DATASETS, DataError, find, locate, read

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
        console.print("no data set is here; `python -m papers data list` lists them")
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


@data_app.command()
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

    from papers.datasets import find, locate
    from papers.fetch import fetch as download

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


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command; a failure is one line on stderr and an exit code."""
    call(app, "papers", arguments)


if __name__ == "__main__":
    main()
