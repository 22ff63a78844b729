"""Snapshots of a run, from which it resumes after an interruption, in one file written atomically.

A snapshot holds the model with its scaling and its random streams, the metrics, the position in the
input and the position in each output file. It is taken between two blocks, and blocks are counted
from the start of the stream, so a resumed run sees the same blocks as an uninterrupted one and ends
with the same bits. The predictions are on disk before the snapshot that counts them; rows written
after it are removed when the run resumes.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pronk.cli.screen import CommandError
from pronk.core.state import StateError, checked_count, require
from pronk.data import Reading, StreamError
from pronk.data.errors import without_secrets
from pronk.data.opening import SEVERAL, files_in_order, reads_once
from pronk.data.source import located
from pronk.estimators.atomic import FileLock, InUse, remove_leftovers
from pronk.estimators.files import (
    CHECKPOINT,
    ModelFileError,
    load_checkpoint,
    read_header,
    save_checkpoint,
)

#: Bytes at the start of an input file that must be the same when a run resumes.
_HEAD = 1 << 16


#: Extensions of files in which a row is a line.
_LINES = (".csv", ".tsv", ".txt", ".ndjson", ".jsonl", ".libsvm", ".svmlight", ".svm")


#: The entries of a snapshot and their kinds.
_PARTS: dict[str, tuple[type, ...]] = {
    "settings": (dict,),
    "rows": (int,),
    "model": (dict, type(None)),
    "evaluation": (dict,),
    "training_record": (dict,),
    "predictions": (list, type(None)),
    "metrics": (list, type(None)),
    "bad": (list, type(None)),
    "finished": (bool,),
}


class Checkpoint:
    """The snapshots of one run.

    ``settings`` are the options on which the result depends; loading a snapshot of other settings
    raises. ``files`` are those of the input, in order. Passwords in URLs are not stored.
    """

    def __init__(
        self, path: Path, every: int, settings: dict[str, Any], files: Sequence[Any] = ()
    ) -> None:
        self.path = path
        self.every = every
        self.settings = without_secrets(settings)
        self._files = files  # of the input
        self.rows = 0  # of the stream, in the last good snapshot

    def load(self) -> dict[str, Any] | None:
        """Return the last snapshot, or None."""
        remove_leftovers(self.path)
        if not self.path.exists():
            return None
        try:
            tree = load_checkpoint(self.path)
        except ModelFileError as error:
            raise CommandError(f"--checkpoint: {error}") from None
        with damage_reported(f"--checkpoint: {str(self.path)!r}"):
            for name, kinds in _PARTS.items():
                require(type(tree.get(name)) in kinds, f"{name} is missing or has the wrong type")
            checked_count(tree["rows"], "rows")
            for name in ("metrics", "bad"):
                require_position(tree[name], name, 2)
            require_position(tree["predictions"], "predictions", 4)
            self._compare(tree["settings"])
        self.rows = tree["rows"]
        return tree

    def _compare(self, held: dict[str, Any]) -> None:
        for name, value in self.settings.items():
            before = held.get(name)
            if name == "input":
                changed = _changed(before, value, self._files)
                if changed:
                    raise CommandError(
                        f"--checkpoint: {str(self.path)!r} was made from another state of the "
                        f"input file, {changed}; remove the checkpoint to start over"
                    )
            elif before != value:
                raise CommandError(
                    f"--checkpoint: {str(self.path)!r} was made with {name} {before!r}, now it is "
                    f"{value!r}; use the same options, or remove the checkpoint to start over"
                )

    def grown(self, tree: dict[str, Any]) -> bool:
        """Return whether the input has grown since a snapshot."""
        before, now = tree["settings"].get("input"), self.settings["input"]
        return bool(before and now) and any(before[k] != now[k] for k in ("names", "sizes"))

    def due(self, rows: int) -> bool:
        """Return whether the next snapshot is due."""
        return rows - self.rows >= self.every

    def save(self, rows: int, **parts: Any) -> None:
        """Replace the snapshot; if writing fails, the last one remains."""
        tree = {"settings": self.settings, "rows": rows, **parts}
        try:
            save_checkpoint(tree, self.path)
        except OSError as error:
            raise CommandError(
                f"--checkpoint: {str(self.path)!r} cannot be written: {error.strerror or error}; "
                f"{self.advice()}",
                1,
            ) from None
        self.rows = rows

    def advice(self) -> str:
        """Return how to resume from the last snapshot."""
        if not self.rows:
            return "there is no snapshot yet"
        return f"snapshot after {self.rows:,} rows: give the same command again to resume"


def checkpoint_record(path: Path) -> dict[str, Any] | None:
    """Return the training record in a checkpoint; None for a saved model."""
    if read_header(path)["class"] != CHECKPOINT:
        return None
    tree = load_checkpoint(path)
    with damage_reported(f"--model: {str(path)!r}", "train it again"):
        evaluation = {**tree["evaluation"], "waiting": []}
        return {**tree["training_record"], "evaluation": without_part(evaluation)}


def without_part(evaluation: dict[str, Any]) -> dict[str, Any]:
    """Return the state of an evaluation without the counts of this input."""
    return {name: value for name, value in evaluation.items() if name != "part"}


@contextmanager
def locked(path: Path | None) -> Iterator[None]:
    """Lock a checkpoint, so that two runs cannot write to the same files."""
    if path is None:
        yield
        return
    beside = Path(os.path.realpath(path))
    try:
        lock = FileLock(
            beside.with_name(f".{beside.name}.lock"), f"--checkpoint: {str(path)!r}",
            "wait for it to end, or choose another checkpoint and other outputs", keep_file=False,
        )  # fmt: skip
    except InUse as error:
        raise CommandError(str(error)) from None
    except OSError as error:
        reason = error.strerror or error
        raise CommandError(f"--checkpoint: {str(path)!r} cannot be locked: {reason}") from None
    with lock:
        yield


@contextmanager
def damage_reported(
    where: str, advice: str = "remove the checkpoint to start over"
) -> Iterator[None]:
    """Turn any error while a file is read into one line that says where and what to do."""
    try:
        yield
    except (CommandError, StreamError, MemoryError):
        raise
    except Exception as error:
        text = str(error).partition("\n")[0] or type(error).__name__
        if not isinstance(error, StateError | ModelFileError):
            text = f"{type(error).__name__}: {text}"
        raise CommandError(f"{where} is damaged or was edited ({text}); {advice}") from None


def require_position(place: Any, name: str, size: int) -> None:
    """Check a position in an output file: rows, bytes and further entries."""
    if place is None:
        return
    require(isinstance(place, list) and len(place) == size, f"{name} is not a position in a file")
    for value in place[:2]:
        checked_count(value, name)


def input_files(reading: Reading) -> list[Any]:
    """Return the files of an input, in order; none for standard input, pipes and queries."""
    if reading.query is not None or reads_once(reading.file):
        return []
    if SEVERAL in reading.file:
        return files_in_order(reading.file)
    path = located(reading.file)
    return [path] if path.is_file() else files_in_order(path)


def fingerprint(files: Sequence[Any]) -> Any:
    """Return what identifies the input of a snapshot: names, sizes, hashes of start and end."""
    if not files:
        return None
    with files[0].open("rb") as file:
        head = file.read(_HEAD)
    return {
        "names": [file.name for file in files],
        "sizes": [file.stat().st_size for file in files],
        "head": [len(head), hashlib.sha256(head).hexdigest()],
        "tail": _tail(files[-1], files[-1].stat().st_size),
    }


def _tail(path: Any, size: int) -> list[Any]:
    """Return a hash of the last bytes before a position, and whether a line ends there."""
    with path.open("rb") as file:
        file.seek(max(0, size - _HEAD))
        data = file.read(min(size, _HEAD))
    return [hashlib.sha256(data).hexdigest(), data.endswith(b"\n")]


def _changed(before: Any, now: Any, files: Sequence[Any]) -> str:
    """Return how the input differs; nothing if only files or rows were appended."""
    changed = "which has changed since"
    if before is None or now is None:
        return "" if before is now else changed
    known = len(before["names"])
    if now["names"][:known] != before["names"]:
        return changed
    length, digest = before["head"]
    with files[0].open("rb") as file:
        if hashlib.sha256(file.read(length)).hexdigest() != digest:
            return changed
    if before["sizes"][:-1] != now["sizes"][: known - 1]:
        return changed
    size, name = before["sizes"][-1], before["names"][-1]
    grown = now["sizes"][known - 1] - size
    if grown < 0 or (grown and name.endswith((".parquet", ".pq"))):
        return changed
    path = files[known - 1]
    if _tail(path, size)[0] != before["tail"][0]:
        return changed
    if grown and not before["tail"][1] and name.endswith(_LINES):
        with path.open("rb") as file:
            file.seek(size)
            if file.read(1) not in b"\r\n":
                return "whose last line was incomplete"
    return ""
