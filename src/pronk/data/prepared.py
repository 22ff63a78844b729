"""A learner with the preparation that a file or a loaded model needs."""

from __future__ import annotations

from typing import Any

from sklearn.base import clone

from pronk.columns.values import NUMBER
from pronk.data.schema import Preparing
from pronk.data.stream import FileStream
from pronk.estimators.prepared import Prepared


def around(model: Any) -> Prepared:
    """Return a loaded model as `Prepared`, if necessary with a preparation that does nothing."""
    if isinstance(model, Prepared):
        return model
    names = getattr(model, "feature_names_in_", None)
    whole = Prepared(clone(model), scale="none", categorical=(), scale_target="none")
    kinds = [NUMBER] * int(model.n_features_in_)
    whole.with_columns(None if names is None else [str(name) for name in names], kinds)
    whole.learner_ = model
    return whole


def prepared(learner: Any, stream: FileStream, how: Preparing) -> Prepared:
    """Return a learner with the preparation that the columns of a stream need."""
    model = Prepared(
        learner,
        scale=how.scale,
        missing=stream.missing,
        categorical=tuple(stream.categorical),
        encoding=how.encoding,
        slots=how.slots,
        dates=stream.reading.dates,
        scale_target=how.scale_target,
    )
    return model.with_columns(stream.columns, stream.kinds, stream.orders)
