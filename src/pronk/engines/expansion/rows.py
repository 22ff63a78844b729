"""The rows of a kernel expansion, compiled: score, update, and what keeps the budget.

`updates` has the rules by which a row enters, `support` the set itself and the list of strategies.
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
    RowBlock,
    Support,
    UpdateRule,
    add,
    dot_of_first,
    kernel_row,
    remove,
    remove_random,
    scale,
    shrink,
    smallest,
)
from pronk.engines.expansion.updates import step

Array = NDArray[np.float64]


@njit(cache=True)
def mistake_row(
    rule: UpdateRule,
    support: Support,
    rows: RowBlock,
    i: int,
    f: float,
    values: Array,
    memory: Array,
) -> None:
    """The Perceptrons that shrink or project: Forgetron, Projectron and Projectron++."""
    y = rows.y[i]
    if y * f > 0.0:
        if rule.aggressive and y * f < 1.0:
            project_margin(rule, support, rows.norms[i], f, y, values, memory)
    elif rule.strategy == FORGET:
        forget(rule, support, rows, i, y, values)
    else:
        project(rule, support, rows, i, y, values, memory)


@njit(cache=True, error_model="numpy")
def plain_row(
    rule: UpdateRule, support: Support, rows: RowBlock, i: int, f: float, memory: Array
) -> None:
    """f <- (1 - eta alpha) f + a k(x, .), a by the update rule; nothing is added where a is 0.

    With pegasos the shrinking by 1 - 1/t is in the scale. Where the rule is balanced, random
    removal multiplies the others by B / (B - 1), which keeps f in the mean (BOGD).
    """
    coefficient = step(rule, f, rows.y[i], rows.norms[i], rows.weights[i])
    if not rule.pegasos and rule.alpha > 0.0:
        shrink(support, 1.0 - rule.eta * rule.alpha)
    if coefficient == 0.0:
        return
    if rule.strategy == RANDOM and support.running[SIZE] == rule.budget:
        remove_random(support, rows.uniforms[i])
        if rule.balanced and rule.budget > 1:
            shrink(support, rule.budget / (rule.budget - 1.0))
    add(support, rows, i, coefficient / support.running[SHRINK])
    if support.running[SIZE] > rule.budget:
        if rule.strategy == MERGE:
            merge(rule, support, memory)
        else:
            remove(support, smallest(support))


@njit(cache=True)
def score(rule: UpdateRule, support: Support, values: Array) -> float:
    """f(x) from the kernel values of x."""
    used = int(support.running[USED])
    return scale(rule, support) * dot_of_first(support.raw, values, used)


@njit(cache=True)
def learn_rows(rule: UpdateRule, support: Support, rows: RowBlock, out: Array) -> None:
    """Predict then learn each row."""
    memory = np.empty((3, support.raw.size))
    for i in range(rows.y.size):
        values = kernel_row(rule, support, rows, i, memory[2])
        f = score(rule, support, values)
        out[i] = f
        support.running[SEEN] += 1.0
        if rule.strategy == FORGET or rule.strategy == PROJECT:
            mistake_row(rule, support, rows, i, f, values, memory)
        else:
            plain_row(rule, support, rows, i, f, memory)


@njit(cache=True)
def score_rows(rule: UpdateRule, support: Support, rows: RowBlock, out: Array) -> None:
    """The score of each row; changes nothing."""
    memory = np.empty(support.raw.size)
    for i in range(out.size):
        out[i] = score(rule, support, kernel_row(rule, support, rows, i, memory))
