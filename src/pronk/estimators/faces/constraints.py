"""What a parameter may be, in scikit-learn's words; asked once of values that come again.

scikit-learn has these in a private module. They are taken from there here and nowhere else, so that
a release which moves them changes one file.
"""

from typing import Any, ClassVar

from sklearn.base import BaseEstimator
from sklearn.utils._param_validation import Interval, InvalidParameterError, StrOptions

__all__ = ["Interval", "InvalidParameterError", "Parameters", "StrOptions"]

#: Values that are what they are: a parameter of another kind is looked at every time.
_PLAIN = {int, float, bool, str, type(None)}
#: Settings that were good, of all learners of this process; so many are remembered.
_GOOD: set[Any] = set()
_MOST_GOOD = 1000


class Parameters(BaseEstimator):
    """An estimator whose parameters are read and checked quickly: of keyed models there are many.

    scikit-learn asks the constructor for its signature every time, and looks at every value.
    """

    _param_names: ClassVar[tuple[str, ...]]

    @classmethod
    def _get_param_names(cls) -> list[str]:
        names = cls.__dict__.get("_param_names")
        if names is None:
            names = cls._param_names = tuple(super()._get_param_names())
        return list(names)

    def _validate_params(self) -> None:
        """Check the parameters; those of a setting that was good before, but for the seed, are."""
        params = self.get_params(deep=False)
        seed = params.pop("random_state", None)
        kinds, values = [type(value) for value in params.values()], params.values()
        plain = _PLAIN.issuperset(kinds) and (seed is None or (type(seed) is int and seed >= 0))
        setting = (type(self), *kinds, *values) if plain else ()
        if plain and setting in _GOOD:
            return
        super()._validate_params()
        if plain and len(_GOOD) < _MOST_GOOD:
            _GOOD.add(setting)
