"""Saved learners and checkpoints: one safetensors file, arrays plus a JSON header, no pickle.

The header names the class, its parameters and the fitted state; arrays of that tree stand in the
file by their path (`encoding`). A SHA-256 over header and arrays catches what the container does
not. The file is written whole or not at all (`atomic`).

A file may come from anybody: it gives a learner that works, or a `ModelFileError`.
"""

from __future__ import annotations

import errno
import importlib
import json
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pronk.estimators.atomic import remove_leftovers, write_whole
from pronk.estimators.encoding import (
    FORMAT,
    USER_KERNEL,
    ModelFileError,
    decoded,
    encoded,
    pack,
    unpack,
)

__all__ = ["FORMAT", "ModelFileError", "remove_leftovers", "write_whole"]

#: The class that the header of a checkpoint names; its state holds a model beside other things.
CHECKPOINT = "checkpoint"


def save(learner: Any, path: str | Path) -> None:
    """Write a fitted learner to ``path``, whole or not at all; its folder must be there."""
    folder = Path(os.path.realpath(path)).parent
    if not folder.is_dir():
        raise FileNotFoundError(errno.ENOENT, f"there is no folder {str(folder)!r}; make it first")
    tree = learner_tree(learner)
    _save(tree["class"], tree["params"], tree["state"], Path(path))


def to_bytes(learner: Any) -> bytes:
    """A fitted learner as the bytes of its file; `from_bytes` reads them."""
    tree = learner_tree(learner)
    return encoded(tree["class"], tree["params"], tree["state"])


def from_bytes(
    data: bytes, name: str, kernel: Callable[..., Any] | None = None, *, tried: bool = True
) -> Any:
    """The learner whose file these bytes are; ``name`` is for messages."""
    header, _ = decoded(data, name)
    return learner_from_tree(header, name, kernel, tried=tried)


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
        return importlib.import_module("pronk").Keyed.open(path)
    header = read_header(path)
    if header["class"] != CHECKPOINT:
        return learner_from_tree(header, path, kernel)
    model = header["state"].get("model")
    if model is None:
        raise ModelFileError(f"{path} is a checkpoint before the first labelled row")
    return learner_from_tree(model, path, kernel)


def load_checkpoint(path: str | Path) -> dict[str, Any]:
    """Read a tree that `save_checkpoint` wrote."""
    header = read_header(path)
    if header["class"] != CHECKPOINT:
        raise ModelFileError(f"{path} is a saved model ({header['class']}), not a checkpoint")
    tree: dict[str, Any] = header["state"]
    return tree


def read_header(path: str | Path) -> dict[str, Any]:
    """The header of a file whose checksum holds: "format", "pronk", "class", "params", "state"."""
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise ModelFileError(f"{path} is not a file")
        data = Path(path).read_bytes()
    except (OSError, MemoryError) as error:
        reason = getattr(error, "strerror", None) or "not enough memory"
        raise ModelFileError(f"{path} cannot be read: {reason}") from None
    return decoded(data, path)[0]


def settings_text(learner: Any) -> str:
    """A learner's class and parameters as text; what it has learned is no part of it."""
    arrays: dict[str, NDArray[Any]] = {}
    params = pack(_params(learner), "params", arrays)
    held = {name: array.tolist() for name, array in arrays.items()}
    return json.dumps(
        {"class": type(learner).__name__, "params": params, "arrays": held}, sort_keys=True
    )


def from_settings_text(text: str, path: str | Path) -> Any:
    """A fresh learner from what `settings_text` gave; ``path`` is for messages."""
    tree = json.loads(text)
    parts = ("class", "params", "arrays")
    known = isinstance(tree, dict) and set(tree) == set(parts)
    if not known or not all(isinstance(tree[name], dict) for name in parts[1:]):
        raise ModelFileError(f"{path} does not say what its learner is")
    arrays = {name: np.array(values) for name, values in tree["arrays"].items()}
    return _build(learner_class(tree["class"], path), unpack(tree["params"], arrays))


def learner_tree(learner: Any) -> dict[str, Any]:
    """A fitted learner as its class's name, its parameters and its state."""
    return {
        "class": type(learner).__name__,
        "params": _params(learner),
        "state": learner._fitted_state(),
    }


def learner_from_tree(
    tree: Any,
    path: str | Path,
    kernel: Callable[..., Any] | None = None,
    *,
    tried: bool = True,
) -> Any:
    """The learner that `learner_tree` described; ``path`` is for messages.

    It works, or a ModelFileError says what does not fit. ``tried``: a few rows are predicted and
    learned, and that undone, which finds numbers that are wrong in ways no table says.
    """
    known = isinstance(tree, dict) and {"class", "params", "state"} <= set(tree)
    if not known or not isinstance(tree["params"], dict):
        raise ModelFileError(f"{path} holds no learner")
    params = dict(tree["params"])
    if params.get("kernel") == USER_KERNEL:
        if kernel is None:
            raise ModelFileError(
                f"{path} was saved with a kernel function, which is not in the file: "
                "call load(path, kernel=function)"
            )
        params["kernel"] = kernel
    found = learner_class(tree["class"], path)
    try:
        learner = _build(found, params)
        learner._restore(tree["state"])
        if tried:
            learner._try_out()
    except ImportError:
        raise
    except ModelFileError as error:  # of a learner inside another
        raise ModelFileError(f"{path}: {error}") from None
    except Exception as error:  # whatever stands in the file, the answer is one kind of error
        text = str(error) or type(error).__name__
        raise ModelFileError(f"{path} does not hold a working {tree['class']}: {text}") from None
    return learner


def _params(learner: Any) -> dict[str, Any]:
    """Parameters as a file holds them: a learner around another names the inner one's class."""
    own = getattr(learner, "_file_params", None)
    return dict(learner.get_params(deep=False) if own is None else own())


def _build(kind: Any, params: dict[str, Any]) -> Any:
    """A learner of a class from what `_params` gave."""
    make = getattr(kind, "_from_file", None)
    return kind(**params) if make is None else make(params)


def learner_class(name: Any, path: str | Path) -> Any:
    found = getattr(importlib.import_module("pronk"), name, None) if isinstance(name, str) else None
    if not (isinstance(found, type) and hasattr(found, "_try_out")):
        raise ModelFileError(f"{path} holds a {name!r}, which this version of pronk does not know")
    return found


def _save(kind: str, params: Any, state: Any, path: Path) -> None:
    write_whole(path, encoded(kind, params, state))
