"""Which files a model has learned, so that a job that is started twice does not learn twice.

A saved model keeps an entry for each input of `pronk run`: the rows, and name, size and SHA-256 of
each file. Files are recognised by their content, under any name; a file whose start is a file that
was learned has grown. What can be read once only, and the rows of a query, leave no entry.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pronk.cli.checkpoint import input_files
from pronk.cli.errors import CommandError
from pronk.parts.state import checked_count, require
from pronk.streams import Reading

#: Bytes that are read at once, and file names in a message.
_CHUNK, _NAMED = 1 << 20, 5

#: Size and digest of a file: what tells it from others.
Content = tuple[int, str]


@dataclass(frozen=True)
class LearnedFile:
    """A file of an input."""

    name: str
    content: Content
    starts: frozenset[Content] = field(default_factory=frozenset)
    """Those of its first bytes, of the lengths that were asked for."""

    def to_dict(self) -> dict[str, Any]:
        """For the story of a model."""
        size, digest = self.content
        return {"name": self.name, "bytes": size, "sha256": digest}


@dataclass(frozen=True)
class LearnedInput:
    """What one run has learned."""

    files: list[LearnedFile]
    rows: int

    def to_dict(self) -> dict[str, Any]:
        """For the story of a model."""
        return {"rows": self.rows, "files": [file.to_dict() for file in self.files]}

    @classmethod
    def of(cls, state: Any) -> LearnedInput:
        """Read what `to_dict` gave, from a file; a StateError if it is something else."""
        files = state.get("files") if isinstance(state, dict) else None
        require(isinstance(files, list), "learned has no files")
        found = []
        for one in files or []:
            good = isinstance(one, dict) and set(one) == {"name", "bytes", "sha256"}
            require(good and all(type(one[k]) is str for k in ("name", "sha256")), "learned")
            found.append(
                LearnedFile(one["name"], (checked_count(one["bytes"], "bytes"), one["sha256"]))
            )
        return cls(found, checked_count(state.get("rows"), "rows"))


def learned_by(story: dict[str, Any]) -> list[LearnedInput]:
    """Read the inputs that the story of a model tells of."""
    held = story.get("learned", [])
    require(isinstance(held, list), "learned is not a list")
    return [LearnedInput.of(one) for one in held]


def files_of(reading: Reading, known: Sequence[LearnedInput]) -> list[LearnedFile] | None:
    """Read the content of an input's files; None for an input that has none to be known by.

    Where a file of ``known`` is shorter, the digest of that many bytes is taken too.
    """
    sizes = {file.content[0] for one in known for file in one.files}
    return [_look(file, sizes) for file in input_files(reading)] or None


def _look(path: Any, sizes: Collection[int]) -> LearnedFile:
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
    model: Path, known: Sequence[LearnedInput], files: Sequence[LearnedFile]
) -> None:
    """Raise if a model has learned one of these files, or the start of one."""
    rows = {file.content: one.rows for one in known for file in one.files if len(one.files) == 1}
    before = {file.content: file.name for one in known for file in one.files}
    again = [file for file in files if file.content in before]
    once_more = "--again learns it once more"
    if again and len(files) == 1:
        name = before[again[0].content]
        under = "" if name == again[0].name else f", as {name!r}"
        told = f" ({rows[again[0].content]:,} rows)" if again[0].content in rows else ""
        raise CommandError(
            f"--model: {str(model)!r} has learned {again[0].name!r} already{under}{told}; "
            f"{once_more}"
        )
    if again:
        names = ", ".join(repr(file.name) for file in again[:_NAMED])
        more = ", .." if len(again) > _NAMED else ""
        raise CommandError(
            f"--model: {str(model)!r} has learned {len(again)} of the {len(files)} files already: "
            f"{names}{more}; give only the others, or --again learns all once more"
        )
    for file in files:
        for start in sorted(file.starts & before.keys(), reverse=True):
            told = f", {rows[start]:,} rows," if start in rows else ""
            raise CommandError(
                f"--model: {file.name!r} has grown since {str(model)!r} learned its first "
                f"{start[0]:,} bytes{told}; give the new rows in a file of their own, or "
                f"{once_more} from its start (with --checkpoint a run goes on in a file that grows)"
            )


def with_input(
    known: Iterable[LearnedInput], files: Sequence[LearnedFile] | None, rows: int
) -> list[LearnedInput]:
    """Add an input to those that are known; it stands for those that it contains."""
    if files is None:
        return list(known)
    held = {content for file in files for content in (file.content, *file.starts)}
    others = [one for one in known if not {file.content for file in one.files} <= held]
    return [*others, LearnedInput(list(files), rows)]
