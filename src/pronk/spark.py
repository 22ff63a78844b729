"""pronk on Spark: one model per key in the state of a stream, and scoring with a saved model.

Spark holds the models as bytes (`pronk.step`), commits them with its offsets and moves them with
its partitions. The rows of a key in one micro-batch are one step, so predictions and models are
those of `pronk.Keyed` with one call per micro-batch, to the last bit, after any restart. Only a
key's first predictions differ: they are null here, where `Keyed` has the mean of all keys.

A column that is returned and no feature does not go through pandas as a number or a timestamp,
which would round numbers above 2^53 beside gaps, and repeat the hour in which summer time ends.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from pronk.aggregate.calibration import check_coverage
from pronk.columns.dates import DATE, TIME
from pronk.columns.values import BOOLEAN, CATEGORY, NUMBER
from pronk.data.pending import Pending
from pronk.data.step import step
from pronk.estimators import files
from pronk.estimators.quantiles import check_has_quantiles
from pronk.evaluate.models import own_delay
from pronk.keyed.keys import encode_key, with_own_seeds

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import Column, DataFrame

#: The kind of a feature by its Spark type.
KINDS = dict.fromkeys(("byte", "short", "integer", "long", "float", "double", "decimal"), NUMBER)
KINDS |= {"boolean": BOOLEAN, "string": CATEGORY, "date": DATE}
KINDS |= {"timestamp": TIME, "timestamp_ntz": TIME}
#: Types of whole numbers.
WHOLE = ("byte", "short", "integer", "long")
#: The state of a key: its model, and the number of labels so far.
STATE = "model binary, labels long"
#: Columns between Spark and the workers; those of a user do not begin so.
OWN = "pronk_"
BY, ORDER, LABEL, KEPT = (OWN + name for name in ("by", "order", "label", "kept_"))


def learn_stream(
    frame: DataFrame,
    *,
    by: str,
    target: str,
    new: Any,
    time: str | None = None,
    interval: float | None = None,
    keep: Sequence[str] = (),
) -> DataFrame:
    """Predict every row, then learn it, with one model per key.

    For a streaming frame the models are in the state of the query; write the result in the mode
    "append". For any other frame all rows of a key are one step.

    Parameters
    ----------
    frame : a Spark frame
        Numbers, booleans, text (categories), dates and timestamps, with gaps. A timestamp is in
        UTC, and one without a time zone is not converted.
    by : str
        The column of the keys: text, whole numbers or booleans.
    target : str
        The column of the labels. A row without one is predicted and not learned.
    new : a pronk learner, `Prepared`, `Intervals` or `Calibrated`
        The model of a new key. Each key has random numbers of its own, as in `Keyed`. The types of
        the frame decide the kinds of the columns, unless ``new.with_columns`` declared them.
    time : str, optional
        The column that orders the rows of a key in a micro-batch. It remains a feature, unless it
        is in ``keep``. Without it Spark decides the order, which may be another one if a
        micro-batch is repeated.
    interval : float, optional
        A coverage such as 0.9: add the columns ``low`` and ``high``.
    keep : names, optional
        Columns that are returned and are no features, such as the id of a row.

    Returns
    -------
    frame
        The columns ``by``, ``time``, ``keep``, ``target`` and ``prediction``, which is null up to
        the first label of a key.
    """
    from pyspark.sql import functions as F

    kinds = _kinds(frame)
    named = {"by": [by], "target": [target], "time": [time] if time else [], "keep": [*keep]}
    for argument, names in named.items():
        for name in names:
            _check_column(frame, argument, name)
    if len({by, target, *keep}) != 2 + len(keep) or time in (by, target):
        raise ValueError("by, target, keep: a column is named twice; each has one role")
    _check_new(new, interval)
    if kinds[by] not in (*WHOLE, "string", "boolean"):
        raise ValueError(
            f"by: {by!r} is of type {kinds[by]}; a key is text, a whole number or a boolean"
        )
    features = [name for name in frame.columns if name not in (by, target, *keep)]
    labels = _label_type(new, target, kinds[target])
    task = _Task(
        new, tuple(features), _declared(new, features, kinds), time is not None, labels, interval
    )
    kept = list(dict.fromkeys(name for name in (by, time, *keep, target) if name is not None))
    results = _result_types(frame.schema[target].dataType if labels else "double", interval)
    _check_free(kept, results)
    own = [F.col(_quoted(by)).alias(BY), _as_feature(target, kinds).alias(LABEL)]
    own += [F.col(_quoted(time)).alias(ORDER)] if time else []
    if time and kinds[time] == "timestamp":
        own[-1] = F.unix_micros(_quoted(time)).alias(ORDER)
    own += [_exact(name, kinds[name]).alias(f"{KEPT}{i}") for i, name in enumerate(kept)]
    columns = [_as_feature(name, kinds).alias(name) for name in features]
    rows = frame.select(*own, *columns)
    grouped = rows.groupBy(BY)
    schema = _schema(rows, [f"{KEPT}{i}" for i in range(len(kept))], results)
    if frame.isStreaming:
        found = grouped.applyInPandasWithState(
            task.micro_batch, schema, STATE, "append", "NoTimeout"
        )
    else:
        found = grouped.applyInPandas(lambda key, rows: task.whole(key, rows), schema)
    restored = [_restored(f"{KEPT}{i}", kinds[name]).alias(name) for i, name in enumerate(kept)]
    return found.select(*restored, *results)


def predict(frame: DataFrame, model: Any, *, interval: float | None = None) -> DataFrame:
    """Predict the rows of a frame with a saved model, each as the next row of its stream.

    Parameters
    ----------
    frame : a Spark frame, also a streaming one
        The columns of the model are found by name. A model that was trained on an array has no
        names, and takes all columns.
    model : a model, its bytes, or the path of its file
    interval : float, optional
        A coverage such as 0.9: add the columns ``low`` and ``high``.

    Returns
    -------
    frame
        The columns of the frame, and ``prediction``.
    """
    import pandas as pd
    from pyspark.sql import functions as F

    learner = files.load(model) if isinstance(model, str | Path) else model
    state = learner if isinstance(learner, bytes) else files.dumps(learner)
    learner = files.loads(state)
    learner = learner.model if isinstance(learner, Pending) else learner
    if interval is not None:
        _check_new(learner, interval)
    kinds, labels = _kinds(frame), getattr(learner, "classes_", None)
    inner = getattr(learner, "model_", learner)  # of Intervals and Calibrated
    names = getattr(inner, "feature_names_in_", None)
    features = list(frame.columns if names is None else names)
    for name in features:
        _check_column(frame, "frame", name)
        _check_feature(name, kinds)
    of_labels = {"b": "boolean", "i": "long", "u": "long", "f": "double"}
    kind = "double" if labels is None else of_labels.get(labels.dtype.kind, "string")
    results = _result_types(kind, interval)
    _check_free(frame.columns, results)

    def score(rows: Any) -> Any:
        X = rows.to_numpy(dtype=np.float64) if names is None else rows
        return pd.DataFrame(_columns(step(state, X, new=None, interval=interval)[1], results))

    score.__annotations__ = {"rows": pd.DataFrame, "return": pd.DataFrame}
    scored = F.pandas_udf(score, _schema(frame, [], results))
    own = F.struct(*(_as_feature(name, kinds).alias(name) for name in features))
    found = frame.withColumn(OWN + "scored", scored(own))
    return found.select(
        *map(_quoted, frame.columns), *(F.col(f"{OWN}scored.{name}") for name in results)
    )


# -- columns -------------------------------------------------------------------------------------


def _kinds(frame: DataFrame) -> dict[str, str]:
    """Return the names of the types of all columns."""
    for name in frame.columns:
        if name.startswith(OWN) or frame.columns.count(name) > 1:
            raise ValueError(f"frame: rename the column {name!r}, whose name is taken")
    return {field.name: field.dataType.typeName() for field in frame.schema.fields}


def _check_column(frame: DataFrame, argument: str, name: str) -> None:
    if name not in frame.columns:
        raise ValueError(
            f"{argument}: no column {name!r}; the frame has {', '.join(frame.columns)}"
        )


def _check_free(names: Sequence[str], results: dict[str, Any]) -> None:
    for name in results:
        if name in names:
            raise ValueError(f"frame: rename the column {name!r}, whose name is taken")


def _check_feature(name: str, kinds: dict[str, str]) -> None:
    if kinds[name] not in KINDS:
        raise ValueError(
            f"frame: {name!r} is of type {kinds[name]}, which is no feature; cast it to a number, "
            "text or a timestamp, or leave it out (keep)"
        )


def _check_new(new: Any, interval: float | None) -> None:
    if isinstance(new, Pending) or not hasattr(new, "predict_then_learn"):
        raise ValueError(f"new: a {type(new).__name__} is no learner, or has rows that wait")
    if interval is not None:
        check_coverage(interval)
        check_has_quantiles(new, {"interval": interval})


def _label_type(new: Any, target: str, kind: str) -> str | None:
    """Return the type of the labels of a classifier; None for numbers."""
    if new.__sklearn_tags__().estimator_type != "classifier":
        if KINDS.get(kind) != NUMBER:
            raise ValueError(f"target: {target!r} is of type {kind}; a regressor needs numbers")
        return None
    if kind not in (*WHOLE, "string", "boolean", "double"):
        raise ValueError(f"target: {target!r} is of type {kind}; cast it to text")
    return kind


def _declared(new: Any, features: list[str], kinds: dict[str, str]) -> tuple[str, ...] | None:
    """Return the kinds of the features; None if the learner has them, or takes arrays only."""
    if not features:
        raise ValueError("frame has no columns beside by, target and keep")
    for name in features:
        _check_feature(name, kinds)
    if hasattr(new, "layout_") or not hasattr(new, "with_columns"):
        return None
    return tuple(KINDS[kinds[name]] for name in features)


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _as_feature(name: str, kinds: dict[str, str]) -> Column:
    """Return a column as a learner takes it: a timestamp is its seconds, in UTC."""
    from pyspark.sql import functions as F

    if kinds[name] == "timestamp":
        return F.unix_micros(_quoted(name)) / 1e6
    column = F.col(_quoted(name))
    return column.cast("double") if kinds[name] == "decimal" else column


def _exact(name: str, kind: str) -> Column:
    """Return a column as pandas does not change it, and `_restored` restores it."""
    from pyspark.sql import functions as F

    if kind == "timestamp":
        return F.unix_micros(_quoted(name)).cast("string")
    column = F.col(_quoted(name))
    return column.cast("string") if kind == "long" else column


def _restored(name: str, kind: str) -> Column:
    from pyspark.sql import functions as F

    if kind == "timestamp":
        return F.timestamp_micros(F.col(name).cast("long"))
    return F.col(name).cast("long") if kind == "long" else F.col(name)


def _result_types(kind: Any, interval: float | None) -> dict[str, Any]:
    """Return the names and types of the columns that are added."""
    ends = {} if interval is None else {"low": "double", "high": "double"}
    return {"prediction": kind, **ends}


def _schema(frame: DataFrame, names: Sequence[str], results: dict[str, Any]) -> Any:
    """Return the schema of columns of a frame and of results."""
    from pyspark.sql.types import StructType

    schema = StructType([frame.schema[name] for name in names])
    for name, kind in results.items():
        schema = schema.add(name, kind)
    return schema


# -- on the workers ------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Task:
    """What a worker does with the rows of a key."""

    new: Any
    features: tuple[str, ...]
    declared: tuple[str, ...] | None
    ordered: bool
    labels: str | None
    interval: float | None

    def micro_batch(
        self, key: tuple[Any], parts: Iterator[pd.DataFrame], state: Any
    ) -> Iterator[pd.DataFrame]:
        """Learn the rows of a micro-batch with the model in the state of their key."""
        import pandas as pd

        data, count = state.getOption if state.exists else (None, 0)
        rows = pd.concat(list(parts), ignore_index=True)
        found, data, count = self._learn(key[0], rows, data and bytes(data), count)
        state.update((data, count))
        yield found

    def whole(self, key: tuple[Any], rows: pd.DataFrame) -> pd.DataFrame:
        """Learn all rows of a key with a new model."""
        return self._learn(key[0], rows, None, 0)[0]

    def _learn(
        self, key: Any, rows: pd.DataFrame, state: bytes | None, count: int
    ) -> tuple[pd.DataFrame, bytes | None, int]:
        if key is None or key != key:
            raise ValueError(f"by: {len(rows)} rows have no key; leave them out with frame.where")
        if self.ordered:
            if rows[ORDER].isna().any():
                raise ValueError(
                    f"time: a row of key {key} has none; leave it out with frame.where"
                )
            rows = rows.sort_values(ORDER, kind="stable", ignore_index=True)
        known = rows[LABEL].notna().to_numpy()
        new = self.new if state is not None else self._new(key)
        try:
            state, found = step(
                state, rows[list(self.features)], self._labels(rows[LABEL], known), new=new,
                interval=self.interval,
            )  # fmt: skip
        except ValueError as error:
            raise type(error)(f"key {key}: {error}") from None
        kept = rows[[name for name in rows.columns if name.startswith(KEPT)]]
        results = _columns(found, _result_types("", self.interval))
        before = count + np.cumsum(known) - known
        unknown = before <= own_delay(self.new)  # no label was learned before these rows
        if unknown.any():
            results = {name: values.astype(object) for name, values in results.items()}
            for values in results.values():
                values[unknown] = None
        return kept.assign(**results), state, count + int(known.sum())

    def _new(self, key: Any) -> Any:
        """Return the model of a new key, with the random numbers that it has in `Keyed`."""
        model = with_own_seeds(clone(self.new), encode_key(key))
        layout = getattr(self.new, "layout_", None)
        if layout is not None:
            return model.with_layout(layout)
        return model if self.declared is None else model.with_columns(self.features, self.declared)

    def _labels(self, given: Any, known: NDArray[np.bool_]) -> Any:
        if self.labels is None:
            return given.to_numpy(dtype=np.float64, na_value=np.nan)
        kind = {"string": str, "boolean": bool, "double": float}.get(self.labels, int)
        return [kind(value) if there else None for value, there in zip(given, known, strict=True)]


def _columns(found: Any, results: dict[str, Any]) -> dict[str, NDArray[Any]]:
    """Return predictions, or the pair of predictions and intervals, as columns."""
    if len(results) == 1:
        return {"prediction": found}
    predictions, ends = found
    return {"prediction": predictions, "low": ends[:, 0], "high": ends[:, 1]}
