"""Choices that several commands have."""

from __future__ import annotations

from enum import StrEnum


class Task(StrEnum):
    """What is predicted."""

    auto = "auto"
    regression = "regression"
    classification = "classification"


class Scale(StrEnum):
    """How columns are scaled on the way."""

    minmax = "minmax"
    standard = "standard"
    robust = "robust"
    none = "none"


class Encoding(StrEnum):
    """How a category gets its slot."""

    hash = "hash"
    onehot = "onehot"


class Missing(StrEnum):
    """What a missing value is."""

    error = "error"
    mean = "mean"


class Order(StrEnum):
    """In which order the rows come."""

    given = "given"
    random = "random"
