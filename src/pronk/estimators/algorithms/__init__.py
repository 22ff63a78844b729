"""One file per algorithm: idea, update, cost, reference, and the estimator classes."""
