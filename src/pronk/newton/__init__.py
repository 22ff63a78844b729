"""Second order: sums of outer products and their factor, in features or in the span of points."""
