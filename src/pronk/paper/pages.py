"""A page as Markdown, and a run from options to files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from pronk.evaluate import study
from pronk.paper import data
from pronk.paper.experiment import Experiment, PaperOptions, ResultPage, Section
from pronk.paper.jobs import Outcome, PaperJob, Store, run


def command(experiment: Experiment, options: PaperOptions) -> str:
    """The command that makes a page."""
    said = ["pronk paper", experiment.name]
    if options.quick:
        said.append("--quick")
    if options.runs is not None:
        said.append(f"--runs {options.runs}")
    said += [f"--data {name}" for name in options.data]
    return " ".join(said)


def run_experiment(
    experiment: Experiment,
    options: PaperOptions,
    store: Store,
    workers: int = 1,
    started: Callable[[list[PaperJob]], None] | None = None,
    done: Callable[[study.Job, bool], None] | None = None,
    client: Any = None,
) -> list[Outcome]:
    """All phases; the records of the last one. ``started`` is told the jobs of each phase."""
    for name in options.data:
        if name not in experiment.data:
            raise ValueError(
                f"{experiment.name} has no data set {name!r}; it has {', '.join(experiment.data)}"
            )
    data.need(options.wanted(experiment.data))
    records: list[Outcome] = []
    for phase in experiment.phases:
        jobs = phase(options, records)
        if started is not None:
            started(jobs)
        records = run(jobs, store, workers, done, client)
    return records


def markdown(page: ResultPage, command: str, records: list[Outcome]) -> str:
    """The page as GitHub-flavoured Markdown; figures are in files beside it."""
    made = records[0]["made"] if records else {}
    versions = ", ".join(f"{name} {text}" for name, text in made.items() if name != "machine")
    lines = [f"# {page.title}", "", *_paragraphs(page.intro)]
    if made:
        lines += [f"Made by `{command}` on {made['machine']}; {versions}.", ""]
    for figure in page.figures:
        lines += [f"![{figure.caption}]({figure.name}.svg)", "", figure.caption, ""]
    for section in page.sections:
        lines += [f"## {section.title}", ""]
        if section.text:
            lines += [section.text, ""]
        lines += [*_table(section), ""]
    if page.notes:
        lines += ["## Differences and readings", ""]
        lines += [f"- {note}" for note in page.notes]
    return "\n".join(lines).rstrip() + "\n"


def _paragraphs(texts: list[str]) -> list[str]:
    return [line for text in texts for line in (text, "")]


def _table(section: Section) -> list[str]:
    rules = [":--" if i < section.left else "--:" for i in range(len(section.header))]
    rows = [section.header, tuple(rules), *section.rows]
    return ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]


def write(page: ResultPage, text: str, name: str, directory: Path) -> Path:
    """The page and its figures (SVG and PNG) in a directory; the page's path."""
    directory.mkdir(parents=True, exist_ok=True)
    for figure in page.figures:
        for ending in ("svg", "png"):
            figure.draw(directory / f"{figure.name}.{ending}")
    path = directory / f"{name}.md"
    path.write_text(text, encoding="utf-8")
    return path
