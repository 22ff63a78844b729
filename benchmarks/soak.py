"""Run the long reliability tests: kills, damaged files, fuzzed inputs, ten million rows.

    python benchmarks/soak.py                 everything: about an hour of one core
    python benchmarks/soak.py --quick         the same with small numbers: some minutes
    python benchmarks/soak.py --only kills    one part: kills, default-kills, text-kills, files,
                                              fields, interrupts, signals, fuzz, rows,
                                              serve-kills, serve-cases, serve-fuzz, serve-hour

Every part prints its figures and what must hold; the exit code is 1 if something does not. Random
numbers come from --seed, except for the moments of the kills, which depend on wall time.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import pronk
from pronk.core.randomness import FREQUENCIES, generator
from pronk.newton.engine import Newton

FAILED: list[str] = []
PARTS = (
    "kills",
    "default-kills",
    "text-kills",
    "files",
    "fields",
    "interrupts",
    "signals",
    "fuzz",
    "rows",
    "serve-kills",
    "serve-cases",
    "serve-fuzz",
    "serve-hour",
)


def check(name: str, good: bool, figures: str) -> None:
    """Print a figure; record what does not hold."""
    print(f"{'ok  ' if good else 'FAIL'} {name}: {figures}", flush=True)
    if not good:
        FAILED.append(name)


# -- kills ---------------------------------------------------------------------------------------


#: Options of the runs that are killed: a learner on a dictionary; the default learner, whose local
#: experts begin at row 2,048; and the default learner with text and with classes in runs, for which
#: all its experts are at work.
KILLED = {
    "pkawv-nystrom": ["-a", "pkawv-nystrom", "-p", "history=projected", "-p", "gamma=10"],
    "default": ["--seed", "0"],
    "text": ["--seed", "0", "--categorical", "c"],
}


def kills(count: int, rows: int, seed: int, learner: str = "pkawv-nystrom") -> None:
    """Kill a run at random moments and resume it; then compare all bits."""
    rng = np.random.default_rng([seed, 0])
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        X = rng.uniform(0, 10, (rows, 3))
        y = np.sin(X[:, 0]) + 0.1 * X[:, 1]
        columns = np.column_stack([X, y]).round(6).astype(object)
        if learner == "text":
            words = rng.choice(["red", "green", "blue"], rows)
            classes = np.array(["low", "middle", "high"])
            columns[:, 2] = words
            columns[:, 3] = classes[(np.arange(rows) // 9 + (y > 0.5) + (words == "red")) % 3]
        np.savetxt(folder / "data.csv", columns, "%s", ",", header="a,b,c,y", comments="")
        whole = _job(folder, "whole", learner)
        process, began = _start(whole, folder / "whole", True), time.perf_counter()
        text, _ = process.communicate()
        duration = time.perf_counter() - began
        assert process.returncode == 0, text
        expected = _outcome(folder, "whole", text)
        killed = equal = jobs = resumed = 0
        while killed < count:
            jobs += 1
            command = _job(folder, f"job-{jobs}", learner)
            for _ in range(min(10, count - killed)):
                learns = bool(rng.random() < 0.8)  # else it may only have started
                if not _kill(_start(command, folder / f"job-{jobs}", learns), rng, duration):
                    break
                killed += 1
                resumed += learns
            done = subprocess.run(command, capture_output=True, text=True)
            assert done.returncode == 0, done.stderr
            equal += _outcome(folder, f"job-{jobs}", done.stdout) == expected
        check(
            "kills",
            equal == jobs,
            f"{learner}: {killed} kills in {jobs} runs of {rows:,} rows; {equal} of {jobs} ended "
            f"with the same predictions, model and metrics, bit by bit; {resumed} kills came after "
            "a new snapshot",
        )


def _job(folder: Path, name: str, learner: str) -> list[str]:
    out = folder / name
    out.mkdir(exist_ok=True)
    return [
        sys.executable, "-m", "pronk", "run", str(folder / "data.csv"), "-t", "y",
        *KILLED[learner], "--scale", "standard",
        "--predictions", str(out / "p.csv"), "--save", str(out / "model"),
        "--checkpoint", str(out / "checkpoint"), "--checkpoint-every", "4096", "--json",
    ]  # fmt: skip


def _start(command: list[str], folder: Path, learns: bool) -> subprocess.Popen[str]:
    """Start a run; if it ``learns``, return when it has written a snapshot, or has ended."""
    before = _written(folder / "checkpoint")
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    while learns and process.poll() is None and _written(folder / "checkpoint") == before:
        time.sleep(0.005)
    return process


def _written(path: Path) -> int:
    return path.stat().st_mtime_ns if path.exists() else 0


def _kill(process: subprocess.Popen[str], rng: np.random.Generator, duration: float) -> bool:
    """Kill a run within this time; return whether it had not ended."""
    with process:
        try:
            process.wait(rng.uniform(0, duration) / 2)
        except subprocess.TimeoutExpired:
            process.kill()
    assert process.returncode in (0, -signal.SIGKILL), process.returncode
    return process.returncode != 0


def _outcome(folder: Path, name: str, text: str) -> Any:
    bits = [(folder / name / file).read_bytes() for file in ("p.csv", "model")]
    result = json.loads(text)
    return bits, result["metrics"], result["rows"], result["size"]


# -- damaged files -------------------------------------------------------------------------------


def files(count: int, seed: int) -> None:
    """Flip bytes of a model file or truncate it: loading raises one error or returns the model."""
    rng = np.random.default_rng([seed, 1])
    X = rng.normal(size=(200, 2))
    learner = pronk.PKAWVClassifier(pronk.Gaussian(0.7), budget=8, random_state=0)
    learner.partial_fit(X, np.where(X[:, 0] > 0, "yes", "no"))
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "model.pronk"
        learner.save(path)
        whole = path.read_bytes()
        expected = learner.decision_function(X)
        for i in range(count):
            data = bytearray(whole)
            for _ in range(rng.integers(1, 4)):
                data[rng.integers(len(data))] ^= 1 << int(rng.integers(8))
            if i % 2:
                data = data[: rng.integers(len(data))]
            path.write_bytes(data)
            try:
                loaded = pronk.load(path)
            except pronk.ModelFileError:
                counts["clean error"] += 1
            except Exception as error:
                counts[f"{type(error).__name__}: {error}"] += 1
            else:
                same = np.array_equal(loaded.decision_function(X), expected)
                counts["intact model" if same else "wrong model"] += 1
    good = set(counts) <= {"clean error", "intact model"}
    check("files", good, f"{count:,} damaged files of {len(whole):,} bytes: {dict(counts)}")


# -- fuzzed inputs -------------------------------------------------------------------------------


def fields(count: int, seed: int) -> None:
    """Change one field of a model file, with a right checksum (tests/laws/fields.py)."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
    from laws.fields import GROUPS, judge

    for group, share in zip(GROUPS, (0.9, 0.1), strict=True):
        own = int(share * count)
        counts = judge(own, seed, group=group)
        good = set(counts) <= {"refused", "works"}
        check(f"fields of {group}", good, f"{own:,} files: {dict(counts)}")


def interrupts(count: int, seed: int) -> None:
    """Stop calls at a random line by one of three errors (tests/laws/interrupts.py)."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
    from laws.cases import CASES
    from laws.interrupts import attempt

    rng = np.random.default_rng([seed, 5])
    errors = (KeyboardInterrupt, MemoryError, RuntimeError)
    counts: Counter[str] = Counter()
    for i in range(count):
        try:
            counts[attempt(CASES[i % len(CASES)], rng, errors[i % 3])] += 1
        except AssertionError as error:
            counts[f"wrong: {error}"] += 1
    good = set(counts) <= {"before", "after"}
    check("interrupts", good, f"{count} calls; the learner was that of {dict(counts)} the call")


def signals(count: int, new: int, seed: int) -> None:
    """Send real signals to calls, and to first fits in new processes (tests/laws/signals.py)."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
    from laws.signals import calls, first_fits

    for interrupt, number in ((calls, count), (first_fits, new)):
        counts = interrupt(number, seed)
        good = set(counts) <= {"before", "after"} and counts.total() == number
        figures = f"{number:,} signals; the state was that of {dict(counts)} the call"
        check(f"signals, {interrupt.__name__}", good, figures)


def fuzz(count: int, seed: int) -> None:
    """Make random calls of all learners (tests/laws/fuzz.py lists the allowed outcomes)."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
    import hypothesis

    from laws.fuzz import LEARNERS, attempt, trials

    counts: Counter[str] = Counter()
    wrong: Counter[str] = Counter()

    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=count // 5,
        deadline=None,
        database=None,
        phases=[hypothesis.Phase.generate],
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    @hypothesis.given(trials)
    def walk(trial: Any) -> None:
        found = attempt(trial, counts)
        if found is not None and not wrong[found]:
            print(f"       {found}: {trial}", flush=True)
        wrong.update([] if found is None else [found])

    rounds = 0
    while counts.total() < count:
        hypothesis.seed(seed + rounds)(walk)()
        rounds += 1
    text = f"{counts.total():,} calls over {len(LEARNERS)} learners: {dict(counts)}"
    check("fuzz", not wrong, f"{text}; {wrong.total()} trials went wrong")


# -- many rows -------------------------------------------------------------------------------------


def rows(count: int, seed: int) -> None:
    """Learn many rows: memory is constant, and the state equals sums recomputed from the rows."""
    _pkawv(count, seed)
    _con_kons(count, seed)


def _stream(count: int, seed: int, columns: int = 3) -> Iterator[tuple[Any, Any]]:
    rng = np.random.default_rng([seed, 3])
    for start in range(0, count, 50_000):
        X = rng.uniform(-1, 1, (min(50_000, count - start), columns))
        yield X, np.sin(3 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * rng.standard_normal(len(X))


def _walk(learner: Any, count: int, seed: int) -> tuple[float, int]:
    """Return seconds per row, and the growth of memory after the first tenth."""
    seen, spent, sizes = 0, 0.0, []
    for X, y in _stream(count, seed):
        began = time.perf_counter()
        learner.predict_then_learn(X, y)
        spent += time.perf_counter() - began
        seen += len(y)
        if seen >= count / 10:
            sizes.append(_resident())
    return spent / seen, max(sizes) - sizes[0]


def _resident() -> int:
    """Return the bytes of memory of this process."""
    with Path("/proc/self/statm").open() as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _pkawv(count: int, seed: int) -> None:
    learner = pronk.PKAWVRegressor(
        pronk.Gaussian(1.0), features="fourier", n_features=100, alpha=1.0, random_state=seed
    )
    seconds, grown = _walk(learner, count, seed)
    # The definition, from the rows: A = alpha I + sum phi phi', b = sum y phi.
    W = generator(seed, FREQUENCIES).standard_normal((3, 100))
    A, b = np.zeros((200, 200), np.longdouble), np.zeros(200, np.longdouble)
    for X, y in _stream(count, seed):
        phi = np.hstack([np.cos(X @ W), np.sin(X @ W)]) / 10.0
        A += phi.T @ phi
        b += phi.T @ y
    reference = np.asarray(A, dtype=np.float64) + np.eye(200)
    _compare(
        "PKAWV", count, learner._model.learner, reference, np.asarray(b, float), seconds, grown
    )


def _con_kons(count: int, seed: int) -> None:
    learner = pronk.ProsNKONSRegressor(
        pronk.Gaussian(2.0), restart=False, alpha=1.0, gamma=30.0, random_state=seed
    )
    sums = _Recorded()
    add = Newton._add_open_rows

    def recorded(self: Newton) -> None:
        sums.add(self)
        add(self)

    Newton._add_open_rows = recorded  # type: ignore[method-assign]
    try:
        seconds, grown = _walk(learner, count, seed)
    finally:
        Newton._add_open_rows = add  # type: ignore[method-assign]
    newton = _newton(learner._model)
    sums.add(newton)  # the open rows
    A = np.asarray(sums.A, dtype=np.float64) + newton.alpha * np.eye(newton.size)
    _compare("CON-KONS", count, newton, A, np.asarray(sums.b, dtype=np.float64), seconds, grown)
    print(f"       {learner.size_} points held")


class _Recorded:
    """Sums over recorded rows (features, weights c, steps e); blocks are added as long doubles."""

    def __init__(self) -> None:
        self.A = np.zeros((0, 0), np.longdouble)
        self.b = np.zeros(0, np.longdouble)

    def add(self, newton: Newton) -> None:
        t, r = newton._open, newton.size
        more = r - len(self.b)
        if more:
            self.A, self.b = np.pad(self.A, (0, more)), np.pad(self.b, (0, more))
        phi = newton._Phi[:t]
        self.A += (phi * newton._curvature[:t, None]).T @ phi
        self.b += phi.T @ newton._target[:t, 0]


def _newton(model: Any) -> Newton:
    while not isinstance(model, Newton):
        model = model.learner if hasattr(model, "learner") else model.learners[0]
    return model


def _compare(
    name: str, count: int, newton: Newton, A: Any, b: Any, seconds: float, grown: int
) -> None:
    t = newton._open
    phi = newton._Phi[:t]
    curved = np.ones(t) if name == "PKAWV" else newton._curvature[:t]
    held = newton._A + (phi * curved[:, None]).T @ phi
    difference = np.abs(np.tril(held - A)).max() / np.abs(A).max()  # one triangle is kept
    expected = np.linalg.solve(A, b)
    weights = np.abs(newton.weights[:, 0] - expected).max() / np.abs(expected).max()
    good = difference <= 1e-8 and weights <= 1e-8 and grown < 20e6
    check(
        f"rows, {name}",
        good,
        f"{count:,} rows, {len(b)} features, {1e6 * seconds:.2f} us per row; relative difference "
        f"of A {difference:.1e}, of the weights {weights:.1e}; memory grew by {grown / 1e6:.1f} MB "
        "after the first tenth",
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small numbers")
    parser.add_argument("--only", choices=[*PARTS])
    parser.add_argument("--rows", type=int, help="rows of the last part")
    parser.add_argument("--calls", type=int, help="calls of the fuzz")
    parser.add_argument("--files", type=int, help="files of fields")
    parser.add_argument("--seconds", type=float, help="seconds of serve-hour")
    parser.add_argument("--rate", type=float, default=800.0, help="requests per second, serve-hour")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    quick = given.quick
    import soak_serve

    parts: dict[str, Callable[[], None]] = {
        "kills": lambda: kills(6 if quick else 50, 60_000 if quick else 300_000, given.seed),
        "default-kills": lambda: kills(6 if quick else 20, 30_000, given.seed, "default"),
        "text-kills": lambda: kills(6 if quick else 30, 30_000, given.seed, "text"),
        "files": lambda: files(1_000 if quick else 10_000, given.seed),
        "fields": lambda: fields(given.files or (500 if quick else 20_000), given.seed),
        "interrupts": lambda: interrupts(50 if quick else 500, given.seed),
        "signals": lambda: signals(*((150, 10) if quick else (1_850, 150)), given.seed),
        "fuzz": lambda: fuzz(given.calls or (2_000 if quick else 100_000), given.seed),
        "rows": lambda: rows(given.rows or (200_000 if quick else 10_000_000), given.seed),
        "serve-kills": lambda: soak_serve.kills(5 if quick else 50, given.seed, check),
        "serve-cases": lambda: soak_serve.cases(300 if quick else 10_000, given.seed, check),
        "serve-fuzz": lambda: soak_serve.requests(500 if quick else 5_000, given.seed, check),
        "serve-hour": lambda: soak_serve.hour(
            given.seconds or (60.0 if quick else 3600.0), given.rate, given.seed, check
        ),
    }
    for name, part in parts.items():
        if given.only in (None, name):
            part()
    print(f"{len(FAILED)} failed" if FAILED else "all held")
    return 1 if FAILED else 0


if __name__ == "__main__":
    sys.exit(main())
