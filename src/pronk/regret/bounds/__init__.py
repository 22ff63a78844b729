"""The papers' regret bounds as functions of plain numbers, one function a theorem.

Symbols are the same in all of them:

    n           rows                       norm2       |f|^2 of the function compared with
    alpha       penalty of the learner     lipschitz   L, |l'| <= L on [-clip, clip]
    gamma       KORS's regulariser         sigma       curvature of Assumption 2 on [-clip, clip]
    epsilon     KORS's accuracy            clip        C, the range of predictions
    eta         coefficient of g g' in A   largest_label   B, |y_t| <= B

Effective dimensions and log determinants come from `effective_dimension(K, alpha)` and
`log_determinant(K, alpha)` of the rows' kernel matrix. The online Newton theorems assume
k(x, x) <= 1; ``trace``, the trace of K, stands for n where that is not so. Their comparators must
stay in [-clip, clip] on all rows (`Best.within` scales one) and the labels of the squared loss too.

A premise that fails leaves no guarantee: the bound is infinity. Arguments that make no sense
(negative, not finite, out of range) raise a ValueError.

The papers are named by their algorithm:

    PROS-N-KONS   Calandriello, Lazaric, Valko, "Efficient second-order online kernel learning with
                  adaptive embedding", NeurIPS 2017
    PKAWV         Jezequel, Gaillard, Rudi, "Efficient online learning with kernels for adversarial
                  large scale problems", NeurIPS 2019
    KONS          Calandriello, Lazaric, Valko, "Second-order kernel online convex optimization
                  with adaptive sketching", ICML 2017
"""

from pronk.regret.bounds.awv import (
    kernel_awv_bound,
    pkawv_bound,
    pkawv_kors_bound,
    pkawv_taylor_bound,
    taylor_degree,
    taylor_gap,
)
from pronk.regret.bounds.dimensions import (
    Chain,
    dimension_chain,
    log_determinant,
    log_determinant_bound,
)
from pronk.regret.bounds.kons import (
    NewtonTerms,
    kons_bound,
    kons_convex_bound,
    kons_step_bound,
    newton_bound,
    newton_terms,
    sketched_kons_bound,
)
from pronk.regret.bounds.kors import kors_beta, kors_gap, kors_size_bound
from pronk.regret.bounds.passive import pa_mistake_bound, pa_squared_loss_bound
from pronk.regret.bounds.pros_n_kons import pros_n_kons_bound, pros_n_kons_squared_bound

# In the order of the documentation.
__all__ = [  # noqa: RUF022
    "log_determinant",
    "Chain",
    "dimension_chain",
    "log_determinant_bound",
    "kors_beta",
    "kors_gap",
    "kors_size_bound",
    "kernel_awv_bound",
    "pkawv_bound",
    "pkawv_kors_bound",
    "taylor_degree",
    "taylor_gap",
    "pkawv_taylor_bound",
    "NewtonTerms",
    "newton_terms",
    "newton_bound",
    "kons_step_bound",
    "kons_bound",
    "kons_convex_bound",
    "sketched_kons_bound",
    "pros_n_kons_bound",
    "pros_n_kons_squared_bound",
    "pa_mistake_bound",
    "pa_squared_loss_bound",
]
