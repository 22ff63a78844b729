"""What a parameter may be, in scikit-learn's words.

scikit-learn has these in a private module. They are taken from there here and nowhere else, so that
a release which moves them changes one file.
"""

from sklearn.utils._param_validation import Interval, InvalidParameterError, StrOptions

__all__ = ["Interval", "InvalidParameterError", "StrOptions"]
