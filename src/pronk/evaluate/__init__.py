"""Learners run over streams: progressive validation."""

from pronk.evaluate.baselines import RunningMajority, RunningMean
from pronk.evaluate.evaluation import Evaluation, Record
from pronk.evaluate.metrics import METRICS, Metric
from pronk.evaluate.models import held_bytes
from pronk.evaluate.progressive import progressive

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
