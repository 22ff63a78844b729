"""`pronk predict`: the rows of a file through a saved model, which learns nothing."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pronk.cli import screen
from pronk.cli.errors import CommandError
from pronk.cli.places import check_outputs
from pronk.cli.predictions import PredictionsFile, check_ending, text_writer
from pronk.estimators import storage
from pronk.evaluate.adapters import predicts_labels
from pronk.evaluate.metrics import DEFAULTS, Averages, get_metrics
from pronk.streams import FileStream, Scaled


def predict_file(
    path: Path,
    file: str,
    *,
    output: Path | None,
    target: str | None,
    limit: int | None,
    delimiter: str | None,
    header: bool,
    query: str | None,
    as_json: bool,
) -> None:
    """Predict all rows; to a file with a summary, or to standard output."""
    if output is not None:
        check_outputs({"--output": output}, file, query)
        if output.exists() and path.exists() and output.samefile(path):
            raise CommandError(f"--output: {str(output)!r} is the model; choose another name")
        check_ending(output, "--output")
    model = storage.load(path)
    labels = predicts_labels(model, np.zeros(0))
    task = "classification" if labels else "regression"
    given = {"limit": limit, "delimiter": delimiter, "header": header, "query": query}
    stream = _open(model, file, task, target, given)
    if len(stream.columns) != model.n_features_in_:
        raise CommandError(
            f"{file!r} has {len(stream.columns)} columns; the model has "
            f"{model.n_features_in_}, and no names to choose them by"
        )
    scored = stream.target is not None
    kind = _kind(model, stream) if labels else stream.target_type
    averages = [Averages(metric, None) for metric in get_metrics(DEFAULTS[task])]
    rows = 0
    with ExitStack() as stack:
        write: Any
        if output is None:
            as_text = text_writer(kind, scored, lines=as_json)

            def write(y: Any, predictions: NDArray[Any]) -> None:
                sys.stdout.write(as_text(y, predictions).decode())
        else:
            written = PredictionsFile(output, kind, targets=scored, option="--output")
            stack.enter_context(written).start()
            write = written.write
        for X, y in stream:
            predictions = model.predict(X)
            rows += len(X)
            write(y if scored else None, predictions)
            if scored:
                _score(averages, y, predictions)
    if output is None:
        return
    metrics = {a.metric.name: a.mean() for a in averages if a.rows}
    if as_json:
        screen.print_json(
            {
                "model": str(path),
                "file": file,
                "rows": rows,
                "task": task,
                "target": stream.target,
                "metrics": metrics,
                "output": str(output),
                "versions": screen.versions(),
            }
        )
        return
    text = "".join(f", {name} {screen.number(value)}" for name, value in metrics.items())
    screen.output().print(f"{rows:,} rows predicted{text}: {output}", markup=False, soft_wrap=True)


def _open(
    model: Any, file: str, task: str, target: str | None, given: dict[str, Any]
) -> FileStream:
    """The rows with the columns of the model, prepared as the model expects them."""
    names = getattr(model, "feature_names_in_", None)
    categorical: list[int] = model.categorical if isinstance(model, Scaled) else []
    return FileStream(
        file,
        target,
        columns=None if names is None else list(names),
        categorical=[] if names is None else [names[i] for i in categorical],
        missing=model.missing if isinstance(model, Scaled) else "error",
        unlabelled=True,
        task=task,
        **given,
    )


def _kind(model: Any, stream: FileStream) -> Any:
    """The Arrow type of labels: the model's own, and the file's where there are some."""
    import pyarrow as pa

    return stream.target_type if stream.target is not None else pa.array(model.classes_).type


def _score(averages: list[Averages], y: NDArray[Any], predictions: NDArray[Any]) -> None:
    known = np.array([value is not None and value == value for value in y.tolist()], dtype=bool)
    if known.any():
        for average in averages:
            average.add(average.metric.rows(y[known], predictions[known]))
