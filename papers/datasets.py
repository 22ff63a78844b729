"""The papers' data sets: where they are stored, their checksums, how they are read and scaled.

A set is a Parquet file (float32 columns x0 .. and y; w8a may also be two files of LIBSVM text) in
the directory PRONK_DATA or in the user's cache. What is read is verified: by the SHA-256 of the
file, or, for a file made from a fetched original, by that of the parsed array, float32 X row by row
and then float32 y.
"""

from __future__ import annotations

import bz2
import gzip
import hashlib
import io
import lzma
import os
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from pronk.core.checks import did_you_mean
from pronk.estimators.atomic import write_atomically

Array = NDArray[np.float64]
Single = NDArray[np.float32]

LIBSVM = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets"
UCI = "https://archive.ics.uci.edu/ml/machine-learning-databases"


class DataError(ValueError):
    """A data set that is unknown, missing or not what it should be."""


@dataclass(frozen=True)
class Original:
    """The original files, and how their numbers become X and y (see `parse`)."""

    urls: tuple[str, ...]
    form: str
    """"libsvm", "csv" or "spaced"; a name that ends in .gz, .bz2, .xz or .zip is unpacked first."""
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class DataSet:
    """A data set and its checksums; ``array`` is the SHA-256 of its numbers."""

    name: str
    file: str
    rows: int
    columns: int
    task: str
    array: str
    files: dict[str, str]
    """Known files and their SHA-256."""
    source: Original | None = None
    split: int | None = None
    """Rows of the training part, where the original comes in two parts."""
    note: str = ""


_DATASETS = (
    DataSet(
        "parkinson", "parkinsons.parquet", 5_875, 20, "regression",
        "eb6462d976a99bfa7ba445527ba7f93735b7db62adb7bc8ee9bd27402982bfe3",
        {"parkinsons.parquet": "3f36d1b32376381ed39b537c265920d33c53b9a3ecc6cc95c6d9bc6448b78139"},
        Original((f"{UCI}/parkinsons/telemonitoring/parkinsons_updrs.data",), "csv",
               {"skip": 1, "target": 5, "drop": (4,)}),
        note="y is total_UPDRS; subject number, age, sex and test time are among the 20 columns",
    ),
    DataSet(
        "cpusmall", "cpusmall.parquet", 8_192, 12, "regression",
        "d78b97018d8dc23136025a52547989d6108991242be55782638f75114fd6e8c4",
        {"cpusmall.parquet": "4fd5565794da22244bdd00269de7b05fdaecb5172e5eaa1c151c4b720b9be684"},
        Original((f"{LIBSVM}/regression/cpusmall",), "libsvm"),
    ),
    DataSet(
        "cadata", "cadata.parquet", 20_640, 8, "regression",
        "f6744d88fae4369b939ea69a44332e91562173a1e2bc1e4c05d5f06438e50f00",
        {"cadata.parquet": "9772383af68e4aa84e5c7a55b7dfc19c5fe72316e2b70393bdc8b8adba2a8fbd"},
        Original((f"{LIBSVM}/regression/cadata",), "libsvm"),
    ),
    DataSet(
        "casp", "casp.parquet", 45_730, 9, "regression",
        "62e9d3eac03835f3e91e8756edf25f6851ccb18ff1f338b5ccc92a80ef99d7d1",
        {"casp.parquet": "6b36d391cf9b4ff4ad2d7a2bbc0db16f7e8b07bdd2cb3be117e997ef8265db2a"},
        Original((f"{UCI}/00265/CASP.csv",), "csv", {"skip": 1, "target": 0}),
    ),
    DataSet(
        "ijcnn1", "ijcnn1.parquet", 141_691, 22, "classification",
        "383e771617205d5763e6c8aed8e2b40cf8a027eb2cb294c7e24cd5155558a872",
        {"ijcnn1.parquet": "f2793f1a2aa198f8d45b5d628df8eea3ac4db71bff5fbd3c2086d8c7fa77661c"},
        Original((f"{LIBSVM}/binary/ijcnn1.bz2", f"{LIBSVM}/binary/ijcnn1.t.bz2"), "libsvm"),
        split=49_990,
    ),
    DataSet(
        "cod-rna", "codrna.parquet", 331_152, 8, "classification",
        "3e5553218a175d40b9a5c6e6364a81340114514fcfe29e7ab2d6ca31b8d3e3b9",
        {"codrna.parquet": "e4b79fcc7847023f23146fa17f204db6587e12e44417cfbb4d11e9596f3a6232"},
        Original((f"{LIBSVM}/binary/cod-rna", f"{LIBSVM}/binary/cod-rna.t"), "libsvm"),
        split=59_535,
    ),
    DataSet(
        "w8a", "w8a.parquet", 64_700, 300, "classification",
        "8ec07ee9079d8feb5113a5fb118771bc0fc71987824f52a279c5997c5ed49729",
        {
            "w8a.train.libsvm.gz":
                "5b37f5a31d2c7f65d8f44fdd7b1f5034bcf595c4a2c49e3bc00f80ded4ec8f2f",
            "w8a.test.libsvm.gz":
                "3e232110d10f3ee7b903455783af1255b51d92535ae83fb4c91c7c5be2129b43",
        },
        Original((f"{LIBSVM}/binary/w8a", f"{LIBSVM}/binary/w8a.t"), "libsvm"),
        split=49_749,
    ),
    DataSet(
        "covtype", "covtype.parquet", 581_012, 54, "classification",
        "98de8b2e6e21addea3c713fbb5986d82e4646a4d7a45e7108cafbc50e3ebfa55",
        {"covtype.parquet": "5a40043ac7e61b41c3a8e06ad3f5a3225b8c63e974e64a81581a2f703ba8e1ca"},
        Original((f"{UCI}/covtype/covtype.data.gz",), "csv", {"target": 54}),
        note="seven classes; class 2 against the rest in LIBSVM's covtype.binary",
    ),
    DataSet(
        "susy_30k", "susy_30k.parquet", 30_000, 18, "classification",
        "6165daeae3260c5ae17d8c84e63579d8af1cc4a9d12ab14f98e4942762a44ba4",
        {"susy_30k.parquet": "e61b39be5cf21d4cdddae475ba706f72ab24cc4398e1e4251b617295582009be"},
        note="30,000 of the 5,000,000 rows of SUSY; how they were drawn is not known",
    ),
    DataSet(
        "airlines2008_26k", "airlines2008_26k.parquet", 25_888, 8, "regression",
        "a80d323802c720cba073ff007d33961c635666eca04b57c2b6bbedaccbb0dba1",
        {"airlines2008_26k.parquet":
            "c1fb3a65eca1956c89695bd52e2fd59da1a8fedee59a884815f5b50f51e77343"},
        note="25,888 of the 5,929,413 rows: February 2008, four carriers; y in minutes",
    ),
    DataSet(
        "flights2001_3m", "flights2001_3m.parquet", 3_000_000, 7, "regression",
        "e607428a13e96cd65a08400e2e16386866b4f248be49075389266a925912ed25",
        {"flights2001_3m.parquet":
            "919eaf2e47dd052d0d64b81b7783e7e689b202016054145fa95c1b1f5d38fdbb"},
        note="another set in place of airlines: January to June 2001, 7 columns; y in minutes",
    ),
    DataSet(
        "elec2", "elec2.parquet", 45_312, 8, "classification",
        "2240f7e7b16db5818334d251f395ac120d9b5145a165056b8131bd6b28c2d1dd",
        {"elec2.parquet": "a8000d64c36b5b0c548f681f4fa5ad02ce99b02941722af43ae21460e17333af"},
        note="the normalised form, in time order",
    ),
    DataSet(
        "powerplant", "powerplant.parquet", 9_568, 4, "regression",
        "2fd5fe7bb6ef327a0010c36da7ba70b032cbd469a006ada89b96e7ee29a791a3",
        {"powerplant.parquet": "acaf18658cc47eb8d16ca5173c7e0c0be2c0ebcca8dcd65b29f9557b99452ca1"},
    ),
    DataSet(
        "abalone", "abalone.parquet", 4_177, 8, "regression",
        "325914473f01783f3d72cdd00f82a0056b11022eac808a62d644c4c84ce49f15",
        {"abalone.parquet": "6bef777ef4fb6f3046ae2626bee58e12d42c05930ef36c3d3aa4fc952a335dc5"},
        Original((f"{UCI}/abalone/abalone.data",), "csv",
               {"target": 8, "codes": {"M": 1.0, "F": 2.0, "I": 3.0}}),
    ),
    DataSet(
        "bike_hour", "bike_hour.parquet", 17_379, 12, "regression",
        "ca868c48c39aa7ce59b8810d53309ef9424c21d359403a72071fade1c568ad09",
        {"bike_hour.parquet": "4206143200b2c956acc9c231c4728fb0b17a6fba81cebca9ce5bd8ed1cf47b55"},
        Original((f"{UCI}/00275/Bike-Sharing-Dataset.zip",), "csv",
               {"member": "hour.csv", "skip": 1, "target": 16, "drop": (0, 1, 14, 15)}),
    ),
    DataSet(
        "letter", "letter.parquet", 20_000, 16, "classification",
        "aee1846ea7cc03e4e3e2bf800e17788116f208fd44a1b3a852596af6b7cf3043",
        {"letter.parquet": "0babd14662b231aa599e61e92b3c5159a0769b603ad7ae0ca871cf8c6fc06bac"},
        Original((f"{UCI}/letter-recognition/letter-recognition.data",), "csv",
               {"target": 0, "codes": {chr(65 + i): i + 1.0 for i in range(26)}}),
        split=16_000,
        note="26 classes",
    ),
)  # fmt: skip

DATASETS: dict[str, DataSet] = {dataset.name: dataset for dataset in _DATASETS}
_ALIASES = {"codrna": "cod-rna", "parkinsons": "parkinson"}


def find(name: str) -> DataSet:
    """Return the set of that name, or raise an error that suggests the nearest one."""
    name = _ALIASES.get(name, name)
    if name in DATASETS:
        return DATASETS[name]
    hint = did_you_mean(name, [*DATASETS, *_ALIASES], f"; known: {', '.join(DATASETS)}")
    raise DataError(f"data set {name!r} is not known{hint}")


# -- places ------------------------------------------------------------------------------------


def cache_directory() -> Path:
    """Return the user's cache directory; XDG_CACHE_HOME overrides it."""
    import pooch

    return Path(pooch.os_cache("pronk")) / "data"


def directories() -> list[Path]:
    """Return the directories to search; fetched sets are stored in the first."""
    chosen = os.environ.get("PRONK_DATA")
    return [Path(chosen), cache_directory()] if chosen else [cache_directory()]


def locate(dataset: DataSet) -> list[Path] | None:
    """Return the files of a set, or None."""
    for directory in directories():
        for names in ([dataset.file], list(dataset.files)):
            paths = [directory / name for name in names]
            if paths and all(path.is_file() for path in paths):
                return paths
    return None


def missing(dataset: DataSet) -> DataError:
    """Return an error that says how to get a missing set."""
    place = directories()[0] / dataset.file
    fetch = (
        f"`python -m papers data fetch {dataset.name}` downloads it, or " if dataset.source else ""
    )
    return DataError(
        f"data set {dataset.name} is not here; {fetch}put {dataset.file} at {place} by hand "
        f"(float32 columns x0..x{dataset.columns - 1} and y, {dataset.rows:,} rows)"
    )


# -- reading -----------------------------------------------------------------------------------


def array_checksum(X: Single, y: Single) -> str:
    """Return the SHA-256 of X, row by row, and then y."""
    digest = hashlib.sha256(np.ascontiguousarray(X, dtype=np.float32).tobytes())
    digest.update(np.ascontiguousarray(y, dtype=np.float32).tobytes())
    return digest.hexdigest()


def file_checksum(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read(dataset: DataSet) -> tuple[Single, Single]:
    """Read and verify a set, unscaled."""
    paths = locate(dataset)
    if paths is None:
        raise missing(dataset)
    known = all(dataset.files.get(path.name) == file_checksum(path) for path in paths)
    try:
        X, y = _read(dataset, paths)
    except Exception as error:  # PyArrow has many kinds
        raise DataError(f"{paths[0]} cannot be read: {error}") from error
    if not known and array_checksum(X, y) != dataset.array:
        raise DataError(
            f"{', '.join(map(str, paths))}: not the data set {dataset.name} "
            f"(its checksum differs); remove it and fetch it again"
        )
    return X, y


def _read(dataset: DataSet, paths: list[Path]) -> tuple[Single, Single]:
    if paths[0].suffix == ".parquet":
        import pyarrow.parquet as parquet

        names = [f"x{i}" for i in range(dataset.columns)]
        table = parquet.read_table(paths[0], columns=[*names, "y"])
        X = np.empty((table.num_rows, len(names)), dtype=np.float32)
        for i, name in enumerate(names):
            X[:, i] = table[name].to_numpy()
        return X, table["y"].to_numpy().astype(np.float32)
    parts = [parse_libsvm(unpacked(path), dataset.columns) for path in paths]
    return np.concatenate([X for X, _ in parts]), np.concatenate([y for _, y in parts])


def store(dataset: DataSet, X: Single, y: Single) -> Path:
    """Verify parsed numbers and store them as Parquet, in one atomic write."""
    import pyarrow as pa
    import pyarrow.parquet as parquet

    if X.shape != (dataset.rows, dataset.columns) or array_checksum(X, y) != dataset.array:
        raise DataError(
            f"what was downloaded is not the data set {dataset.name}: {X.shape[0]:,} rows of "
            f"{X.shape[1]} columns, checksum {array_checksum(X, y)[:12]}.. in place of "
            f"{dataset.rows:,} of {dataset.columns}, {dataset.array[:12]}..; nothing was stored"
        )
    columns = {f"x{i}": X[:, i] for i in range(X.shape[1])}
    table = pa.table({**columns, "y": y})
    packed = pa.BufferOutputStream()
    parquet.write_table(table, packed, compression="zstd")
    place = directories()[0] / dataset.file
    place.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(place, packed.getvalue())
    return place


# -- parsing the original files --------------------------------------------------------------------


def unpacked(path: Path, name: str | None = None, member: str | None = None) -> BinaryIO:
    """Open a file for reading, decompressed according to the suffix of its name."""
    ending = Path(name or path.name).suffix
    if ending == ".zip":
        with zipfile.ZipFile(path) as archive:
            names = [entry for entry in archive.namelist() if not entry.endswith("/")]
            chosen = member or names[0]
            return io.BytesIO(archive.read(chosen))
    openers: dict[str, Any] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
    opened: BinaryIO = openers.get(ending, open)(path, "rb")
    return opened


def parse_libsvm(file: BinaryIO, columns: int) -> tuple[Single, Single]:
    """Parse lines "label index:value ..", indices from 1; a line may have no values."""
    from sklearn.datasets import load_svmlight_file

    with file:
        X, y = load_svmlight_file(file, n_features=columns, zero_based=False)
    return X.astype(np.float32).toarray(), y.astype(np.float32)


def parse_csv(
    file: BinaryIO,
    *,
    target: int,
    drop: Iterable[int] = (),
    skip: int = 0,
    delimiter: str | None = ",",
    codes: dict[str, float] | None = None,
    member: str | None = None,
) -> tuple[Single, Single]:
    """Parse lines of numbers, one column the target; ``codes`` are the numbers of words."""
    del member  # read by `unpacked`
    with file:
        lines = file.read().decode("utf-8", "replace").splitlines()
    cells = [line.split(delimiter) for line in lines[skip:] if line.strip()]
    width = len(cells[0]) if cells else 0
    left = set(drop) | {target}
    numbers = {i: _column(cells, i, codes or {}) for i in range(width) if i not in set(drop)}
    X = np.column_stack([numbers[i] for i in range(width) if i not in left])
    return X.astype(np.float32), numbers[target].astype(np.float32)


def _column(cells: list[list[str]], i: int, codes: dict[str, float]) -> Any:
    try:
        words = [row[i].strip() for row in cells]
    except IndexError:
        raise ValueError(f"a line has fewer than {i + 1} columns") from None
    if words[0] in codes:
        return np.array([codes[word] for word in words])
    return np.array(words, dtype=np.float64)


def parse(dataset: DataSet, files: list[tuple[Path, str]]) -> tuple[Single, Single]:
    """Parse the downloaded files (path, original name) of a set into X and y."""
    if dataset.source is None:
        raise ValueError(f"data set {dataset.name} has no original to parse")
    options = dataset.source.options
    parts = []
    for path, name in files:
        file = unpacked(path, name, options.get("member"))
        if dataset.source.form == "libsvm":
            parts.append(parse_libsvm(file, dataset.columns))
        else:
            delimiter = None if dataset.source.form == "spaced" else ","
            parts.append(parse_csv(file, delimiter=delimiter, **options))
    return np.concatenate([X for X, _ in parts]), np.concatenate([y for _, y in parts])


# -- scaling as in the papers ------------------------------------------------------------------


def to_range(values: NDArray[Any], low: float, high: float) -> Array:
    """Scale each column from its range to [low, high]; a constant column to low.

    >>> import numpy as np
    >>> from papers.datasets import to_range
    >>> print(to_range(np.array([[1.0], [2.0], [5.0]]), -1, 1)[:, 0])
    [-1.  -0.5  1. ]
    """
    values = np.asarray(values, dtype=np.float64)
    least, largest = values.min(axis=0), values.max(axis=0)
    width = np.where(largest > least, largest - least, 1.0)
    return low + (high - low) * ((values - least) / width)


@dataclass(frozen=True)
class DataView:
    """A data set as an experiment uses it: scaling, part, labels."""

    data: str
    x: tuple[float, float] | None = (0.0, 1.0)
    """Range of the columns; None leaves them as they are."""
    y: tuple[float, float] = (0.0, 1.0)
    """Range of a number to predict."""
    part: str = "all"
    """"all", "train" or "test"."""
    positive: float | None = None
    """The label of the positive class against the rest; None: labels as in the file."""
    above: float | None = None
    """Label +1 where y is above this number, -1 elsewhere."""

    @property
    def task(self) -> str:
        labels = self.positive is not None or self.above is not None
        return "classification" if labels else find(self.data).task


@lru_cache(maxsize=1)
def load(view: DataView) -> tuple[Array, Array]:
    """Load X and y of a view, as read-only arrays."""
    dataset = find(view.data)
    single, target = read(dataset)
    X = single.astype(np.float64) if view.x is None else to_range(single, *view.x)
    y = target.astype(np.float64)
    if view.positive is not None:
        y = np.where(y == view.positive, 1.0, -1.0)
    elif view.above is not None:
        y = np.where(y > view.above, 1.0, -1.0)
    elif dataset.task == "regression":
        y = to_range(y[:, None], *view.y)[:, 0]
    if view.part != "all":
        if dataset.split is None:
            raise DataError(f"data set {dataset.name} does not come in two parts")
        chosen = slice(dataset.split) if view.part == "train" else slice(dataset.split, None)
        X, y = X[chosen], y[chosen]
    X.flags.writeable = False
    y.flags.writeable = False
    return X, y


def need(names: Iterable[str]) -> None:
    """Raise an error if a set is missing."""
    for name in names:
        dataset = find(name)
        if locate(dataset) is None:
            raise missing(dataset)
