"""The default learner on whole streams, against gradient boosting that is retrained.

    python benchmarks/bench_streams.py --learners pronk         pronk's rows of the page
    python benchmarks/bench_streams.py --learners lightgbm-5000 xgboost-5000 --only casp letter
    python benchmarks/bench_streams.py --learners all           everything: many hours
    python benchmarks/bench_streams.py                          make the page again
    .. --rows 20000, --rows 0                                   the first rows only; all rows
    .. --workers 2                                              runs side by side

PRONK_DATA is the folder of the data sets; those that are not there are left out. LightGBM and
XGBoost come with `pip install '.[bench]'`.

`field.streams` lists the data, `field.passes` the learners, `field.streams_page` writes the page.
Runs are kept in benchmarks/field/streams.json by set, learner with its settings, and version; one
that is there is not made again (--again does) unless more rows are asked for, so a benchmark that
was stopped continues. The version of the default learner is its mark (`field.measures.mark`).
"""

from __future__ import annotations

import os

for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import argparse  # noqa: E402
from functools import partial  # noqa: E402
from pathlib import Path  # noqa: E402

from threadpoolctl import threadpool_limits  # noqa: E402

from field import measures, passes, streams, streams_page  # noqa: E402
from field.results import Runs, keep, load  # noqa: E402
from field.workers import Job, done_apart  # noqa: E402

RUNS = Path(__file__).parent / "field" / "streams.json"
#: These pass over whole sets unless --rows is given, the others over the rows that are compared.
WHOLE = ("pronk", "mean", "last")


def rows_of(name: str, learner: str, asked: int | None) -> int | None:
    """How many rows of a set a learner passes over; None is all."""
    if asked is not None or learner in WHOLE:
        return asked or None
    return streams.STREAM_ROWS if name in streams.STREAMS else streams.SETS[name]


def jobs(options: argparse.Namespace, known: Runs) -> list[Job]:
    """The runs to make, learner by learner in the order given."""
    found: list[Job] = []
    learners = streams_page.LEARNERS if options.learners == ["all"] else options.learners
    for learner in learners:
        try:
            version = passes.version(learner)
        except ModuleNotFoundError as absent:
            print(f"{learner}: left out, {absent}", flush=True)
            continue
        for name in options.only or streams.NAMES:
            if not passes.fits(learner, name):
                continue
            key, rows = f"{name}/{learner}/{version}", rows_of(name, learner, options.rows)
            if options.again or passes.missing(known.get(key), rows, options.longest):
                found.append((key, partial(passes.run, name, learner, rows, options.longest)))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--learners", nargs="+", default=[], metavar="LEARNER")
    parser.add_argument("--only", nargs="+", metavar="SET", choices=streams.NAMES)
    parser.add_argument("--rows", type=int, help="the first rows of each set; 0 is all")
    parser.add_argument("--longest", type=float, default=3600.0, help="CPU seconds of a run")
    parser.add_argument("--again", action="store_true", help="make runs again that are there")
    parser.add_argument("--workers", type=int, default=1, help="processes side by side")
    parser.add_argument("--runs", type=Path, default=RUNS, help="the file of the runs")
    options = parser.parse_args()
    with threadpool_limits(1):
        for key, result in done_apart(jobs(options, load(options.runs)), options.workers):
            if isinstance(result, str):
                print(f"{key}: left out, {result}", flush=True)
            else:
                keep(key, result, options.runs)
        if options.runs == RUNS:
            streams_page.write(load(RUNS), measures.mark())


if __name__ == "__main__":
    main()
