"""Experts without a kernel (baselines, linear experts), lagged targets, and the labels seen so far.

**Baselines** do not read x. They are running means of the targets over three windows, the last
target, the mean of the last ten and the mean of all,

    m_w <- m_w + (y - m_w) / min(t, w),     w = 1, 10, infinity

As experts of the mixture they bound its loss by that of a trivial predictor: persistence where
targets are correlated in time, the mean (of labels +-1: the majority) where nothing can be learned.
Numeric targets with a season s (below) have a further baseline, the last target and its change one
season ago, y_{t-1} + y_{t-s} - y_{t-s-1}; where targets arrive d rows late,
y_{t-1-d} + y_{t-s} - y_{t-s-1-d}.

**Linear experts** of labels +-1 cost a few operations per column. A kernel learner under squared
loss approximates a straight class boundary; a linear one represents it. With x = (z, 1), z the
scaled columns clipped to [-4, 4], one of each per output:

    logistic   p = tanh(f / 2),  f = w'x;   g = y x / (1 + exp(y f)),  G <- G + g^2,
               w <- w + 0.2 g / sqrt(G)                                          (AdaGrad)
    margin     p = tanh(h / c),  h = v'x / |x|,  c = 1 / (0.9 sqrt(k)), after k - 1 updates;
               where y h <= 0.1 c:  v <- v + y sqrt(2 / k) x / |x|,  v <- v / max(1, |v|),
               k <- k + 1                                                        (ALMA)

ALMA learns only from rows near its boundary and so follows drift; AdaGrad converges.

**Lagged targets** (`Past`) are columns that experts may read. A lag l is significant if the
autocorrelation of a target over the first n rows exceeds 4 / sqrt(n), four standard deviations of
that of independent rows. Then the columns are the targets 1 and 2 rows ago, and at the season: the
lag of the largest peak of the autocorrelation, if there is one. A row reads only targets that were
learned before it; with delayed labels, the last ones that arrived. The same test is made on the
last errors of the mixture: an unobserved quantity may drift although the targets, which follow
their columns, show no autocorrelation. Errors are read at the lags of both (`stacks`). Of labels
+-1 only outputs that have had both signs are read; of two, which are each other's negatives, the
last. Of more than three targets none is read, but of up to 32 classes the last label, where labels
depend on the one before (`depends_on_last`).

**Seen labels**: only an output that has been both -1 and +1 carries information.

References: Duchi, Hazan, Singer, "Adaptive subgradient methods", JMLR 2011; Gentile, "A new
approximate maximal margin classification algorithm", JMLR 2001 (p = 2, alpha = 0.9).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pronk.core.compiling import compiled
from pronk.core.linalg import recombined, signed_columns
from pronk.core.state import Numbers, Sizes, Stateful, require

Array = NDArray[np.float64]

#: Step of the logistic expert; ALMA's share of the margin; scaled columns are clipped to this.
STEP, SHARE, FARTHEST = 0.2, 0.9, 4.0
LINEAR_NAMES = ("logistic", "margin")
#: Places of the two linear experts in arrays of predictions (2, outputs).
LOGISTIC, MARGIN = 0, 1
#: Windows of the running means, in rows.
MEAN_WINDOWS = np.array([1.0, 10.0, np.inf])
MEAN_NAMES = ("last target", "mean of 10", "mean")
SEASONAL_NAME = "last target, seasonal"
#: Fewest rows for a test of lags, most targets that are read, longest season in rows.
FEWEST, MOST_TARGETS, LONGEST = 32, 3, 400
#: Fewest lags among which a season is looked for.
SHORTEST = 6
#: Most classes of which the last label is read. A label depends on the one before if some pair of
#: labels occurs FEWEST_PAIRS times or more, PAIR_DEVIATIONS standard deviations above chance.
MOST_CLASSES, FEWEST_PAIRS, PAIR_DEVIATIONS = 32, 5, 6.0
#: Rows of ``seen_labels``, an array (2, outputs) of 0 and 1.
NEGATIVE, POSITIVE = 0, 1

# -- linear experts ---------------------------------------------------------------------------


@compiled(fastmath={"contract"})
def linear_scores(z: Array, w: Array, v: Array) -> tuple[float, float, float]:
    """Return (w'x, v'x, |x|) of one output: z is (columns,), w and v are (columns + 1,)."""
    d = z.size
    # x = (clip(z, -4, 4), 1)
    f, h, square = w[d], v[d], 1.0
    for j in range(d):
        x = min(max(z[j], -FARTHEST), FARTHEST)
        f += w[j] * x
        h += v[j] * x
        square += x * x
    return f, h, np.sqrt(square)


@compiled(fastmath={"contract"})
def linear_values(f: float, h: float, size: float, updates: float) -> tuple[float, float]:
    """Return both predictions of one output: tanh(f / 2) and tanh(h / (|x| c)), k = ``updates``."""
    return np.tanh(0.5 * f), np.tanh(SHARE * np.sqrt(updates) * h / size)


@compiled(fastmath={"contract"})
def linear_predictions(z: Array, W: Array, V: Array, updates: Array, out: Array) -> None:
    """Predict a row z (columns,) with W and V (outputs, columns + 1) into ``out`` (2, outputs)."""
    for o in range(len(W)):
        f, h, size = linear_scores(z, W[o], V[o])
        out[LOGISTIC, o], out[MARGIN, o] = linear_values(f, h, size, updates[o])


@compiled(fastmath={"contract"})
def learn_linear(
    Z: Array, Y: Array, later: Array, W: Array, squares: Array, V: Array, updates: Array, out: Array
) -> None:
    """Predict then learn rows Z (n, columns) with labels Y (n, outputs).

    W, V and ``squares`` (AdaGrad's G) are (outputs, columns + 1), ``updates`` (ALMA's k) is
    (outputs,); predictions go to ``out`` (n, 2, outputs). Where ``later`` (n, columns) has rows,
    those are predicted.
    """
    d = Z.shape[1]
    for t in range(len(Z)):
        linear_predictions(later[t] if len(later) else Z[t], W, V, updates, out[t])
        for o in range(len(W)):
            y, w, v = Y[t, o], W[o], V[o]
            f, h, size = linear_scores(Z[t], w, v)
            # g = y x / (1 + exp(y f)),  G <- G + g^2,  w <- w + 0.2 g / sqrt(G)
            miss = 1.0 / (1.0 + np.exp(min(y * f, 500.0)))
            for j in range(d + 1):
                x = min(max(Z[t, j], -FARTHEST), FARTHEST) if j < d else 1.0
                g = y * miss * x
                squares[o, j] += g * g
                if squares[o, j] > 0.0:
                    w[j] += STEP * g / np.sqrt(squares[o, j])
            # where y h <= 0.1 c:  v <- v + y sqrt(2/k) x / |x|,  v <- v / max(1, |v|),  k <- k + 1
            if SHARE * np.sqrt(updates[o]) * y * h <= (1.0 - SHARE) * size:
                rate, total = y * np.sqrt(2.0 / updates[o]) / size, 0.0
                for j in range(d + 1):
                    x = min(max(Z[t, j], -FARTHEST), FARTHEST) if j < d else 1.0
                    v[j] += rate * x
                    total += v[j] * v[j]
                shrink = 1.0 / max(1.0, np.sqrt(total))
                for j in range(d + 1):
                    v[j] *= shrink
                updates[o] += 1.0


# -- baselines --------------------------------------------------------------------------------


@compiled
def learn_means(Y: Array, windows: Array, counter: Array, means: Array, out: Array) -> None:
    """Write the means before each row of Y (n, outputs) to ``out`` (n, windows, outputs).

    ``windows`` is (windows,) in rows, ``counter`` (1,) the rows so far, ``means``
    (windows, outputs).
    """
    # m_w <- m_w + (y - m_w) / min(t, w)
    for t in range(Y.shape[0]):
        counter[0] += 1.0
        for w in range(windows.size):
            rate = 1.0 / min(counter[0], windows[w])
            for o in range(Y.shape[1]):
                out[t, w, o] = means[w, o]
                means[w, o] += rate * (Y[t, o] - means[w, o])


class Baselines(Stateful):
    """Running means of the targets, one per window, and further experts.

    With a ``season`` (in rows, counted as the lags of `Past`) the seasonal one, with ``columns``
    the linear ones.
    """

    def __init__(
        self, outputs: int, columns: int | None = None, season: int = 0, delay: int = 0
    ) -> None:
        self._delay = delay
        held = season + 1 + delay if season else 0
        self._latest = np.zeros((held, outputs))  # targets, oldest first
        self._counter = np.zeros(1)
        self._means = np.zeros((len(MEAN_WINDOWS), outputs))
        self._has_linear = columns is not None
        terms = 0 if columns is None else columns + 1
        self._logistic, self._squares = np.zeros((outputs, terms)), np.zeros((outputs, terms))
        self._margin, self._updates = np.zeros((outputs, terms)), np.ones(outputs)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the experts in their order."""
        seasonal = (SEASONAL_NAME,) if len(self._latest) else ()
        return (*MEAN_NAMES, *seasonal, *(LINEAR_NAMES if self._has_linear else ()))

    @property
    def means(self) -> Array:
        """The means of the targets over the windows, (windows, outputs)."""
        return self._means

    @property
    def count(self) -> int:
        """Number of experts."""
        return len(self.names)

    def learn(self, Z: Array, Y: Array, later: Array | None = None) -> Array:
        """Predict then learn rows Z (m, columns); return predictions (n, experts, outputs).

        With ``later`` rows (n, columns) those are predicted: the last m of them just before a row
        is learned.
        """
        if later is None:
            P, later = np.empty((len(Z), self.count, Y.shape[1])), Z[:0]
            arriving = P
        else:
            P, early = self.predict(later), len(later) - len(Y)
            later, arriving = later[early:], P[early:]
        means = self.learn_means(Y)
        arriving[:, : means.shape[1]] = means
        if self._has_linear:
            rows = [np.ascontiguousarray(part) for part in (Z, Y, later)]
            learn_linear(
                *rows, self._logistic, self._squares, self._margin, self._updates,
                arriving[:, means.shape[1] :],
            )  # fmt: skip
        return P

    def learn_means(self, Y: Array) -> Array:
        """Learn targets Y (n, outputs); return the predictions before each that do not read x."""
        Y = np.ascontiguousarray(Y)
        means = np.empty((len(Y), *self._means.shape))
        learn_means(Y, MEAN_WINDOWS, self._counter, self._means, means)
        if len(self._latest):
            means = np.concatenate((means, self._learn_seasonal(Y)), axis=1)
        return means

    def _learn_seasonal(self, Y: Array) -> Array:
        """Return the seasonal predictions (n, 1, outputs) of rows with targets Y; store these."""
        n, known, last = len(Y), np.vstack((self._latest, Y)), len(self._latest) - 1
        self._latest, change = known[n:], 1 + self._delay
        # y_{t-1-d} + y_{t-s} - y_{t-s-1-d}
        return (known[last : last + n] + known[change : change + n] - known[:n])[:, None]

    def predict(self, Z: Array) -> Array:
        """Predict rows that may come next; return (n, experts, outputs)."""
        means, latest = len(self._means), self._latest
        out = np.empty((len(Z), self.count, self._means.shape[1]))
        out[:, :means] = self._means
        if len(latest):
            out[:, means] = latest[-1] + latest[1 + self._delay] - latest[0]
        if self._has_linear:
            first = self.count - len(LINEAR_NAMES)
            for z, row in zip(np.ascontiguousarray(Z), out[:, first:], strict=True):
                linear_predictions(z, self._logistic, self._margin, self._updates, row)
        return out

    def remap(self, matrix: Array) -> None:
        """Replace the outputs by new ones, each plus or minus one old one."""
        self._means = recombined(self._means, matrix)
        self._latest = recombined(self._latest, matrix)
        self._logistic = recombined(self._logistic, matrix, axis=-2)
        self._margin = recombined(self._margin, matrix, axis=-2)
        self._squares = recombined(self._squares, matrix, axis=-2, absolute=True)
        self._updates = recombined(self._updates, matrix, absolute=True)

    STATE = (
        Numbers("counter", (1,), low=0.0, whole="float"),
        Numbers("means", (len(MEAN_WINDOWS), "outputs")),
        Numbers("latest", ("latest", "outputs"), written="replaced"),
        Numbers("logistic", ("outputs", "terms")),
        Numbers("squares", ("outputs", "terms"), low=0.0),
        Numbers("margin", ("outputs", "terms")),
        Numbers("updates", ("outputs",), low=1.0),
    )

    def _sizes(self) -> dict[str, int]:
        return {"outputs": self._means.shape[1], "terms": self._logistic.shape[1]}

    def _restored(self, sizes: Sizes) -> None:
        held = sizes["latest"]
        require(not held or held > 1 + self._delay, "latest has too few targets for a season")


# -- lagged targets ---------------------------------------------------------------------------


def informative_outputs(Y: Array, signed: bool) -> list[int]:
    """Return the outputs of Y (n, outputs) that vary; of two outputs of labels the last."""
    varied = [o for o in range(Y.shape[1]) if np.ptp(Y[:, o]) > 0.0]
    return varied[-1:] if signed and len(varied) == 2 else varied


def autocorrelation(y: Array, longest: int) -> Array:
    """Return the autocorrelation of y (n,) at lags 0 .. longest; zeros for a constant."""
    y = y - y.mean()
    total = y @ y
    if not total > 0.0:
        return np.zeros(longest + 1)
    size = 2 ** int(np.ceil(np.log2(2 * len(y))))
    spectrum = np.abs(np.fft.rfft(y, size)) ** 2
    return np.asarray(np.fft.irfft(spectrum, size)[: longest + 1] / total)


def depends_on_last(Y: Array, delay: int = 0) -> bool:
    """Whether labels Y (n, classes), +-1, depend on the last label known, ``delay`` rows late.

    Pairs of successive labels are counted; by chance the count is nearly Poisson with the mean
    count(first) count(second) / n.
    """
    lag = delay + 1
    now, last = (np.asarray(rows > 0.0, dtype=np.float64) for rows in (Y[lag:], Y[:-lag]))
    counts = now.T @ last
    means = np.outer(now.sum(axis=0), last.sum(axis=0)) / len(now)
    more = counts - means > PAIR_DEVIATIONS * np.sqrt(means)
    return bool((more & (counts >= FEWEST_PAIRS)).any())


def find_lags(Y: Array, sources: list[int], labels: bool = False, delay: int = 0) -> list[int]:
    """Return the lags to read; none if there are too few rows or no significant lag.

    With a ``delay`` lag 1 is the last target that is known when a row is predicted, delay + 1 rows
    before it.
    """
    n = len(Y)
    if labels and n >= FEWEST + delay and MOST_TARGETS < len(sources) <= MOST_CLASSES:
        return [1] if depends_on_last(Y[:, sources], delay) else []
    if n < FEWEST or not sources or len(sources) > MOST_TARGETS:
        return []
    longest = min(n // 3, delay + LONGEST)
    if longest < delay + SHORTEST:
        return []
    parts = [autocorrelation(Y[:, o], longest)[delay:] for o in sources]
    values = np.round(np.max(parts, axis=0), 9)  # rounding decides no tie
    threshold = 4.0 / np.sqrt(n)
    inner = values[3:-1]
    peaks = (inner > values[2:-2]) & (inner >= values[4:]) & (inner > threshold)
    season = [3 + int(np.argmax(np.where(peaks, inner, -1.0)))] if peaks.any() else []
    if values[1] <= threshold and not season:
        return []
    return [1, 2, *season]


class Past(Stateful):
    """Targets that are read (``sources``) at some lags, and the last targets that arrived.

    Lag 1 is the last target that had arrived when a row was predicted: with a ``delay`` that of
    delay + 1 rows before.
    """

    def __init__(self, outputs: int, sources: list[int], lags: list[int], delay: int = 0) -> None:
        self.delay = delay
        self._sources = np.array(sources, dtype=np.int64)
        self._signs = np.ones(len(sources))
        self._lags = np.array(lags, dtype=np.int64)
        self._held = np.zeros((max(lags, default=0), outputs))

    @property
    def columns(self) -> int:
        """Number of columns that are added to a row."""
        return len(self._sources) * len(self._lags)

    @property
    def season(self) -> int:
        """The season in rows; 0 if there is none."""
        return int(self._lags[2]) if len(self._lags) > 2 else 0

    def informative(self, Y: Array) -> Array:
        """Return the targets that are read, (n, sources)."""
        return Y[:, self._sources] * self._signs

    def columns_of(self, Y: Array) -> Array:
        """Return the columns (n, columns) of the first rows; targets before them are 0."""
        known = np.vstack((np.zeros_like(self._held), Y))
        early = np.repeat(self._read(known[: len(self._held) + 1], 1), min(self.delay, len(Y)), 0)
        return np.vstack((early, self._read(known, len(Y))[: len(Y) - len(early)]))

    def learn(self, rows: int, Y: Array) -> Array:
        """Return the columns of new rows, and store the targets Y that arrive.

        The last len(Y) of the rows have such a target each, which arrives after their prediction.
        """
        if not self.columns:
            return np.empty((rows, 0))
        known = np.vstack((self._held, Y))
        read = self._read(known, len(Y))
        if rows > len(Y):
            read = np.vstack((self.predict(rows - len(Y)), read))
        self._held = known[len(Y) :]
        return read

    def predict(self, rows: int) -> Array:
        """Return the columns of rows that may come next."""
        known = np.vstack((self._held, np.zeros((1, self._held.shape[1]))))
        return np.repeat(self._read(known, 1), rows, axis=0)

    def _read(self, known: Array, rows: int) -> Array:
        first = len(known) - rows
        parts = [self.informative(known[first - lag : first - lag + rows]) for lag in self._lags]
        return np.hstack(parts) if parts else np.empty((rows, 0))

    def remap(self, matrix: Array) -> None:
        """Replace the outputs; the same targets are read, at their new places."""
        self._held = recombined(self._held, matrix)
        places = [int(np.flatnonzero(matrix[o])[-1]) for o in self._sources]
        self._signs = self._signs * matrix[self._sources, places]
        self._sources = np.array(places, dtype=np.int64)

    STATE = (
        Numbers("sources", ("sources",), whole=True, low=0, high="outputs", written="replaced"),
        Numbers("signs", ("sources",), low=-1.0, high=1.0, written="replaced"),
        Numbers("lags", ("lags",), whole=True, low=1, high=LONGEST, written="replaced"),
        Numbers("held", ("held", "outputs"), written="replaced"),
    )

    def _sizes(self) -> dict[str, int]:
        return {"outputs": self._held.shape[1]}


# -- seen labels ------------------------------------------------------------------------------


@compiled
def note_labels(y: Array, seen_labels: Array) -> None:
    """Record the signs of a row y (outputs,) in ``seen_labels`` (2, outputs)."""
    for o in range(y.size):
        seen_labels[NEGATIVE if y[o] < 0.0 else POSITIVE, o] = 1.0


@compiled
def live_outputs(seen_labels: Array, signed: bool, live: NDArray[np.bool_]) -> int:
    """Set which outputs count in ``live`` (outputs,) and return their number.

    Before any output has had both signs it is the first, which is constant 1.
    """
    count = 0
    for o in range(live.size):
        live[o] = not signed or (seen_labels[NEGATIVE, o] > 0.0 and seen_labels[POSITIVE, o] > 0.0)
        count += live[o]
    if count == 0:
        live[0] = True
        count = 1
    return count


@compiled
def leave_out_negative(signed: bool, live: NDArray[np.bool_], count: int) -> int:
    """Leave one of two live outputs of labels, the last, and return the number of live outputs.

    The two are each other's negatives. Sums over both would round otherwise than the sums of a
    learner that has a single output, since it knows no third class yet.
    """
    if not signed or count != 2:
        return count
    first = 0
    while not live[first]:
        first += 1
    live[first] = False
    return 1


def remapped_labels(seen_labels: Array, matrix: Array) -> Array:
    """Return the seen labels (2, new outputs) of outputs that are plus or minus an old one."""
    sources, signs = signed_columns(matrix)
    seen = np.where(signs > 0.0, seen_labels[:, sources], seen_labels[::-1, sources])
    return np.ascontiguousarray(seen)  # compiled functions are compiled again for another layout
