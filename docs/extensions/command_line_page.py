"""The page of the command line: what `pronk COMMAND --help` prints; and the exit codes there."""

from __future__ import annotations

import re
from typing import Any

import pages
from typer.main import get_command
from typer.testing import CliRunner


def texts(app: Any, command: Any, words: list[str]) -> list[str]:
    result = CliRunner().invoke(
        app, [*words, "--help"], prog_name="pronk", env={"COLUMNS": "88", "TERM": "dumb"}
    )
    if result.exit_code:
        raise RuntimeError(f"pronk {' '.join(words)} --help failed: {result.output}")
    heading = "#" * (2 if len(words) < 2 else 3)
    title = " ".join(["pronk", *words])
    out = [f"{heading} `{title}`", f"```text\n{result.output.rstrip()}\n```"]
    for name, inner in sorted(getattr(command, "commands", {}).items()):
        if not inner.hidden:
            out += texts(app, inner, [*words, name])
    return out


def exit_codes(epilog: str) -> str:
    """The table of the help's last lines, `    0  done`."""
    found = re.findall(r"^ *(\d+)  (.+)$", epilog, re.MULTILINE)
    if not found:
        raise RuntimeError("the help names no exit codes")
    rows = [f"| {code} | {meaning} |" for code, meaning in found]
    rows = [row.replace("--checkpoint", "`--checkpoint`") for row in rows]
    return "\n".join(["| code | meaning |", "|--:|:--|", *rows])


def generate(sphinx: Any) -> None:
    from pronk.cli.app import app

    command = get_command(app)
    pages.write("fragments/command-line.md", "\n\n".join(texts(app, command, [])))
    pages.write("fragments/exit-codes.md", exit_codes(command.epilog or ""))


def setup(app):
    app.connect("builder-inited", generate)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
