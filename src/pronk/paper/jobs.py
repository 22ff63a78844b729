"""The jobs of a paper: one learner (or one computation), one data set, one seed."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

from pronk.evaluate import study
from pronk.evaluate.study import Outcome, Store, made_by, perform, run
from pronk.paper.data import DataView

__all__ = ["Outcome", "PaperJob", "Store", "as_view", "made_by", "perform", "run", "view"]


@dataclass(frozen=True)
class PaperJob(study.Job):
    """A job whose view is a data set and its scaling (`pronk.paper.data.View`)."""

    package: ClassVar[str] = "pronk.paper"

    def data(self) -> DataView:
        """The data set and its scaling."""
        return as_view(self.view)


def as_view(choices: dict[str, Any]) -> DataView:
    """A view from JSON, which has no tuples."""
    pairs: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in choices.items()
    }
    return DataView(**pairs)


def view(**choices: Any) -> dict[str, Any]:
    """A view as a job holds it."""
    held: dict[str, Any] = json.loads(json.dumps(asdict(DataView(**choices))))
    return held
