"""The results of a comparison on the screen, as JSON, and as a report and figures."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.table import Table

from pronk.cli import screen
from pronk.cli.errors import CommandError
from pronk.cli.models import build, read_setting
from pronk.cli.outputs import check_directory, check_figure_tools, check_file, refuse_input
from pronk.core.checks import did_you_mean
from pronk.data import FileStream
from pronk.data.opening import Origins
from pronk.estimators.inputs import InvalidParameterError
from pronk.estimators.registry import DEFAULT_ALGORITHM, defaults_of, find, make
from pronk.evaluate.comparison import RECORDS, Comparison, Contender, labelled, prepare
from pronk.evaluate.formatting import mean_and_deviation, microseconds
from pronk.evaluate.metrics import WORDS, in_which_worse
from pronk.evaluate.models import takes_weights
from pronk.evaluate.results import OverRuns, Results, Summary


def check_report(
    option: str, path: Path | None, figures: Path | None, read: Origins | None = None
) -> None:
    """Better now than after an hour: can the report be made and written?"""
    check_figure_tools(figures)
    if path is not None:
        if read is not None:
            refuse_input(option, path, read)
        check_file(option, path)
    if figures is not None:
        check_directory("--figures", figures)


def note_damage(lines: int, directory: Path) -> None:
    """Tell of records that could not be read."""
    if lines:
        what = "1 line" if lines == 1 else f"{lines} lines"
        screen.note(f"{what} of {directory / RECORDS} cannot be read and counts for nothing")


def write(found: Results, report: Path | None, figures: Path | None) -> None:
    """The report and the figures that are asked for."""
    from pronk.report import write_figures, write_report

    try:
        if report is not None:
            write_report(found, report)
        if figures is not None:
            write_figures(found, figures)
    except OSError as error:
        name = error.filename or report or figures
        raise CommandError(f"{str(name)!r} cannot be written: {error.strerror or error}") from None


def show(found: Results) -> None:
    """The table."""
    comparison, console = found.comparison, screen.output()
    guessed = f" (guessed from {comparison.reason})" if comparison.reason else ""
    runs = "1 run" if comparison.runs == 1 else f"{comparison.runs} runs"
    order = "in the given order" if comparison.order == "given" else "each in its own random order"
    without = f", {comparison.unlabelled:,} without a label" if comparison.unlabelled else ""
    title = f"{Path(comparison.file).name}, target {comparison.target}"
    console.print(title, style="bold", markup=False)
    console.print(
        f"{comparison.task}{guessed}; {comparison.rows:,} rows of {len(comparison.columns)} "
        f"columns{without}; {runs}, {order}\n",
        markup=False,
    )
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("learner", style="bold", overflow="fold")
    metrics = list(found.everyone[0].metrics)
    for name in (*(WORDS.get(name, name) for name in metrics), "us a row", "points", "memory"):
        table.add_column(name, justify="right", no_wrap=name not in WORDS.values())
    for one in found.everyone:
        style = "dim" if one is found.baseline else None
        table.add_row(one.label, *_cells(one, metrics), style=style)
    console.print(table)


def note_worse(found: Results) -> None:
    """Print a note for each learner that is worse than the baseline."""
    for one in found.summaries:
        text = in_which_worse(found.worse(one))
        if text:
            screen.note(f"{one.label}: {text}")


def show_paths(**paths: Path | None) -> None:
    """Where things are."""
    console = screen.output()
    for name, path in paths.items():
        if path is not None:
            console.print(f"{name + ':':<8} {path}", style="dim", markup=False, soft_wrap=True)


def _cells(one: Summary, metrics: Sequence[str]) -> list[str]:
    return [
        *(_pm(one.metrics[name]) for name in metrics),
        microseconds(one.microseconds_a_row.mean, one.microseconds_a_row.deviation),
        f"{one.size.mean:,.0f}" if one.size else "-",
        screen.size(round(one.memory.mean)),
    ]


def _pm(spread: OverRuns) -> str:
    return mean_and_deviation(spread.mean, spread.deviation)


def as_dict(
    found: Results, directory: Path, report: Path | None, figures: Path | None
) -> dict[str, Any]:
    """Everything but the curves, which are in the results directory."""
    comparison = found.comparison
    weight = comparison.reading.weight
    return {
        "file": comparison.file,
        "target": comparison.target,
        **({} if weight is None else {"weight": weight}),
        "columns": comparison.columns,
        "task": comparison.task,
        "rows": comparison.rows,
        "unlabelled": comparison.unlabelled,
        "order": comparison.order,
        "scale": comparison.scale,
        "runs": comparison.runs,
        "runs_not_done": found.missing,
        "seed": comparison.seed,
        "learners": [
            {**one.to_dict(), "worse": [lead.to_dict() for lead in found.worse(one)]}
            for one in found.summaries
        ],
        "baseline": found.baseline.to_dict() if found.baseline else None,
        "results": str(directory),
        "report": None if report is None else str(report),
        "figures": None if figures is None else str(figures),
        "made": found.made,
    }


# ----------------------------------------------------------------------------------------
# Who is compared: the learners of `--algorithms` with the parameters of `--param`.


def read_names(text: str) -> dict[str, str]:
    """Algorithms by label."""
    names: dict[str, str] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        label, sign, name = (word.strip() for word in part.partition("="))
        name = name if sign else label
        try:
            find(name)
        except ValueError as error:
            raise CommandError(f"--algorithms: {error}") from None
        if not label or label in names:
            raise CommandError(
                f"--algorithms: {part!r} is there twice; label=name tells two of a kind apart"
            )
        names[label] = name
    if not names:
        raise CommandError("--algorithms: give at least one name; `pronk algorithms` lists them")
    return names


def contenders(
    names: dict[str, str], texts: Sequence[str], task: str, scale: str | None
) -> list[Contender]:
    """The learners with their parameters; those without a label go to all that have them.

    What `pronk.make` chooses beside them is written down with them.

    Where no scaling is chosen, the learner that scales itself is left alone.
    """
    itself = DEFAULT_ALGORITHM if scale is None else None
    chosen: dict[str, dict[str, Any]] = {label: {} for label in names}
    own: dict[str, list[str]] = {label: [] for label in names}
    known = {label: _parameters(name, task) for label, name in names.items()}
    for text in texts:
        label, sign, setting = text.partition(":")
        if sign and "=" not in label:
            if label not in names:
                raise CommandError(
                    f"--param: {text!r} is for {label!r}, but compared are {', '.join(names)}"
                )
            own[label].append(setting)
            continue
        key, value = read_setting(text)
        having = [one for one in names if {key, f"kernel__{key}"} & known[one]]
        if not having:
            _refuse(key, known)
        for one in having:
            chosen[one][key] = value
    for label, settings in own.items():
        build(names[label], task, tuple(settings), 0)  # refuses what it does not know
        chosen[label] |= dict(map(read_setting, settings))
    return [
        Contender(
            label,
            name,
            {**chosen[label], **defaults_of(name, task, chosen[label])},
            "none" if name == itself else None,
        )
        for label, name in names.items()
    ]


def check_weight(comparison: Comparison) -> None:
    """Refuse a weight that has no meaning for someone."""
    if comparison.reading.weight is None:
        return
    for one in comparison.contenders:
        if not takes_weights(one.learner(comparison.task, 0)):
            raise CommandError(
                f"--weight: rows of a weight have no meaning for {one.label}; name others with "
                "--algorithms, as pkawv-nystrom,b-kons,fogd,nogd"
            )


def _parameters(name: str, task: str) -> set[str]:
    """Names of all parameters, also of the kernel."""
    try:
        return set(make(name, task).get_params())
    except ValueError as error:
        raise CommandError(f"--algorithms: {error}; see --task") from None


def _refuse(key: str, known: dict[str, set[str]]) -> None:
    hint = did_you_mean(key, set().union(*known.values()))
    raise CommandError(f"--param: none of {', '.join(known)} has a parameter {key!r}{hint}")


def try_all(
    several: Sequence[Contender],
    scale: str,
    stream: FileStream,
    view: dict[str, Any],
    console: Any,
) -> None:
    """Learn some rows with each: wrong parameters show now, and what is compiled is kept."""
    X, y, weights = labelled(*stream.head(64), stream.weights)
    more = {} if weights is None else {"sample_weight": weights}
    if not len(y):
        return
    with console.status("") as status:
        for contender in several:
            status.update(f"getting ready: {contender.label} (compiled once, then kept)")
            learner = contender.learner(stream.task, 0)
            model = prepare(learner, contender.scale or scale, stream, view)
            try:
                model.predict_then_learn(X, y, **more)
            except (InvalidParameterError, ValueError) as error:
                raise CommandError(f"--param: {contender.label}: {error}") from None
