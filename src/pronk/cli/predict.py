"""`pronk predict`: predict the rows of a file with a saved model."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from pronk.cli import screen
from pronk.cli.models import missing_value_error, open_for_model, target_names, task_of
from pronk.cli.outputs import check_outputs
from pronk.cli.predictions import (
    STANDARD_OUTPUT,
    PredictionColumns,
    PredictionsFile,
    StandardOutput,
    check_ending,
    check_quantiles,
)
from pronk.cli.scale_out import KeyedRun
from pronk.cli.screen import CommandError
from pronk.columns.preparation import notes
from pronk.core.checks import without_label
from pronk.data import FileStream, Reading, StreamError
from pronk.estimators import files
from pronk.evaluate.formatting import number
from pronk.evaluate.metrics import DEFAULTS, Scores, get_scores
from pronk.evaluate.models import BlockAdapter, can


def predict_file(
    path: Path,
    reading: Reading,
    *,
    output: Path | None,
    interval: float | None,
    quantiles: tuple[float, ...] | None,
    probabilities: bool,
    as_json: bool,
) -> None:
    """Predict all rows; write a file and print a summary, or print the predictions."""
    if output is not None and str(output) == STANDARD_OUTPUT:
        output = None
    if output is not None:
        check_outputs({"--output": output}, reading.file, reading.query)
        if output.exists() and path.exists() and output.samefile(path):
            raise CommandError(f"--output: {str(output)!r} is the model; choose another name")
        check_ending(output, "--output")
    model: Any = KeyedRun.load(path) if path.is_dir() else files.load(path)
    keyed = isinstance(model, KeyedRun)
    task = task_of(model)
    labels = task == "classification"
    check_quantiles(interval, quantiles, task, model)
    stream = open_for_model(model, path, reading, as_given=True)
    scored = stream.target is not None
    shares = labels and probabilities and not keyed and can(model, "predict_proba")
    kind = stream.target_type
    if labels and not scored:
        kind = pa.array(model.labels_ if isinstance(model, KeyedRun) else model.classes_).type
    layout = PredictionColumns(
        kind,
        targets=scored,
        intervals=interval is not None,
        quantiles=quantiles or (),
        probabilities=shares,
        classes=model.classes_ if shares else None,
        kept=stream.kept_types(),
        names=target_names(model, stream),
    )
    adapter = BlockAdapter(model, labels, shares, interval, None, quantiles)
    scores = Scores(get_scores(DEFAULTS[task]), None)
    rows = 0
    with ExitStack() as stack:
        if isinstance(model, KeyedRun):
            stack.callback(model.abandon)
        written: PredictionsFile | None = None
        for X, y, _, kept, *_ in _blocks(stream, path):
            if written is None:  # the first rows could be read
                if output is None:
                    written = StandardOutput(layout, lines=as_json)
                else:
                    written = PredictionsFile(output, layout, option="--output")
                stack.enter_context(written)
                written.begin()
            if isinstance(model, KeyedRun):
                X = model.with_keys(X, kept)
            forecast = adapter.predict(X)
            rows += len(X)
            written.write(y if scored else None, forecast, kept)
            if scored:
                missing = without_label(y)
                known = np.ones(len(y), dtype=bool) if missing is None else ~missing
                scores.add(y[known], forecast[known])
    if isinstance(model, KeyedRun) and model.without_model:
        text = f"{model.without_model:,} rows have a key without a model; their prediction is the "
        what = "most frequent label" if labels else "mean of the targets"
        screen.note(f"{text}{what} of all keys", screen.messages())
    for text in notes(stream.columns_became()):
        screen.note(text, screen.messages())
    if output is None:
        return
    metrics = scores.values() if scores.rows else {}
    if as_json:
        screen.print_json(
            {
                "model": str(path),
                "file": reading.name,
                "rows": rows,
                "task": task,
                "target": stream.target,
                "metrics": metrics,
                "output": str(output),
                "versions": screen.versions(),
            }
        )
        return
    text = "".join(f", {name} {number(value)}" for name, value in metrics.items())
    screen.output().print(f"{rows:,} rows predicted{text}: {output}", markup=False, soft_wrap=True)


def _blocks(stream: FileStream, path: Path) -> Iterator[Any]:
    try:
        yield from (block for block in stream.blocks() if len(block.y))
    except StreamError as error:
        raise missing_value_error(error, path) from None
