"""The rows of a kernel expansion, compiled: score, update, and what keeps the budget.

    mistakes   f += y k(x, .) where y f(x) <= 0                               (Perceptron)
    gradient   f <- (1 - eta alpha) f - eta slope k(x, .)                     (OGD, NORMA)
               with pegasos eta = 1 / (alpha t)                               (BSGD)

`support` has the set itself and lists the strategies.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from pronk.engines.expansion.forgetron import forget
from pronk.engines.expansion.merging import merge
from pronk.engines.expansion.projectron import project, project_margin
from pronk.engines.expansion.support import (
    FORGET,
    MERGE,
    PROJECT,
    RANDOM,
    SEEN,
    SHRINK,
    SIZE,
    USED,
    Rows,
    Rule,
    Support,
    add,
    dot,
    kernel_row,
    remove,
    remove_random,
    scale,
    shrink,
    smallest,
)
from pronk.parts import losses

Array = NDArray[np.float64]

#: The code that stands for "learn from mistakes" among the codes of the losses.
PERCEPTRON = -1


@njit(cache=True)
def perceptron_row(
    rule: Rule, support: Support, rows: Rows, i: int, f: float, values: Array, memory: Array
) -> None:
    """A mistake is y f <= 0: a score of 0 is one."""
    y = rows.y[i]
    if y * f > 0.0:
        if rule.aggressive and y * f < 1.0:
            project_margin(rule, support, rows.norms[i], f, y, values, memory)
    elif rule.strategy == FORGET:
        forget(rule, support, rows, i, y, values)
    elif rule.strategy == PROJECT:
        project(rule, support, rows, i, y, values, memory)
    else:
        if rule.strategy == RANDOM and support.running[SIZE] == rule.budget:
            remove_random(support, rows.uniforms[i])
        add(support, rows, i, y)


@njit(cache=True, error_model="numpy")
def gradient_row(rule: Rule, support: Support, rows: Rows, i: int, f: float, memory: Array) -> None:
    """f <- (1 - eta alpha) f - eta slope k(x, .); nothing is added where the slope is 0.

    With pegasos the shrinking by 1 - 1/t is in the scale, and new coefficients are -slope. Random
    removal multiplies the others by B / (B - 1), which keeps f in the mean (BOGD).
    """
    slope = losses.slope(rule.loss, rule.parameter, f, rows.y[i])
    if not rule.pegasos and rule.alpha > 0.0:
        shrink(support, 1.0 - rule.eta * rule.alpha)
    if slope == 0.0:
        return
    if rule.strategy == RANDOM and support.running[SIZE] == rule.budget:
        remove_random(support, rows.uniforms[i])
        if rule.budget > 1:
            shrink(support, rule.budget / (rule.budget - 1.0))
    add(support, rows, i, -rule.eta * slope / support.running[SHRINK])
    if support.running[SIZE] > rule.budget:
        if rule.strategy == MERGE:
            merge(rule, support, memory)
        else:
            remove(support, smallest(support))


@njit(cache=True)
def score(rule: Rule, support: Support, values: Array) -> float:
    """f(x) from the kernel values of x."""
    used = int(support.running[USED])
    return scale(rule, support) * dot(support.raw, values, used)


@njit(cache=True)
def learn_rows(rule: Rule, support: Support, rows: Rows, out: Array) -> None:
    """Predict then learn each row."""
    memory = np.empty((3, support.raw.size))
    for i in range(rows.y.size):
        values = kernel_row(rule, support, rows, i, memory[2])
        f = score(rule, support, values)
        out[i] = f
        support.running[SEEN] += 1.0
        if rule.loss == PERCEPTRON:
            perceptron_row(rule, support, rows, i, f, values, memory)
        else:
            gradient_row(rule, support, rows, i, f, memory)


@njit(cache=True)
def score_rows(rule: Rule, support: Support, rows: Rows, out: Array) -> None:
    """The score of each row; changes nothing."""
    memory = np.empty(support.raw.size)
    for i in range(out.size):
        out[i] = score(rule, support, kernel_row(rule, support, rows, i, memory))
