"""The bytes of a model file: arrays plus a JSON header in one safetensors container, no pickle.

Whoever can write a file can also make its checksum, so reading trusts nothing: whatever the bytes
are, `decoded` gives a header of the right kinds with its arrays, or raises a `ModelFileError`.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import numpy as safetensors_numpy

from pronk._version import __version__
from pronk.parts.kernels import KERNELS, Kernel
from pronk.parts.rules import RULES, Rule

#: Version of the file format; files of other versions are refused.
FORMAT = 3

_ARRAY = "__array__"
_KERNEL = "__kernel__"
_RULE = "__rule__"
#: What a user's kernel function is in a file.
USER_KERNEL = {_KERNEL: "user"}

#: The names of NumPy's kinds of numbers in the container, and their places: large ones come first.
_KINDS = {
    "|b1": ("BOOL", 0), "|u1": ("U8", 1), "|i1": ("I8", 2), "<i2": ("I16", 3), "<u2": ("U16", 4),
    "<f2": ("F16", 5), "<i4": ("I32", 6), "<u4": ("U32", 7), "<f4": ("F32", 8), "<f8": ("F64", 9),
    "<i8": ("I64", 10), "<u8": ("U64", 11),
}  # fmt: skip

#: The header's entries and what they are.
_HEADER = {"format": int, "pronk": str, "class": str, "params": dict, "state": dict}


class ModelFileError(ValueError):
    """The file is not a pronk model, is damaged, or needs something that was not given."""


def encoded(kind: str, params: Any, state: Any) -> bytes:
    """The file of a learner or checkpoint."""
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
    """The file as safetensors writes it, with its header's keys in order.

    Written here, because safetensors writes the metadata in any order, and because of small models
    there may be many.
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


def decoded(data: bytes, path: str | Path) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Header and arrays of a file's bytes; ``path`` is for messages."""
    try:
        arrays = safetensors_numpy.load(data)
        metadata = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])["__metadata__"]
        text, said = metadata["pronk"], metadata["sha256"]
        found = digest(text, arrays)
    except Exception:  # the container's own errors are of many kinds
        raise ModelFileError(f"{path} is not a pronk model file, or it is truncated") from None
    if said != found:
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
        remedy = "upgrade pronk" if header["format"] > FORMAT else "learn it anew"
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
    """SHA-256 over the header's text and the arrays, in hexadecimal."""
    total = hashlib.sha256(text.encode())
    for name in sorted(arrays):
        array = arrays[name]
        total.update(f"{name} {array.dtype.str} {array.shape}".encode())
        total.update(np.ascontiguousarray(array).tobytes())
    return total.hexdigest()


def pack(value: Any, path: str, arrays: dict[str, NDArray[Any]]) -> Any:
    """A tree as JSON: arrays move to ``arrays`` under their path."""
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
                f"dictionary is a {type(value).__name__}, a rule of your own, which a file cannot "
                "hold; pickle the learner instead"
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
    """A tree from its JSON and its arrays."""
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
