"""Learners run over streams: progressive validation."""

from pronk.evaluate.baselines import RunningMajority, RunningMean
from pronk.evaluate.metrics import METRICS, Metric
from pronk.evaluate.models import held_bytes
from pronk.evaluate.progressive import Evaluation, progressive
from pronk.evaluate.scoring import Record

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
