"""The papers' tables and figures, made again: data sets, jobs, printed figures, pages."""

from __future__ import annotations

from importlib import import_module

from pronk.paper.experiment import Experiment, PaperOptions, ResultPage
from pronk.parts.spelling import did_you_mean

#: Name and module of each experiment.
EXPERIMENTS = {
    "pros-n-kons-1": "pros_n_kons_1",
    "pros-n-kons-2": "pros_n_kons_2",
    "dualsvrg-1": "dualsvrg_1",
    "dualsvrg-2": "dualsvrg_2",
    "pkawv-2": "pkawv_2",
    "pkawv-3": "pkawv_3",
    "pkawv-4": "pkawv_4",
    "kons-theory": "kons_theory",
}

__all__ = ["EXPERIMENTS", "Experiment", "PaperOptions", "ResultPage", "experiment"]


def experiment(name: str) -> Experiment:
    """The experiment of that name, or a ValueError that suggests the nearest one."""
    if name not in EXPERIMENTS:
        hint = did_you_mean(name, EXPERIMENTS)
        raise ValueError(f"table {name!r} is not known{hint}; known: {', '.join(EXPERIMENTS)}")
    found: Experiment = import_module(f"pronk.paper.{EXPERIMENTS[name]}").EXPERIMENT
    return found
