"""Learners run over streams: progressive validation."""

from pronk.evaluate.baselines import RunningMajority, RunningMean
from pronk.evaluate.memory import held_bytes
from pronk.evaluate.metrics import METRICS, Metric
from pronk.evaluate.validation import Evaluation, Record, progressive

__all__ = [
    "METRICS",
    "Evaluation",
    "Metric",
    "Record",
    "RunningMajority",
    "RunningMean",
    "held_bytes",
    "progressive",
]
