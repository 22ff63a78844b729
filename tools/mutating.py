"""Make small changes of a source file, one at a time, with which a test should fail.

Operators are exchanged (+ and -, * and /, < and <=), numbers doubled, min becomes max, a sign or an
added amount is left out. Texts, annotations, defaults of arguments and imports stay as they are.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

EXCHANGED: dict[type[ast.AST], type[ast.AST]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.And: ast.Or,
    ast.Or: ast.And,
}
CALLS = {"min": "max", "max": "min"}


@dataclass(frozen=True)
class Mutant:
    """A change of one place in one file of the package, and the tests that should fail."""

    file: str
    """Below ``src/pronk``."""
    before: str
    after: str
    tests: tuple[str, ...]
    name: str = ""
    place: int | None = None
    """Where in the file's bytes; None: the only place where ``before`` stands."""
    line: int = 0

    @property
    def label(self) -> str:
        where = f"{self.file}:{self.line}" if self.line else self.file
        shown = self.name or f"`{_short(self.before)}` -> `{_short(self.after)}`"
        return f"{where}: {shown}"

    def apply(self, source: bytes) -> bytes:
        old, new = self.before.encode(), self.after.encode()
        if self.place is None:
            if source.count(old) != 1:
                raise LookupError(f"{self.file} has {self.before!r} {source.count(old)} times")
            return source.replace(old, new)
        assert source[self.place : self.place + len(old)] == old
        return source[: self.place] + new + source[self.place + len(old) :]


def _short(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= 70 else flat[:67] + "..."


def mutants_of(file: str, source: bytes, tests: tuple[str, ...]) -> Iterator[Mutant]:
    """Yield every change of a file's functions."""
    text = source.decode()
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line.encode()))
    for function in ast.walk(ast.parse(text)):
        if isinstance(function, ast.FunctionDef):
            for statement in function.body:
                for node, after in _changes(statement):
                    first = starts[node.lineno - 1] + node.col_offset
                    last = starts[node.end_lineno - 1] + node.end_col_offset
                    before = source[first:last].decode()
                    yield Mutant(file, before, after, tests, place=first, line=node.lineno)


def _changes(statement: ast.stmt) -> Iterator[tuple[Any, str]]:
    """Yield nodes and the text that replaces them."""
    if isinstance(statement, ast.FunctionDef | ast.ClassDef | ast.Raise | ast.Assert):
        return
    for node in _walk(statement):
        if isinstance(node, ast.BinOp | ast.BoolOp) and type(node.op) in EXCHANGED:
            yield node, f"({ast.unparse(_with(node, op=EXCHANGED[type(node.op)]()))})"
        elif isinstance(node, ast.Compare) and type(node.ops[0]) in EXCHANGED:
            yield node, f"({ast.unparse(_with(node, ops=[EXCHANGED[type(node.ops[0])]()]))})"
        elif isinstance(node, ast.AugAssign):
            yield node, "pass"
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            if not isinstance(node.operand, ast.Constant):
                yield node, ast.unparse(node.operand)
        elif isinstance(node, ast.Constant) and isinstance(node.value, float) and node.value:
            yield node, repr(2.0 * node.value)
        elif isinstance(node, ast.Call) and getattr(node.func, "id", "") in CALLS:
            yield node, ast.unparse(_with(node, func=ast.Name(CALLS[node.func.id])))  # type: ignore[attr-defined]


def _walk(node: ast.AST) -> Iterator[ast.AST]:
    """Yield all nodes below, without annotations, exceptions and warnings."""
    yield node
    for child in ast.iter_child_nodes(node):
        if isinstance(node, ast.AnnAssign) and child is node.annotation:
            continue
        if not isinstance(child, ast.Raise | ast.JoinedStr | ast.FunctionDef | ast.Lambda):
            yield from _walk(child)


def _with(node: Any, **fields: Any) -> Any:
    """Return a node with other fields."""
    given = {name: getattr(node, name) for name in node._fields} | fields
    return type(node)(**given)
