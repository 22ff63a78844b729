"""Kernels, losses, dictionaries, embeddings and linear algebra: what the engines are made of."""

from pronk.core import runtime as _caching

# Before the first compiled function of the package is defined.
_caching.register()
