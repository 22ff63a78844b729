"""Regret: the best function in hindsight, measured regret, and the papers' bounds on it.

>>> import numpy as np
>>> from pronk import KernelAWVRegressor
>>> from pronk.regret import bound_for, regret_against_best
>>> X = np.random.default_rng(0).uniform(-1, 1, (200, 2))
>>> y = X[:, 0] * X[:, 1]
>>> learner = KernelAWVRegressor()
>>> measured = regret_against_best(learner.predict_then_learn(X, y), X, y)
>>> print(f"regret {measured.regret:.2f}, at most {bound_for(learner, X, y, measured.best):.2f}")
regret 4.56, at most 20.35
"""

from pronk.core.dictionary import effective_dimension, online_effective_dimension
from pronk.regret.bounds import (
    Chain,
    NewtonTerms,
    aioli_bound,
    dimension_chain,
    discounted_awv_bound,
    kernel_awv_bound,
    kons_bound,
    kons_convex_bound,
    kons_step_bound,
    kors_beta,
    kors_gap,
    kors_size_bound,
    log_determinant,
    log_determinant_bound,
    newton_bound,
    newton_terms,
    nons_ald_bound,
    pa_mistake_bound,
    pa_squared_loss_bound,
    pkawv_bound,
    pkawv_kors_bound,
    pkawv_taylor_bound,
    pros_n_kons_bound,
    pros_n_kons_squared_bound,
    sketched_kons_bound,
    taylor_degree,
    taylor_gap,
)
from pronk.regret.hindsight import Best, best_in_hindsight, best_in_span, best_with_features
from pronk.regret.measured import (
    Regret,
    bound_for,
    cumulative_regret,
    discounted_variation,
    kernel_awv_penalised_regret,
    penalised_regret,
    regret_against_best,
)

__all__ = [
    "Best",
    "Chain",
    "NewtonTerms",
    "Regret",
    "aioli_bound",
    "best_in_hindsight",
    "best_in_span",
    "best_with_features",
    "bound_for",
    "cumulative_regret",
    "dimension_chain",
    "discounted_awv_bound",
    "discounted_variation",
    "effective_dimension",
    "kernel_awv_bound",
    "kernel_awv_penalised_regret",
    "kons_bound",
    "kons_convex_bound",
    "kons_step_bound",
    "kors_beta",
    "kors_gap",
    "kors_size_bound",
    "log_determinant",
    "log_determinant_bound",
    "newton_bound",
    "newton_terms",
    "nons_ald_bound",
    "online_effective_dimension",
    "pa_mistake_bound",
    "pa_squared_loss_bound",
    "penalised_regret",
    "pkawv_bound",
    "pkawv_kors_bound",
    "pkawv_taylor_bound",
    "pros_n_kons_bound",
    "pros_n_kons_squared_bound",
    "regret_against_best",
    "sketched_kons_bound",
    "taylor_degree",
    "taylor_gap",
]
