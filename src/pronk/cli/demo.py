"""`pronk demo`: `pronk run` on a generated file, and the command for a file of one's own.

The generated file has what real files have: a time, a category, numbers with missing values, and a
target whose dependence on them changes along the stream.
"""

from __future__ import annotations

import csv
import shlex
import sys
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
from rich.console import Console

from pronk.cli import screen
from pronk.cli.screen import CommandError

#: Files in the folder.
DATA, PAGE, PREDICTIONS, MODEL = "rentals.csv", "page.html", "predictions.csv", "model.pronk"
TARGET = "rentals"
STATIONS = ("harbour", "museum", "park", "station", "university")
#: The share of the rows after which the price is halved, and the share of temperatures missing.
CHANGE, GAPS = 0.6, 0.02


def write_rentals(path: Path, rows: int, seed: int) -> None:
    """Write a file of hourly rentals of bicycles at five stations."""
    rng = np.random.default_rng(seed)
    hours = np.arange(rows) // len(STATIONS)
    place = np.arange(rows) % len(STATIONS)
    hour, weekend = hours % 24, (hours // 24) % 7 >= 5
    season = np.sin(2 * np.pi * hours / (24 * 60))
    temperature = 12 + 8 * season + 4 * np.sin(2 * np.pi * (hour - 9) / 24)
    temperature += rng.normal(0, 1.5, rows)
    rain = rng.random(rows) < 0.15
    peak = np.exp(-0.5 * ((hour - 8) / 1.5) ** 2) + np.exp(-0.5 * ((hour - 17) / 2.0) ** 2)
    leisure = np.exp(-0.5 * ((hour - 14) / 4.0) ** 2)
    commuters = np.array([0.4, 0.3, 0.2, 1.0, 0.8])[place]
    mean = 4 + 30 * np.where(weekend, 0.6 * leisure, commuters * peak + 0.3 * leisure)
    mean *= np.exp(-(((temperature - 21) / 14) ** 2)) * np.where(rain, 0.5, 1.0)
    mean *= np.where(np.arange(rows) >= CHANGE * rows, 2.0, 1.0)
    rentals = rng.poisson(mean)
    unknown = rng.random(rows) < GAPS
    start = datetime(2025, 3, 1)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["time", "place", "temperature", "rain", TARGET])
        for i in range(rows):
            when = start + timedelta(hours=int(hours[i]))
            degrees = "" if unknown[i] else f"{temperature[i]:.1f}"
            wet = "yes" if rain[i] else "no"
            writer.writerow([when.isoformat(), STATIONS[place[i]], degrees, wet, rentals[i]])


def run_demo(folder: Path, *, rows: int, seed: int, as_json: bool) -> None:
    """Write the file, run `pronk run` on it, print the command for another file."""
    from pronk.cli.app import app

    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_rentals(folder / DATA, rows, seed)
    except OSError as error:
        reason = error.strerror or error
        raise CommandError(f"--output: {str(folder)!r} cannot be written: {reason}") from None
    choices = ["--categorical", "auto", "--missing", "mean", "--interval", "0.9"]
    outputs = {"--predictions": PREDICTIONS, "--save": MODEL, "--report": PAGE}
    command = ["run", str(folder / DATA), "--target", TARGET, "--task", "regression", *choices]
    command += [text for name, file in outputs.items() for text in (name, str(folder / file))]
    console = screen.messages() if as_json else screen.output()
    _print(console, f"Generated {folder / DATA}. The command that learns it:\n")
    _print(console, f"    {shlex.join(['pronk', *command])}\n", "bold")
    app(args=[*command, *(["--json"] if as_json else [])], standalone_mode=False)
    # In a clone the command is in .venv, which may not be on the PATH.
    name = sys.argv[0] if Path(sys.argv[0]).name == "pronk" else "pronk"
    _print(console, f"\nOpen {folder / PAGE} in a browser. The command for a file of your own:\n")
    words = ["FILE", "--target", "COLUMN", "--categorical", "auto", "--missing", "mean"]
    _print(console, f"    {shlex.join([name, 'run', *words, '--report', 'page.html'])}\n", "bold")


def _print(console: Console, text: str, style: str = "") -> None:
    """Print a line without wrapping, so that it can be copied."""
    console.print(text, style=style, markup=False, soft_wrap=True)
