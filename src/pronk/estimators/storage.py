"""Saved learners and checkpoints: one safetensors file, arrays plus a JSON header, no pickle.

The header names the class, its parameters and the fitted state; arrays of that tree stand in the
file by their path. A SHA-256 over header and arrays catches what the container does not. The file
is written beside its place, synced and renamed, so a crash leaves the old file or the new one.
"""

from __future__ import annotations

import glob
import hashlib
import importlib
import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors import numpy as safetensors_numpy

from pronk._version import __version__
from pronk.parts.kernels import KERNELS, Kernel
from pronk.parts.randomness import FirstSeed
from pronk.parts.rules import RULES, Rule

#: Version of the file format. Older versions keep loading; newer ones are refused. Format 1 has
#: seeds of the first rule (`FirstSeed`) that do not say so.
FORMAT = 2

_ARRAY = "__array__"
_KERNEL = "__kernel__"
_RULE = "__rule__"
_FIRST_SEED = "__first_seed__"

#: The class that the header of a checkpoint names; its state holds a model beside other things.
CHECKPOINT = "checkpoint"


class ModelFileError(ValueError):
    """The file is not a pronk model, is damaged, or needs something that was not given."""


def save(learner: Any, path: str | Path) -> None:
    """Write a fitted learner to ``path``, whole or not at all."""
    tree = learner_tree(learner)
    _save(tree["class"], tree["params"], tree["state"], Path(path))


def to_bytes(learner: Any) -> bytes:
    """A fitted learner as the bytes of its file; `from_bytes` reads them."""
    tree = learner_tree(learner)
    return _encoded(tree["class"], tree["params"], tree["state"])


def from_bytes(data: bytes, name: str, kernel: Callable[..., Any] | None = None) -> Any:
    """The learner whose file these bytes are; ``name`` is for messages."""
    header, arrays = _decoded(data, name)
    return _learner(header, arrays, name, kernel)


def save_checkpoint(tree: dict[str, Any], path: str | Path) -> None:
    """Write a tree of arrays, numbers and text, whole or not at all.

    Under "model" it holds a `learner_tree`, or nothing yet.
    """
    _save(CHECKPOINT, {}, tree, Path(path))


def load(path: str | Path, kernel: Callable[..., Any] | None = None) -> Any:
    """Read a learner that `save` wrote. A learner with a user's kernel needs that ``kernel``.

    Of a checkpoint of `pronk run` it reads the model. Nothing in the file is ever executed. A file
    that is foreign, truncated or altered gives a ModelFileError, which is a ValueError. A folder
    that `Keyed` wrote gives its models, which go on there.
    """
    if Path(path).is_dir():
        return _learner_class("Keyed", path).open(path)
    header, arrays = _read(Path(path))
    if header["class"] == CHECKPOINT:
        if header["state"]["model"] is None:
            raise ModelFileError(f"{path} is a checkpoint before the first labelled row")
        return learner_from_tree(_unpack(header["state"]["model"], arrays), path, kernel)
    return _learner(header, arrays, path, kernel)


def _learner(
    header: dict[str, Any],
    arrays: dict[str, NDArray[Any]],
    path: str | Path,
    kernel: Callable[..., Any] | None,
) -> Any:
    tree = {
        "class": header["class"],
        "params": _unpack(header["params"], arrays),
        "state": _unpack(header["state"], arrays),
    }
    return learner_from_tree(tree, path, kernel)


def load_checkpoint(path: str | Path) -> dict[str, Any]:
    """Read a tree that `save_checkpoint` wrote."""
    header, arrays = _read(Path(path))
    if header["class"] != CHECKPOINT:
        raise ModelFileError(f"{path} is a saved model ({header['class']}), not a checkpoint")
    tree: dict[str, Any] = _unpack(header["state"], arrays)
    return tree


def read_header(path: str | Path) -> dict[str, Any]:
    """The header of a file whose checksum holds: "format", "pronk", "class" and more."""
    return _read(Path(path))[0]


def settings_text(learner: Any) -> str:
    """A learner's class and parameters as text; what it has learned is no part of it."""
    arrays: dict[str, NDArray[Any]] = {}
    params = _pack(_params(learner), "params", arrays)
    held = {name: array.tolist() for name, array in arrays.items()}
    return json.dumps(
        {"class": type(learner).__name__, "params": params, "arrays": held}, sort_keys=True
    )


def from_settings_text(text: str, path: str | Path) -> Any:
    """A fresh learner from what `settings_text` gave; ``path`` is for messages."""
    tree = json.loads(text)
    arrays = {name: np.array(values) for name, values in tree["arrays"].items()}
    return _build(_learner_class(tree["class"], path), _unpack(tree["params"], arrays))


def learner_tree(learner: Any) -> dict[str, Any]:
    """A fitted learner as its class's name, its parameters and its state."""
    return {
        "class": type(learner).__name__,
        "params": _params(learner),
        "state": learner._fitted_state(),
    }


def learner_from_tree(
    tree: dict[str, Any], path: str | Path, kernel: Callable[..., Any] | None = None
) -> Any:
    """The learner that `learner_tree` described; ``path`` is for messages."""
    params = tree["params"]
    if params.get("kernel") == {_KERNEL: "user"}:
        if kernel is None:
            raise ModelFileError(
                f"{path} was saved with a kernel function, which is not in the file: "
                "call load(path, kernel=function)"
            )
        params["kernel"] = kernel
    learner = _build(_learner_class(tree["class"], path), params)
    learner._restore(tree["state"])
    return learner


def _save(kind: str, params: Any, state: Any, path: Path) -> None:
    write_whole(path, _encoded(kind, params, state))


def _encoded(kind: str, params: Any, state: Any) -> bytes:
    arrays: dict[str, NDArray[Any]] = {}
    header = {
        "format": FORMAT,
        "pronk": __version__,
        "class": kind,
        "params": _pack(params, "params", arrays),
        "state": _pack(state, "state", arrays),
    }
    text = json.dumps(header, sort_keys=True)
    metadata = {"pronk": text, "sha256": _digest(text, arrays)}
    return _ordered(safetensors_numpy.save(arrays, metadata=metadata))


def _ordered(data: bytes) -> bytes:
    """The file with its header's keys in order: safetensors writes the metadata in any order."""
    end = 8 + int.from_bytes(data[:8], "little")
    text = json.dumps(json.loads(data[8:end]), sort_keys=True, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return b"".join([len(text).to_bytes(8, "little"), text, memoryview(data)[end:]])


def _read(path: Path) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ModelFileError(f"{path} cannot be read: {error.strerror}") from None
    return _decoded(data, path)


def _decoded(data: bytes, path: str | Path) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    try:
        arrays = safetensors_numpy.load(data)
        metadata = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])["__metadata__"]
        text, digest = metadata["pronk"], metadata["sha256"]
    except (SafetensorError, ValueError, KeyError, TypeError, OverflowError, MemoryError):
        raise ModelFileError(f"{path} is not a pronk model file, or it is truncated") from None
    if digest != _digest(text, arrays):
        raise ModelFileError(f"{path} is damaged: its checksum does not match its contents")
    header = json.loads(text)
    if header["format"] == 1:
        header["state"] = _mark_seeds(header["state"])
    if header["format"] > FORMAT:
        raise ModelFileError(
            f"{path} has format {header['format']}, written by pronk {header['pronk']}; this is "
            f"pronk {__version__}, which reads formats up to {FORMAT}: upgrade pronk"
        )
    return header, arrays


def _params(learner: Any) -> dict[str, Any]:
    """Parameters as a file holds them: a learner around another names the inner one's class."""
    own = getattr(learner, "_file_params", None)
    return dict(learner.get_params(deep=False) if own is None else own())


def _build(kind: Any, params: dict[str, Any]) -> Any:
    """A learner of a class from what `_params` gave."""
    make = getattr(kind, "_from_file", None)
    return kind(**params) if make is None else make(params)


def _learner_class(name: str, path: str | Path) -> Any:
    found = getattr(importlib.import_module("pronk"), name, None)
    if not (isinstance(found, type) and hasattr(found, "predict_then_learn")):
        raise ModelFileError(f"{path} holds a {name!r}, which this version of pronk does not know")
    return found


def _digest(text: str, arrays: dict[str, NDArray[Any]]) -> str:
    digest = hashlib.sha256(text.encode())
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(f"{name} {array.dtype.str} {array.shape}".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def write_whole(path: Path, data: bytes) -> None:
    """Write a file beside its place, sync and rename it: whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, path.stat().st_mode if path.exists() else 0o644)  # mkstemp's is 0600
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    if os.name == "posix":  # the rename itself must reach the disk too
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def remove_leftovers(path: str | Path) -> None:
    """Remove the files that writers of ``path`` left beside it when they were killed."""
    path = Path(path)
    for other in path.parent.glob(f".{glob.escape(path.name)}.????????"):
        other.unlink(missing_ok=True)


def _pack(value: Any, path: str, arrays: dict[str, NDArray[Any]]) -> Any:
    """A tree as JSON: arrays move to ``arrays`` under their path."""
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        arrays[path] = np.ascontiguousarray(value)
        return {_ARRAY: path}
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, dict):
        return {key: _pack(item, f"{path}/{key}", arrays) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_pack(item, f"{path}/{i}", arrays) for i, item in enumerate(value)]
    if isinstance(value, Kernel):
        return {_KERNEL: value.name, "params": _pack(value.get_params(), path, arrays)}
    if isinstance(value, Rule):
        if RULES.get(value.name) is not type(value):
            raise ValueError(
                f"dictionary is a {type(value).__name__}, a rule of your own, which a file cannot "
                "hold; pickle the learner instead"
            )
        return {_RULE: value.name, "params": dict(vars(value))}
    if isinstance(value, FirstSeed):
        return {_FIRST_SEED: int(value)}
    if isinstance(value, np.random.Generator):
        return None  # the seed drawn from it is part of the state
    if isinstance(value, np.generic):
        return value.item()
    if callable(value):
        return {_KERNEL: "user"}
    return value


def _mark_seeds(value: Any) -> Any:
    """A packed state of format 1 whose seeds say that they follow the rule of their time."""
    if isinstance(value, list):
        return [_mark_seeds(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        key: {_FIRST_SEED: item} if key == "seed" else _mark_seeds(item)
        for key, item in value.items()
    }


def _unpack(value: Any, arrays: dict[str, NDArray[Any]]) -> Any:
    if isinstance(value, list):
        return [_unpack(item, arrays) for item in value]
    if not isinstance(value, dict):
        return value
    if _ARRAY in value:
        return arrays[value[_ARRAY]]
    if _FIRST_SEED in value:
        return FirstSeed(value[_FIRST_SEED])
    if value.get(_RULE) in RULES:
        return RULES[value[_RULE]](**value["params"])
    if value.get(_KERNEL) in KERNELS:
        return KERNELS[value[_KERNEL]](**_unpack(value["params"], arrays))
    return {key: _unpack(item, arrays) for key, item in value.items()}
