"""Keys and input of keyed models: encoded keys, shards, rows grouped by key, input checks.

A key is a string, an integer or a boolean. It has one meaning wherever it comes from, as a category
has (`pronk.columns.values`): 7, 7.0, "7" and "7.0" are one key, and so are True, "True" and "true";
"007" is another. A CSV file has text where a frame has numbers, and both mean the same model.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pronk.columns.frames import is_table, whole
from pronk.columns.values import spelled
from pronk.estimators.inputs import check_targets
from pronk.estimators.labels import check_labels

Key = str | int | bool

#: A whole number as `spelled` writes it, within 64 bits.
_WHOLE = re.compile(r"-?(?:0|[1-9]\d{0,17})", re.ASCII)


def encode_key(key: Any) -> str:
    """Return a key as JSON text, the same for equal keys of Python, NumPy and files."""
    if isinstance(key, np.generic):
        key = key.item()
    if isinstance(key, float) and key.is_integer():
        key = int(key)
    if not isinstance(key, str | int):
        raise ValueError(f"a key must be a string, an integer or a boolean, got {key!r}")
    if isinstance(key, str):
        text = spelled(key)
        key = json.loads(text) if _WHOLE.fullmatch(text) or text in ("true", "false") else key
    return json.dumps(key, ensure_ascii=False)


def decode_key(text: str) -> Key:
    """Return the key of an encoded text; raise a ValueError if the text is not a key."""
    key: Any = json.loads(text)
    if not isinstance(key, str | int):
        raise ValueError(f"{text} is not a key")
    return key


def digest(text: str) -> int:
    """Hash an encoded key to 64 bits, the same on every machine."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


def shard_of(text: str, shards: int) -> int:
    """Return the number of the shard of an encoded key."""
    return digest(text) % shards


def with_own_seeds(model: Any, text: str, seed: int = 0) -> Any:
    """Give a new model, and the models inside it, the random numbers of an encoded key.

    ``seed`` stands for a ``random_state`` that is no number.
    """
    for name, value in model.get_params(deep=True).items():
        if name.rpartition("__")[2] == "random_state":
            own = int(value) if isinstance(value, int | np.integer) else seed
            model.set_params(**{name: (own ^ digest(text)) & (2**63 - 1)})
    return model


class Keys:
    """The keys of rows: the distinct ``values``, and for each row the index of its value."""

    def __init__(self, values: Sequence[Any], codes: NDArray[np.int64]) -> None:
        self.values, self.codes = values, codes

    @classmethod
    def from_values(cls, keys: Any) -> Keys:
        """Build the keys of rows from a list, a NumPy array or an Arrow array."""
        if isinstance(keys, Keys):
            return keys
        if hasattr(keys, "dictionary_encode"):
            found = keys.dictionary_encode("encode")
            found = found.combine_chunks() if hasattr(found, "combine_chunks") else found
            return cls(found.dictionary.to_pylist(), found.indices.to_numpy().astype(np.int64))
        if isinstance(keys, np.ndarray) and keys.ndim == 1 and keys.dtype.kind in "biuU":
            values, codes = np.unique(keys, return_inverse=True)
            return cls(values.tolist(), codes)
        numbers: dict[Any, int] = {}
        listed = keys.tolist() if isinstance(keys, np.ndarray) else keys
        codes = np.fromiter((numbers.setdefault(key, len(numbers)) for key in listed), np.int64)
        return cls(list(numbers), codes)

    def __len__(self) -> int:
        return len(self.codes)


def rows_by_key(keys: Any, shards: int) -> list[tuple[str, NDArray[np.intp]]]:
    """Return each encoded key with the numbers of its rows, in order, sorted by shard.

    Keys of the same shard are in the order of their first rows.
    """
    keys = Keys.from_values(keys)
    order = np.argsort(keys.codes, kind="stable")
    cuts = np.flatnonzero(np.diff(keys.codes[order])) + 1
    texts: dict[str, NDArray[np.intp]] = {}
    for numbers in np.split(order, cuts) if len(order) else ():
        text = _text(keys, numbers[0])
        if text in texts:  # 1 and 1.0
            numbers = np.sort(np.concatenate((texts[text], numbers)))
        texts[text] = numbers
    return sorted(texts.items(), key=lambda item: (shard_of(item[0], shards), item[1][0]))


def rows_by_shard(keys: Keys, shards: int) -> list[tuple[int, NDArray[np.intp], Keys]]:
    """Return each shard that has rows with the numbers of its rows, in order, and their keys."""
    found = []
    grouped = groupby(rows_by_key(keys, shards), key=lambda item: shard_of(item[0], shards))
    for shard, items in grouped:
        numbers = np.sort(np.concatenate([rows for _, rows in items]))
        used, codes = np.unique(keys.codes[numbers], return_inverse=True)
        found.append((shard, numbers, Keys([keys.values[code] for code in used], codes)))
    return found


def _text(keys: Keys, row: int) -> str:
    """Return the encoded key of a row."""
    try:
        return encode_key(keys.values[keys.codes[row]])
    except ValueError as error:
        raise ValueError(f"{error} at row {row} (counting from 0)") from None


# -- input checks ----------------------------------------------------------------------------------

Array = NDArray[np.float64]


def split_keys(X: Any, by: str | int) -> tuple[Any, Any]:
    """Return X without the column ``by``, and the keys in that column."""
    X = whole(X)
    names = list(getattr(X, "column_names", getattr(X, "columns", ())))
    if names or isinstance(by, str):
        place = by if isinstance(by, str) else names[by] if 0 <= by < len(names) else None
        if place is None or place not in names:
            columns = (
                f"it has {', '.join(map(str, names))}" if names else "its columns have no names"
            )
            raise ValueError(f"X has no column {by!r} with the keys; {columns}")
        keys = X[place]
        if hasattr(X, "drop_columns"):  # a pyarrow table
            return X.drop_columns([place]), keys.to_pylist()
        return (X.drop(columns=[place]) if hasattr(X, "iloc") else X.drop(place)), keys.to_list()
    rows = X.toarray() if hasattr(X, "toarray") else X
    rows = np.array(rows, dtype=object) if is_table(rows) else np.asarray(rows)
    if rows.ndim != 2 or not 0 <= by < rows.shape[1]:
        raise ValueError(f"X has shape {rows.shape}, but the keys must be in column {by}")
    return np.delete(rows, by, axis=1), rows[:, by]


def checked_targets(y: Any, rows: int, labels: bool) -> NDArray[Any]:
    """Return y as checked numbers, or labels if ``labels``, one per row."""
    return check_labels(y, rows) if labels else check_targets(y, rows)
