"""Send Ctrl-C to processes that learn: none crashes or hangs, and the next call works.

The signals are real and come at random moments, so what they hit depends on the machine; what must
hold does not. `calls` interrupts calls of a process that goes on, `first_fits` the imports, the
loading or compiling of functions, and the first rows of new processes.
"""

from __future__ import annotations

import faulthandler
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

KINDS = "regressor", "classifier", "text"
FIRST = 2_100  # the local experts are at work from row 2,048
ROWS = 20
PATIENCE = 60.0


# -- the process that learns -----------------------------------------------------------------------


def stream(kind: str, rows: int) -> tuple[Any, Any]:
    """Return rows and labels; classes come in runs, so past labels are read too."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(rows, 3))
    y = np.sin(2 * X[:, 0]) + X[:, 1]
    if kind == "classifier":
        return X, (np.arange(rows) // 7 + (y > 0)) % 3
    if kind == "text":
        import pandas as pd

        words = rng.choice(["north", "east", "south", "west"], rows)
        return pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "word": words}), y + (words == "east")
    return X, y


def make(kind: str) -> Any:
    """Return the default learner of a kind of stream."""
    import pronk

    if kind == "classifier":
        return pronk.OnlineKernelClassifier(random_state=0)
    learner = pronk.OnlineKernelRegressor(random_state=0)
    return pronk.Prepared(learner) if kind == "text" else learner


def ready() -> None:
    """Tell the other process to send a signal soon; end this one if it hangs."""
    faulthandler.dump_traceback_later(PATIENCE, exit=True)
    print("ready", flush=True)


def wait() -> None:
    """Wait for the signal, in steps: one that comes just before a long sleep does not end it."""
    while True:
        time.sleep(0.01)


def interrupted_calls(kind: str, count: int) -> None:
    """Let signals interrupt calls; a twin is not interrupted. Print which state was found."""
    import copy

    from pronk.core.runtime import limited

    X, y = stream(kind, FIRST + ROWS * (count + 1))
    learner = make(kind)
    learner.partial_fit(X[:FIRST], y[:FIRST])
    twin = copy.deepcopy(learner)
    for start in range(FIRST, FIRST + ROWS * count, ROWS):
        rows = X[start : start + ROWS], y[start : start + ROWS]
        try:
            ready()
            learner.predict_then_learn(*rows)
            wait()
        except KeyboardInterrupt:
            pass
        outcome, expected = "after", twin.predict_then_learn(*rows)
        if learner.n_seen_ == start:
            same = np.array_equal(learner.predict_then_learn(*rows), expected)
            outcome = "before" if same else "another state"
        after = X[start + ROWS : start + 2 * ROWS]
        if not np.array_equal(learner.predict(after), twin.predict(after)):
            outcome = "another state"
        print("BLAS stays limited" if limited._inside else outcome, flush=True)


def interrupted_first_fit(kind: str, waits: bool) -> None:
    """Let a signal interrupt the first fit; then fit, and print the sum of the predictions."""
    X, y = stream(kind, 320)
    outcome = "before"
    try:
        ready()
        make(kind).fit(X[:300], y[:300])
        outcome = "after"
        if waits:
            wait()
    except KeyboardInterrupt:
        pass
    predicted = make(kind).fit(X[:300], y[:300]).predict(X[300:])
    print(outcome, float(np.sum(predicted)).hex(), flush=True)


# -- the process that sends the signals ------------------------------------------------------------


class Learning:
    """A process that runs one of the functions above."""

    def __init__(self, *words: str, **environment: str) -> None:
        paths = {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
        self.process = subprocess.Popen(
            [sys.executable, __file__, *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **paths, **environment},
        )

    def __enter__(self) -> Learning:
        return self

    def __exit__(self, *_: Any) -> None:
        self.process.kill()
        self.process.communicate()

    def line(self) -> str:
        """Return the next line, or how the process ended."""
        assert self.process.stdout is not None and self.process.stderr is not None
        if line := self.process.stdout.readline():
            return line.strip()
        said = self.process.stderr.read().splitlines()
        return f"ended with {self.process.wait()} {' '.join(said[:1] + said[-1:])}".strip()

    def interrupt(self, seconds: float) -> str:
        """Send the signal after this time if the process is ready; return what it says then."""
        if (text := self.line()) == "ready":
            time.sleep(seconds)
            self.process.send_signal(signal.SIGINT)
            text = self.line()
        return text


def calls(count: int, seed: int) -> Counter[str]:
    """Send so many signals to calls of `ROWS` rows; return how often which state was found."""
    rng = np.random.default_rng([seed, 6])
    outcomes: Counter[str] = Counter()
    for number, kind in enumerate(KINDS):
        signals = len(range(number, count, len(KINDS)))
        lasts = 0.01
        with Learning("calls", kind, str(signals)) as learning:
            for _ in range(signals):
                text = learning.interrupt(rng.uniform(0, lasts))
                if text not in ("before", "after"):
                    outcomes[f"{kind}: {text}"] += 1
                    break
                outcomes[text] += 1
                lasts *= 1.05 if text == "before" else 0.9  # two of three hit a call
            else:
                if (text := learning.line()) != "ended with 0":
                    outcomes[f"{kind}: {text}"] += 1
    return outcomes


def first_fits(count: int, seed: int) -> Counter[str]:
    """Send a signal to each of so many new processes; in a fifth of them functions compile."""
    rng = np.random.default_rng([seed, 7])
    outcomes: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as name:
        warm, folder = Path(name) / "warm", Path(name) / "cache"
        kinds, expected, lasts = KINDS[:count], {}, 0.0
        for kind in (*kinds, kinds[0]):  # the first one again, for its time with a warm cache
            with Learning("first", kind, NUMBA_CACHE_DIR=str(warm)) as learning:
                assert learning.line() == "ready"
                began = time.monotonic()
                expected[kind] = learning.line().partition(" ")[2]
                lasts = time.monotonic() - began
        for number in range(count):
            kind = kinds[number % len(kinds)]
            shutil.copytree(warm, folder)
            files = sorted(folder.rglob("*.nbi"))
            for i in rng.choice(len(files), 3, replace=False) if number % 5 == 4 else ():
                files[i].unlink()
            with Learning("first", kind, "waits", NUMBA_CACHE_DIR=str(folder)) as learning:
                text = learning.interrupt(rng.uniform(0, lasts))
                outcome, _, found = text.partition(" ")
                if found == expected[kind]:
                    text = learning.line()
                outcomes[outcome if text == "ended with 0" else f"{kind}: {text}"] += 1
            shutil.rmtree(folder)
    return outcomes


def main() -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    what, kind, *more = sys.argv[1:]
    if what == "calls":
        interrupted_calls(kind, int(more[0]))
    else:
        interrupted_first_fit(kind, bool(more))


if __name__ == "__main__":
    main()
