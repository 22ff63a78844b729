"""The results of `pronk run`: the summary, its notes, the report and the JSON object."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from pronk.cli import screen
from pronk.cli.models import describe_choices
from pronk.cli.predictions import StandardOutput
from pronk.cli.run_loop import RunLoop
from pronk.cli.scale_out import KeyedRun
from pronk.cli.screen import CommandError
from pronk.columns.preparation import columns_in_words, notes
from pronk.data.errors import option
from pronk.estimators.registry import DEFAULT_ALGORITHM
from pronk.evaluate import Record, held_bytes
from pronk.evaluate.formatting import number, size
from pronk.evaluate.metrics import TITLES, describe_leads
from pronk.evaluate.trace import Trace, changes_of, describe_change

#: Characters of the loss curve, and drift alarms that are listed.
WIDTH, LISTED = 32, 5


def print_summary(run: RunLoop, last: Record, console: Console) -> None:
    """Print a table of the metrics, then the facts about the run."""
    job, stream = run.job, run.stream
    title = f"{job.algorithm} on {job.reading.name}, target {stream.target}"
    console.print(screen.visible(title), style="bold", markup=False)
    console.print(_metrics(run, last))
    if last.outputs:
        console.print(_metrics_per_target(run, last))
    console.print(_facts(run, last))


def _metrics(run: RunLoop, last: Record) -> Table:
    baselines = run.trace.baselines
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("", style="dim", no_wrap=True)
    part = run.evaluation.part
    if part is not None:
        table.add_column("this input", justify="right", style="bold")
    table.add_column("all rows", justify="right", style="" if part else "bold")
    recent = last.rows > run.job.window
    if recent:
        table.add_column(f"last {run.job.window:,}", justify="right")
    for title in baselines:
        table.add_column(title, justify="right", style="dim")
    for name, value in last.metrics.items():
        values = [*([part[1][name]] if part else []), value]
        values += [last.windowed[name]] if recent else []
        theirs = [number(one[name]) if name in one else "" for one in baselines.values()]
        table.add_row(TITLES[name], *map(number, values), *theirs)
    return table


def _metrics_per_target(run: RunLoop, last: Record) -> Table:
    """Return a table of the metrics per target; the table above has their means."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("target", style="dim", no_wrap=True)
    for name in last.metrics:
        table.add_column(TITLES[name], justify="right")
    for target, own in zip(run.several, last.outputs, strict=True):
        table.add_row(screen.visible(target), *map(number, own.values()))
    return table


def _facts(run: RunLoop, last: Record) -> Table:
    job, stream, trace = run.job, run.stream, run.trace
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    table.add_row("loss curve", _loss_curve(trace))
    if job.interval is not None:
        nominal = f"(nominal: {100 * job.interval:.4g}%)"
        covered = f"{trace.coverage:.1%} of the intervals contained y {nominal}"
        table.add_row("coverage", covered)
        table.add_row("interval score", number(trace.interval_score.value()))
    if trace.calibration.labels:
        table.add_row("calibration", _calibration(trace))
    if run.evaluation.delay:
        table.add_row("labels", f"{run.evaluation.delay:,} rows late, for the baselines too")
    table.add_row("drift", _drift(trace))
    if changes := changes_of(run.model):
        table.add_row("recovery", _recovery(changes))
    chosen = describe_choices(run.chosen)
    if run.model.target_scaled_ and job.preparing.scale_target == "auto":
        scaled = (
            "y scaled by mean and deviation of its first values (--scale-target none: unscaled)"
        )
        chosen = f"{chosen}; {scaled}" if chosen else scaled
    if chosen:
        table.add_row("chosen", chosen)
    table.add_row("task", _task(run))
    weighted = f", weighted by {screen.visible(stream.weight)}" if stream.weight else ""
    before = f", {run.before:,} of them learned earlier" if run.before else ""
    table.add_row("rows", f"{last.rows:,} of {len(stream.columns)} columns{weighted}{before}")
    if last.unpredicted:
        table.add_row("not scored", f"{last.unpredicted:,} at the start: no label was known yet")
    table.add_row("columns", screen.visible(columns_in_words(columns_of(run))))
    if last.unlabelled:
        table.add_row("no label", f"{last.unlabelled:,} rows, only predicted")
    if run.files.bad is not None:
        table.add_row(
            "bad rows", f"{run.files.bad.rows:,}, skipped: {screen.visible(str(job.skip_bad))}"
        )
    table.add_row(
        "time", f"{last.microseconds_per_row:.2f} us per row, {last.seconds:.2f} s in total"
    )
    if getattr(getattr(run.model, "learner_", None), "reads_past_", False):
        text = "past labels are read; `predict` uses them for the next row only"
        table.add_row("predict", text)
    if isinstance(run.model, KeyedRun):
        table.add_row("keys", f"{len(run.model.keyed):,}, one model per key")
    else:
        table.add_row("points held", f"{last.size:,}" if last.size else "none: fixed features")
    table.add_row("memory", size(held_bytes(run.model)))
    printed = isinstance(run.files.predictions, StandardOutput)
    files = {
        "model": job.save,
        "predictions": None if printed else job.predictions,
        "metrics": job.metrics,
        "report": job.report,
        "checkpoint": job.checkpoint,
    }
    for name, path in files.items():
        if path is not None:
            table.add_row(name, screen.visible(str(path)))
    return table


def _task(run: RunLoop) -> str:
    """Return the task, and where it comes from if it was not given."""
    job, stream = run.job, run.stream
    if job.reading.task != "auto":
        return stream.task
    source = "of the model" if job.model is not None else f"inferred from {stream.reason}"
    return f"{stream.task} ({source})"


def _loss_curve(trace: Trace) -> str:
    """Return the loss along the stream as a line of bars."""
    sums = trace.segments.sums
    if not len(sums):
        return "-"
    parts = np.array_split(sums, min(WIDTH, len(sums)))
    losses = [float(part[:, 0].sum() / part[:, -1].sum()) for part in parts]
    known = [loss for loss in losses if 0 < loss < float("inf")]
    if not known:
        return "-"
    low, high = min(known), max(known)
    bars = screen.bar_chart(losses, 0.99 * low, 1.01 * high)
    return f"{bars} {trace.metric.name} {number(low)} to {number(high)}"


def _calibration(trace: Trace) -> str:
    """Return the calibration error, and the class whose error is the largest."""
    worst = max(trace.calibration.table(), key=lambda one: one["error"])
    label = screen.visible(str(worst["label"]))
    return (
        f"error {trace.calibration.value():.2%}, largest of class {label}: {worst['error']:.2%} "
        f"(mean probability {worst['probability']:.2%}, share {worst['share']:.2%})"
    )


def _drift(trace: Trace) -> str:
    alarms = trace.alarms
    if not alarms:
        return "no alarm"
    rows = ", ".join(f"{alarm.row:,}" for alarm in alarms[:LISTED])
    more = ", .." if len(alarms) > LISTED else ""
    what = "alarm at row" if len(alarms) == 1 else "alarms at rows"
    return f"{len(alarms)} {what} {rows}{more}"


def _recovery(changes: list[dict[str, Any]]) -> str:
    """Return the last reactions of the learner to changes of the stream."""
    listed = "; ".join(map(describe_change, changes[-LISTED:]))
    return f".. {listed}" if len(changes) > LISTED else listed


def note_worse(run: RunLoop, console: Console) -> None:
    """Print a note if a baseline was better, or if past labels carry the score."""
    if carried := run.evaluation.carried_by_past_labels:
        advice = "" if run.evaluation.delay else "; if labels arrive late, measure with --delay"
        screen.note(f"{carried}{advice}", console)
    text = describe_leads(run.evaluation.worse)
    if not text:
        return
    advice = "; try another bandwidth or scaling, or the default learner, which chooses both"
    advice = "" if run.job.algorithm == DEFAULT_ALGORITHM else advice
    screen.note(f"{text}{advice}", console)


def columns_of(run: RunLoop) -> list[dict[str, Any]]:
    """Return what each column of the file was converted to."""
    found = run.stream.columns_became()
    if not isinstance(run.model, KeyedRun):
        for place, one in enumerate(run.model.columns_):
            found[place] = {**one, **found[place]}
    return found


def note_columns(run: RunLoop, console: Console) -> None:
    """Print a note for each column that lost information."""
    rows = run.evaluation.rows + run.evaluation.unlabelled
    for one in columns_of(run):
        advice = "; more --slots give each category its own"
        if 2 * one.get("categories", 0) > rows:
            give = option("drop", one["name"])
            advice = f"; if it is an identifier or free text, ignore it with {give}"
        for text in notes([one]):
            screen.note(f"{text}{advice if 'slots' in text else ''}", console)
    for word in run.stream.unmatched():
        screen.note(f"{option('na', word)} matches no value of the input", console)
    for why, found in run.stream.left_out.items():
        many = f"{found['rows']:,} rows were" if found["rows"] > 1 else "1 row was"
        screen.note(
            f"{many} left out, because {why}: first at row {found['first']} (counting from 0)",
            console,
        )


def write_page(run: RunLoop, last: Record, path: Path) -> None:
    """Write the run as an HTML report."""
    from pronk.report.run_page import RunReport, write_run_report

    job, stream, model = run.job, run.stream, run.model
    learner = model.learner
    params = {k: v for k, v in learner.get_params(deep=False).items() if v is not None}
    settings = {
        "file": Path(job.reading.name).name,
        "target": str(stream.target),
        **({} if stream.weight is None else {"weight": stream.weight}),
        **({} if stream.time is None else {"time": stream.time}),
        "columns": columns_in_words(columns_of(run)),
        "task": _task(run),
        "scaling": job.preparing.scale,
        "points held": f"{last.size:,}" if last.size else "none: fixed features",
        "memory": size(held_bytes(model)),
        "parameters": ", ".join(f"{name}={value}" for name, value in params.items()),
        "versions": ", ".join(f"{name} {text}" for name, text in screen.versions().items()),
    }
    report = RunReport(
        job.reading.name,
        str(stream.target),
        job.algorithm,
        len(stream.columns),
        job.window,
        last,
        run.trace,
        "; ".join(
            filter(
                None, (describe_leads(run.evaluation.worse), run.evaluation.carried_by_past_labels)
            )
        ),
        settings,
        screen.command_line(),
        run.several,
        changes_of(model),
    )
    try:
        write_run_report(report, path)
    except OSError as error:
        reason = error.strerror or error
        raise CommandError(f"--report: {str(path)!r} cannot be written: {reason}", 1) from None


def _this_input(run: RunLoop) -> dict[str, Any]:
    """Return number and metrics of the rows of this input; all rows, unless a model was resumed."""
    rows, metrics = run.evaluation.part or (run.evaluation.rows, run.evaluation.metrics)
    return {"rows": rows, "metrics": metrics}


def as_dict(run: RunLoop, last: Record) -> dict[str, Any]:
    """Return the results for JSON."""
    job, stream, model, trace = run.job, run.stream, run.model, run.trace
    learner = model.learner
    result = last.to_dict()
    scored = last.rows - last.unpredicted
    result["recent"] = {"rows": min(job.window, scored), **result.pop("windowed")}
    found = {
        "file": job.reading.name,
        "target": stream.target,
        **({} if stream.weight is None else {"weight": stream.weight}),
        **({} if stream.time is None else {"time": stream.time}),
        "columns": stream.columns,
        "became": columns_of(run),
        "task": stream.task,
        "algorithm": job.algorithm,
        "params": learner.get_params(deep=False),
        "chosen": run.chosen,
        "scale": job.preparing.scale,
        "scale_target": model.target_scaled_,
        "seed": job.seed,
        **result,
        "memory": held_bytes(model),
        "baseline": trace.baseline_scores.values(),
        "repeat_last": trace.repeat_scores.values(),
        "worse": [lead.to_dict() for lead in run.evaluation.worse],
        "drift": [alarm.to_dict() for alarm in trace.alarms],
        "changes": changes_of(model),
        "saved": None if job.save is None else str(job.save),
        "predictions": None if job.predictions is None else str(job.predictions),
        "report": None if job.report is None else str(job.report),
        "metrics_file": None if job.metrics is None else str(job.metrics),
        "checkpoint": None if job.checkpoint is None else str(job.checkpoint),
        "resumed_at": run.resumed or None,
        "rows_before": run.before or None,
        "this_input": _this_input(run),
        "bad_rows": None if run.files.bad is None else run.files.bad.rows,
        "versions": screen.versions(),
    }
    if stream.task == "classification":
        counts = trace.counts
        found["confusion"] = {"labels": counts.labels, "matrix": counts.matrix.tolist()}
        if trace.probabilities:
            found["calibration"] = trace.calibration.table()
    if last.outputs:
        found["targets"] = dict(zip(run.several, map(dict, last.outputs), strict=True))
    if isinstance(model, KeyedRun):
        found["by"], found["keys"] = job.by, len(model.keyed)
    if job.interval is not None:
        found["coverage"] = trace.coverage
        found["interval_score"] = trace.interval_score.value()
    return found
