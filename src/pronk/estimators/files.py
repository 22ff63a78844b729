"""Save and load learners and checkpoints: one safetensors file with a JSON header, no pickle.

The header contains the class, its parameters and the fitted state; the arrays of that tree are in
the container under their path. A SHA-256 over header and arrays detects damage that the container
does not. The file is written atomically (`pronk.estimators.atomic`).

A file may come from an untrusted source, with a right checksum. So everything is checked: reading
returns a learner that works, or raises a `ModelFileError`.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import stat
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from safetensors import numpy as safetensors_numpy
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from pronk._version import __version__
from pronk.core.dictionary import RULES, Rule
from pronk.core.kernels import KERNELS, Kernel, get_kernel
from pronk.core.runtime import limited
from pronk.core.state import checked_count, require
from pronk.estimators.atomic import write_atomically
from pronk.estimators.calls import all_or_nothing
from pronk.estimators.inputs import Parameters

#: Most numbers of a model that is built for a file before the file's arrays are checked.
MOST_NUMBERS = 2**30
#: Models with fewer numbers also learn a few rows when they are loaded, which is rolled back.
SMALL_STATE = 2**20
#: Version of the file format; other versions cannot be read.
FORMAT = 1

_ARRAY = "__array__"
_KERNEL = "__kernel__"
_RULE = "__rule__"
#: The entry of a file that stands for a user's kernel function.
USER_KERNEL = {_KERNEL: "user"}
#: The class in the header of a checkpoint, whose state contains a model and other things.
CHECKPOINT = "checkpoint"

#: Names of NumPy's dtypes in the container, and their order: large ones come first.
_KINDS = {
    "|b1": ("BOOL", 0), "|u1": ("U8", 1), "|i1": ("I8", 2), "<i2": ("I16", 3), "<u2": ("U16", 4),
    "<f2": ("F16", 5), "<i4": ("I32", 6), "<u4": ("U32", 7), "<f4": ("F32", 8), "<f8": ("F64", 9),
    "<i8": ("I64", 10), "<u8": ("U64", 11),
}  # fmt: skip

#: The entries of the header and their types.
_HEADER = {"format": int, "pronk": str, "class": str, "params": dict, "state": dict}


class ModelFileError(ValueError):
    """Raised if a file is not a pronk model, is damaged, or needs a kernel that was not given."""


def encode(kind: str, params: Any, state: Any) -> bytes:
    """Return the bytes of the file of a learner or checkpoint."""
    arrays: dict[str, NDArray[Any]] = {}
    header = {
        "format": FORMAT,
        "pronk": __version__,
        "class": kind,
        "params": pack(params, "params", arrays),
        "state": pack(state, "state", arrays),
    }
    text = json.dumps(header, sort_keys=True)
    metadata = {"pronk": text, "sha256": digest(text, arrays)}
    return _container(arrays, metadata)


def _container(arrays: dict[str, NDArray[Any]], metadata: dict[str, str]) -> bytes:
    """Return a safetensors container whose header has its keys in order.

    The safetensors package writes the metadata in any order, and takes longer for small models.
    """
    header: dict[str, Any] = {"__metadata__": metadata}
    parts, end = [b"", b""], 0
    for name in sorted(arrays, key=lambda name: (-_KINDS[arrays[name].dtype.str][1], name)):
        array = arrays[name]
        start, end = end, end + array.nbytes
        kind = _KINDS[array.dtype.str][0]
        header[name] = {"data_offsets": [start, end], "dtype": kind, "shape": array.shape}
        parts.append(array.tobytes())
    text = json.dumps(header, sort_keys=True, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    parts[0], parts[1] = len(text).to_bytes(8, "little"), text
    return b"".join(parts)


def decode(data: bytes, path: str | Path) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return the checked header and the arrays of a file; ``path`` is for messages."""
    try:
        arrays = safetensors_numpy.load(data)
        metadata = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])["__metadata__"]
        text, checksum = metadata["pronk"], metadata["sha256"]
        found = digest(text, arrays)
    except Exception:  # the container's own errors are of many kinds
        raise ModelFileError(f"{path} is not a pronk model file, or it is truncated") from None
    if checksum != found:
        raise ModelFileError(f"{path} is damaged: its checksum does not match its contents")
    try:
        header = json.loads(text)
    except (ValueError, RecursionError, MemoryError):
        raise ModelFileError(f"{path} has a header that cannot be read") from None
    kinds = header if isinstance(header, dict) else {}
    for name, kind in _HEADER.items():
        if type(kinds.get(name)) is not kind:
            raise ModelFileError(f"{path} has a header without {name}, or of a wrong kind")
    if header["format"] != FORMAT:
        remedy = "upgrade pronk" if header["format"] > FORMAT else "train it again"
        raise ModelFileError(
            f"{path} has format {header['format']}, written by pronk {header['pronk']}; this is "
            f"pronk {__version__}, which reads format {FORMAT}: {remedy}"
        )
    try:
        header["params"] = unpack(header["params"], arrays)
        header["state"] = unpack(header["state"], arrays)
    except Exception:  # a kernel's constructor may raise anything for what stands in the file
        raise ModelFileError(f"{path} has a header whose entries do not fit together") from None
    return header, arrays


def digest(text: str, arrays: dict[str, NDArray[Any]]) -> str:
    """Return the SHA-256 of the header's text and the arrays, in hexadecimal."""
    total = hashlib.sha256(text.encode())
    for name in sorted(arrays):
        array = arrays[name]
        total.update(f"{name} {array.dtype.str} {array.shape}".encode())
        total.update(np.ascontiguousarray(array).tobytes())
    return total.hexdigest()


def pack(value: Any, path: str, arrays: dict[str, NDArray[Any]]) -> Any:
    """Return a tree as JSON; its arrays are moved to ``arrays`` under their path."""
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        little = value.dtype.newbyteorder("<") if value.dtype.byteorder == ">" else value.dtype
        arrays[path] = np.ascontiguousarray(value, dtype=little)
        return {_ARRAY: path}
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, dict):
        return {key: pack(item, f"{path}/{key}", arrays) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [pack(item, f"{path}/{i}", arrays) for i, item in enumerate(value)]
    if isinstance(value, Kernel):
        return {_KERNEL: value.name, "params": pack(value.get_params(), path, arrays)}
    if isinstance(value, Rule):
        if RULES.get(value.name) is not type(value):
            raise ValueError(
                f"dictionary is a {type(value).__name__}, a user's rule, which a file cannot "
                "contain; pickle the learner instead"
            )
        return {_RULE: value.name, "params": dict(vars(value))}
    if isinstance(value, np.random.Generator | np.random.RandomState):
        return None  # the seed drawn from it is part of the state
    if isinstance(value, np.generic):
        return value.item()
    if callable(value):
        return {_KERNEL: "user"}
    return value


def unpack(value: Any, arrays: dict[str, NDArray[Any]]) -> Any:
    """Return a tree from its JSON and its arrays."""
    if isinstance(value, list):
        return [unpack(item, arrays) for item in value]
    if not isinstance(value, dict):
        return value
    if _ARRAY in value:
        return arrays[value[_ARRAY]]
    if value.get(_RULE) in RULES:
        return RULES[value[_RULE]](**value["params"])
    if value.get(_KERNEL) in KERNELS:
        return KERNELS[value[_KERNEL]](**unpack(value["params"], arrays))
    return {key: unpack(item, arrays) for key, item in value.items()}


def save(learner: Any, path: str | Path) -> None:
    """Write a fitted learner to ``path``, whole or not at all; the folder must exist."""
    tree = learner_tree(learner)
    write_atomically(path, encode(tree["class"], tree["params"], tree["state"]))


def to_bytes(learner: Any) -> bytes:
    """Return a fitted learner as the bytes of its file; `from_bytes` reads them."""
    tree = learner_tree(learner)
    return encode(tree["class"], tree["params"], tree["state"])


def from_bytes(
    data: bytes, name: str, kernel: Callable[..., Any] | None = None, *, tried: bool = True
) -> Any:
    """Return the learner from the bytes of its file; ``name`` is for messages."""
    header, _ = decode(data, name)
    return learner_from_tree(header, name, kernel, tried=tried)


def save_checkpoint(tree: dict[str, Any], path: str | Path) -> None:
    """Write a tree of arrays, numbers and text, whole or not at all.

    Its entry "model" is a `learner_tree`, or None before the first labelled row.
    """
    write_atomically(path, encode(CHECKPOINT, {}, tree))


def load(path: str | Path, kernel: Callable[..., Any] | None = None) -> Any:
    """Read a learner that `save` wrote; a learner with a user's kernel needs that ``kernel``.

    From a checkpoint of `pronk run`, read the model; from a folder that `Keyed` wrote, open its
    models, which stay in that folder. Nothing in the file is executed. A file that is no model, is
    truncated or was altered raises a ModelFileError, which is a ValueError.
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
    """Return the header of a file: "format", "pronk", "class", "params" and "state"."""
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise ModelFileError(f"{path} is not a file")
        data = Path(path).read_bytes()
    except (OSError, MemoryError) as error:
        reason = getattr(error, "strerror", None) or "not enough memory"
        raise ModelFileError(f"{path} cannot be read: {reason}") from None
    return decode(data, path)[0]


def settings_text(learner: Any) -> str:
    """Return the class and the parameters of a learner as text, without its fitted state."""
    arrays: dict[str, NDArray[Any]] = {}
    params = pack(_params(learner), "params", arrays)
    held = {name: array.tolist() for name, array in arrays.items()}
    return json.dumps(
        {"class": type(learner).__name__, "params": params, "arrays": held}, sort_keys=True
    )


def from_settings_text(text: str, path: str | Path) -> Any:
    """Return a new learner from what `settings_text` returned; ``path`` is for messages."""
    tree = json.loads(text)
    parts = ("class", "params", "arrays")
    known = isinstance(tree, dict) and set(tree) == set(parts)
    if not known or not all(isinstance(tree[name], dict) for name in parts[1:]):
        raise ModelFileError(f"{path} does not describe its learner")
    arrays = {name: np.array(values) for name, values in tree["arrays"].items()}
    return _build(learner_class(tree["class"], path), unpack(tree["params"], arrays))


def learner_tree(learner: Any) -> dict[str, Any]:
    """Return the class's name, the parameters and the state of a fitted learner."""
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
    """Return the learner that `learner_tree` described; ``path`` is for messages.

    Raise a ModelFileError if it would not work. With ``tried``, a few rows are predicted, learned
    and rolled back, which finds invalid numbers that the checks of single fields cannot find.
    """
    known = isinstance(tree, dict) and {"class", "params", "state"} <= set(tree)
    if not known or not isinstance(tree["params"], dict):
        raise ModelFileError(f"{path} contains no learner")
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
    except ModelFileError as error:  # raised for a learner inside another
        raise ModelFileError(f"{path}: {error}") from None
    except Exception as error:  # whatever the file contains, there is one kind of error
        text = str(error) or type(error).__name__
        raise ModelFileError(f"{path} does not contain a working {tree['class']}: {text}") from None
    return learner


def _params(learner: Any) -> dict[str, Any]:
    """Return parameters for a file: a learner around another names the class of the inner one."""
    own = getattr(learner, "_file_params", None)
    return dict(learner.get_params(deep=False) if own is None else own())


def _build(kind: Any, params: dict[str, Any]) -> Any:
    """Return a learner of a class from what `_params` returned."""
    make = getattr(kind, "_from_file", None)
    return kind(**params) if make is None else make(params)


def learner_class(name: Any, path: str | Path) -> Any:
    """Return the public class of a name that a file contains."""
    found = getattr(importlib.import_module("pronk"), name, None) if isinstance(name, str) else None
    if not (isinstance(found, type) and hasattr(found, "_try_out")):
        raise ModelFileError(
            f"{path} contains a {name!r}, which this version of pronk does not know"
        )
    return found


# -- the state of a learner ------------------------------------------------------------------------


class SavedState(Parameters):
    """The part of a learner that saves its fitted state and restores it from an untrusted file."""

    def save(self, path: str | Path) -> None:
        """Write the fitted learner to one file (no pickle); `pronk.load` reads it."""
        save(self, path)

    def _fitted_state(self: Any) -> dict[str, Any]:
        """Return the state as arrays, numbers and text."""
        check_is_fitted(self)
        with self._own_lock():
            return self._gather_state()

    def _gather_state(self: Any) -> dict[str, Any]:
        """Return the state; the caller holds the lock."""
        state: dict[str, Any] = {
            "n_features_in_": self.n_features_in_,
            "n_seen_": self.n_seen_,
            "seed": self._seed,
            "keys": getattr(self, "_keys", None),
            "model": self._model.to_state(),
        }
        if hasattr(self, "feature_names_in_"):
            state["feature_names_in_"] = list(self.feature_names_in_)
        if "_bandwidth" in self.__dict__:
            state["bandwidth"] = self._bandwidth
        return state

    #: The entries of a fitted state; ``feature_names_in_`` and ``bandwidth`` are optional.
    _FIELDS: ClassVar[tuple[str, ...]] = ("n_features_in_", "n_seen_", "seed", "keys", "model")

    def _restore(self: Any, state: Any) -> None:
        """Restore a fitted state of an untrusted file; raise a StateError if it does not fit.

        The parameters are checked first, as at the first row.
        """
        self._validate_params()
        get_kernel(self.kernel, auto=True)
        require(isinstance(state, dict), "the state is not a table")
        unknown = set(state) ^ set(self._FIELDS) - {"feature_names_in_"}
        unknown.discard("feature_names_in_")
        settled = self._measures_bandwidth and "bandwidth" in state
        unknown -= {"bandwidth"} if settled else set()
        require(not unknown, f"{min(unknown, default='')} is unknown or missing")
        columns = checked_count(state["n_features_in_"], "n_features_in_", 1)
        self.n_features_in_ = columns
        self.n_seen_ = checked_count(state["n_seen_"], "n_seen_")
        if "feature_names_in_" in state:
            names = _checked_names(state["feature_names_in_"], "feature_names_in_", columns)
            require(all(type(name) is str for name in names), "feature_names_in_ are not text")
            self.feature_names_in_ = np.array(names, dtype=object)
        if state["keys"] is not None:
            self._keys = _checked_names(state["keys"], "keys", columns)
        seed = state["seed"]
        whole = isinstance(seed, int) and not isinstance(seed, bool) and seed >= 0
        require(whole, "seed is not a whole number from 0 on")
        self._seed = seed
        outputs = self._restore_outputs(state)
        self._check_sizes(columns, outputs, state["model"])
        if settled:
            self._bandwidth = _checked_bandwidth(state["bandwidth"])
        with limited:
            self._model = self._new_model(columns, outputs)
            self._model.restore(state["model"])
        self._read_kernel()

    def _restore_outputs(self, state: dict[str, Any]) -> int:
        """Restore the labels or the shape of y; return the number of outputs."""
        raise NotImplementedError

    def _check_sizes(self: Any, columns: int, outputs: int, model: Any) -> None:
        """Limit the memory of the engine, which is built before the arrays are checked."""
        require(outputs <= _entries(model), "outputs are more than the model has entries")
        frequencies = getattr(self, "n_features", None)
        wide = frequencies if isinstance(frequencies, int) else 16
        points = getattr(self, "dictionary", None)
        given = 0 if points is None or isinstance(points, str) else np.size(points)
        large = columns * wide > MOST_NUMBERS or given > MOST_NUMBERS**0.5 / 4
        require(not large, "the model would take too much memory")

    def _try_out(self: Any) -> None:
        """Predict and learn a few rows, and roll back; raise if a prediction is not finite.

        Where the state is large, rows are only predicted. With a user's kernel, which may not
        accept every row, nothing is tried.
        """
        if self._user_kernel:
            return
        X = np.zeros((3, self.n_features_in_))
        X[1], X[2] = 0.5, np.linspace(-1.0, 1.0, self.n_features_in_)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            held = self._held_points()
            if held is not None and len(held):
                X[2] = held[-1]
            self._predict(X)
            if _entries(self._model.to_state()) < SMALL_STATE:
                with suppress(_TriedOut):
                    all_or_nothing(self, self._learn_and_raise, X)

    def _learn_and_raise(self: Any, X: NDArray[Any]) -> None:
        """Learn rows; raise a _TriedOut if the new state can be restored too."""
        self.partial_fit(X, self._trial_targets(len(X)), **self._trial_options(len(X)))
        self._predict(X)
        clone(self)._restore(self._fitted_state())
        raise _TriedOut

    def _trial_targets(self, rows: int) -> Any:
        """Return targets that the learner accepts."""
        raise NotImplementedError

    def _trial_options(self, rows: int) -> dict[str, Any]:
        """Return what `partial_fit` needs beside rows and targets."""
        return {}


def _checked_bandwidth(value: Any) -> float:
    good = isinstance(value, float) and 0.0 < value < float("inf")
    require(good, "bandwidth is not a positive number")
    return float(value)


class _TriedOut(Exception):
    """Raised to end a trial, so that the trial is rolled back."""


def _checked_names(value: Any, field: str, columns: int) -> list[Any]:
    """Return one name (text or number) per column."""
    require(isinstance(value, list) and len(value) == columns, f"{field} do not fit the columns")
    require(all(isinstance(name, str | int | float) for name in value), f"{field} are no names")
    return list(value)


def _entries(tree: Any) -> int:
    """Return how many numbers, texts and array entries a tree has."""
    if isinstance(tree, dict):
        return len(tree) + sum(_entries(value) for value in tree.values())
    if isinstance(tree, list):
        return len(tree) + sum(_entries(value) for value in tree)
    return tree.size if isinstance(tree, np.ndarray) else 1
