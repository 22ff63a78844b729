"""The command line: `pronk demo`, `pronk run`, `pronk algorithms`."""

from pronk.cli.app import app, main

__all__ = ["app", "main"]
