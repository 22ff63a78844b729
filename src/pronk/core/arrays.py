"""The type of most arrays of the library."""

import numpy as np
from numpy.typing import NDArray

#: Double precision, of any shape.
Array = NDArray[np.float64]
