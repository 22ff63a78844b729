"""The files of an input: which they are, which a model has learned, and how they have changed.

A model learns no file twice by mistake: it stores an entry for each input of `pronk run`, with the
rows, and name, size and SHA-256 of each file. Files are recognised by content, under any name; a
file that starts with a learned file has grown. Standard input, pipes and queries leave no entry. A
snapshot of a run has the same entries for its input.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pronk.cli.screen import CommandError
from pronk.core.state import checked_count, require
from pronk.data import Reading
from pronk.data.opening import SEVERAL, files_in_order, reads_once
from pronk.data.source import located

#: Bytes per read, and file names in a message.
_CHUNK, _LISTED = 1 << 20, 5

#: Size and digest of a file, which identify it.
Content = tuple[int, str]


@dataclass(frozen=True)
class LearnedFile:
    """A file of an input."""

    name: str
    content: Content
    starts: frozenset[Content] = field(default_factory=frozenset)
    """Contents of its first bytes, for the lengths of files learned earlier."""

    def to_dict(self) -> dict[str, Any]:
        """Return the entry of the training record."""
        size, digest = self.content
        return {"name": self.name, "bytes": size, "sha256": digest}


@dataclass(frozen=True)
class LearnedInput:
    """The files and rows that one run has learned."""

    files: list[LearnedFile]
    rows: int

    def to_dict(self) -> dict[str, Any]:
        """Return the entry of the training record."""
        return {"rows": self.rows, "files": [file.to_dict() for file in self.files]}


def learned_files(state: Any) -> list[LearnedFile]:
    """Read the entries of some files; raise a StateError if they are damaged."""
    require(isinstance(state, list), "learned has no files")
    found = []
    for one in state:
        good = isinstance(one, dict) and set(one) == {"name", "bytes", "sha256"}
        require(good and all(type(one[k]) is str for k in ("name", "sha256")), "learned")
        content = checked_count(one["bytes"], "bytes"), one["sha256"]
        found.append(LearnedFile(one["name"], content))
    return found


def learned_inputs(training_record: dict[str, Any]) -> list[LearnedInput]:
    """Read the inputs that the training record of a model lists."""
    held = training_record.get("learned", [])
    good = isinstance(held, list) and all(isinstance(one, dict) for one in held)
    require(good, "learned is not a list of inputs")
    return [
        LearnedInput(learned_files(one.get("files")), checked_count(one.get("rows"), "rows"))
        for one in held
    ]


def input_contents(paths: Sequence[Any], known: Iterable[LearnedFile]) -> list[LearnedFile] | None:
    """Return the contents of an input's files; None for an input without files.

    The starts of a file are digested too, up to the sizes of the files of ``known``.
    """
    sizes = {file.content[0] for file in known}
    return [_digest(path, sizes) for path in paths] or None


def _digest(path: Any, sizes: Collection[int]) -> LearnedFile:
    """Digest a file, and its first bytes up to each of some sizes."""
    digest, place, starts = hashlib.sha256(), 0, set()
    with path.open("rb") as file:
        for size in (*sorted(sizes), None):
            while size is None or place < size:
                data = file.read(_CHUNK if size is None else min(_CHUNK, size - place))
                if not data:
                    break
                digest.update(data)
                place += len(data)
            if place == size:
                starts.add((place, digest.hexdigest()))
    return LearnedFile(path.name, (place, digest.hexdigest()), frozenset(starts))


def refuse_learned(
    option: str, model: Path, known: Sequence[LearnedInput], files: Sequence[LearnedFile]
) -> None:
    """Raise if a model, named by ``option``, has learned one of these files or its start."""
    rows = {file.content: one.rows for one in known for file in one.files if len(one.files) == 1}
    before = {file.content: file.name for one in known for file in one.files}
    again = [file for file in files if file.content in before]
    once_more = "--again learns it once more"
    if again and len(files) == 1:
        name = before[again[0].content]
        under = "" if name == again[0].name else f", as {name!r}"
        count = f" ({rows[again[0].content]:,} rows)" if again[0].content in rows else ""
        raise CommandError(
            f"{option}: {str(model)!r} has learned {again[0].name!r} already{under}{count}; "
            f"{once_more}"
        )
    if again:
        names = ", ".join(repr(file.name) for file in again[:_LISTED])
        more = ", .." if len(again) > _LISTED else ""
        raise CommandError(
            f"{option}: {str(model)!r} has learned {len(again)} of the {len(files)} files already: "
            f"{names}{more}; give only the others, or learn all once more with --again"
        )
    for file in files:
        for start in sorted(file.starts & before.keys(), reverse=True):
            count = f", {rows[start]:,} rows," if start in rows else ""
            raise CommandError(
                f"{option}: {file.name!r} has grown since {str(model)!r} learned its first "
                f"{start[0]:,} bytes{count}; give the new rows in a file of their own, or "
                f"{once_more} from its start (with --checkpoint, a run resumes in a growing file)"
            )


def add_input(
    known: Iterable[LearnedInput], files: Sequence[LearnedFile] | None, rows: int
) -> list[LearnedInput]:
    """Add an input to the known ones, in place of those that it contains."""
    if files is None:
        return list(known)
    held = {content for file in files for content in (file.content, *file.starts)}
    others = [one for one in known if not {file.content for file in one.files} <= held]
    return [*others, LearnedInput(list(files), rows)]


def input_files(reading: Reading) -> list[Any]:
    """Return the files of an input, in order; none for standard input, pipes and queries."""
    if reading.query is not None or reads_once(reading.file):
        return []
    if SEVERAL in reading.file:
        return files_in_order(reading.file)
    path = located(reading.file)
    return [path] if path.is_file() else files_in_order(path)


#: Extensions of files in which a row is a line.
_LINES = (".csv", ".tsv", ".txt", ".ndjson", ".jsonl", ".libsvm", ".svmlight", ".svm")


def describe_change(
    before: Sequence[LearnedFile] | None, now: Sequence[LearnedFile] | None, paths: Sequence[Any]
) -> str:
    """Describe how an input has changed; empty if only files were added, or rows to the last one.

    ``paths`` are those of the files now.
    """
    changed = "which has changed since"
    if before is None or now is None:
        return "" if before is now else changed
    if len(now) < len(before):
        return changed
    for one, other, path in zip(before, now, paths, strict=False):
        if one.name != other.name:
            return changed
        if one.content == other.content:
            continue
        grown = one is before[-1] and one.content in other.starts
        if not grown or one.name.endswith((".parquet", ".pq")):
            return changed
        size = one.content[0]
        if one.name.endswith(_LINES) and size:
            with path.open("rb") as file:
                file.seek(size - 1)
                ends = file.read(2)
            if ends[:1] != b"\n" and ends[1:] not in (b"\r", b"\n"):
                return "whose last line was incomplete"
    return ""
