"""`pronk demo`: several learners side by side over a stream that drifts and jumps."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from rich.console import Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from pronk.cli import screen
from pronk.cli.errors import CommandError
from pronk.estimators.registry import algorithms, make
from pronk.evaluate import Evaluation, Record, RunningMean, held_bytes
from pronk.parts.kernels import Gaussian
from pronk.streams import drifting

#: The waves of the stream have wavelengths of a few units; the inputs lie in [-1, 1].
BANDWIDTH = 1.0

#: Learners in bounded memory and the sizes they run with. Those that are not known are left out.
LEARNERS: dict[str, dict[str, Any]] = {
    "online-kernel": {"kernel": "gaussian", "budget": 100},  # it finds its own bandwidth
    "pkawv-taylor": {"degree": 5},
    "pkawv-nystrom": {"history": "projected", "budget": 100, "gamma": 10.0, "alpha": 0.1},
    "pkrr-nystrom": {"history": "projected", "budget": 100, "gamma": 10.0, "alpha": 0.1},
    "pros-n-kons": {"gamma": 30.0, "alpha": 5.0},
    "con-kons": {"gamma": 30.0, "alpha": 1.0},
    "b-kons": {"budget": 50, "gamma": 30.0, "alpha": 5.0},
    "fogd": {"n_features": 200},
    "nogd": {"budget": 100},
    "dual-svrg-am": {"n_features": 200, "eta": 0.1},
    "krls": {},
}

SEGMENTS = 20


@dataclass
class Racer:
    """A learner on its way."""

    name: str
    params: dict[str, Any]
    evaluation: Evaluation
    records: list[Record] = field(default_factory=list)

    @property
    def loss(self) -> float:
        return self.records[-1].metrics["mse"]


def run_demo(*, rows: int, seed: int, as_json: bool) -> None:
    """Run the race and print its table, or its records as JSON."""
    console = screen.messages()
    every = max(1, rows // SEGMENTS)
    with screen.warnings_as_notes(console):
        racers = _warm_racers(console, every, seed)
        racers.append(
            Racer("running mean", {}, Evaluation(RunningMean(), "mse", every, portrait=False))
        )
        _race(racers, rows, seed, screen.output() if not as_json else console, live=not as_json)
    if as_json:
        screen.print_json(_as_dict(racers, rows, seed))


def _warm_racers(console: Any, every: int, seed: int) -> list[Racer]:
    """The learners of the race; each is first run on some rows by a copy, to compile its code."""
    racers = []
    blocks = [*drifting(300, seed=1), *drifting(3, seed=2, block=1)]
    with console.status("") as status:
        for name, params in LEARNERS.items():
            if name not in algorithms():
                continue
            status.update(f"getting ready: {name} (compiled once, then kept)")
            given = {"kernel": Gaussian(BANDWIDTH), "random_state": seed, **params}
            copy, learner = (make(name, **given) for _ in "12")
            for X, y in blocks:
                copy.predict_then_learn(X, y)
            racers.append(
                Racer(name, params, Evaluation(learner, "mse", every, memory=False, portrait=False))
            )
    return racers


def _race(racers: list[Racer], rows: int, seed: int, console: Any, live: bool) -> None:
    """Give every block to every learner; show the table as it fills."""
    progress = Progress(
        TextColumn("rows"), BarColumn(bar_width=None), MofNCompleteColumn(), TimeElapsedColumn(),
        console=console, expand=False,
    )  # fmt: skip
    bar = progress.add_task("", total=rows)
    shown = console.is_terminal and live

    def view() -> Any:
        return Group(_table(racers, rows, console), progress)

    with Live(console=console, auto_refresh=False, transient=True) as display:
        done = 0
        for X, y in drifting(rows, seed):
            for racer in racers:
                try:
                    racer.records += racer.evaluation.feed(X, y)
                except Exception as error:
                    raise CommandError(f"demo: {racer.name} failed: {error}", 1) from error
            done += len(y)
            progress.update(bar, completed=done)
            if shown:
                display.update(view(), refresh=True)
    for racer in racers:
        last = racer.evaluation.finish()
        if last is not None:
            racer.records.append(last)
    *learners, baseline = racers
    learners.sort(key=lambda racer: racer.loss)
    racers[:] = [*learners, baseline]
    if live:
        _print_result(racers, rows, console)


def _print_result(racers: list[Racer], rows: int, console: Any) -> None:
    console.print(f"{rows:,} rows of a stream that drifts, and jumps three times\n", style="bold")
    console.print(_table(racers, rows, console))
    console.print(
        "\nLoss: mean squared error of predictions made before the label was seen; the\n"
        "noise alone makes 0.01. Course: the loss of each twentieth of the stream, on a\n"
        "logarithmic scale. Time: in the learner, on one core. Points: held at the end.",
        style="dim",
    )


def _table(racers: list[Racer], rows: int, console: Any) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("learner", style="bold", no_wrap=True)
    for title in ("loss", "last 5%", "us a row", "points", "memory"):
        table.add_column(title, justify="right", no_wrap=True)
    drawn = console.encoding.lower().startswith("utf")
    table.add_column("course" if drawn else "", no_wrap=True, min_width=SEGMENTS)
    losses = [record.windowed["mse"] for racer in racers for record in racer.records]
    scale = (
        min(losses, default=0.0),
        max((r.windowed["mse"] for r in racers[-1].records), default=0.0),
    )
    for racer in racers:
        cells = _cells(racer)
        if drawn and racer.records:
            cells.append(screen.course([r.windowed["mse"] for r in racer.records], *scale))
        table.add_row(racer.name, *cells)
    return table


def _cells(racer: Racer) -> list[str]:
    if not racer.records:
        return []
    last = racer.records[-1]
    return [
        screen.number(last.metrics["mse"]),
        screen.number(last.windowed["mse"]),
        f"{last.microseconds_a_row:.2f}",
        f"{last.size:,}" if last.size else "-",
        screen.size(held_bytes(racer.evaluation.model)),
    ]


def _as_dict(racers: list[Racer], rows: int, seed: int) -> dict[str, Any]:
    results = []
    for racer in racers:
        last = racer.records[-1].to_dict() | {"memory": held_bytes(racer.evaluation.model)}
        course = [record.windowed["mse"] for record in racer.records]
        results.append({"name": racer.name, "params": racer.params, **last, "course": course})
    return {
        "stream": "drifting",
        "rows": rows,
        "seed": seed,
        "learners": results[:-1],
        "baseline": results[-1],
        "versions": screen.versions(),
    }
