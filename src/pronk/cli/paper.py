"""`pronk paper NAME`: a table or figure of a paper, ours beside the printed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from pronk.cli.options import AsJSON, Cluster, Jobs, Threads


def paper(
    name: Annotated[
        str | None,
        typer.Argument(metavar="NAME", help="Which one; without a name they are listed."),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="The first rows and two runs only.")
    ] = False,
    runs: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Runs (the paper's number if not given).")
    ] = None,
    jobs: Jobs = 2,
    cluster: Cluster = None,
    data: Annotated[
        list[str] | None, typer.Option(metavar="SET", help="Only this data set (repeat).")
    ] = None,
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="Where records, page and figures go.")
    ] = Path("pronk-results"),
    write_docs: Annotated[
        bool, typer.Option("--write-docs", help="Also write the page to docs/results.")
    ] = False,
    fresh: Annotated[bool, typer.Option("--fresh", help="Run again what was run before.")] = False,
    threads: Threads = None,
    json: AsJSON = False,
) -> None:
    """Make a table or figure of a paper again. Interrupted runs go on where they stopped."""
    from pronk.paper import PaperOptions, experiment

    if name is None:
        _list(json)
        return
    chosen = experiment(name)
    docs = Path("docs") / "results"
    if write_docs and not docs.parent.is_dir():
        raise typer.BadParameter("there is no directory docs here", param_hint="--write-docs")
    options = PaperOptions(quick=quick, runs=runs, data=tuple(data or ()))
    from pronk.cli.parallel import cluster_or_none, losses_told

    with cluster_or_none(cluster) as client, losses_told(cluster):
        _make(chosen, options, jobs, out, docs if write_docs else None, fresh, json, client)


def _list(as_json: bool) -> None:
    from pronk.cli import screen
    from pronk.paper import EXPERIMENTS, experiment

    if as_json:
        screen.print_json({name: {"title": experiment(name).title} for name in EXPERIMENTS})
        return
    console = screen.output()
    for name in EXPERIMENTS:
        console.print(f"{name:<14} {experiment(name).title}", markup=False)


def _make(
    chosen: Any,
    options: Any,
    workers: int,
    out: Path,
    docs: Path | None,
    fresh: bool,
    as_json: bool,
    client: Any = None,
) -> None:
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn

    from pronk.cli import screen
    from pronk.paper.pages import command, markdown, run_experiment, write

    store, messages = _store(out, chosen.name, fresh), screen.messages()
    columns = (
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
    )  # fmt: skip
    with screen.bars(messages, *columns) as bars:
        bar = bars.add_task(chosen.name, total=None)
        records = run_experiment(
            chosen,
            options,
            store,
            workers,
            started=lambda jobs: bars.update(bar, total=len(jobs), completed=0),
            done=lambda job, _: bars.update(
                bar, advance=1, description=f"{job.group}: {job.label.replace('|', ' ')}"
            ),
            client=client,
        )
    page, said = chosen.page(options, records), command(chosen, options)
    text = markdown(page, said, records)
    if not as_json:
        _show(page)
    paths = [write(page, text, chosen.name, place) for place in (out, docs) if place is not None]
    if as_json:
        screen.print_json(_as_dict(chosen.name, page, said, paths))
    for path in paths:
        messages.print(f"written: {path}", markup=False, soft_wrap=True)


def _store(out: Path, name: str, fresh: bool) -> Any:
    """The records of an experiment, after the first write into their directory."""
    from pronk.cli.outputs import open_store, results

    with results(out):
        return open_store(out / f"{name}.jsonl", fresh)


def _as_dict(name: str, page: Any, command: str, paths: list[Path]) -> dict[str, Any]:
    return {
        "name": name,
        "title": page.title,
        "intro": page.intro,
        "tables": [
            {"title": section.title, "header": section.header, "rows": section.rows}
            for section in page.sections
        ],
        "notes": page.notes,
        "command": command,
        "pages": [str(path) for path in paths],
    }


def _show(page: Any) -> None:
    from rich.table import Table

    from pronk.cli import screen

    console = screen.output()
    console.print(page.title, style="bold", markup=False)
    for text in page.intro:
        console.print(text, style="dim", markup=False)
    for section in page.sections:
        table = Table(box=None, pad_edge=False, title=section.title, title_justify="left")
        for i, head in enumerate(section.header):
            table.add_column(head, justify="left" if i < section.left else "right", no_wrap=i == 0)
        for row in section.rows:
            table.add_row(*row)
        console.print()
        console.print(table)
    console.print()
    for note in page.notes:
        console.print("- " + note.replace("**", ""), style="dim", markup=False)
