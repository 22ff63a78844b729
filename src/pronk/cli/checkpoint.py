"""Snapshots of a run, from which it resumes after an interruption, in one file written atomically.

A snapshot holds the model with its scaling and its random streams, the metrics, the position in the
input and the position in each output file. It is taken between two blocks, and blocks are counted
from the start of the stream, so a resumed run sees the same blocks as an uninterrupted one and ends
with the same bits. The predictions are on disk before the snapshot that counts them; rows written
after it are removed when the run resumes.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pronk.cli.inputs import LearnedFile, describe_change, input_contents, learned_files
from pronk.cli.screen import CommandError, writing
from pronk.core.state import StateError, checked_count, require
from pronk.data import StreamError
from pronk.data.errors import without_secrets
from pronk.estimators.atomic import FileLock, InUse, remove_leftovers
from pronk.estimators.files import (
    CHECKPOINT,
    ModelFileError,
    load_checkpoint,
    read_header,
    save_checkpoint,
)

#: The entries of a snapshot and their kinds.
_PARTS: dict[str, tuple[type, ...]] = {
    "settings": (dict,),
    "input": (list, type(None)),
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
    or of another input raises. ``paths`` are the files of the input, in order. Passwords in URLs
    are not stored.
    """

    def __init__(
        self, path: Path, every: int, settings: dict[str, Any], paths: Sequence[Any] = ()
    ) -> None:
        self.path = path
        self.every = every
        self.settings = without_secrets(settings)
        self.grown = False
        """Whether the input has grown since the snapshot that was loaded."""
        self.rows = 0  # of the stream, in the last good snapshot
        self._paths = paths
        self._input: list[LearnedFile] | None = None

    def load(self) -> dict[str, Any] | None:
        """Return the last snapshot, or None."""
        remove_leftovers(self.path)
        if not self.path.exists():
            self._input = input_contents(self._paths, ())
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
            before = None if tree["input"] is None else learned_files(tree["input"])
            for name, value in self.settings.items():
                if (held := tree["settings"].get(name)) != value:
                    raise CommandError(
                        f"--checkpoint: {str(self.path)!r} was made with {name} {held!r}, now it "
                        f"is {value!r}; use the same options, or remove the checkpoint to start "
                        "over"
                    )
            self._compare_input(before)
        self.rows = tree["rows"]
        return tree

    def _compare_input(self, before: list[LearnedFile] | None) -> None:
        self._input = input_contents(self._paths, before or ())
        if changed := describe_change(before, self._input, self._paths):
            raise CommandError(
                f"--checkpoint: {str(self.path)!r} was made from another state of the input file, "
                f"{changed}; remove the checkpoint to start over"
            )
        contents = [[file.content for file in files or ()] for files in (before, self._input)]
        self.grown = contents[0] != contents[1]

    def due(self, rows: int) -> bool:
        """Return whether the next snapshot is due."""
        return rows - self.rows >= self.every

    def save(self, rows: int, **parts: Any) -> None:
        """Replace the snapshot; if writing fails, the last one remains."""
        files = None if self._input is None else [file.to_dict() for file in self._input]
        tree = {"settings": self.settings, "input": files, "rows": rows, **parts}
        with writing("--checkpoint", self.path, advice=f"; {self.advice()}"):
            save_checkpoint(tree, self.path)
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
