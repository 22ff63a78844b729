"""Every estimator and wrapper, through every container, in every variation of its rows.

The product is generated: a new subject, container or variation is one line. A cell learns 40 rows
as a pandas frame, then predicts and learns 20 more in its container and variation. It must return
the numbers of the plain frame, to the last bit, or raise one sentence that names what is wrong.
"""

from __future__ import annotations

import functools
import itertools
import pickle
import re
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import pronk
from pronk.data import FileStream
from pronk.estimators import files
from pronk.estimators.protocol import Learner

N, FIRST = 60, 40
RNG = np.random.default_rng(0)
FRAME = pd.DataFrame(
    {
        "key": RNG.choice([3, 7, 11], N),
        "x": RNG.normal(size=N).round(3),
        "city": RNG.choice(["Rome", "Oslo", "Bonn"], N),
        "day": pd.date_range("2024-01-20", periods=N, freq="D").strftime("%d/%m/%Y"),
        "on": RNG.random(N) < 0.5,
        "z": RNG.uniform(10, 20, N).round(3),
    }
)
FRAME.loc[7::11, "x"] = np.nan
FRAME.loc[5::13, "city"] = None
Y = (np.nan_to_num(FRAME.x) + 2.0 * (FRAME.city == "Rome") + FRAME.key / 5.0).round(3).to_numpy()
LABELS = np.where(Y > 2.0, "high", np.where(Y > 1.0, "middle", "low")).astype(object)


# -- subjects --------------------------------------------------------------------------------------


class Plain:
    """A learner or wrapper with ``predict_then_learn``."""

    def __init__(self, make, labels=False, keyed=False):
        self.make, self.labels, self.keyed = make, labels, keyed

    def rows(self, frame):
        return frame if self.keyed else frame.drop(columns="key")

    def learn(self, model, X, y, **options):
        return model.predict_then_learn(X, y, **options)

    def resumed(self, model):
        return pronk.loads(pronk.dumps(model)) if hasattr(pronk, "dumps") else _copied(model)


class Waiting(Plain):
    """`Pending`: predicted under ids, learned later."""

    def learn(self, model, X, y, **options):
        if options:
            raise ValueError(f"{', '.join(options)}: Pending learns labels only")
        ids = [f"{model.model.__class__.__name__}-{next(_COUNT)}" for _ in range(len(y))]
        found = model.predict(X, ids)
        model.learn(ids, y)
        model.discard(ids)
        return found


_COUNT = itertools.count()


def _copied(model):
    return files.from_bytes(files.to_bytes(model), "the copy")


class Folder(Plain):
    """`Keyed`, whose models are in a folder."""

    def __init__(self, make, labels=False):
        super().__init__(make, labels, keyed=True)

    def resumed(self, model):
        model.flush()
        path = model.store.folder.with_name(model.store.folder.name + "-copy")
        model.save(path)
        return pronk.load(path)


SMALL = {"budget": 12, "experts": "few", "random_state": 0}
SUBJECTS = {
    "default regressor": Plain(lambda: pronk.OnlineKernelRegressor(**SMALL)),
    "default classifier": Plain(lambda: pronk.OnlineKernelClassifier(**SMALL), labels=True),
    "PKAWV": Plain(lambda: pronk.PKAWVRegressor(budget=12, random_state=0)),
    "PKAWV, half-life": Plain(
        lambda: pronk.PKAWVRegressor(budget=12, half_life=30, random_state=0)
    ),
    "FOGD": Plain(lambda: pronk.FOGDRegressor(random_state=0)),
    "KernelPerceptron": Plain(lambda: pronk.KernelPerceptron(), labels=True),
    "DualSVRG": Plain(lambda: pronk.DualSVRGClassifier(random_state=0), labels=True),
    "Prepared": Plain(lambda: pronk.Prepared(pronk.PKAWVRegressor(budget=12, random_state=0))),
    "Prepared classifier": Plain(
        lambda: pronk.Prepared(pronk.OnlineKernelClassifier(**SMALL)), labels=True
    ),
    "Keyed": Folder(lambda: pronk.Keyed(pronk.OnlineKernelRegressor(**SMALL), by="key", shards=1)),
    "Keyed Prepared": Folder(
        lambda: pronk.Keyed(pronk.Prepared(pronk.FOGDRegressor(random_state=0)), by="key", shards=1)
    ),
    "Keyed classifier": Folder(
        lambda: pronk.Keyed(pronk.OnlineKernelClassifier(**SMALL), by="key", shards=1), labels=True
    ),
    "Pending": Waiting(lambda: pronk.Pending(pronk.OnlineKernelRegressor(**SMALL))),
    "Pending Prepared": Waiting(
        lambda: pronk.Pending(pronk.Prepared(pronk.PKAWVRegressor(budget=12, random_state=0)))
    ),
    "Pending classifier": Waiting(
        lambda: pronk.Pending(pronk.OnlineKernelClassifier(**SMALL)), labels=True
    ),
    "Intervals": Plain(lambda: pronk.Intervals(pronk.PKAWVRegressor(budget=12, random_state=0))),
    "Calibrated": Plain(
        lambda: pronk.Calibrated(pronk.PKAWVClassifier(budget=12, random_state=0)), labels=True
    ),
}

# -- containers ----------------------------------------------------------------------


def _table(frame):
    return pa.Table.from_pandas(frame, preserve_index=False)


def _dicts(frame):
    return [
        {name: None if value is None or value != value else value for name, value in row.items()}
        for row in frame.to_dict("records")
    ]


CONTAINERS = {
    "pandas": lambda frame: frame,
    "polars": pl.from_pandas,
    "Arrow table": _table,
    "Arrow batch": lambda frame: _table(frame).to_batches()[0],
    "list of dicts": _dicts,
    "list of rows": lambda frame: [list(row.values()) for row in _dicts(frame)],
    "array of objects": lambda frame: frame.to_numpy(dtype=object),
}
UNNAMED = ("list of rows", "array of objects")

# -- variations ----------------------------------------------------------------------

#: What is done to the frame of the later rows, and a word of the error if there must be one.
FRAMES: dict[str, tuple[Any, str | None]] = {
    "as is": (lambda frame: frame, None),
    "reordered": (lambda frame: frame[frame.columns[::-1]], None),
    "one more": (lambda frame: frame.assign(more=1.0), None),
    "renamed": (lambda frame: frame.rename(columns={"city": "cities"}), "city"),
    "one missing": (lambda frame: frame.drop(columns="z"), "'z'|features"),
    "new category": (lambda frame: frame.assign(city="Lima"), None),
    "a word among numbers": (lambda frame: frame.assign(z="far"), "'?z'?|column"),
}
#: Options of the call, or another way to learn.
CALLS = ("missing labels", "several outputs", "weights", "times", "new class", "resumed")


_BEGUN: dict[Any, bytes] = {}


def first_part(subject, y):
    """Return a model that has learned the first rows; models of folders are not held."""
    key = (id(subject), str(y[:FIRST].tolist()))
    if key in _BEGUN:
        return pickle.loads(_BEGUN[key])
    model = subject.make()
    subject.learn(model, subject.rows(FRAME[:FIRST]), y[:FIRST])
    if not subject.keyed:
        _BEGUN[key] = pickle.dumps(model)
    return model


def outcome(subject, model, X, y, **options):
    try:
        return subject.learn(model, X, y, **options)
    except ValueError as error:
        return str(error)


def same(found, expected):
    if isinstance(expected, str) or isinstance(found, str):
        return found == expected
    kind = object if np.asarray(expected).dtype.kind in "OU" else float
    return np.array_equal(
        np.asarray(found, dtype=kind), np.asarray(expected, dtype=kind), equal_nan=kind is float
    )


every_subject = pytest.mark.parametrize("name", SUBJECTS)
every_container = pytest.mark.parametrize("container", CONTAINERS)


@functools.cache
def of_plain_frame(name, new_category):
    """Return the answer to the plain frame, which all containers and variations share."""
    subject = SUBJECTS[name]
    y = LABELS if subject.labels else Y
    later = subject.rows(FRAME[FIRST:].reset_index(drop=True))
    plain = FRAMES["new category"][0](later) if new_category else later
    return outcome(subject, first_part(subject, y), plain, y[FIRST:])


@pytest.mark.thinned
@every_subject
@every_container
@pytest.mark.parametrize("variation", FRAMES)
def test_rows_in_every_container(name, container, variation):
    subject, (change, word) = SUBJECTS[name], FRAMES[variation]
    if container in UNNAMED and (
        subject.keyed or variation in ("reordered", "renamed", "one more")
    ):
        pytest.skip("columns without names have places only")
    y = LABELS if subject.labels else Y
    later = subject.rows(FRAME[FIRST:].reset_index(drop=True))
    expected = of_plain_frame(name, variation == "new category")
    assert not isinstance(expected, str)
    model = first_part(subject, y)
    found = outcome(subject, model, CONTAINERS[container](change(later)), y[FIRST:])
    if word is None:
        assert same(found, expected)
        return
    assert isinstance(found, str) and len(found.splitlines()) == 1, found
    assert re.search(word, found), found
    # The refused call has changed nothing.
    assert same(outcome(subject, model, CONTAINERS[container](later), y[FIRST:]), expected)


def answer(name, container, way):
    """Return the answer to a call, or the text of its error."""
    subject = SUBJECTS[name]
    y = (LABELS if subject.labels else Y).copy()
    later, options = subject.rows(FRAME[FIRST:].reset_index(drop=True)), {}
    if way == "missing labels":
        y[FIRST + 2 :: 4] = None if subject.labels else np.nan
    elif way == "several outputs":
        y = np.column_stack((y, y)) if subject.labels else np.column_stack((y, -y))
    elif way == "weights":
        options = {"sample_weight": np.where(np.arange(N - FIRST) % 3, 1.0, 0.0)}
    elif way == "times":
        options = {"times": np.arange(N - FIRST) * 60.0}
    elif way == "new class":
        y[FIRST + 5] = "new" if subject.labels else 5.0
    try:
        model = first_part(subject, y)
    except ValueError as error:  # several labels per row
        return str(error)
    model = subject.resumed(model) if way == "resumed" else model
    return outcome(subject, model, CONTAINERS[container](later), y[FIRST:], **options)


@functools.cache
def of_plain_call(name, way):
    """Return the answer to the plain frame, which all containers share."""
    return answer(name, "pandas", way)


@pytest.mark.thinned
@every_subject
@every_container
@pytest.mark.parametrize("way", CALLS)
def test_calls_in_every_container(name, container, way):
    if container in UNNAMED and SUBJECTS[name].keyed:
        pytest.skip("the column of the keys has no name")
    plain = of_plain_call(name, way)
    assert same(answer(name, container, way), plain)
    if isinstance(plain, str):
        expected = {"several outputs": "y|output|label", "times": "times", "weights": "weight"}
        assert way in expected and len(plain.splitlines()) == 1, plain
        assert re.search(expected[way], plain), plain
    elif way == "resumed":
        assert same(plain, of_plain_frame(name, False))


@every_subject
def test_one_row_as_a_dict_is_the_row_of_a_frame(name):
    subject = SUBJECTS[name]
    y = LABELS if subject.labels else Y
    model = first_part(subject, y)
    if isinstance(subject, Waiting):
        model = model.model
    later = subject.rows(FRAME[FIRST:].reset_index(drop=True))
    row = _dicts(later)[3]
    expected = model.predict(later[3:4])[0]
    swapped = dict(reversed(row.items()))
    assert model.predict_one(row) == model.predict_one(swapped) == expected
    del row["x"]  # an absent key is a gap
    gap = later[3:4].assign(x=np.nan)
    if not subject.keyed:
        assert model.predict_one(row) == model.predict(gap)[0]


@pytest.mark.parametrize("ending", ["csv", "parquet", "ndjson"])
@pytest.mark.parametrize("name", ["default regressor", "default classifier", "Prepared"])
def test_files_are_frames(tmp_path, name, ending):
    """Rows of a file, as `pronk run` reads them, have the numbers of the frame."""
    subject = SUBJECTS[name]
    y = LABELS if subject.labels else Y
    frame = subject.rows(FRAME).assign(y=y)
    path = tmp_path / f"rows.{ending}"
    if ending == "csv":
        frame.to_csv(path, index=False)
    elif ending == "parquet":
        frame.to_parquet(path, index=False)
    else:
        frame.to_json(path, orient="records", lines=True)
    stream = FileStream(path, target="y")
    model = subject.make().with_columns(stream.columns, stream.kinds, stream.orders)
    found = [model.predict_then_learn(X, target) for X, target, *_ in stream.blocks()]
    expected = subject.make().predict_then_learn(subject.rows(FRAME), y)
    assert same(np.concatenate(found), expected)
    other = CONTAINERS["polars"](subject.rows(FRAME))
    assert same(model.predict(other), model.predict(subject.rows(FRAME)))


@pytest.mark.parametrize("key", [7, 7.0, "7", np.int64(7), True])
def test_a_key_has_one_meaning(key):
    model = pronk.Keyed(pronk.OnlineKernelRegressor(**SMALL), by="key", shards=1)
    model.predict_then_learn(FRAME, Y)
    rows = FRAME[FIRST:].drop(columns="key")
    expected = model.predict(rows, keys=["7"] * len(rows))
    found = model.predict(rows, keys=[key] * len(rows))
    assert np.array_equal(found, expected) == (key is not True)


def test_the_table_pickles():
    for name, subject in SUBJECTS.items():
        if subject.keyed:
            continue
        y = LABELS if subject.labels else Y
        model = first_part(subject, y)
        later = subject.rows(FRAME[FIRST:].reset_index(drop=True))
        twin = pickle.loads(pickle.dumps(model))
        found = [outcome(subject, one, later, y[FIRST:]) for one in (model, twin)]
        assert same(*found), name


@every_subject
def test_every_subject_keeps_the_protocol(name):
    subject = SUBJECTS[name]
    if isinstance(subject, Waiting):
        pytest.skip("pending rows have ids")
    assert isinstance(subject.make(), Learner)


@every_subject
def test_several_outputs_of_one_row(name):
    subject = SUBJECTS[name]
    if subject.labels:
        pytest.skip("labels are single")
    Y2 = np.column_stack((Y, -Y))
    model = first_part(subject, Y2)
    model = model.model if isinstance(subject, Waiting) else model
    row = subject.rows(FRAME[FIRST : FIRST + 1])
    found = model.predict_one(_dicts(row)[0])
    np.testing.assert_array_equal(found, model.predict(row)[0])
    assert found.shape == (2,)
    if hasattr(model, "predict_interval_one"):
        ends = model.predict_interval_one(_dicts(row)[0], 0.8)
        np.testing.assert_array_equal(ends, model.predict_interval(row, 0.8)[0])
        assert ends.shape == (2, 2)
