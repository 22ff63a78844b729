"""Class probabilities: a mixture, under log loss, of what predicts how often a class occurs.

The experts and their mixture minimise squared loss on -1 and 1, which says little about a class of
a few rows per thousand. So the last step of a learner of labels turns the final margins m into
probabilities by exponential weights under log loss over four candidates Q_j,

    P_k = sum_j w_j Q_jk,     w_j <- w_j Q_jy     (Bayes' rule)

    margins    the final margins with two slopes, `calibration.Temperature`
    rates      how often each class has occurred, (n_k + 1/2) / sum_l (n_l + 1/2)
    logistic   two linear logistic learners, a weak and a strong regulariser; one class against the
               rest, normalised over the classes

so the log loss exceeds that of candidate j by at most -log(prior_j), with prior 0.85 for the
margins and 0.05 for each other one. After row t the weights are mixed with the prior by
1 / (t + 1): the bound then holds, with some log t more, also for a sequence of candidates (fixed
share). The prediction that the learner returns is 2 P - 1, so the most probable class is the
predicted one. While the margins have a weight of 0.05 or more the predicted class is theirs: on a
row whose P has another most probable class, P is Q of the margins. So other candidates change
labels only where they are clearly better.

**Logistic learners** are AIOLI (`newton.engine.AIOLI`) with the diagonal of A in place of A, which
costs a few operations per column: with x the scaled columns and a last entry r = log odds of the
class's rate so far,

    f = v'x,   q = sum x_i^2 / A_i,   p + q tanh(p / 2) = f,     P(1) = 1 / (1 + exp(-p))
    g = -y / (1 + exp(y p)),   A_i <- A_i + l''(p) x_i^2 / (1 + BR),   v_i <- v_i - g x_i / A_i

from v = (0, .., 0, 1) and A = 2 alpha I: a learner starts as the running rate and is drawn to it,
so that a rare class is rare from the start. A class begins when it has occurred, and other rows
too; the rows before count in its rate.

**Scales** follow the rows, because a diagonal needs no features of the past: with mean, deviation s
and range w of a column so far (rates 1 / min(t, 10^4)), x = clip((x - mean) / sqrt(w s), -4, 4). A
value beyond the range counts as one at most w beyond it, so that an outlier doubles the range.

References: Jezequel, Gaillard, Rudi, "Efficient improper learning for online logistic regression",
COLT 2020 (AIOLI); Herbster, Warmuth, "Tracking the best expert", Machine Learning 1998.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pronk.aggregate.baselines import NEGATIVE, POSITIVE, note_labels
from pronk.aggregate.calibration import SUREST, Temperature, newton_step
from pronk.aggregate.late import Ring
from pronk.core.compiling import compiled
from pronk.core.linalg import recombined, signed_columns
from pronk.core.state import Numbers, Part, Sizes, Stateful, require
from pronk.newton.recurrence import anticipated_margin

Array = NDArray[np.float64]

#: Places of the candidates; the logistic learners follow from LOGISTIC on.
MARGINS, RATES, LOGISTIC = range(3)
#: Regularisers of the logistic learners, and BR.
ALPHAS, RADIUS = np.array([1.0, 30.0]), 2.0
#: Prior weight of each candidate but the margins.
PRIOR = 0.05
#: The margins' label is predicted while they have this weight.
LEADING = 0.05
#: Window of the scales in rows; scaled columns are clipped to this.
SCALE_WINDOW, FARTHEST = 1e4, 4.0
#: Most coefficients of a logistic learner over all outputs; beyond, there are none.
MOST_COEFFICIENTS = 2**18
#: Rows of ``scales`` (4, columns): mean, variance in squared ranges, least and largest value.
MEAN, VARIANCE, LOW, HIGH = range(4)


class State(NamedTuple):
    """Arrays that rows change; E logistic learners, J = 2 + E candidates, D = columns + 1.

    counter      (1,) rows so far
    seen_labels  (2, outputs) NEGATIVE and POSITIVE (`baselines`)
    counts       (outputs,) rows with label 1
    log_w, prior (J,) logarithms of the weights, and the prior weights
    slopes, H    (2,), (2, 2) of the temperature
    scales       (4, columns) MEAN, VARIANCE, LOW, HIGH
    A, v         (E, outputs, D)
    """

    counter: Array
    seen_labels: Array
    counts: Array
    log_w: Array
    prior: Array
    slopes: Array
    H: Array
    scales: Array
    A: Array
    v: Array


class Row(NamedTuple):
    """A row between `predict_row` and `learn_row`.

    x           (columns,) scaled columns
    rates       (outputs,) log odds of the rate of label 1
    roots       (E, outputs) margins p of the logistic learners
    live        (outputs,) outputs that have had both signs
    candidates  (J, classes) Q; classes are the live outputs, or the two signs of a single one
    final       (outputs,) 2 P - 1
    """

    x: Array
    rates: Array
    roots: Array
    live: NDArray[np.bool_]
    candidates: Array
    final: Array


#: Parts of the rows that wait: columns, margins and labels.
PARTS: dict[str, tuple[str | int, ...]] = {
    "X": ("columns",), "P": ("outputs",), "Y": ("outputs",),
}  # fmt: skip


def new_row(state: State) -> Row:
    """Allocate a row."""
    learners, outputs, _ = state.v.shape
    return Row(
        np.empty(state.scales.shape[1]),
        np.empty(outputs),
        np.zeros((learners, outputs)),
        np.zeros(outputs, dtype=np.bool_),
        np.empty((state.log_w.size, max(outputs, 2))),
        np.empty(outputs),
    )


# -- scales -----------------------------------------------------------------------------------


@compiled(fastmath={"contract"})
def scale_row(z: Array, scales: Array, x: Array) -> None:
    """Write the scaled columns of a row z (columns,) to x (columns,)."""
    for j in range(z.size):
        # x = clip((z - mean) / sqrt(w s), -4, 4),  s / w = sqrt(variance)
        width = scales[HIGH, j] - scales[LOW, j]
        unit = width * np.sqrt(np.sqrt(scales[VARIANCE, j]))
        x[j] = 0.0
        if unit > 0.0:
            x[j] = min(max((z[j] - scales[MEAN, j]) / unit, -FARTHEST), FARTHEST)


@compiled(fastmath={"contract"})
def learn_scales(z: Array, rows: float, scales: Array) -> None:
    """Update ``scales`` (4, columns) by a row z (columns,), the first after ``rows`` others."""
    rate = 1.0 / min(rows + 1.0, SCALE_WINDOW)
    for j in range(z.size):
        low, high = scales[LOW, j], scales[HIGH, j]
        if rows == 0.0:
            scales[MEAN, j] = scales[LOW, j] = scales[HIGH, j] = z[j]
            continue
        # z <- clip(z, low - w, high + w);  low and high include z
        width, value = high - low, z[j]
        if width > 0.0:
            value = min(max(value, low - width), high + width)
        scales[LOW, j], scales[HIGH, j] = min(low, value), max(high, value)
        wider = scales[HIGH, j] - scales[LOW, j]
        if not wider > 0.0:
            continue
        # variance <- (1 - rate) (variance + rate (z - mean)^2), in squared ranges
        share, step = width / wider, (value - scales[MEAN, j]) / wider
        variance = share * share * scales[VARIANCE, j] + rate * step * step
        scales[VARIANCE, j] = (1.0 - rate) * variance
        scales[MEAN, j] += rate * (value - scales[MEAN, j])


# -- logistic learners ------------------------------------------------------------------------


@compiled(fastmath={"contract"})
def logistic_margin(x: Array, r: float, A: Array, v: Array) -> float:
    """Return the margin p of one learner and output: x (columns,), A and v (columns + 1,)."""
    # f = v'x,  q = sum x^2 / A,  p + q tanh(p / 2) = f
    d = x.size
    f, q = v[d] * r, r * r / A[d]
    for j in range(d):
        f += v[j] * x[j]
        q += x[j] * x[j] / A[j]
    return anticipated_margin(f, q)


@compiled(fastmath={"contract"})
def learn_logistic(x: Array, r: float, p: float, y: float, A: Array, v: Array) -> None:
    """Learn a label y = +-1 with margin p; A and v (columns + 1,) change."""
    # g = -y / (1 + exp(y p)),  c = l''(p) / (1 + BR)
    g = -y / (1.0 + np.exp(min(y * p, 500.0)))
    e = np.exp(-abs(p))
    c = e / ((1.0 + e) * (1.0 + e) * (1.0 + RADIUS))
    # A <- A + c x^2,  v <- v - g x / A
    d = x.size
    for j in range(d):
        A[j] += c * x[j] * x[j]
        v[j] -= g * x[j] / A[j]
    A[d] += c * r * r
    v[d] -= g * r / A[d]


# -- candidates -------------------------------------------------------------------------------


@compiled
def find_live(seen_labels: Array, live: NDArray[np.bool_]) -> int:
    """Set in ``live`` (outputs,) which outputs have had both signs; return their number."""
    count = 0
    for o in range(live.size):
        live[o] = seen_labels[NEGATIVE, o] > 0.0 and seen_labels[POSITIVE, o] > 0.0
        count += live[o]
    return count


@compiled(fastmath={"contract"})
def fill_classes(live: NDArray[np.bool_], values: Array, out: Array) -> int:
    """Write the values (outputs,) of the classes to ``out``; return their number.

    The classes are the live outputs, or -values and values of a single one.
    """
    count, last = 0, 0
    for o in range(live.size):
        if live[o]:
            out[count] = values[o]
            count, last = count + 1, o
    if count == 1:
        out[0], out[1] = -values[last], values[last]
        count = 2
    return count


@compiled(fastmath={"contract"})
def margin_shares(M: Array, slopes: Array, out: Array) -> None:
    """Write the probabilities of margins M (classes,) by two slopes to ``out`` (classes,)."""
    # P = softmax(a log p + b m),  p = (1 + 0.99 m) / 2
    largest, total = -np.inf, 0.0
    for k in range(M.size):
        out[k] = slopes[0] * np.log(0.5 * (1.0 + SUREST * M[k])) + slopes[1] * M[k]
        largest = max(largest, out[k])
    for k in range(M.size):
        out[k] = np.exp(out[k] - largest)
        total += out[k]
    for k in range(M.size):
        out[k] /= total


@compiled(fastmath={"contract"})
def predict_row(z: Array, margins: Array, state: State, row: Row) -> None:
    """Predict from columns z (columns,) and margins (outputs,) into ``row``."""
    outputs, rows = margins.size, state.counter[0]
    scale_row(z, state.scales, row.x)
    for o in range(outputs):
        # a class that has not occurred, or alone:  2 P - 1 = -t / (t + 1), or t / (t + 1)
        only = state.seen_labels[POSITIVE, o] - state.seen_labels[NEGATIVE, o]
        row.final[o] = only * rows / (rows + 1.0)
        # r = log((n + 1/2) / (N - n + 1/2)), to the bit -r for the other one of two classes
        row.rates[o] = np.log(state.counts[o] + 0.5) - np.log(rows - state.counts[o] + 0.5)
    count = find_live(state.seen_labels, row.live)
    if count == 0:
        return
    Q, own = row.candidates, np.empty(row.candidates.shape[1])
    classes = fill_classes(row.live, margins, own)
    margin_shares(own[:classes], state.slopes, Q[MARGINS, :classes])
    # rates, and logistic learners: 1 / (1 + exp(-f)), normalised
    for j in range(RATES, state.log_w.size):
        values = row.rates
        if j >= LOGISTIC:
            values = row.roots[j - LOGISTIC]
            for o in range(outputs):
                if row.live[o]:
                    learner = state.A[j - LOGISTIC, o], state.v[j - LOGISTIC, o]
                    values[o] = logistic_margin(row.x, row.rates[o], learner[0], learner[1])
        fill_classes(row.live, values, own)
        sums = 0.0
        for k in range(classes):
            Q[j, k] = 1.0 / (1.0 + np.exp(-max(own[k], -500.0)))
            sums += Q[j, k]
        for k in range(classes):
            Q[j, k] /= sums
    mix_candidates(Q[:, :classes], state.log_w, own[:classes])
    place = 0
    for o in range(outputs):
        if row.live[o]:
            row.final[o] = 2.0 * own[1 if count == 1 else place] - 1.0
            place += 1


@compiled(fastmath={"contract"})
def mix_candidates(Q: Array, log_w: Array, out: Array) -> None:
    """Write P of candidates Q (J, classes) with weights exp(log_w) (J,) to ``out`` (classes,)."""
    # P = sum_j w_j Q_j
    out[:] = 0.0
    for j in range(log_w.size):
        weight = np.exp(log_w[j])
        for k in range(out.size):
            out[k] += weight * Q[j, k]
    # the margins' label, unless they have nearly no weight
    label, own = 0, 0
    for k in range(out.size):
        label = k if out[k] > out[label] else label
        own = k if Q[MARGINS, k] > Q[MARGINS, own] else own
    if np.exp(log_w[MARGINS]) >= LEADING and label != own:
        for k in range(out.size):
            out[k] = Q[MARGINS, k]


@compiled(fastmath={"contract"})
def learn_weights(y: Array, state: State, row: Row) -> None:
    """Update the weights of the candidates by labels y (outputs,)."""
    count, label, last = 0, -1, 0
    for o in range(y.size):
        if row.live[o]:
            label = count if y[o] > 0.0 else label
            count, last = count + 1, o
    if count == 1:  # one output of two classes
        label = 1 if y[last] > 0.0 else 0
    if label < 0:  # no candidate has predicted the class
        return
    # log w_j <- log w_j + log Q_jy
    largest, total = -np.inf, 0.0
    for j in range(state.log_w.size):
        state.log_w[j] += np.log(row.candidates[j, label])
        largest = max(largest, state.log_w[j])
    for j in range(state.log_w.size):
        total += np.exp(state.log_w[j] - largest)
    # w <- (1 - rate) w / sum w + rate prior
    rate = 1.0 / (state.counter[0] + 2.0)
    for j in range(state.log_w.size):
        share = np.exp(state.log_w[j] - largest) / total
        state.log_w[j] = np.log((1.0 - rate) * share + rate * state.prior[j])


@compiled(fastmath={"contract"})
def learn_row(z: Array, margins: Array, y: Array, state: State, row: Row) -> None:
    """Learn labels y (outputs,), +-1, of a row that `predict_row` has filled."""
    outputs, rows = y.size, state.counter[0]
    learn_weights(y, state, row)
    before = row.live.copy()
    note_labels(y, state.seen_labels)
    # the slopes and the logistic learners, over the classes seen so far, this row's included
    if find_live(state.seen_labels, row.live):
        own, label = np.empty(max(outputs, 2)), 0
        classes = fill_classes(row.live, y, own)
        for k in range(classes):
            label = k if own[k] > 0.0 else label
        fill_classes(row.live, margins, own)
        newton_step(own[:classes], label, state.slopes, state.H)
    for o in range(outputs):
        if row.live[o]:
            for e in range(len(state.v)):
                r, A, v = row.rates[o], state.A[e, o], state.v[e, o]
                p = row.roots[e, o] if before[o] else logistic_margin(row.x, r, A, v)
                learn_logistic(row.x, r, p, y[o], A, v)
    for o in range(outputs):
        state.counts[o] += 1.0 if y[o] > 0.0 else 0.0
    learn_scales(z, rows, state.scales)
    state.counter[0] += 1.0


@compiled(unroll=False)
def learn_rows(
    X: Array, P: Array, Y: Array, delay: int, state: State, row: Row, out: Array
) -> None:
    """Predict the last n rows of X (rows, columns); learn each row when its labels arrive.

    P are margins, Y labels, all (rows, outputs); rows before the last n wait. The labels of a row
    arrive after the prediction of the one ``delay`` rows later. Predictions go to ``out``
    (n, outputs).
    """
    waiting = len(X) - len(out)
    for t in range(waiting, len(X)):
        predict_row(X[t], P[t], state, row)
        for o in range(row.final.size):
            out[t - waiting, o] = row.final[o]
        i = t - delay
        if i >= 0:
            if delay:
                predict_row(X[i], P[i], state, row)
            learn_row(X[i], P[i], Y[i], state, row)


@compiled
def predict_rows(X: Array, P: Array, state: State, row: Row, out: Array) -> None:
    """Predict rows X (n, columns), margins P (n, outputs), that may come next."""
    for t in range(len(X)):
        predict_row(X[t], P[t], state, row)
        for o in range(row.final.size):
            out[t, o] = row.final[o]


class Probabilities(Stateful):
    """The candidates and their weights; labels arrive ``delay`` rows late."""

    def __init__(self, outputs: int, columns: int, delay: int = 0) -> None:
        self.delay = delay
        self._counter = np.zeros(1)
        self._counts = np.zeros(outputs)
        self._ring = Ring(PARTS, {"columns": columns, "outputs": outputs})
        self._scales = np.zeros((4, columns))
        self.temperature = Temperature(outputs)
        learners = len(ALPHAS) if outputs * (columns + 1) <= MOST_COEFFICIENTS else 0
        self._A = np.tile(2.0 * ALPHAS[:learners, None, None], (1, outputs, columns + 1))
        self._v = np.zeros(self._A.shape)
        self._v[:, :, -1] = 1.0
        self._log_w = np.log(prior(learners))

    @property
    def weights(self) -> dict[str, float]:
        """Weights of the candidates by name."""
        return dict(zip(NAMES, np.exp(self._log_w).tolist(), strict=False))

    @property
    def _state(self) -> State:
        seen_labels, slopes, H = self.temperature.arrays
        return State(
            self._counter, seen_labels, self._counts, self._log_w, prior(len(self._A)), slopes, H,
            self._scales, self._A, self._v,
        )  # fmt: skip

    def learn(self, X: Array, P: Array, Y: Array) -> Array:
        """Predict then learn rows X (n, columns), margins P, labels Y; return 2 P(1) - 1.

        P, Y and the result are (n, outputs).
        """
        parts = self._ring.extend(len(X))
        for part, values in zip(parts, (X, P, Y), strict=True):
            part[len(part) - len(X) :] = values
        out, state = np.empty(P.shape), self._state
        learn_rows(*parts, self.delay, state, new_row(state), out)
        self._ring.drop(max(0, self._ring.rows - self.delay))
        return out

    def predict(self, X: Array, P: Array) -> Array:
        """Predict rows that may come next from margins P; return (n, outputs)."""
        X, P = (np.ascontiguousarray(part, dtype=np.float64) for part in (X, P))
        out, state = np.empty(P.shape), self._state
        predict_rows(X, P, state, new_row(state), out)
        return out

    def remap(self, matrix: Array) -> None:
        """Replace the outputs by new ones, each plus or minus one old one."""
        sources, signs = signed_columns(matrix)
        outputs, columns = matrix.shape[1], self._scales.shape[1]
        counts = self._counts[sources]
        self._counts = np.where(signs > 0.0, counts, self._counter[0] - counts)
        X, *others = self._ring.parts
        self._ring.replace(X.copy(), *(recombined(part, matrix) for part in others))
        self.temperature.remap(matrix)
        if outputs * (columns + 1) > MOST_COEFFICIENTS and len(self._A):
            kept = np.exp(self._log_w[:LOGISTIC])
            self._log_w = np.log(kept / kept.sum())
            self._A, self._v = self._A[:0], self._v[:0]
        self._A = np.ascontiguousarray(self._A[:, sources])
        self._v = np.ascontiguousarray(self._v[:, sources])
        self._v[:, :, :-1] *= signs[:, None]  # the log odds of the rate change their sign too

    STATE = (
        Numbers("counter", (1,), low=0.0, high=2.0**53, whole="float"),
        Numbers("counts", ("outputs",), low=0.0),
        Part("ring", sizes={"rows": "late", "columns": "columns", "outputs": "outputs"}),
        Numbers("log_w", ("candidates",), high=1e-6),
        Numbers("scales", (4, "columns")),
        Numbers("A", ("learners", "outputs", "terms"), low=0.0),
        Numbers("v", ("learners", "outputs", "terms")),
        Part("temperature", "temperature"),
    )

    def _sizes(self) -> dict[str, int]:
        columns = self._scales.shape[1]
        return {
            "outputs": len(self._counts), "columns": columns, "terms": columns + 1,
        }  # fmt: skip

    def _restored(self, sizes: Sizes) -> None:
        require(sizes["late"] <= self.delay, "ring has more rows than the delay")
        _, P, Y = self._ring.parts
        bounded = (np.abs(P) <= 2.0).all() and (np.abs(Y) <= 1.0).all()
        require(bounded, "ring has margins or labels out of range")
        require(sizes["learners"] in (0, len(ALPHAS)), "A has another number of learners")
        require(sizes["candidates"] == LOGISTIC + sizes["learners"], "log_w has other candidates")
        total = np.exp(self._log_w).sum()
        require(abs(total - 1.0) < 1e-6, "log_w are not the logarithms of weights")
        least = ALPHAS[: sizes["learners"], None, None]
        require((least <= self._A).all(), "A is smaller than its regulariser")
        require((self._scales[LOW] <= self._scales[HIGH]).all(), "scales are in the wrong order")
        require((self._scales[VARIANCE] >= 0.0).all(), "scales have a negative variance")
        require((self._counts <= self._counter[0]).all(), "counts are larger than all rows")


NAMES = ("margins", "rates", *(f"logistic, alpha {a:g}" for a in ALPHAS))


@cache
def prior(learners: int) -> Array:
    """Return the prior weights (2 + learners,) of the candidates, which nobody changes."""
    weights = np.full(LOGISTIC + learners, PRIOR)
    weights[MARGINS] = 1.0 - PRIOR * (len(weights) - 1)
    return weights
