"""The engines: float64 arrays in, float64 arrays out. They know no labels and no user errors."""

import pronk.parts  # noqa: F401  (says how compiled functions are cached)
