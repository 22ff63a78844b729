"""What is guaranteed of Passive-Aggressive learners without a budget.

Crammer, Dekel, Keshet, Shalev-Shwartz, Singer, "Online passive-aggressive algorithms", JMLR 7,
2006. ``largest`` is R^2, the largest k(x, x); f is any function of the RKHS.
"""

from __future__ import annotations

from pronk.regret.bounds.checks import check


def pa_mistake_bound(C: float, norm2: float, loss: float, largest: float = 1.0) -> float:
    """Mistakes of PA-I on labels, at most (Thm 4):

        M <= max(R^2, 1/C) (|f|^2 + 2 C sum_t l_t(f)),

    ``loss`` the sum of f's hinge losses.
    """
    check(positive={"C": C, "largest": largest}, nonnegative={"norm2": norm2, "loss": loss})
    return max(largest, 1.0 / C) * (norm2 + 2.0 * C * loss)


def pa_squared_loss_bound(C: float, norm2: float, squares: float, largest: float = 1.0) -> float:
    """The sum of PA-II's squared losses, at most (Thm 5, and Section 5 for numbers):

        sum_t l_t^2 <= (R^2 + 1/(2C)) (|f|^2 + 2 C sum_t l_t(f)^2),

    ``squares`` the sum of f's squared losses: the hinge loss of labels, the epsilon-insensitive
    loss of numbers.
    """
    check(positive={"C": C, "largest": largest}, nonnegative={"norm2": norm2, "squares": squares})
    return (largest + 0.5 / C) * (norm2 + 2.0 * C * squares)
