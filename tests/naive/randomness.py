"""The numbered streams of a seed, as the design fixes them: what a learner's draws come from."""

import numpy as np


def stream(seed, number):
    """Stream ``number`` of a learner's seed: 0 KORS, 2 Fourier frequencies, 3 removals."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(7067, number)))
