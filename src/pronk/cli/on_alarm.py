"""`--on-alarm COMMAND`: start a command at each drift alarm, without waiting for it."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
from typing import Any

from rich.console import Console

from pronk.cli import screen
from pronk.cli.screen import CommandError

#: Seconds that the commands have at the end of a run.
PATIENCE = 30.0
#: Words that only a shell understands.
SHELL = ("|", "||", "&", "&&", ";", ">", ">>", "<", "2>", "2>&1")


class OnAlarm:
    """Start a command with an alarm as JSON on its standard input."""

    def __init__(self, command: str, console: Console) -> None:
        self._words, self._console = split(command), console
        self._started: list[subprocess.Popen[bytes]] = []

    def call(self, alarm: dict[str, Any]) -> None:
        """Start the command; a failure is a note, and the run continues."""
        try:
            process = subprocess.Popen(
                self._words, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL
            )
            assert process.stdin is not None
            with process.stdin as pipe:  # smaller than the buffer of a pipe: it does not block
                pipe.write(json.dumps(alarm).encode() + b"\n")
        except BrokenPipeError:
            pass  # the command does not read it
        except OSError as error:
            screen.note(f"--on-alarm: {error.strerror or error}", self._console)
            return
        self._started.append(process)

    def finish(self) -> None:
        """Wait for the commands; print a note for those that fail or take too long."""
        for process in self._started:
            try:
                code = process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                screen.note(f"--on-alarm: still running after {PATIENCE:g} s", self._console)
                continue
            if code:
                screen.note(f"--on-alarm: the command ended with code {code}", self._console)
        self._started = []


def split(command: str) -> list[str]:
    """Return the words of a command; raise if there is no such program."""
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise CommandError(f"--on-alarm: {command!r} is not a command: {error}") from None
    if not words or shutil.which(words[0]) is None:
        raise CommandError(f"--on-alarm: there is no program {words[0] if words else ''!r}")
    special = next((word for word in words if word in SHELL or word[-1:] == ";"), None)
    if special is not None:
        in_shell = shlex.join(["sh", "-c", command])
        raise CommandError(
            f"--on-alarm: {special!r} needs a shell; give --on-alarm {shlex.quote(in_shell)}"
        )
    return words
