"""The results of `pronk run`: the summary, its notes, the report and the JSON object."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from pronk.cli import screen
from pronk.cli.models import describe_choices
from pronk.cli.predictions import StandardOutput
from pronk.cli.run_loop import RunLoop
from pronk.cli.scale_out import KeyedRun
from pronk.columns.preparation import columns_in_words, notes
from pronk.data.errors import option
from pronk.estimators.registry import DEFAULT_ALGORITHM
from pronk.evaluate import Record, held_bytes
from pronk.evaluate.formatting import number, size
from pronk.evaluate.metrics import describe_leads
from pronk.evaluate.tables import metrics_table, targets_table
from pronk.evaluate.trace import Trace, changes_of, describe_change, directions_of

#: Characters of the loss curve, and drift alarms that are listed.
WIDTH, LISTED = 32, 5


def print_summary(run: RunLoop, last: Record, console: Console) -> None:
    """Print a table of the metrics, then the facts about the run."""
    job, stream = run.job, run.stream
    title = f"{job.algorithm} on {job.reading.name}, target {stream.target}"
    console.print(screen.visible(title), style="bold", markup=False)
    console.print(screen.table(metrics_table(run.evaluation)))
    if targets := targets_table(run.several, last.outputs):
        console.print(screen.table(targets))
    lines = {"loss curve": _loss_curve(run.trace), **_facts(run, last), **_written(run)}
    console.print(screen.facts(lines))


def _facts(run: RunLoop, last: Record) -> dict[str, str]:
    """Return the facts about a run, for its summary and its report."""
    job, stream, trace = run.job, run.stream, run.trace
    facts: dict[str, str] = {}
    if job.interval is not None:
        facts["coverage"] = (
            f"{trace.coverage:.1%} of the intervals contained y "
            f"(nominal: {100 * job.interval:.4g}%)"
        )
        facts["interval score"] = number(trace.interval_score.value())
    if trace.calibration.labels:
        facts["calibration"] = _calibration(trace)
    if run.evaluation.delay:
        facts["labels"] = f"{run.evaluation.delay:,} rows late, for the baselines too"
    facts["drift"] = _drift(trace)
    if changes := changes_of(run.model):
        start = ".. " if len(changes) > LISTED else ""
        facts["recovery"] = start + "; ".join(map(describe_change, changes[-LISTED:]))
    chosen = describe_choices(run.chosen)
    if run.model.target_scaled_ and job.preparing.scale_target == "auto":
        chosen.append(
            "y scaled by mean and deviation of its first values (--scale-target none: unscaled)"
        )
    if chosen:
        facts["chosen"] = "; ".join(chosen)
    facts["task"] = _task(run)
    weighted = f", weighted by {stream.weight}" if stream.weight else ""
    before = f", {run.before:,} of them learned earlier" if run.before else ""
    facts["rows"] = f"{last.rows:,} of {len(stream.columns)} columns{weighted}{before}"
    if last.unpredicted:
        facts["not scored"] = f"{last.unpredicted:,} at the start: no label was known yet"
    facts["columns"] = columns_in_words(columns_of(run))
    if last.unlabelled:
        facts["no label"] = f"{last.unlabelled:,} rows, only predicted"
    if run.bad is not None:
        facts["bad rows"] = f"{run.bad.rows:,}, skipped: {job.skip_bad}"
    facts["time"] = f"{last.microseconds_per_row:.2f} us per row, {last.seconds:.2f} s in total"
    if getattr(getattr(run.model, "learner_", None), "reads_past_", False):
        facts["predict"] = "past labels are read; `predict` uses them for the next row only"
    if isinstance(run.model, KeyedRun):
        facts["keys"] = f"{len(run.model.keyed):,}, one model per key"
    else:
        facts["points held"] = f"{last.size:,}" if last.size else "none: fixed features"
    facts["memory"] = size(held_bytes(run.model))
    return facts


def _written(run: RunLoop) -> dict[str, str]:
    """Return the files that a run has written."""
    job, printed = run.job, isinstance(run.predictions, StandardOutput)
    files = {
        "model": job.save,
        "predictions": None if printed else job.predictions,
        "metrics": job.metrics,
        "report": job.report,
        "checkpoint": job.checkpoint,
    }
    return {name: str(path) for name, path in files.items() if path is not None}


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
    return (
        f"error {trace.calibration.value():.2%}, largest of class {worst['label']}: "
        f"{worst['error']:.2%} "
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
    for why, found in run.stream.left_out.items():
        many = f"{found['rows']:,} rows were" if found["rows"] > 1 else "1 row was"
        screen.note(
            f"{many} left out, because {why}: first at row {found['first']} (counting from 0)",
            console,
        )


def write_page(run: RunLoop, last: Record, path: Path) -> None:
    """Write the run as an HTML report."""
    from pronk.report.run_page import write_run_report

    job, stream, model = run.job, run.stream, run.model
    learner = model.learner
    params = {k: v for k, v in learner.get_params(deep=False).items() if v is not None}
    settings = {
        "file": Path(job.reading.name).name,
        "target": str(stream.target),
        **({} if stream.time is None else {"times": stream.time}),
        **_facts(run, last),
        "scaling": job.preparing.scale,
        "parameters": ", ".join(f"{name}={value}" for name, value in params.items()),
        "versions": ", ".join(f"{name} {text}" for name, text in screen.versions().items()),
    }
    with screen.writing("--report", path):
        write_run_report(
            path,
            file=job.reading.name,
            target=str(stream.target),
            algorithm=job.algorithm,
            columns=len(stream.columns),
            evaluation=run.evaluation,
            record=last,
            settings=settings,
            command=screen.command_line(),
            targets=run.several,
            changes=changes_of(model),
            directions=directions_of(model),
        )


def as_dict(run: RunLoop, last: Record) -> dict[str, Any]:
    """Return the results for JSON."""
    job, stream, model, trace = run.job, run.stream, run.model, run.trace
    learner = model.learner
    result = last.to_dict()
    scored = last.rows - last.unpredicted
    rows, metrics = run.evaluation.part or (last.rows, last.metrics)
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
        "worse": [lead._asdict() for lead in run.evaluation.worse],
        "drift": [alarm.to_dict() for alarm in trace.alarms],
        "changes": changes_of(model),
        "directions": directions_of(model),
        "saved": job.save,
        "predictions": job.predictions,
        "report": job.report,
        "metrics_file": job.metrics,
        "checkpoint": job.checkpoint,
        "resumed_at": run.resumed or None,
        "rows_before": run.before or None,
        "this_input": {"rows": rows, "metrics": metrics},  # all rows, unless a model was resumed
        "bad_rows": None if run.bad is None else run.bad.rows,
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
