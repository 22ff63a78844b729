"""The fixed embedding that a learner's parameters name."""

from __future__ import annotations

from typing import Any

from pronk.engines.newton.embedded import Embedding
from pronk.parts.embeddings import Fourier, Taylor
from pronk.parts.kernels import Gaussian, Kernel


def fixed_embedding(learner: Any, kernel: Kernel, columns: int) -> Embedding:
    """Taylor features of ``degree``, or random Fourier features with ``n_features`` frequencies."""
    if learner.features == "fourier":
        return Fourier(kernel, columns, learner.n_features, learner._seed)
    if not isinstance(kernel, Gaussian):
        raise ValueError("kernel must be gaussian for features='taylor'")
    return Taylor(columns, kernel.bandwidth, learner.degree)
