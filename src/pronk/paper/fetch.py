"""Download a data set from its original public source, verify it, keep it."""

from __future__ import annotations

import tempfile
import urllib.request
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

from pronk.paper import data
from pronk.paper.data import DataError, DataSet
from pronk.paper.parsers import parse

#: Called with a file's name, the bytes so far, and all bytes where they are known.
Progress = Callable[[str, int, int | None], None]


def fetch(dataset: DataSet, progress: Progress | None = None, mirror: str | None = None) -> Path:
    """Download, parse, verify and store a set; the stored file.

    An original that was put into the data directory by hand is not downloaded. ``mirror`` is the
    address of a directory that holds files of the same names.
    """
    if dataset.source is None:
        raise DataError(
            f"data set {dataset.name} has no public source of exactly these rows "
            f"({dataset.note}): put {dataset.file} at "
            f"{data.directories()[0] / dataset.file} by hand"
        )
    with tempfile.TemporaryDirectory(prefix="pronk-") as directory:
        files = []
        for i, url in enumerate(dataset.source.urls):
            name = Path(urlsplit(url).path).name
            by_hand = data.directories()[0] / name
            if by_hand.is_file():
                files.append((by_hand, name))
                continue
            if mirror is not None:
                url = f"{mirror.rstrip('/')}/{name}"
            path = Path(directory) / str(i)
            try:
                _download(url, path, name, progress)
            except (OSError, ValueError) as error:  # urllib's errors are OSErrors
                raise _unreachable(dataset, url, error) from error
            files.append((path, name))
        try:
            X, y = parse(dataset, files)
        except Exception as error:  # a page about an error instead of the file, a cut download
            raise DataError(
                f"what {dataset.source.urls[0]} sent is not the data set {dataset.name}: {error}"
            ) from error
        return data.store(dataset, X, y)


def _download(url: str, path: Path, name: str, progress: Progress | None) -> None:
    request = urllib.request.Request(url, headers={"User-Agent": "pronk"})
    with urllib.request.urlopen(request, timeout=30) as response, path.open("wb") as file:
        length = response.headers.get("Content-Length")
        total = int(length) if length else None
        done = 0
        while chunk := response.read(1 << 16):
            file.write(chunk)
            done += len(chunk)
            if progress is not None:
                progress(name, done, total)
    if total is not None and done != total:
        raise OSError(f"the connection ended after {done:,} of {total:,} bytes")


def _unreachable(dataset: DataSet, url: str, error: Exception) -> DataError:
    reason = getattr(error, "reason", None) or error
    place = data.directories()[0] / Path(urlsplit(url).path).name
    return DataError(
        f"{url} cannot be downloaded ({reason}); put that file at {place} by hand and fetch again, "
        f"or {dataset.file} beside it"
    )
