"""Convert frames, tables and arrays to rows of numbers.

A `Layout` describes the columns of a model: their names, if they have any, their kinds
(`pronk.columns.values`), and how their dates are read (`pronk.columns.dates`). It is decided by the
types of the first rows, and whether text is dates by its first value, so that the number of rows
per call does not matter. Later columns are matched by name, in any order; columns that the model
does not have are ignored.

In an array of numbers a category is its code and a time its seconds, as `FileStream` returns them.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from sklearn.utils.validation import check_array

from pronk._interrupts import deferred_interrupts
from pronk.columns.dates import DATE, ISO, ORDERS, decide
from pronk.columns.spelling import is_amount
from pronk.columns.values import (
    BOOLEAN,
    CATEGORY,
    KINDS,
    NUMBER,
    NUMERIC,
    as_numbers,
    column_of,
    has_hours,
    in_words,
    is_text,
    kind_of,
    present,
    row_of_dict,
    row_of_frame,
    unread,
)
from pronk.core.arrays import Array
from pronk.core.checks import check_not_lazy, did_you_mean, no_label

#: Types of cells that need no table.
_NUMBER_TYPES = {int, float, np.float64, np.float32, np.int64, np.int32}


@dataclass(frozen=True)
class Layout:
    """Names and kinds of a model's columns, and the order of day and month in text dates."""

    names: tuple[str, ...] | None
    kinds: tuple[str, ...]
    orders: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.orders:
            object.__setattr__(self, "orders", (ISO,) * len(self.kinds))
        if len(self.orders) != len(self.kinds) or not set(self.orders) <= set(ORDERS):
            raise ValueError(f"orders must be one of {', '.join(ORDERS)} for each column")
        unknown = set(self.kinds) - set(KINDS)
        if unknown:
            raise ValueError(f"kinds must be among {', '.join(KINDS)}; got {unknown.pop()!r}")
        if not all(isinstance(name, str) for name in self.names or ()):
            raise ValueError("names must be text")
        if self.names is not None and len(self.names) != len(self.kinds):
            raise ValueError(f"{len(self.names)} names for {len(self.kinds)} columns")

    def rows(self, X: Any, fills: bool = False) -> Array:
        """Convert X to float64 rows with these columns; missing values are NaN.

        A time that cannot be read raises; with ``fills`` it is missing, with a warning. A time of
        day in a column of dates gives a warning: its hour is not used.
        """
        row = row_of_frame(X, self.names, self.kinds, self.orders)
        if row is not None:
            return row
        table = as_table(X)
        if table is None:
            rows = as_array(X)
            self._check_width(rows.shape[1])
            return rows
        columns = self._columns(table, has_names(X))
        rows = np.empty((table.num_rows, len(self.kinds)))
        for j, (column, kind) in enumerate(zip(columns, self.kinds, strict=True)):
            name = self.names[j] if self.names else j
            rows[:, j] = _values(column, kind, self.orders[j], name, fills)
        return rows

    def row(self, x: Mapping[Any, Any]) -> Any:
        """Return a row given as a dict in a form that `rows` accepts; absent names are missing."""
        if self.names is None:
            raise ValueError(
                "x is a dict, but the columns of this model have no names: give a vector"
            )
        named = {str(name): value for name, value in x.items()}
        absent = [name for name in self.names if name not in named]
        others = [name for name in named if name not in self.names]
        if absent and others and (close := did_you_mean(absent[0], others)):
            raise ValueError(f"x has no column {absent[0]!r}{close}")
        if len(absent) == len(self.names):
            raise ValueError(f"x has none of the columns {', '.join(self.names[:8])}")
        row = row_of_dict(named, self.names, self.kinds, self.orders)
        if row is not None:
            return row
        return pa.table({name: _listed([named.get(name)]) for name in self.names})

    def _check_width(self, width: int) -> None:
        if width != len(self.kinds):
            raise ValueError(
                f"X has {width} features, but this model is expecting {len(self.kinds)} features "
                "as input"
            )

    def _columns(self, table: pa.Table, named: bool) -> list[Any]:
        if self.names is None or not named:
            self._check_width(table.num_columns)
            return list(table.columns)
        found = table.column_names
        for name in self.names:
            if found.count(name) != 1:
                what = f"two columns {name!r}" if name in found else f"no column {name!r}"
                others = [other for other in found if other not in self.names]
                raise ValueError(f"X has {what}{did_you_mean(name, others)}")
        return [table.column(name) for name in self.names]


def layout_of(
    X: Any, categorical: str | Sequence[str | int] = "auto", dates: str = "auto"
) -> Layout:
    """Return the layout of the first rows; "auto": text that is not dates is categories."""
    table = as_table(X)
    fields = [] if table is None else list(table.schema)
    names = tuple(table.column_names) if table is not None and has_names(X) else None
    kinds = [kind_of(field.type) for field in fields]
    if table is None:
        kinds = [NUMBER] * as_array(X).shape[1]
    automatic = isinstance(categorical, str) and categorical == "auto"
    chosen = () if automatic else _several(categorical)
    places = {_place(one, names, len(kinds)) for one in chosen}
    orders = [ISO] * len(kinds)
    for j, field in enumerate(fields):
        if pa.types.is_null(field.type) and j not in places:
            warnings.warn(
                f"X column {field.name!r} has no value in the first rows and is treated as "
                "numbers; if it holds categories, name it in categorical",
                stacklevel=2,
            )
        if table is not None and j not in places and is_text(field.type):
            first = present(table.column(j)).slice(0, 1).cast(pa.string()).combine_chunks()
            found = decide(first, dates)
            amount = len(first) > 0 and is_amount(first[0].as_py())
            kinds[j], orders[j] = (NUMBER if amount else CATEGORY, ISO)
            if found is not None:
                kinds[j], orders[j] = found[:2]
        _check_kind(field, automatic or j in places or kinds[j] != CATEGORY)
    for place in places:
        kinds[place] = CATEGORY
    return Layout(names, tuple(kinds), tuple(orders))


def _several(categorical: Any) -> Sequence[str | int]:
    return [categorical] if isinstance(categorical, str | int) else list(categorical)


def _place(column: str | int, names: Sequence[str] | None, width: int) -> int:
    if isinstance(column, str):
        if names is None or column not in names:
            hint = did_you_mean(column, names or ())
            raise ValueError(f"categorical: X has no column {column!r}{hint}")
        return list(names).index(column)
    if not 0 <= column < width:
        raise ValueError(f"categorical column {column}: X has {width} columns")
    return int(column)


def _check_kind(field: Any, named: bool) -> None:
    """Raise for nested columns, and for text that is not among the named categories."""
    if pa.types.is_nested(field.type) or pa.types.is_binary(field.type):
        raise ValueError(f"X column {field.name!r} is {in_words(field.type)}; drop or flatten it")
    if not named and kind_of(field.type) == CATEGORY:
        raise ValueError(
            f"X column {field.name!r} is {in_words(field.type)}; name it in categorical, or drop it"
        )


def whole(X: Any) -> Any:
    """Return X, or the table of a list of dicts, or of Arrow batches that can be read once."""
    if _are_dicts(X):
        return as_table(X)
    if hasattr(X, "__arrow_c_stream__") and not hasattr(X, "shape"):
        return pa.table(X)
    return X


def count_rows(X: Any) -> int:
    """Return the number of rows of a frame, a table, an array or a list of rows."""
    shape = getattr(X, "shape", None)
    if shape:
        return int(shape[0])
    check_not_lazy(X)
    if hasattr(X, "num_rows"):
        return int(X.num_rows)
    check_rows_of(X)
    return len(X) if hasattr(X, "__len__") else len(np.asarray(X))


def check_rows_of(X: Any) -> None:
    """Raise if X cannot be rows: a generator, a set, a number."""
    rows = any(hasattr(X, name) for name in ("__len__", "__array__", "shape"))
    if not rows or (isinstance(X, set | dict) and not hasattr(X, "shape")):
        raise ValueError(f"X must be an array, a frame or a list of rows, got {type(X).__name__}")


def is_table(X: Any) -> bool:
    """Return whether X has columns of several kinds or names: no array or list of numbers."""
    if type(X) is np.ndarray:
        return X.dtype.kind in "OUSMm"
    if hasattr(X, "toarray") or hasattr(X, "__array_interface__"):
        return False
    if hasattr(X, "iloc") or hasattr(X, "to_arrow") or hasattr(X, "__arrow_c_stream__"):
        return True
    if hasattr(X, "column_names") or _are_dicts(X) or hasattr(X, "collect_schema"):
        return True
    if not isinstance(X, list | tuple):
        return False
    return any(
        isinstance(row, list | tuple) and any(type(cell) not in _NUMBER_TYPES for cell in row)
        for row in X
    )


def as_table(X: Any) -> pa.Table | None:
    """Convert a frame, a table, or an array of objects or text to Arrow; None for other X."""
    if isinstance(X, pa.Table):
        return X
    check_not_lazy(X)
    if isinstance(X, pa.RecordBatch):
        return pa.Table.from_batches([X])
    if hasattr(X, "iloc"):  # pandas
        if len(X.shape) == 1:
            raise ValueError("X has one dimension; give a frame: X.to_frame() for one column")
        if not has_names(X):
            X = X.set_axis([f"x{i}" for i in range(X.shape[1])], axis=1)
        X = _with_plain_types(X)
        try:
            with deferred_interrupts():  # comparing dtypes, NumPy drops what a signal raises
                return pa.Table.from_pandas(X, preserve_index=False)
        except (pa.ArrowException, OverflowError):
            columns = [_of_frame(X.iloc[:, j]) for j in range(X.shape[1])]
            return pa.table(columns, names=list(X.columns))
    if hasattr(X, "to_arrow"):  # polars
        return X.to_arrow()
    if hasattr(X, "__arrow_c_stream__"):
        return pa.table(X)
    if _are_dicts(X):
        names = dict.fromkeys(str(name) for row in X for name in row)
        named = [{str(name): value for name, value in row.items()} for row in X]
        return pa.table({name: _listed([row.get(name) for row in named]) for name in names})
    values = None if hasattr(X, "toarray") else np.asarray(X)
    if values is not None and values.dtype.kind == "U" and isinstance(X, list | tuple):
        values = np.array(X, dtype=object)  # numbers stay numbers beside text
    if values is None or values.ndim != 2 or values.dtype.kind in "biuf":
        return None
    columns = [_column(values[:, j]) for j in range(values.shape[1])]
    return pa.table(columns, names=[f"x{i}" for i in range(len(columns))])


def _of_frame(column: Any) -> pa.Array:
    """Convert a column of a pandas frame; a mixture of numbers and text is text, as in a list."""
    values = column.tolist() if column.dtype == object else []
    known = all(isinstance(value, str | int | float) or no_label(value) for value in values)
    try:
        if known and any(isinstance(value, str) for value in values):
            return _listed(values)
        return pa.array(column, from_pandas=True)
    except (pa.ArrowException, OverflowError) as error:
        text = str(error.args[-1] if error.args else error).strip().splitlines()[0]
        name = f"X has a column of mixed values: {column.name!r}"
        raise ValueError(f"{name} ({text})") from None


def _with_plain_types(X: Any) -> Any:
    """Return a pandas frame with the start of each period in its place, and of intervals the text.

    A category that is a period or an interval becomes the same as its value would.
    """
    found = {}
    for name, kind in X.dtypes.items():
        held = str(getattr(getattr(kind, "categories", None), "dtype", kind))
        if held.startswith("interval"):
            found[name] = X[name].astype(object).map(str, na_action="ignore")
        elif held.startswith("period["):
            begins = X[name].astype(held).dt.to_timestamp()
            # B, D, M, Q, W, Y: days and longer; shorter periods have small letters.
            found[name] = begins.dt.date if held[7].isupper() else begins
    return X.assign(**found) if found else X


def _column(values: NDArray[Any]) -> pa.Array:
    """Convert a column of objects or text to Arrow; a mixture of numbers and text is text."""
    return pa.array(values) if values.dtype.kind == "M" else _listed(values.tolist())


def _listed(values: list[Any]) -> pa.Array:
    return column_of([None if no_label(value) else value for value in values])


def _are_dicts(X: Any) -> bool:
    """Return whether X is a list of rows that are dicts."""
    return isinstance(X, list | tuple) and bool(X) and isinstance(X[0], Mapping)


def as_array(X: Any) -> Array:
    """Convert rows of numbers to a C-contiguous float64 array."""
    if type(X) is np.ndarray and X.dtype == np.float64 and X.ndim == 2 and X.flags.c_contiguous:
        return X
    if hasattr(X, "toarray"):
        X = X.toarray()
    rows: Array = check_array(
        X, dtype=np.float64, order="C", ensure_all_finite=False, ensure_min_samples=0
    )
    return rows


def has_names(X: Any) -> bool:
    """Return whether X has named columns, and all names are text."""
    if _are_dicts(X):
        return True
    names = list(getattr(X, "column_names", getattr(X, "columns", ())))
    return bool(names) and all(isinstance(name, str) for name in names)


def _values(column: Any, kind: str, order: str, name: Any, fills: bool) -> Array:
    """Convert a column to numbers; raise an error that names a value of another kind."""
    column = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    try:
        found = as_numbers(column, kind, order)
    except (pa.ArrowException, KeyError, AttributeError):
        row, value = _first_of_another_kind(column, kind)
        raise _another_kind(name, row, value, kind) from None
    if kind in (BOOLEAN, CATEGORY):
        return found
    failed = unread(column, found)
    if failed.any():
        row = int(failed.argmax())
        error = _another_kind(name, row, column[row].as_py(), kind)
        if not fills or kind == NUMBER:
            raise error
        warnings.warn(f"{error}; {failed.sum()} such values are treated as missing", stacklevel=2)
    if kind == DATE and has_hours(found).any():
        warnings.warn(
            f"X column {name!r} began with dates without a time of day, so the hours of later "
            "values are not used; give the first value a time (2015-01-31 00:00) to use them",
            stacklevel=2,
        )
    return found


def _another_kind(name: Any, row: int, value: Any, kind: str) -> ValueError:
    text = f"X column {name!r} has {value!r} at row {row} (counting from 0), which is not a {kind} "
    hint = ""
    if kind not in (*NUMERIC, CATEGORY):
        hint = "; dates='dayfirst' or 'monthfirst' sets how dates with the year last are read"
    return ValueError(f"{text}like the rows before{hint}")


def _first_of_another_kind(column: Any, kind: str) -> tuple[int, Any]:
    for row in range(len(column)):
        try:
            as_numbers(column.slice(row, 1), kind)
        except (pa.ArrowException, KeyError, AttributeError):
            return row, column[row].as_py()
    return 0, column[0].as_py()
