"""`Scaled`, the earlier form of `pronk.Prepared`: the learner itself behind a scaler."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

from pronk.estimators import storage
from pronk.parts.state import checked_count, require
from pronk.streams.prepared import Prepared

#: More columns than this no file of that time had.
MOST_COLUMNS = 2**24


class Scaled(Prepared):
    """A learner behind an online scaler: `pronk.Prepared` by an earlier name.

    The learner that is given learns itself, no copy of it. New code takes `pronk.Prepared`.

    Parameters
    ----------
    learner : a pronk learner
    scaler : "minmax", "standard", "robust" or "none"
    missing, categorical, slots, encoding
        As in `pronk.Prepared`.

    Examples
    --------
    >>> import numpy as np
    >>> import pronk
    >>> from pronk.streams import Scaled
    >>> X = np.random.default_rng(0).uniform(0, 1000, (2000, 2))
    >>> y = np.sin(X[:, 0] / 200) + X[:, 1] / 1000
    >>> learner = Scaled(pronk.make("pkawv-taylor", degree=4))
    >>> predictions = learner.predict_then_learn(X, y)
    >>> print(f"mean squared error {np.mean((predictions - y) ** 2):.3f}")
    mean squared error 0.065
    """

    def __init__(
        self,
        learner: Any,
        scaler: str = "minmax",
        *,
        missing: str = "error",
        categorical: Sequence[int] = (),
        slots: int = 32,
        encoding: str = "onehot",
    ) -> None:
        super().__init__(
            learner,
            missing=missing,
            categorical=categorical,
            slots=slots,
            encoding=encoding,
            scale_target="none",
        )
        self.scaler = scaler

    @property
    def _scale(self) -> str:
        return self.scaler

    def _start_learner(self) -> None:
        self.learner_ = self.learner

    def _forget(self) -> None:
        super()._forget()
        self.learner._reset()

    @classmethod
    def _from_file(cls, params: dict[str, Any]) -> Self:
        known = dict(params)
        name, settings = known.pop("learner"), known.pop("params")
        known["categorical"] = tuple(known.get("categorical", ()))
        return cls(storage.learner_class(name, "the file")(**settings), **known)

    def _restore(self, state: Any) -> None:
        require(isinstance(state, dict), "the state is not a table")
        if "kinds" not in state:
            state = self._upgraded(state)
        super()._restore(state)

    def _upgraded(self, state: dict[str, Any]) -> dict[str, Any]:
        """The state of a file that knew columns by their numbers, or only the learner's."""
        learner, scaler = state["learner"], state["scaler"]
        columns = state.get("columns") or learner["n_features_in_"]
        checked_count(columns, "columns", 1, MOST_COLUMNS)
        names = state.get("names") or learner.get("feature_names_in_")
        if self.missing == "error" and not self.categorical:
            scaler = {"scaler": scaler, "means": None, "categories": []}
        kinds = ["category" if j in self.categorical else "number" for j in range(columns)]
        return {
            "names": names,
            "kinds": kinds,
            "preparation": {**scaler, "first_times": None},
            "learner": learner,
            "story": None,
        }
