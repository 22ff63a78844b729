"""A service without threads: groups pass through the writer in the test, which can stop it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pronk.serve import spec
from pronk.serve.rows import pack
from pronk.serve.service import Service, Settings
from pronk.serve.worker import Work

SPEC = {
    "columns": ["a", "b"],
    "algorithm": "pkawv-nystrom",
    "parameters": {"history": "projected", "budget": 6},
}


class Crash(BaseException):
    """The process is gone at this point."""


def opened(folder: Path, **settings: Any) -> Service:
    return Service(folder, Settings(**settings), lambda event, **fields: None)


def created(service: Service, name: str = "m", **more: Any) -> None:
    import msgspec

    service.create(name, msgspec.convert({**SPEC, **more}, spec.Spec))


def crashed(service: Service) -> None:
    """What is left when a process is killed: what was committed."""
    service.close()


def learn(service: Service, id: str | None, row: list[float], y: Any, name: str = "m") -> Work:
    model = service.model(name)
    return Work(model, id, model.columns.pack([row]), pack([y]), 1)


def infer(service: Service, id: str | None, row: list[float], name: str = "m") -> Work:
    model = service.model(name)
    return Work(model, id, model.columns.pack([row]), None, 1)


def label(service: Service, id: str, y: Any, name: str = "m") -> Work:
    return Work(service.model(name), id, None, pack([y]), 1)


def bits(service: Service, name: str = "m") -> bytes:
    """Everything a model knows, to the last bit."""
    import tempfile

    from pronk.estimators import files

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x"
        files.save_checkpoint(service.model(name).tree(), path)
        return path.read_bytes()
