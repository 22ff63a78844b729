"""What a model is: algorithm, task, parameters, columns, preparation; and its learner."""

from __future__ import annotations

import hashlib
import re
from typing import Annotated, Any, Literal

import msgspec
import numpy as np
from msgspec import Meta

from pronk.data.prepared import Prepared
from pronk.data.values import BOOLEAN, CATEGORY, NUMBER, NUMERIC
from pronk.estimators import files
from pronk.estimators.registry import ALIASES, DEFAULT_ALGORITHM, find, make, make_for_key
from pronk.serve.errors import Refused

#: A name is a file name, a label of metrics and a piece of an address: nothing that needs care.
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
MOST_COLUMNS = 10_000
#: In the place of an algorithm: the model began as a model file, and is in its snapshots only.
FILE = "file"

Positive = Annotated[int, Meta(ge=1, le=MOST_COLUMNS)]


class Column(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A column: its name, what its values are, and how dates with the year last are read."""

    name: Annotated[str, Meta(min_length=1, max_length=200)]
    kind: Literal["number", "boolean", "category", "time", "date", "clock"] = "number"
    dates: Literal["iso", "dayfirst", "monthfirst"] = "iso"


class Spec(msgspec.Struct, forbid_unknown_fields=True, frozen=True, omit_defaults=True):
    """The body of a request that creates a model."""

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
    key: Annotated[str, Meta(min_length=1, max_length=200)] | None = None
    file: str | None = None

    def column_list(self) -> list[Column]:
        """The columns with names: x0, x1, .. where only their number was given."""
        if isinstance(self.columns, int):
            return [Column(f"x{i}") for i in range(self.columns)]
        return [Column(column) if isinstance(column, str) else column for column in self.columns]


def check_name(name: str) -> str:
    """The name of a model, if it may be one."""
    if not NAME.fullmatch(name) or ".." in name or name.endswith("."):
        raise Refused(
            422,
            "a model's name has up to 64 letters, digits, '_', '-' and single '.', and starts with "
            "a letter or digit",
        )
    return name


def check(spec: Spec) -> Any:
    """The learner of a spec, which has learned some made-up rows: whatever is wrong shows now."""
    if spec.algorithm == FILE or spec.file is not None:
        raise Refused(422, "file: send the model file itself, as application/octet-stream")
    names = [column.name for column in spec.column_list()]
    twice = {name for name in names if names.count(name) > 1} if len(names) < 1000 else set()
    if twice or len(set(names)) < len(names):
        raise Refused(422, f"columns: {min(twice or names)!r} is there twice")
    if spec.key in names:
        raise Refused(422, f"key: {spec.key!r} is one of the columns; leave it out of them")
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
        if hasattr(twin, "predict_interval"):
            twin.predict_interval(X[:1], spec.coverage)
    except (ValueError, TypeError, ArithmeticError, MemoryError) as error:
        raise Refused(422, f"parameters: {' '.join(str(error).split())}") from None
    return twin


def build(spec: Spec) -> Any:
    """A fresh learner behind what its columns need; None for one that came as a file."""
    if spec.algorithm == FILE:
        return None
    return prepared(_learner(spec), spec)


def prepared(learner: Any, spec: Spec) -> Any:
    """A learner behind the preparation of its columns, as `pronk run` has it.

    A learner that scales itself needs none where all columns are numbers without gaps.
    """
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
        raise Refused(422, str(error)) from None


def _learner(spec: Spec) -> Any:
    try:
        find(spec.algorithm).learner_class(spec.task)
    except ValueError as error:
        raise Refused(422, f"algorithm: {error}") from None
    given = dict(spec.parameters)
    if "random_state" in given:
        raise Refused(422, "parameters: random_state is given as seed")
    if not isinstance(given.get("kernel", ""), str):
        raise Refused(422, "parameters: kernel is the name of a kernel; its own go beside it")
    make_one = make if spec.key is None else make_for_key
    try:
        if isinstance(given.get("dictionary"), list):
            given["dictionary"] = np.asarray(given["dictionary"], dtype=np.float64)
        return make_one(spec.algorithm, spec.task, random_state=spec.seed, **given)
    except (ValueError, TypeError) as error:
        raise Refused(422, f"parameters: {error}") from None


def canonical(spec: Spec) -> str:
    """The spec as it is kept: the same for the same model, whatever the order of the keys."""
    found = msgspec.structs.asdict(spec)  # with all defaults: msgspec omits some equal ones only
    found["algorithm"] = ALIASES.get(spec.algorithm, spec.algorithm)
    return msgspec.json.encode(found, order="deterministic").decode()


def read(text: str | bytes) -> Spec:
    """A spec that `canonical` wrote."""
    return msgspec.json.decode(text, type=Spec)


# ----------------------------------------------------------------------------------------
# Models that come as files: the project's checksummed format, loading which executes nothing.


def read_upload(data: bytes) -> tuple[Spec, Any]:
    """The learner of a model file, and what it is."""
    try:
        learner = files.from_bytes(data, "the file")
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
