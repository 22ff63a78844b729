"""Download a data set from its original public source, verify and store it.

pooch downloads. No checksums of the original archives are published, so the parsed array is
verified instead (`datasets.store`), before anything is stored.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import urlsplit

from papers import datasets
from papers.datasets import DataError, DataSet, parse

#: Called with a file's name, the bytes so far, and all bytes where they are known.
Progress = Callable[[str, int, int | None], None]

#: Stop a download beyond this size; no original is larger.
MOST_BYTES = 1 << 30


def fetch(dataset: DataSet, progress: Progress | None = None, mirror: str | None = None) -> Path:
    """Download, parse, verify and store a set; return the path of the stored file.

    An original that is already in the data directory is not downloaded. ``mirror`` is the
    address of a directory that holds files of the same names.
    """
    if dataset.source is None:
        raise DataError(
            f"data set {dataset.name} has no public source of exactly these rows "
            f"({dataset.note}): put {dataset.file} at "
            f"{datasets.directories()[0] / dataset.file} by hand"
        )
    with tempfile.TemporaryDirectory(prefix="pronk-") as directory:
        files = []
        for i, url in enumerate(dataset.source.urls):
            name = Path(urlsplit(url).path).name
            by_hand = datasets.directories()[0] / name
            if by_hand.is_file():
                files.append((by_hand, name))
                continue
            if mirror is not None:
                url = f"{mirror.rstrip('/')}/{name}"
            try:
                path = _download(url, Path(directory) / str(i), name, progress)
            except (OSError, ValueError) as error:  # those of requests are OSErrors
                raise _unreachable(dataset, url, error) from error
            files.append((path, name))
        try:
            X, y = parse(dataset, files)
        except Exception as error:  # a page about an error instead of the file, a cut download
            raise DataError(
                f"what {dataset.source.urls[0]} sent is not the data set {dataset.name}: {error}"
            ) from error
        return datasets.store(dataset, X, y)


def _download(url: str, place: Path, name: str, progress: Progress | None) -> Path:
    import pooch

    def download(url: str, output: str, _: Any) -> None:
        with open(output, "wb") as file:
            meter = _Meter(file, name, progress)
            # as it is: a packed file is not to be unpacked on the way
            headers = {"User-Agent": "pronk", "Accept-Encoding": "identity"}
            fetch = pooch.HTTPDownloader(meter, 1 << 16, timeout=30, headers=headers)
            fetch(url, meter, None)

    pooch.get_logger().setLevel("WARNING")
    return Path(pooch.retrieve(url, None, name, place, downloader=download))


class _Meter:
    """The file that pooch writes to, and its progress bar: counts bytes."""

    total = 0

    def __init__(self, file: BinaryIO, name: str, progress: Progress | None) -> None:
        self._file, self._name, self._progress = file, name, progress
        self._done = 0

    def write(self, chunk: bytes) -> None:
        self._done += len(chunk)
        if self._done > MOST_BYTES:
            raise OSError(f"more than {MOST_BYTES:,} bytes came")
        self._file.write(chunk)
        if self._progress is not None:
            self._progress(self._name, self._done, self.total or None)

    def flush(self) -> None:
        """Do nothing: the file is closed at the end."""

    def update(self, size: int) -> None:
        """Do nothing: `write` counts bytes, pooch whole chunks."""

    def reset(self) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


def _unreachable(dataset: DataSet, url: str, error: Exception) -> DataError:
    inner: BaseException = error
    while (cause := inner.__cause__ or inner.__context__) is not None:
        inner = cause
    reason = getattr(inner, "strerror", None) or error  # what the system said, without its layers
    place = datasets.directories()[0] / Path(urlsplit(url).path).name
    return DataError(
        f"{url} cannot be downloaded ({reason}); put that file at {place} by hand and fetch again, "
        f"or {dataset.file} beside it"
    )
