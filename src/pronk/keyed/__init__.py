"""One model per key: many small learners, a bounded number of them in memory, the rest in files."""

from pronk.keyed.learner import Keyed
from pronk.keyed.store import ModelStore, StoreError

__all__ = ["Keyed", "ModelStore", "StoreError"]
