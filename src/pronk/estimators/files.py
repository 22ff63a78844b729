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
from dataclasses import asdict
from json.encoder import encode_basestring_ascii as _quoted
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from safetensors import numpy as safetensors_numpy
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from pronk._version import __version__
from pronk.columns.frames import Layout
from pronk.columns.model import Columns
from pronk.core.dictionary import RULES, Rule
from pronk.core.kernels import KERNELS, Kernel, get_kernel
from pronk.core.runtime import limited
from pronk.core.state import checked_count, require
from pronk.estimators.atomic import write_atomically
from pronk.estimators.calls import all_or_nothing, own_lock
from pronk.estimators.inputs import Declared

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
#: Where that entry may stand: `load` has one kernel to give, to the outermost learner.
_PLACES_OF_A_USER_KERNEL = ("params/kernel", "state/model/params/kernel")
#: The class in the header of a checkpoint, whose state contains a model and other things.
CHECKPOINT = "checkpoint"

#: Names of NumPy's dtypes in the container, and their order: large ones come first.
_KINDS = {
    "|b1": ("BOOL", 0), "|u1": ("U8", 1), "|i1": ("I8", 2), "<i2": ("I16", 3), "<u2": ("U16", 4),
    "<f2": ("F16", 5), "<i4": ("I32", 6), "<u4": ("U32", 7), "<f4": ("F32", 8), "<f8": ("F64", 9),
    "<i8": ("I64", 10), "<u8": ("U64", 11),
}  # fmt: skip

#: The types of a tree that JSON has too.
_PLAIN = frozenset({float, int, str, bool, type(None)})
#: The only entry in the state of a learner that has learned nothing: its columns, if it has any.
_BLANK = {"layout"}
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
    return _container(arrays, text)


def _container(arrays: dict[str, NDArray[Any]], text: str) -> bytes:
    """Return a safetensors container with the header's text and the checksum as its metadata.

    Its keys are in order, and its own header is written here: the safetensors package writes the
    metadata in any order, and takes longer for small models.
    """
    names = sorted(arrays)
    contents = {name: arrays[name].tobytes() for name in names}
    groups: dict[int, list[str]] = {}
    for name in names:
        groups.setdefault(_KINDS[arrays[name].dtype.str][1], []).append(name)
    entries, parts, end = {}, [b"", b""], 0
    for _, group in sorted(groups.items(), reverse=True):  # large numbers first
        for name in group:
            array, content = arrays[name], contents[name]
            start, end = end, end + len(content)
            shape = ",".join(map(str, array.shape))
            kind = _KINDS[array.dtype.str][0]
            entries[name] = f'{{"data_offsets":[{start},{end}],"dtype":"{kind}","shape":[{shape}]}}'
            parts.append(content)
    metadata = {"pronk": text, "sha256": digest(text, arrays)}
    lines = [f'"__metadata__":{json.dumps(metadata, separators=(",", ":"))}']
    lines += [f"{_quoted(name)}:{entries[name]}" for name in names]
    header = f"{{{','.join(lines)}}}".encode()
    header += b" " * (-len(header) % 8)
    parts[0], parts[1] = len(header).to_bytes(8, "little"), header
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
    found = hashlib.sha256(text.encode())
    for name in sorted(arrays):
        array = arrays[name]
        found.update(f"{name} {array.dtype.str} {array.shape}".encode())
        found.update(np.ascontiguousarray(array).data if array.size else b"")
    return found.hexdigest()


def pack(value: Any, path: str, arrays: dict[str, NDArray[Any]]) -> Any:
    """Return a tree as JSON; its arrays are moved to ``arrays`` under their path."""
    if type(value) in _PLAIN:
        return value
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
        if path not in _PLACES_OF_A_USER_KERNEL:
            raise ValueError(
                "a learner inside another has a kernel function, which a file cannot contain: "
                "pickle the outer learner instead, or name a kernel"
            )
        return dict(USER_KERNEL)
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
    data = encode(tree["class"], tree["params"], tree["state"])
    _check_loads(decode(data, path)[0], path, tree["params"].get("kernel"))
    write_atomically(path, data)


def _check_loads(tree: Any, path: str | Path, kernel: Any) -> None:
    """Raise an OSError, before anything is written, if the tree of a learner does not load.

    That would be a fault of pronk: the file on the disk, if there is one, stays as it is.
    ``kernel`` is used if it is a user's function.
    """
    try:
        learner_from_tree(tree, path, kernel, tried=False)
    except ModelFileError as error:
        raise OSError(
            f"{path} was not written, because the file could not be loaded again ({error}); "
            "the learner is unharmed: keep it with pickle.dump, and report the fault"
        ) from None


def to_bytes(learner: Any) -> bytes:
    """Return a learner as the bytes of its file; `from_bytes` reads them.

    Other than `save` it takes a learner that has learned nothing yet.
    """
    tree = any_tree(learner)
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
    data = encode(CHECKPOINT, {}, tree)
    if (model := tree.get("model")) is not None:
        saved = decode(data, path)[0]["state"]["model"]
        _check_loads(saved, path, model["params"].get("kernel"))
    write_atomically(path, data)


def load(path: str | Path, kernel: Callable[..., Any] | None = None) -> Any:
    """Read a learner that `save` wrote; a learner with a user's kernel needs that ``kernel``.

    From a checkpoint of `pronk run`, read the model; from a folder that `Keyed` wrote, open its
    models, which stay in that folder. Nothing in the file is executed. A file that is no model, is
    truncated or was altered raises a ModelFileError, which is a ValueError.
    """
    if Path(path).is_dir():
        return importlib.import_module("pronk").Keyed.open(path)
    return _learner_from_header(read_header(path), path, kernel)


def _learner_from_header(header: dict[str, Any], path: str | Path, kernel: Any) -> Any:
    """Return the learner of a file, or the model of a checkpoint."""
    if header["class"] != CHECKPOINT:
        return learner_from_tree(header, path, kernel)
    model = header["state"].get("model")
    if model is None:
        raise ModelFileError(f"{path} is a checkpoint before the first labelled row")
    return learner_from_tree(model, path, kernel)


def dumps(model: Any) -> bytes:
    """Return a model as bytes, the contents of the file that ``model.save`` writes (no pickle).

    All learners, `Prepared`, `Pending`, and `Intervals` and `Calibrated` around one of pronk's own
    learners. Other than a file, the bytes may be those of a model that has learned nothing yet. A
    `Keyed` is a folder, and raises; so does a class that `loads` could not find.

    Examples
    --------
    >>> import numpy as np
    >>> import pronk
    >>> X = np.random.default_rng(0).uniform(-1, 1, (300, 2))
    >>> y = X[:, 0] * X[:, 1]
    >>> model = pronk.PKAWVRegressor(random_state=0).partial_fit(X[:200], y[:200])
    >>> data = pronk.dumps(model)
    >>> again = pronk.loads(data)
    >>> found, expected = (m.predict_then_learn(X[200:], y[200:]) for m in (again, model))
    >>> print((found == expected).all(), pronk.dumps(again) == pronk.dumps(model))
    True True
    """
    check_has_file(model)
    return to_bytes(model)


def loads(data: bytes, kernel: Callable[..., Any] | None = None) -> Any:
    """Return the model from the bytes that `dumps` returned, or from those of a model file.

    A learner with a user's kernel needs that ``kernel``. Nothing in the bytes is executed. Bytes
    that are no model, are truncated or were altered raise a ModelFileError, which is a ValueError.

    Examples
    --------
    >>> import pronk
    >>> pronk.loads(pronk.dumps(pronk.FOGDRegressor(n_features=50, random_state=0)))
    FOGDRegressor(n_features=50, random_state=0)
    """
    data = checked_bytes(data, "data")
    return _learner_from_header(decode(data, "data")[0], "data", kernel)


def checked_bytes(data: Any, name: str) -> bytes:
    """Return bytes, also from a bytearray or a memoryview, as some engines have them."""
    if not isinstance(data, bytes | bytearray | memoryview):
        raise TypeError(f"{name} must be bytes, got a {type(data).__name__}")
    return bytes(data)


def check_has_file(model: Any) -> None:
    """Raise a ValueError if no file can contain a model, or the one inside it."""
    kind = type(model)
    if hasattr(model, "store"):  # a `Keyed`
        raise ValueError(
            "a Keyed is a folder with a model per key, which bytes cannot contain: call "
            "keyed.save(folder), or dumps(keyed[key]) for the model of one key"
        )
    if getattr(importlib.import_module("pronk"), kind.__name__, None) is not kind:
        raise ValueError(
            f"{kind.__module__}.{kind.__name__} is no class of pronk, so that only pickle can "
            "store it"
        )
    for name in ("learner", "model"):
        if hasattr(model, name):
            check_has_file(getattr(model, name))


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
    params = pack(params_of(learner), "settings", arrays)
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
    return build(learner_class(tree["class"], path), unpack(tree["params"], arrays))


def learner_tree(learner: Any) -> dict[str, Any]:
    """Return the class's name, the parameters and the state of a fitted learner."""
    return {
        "class": type(learner).__name__,
        "params": params_of(learner),
        "state": learner._fitted_state(),
    }


def any_tree(learner: Any) -> dict[str, Any]:
    """Return what `learner_tree` does; of a learner that has learned nothing, also its columns."""
    fitted = getattr(learner, "__sklearn_is_fitted__", None)
    if fitted is None or fitted():  # rows that wait have no such method: they are saved anyhow
        return learner_tree(learner)
    layout = getattr(learner, "layout_", None)
    state = {"layout": None if layout is None else asdict(layout)}
    return {"class": type(learner).__name__, "params": params_of(learner), "state": state}


def check_parameters(model: Any) -> None:
    """Raise if the parameters of a learner, or of the one inside, are invalid."""
    for name in ("learner", "model"):
        if hasattr(model, name):
            return check_parameters(getattr(model, name))
    model._validate_params()
    get_kernel(model.kernel, auto=True)


def _set_layout(learner: Any, fields: Any) -> None:
    """Declare the columns of a learner that has learned nothing, from an untrusted file."""
    if fields is None:
        return
    require(isinstance(fields, dict), "layout is not a table")
    lists: dict[str, Any] = {
        name: None if value is None else tuple(value) for name, value in fields.items()
    }
    learner.with_layout(Layout(**lists))


def has_kernel_function(model: Any) -> bool:
    """Return whether a model, or the learner in a `Prepared`, has a kernel of the user's own."""
    kernel = getattr(getattr(model, "learner", model), "kernel", None)
    return callable(kernel) and not isinstance(kernel, Kernel)


def learner_from_tree(
    tree: Any, path: str | Path, kernel: Callable[..., Any] | None = None, *, tried: bool = True
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
                "pass it as kernel=function"
            )
        params["kernel"] = kernel
    found = learner_class(tree["class"], path)
    try:
        learner = build(found, params)
        if isinstance(tree["state"], dict) and set(tree["state"]) == _BLANK:
            require(hasattr(learner, "__sklearn_is_fitted__"), "the state is not a table")
            check_parameters(learner)
            _set_layout(learner, tree["state"]["layout"])
            return learner
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


def params_of(learner: Any) -> dict[str, Any]:
    """Return parameters for a file: a learner around another names the class of the inner one."""
    own = getattr(learner, "_file_params", None)
    return dict(learner.get_params(deep=False) if own is None else own())


def build(kind: Any, params: dict[str, Any]) -> Any:
    """Return a learner of a class from what `params_of` returned."""
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


class Saved:
    """A model with a file of its own."""

    def save(self, path: str | Path) -> None:
        """Write the model to one file (no pickle); `pronk.load` reads it."""
        save(self, path)


class SavedState(Saved, Declared):
    """The part of a learner that saves its fitted state and restores it from an untrusted file."""

    def _fitted_state(self: Any) -> dict[str, Any]:
        """Return the state as arrays, numbers and text."""
        check_is_fitted(self)
        with own_lock(self):
            return self._gather_state()

    def _gather_state(self: Any) -> dict[str, Any]:
        """Return the state; the caller holds the lock."""
        state: dict[str, Any] = {
            "columns": self._columns.to_state(),
            "n_seen_": self.n_seen_,
            "seed": self._seed,
            "model": self._model.to_state(),
        }
        if "_bandwidth" in self.__dict__:
            state["bandwidth"] = self._bandwidth
        return state

    #: The entries of a fitted state; ``bandwidth`` is optional.
    _FIELDS: ClassVar[tuple[str, ...]] = ("columns", "n_seen_", "seed", "model")

    def _restore(self: Any, state: Any) -> None:
        """Restore a fitted state of an untrusted file; raise a StateError if it does not fit.

        The parameters are checked first, as at the first row.
        """
        self._validate_params()
        get_kernel(self.kernel, auto=True)
        require(isinstance(state, dict), "the state is not a table")
        unknown = set(state) ^ set(self._FIELDS)
        settled = self._measures_bandwidth and "bandwidth" in state
        unknown -= {"bandwidth"} if settled else set()
        require(not unknown, f"{min(unknown, default='')} is unknown or missing")
        self._set_columns(Columns.from_state(state["columns"]))
        require(self._columns.options == self._options, "the columns have other options")
        columns = self._columns.width
        self.n_seen_ = checked_count(state["n_seen_"], "n_seen_")
        seed = state["seed"]
        whole = isinstance(seed, int) and not isinstance(seed, bool) and seed >= 0
        require(whole, "seed is not a whole number from 0 on")
        self._seed = seed
        outputs = self._restore_outputs(state)
        self._check_sizes(columns, outputs, state["model"])
        if settled:
            bandwidth = state["bandwidth"]
            good = isinstance(bandwidth, float) and 0.0 < bandwidth < float("inf")
            require(good, "bandwidth is not a positive number")
            self._bandwidth = bandwidth
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
            if held is not None and len(held) and self._columns.unchanged:
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


class _TriedOut(Exception):
    """Raised to end a trial, so that the trial is rolled back."""


def _entries(tree: Any) -> int:
    """Return how many numbers, texts and array entries a tree has."""
    if isinstance(tree, dict):
        return len(tree) + sum(_entries(value) for value in tree.values())
    if isinstance(tree, list):
        return len(tree) + sum(_entries(value) for value in tree)
    return tree.size if isinstance(tree, np.ndarray) else 1
