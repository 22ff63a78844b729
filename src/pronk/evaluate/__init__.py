"""Learners run over streams: progressive validation."""

from pronk.evaluate.baselines import RunningMajority, RunningMean
from pronk.evaluate.evaluation import Evaluation
from pronk.evaluate.memory import held_bytes
from pronk.evaluate.metrics import METRICS, Metric
from pronk.evaluate.records import Record
from pronk.evaluate.validation import progressive

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
