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
    none = "none"


class Order(StrEnum):
    """In which order the rows come."""

    given = "given"
    random = "random"
