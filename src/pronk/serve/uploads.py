"""Models that come as files: the project's checksummed format, loading which executes nothing."""

from __future__ import annotations

import hashlib
from typing import Any

from pronk.estimators import storage
from pronk.serve.errors import Refused
from pronk.serve.spec import FILE, Column, Spec


def read(data: bytes) -> tuple[Spec, Any]:
    """The learner of a model file, and what it is."""
    try:
        learner = storage.from_bytes(data, "the file")
        task = {"regressor": "regression", "classifier": "classification"}[
            learner.__sklearn_tags__().estimator_type
        ]
        width = int(learner.n_features_in_)
    except ValueError as error:
        raise Refused(422, str(error)) from None
    except (KeyError, AttributeError, TypeError):
        raise Refused(422, "the file holds no model that can be online") from None
    layout = getattr(learner, "_layout", None)
    names = getattr(layout, "names", None) or getattr(learner, "feature_names_in_", None)
    kinds = list(getattr(layout, "kinds", ())) or ["number"] * width
    names = [f"x{i}" for i in range(width)] if names is None else [str(name) for name in names]
    orders = list(getattr(layout, "orders", ())) or ["iso"] * width
    columns: list[Column | str] = [Column(*each) for each in zip(names, kinds, orders, strict=True)]
    return (
        Spec(
            columns=columns,
            task=task,  # type: ignore[arg-type]
            algorithm=FILE,
            missing=getattr(learner, "missing", "error"),
            file=hashlib.sha256(data).hexdigest(),
        ),
        learner,
    )
