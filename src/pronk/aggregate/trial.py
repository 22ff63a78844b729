"""A trial: a challenger beside the incumbent, the weight between them, and the decision.

Both learners predict every row; the prediction is their weighted average. With a and b the absolute
errors of incumbent and challenger per output (for labels the root of one loss, `label_loss`), u the
recent mean of min(a, b) and w the challenger's weight,

    d  =  mean over outputs of clip((a^2 - b^2) / v, -50, 50),     v = u^2 pi / 2
    log w / (1 - w)  <-  log w / (1 - w) + clip(d / 2, -2, 2),     then  w <- 0.999 w + 0.0005

w starts at 0.001 after the challenger's first stage. v is the variance of normal errors whose mean
size is u, and d / 2 then the logarithm of the likelihood ratio. So the weight follows within some
ten rows, whatever the unit of the targets and whatever the largest error so far, and one row
changes it by a factor of at most e^2. With a delay a row is read once its target has arrived.

Every 256 rows of the trial, from row 1,024 on, the mean of d over the second half of the trial so
far is compared with its standard error: above 3 of them the challenger replaces the incumbent,
below -3, or after 8,192 rows, it is dropped.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pronk.aggregate.baselines import live_outputs, note_labels, remapped_labels
from pronk.aggregate.late import ReadRows, Ring
from pronk.aggregate.learner import STAGES, InnerLearner
from pronk.core.compiling import compiled
from pronk.core.linalg import recombined
from pronk.core.state import Count, Numbers, Part, Sizes, Stateful, require

Array = NDArray[np.float64]

#: Rows between two decisions, rows before the first one, and rows after which a trial ends.
CHECK, FIRST, LAST = 256, 1024, 8192
#: Standard errors by which one of the two must be better.
SURE = 3.0
#: Start and largest change of the log odds, and the share of the uniform distribution per row.
START, STEEPEST, SHARE = -7.0, 2.0, 1e-3
#: Largest |d| of an output.
FARTHEST = 50.0
#: Window of u in rows; an error counts there as at most this many times u.
NOISE_WINDOW, NOISE_REACH = 256.0, 5.0
#: Errors below this share of the target are rounding, which depends on the cut into blocks.
ROUNDING = 1e-9
#: Outcomes of a trial.
ON_TRIAL, SWAPPED, DROPPED, RESTARTED = range(4)
#: Parts of the rows that wait: predictions of incumbent and challenger, and targets.
PARTS: dict[str, tuple[str | int, ...]] = {"P": ("outputs",), "Q": ("outputs",), "Y": ("outputs",)}
#: Columns of ``sums`` (checks, 2): of d and of its squares, between two decisions.
SUM, SQUARES = 0, 1


@compiled
def absolute_error(p: float, y: float) -> float:
    """Return |y - p| less ROUNDING times the larger of |y| and |p|, at least 0."""
    return max(abs(p - y) - ROUNDING * max(abs(p), abs(y)), 0.0)


@compiled
def absolute_errors(P: Array, Y: Array, out: Array) -> None:
    """Write the `absolute_error` of P and Y to ``out``, all (n, outputs)."""
    for t in range(P.shape[0]):
        for o in range(P.shape[1]):
            out[t, o] = absolute_error(P[t, o], Y[t, o])


@compiled
def label_loss(p: Array, y: Array, live: NDArray[np.bool_], count: int) -> float:
    """Return half the Brier score of margins p for labels y = +-1, both (outputs,), at most 1.

    ``live`` are the outputs that count, ``count`` is their number; a single one is that of two
    classes.
    """
    total = 0.0
    for o in range(y.size):
        if live[o]:
            total += (0.5 * (p[o] - y[o])) ** 2
    return min(total / (2.0 if count > 1 else 1.0), 1.0)


@compiled
def label_losses(P: Array, Y: Array, seen_labels: Array, out: Array) -> None:
    """Write the `label_loss` of rows P, Y (n, outputs) to ``out`` (n,); note their labels."""
    live = np.empty(Y.shape[1], dtype=np.bool_)
    for t in range(len(Y)):
        note_labels(Y[t], seen_labels)
        out[t] = label_loss(P[t], Y[t], live, live_outputs(seen_labels, True, live))


class TrialState(NamedTuple):
    """Arrays that rows change.

    counter      (1,) rows predicted so far
    log_odds     (1,) log w / (1 - w)
    noise        (outputs,) u; one for labels
    seen_labels  (2, outputs) NEGATIVE and POSITIVE (`baselines`)
    sums         (checks, 2) SUM and SQUARES of d between two decisions
    """

    counter: Array
    log_odds: Array
    noise: Array
    seen_labels: Array
    sums: Array


@compiled
def weight_of(log_odds: float) -> float:
    """Return the challenger's weight w."""
    return 1.0 / (1.0 + np.exp(-log_odds))


@compiled
def learn_losses(
    p: Array, q: Array, y: Array, signed: bool, rows: float, bucket: int, state: TrialState
) -> None:
    """Update weight and sums by the predictions p, q and targets y (outputs,) of a row.

    ``rows`` is the number of rows with weight before it, ``bucket`` its place in the sums.
    """
    outputs = y.size
    a, b = np.zeros(state.noise.size), np.zeros(state.noise.size)
    # a, b: absolute errors per output, or the root of the loss of labels
    if signed:
        live = np.empty(outputs, dtype=np.bool_)
        count = live_outputs(state.seen_labels, True, live)
        a[0] = np.sqrt(label_loss(p, y, live, count))
        b[0] = np.sqrt(label_loss(q, y, live, count))
    else:
        for o in range(outputs):
            a[o], b[o] = absolute_error(p[o], y[o]), absolute_error(q[o], y[o])
    # u <- u + (min(a, b, 5 u) - u) / min(t, 256)
    # d = mean clip((a^2 - b^2) / (u^2 pi / 2), -50, 50)
    d = 0.0
    for o in range(a.size):
        least = min(a[o], b[o])
        if state.noise[o] > 0.0:
            least = min(least, NOISE_REACH * state.noise[o])
        state.noise[o] += (least - state.noise[o]) / min(rows + 1.0, NOISE_WINDOW)
        # Ratios are squared, not errors: those of small targets would underflow to 0.
        unit = np.sqrt(0.5 * np.pi) * max(state.noise[o], 1e-300)
        excess = min(a[o] / unit, 1e6) ** 2 - min(b[o] / unit, 1e6) ** 2
        d += min(max(excess, -FARTHEST), FARTHEST) / a.size
    # log w / (1 - w) <- log w / (1 - w) + clip(d / 2, -2, 2),  w <- (1 - share) w + share / 2
    state.log_odds[0] += min(max(0.5 * d, -STEEPEST), STEEPEST)
    w = (1.0 - SHARE) * weight_of(state.log_odds[0]) + 0.5 * SHARE
    state.log_odds[0] = np.log(w / (1.0 - w))
    state.sums[bucket, SUM] += d
    state.sums[bucket, SQUARES] += d * d


@compiled
def mix_learners(
    P: Array, Q: Array, Y: Array, signed: bool, delay: int, check: int, state: TrialState, W: Array
) -> None:
    """Weigh predictions P of the incumbent and Q of the challenger for targets Y, (late + n, K).

    The first rows are those of which the target was not known before (``late`` = min(delay, rows so
    far)); the target of row t is known after row t + ``delay`` is predicted. The challenger's
    weight in each of the n new rows goes to ``W`` (n,); ``check`` is the number of rows between two
    decisions.
    """
    late = len(Y) - W.size
    first = STAGES[0] + delay  # first row with a weight
    for t in range(W.size):
        rows = int(state.counter[0])
        state.counter[0] += 1.0
        W[t] = 0.0 if rows < first else weight_of(state.log_odds[0])
        known = rows - delay  # the row whose target arrives
        if known < 0:
            continue
        i = late + t - delay
        note_labels(Y[i], state.seen_labels)
        if known >= first:
            learn_losses(P[i], Q[i], Y[i], signed, known - first, known // check, state)


class Trial(Stateful):
    """A challenger and its weight against the incumbent."""

    def __init__(
        self, challenger: InnerLearner, started: int, seen_labels: Array, delay: int = 0
    ) -> None:
        self.challenger, self.started, self.delay = challenger, started, delay
        self._ring = Ring(PARTS, {"outputs": challenger.outputs})
        self.signed = challenger.signed
        self._counter = np.zeros(1)
        self._log_odds = np.array([START])
        self._noise = np.zeros(1 if self.signed else challenger.outputs)
        self._seen_labels = seen_labels.copy()
        self._sums = np.zeros((-(-LAST // CHECK), 2))

    @property
    def rows(self) -> int:
        """Number of rows of the trial so far."""
        return int(self._counter[0])

    @property
    def known(self) -> int:
        """Number of rows of the trial whose targets are known."""
        return max(0, self.rows - self.delay)

    @property
    def rows_to_check(self) -> int:
        """Number of rows up to the next decision."""
        return CHECK - self.known % CHECK + max(0, self.delay - self.rows)

    @property
    def weight(self) -> float:
        """The challenger's weight in the prediction of the next row."""
        first = STAGES[0] + self.delay
        return 0.0 if self.rows < first else float(weight_of(self._log_odds[0]))

    def learn(
        self, X: Array, Y: Array, P: Array, scales: Array, gaps: Array | None = None,
        read: ReadRows | None = None, recorded: NDArray[np.bool_] | None = None,
    ) -> tuple[Array, Array]:  # fmt: skip
        """Let the challenger learn rows; return the weighted predictions and error scales.

        P and ``scales`` are those of the incumbent, all (n, outputs). ``read`` has rows as the
        challenger predicted them earlier, ``recorded`` (n,) where P are earlier predictions. A row
        of which only one of the two was made earlier does not compare them.
        """
        Q, own = self.challenger.learn(X, Y, gaps=gaps, read=read)
        if read is not None and recorded is not None:
            Q = np.where((read.used == recorded)[:, None], Q, P)
        W = np.empty(len(X))
        state = TrialState(
            self._counter, self._log_odds, self._noise, self._seen_labels, self._sums
        )
        parts = self._ring.extend(len(X))
        for part, values in zip(parts, (P, Q, Y), strict=True):
            part[len(part) - len(X) :] = values
        mix_learners(*parts, self.signed, self.delay, CHECK, state, W)
        self._ring.drop(max(0, self._ring.rows - self.delay))
        return _between(P, Q, W), _between(scales, own, W)

    def predict(self, X: Array, P: Array, scales: Array) -> tuple[Array, Array]:
        """Weigh the challenger's predictions and error scales of rows that may come next."""
        if not self.weight:
            return P, scales
        Q, own = self.challenger.predict(X)
        return self.mixed(P, Q, scales, own)

    def mixed(self, P: Array, Q: Array, scales: Array, own: Array) -> tuple[Array, Array]:
        """Weigh predictions and error scales of both learners for rows that may come next."""
        W = np.full(len(P), self.weight)
        return _between(P, Q, W), _between(scales, own, W)

    def outcome(self) -> int:
        """Return SWAPPED or DROPPED if a decision is due and clear, else ON_TRIAL."""
        checks, rest = divmod(self.known, CHECK)
        if rest or self.known < FIRST:
            return ON_TRIAL
        total, squares = self._sums[checks // 2 : checks].sum(axis=0)
        rows = CHECK * (checks - checks // 2)
        mean = total / rows
        error = np.sqrt(max(squares / rows - mean * mean, 0.0) / rows)
        if mean > SURE * error:
            return SWAPPED
        return DROPPED if mean < -SURE * error or self.known >= LAST else ON_TRIAL

    def remap(self, matrix: Array) -> None:
        """Replace the outputs by new ones, each plus or minus one old one."""
        self.challenger.remap(matrix)
        self._seen_labels = remapped_labels(self._seen_labels, matrix)
        self._ring.replace(*(recombined(part, matrix) for part in self._ring.parts))

    STATE = (
        Part("challenger", "challenger"),
        Count("started", "started"),
        Part("ring", sizes={"rows": "late", "outputs": "outputs"}),
        Numbers("counter", (1,), low=0.0, high=2.0**53, whole="float"),
        Numbers("log_odds", (1,), low=-50.0, high=50.0),
        Numbers("noise", ("noises",), low=0.0),
        Numbers("seen_labels", (2, "outputs"), low=0.0, high=1.0),
        Numbers("sums", ("checks", 2)),
    )

    def _sizes(self) -> dict[str, int]:
        return {
            "outputs": self._seen_labels.shape[1],
            "noises": len(self._noise),
            "checks": len(self._sums),
        }

    def _restored(self, sizes: Sizes) -> None:
        require(self.known < LAST, "counter has more rows than a trial")
        require(self.known == self.challenger.rows, "counter is not that of the challenger")
        require(sizes["late"] == min(self.rows, self.delay), "ring has other rows than wait")


def _between(P: Array, Q: Array, W: Array) -> Array:
    """Return (1 - w) p + w q by rows; p where w is 0."""
    weights = W[:, None]
    return np.where(weights > 0.0, (1.0 - weights) * P + weights * Q, P)


def warm_up_trial() -> None:
    """Compile what a trial runs, or load it from the cache."""
    ones = np.ones((2 * STAGES[0], 1))
    for signed in (False, True):
        state = TrialState(
            np.zeros(1), np.zeros(1), np.zeros(1), np.zeros((2, 1)), np.zeros((1, 2))
        )
        held = np.stack((ones, ones, ones))
        mix_learners(*held, signed, 0, len(ones), state, np.empty(len(ones)))
