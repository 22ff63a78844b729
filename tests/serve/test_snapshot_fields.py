"""Change an entry of a snapshot and its checksum: the snapshot works, or is skipped.

The entries of the model itself are tried in `tests/laws/fields.py`.
"""

from __future__ import annotations

import copy
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from driving import created, learn, opened

from pronk.estimators import files
from pronk.serve import recovery
from pronk.serve.http.monitoring import _details, describe
from pronk.serve.journal import LEARN, Entry, Journal
from pronk.serve.rows import pack

OTHERS: tuple[Any, ...] = (
    "text", None, -1, 2**70, 0.5, [], {}, True, [[1]], float("nan"), np.zeros((2, 2)), np.zeros(3)
)  # fmt: skip
MORE = "more"


def _leaves(tree: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    entries = tree.items() if isinstance(tree, dict) else enumerate(tree)
    for key, value in entries:
        yield (*path, key)
        if isinstance(value, dict | list) and (*path, key) != ("model",):
            yield from _leaves(value, (*path, key))


def _changed(tree: Any, path: tuple[Any, ...], value: Any) -> Any:
    """With another value in a place; an Ellipsis takes the entry away."""
    found = place = copy.deepcopy(tree)
    for key in path[:-1]:
        place = place[key]
    if value is ...:
        del place[path[-1]]
    elif value is MORE and isinstance(place[path[-1]], int | float | np.ndarray):
        place[path[-1]] = place[path[-1]] + 1
    else:
        place[path[-1]] = value
    return found


@pytest.mark.parametrize(
    "task", [pytest.param("regression", marks=pytest.mark.matrix), "classification"]
)
def test_a_snapshot_is_used_or_skipped(tmp_path: Path, task: str) -> None:
    service = opened(tmp_path)
    parameters = {"n_features": 5} | ({"loss": "logistic"} if task == "classification" else {})
    created(service, task=task, algorithm="fogd", parameters=parameters)
    labels: list[Any] = [0.1 * i if task == "regression" else "ab"[i % 2] for i in range(20)]
    service.writer.group(
        [learn(service, str(i), [0.3 * i, 1.0], label) for i, label in enumerate(labels)]
    )
    service.stop()
    path = recovery.snapshot_path(tmp_path, "m", 20)
    tree = files.load_checkpoint(path)
    journal = Journal(tmp_path)
    row = journal.models()[0]
    rng = np.random.default_rng(0)
    counts: Counter[bool] = Counter()
    for place in _leaves(tree):
        some = [OTHERS[i] for i in rng.choice(len(OTHERS), 4, replace=False)]
        for value in (..., MORE, *some):
            edited = _changed(tree, place, value)  # save_checkpoint refuses to write it
            path.write_bytes(files.encode(files.CHECKPOINT, {}, edited))
            online = recovery.recover(journal, row, tmp_path, lambda *_, **__: None)
            counts[online.snapshot == 20] += 1
            assert online.broken is None and online.version == 20
            _works(online, labels[0])
    assert counts[False] > 50 and counts[True] > 0
    journal.close()


def _works(online: Any, label: Any) -> None:
    rows = online.columns.pack([[1.0, 2.0]])
    for _ in range(2):
        assert json.dumps([describe(online, True), _details(online)], allow_nan=False)
        online.predict(rows)
        online.tree()
        packed = pack([label])
        online.learn([Entry(21, online.number, None, LEARN, 1, rows, packed, 21, None, 0.0)])
