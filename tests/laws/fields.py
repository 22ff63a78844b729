"""Change one field of a model file and its checksum: the file works, or loading it raises.

    python fields.py GROUP SEED FIRST LAST      files FIRST .. LAST-1 of a group of models
                                                (GROUPS); one line a file, as it is tried

A file that kills or hangs the process must not take its judge along, so `judge` runs batches of
files in processes of their own, watches them, and goes on after the file that ended one.
"""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
import warnings
from collections import Counter
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load as load_arrays
from safetensors.numpy import save as save_arrays

import pronk
from laws import stages
from laws.cases import CASES, Case
from pronk.data import Prepared
from pronk.estimators import files

#: Memory that a process may take, and seconds that one file may: the machine may be busy.
MEMORY, PATIENCE = 6 << 30, 120

#: What a number may become.
NUMBERS = (0, -1, 1, 2, 3, 7, 2**31, 2**53, 2**63, 10**30, -(10**9), 0.5, 1e300, -1e-300, 5e-324)
#: What may happen to an array.
WAYS = ["cut", "longer", "shape", "dtype", "value", "values", "column", "scale", "swap", "other"]
WAYS += ["empty"]
OTHERS = (None, True, False, "", "nan", [], {}, [1], {"a": 1}, float("nan"), float("inf"))


#: Name, header and arrays of a file.
Original = tuple[str, dict[str, Any], dict[str, Any]]


def _learners() -> dict[str, Callable[[], Any]]:
    """Return functions that make every learner, and some with a scaler, by name."""
    found: dict[str, Callable[[], Any]] = {}
    for case in CASES:
        # Enough rows for points, full budgets, open blocks, and two stages of the default learner;
        # and few, before its first stage.
        for rows in (90, 6):
            found[f"{case.id}-{rows}"] = partial(_fitted, case.make, case, rows)
    numbers, labels = CASES[0], next(case for case in CASES if case.classes == 3)
    for scaler in ("minmax", "standard", "robust"):
        found[f"scaled-{scaler}"] = partial(_fitted, partial(_scaled, scaler), numbers, 600)
    inside = {"features": "taylor"}
    around = lambda: pronk.Intervals(pronk.PKAWVRegressor(**inside))  # noqa: E731
    found["intervals"] = partial(_fitted, around, numbers, 90)
    around = lambda: pronk.Calibrated(pronk.PKAWVClassifier(**inside))  # noqa: E731
    found["calibrated"] = partial(_fitted, around, labels, 90)
    return found


def _fitted(make: Callable[[], Any], case: Case, rows: int) -> Any:
    return make().partial_fit(*case.stream(rows))


def _scaled(scaler: str) -> Any:
    plain = pronk.FOGDRegressor(n_features=10, random_state=0)
    return Prepared(plain, scale=scaler, missing="mean", scale_target="none")


#: Functions that make the models of a group, by name; the default learner at its later stages, and
#: rows that wait, are the second one.
GROUPS = {"learners": _learners(), "stages": stages.models()}


@cache
def original(group: str, number: int) -> Original:
    """Return one of the files of a group of models."""
    names = list(GROUPS[group])
    name = names[number % len(names)]
    return name, *parts(GROUPS[group][name]())


def parts(learner: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the header and the arrays of a learner's file."""
    data = files.to_bytes(learner)
    end = 8 + int.from_bytes(data[:8], "little")
    return json.loads(json.loads(data[8:end])["__metadata__"]["pronk"]), load_arrays(data)


def packed(header: dict[str, Any], arrays: dict[str, Any]) -> bytes:
    """Return a file with a right checksum."""
    text = json.dumps(header, sort_keys=True)
    metadata = {"pronk": text, "sha256": files.digest(text, arrays)}
    return save_arrays(arrays, metadata=metadata)


def leaves(tree: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the paths in a header's tree, including arrays and tables."""
    found = [path] if path else []
    if isinstance(tree, dict) and "__array__" not in tree:
        for name, value in tree.items():
            found += leaves(value, (*path, name))
    elif isinstance(tree, list):
        for i, value in enumerate(tree[:20]):
            found += leaves(value, (*path, i))
    return found


def changed(number: int, seed: int = 0, group: str = "learners") -> tuple[str, bytes]:
    """Return what is changed in file ``number``, and its bytes with a right checksum."""
    rng = np.random.default_rng([seed, number])
    name, header, arrays = original(group, number % len(GROUPS[group]))
    header, arrays = copy.deepcopy(header), dict(arrays)
    names, places = sorted(arrays), leaves({"params": header["params"], "state": header["state"]})
    if name.startswith("pending") and rng.random() < 0.6:  # what waits, not its model
        names = [field for field in names if not field.startswith("state/model/")]
        places = [place for place in places if place[:2] != ("state", "model")]
    if names and rng.random() < 0.6:
        field = str(rng.choice(names))
        what = _change_array(arrays, field, rng)
    else:
        place = places[int(rng.integers(len(places)))]
        if rng.random() < 0.03:
            place = (str(rng.choice(["format", "class", "pronk", "params", "state"])),)
        field = "/".join(str(step) for step in place)
        what = _change_leaf(header, place, rng)
    return f"{name} {field} {what}", packed(header, arrays)


def _change_array(arrays: dict[str, Any], field: str, rng: np.random.Generator) -> str:
    array = arrays[field]
    flat = array.ravel().copy()
    what = str(rng.choice(WAYS))
    if what == "cut":
        array = array[: max(len(array) - int(rng.integers(1, 4)), 0)] if array.ndim else array[None]
    elif what == "longer":
        array = np.concatenate((array, array[:1])) if len(array) else np.ones((1, *array.shape[1:]))
    elif what == "shape":
        shapes = [(-1,), (1, -1), (-1, 1), array.shape[::-1], (*array.shape, 1)]
        array = array.reshape(shapes[int(rng.integers(len(shapes)))])
    elif what == "dtype":
        kinds = [np.float32, np.int32, np.int64, np.uint8, np.bool_, np.float16, np.float64]
        with np.errstate(all="ignore"):
            array = array.astype(kinds[int(rng.integers(len(kinds)))])
    elif what in ("value", "values", "column") and flat.size:
        values = [np.nan, np.inf, -np.inf, 1e300, -1e300, 1e18, -1, 0, 1e-320, 2**40, 0.5, 1e8]
        values += [1e75, 1e140, -1e150, 1e160, 1e12, -1e30]
        value = values[int(rng.integers(len(values)))]
        columns = array.shape[-1] if array.ndim else 1
        first = (
            0 if what == "values" else int(rng.integers(columns if what == "column" else flat.size))
        )
        step = {"value": flat.size, "values": 1, "column": columns}[what]
        with np.errstate(all="ignore"):
            flat[first::step] = np.array([value]).astype(flat.dtype)
        array = flat.reshape(array.shape)
    elif what == "scale":
        with np.errstate(all="ignore"):
            factor = float(rng.choice([-1.0, 1e-200, 1e200, 1e9, 0.0]))
            array = (array * factor).astype(array.dtype)
    elif what == "swap":
        array = rng.permutation(flat).reshape(array.shape)
    elif what == "other":
        array = arrays[str(rng.choice(sorted(arrays)))]
    else:
        array = np.zeros((0, *array.shape[1:]), dtype=array.dtype)
    arrays[field] = np.ascontiguousarray(array)
    return f"{what} {array.dtype} {array.shape}"


def _change_leaf(header: Any, place: tuple[Any, ...], rng: np.random.Generator) -> str:
    *outer, last = place
    for step in outer:
        header = header[step]
    old = header[last]
    draw = rng.random()
    if draw < 0.1 - 0.05 * isinstance(header, list):
        del header[last]
        return "removed"
    if draw < 0.2 and isinstance(header, dict):
        header["surprise"] = 1
        return "extra"
    if draw < 0.15 and isinstance(header, list):
        header.insert(last, copy.deepcopy(old))
        return "twice"
    if draw < 0.25:
        deep: Any = 1
        for _ in range(int(rng.choice([50, 900]))):
            deep = [deep]
        header[last] = deep
        return "deep"
    if isinstance(old, int | float) and not isinstance(old, bool) and draw < 0.8:
        factor = float(rng.choice([0.5, 2.0, -1.0]))
        new: Any = rng.choice(np.array([*NUMBERS, old + 1, old - 1, old * factor], dtype=object))
    else:
        new = OTHERS[int(rng.integers(len(OTHERS)))]
    header[last] = new
    return f"{old!r:.30} -> {new!r:.30}"


def attempt(data: bytes, parameter: bool = False, scaler: bool = False) -> str:
    """Load a file; return "refused", "works", or what should not happen.

    ``parameter``, ``scaler``: a parameter of the learner, or the state of a scaler, was changed.
    """
    warnings.simplefilter("ignore")
    try:
        learner = files.from_bytes(data, "file")
    except pronk.ModelFileError as error:
        return "refused" if str(error).startswith("file") and "\n" not in str(error) else "unclear"
    except Exception as error:
        return f"load: {type(error).__name__}: {error}"
    try:
        return _work_with_pending(learner) if isinstance(learner, pronk.Pending) else _work(learner)
    except ValueError as error:
        # A step size or bandwidth that a user may set as well, and what then happens; or a scaler
        # that has seen numbers of quite another size, beside which these rows are too large.
        words = ("overshoot", "overflows", "larger alpha")
        known = parameter and any(word in str(error) for word in words)
        known = known or (scaler and "rescale it" in str(error))
        return "works" if known else f"work: {type(error).__name__}: {error}"
    except Exception as error:
        return f"work: {type(error).__name__}: {error}"


#: Rows of the calls after a file was loaded.
CALLS = slice(0, 1), slice(1, 8), slice(8, 60)


def _new_rows(columns: int) -> Any:
    return np.random.default_rng(0).uniform(-1.5, 1.5, (60, columns))


def _work(learner: Any) -> str:
    """Predict, save, load and learn; return "works", or what should not happen."""
    X = _new_rows(learner.n_features_in_)
    for rows in CALLS:
        values = learner.predict(X[rows])
        outcome = _judged(learner, values, lambda again, rows=rows: again.predict(X[rows]))
        if outcome:
            return outcome
        learner.partial_fit(X[rows], np.resize(_targets(learner), len(X[rows])))
    return _judged(learner, learner.predict(X[:9]), lambda again: again.predict(X[:9])) or "works"


def _work_with_pending(pending: Any) -> str:
    """Do as `_work`, and learn the rows that wait, of each call a part of the oldest ones."""
    waits = next((len(row) for row, _ in pending._rows.values()), 2)
    X = _new_rows(getattr(pending.model, "n_features_in_", waits))
    for number, rows in enumerate(CALLS):
        waiting = pending.ids[: 2 + len(pending.ids) // 3]
        new = [f"new {number} {i}" for i in range(len(X[rows]))]
        values = pending.predict(X[rows], new)
        other = [f"other {name}" for name in new]
        outcome = _judged(
            pending, values, lambda again, rows=rows, other=other: again.predict(X[rows], other)
        )
        if outcome:
            return outcome
        ids = [*waiting, *new]
        pending.learn(ids, np.resize(_targets(pending.model), len(ids)), unknown="skip")
    values = pending.predict(X[:9], range(10**6, 10**6 + 9))
    again = lambda again: again.predict(X[:9], range(2 * 10**6, 2 * 10**6 + 9))  # noqa: E731
    return _judged(pending, values, again) or "works"


def _judged(learner: Any, values: Any, predict: Callable[[Any], Any]) -> str:
    """Return what is wrong with predictions, and with those of the learner saved and loaded."""
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        return "NaN"
    try:
        again = predict(files.from_bytes(files.to_bytes(learner), "file"))
    except Exception as error:
        return f"again: {type(error).__name__}: {error}"
    return "" if np.array_equal(again, values) else "again: other predictions"


def _targets(learner: Any) -> Any:
    if learner.__sklearn_tags__().estimator_type == "classifier":
        fitted = learner.__sklearn_is_fitted__()
        return learner.classes_ if fitted else np.array(["a", "b"])
    outputs = getattr(learner, "_outputs", 1)
    return np.sin(np.arange(60.0)) if outputs == 1 else np.zeros(1)


def judge(count: int, seed: int, batch: int = 1000, group: str = "learners") -> Counter[str]:
    """Load files 0 .. count-1 in other processes; return how many have each outcome."""
    outcomes: Counter[str] = Counter()
    first = 0
    while first < count:
        last = min(first + batch, count)
        tried = _run(group, seed, first, last)
        for line in tried[0]:
            outcomes[line] += 1
        first += len(tried[0])
        if tried[1] and first < last:  # the process ended at this file
            outcomes[f"{tried[1]}: {changed(first, seed, group)[0]}"] += 1
            first += 1
    return outcomes


def _run(group: str, seed: int, first: int, last: int) -> tuple[list[str], str]:
    """Return the outcomes of a batch up to its end, and how its process ended if it failed."""
    command = [sys.executable, __file__, group, str(seed), str(first), str(last)]
    folder = str(Path(__file__).parents[1])
    paths = os.pathsep.join([folder, *sys.path])
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": paths, "OPENBLAS_NUM_THREADS": "1"},
    )  # fmt: skip
    try:
        out, _ = process.communicate(timeout=PATIENCE + 2.0 * (last - first))
        ended = "" if process.returncode == 0 else f"ended with {process.returncode}"
    except subprocess.TimeoutExpired:
        process.kill()
        out, _ = process.communicate()
        ended = "hangs"
    return [line for line in out.splitlines() if line], ended


def main() -> None:
    import faulthandler
    import resource

    group, (seed, first, last) = sys.argv[1], (int(word) for word in sys.argv[2:5])
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    for number in range(first, last):
        original(group, number % len(GROUPS[group]))  # its time does not count
        faulthandler.dump_traceback_later(PATIENCE, exit=True)
        what, data = changed(number, seed, group)
        field = what.split()[1]
        outcome = attempt(data, field.startswith("params"), "preparation/scaler" in field)
        good = outcome in ("refused", "works")
        print(outcome if good else f"{outcome:.120} [{what}]".replace("\n", " "), flush=True)


if __name__ == "__main__":
    main()
