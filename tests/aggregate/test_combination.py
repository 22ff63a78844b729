"""The certificate against combinations of experts: its sums by brute force, and its bound."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pronk
from naive import default as naive
from pronk.aggregate import experts, recovery
from pronk.aggregate.learner import LOCAL_ROWS
from pronk.aggregate.local import LocalExperts
from pronk.aggregate.mixture import Mixture
from pronk.estimators import files

WINDOWS, LAGS = (0.0, 50.0), (1, 2, 7)


def close(got, expected, rtol=1e-8):
    np.testing.assert_allclose(got, expected, rtol=rtol, atol=1e-9)


def check(certificate, rows, Y, stacks, bounded):
    """Compare with the sums recomputed from all rows."""
    loss, best, penalty, bound = naive.combination(rows, Y, stacks)
    assert certificate.rows == len(Y) and certificate.exact
    close(
        [certificate.loss, certificate.best_loss, certificate.penalty], [loss, best, penalty], 1e-7
    )
    close(certificate.regret, loss - best - penalty)
    if bounded:
        close(certificate.bound, bound)
        assert certificate.regret <= certificate.bound
    else:
        assert certificate.bound is None


# -- the mixture ------------------------------------------------------------------------------


def a_stream(outputs, signed, n=300):
    """Return predictions of five experts and targets; some leave the range, the first are small."""
    rng = np.random.default_rng(5)
    y = np.sin(np.arange(n) / 20)[:, None] * np.arange(1, outputs + 1)
    y = y + 0.3 * rng.normal(size=y.shape)
    y[:12] *= 0.1
    P = y[:, None] * np.array([1.0, 0.5, -0.3, 0.0, 2.0])[:, None]
    P = P + np.array([0.5, 0.2, 0.3, 0.4, 0.3])[:, None] * rng.normal(size=P.shape)
    if signed:
        y = np.sign(y)
        y[:50, -1] = 1.0
    return P, y


def one_by_one(mixture, P, y):
    for t in range(len(P)):
        mixture.learn(P[t : t + 1], y[t : t + 1])


@pytest.mark.thinned
@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("outputs", [1, 3])
@pytest.mark.parametrize("how", ["blocks", "one by one", "saved and loaded"])
def test_sums_are_those_of_all_rows(outputs, signed, how):
    P, y = a_stream(outputs, signed)
    limits = np.tile([[-1.0], [1.0]], (1, outputs))
    stays = [0, 2, 4]
    mixture = Mixture(5, limits, signed, WINDOWS, LAGS)
    learn = one_by_one if how == "one by one" else Mixture.learn
    learn(mixture, P[:90], y[:90])
    learn(mixture, P[90:200], y[90:200])
    mixture.keep(stays)
    if how == "saved and loaded":
        state = mixture.to_state()
        mixture = Mixture(3, limits, signed, WINDOWS)
        mixture.restore(state)
    learn(mixture, P[200:][:, stays], y[200:])
    rows = naive.mixture_rows(P, y, limits, WINDOWS, signed, keeps=[(200, stays)], lags=LAGS)
    rows = list(rows)
    bounded = outputs == 1 and not signed
    check(mixture.certificate().combination, rows, y, len(WINDOWS), bounded)
    if bounded:  # every term of the bound is positive
        assert np.all(mixture.combination.to_state()["tally"] > 1e-3)


def test_without_an_undiscounted_stack_there_is_no_bound():
    P, y = a_stream(1, signed=False)
    for windows in ((50.0,), ()):
        mixture = Mixture(5, np.array([[-1.0], [1.0]]), False, windows)
        mixture.learn(P, y)
        mixture.keep([1, 3])
        assert mixture.certificate().combination.bound is None


def test_rolled_back_rows_leave_no_trace():
    P, y = a_stream(1, signed=False)
    mixture = Mixture(5, np.array([[-1.0], [1.0]]), False, WINDOWS)
    mixture.learn(P[:50], y[:50])
    before, snapshot = mixture.certificate(), mixture.snapshot()
    mixture.learn(P[50:], y[50:])
    assert mixture.certificate() != before
    mixture.roll_back(snapshot)
    assert mixture.certificate() == before


def test_constant_targets_have_no_loss():
    mixture = Mixture(2, np.zeros((2, 1)), False, WINDOWS)
    mixture.learn(np.ones((20, 2, 1)), np.zeros((20, 1)))
    certificate = mixture.certificate().combination
    assert certificate.loss == certificate.best_loss == certificate.penalty == 0.0
    close(certificate.bound, np.log(3) + np.log(21))


@st.composite
def hard_streams(draw):
    """Draw adversarial targets (growing, jumping) and experts of any size."""
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    n, count = draw(st.integers(5, 60)), draw(st.integers(1, 4))
    growth = draw(st.sampled_from([1.0, 1.02, 1.3, 3.0]))
    y = growth ** np.arange(n) * rng.choice([-1.0, 0.01, 1.0], n) * 1e-3
    P = rng.normal(size=(n, count, 1)) * np.abs(y[:, None, None]) * draw(st.sampled_from([0.3, 3]))
    if draw(st.booleans()):
        P[:, 0, 0] = y  # a perfect expert
    if draw(st.booleans()):
        P[:, -1, 0] = -y  # and one with the opposite sign
    return P, y[:, None], draw(st.sampled_from([0.0, 1e-3, 1.0])), draw(st.integers(1, n))


@settings(max_examples=60)
@given(hard_streams())
def test_the_bound_holds_on_adversarial_streams(stream):
    P, y, width, drop = stream
    mixture = Mixture(P.shape[1], width * np.array([[-1.0], [1.0]]), False, WINDOWS)
    stays = list(range(0, P.shape[1], 2))
    mixture.learn(P[:drop], y[:drop])
    mixture.keep(stays)
    for t in range(drop, len(y)):
        mixture.learn(P[t : t + 1, stays], y[t : t + 1])
        certificate = mixture.certificate().combination
        assert certificate.regret <= certificate.bound * (1 + 1e-12)


# -- the learner ------------------------------------------------------------------------------

RNG = np.random.default_rng(0)
ROWS = 3000
X = RNG.normal(size=(ROWS, 3))
Y = np.sin(2 * X[:, 0]) * X[:, 1] + 0.2 * RNG.normal(size=ROWS)
Y[2500:2600] *= 3.0
CASES = {
    "one target": (pronk.OnlineKernelRegressor, Y),
    "two targets": (pronk.OnlineKernelRegressor, np.column_stack((Y, np.abs(Y)))),
    "two classes": (pronk.OnlineKernelClassifier, Y > 0),
    "three classes": (pronk.OnlineKernelClassifier, np.digitize(Y, [-0.3, 0.3])),
}


class Record:
    """The predictions of a mixture's experts since the last stage, and which were dropped when."""

    def __init__(self, count, limits, lags):
        self.count, self.limits, self.lags = count, limits.copy(), lags
        self.P, self.y, self.keeps, self.active = [], [], [], np.arange(count)

    def add(self, P, y):
        whole = np.full((len(P), self.count, P.shape[2]), np.nan)
        whole[:, self.active] = P
        self.P.append(whole)
        self.y.append(y.copy())

    def keep(self, chosen):
        self.active = self.active[chosen]
        self.keeps.append((sum(map(len, self.y)), self.active))

    def check(self, certificate, signed, outputs):
        P, y = np.concatenate(self.P), np.concatenate(self.y)
        windows = (0.0, 1000.0, 100.0)
        options = {"keeps": self.keeps, "lags": self.lags}
        rows = list(naive.mixture_rows(P, y, self.limits, windows, signed, **options))
        check(certificate, rows, y, len(windows), outputs == 1 and not signed)


class Recorder:
    """Records both mixtures of a learner: that of all experts, and that with the local ones."""

    def __init__(self, monkeypatch):
        self.begin, self.begin_local = Mixture.__init__, LocalExperts.__init__
        self.learn, self.keep = Mixture.learn, Mixture.keep
        monkeypatch.setattr(Mixture, "__init__", lambda *args: self._begin(*args))
        monkeypatch.setattr(LocalExperts, "__init__", lambda *args: self._begin_local(*args))
        monkeypatch.setattr(Mixture, "learn", lambda *args: self._learn(*args))
        monkeypatch.setattr(Mixture, "keep", lambda *args: self._keep(*args))
        self.restoring, self.place, self.records = False, "inner", {}

    def _begin(self, mixture, count, limits, *rest):
        if not self.restoring:
            self.records[self.place] = Record(count, limits, rest[2])
        mixture.place = self.place
        self.begin(mixture, count, limits, *rest)

    def _begin_local(self, *args):
        self.place = "local"
        self.begin_local(*args)
        self.place = "inner"

    def _learn(self, mixture, P, y, *gaps):
        if not self.restoring:  # a model that is loaded is tried out, which is then rolled back
            self.records[mixture.place].add(P, y)
        return self.learn(mixture, P, y, *gaps)

    def _keep(self, mixture, chosen):
        self.records[mixture.place].keep(chosen)
        self.keep(mixture, chosen)


@pytest.mark.thinned
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("rows", [40, 700, ROWS])
def test_the_certificate_of_a_learner(case, rows, monkeypatch):
    """Across stages and dropped experts, in uneven calls, saved and loaded in between."""
    monkeypatch.setattr(experts, "ACTIVE_EXPERTS", {2304: 5, 2560: 3})
    monkeypatch.setattr(recovery, "LEAST_ROWS", 10 * ROWS)  # one learner is recorded
    kind, y = CASES[case]
    model, recorder, start = kind(budget=20, random_state=1), Recorder(monkeypatch), 0
    for stop in [5, 8, 9, 10, 40, 41, 130, 517, 700, 1999, 2047, 2048, 2300, 2301, 2302, ROWS]:
        if stop <= rows:
            model.partial_fit(X[start:stop], y[start:stop])
            start = stop
            if stop in (41, 2300):
                recorder.restoring = True
                model = files.from_bytes(files.to_bytes(model), "model")
                recorder.restoring = False
    certificate = model.certificate()
    assert certificate.rows == certificate.combination.rows == rows
    outputs = {"two targets": 2, "three classes": 3}.get(case, 1)
    signed = kind is pronk.OnlineKernelClassifier
    inner = certificate
    if rows >= LOCAL_ROWS:
        inner = certificate.inner
        recorder.records["local"].check(certificate.combination, signed, outputs)
    assert inner.rows == rows and inner.inner is None
    recorder.records["inner"].check(inner.combination, signed, outputs)
    assert certificate.to_dict()["combination"] == certificate.combination.to_dict()
