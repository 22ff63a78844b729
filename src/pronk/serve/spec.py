"""Specification of a model (algorithm, task, parameters, columns, preparation) and its learner.

`HTTPError`, by which every module of the service ends a request, is defined here too.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from typing import Annotated, Any, Literal

import msgspec
import numpy as np
from msgspec import Meta

from pronk.aggregate.calibration import check_levels, ends_of
from pronk.columns.values import BOOLEAN, CATEGORY, NUMBER, NUMERIC
from pronk.estimators import files
from pronk.estimators.prepared import Prepared
from pronk.estimators.registry import ALIASES, DEFAULT_ALGORITHM, find, make, make_for_key

#: A name is part of file names, metric labels and URLs: only characters that need no escaping.
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
MOST_COLUMNS = 10_000
#: Algorithm of a model that was created from a model file; its learner is in its snapshots only.
FILE = "file"


class HTTPError(Exception):
    """End a request with an error status and a one-line message; the request changed nothing."""

    def __init__(self, status: int, message: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.headers = headers or {}


def one_line(error: Exception) -> str:
    """Return the text of an error on one line."""
    return " ".join(str(error).split())


Positive = Annotated[int, Meta(ge=1, le=MOST_COLUMNS)]


class Column(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Describe a column: its name, the kind of its values, and the order of day, month and year."""

    name: Annotated[str, Meta(min_length=1, max_length=200)]
    kind: Literal["number", "boolean", "category", "time", "date", "clock"] = "number"
    dates: Literal["iso", "dayfirst", "monthfirst"] = "iso"


class Spec(msgspec.Struct, forbid_unknown_fields=True, frozen=True, omit_defaults=True):
    """Body of a request that creates a model."""

    columns: Annotated[list[Column | str], Meta(min_length=1, max_length=MOST_COLUMNS)] | Positive
    task: Literal["regression", "classification"] = "regression"
    algorithm: str = DEFAULT_ALGORITHM
    parameters: dict[str, Any] = {}
    scale: Literal["auto", "minmax", "standard", "robust", "none"] = "auto"
    scale_target: Literal["auto", "standard", "none"] = "auto"
    missing: Literal["error", "mean"] = "error"
    encoding: Literal["onehot", "hash"] = "onehot"
    slots: Annotated[int, Meta(ge=2, le=4096)] = 32
    seed: Annotated[int, Meta(ge=0, le=2**63 - 1)] = 0
    coverage: Annotated[float, Meta(gt=0.0, lt=1.0)] = 0.9
    quantiles: Annotated[list[float], Meta(max_length=100)] = []
    key: Annotated[str, Meta(min_length=1, max_length=200)] | None = None
    file: str | None = None

    def column_list(self) -> list[Column]:
        """Return the columns; they are named x0, x1, .. if only their number was given."""
        if isinstance(self.columns, int):
            return [Column(f"x{i}") for i in range(self.columns)]
        return [Column(column) if isinstance(column, str) else column for column in self.columns]


def check_name(name: str) -> str:
    """Return the name of a model; raise if it is not valid."""
    if not NAME.fullmatch(name) or ".." in name or name.endswith("."):
        raise HTTPError(
            422,
            "a model's name has up to 64 letters, digits, '_', '-' and single '.', and starts with "
            "a letter or digit",
        )
    return name


def check(spec: Spec) -> Any:
    """Build the learner of a spec and let it learn 64 random rows; raise if anything is invalid."""
    if spec.algorithm == FILE or spec.file is not None:
        raise HTTPError(422, "file: send the model file as application/octet-stream")
    names = [column.name for column in spec.column_list()]
    twice = [name for name, times in Counter(names).items() if times > 1]
    if twice:
        raise HTTPError(422, f"columns: {min(twice)!r} occurs twice")
    if spec.key in names:
        raise HTTPError(422, f"key: {spec.key!r} must not be one of the columns")
    if spec.key is not None and spec.quantiles:
        raise HTTPError(422, "quantiles do not work with key: keyed models answer predictions")
    if spec.key is not None and spec.parameters.get("delay"):
        raise HTTPError(
            422, "parameters: delay does not work with key; predict rows under an id instead"
        )
    twin = build(spec)
    rng = np.random.default_rng(0)
    X = rng.uniform(-0.5, 0.5, (64, len(names)))
    for place, column in enumerate(spec.column_list()):
        if column.kind == BOOLEAN:
            X[:, place] = X[:, place] > 0.0
        elif column.kind != NUMBER:  # codes of categories, seconds of times
            X[:, place] = np.floor(86_400 * (X[:, place] + 0.5))
    y = X.sum(axis=1) if spec.task == "regression" else np.where(X[:, 0] > 0, 1, 0)
    try:
        twin.predict_then_learn(X, y)
        twin.predict(X[:1])
        if hasattr(twin, "predict_quantiles"):
            twin.predict_quantiles(X[:1], levels_of(spec))
        elif spec.quantiles:
            raise ValueError("this learner has no quantiles; leave them out")
    except (ValueError, TypeError, ArithmeticError, MemoryError) as error:
        raise HTTPError(422, f"parameters: {one_line(error)}") from None
    return twin


def levels_of(spec: Spec) -> list[float]:
    """Return the levels of both ends of the interval, then those of the quantiles."""
    quantiles = check_levels(spec.quantiles).tolist() if spec.quantiles else []
    return [*ends_of(spec.coverage).tolist(), *quantiles]


def build(spec: Spec) -> Any:
    """Return a new learner with the preparation of `pronk run`; None if it was uploaded as a file.

    A learner that scales its inputs needs none if all columns are numbers without missing values.
    """
    if spec.algorithm == FILE:
        return None
    learner = _learner(spec)
    columns = spec.column_list()
    kinds = [column.kind for column in columns]
    itself = getattr(learner, "_scales_itself", False) and spec.scale in ("auto", "none")
    itself = itself and spec.scale_target != "standard"
    if itself and spec.missing == "error" and set(kinds) <= set(NUMERIC):
        return learner
    found = Prepared(
        learner,
        scale=spec.scale,
        missing=spec.missing,
        categorical=[place for place, kind in enumerate(kinds) if kind == CATEGORY],
        encoding=spec.encoding,
        slots=spec.slots,
        scale_target=spec.scale_target,
    )
    names, orders = ([getattr(one, key) for one in columns] for key in ("name", "dates"))
    try:
        return found.with_columns(names, kinds, orders)
    except ValueError as error:
        raise HTTPError(422, str(error)) from None


def _learner(spec: Spec) -> Any:
    try:
        find(spec.algorithm).learner_class(spec.task)
    except ValueError as error:
        raise HTTPError(422, f"algorithm: {error}") from None
    given = dict(spec.parameters)
    if "random_state" in given:
        raise HTTPError(422, "parameters: use seed instead of random_state")
    if not isinstance(given.get("kernel", ""), str):
        raise HTTPError(
            422, "parameters: kernel must be the name of a kernel; give its parameters beside it"
        )
    make_one = make if spec.key is None else make_for_key
    try:
        if isinstance(given.get("dictionary"), list):
            given["dictionary"] = np.asarray(given["dictionary"], dtype=np.float64)
        return make_one(spec.algorithm, spec.task, random_state=spec.seed, **given)
    except (ValueError, TypeError) as error:
        raise HTTPError(422, f"parameters: {error}") from None


def canonical(spec: Spec) -> str:
    """Return a spec as JSON with sorted keys and all defaults: equal specs give equal texts."""
    found = msgspec.structs.asdict(spec)  # with all defaults
    found["algorithm"] = ALIASES.get(spec.algorithm, spec.algorithm)
    return msgspec.json.encode(found, order="deterministic").decode()


def read(text: str | bytes) -> Spec:
    """Read a spec that `canonical` wrote."""
    return msgspec.json.decode(text, type=Spec)


def read_upload(data: bytes) -> tuple[Spec, Any]:
    """Return the spec and the learner of an uploaded model file or snapshot."""
    try:
        header = files.decode(data, "the file")[0]
        tree = header["state"]["model"] if header["class"] == files.CHECKPOINT else header
        learner = files.learner_from_tree(tree, "the file")
        task = {"regressor": "regression", "classifier": "classification"}[
            learner.__sklearn_tags__().estimator_type
        ]
        width = int(learner.n_features_in_)
    except ValueError as error:
        raise HTTPError(422, str(error)) from None
    except (KeyError, AttributeError, TypeError):
        raise HTTPError(422, "the file has no model that the service supports") from None
    layout = getattr(getattr(learner, "_columns", None), "layout", None)
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
