"""Run `pronk.step` beside `pronk.Keyed` in memory: many keys, few rows per call.

    python benchmarks/bench_step.py [--keys N] [--rounds N]

Both learn the same rows in the same calls, each call with the rows of one key, in rounds over all
keys: first 100 rows per key in calls of 20, then calls of one row, then of 20. Printed are the
times per call, their ratio, and the parts of a step that `Keyed` does not have: the bytes of the
new state (`dumps`) after every call, and, without the cache, the model from the bytes (`loads`).
Then the sizes of a state after 100, 1,000 and 10,000 rows of a key. The predictions are compared;
they differ only before the first label of a key, where `Keyed` predicts the mean of all keys.
"""

from __future__ import annotations

import argparse
import time
import zlib

from measure import dgemm_rate  # noqa: F401  first: it bounds the threads

import numpy as np  # isort: skip
import pronk  # isort: skip
from pronk.data.step import CACHE  # isort: skip
from pronk.estimators import files  # isort: skip
from pronk.estimators.registry import DEFAULT_ALGORITHM, make_for_key  # isort: skip

COLUMNS = 3


def stream(rows: int, key: int) -> tuple[np.ndarray, np.ndarray]:
    """Return rows and targets of a key."""
    rng = np.random.default_rng(key)
    X = rng.uniform(-1.0, 1.0, (rows, COLUMNS))
    y = np.sin(3.0 * X[:, 0]) * (key % 7 - 3) + X[:, 1] + 0.1 * rng.normal(size=rows)
    return X, y


class Race:
    """The same calls by `Keyed` and by `step`."""

    def __init__(self, keys: int) -> None:
        self.keyed = pronk.Keyed(cache_size=keys + 1)
        self.states: dict[int, bytes | None] = dict.fromkeys(range(keys))
        self.seconds = {"keyed": 0.0, "step": 0.0, "dumps": 0.0, "loads": 0.0}
        self.calls = 0

    def call(self, key: int, X: np.ndarray, y: np.ndarray, *, parts: bool) -> None:
        """Learn the rows of a key by both; with ``parts``, time what a step consists of."""
        began = time.perf_counter()
        expected = self.keyed.predict_then_learn(X, y, keys=[key] * len(y))
        self.seconds["keyed"] += time.perf_counter() - began
        new = make_for_key(DEFAULT_ALGORITHM, random_state=self._seed(key))
        given = self.states[key]
        began = time.perf_counter()
        state, found = pronk.step(given, X, y, new=new)
        self.seconds["step"] += time.perf_counter() - began
        self.states[key] = state
        first = given is None
        assert state is not None and np.array_equal(found[first:], expected[first:])
        self.calls += 1
        if parts:
            began = time.perf_counter()
            model = files.from_bytes(state, "state", tried=False)
            middle = time.perf_counter()
            files.to_bytes(model)
            self.seconds["loads"] += middle - began
            self.seconds["dumps"] += time.perf_counter() - middle

    def _seed(self, key: int) -> int:
        from pronk.keyed.keys import digest, encode_key

        return (self.keyed._seed ^ digest(encode_key(key))) & (2**63 - 1)

    def report(self, name: str) -> None:
        """Print the times per call since the last report, in ms."""
        each = {part: 1e3 * seconds / self.calls for part, seconds in self.seconds.items()}
        size = np.mean([len(state) for state in self.states.values() if state is not None])
        print(
            f"{name:<26} {each['keyed']:>8.2f} {each['step']:>8.2f} "
            f"{each['step'] / each['keyed']:>7.2f} {each['dumps']:>8.2f} {each['loads']:>8.2f} "
            f"{size / 1e3:>8.0f} {len(CACHE):>8,}",
            flush=True,
        )
        self.seconds, self.calls = dict.fromkeys(self.seconds, 0.0), 0


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--keys", type=int, default=1000)
    options.add_argument("--rounds", type=int, default=3, help="of each kind of call")
    options.add_argument("--sizes", type=int, nargs="*", default=[100, 1000, 10000])
    chosen = options.parse_args()
    print(f"{chosen.keys:,} keys, {COLUMNS} columns, the default learner of `Keyed`; ms per call")
    print(
        "rows per call                 keyed     step   ratio    dumps    loads  state kB  cached"
    )
    rows = 100 + 21 * chosen.rounds
    data = {key: stream(rows, key) for key in range(chosen.keys)}
    race, place = Race(chosen.keys), 0
    plan = [("20, first 100 rows", 20)] * 5 + [("1", 1)] * chosen.rounds
    plan += [("20", 20)] * chosen.rounds
    for number, (name, size) in enumerate(plan):
        last = number + 1 == len(plan) or plan[number + 1][0] != name
        for key, (X, y) in data.items():
            cut = slice(place, place + size)
            race.call(key, X[cut], y[cut], parts=last and key % 10 == 0)
        place += size
        if last:
            tenth = sum(key % 10 == 0 for key in data)
            for part in ("dumps", "loads"):
                race.seconds[part] *= race.calls / tenth
            race.report(name)
    learners = {
        "default": make_for_key(DEFAULT_ALGORITHM, random_state=0),
        "PKAWV, 32 points": pronk.PKAWVRegressor(budget=32, random_state=0),
        "FOGD": pronk.FOGDRegressor(random_state=0),
    }
    print("learner             rows of a key    state kB    zlib kB")
    for name, new in learners.items():
        for rows in chosen.sizes:
            state, _ = pronk.step(None, *stream(rows, 1), new=new)
            assert state is not None
            packed = len(zlib.compress(state, 1))
            print(f"{name:<19} {rows:>13,} {len(state) / 1e3:>11.1f} {packed / 1e3:>10.1f}")


if __name__ == "__main__":
    main()
