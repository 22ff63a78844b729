"""Rows that wait outside the learner: learned as they were predicted, in any order of labels."""

import copy
from itertools import pairwise

import numpy as np
import pytest

import pronk
from helpers import sequence
from laws.interrupts import state_of
from naive import late as naive_late
from pronk.aggregate import experts as experts_module
from pronk.aggregate.baselines import Past
from pronk.aggregate.experts import Experts
from pronk.aggregate.late import MOST_NUMBERS, Header, Reader, ReadGroup, ReadRows
from pronk.aggregate.mixture import Mixture
from pronk.aggregate.probabilities import Probabilities
from pronk.aggregate.settings import PAST, PLAIN, RELEVANCE, View, grid
from pronk.core.kernels import Gaussian, Laplacian
from pronk.core.state import StateError
from pronk.estimators import files


def close(got, expected, tolerance=1e-8):
    np.testing.assert_allclose(got, expected, rtol=tolerance, atol=tolerance)


def events(n, late, seed=0):
    """Return calls ("predict" or "learn", row) in which each label is up to ``late`` rows late."""
    rng = np.random.default_rng(seed)
    due = np.arange(n) + rng.integers(0, late + 1, n)
    out = []
    for t in range(n):
        out.append(("predict", t))
        out += [("learn", int(row)) for row in rng.permutation(np.flatnonzero(due == t))]
    return out


# -- parts against the definition ------------------------------------------------------------------


def make_experts(lags=(1, 2, 5), error_lags=(1, 3), budget=20, columns=2, seed=0):
    settings = [s for s in grid(Gaussian(), True, True) if s.factor == 4.0 or s.view == PAST]
    wide = columns + len(lags)
    views = [
        View(PLAIN, Gaussian(), np.ones(columns), 1.0),
        View(RELEVANCE, Laplacian(), np.ones(columns), 1.0),
        View(PAST, Laplacian(), np.ones(wide), 1.0),
    ]
    views = [view for view in views if view.number in {PLAIN, *(s.view for s in settings)}]
    limits = np.array([[-1.0], [1.0]])
    experts = Experts(
        settings, views, Past(1, [0], list(lags)), 1, budget, 0, limits, False, columns, True,
        error_lags, small=True,
    )  # fmt: skip
    rng = np.random.default_rng(seed)
    experts.add_points(rng.uniform(-1, 1, (budget, wide)), np.zeros(budget), budget)
    return experts


def line_of(experts, z):
    """Return the final prediction of a row, and the group that learning it needs."""
    final, _, values = experts.read(z[None, :])
    reader = Reader(0, 0, 0, tuple(experts.active), 1 + values.shape[1])
    return final[0], (reader, np.append(experts.rows, values[0]))


def read_rows(lines, outputs=1, matrix=None):
    groups = [
        ReadGroup(np.array([place]), reader, values[None, :], outputs, matrix)
        for place, (reader, values) in enumerate(lines)
    ]
    return ReadRows(groups, np.zeros(len(lines), dtype=bool))


@pytest.mark.parametrize("late", [1, 30])
def test_experts_learn_rows_as_they_were_predicted_in_any_order(late):
    experts, twin = make_experts(), naive_late.WaitingExperts(make_experts())
    rng = np.random.default_rng(1)
    Z = rng.uniform(-1, 1, (150, 2))
    Y = np.tanh(np.sin(3 * Z[:, :1]) + np.cumsum(0.1 * rng.normal(size=(150, 1)), axis=0))
    waiting = {}
    for call, row in events(150, late):
        if call == "predict":
            got, waiting[row] = line_of(experts, Z[row])
            close(got, twin.predict(row, Z[row]))
        else:
            lines = read_rows([waiting.pop(row)])
            experts.learn(
                Z[row : row + 1], Y[row : row + 1], Y[row : row + 1], fixed=True, read=lines
            )
            twin.learn(row, Y[row])


def test_a_block_of_arrivals_ends_where_one_row_after_the_other_ends():
    rng = np.random.default_rng(2)
    Z, Y = rng.uniform(-1, 1, (400, 2)), rng.uniform(-1, 1, (400, 1))
    for cuts in ([0, 300, 301, 400], [0, 1, 2, 60, 255, 257, 400]):
        block, single = make_experts(), make_experts()
        for start, stop in pairwise(cuts):
            lines = [line_of(block, z)[1] for z in Z[start:stop]]
            order = np.random.default_rng(start).permutation(np.arange(start, stop))
            own = [lines[row - start] for row in order]
            own = [line if place % 5 else None for place, line in enumerate(own)]  # some read now
            rows = [ReadGroup(np.array([p]), *line, 1, None) for p, line in enumerate(own) if line]
            rows = [g._replace(values=g.values[None, :]) for g in rows]
            known = ReadRows(rows, np.zeros(len(own), dtype=bool))
            out, scales = block.learn(Z[order], Y[order], Y[order], read=known)
            for place, row in enumerate(order):
                line = None if own[place] is None else read_rows([own[place]])
                one = slice(row, row + 1)
                final, scale = single.learn(Z[one], Y[one], Y[one], read=line)
                assert np.array_equal(final[0], out[place])
                assert np.array_equal(scale[0], scales[place])
        assert np.array_equal(block.predict(Z[:20])[0], single.predict(Z[:20])[0])


@pytest.mark.thinned
@pytest.mark.parametrize("labels", [False, True])
@pytest.mark.parametrize("rows", [700, 2100])
def test_with_a_constant_lateness_experts_are_those_of_a_delay(labels, rows):
    """From the same state on: local experts, error scale and all, through an epoch's end."""
    X, y = sequence(rows + 600, labels)
    model = learner(labels).partial_fit(X[:rows], y[:rows])._model.incumbent
    assert model.experts.past.columns and model.experts.local is not None
    waiting, late = copy.deepcopy(model.experts), 17
    delayed = copy.deepcopy(model.experts)
    delayed.delay = late
    Z = model._scaled(X[rows:])
    Y = np.tile(np.sign(np.sin(np.arange(600.0)))[:, None], (1, delayed.outputs))
    Y = Y if labels else model._scaled_targets(y[rows:, None])
    expected, scales = delayed.learn(Z, Y[:-late], Y[:-late])
    lines, reads = {}, np.empty(expected.shape)
    for t in range(600):
        reads[t], lines[t] = line_of(waiting, Z[t])
        close(lines[t][1][-delayed.outputs :], scales[t], 1e-6)
        if t >= late:
            old = slice(t - late, t - late + 1)
            read = read_rows([lines.pop(t - late)], delayed.outputs)
            waiting.learn(Z[old], Y[old], Y[old], read=read)
            assert read.used.all()
    close(reads, expected, 1e-6)
    close(waiting.mixture.weights, delayed.mixture.weights, 1e-6)


def test_probabilities_of_late_labels_are_those_of_rows_that_are_learned_later():
    rng = np.random.default_rng(4)
    X, P = rng.normal(size=(200, 2)), np.tanh(rng.normal(size=(200, 1)))
    Y = np.sign(np.cumsum(rng.normal(size=(200, 1)), axis=0))
    delayed, waiting = Probabilities(1, 2, 7), Probabilities(1, 2)
    expected = delayed.learn(X, P, Y)
    for t in range(200):
        close(waiting.predict(X[t : t + 1], P[t : t + 1])[0], expected[t])
        if t >= 7:
            old = slice(t - 7, t - 6)
            waiting.learn(X[old], P[old], Y[old])
    close(waiting._log_w, delayed._log_w)
    close(waiting._counter, delayed._counter)


def test_a_mixture_that_held_rows_back_releases_them():
    rng = np.random.default_rng(3)
    P, Y = rng.uniform(-1, 1, (50, 3, 1)), rng.uniform(-1, 1, (50, 1))
    for count in (3, 4, 50):
        late, twin = (Mixture(3, np.array([[-1.0], [1.0]]), False, lags=(1,)) for _ in range(2))
        late.learn(P[:count], Y[: max(0, count - 4)])
        rows = late.release()
        waited, out = [], []
        for t in range(count):
            waited.append(naive_late.LateMixture(twin).predict(P[t])[1])
            if t >= 4:
                naive_late.LateMixture(twin).learn(None, waited[t - 4], Y[t - 4])
        for row in waited[max(0, count - 4) :]:
            out.append(row.final[0])
            naive_late.LateMixture(twin).learn(None, row, Y[len(out)])
        close(rows.final, out)
        known = np.ones(len(out), dtype=bool)
        late.learn(P[: len(out)], Y[1 : 1 + len(out)], recorded=(known, rows))
        close(late.weights, twin.weights)
        assert not late.ring.rows


# -- the learner -----------------------------------------------------------------------------------


def learner(labels=False, **options):
    kind = pronk.OnlineKernelClassifier if labels else pronk.OnlineKernelRegressor
    return kind(random_state=0, budget=40, memory_limit=4_000_000, **options)


def drive(pending, X, y, calls):
    """Make calls ("predict" or "learn", rows); return the predictions by row."""
    out = {}
    for call, rows in calls:
        if call == "predict":
            out |= zip(rows, pending.predict(X[rows], rows).tolist(), strict=True)
        else:
            pending.learn(rows, y[rows])
    return out


def grouped(calls, sizes):
    """Join successive calls of one kind into larger ones."""
    out = []
    for call, row in calls:
        if out and out[-1][0] == call and len(out[-1][1]) < sizes[len(out) % len(sizes)]:
            out[-1][1].append(row)
        else:
            out.append((call, [row]))
    return out


def in_batches(n, size, late):
    """Return calls: a batch is predicted, then the labels of an earlier batch arrive, mixed."""
    out = []
    for start in range(0, n, size):
        out.append(("predict", list(range(start, min(n, start + size)))))
        if start >= late:
            rows = np.arange(start - late, start - late + size)
            out.append(("learn", np.random.default_rng(start).permutation(rows).tolist()))
    return out


def cut(calls, size):
    """Cut each call into calls of at most so many rows."""
    return [(call, rows[i : i + size]) for call, rows in calls for i in range(0, len(rows), size)]


@pytest.mark.parametrize("labels", [pytest.param(False, marks=pytest.mark.matrix), True])
def test_rows_in_batches_are_rows_one_by_one(labels):
    """Any cut of the calls gives the same predictions, through all stages."""
    X, y = sequence(2400, labels)
    calls = in_batches(2400, 12, 24)
    whole, single = pronk.Pending(learner(labels)), pronk.Pending(learner(labels))
    expected, got = drive(whole, X, y, calls), drive(single, X, y, cut(calls, 5))
    if labels:
        assert np.mean([expected[t] == got[t] for t in range(2400)]) > 0.999
        close(whole.model.predict_proba(X[:50]), single.model.predict_proba(X[:50]), 1e-3)
    else:
        close([got[t] for t in range(2400)], [expected[t] for t in range(2400)], 1e-4)
    assert 24 <= whole.model._model.incumbent.lateness <= 36
    assert whole.model.reads_past_


@pytest.mark.thinned
@pytest.mark.parametrize("labels", [False, True])
@pytest.mark.parametrize("rows", [5, 40, 700, 2300])
@pytest.mark.parametrize("way", ["save", "deepcopy"])
def test_a_copy_has_what_waits_and_continues_to_the_same_bits(tmp_path, labels, rows, way):
    X, y = sequence(2600, labels)
    calls = events(rows, 20, 3)
    pending = pronk.Pending(pronk.Prepared(learner(labels)) if rows == 700 else learner(labels))
    drive(pending, X, y, grouped(calls, (1, 3)))
    if way == "save":
        pending.save(tmp_path / "pending.pronk")
        again = pronk.load(tmp_path / "pending.pronk")
    else:
        again = copy.deepcopy(pending)
    waiting = list(pending.ids)
    more = [("learn", waiting[::2]), ("predict", list(range(rows, rows + 200)))]
    more += [("learn", [*waiting[1::2], *range(rows + 199, rows, -1)])]
    more += [("predict", list(range(rows + 200, rows + 220)))]
    assert drive(pending, X, y, more) == drive(again, X, y, more)
    assert files.to_bytes(pending.model) == files.to_bytes(again.model)


@pytest.mark.thinned
@pytest.mark.parametrize("rows", [30, 500, 2040, 2200])
@pytest.mark.parametrize("several", [False, True])
def test_a_call_that_raises_keeps_the_rows_and_changes_nothing(monkeypatch, rows, several):
    X, y = sequence(2400)
    pending = pronk.Pending(learner())
    drive(pending, X, y, in_batches(rows, 20, 20))
    drive(pending, X, y, [("predict", list(range(rows, rows + 60)))])
    before, ids = state_of(pending.model), pending.ids
    twin = copy.deepcopy(pending)

    def stopped(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(pronk.OnlineKernelRegressor, "_check_result", stopped)
        with pytest.raises(KeyboardInterrupt):
            pending.learn(ids if several else ids[:1], y[ids if several else ids[:1]])
    assert state_of(pending.model) == before and pending.ids == ids
    assert "_lines" not in pending.model.__dict__
    for one in (pending, twin):
        one.learn(ids, y[ids])
    assert state_of(pending.model) == state_of(twin.model)


@pytest.mark.parametrize("labels", [False, True])
def test_labels_of_later_rows_change_nothing_that_a_row_has_read(labels):
    """A row that waits is learned with what it read, whatever has arrived in between."""
    X, y = sequence(900, labels)
    pending = pronk.Pending(learner(labels))
    drive(pending, X, y, [("predict", [0]), ("learn", [0])])
    for t in range(1, 600):
        pending.predict(X[t : t + 1], [t])
        pending.learn([t], y[t : t + 1])
    pending.predict(X[600:601], ["first"])
    experts = pending.model._model.incumbent.experts
    read = experts.past.predict(1)[0].copy()
    rest = list(range(601, 640))
    pending.predict(X[rest], rest)
    pending.learn(rest, y[rest])
    assert not np.array_equal(experts.past.predict(1)[0], read)
    pending.learn(["first"], y[600:601])
    assert np.array_equal(experts._log.Z.values[-1, 2:], read)


def test_experts_that_were_dropped_leave_the_records(monkeypatch):
    monkeypatch.setattr(experts_module, "ACTIVE_EXPERTS", {4096: 2})
    X, y = sequence(4400)
    pending = pronk.Pending(learner())
    pending.model.partial_fit(X[:4050], y[:4050])
    rows = list(range(4050, 4150))
    pending.predict(X[rows], rows)
    before = len(pending.model._model.experts.active)
    pending.learn(rows[:50], y[rows[:50]])  # row 4096 is among them
    experts = pending.model._model.experts
    assert len(experts.active) < before
    used = used_records(pending, rows[50:], y)
    assert used.all()


def used_records(pending, rows, y):
    """Learn rows; return which were learned with what their incumbent had left."""
    model, used = pending.model._model.incumbent, []
    learn = type(model).learn

    def watched(self, X, Y, gaps=None, read=None):
        out = learn(self, X, Y, gaps, read)
        if self is model:
            used.append(np.zeros(len(X), bool) if read is None else read.used.copy())
        return out

    type(model).learn = watched
    try:
        pending.learn(rows, y[rows])
    finally:
        type(model).learn = learn
    return np.concatenate(used)


@pytest.mark.parametrize("labels", [False, True])
def test_after_a_stage_records_do_not_fit_and_the_rows_are_read_now(labels):
    X, y = sequence(700, labels)
    pending = pronk.Pending(learner(labels))
    pending.model.partial_fit(X[:480], y[:480])
    rows = list(range(480, 600))
    pending.predict(X[rows], rows)
    used = used_records(pending, rows, y)
    assert used[:32].all() and not used[32:].any()


def test_a_record_of_another_model_is_not_used():
    X, y = sequence(1200)
    first, second = learner().partial_fit(X[:700], y[:700]), learner().partial_fit(X[:600], y[:600])
    pending = pronk.Pending(first)
    rows = list(range(700, 720))
    pending.predict(X[rows], rows)
    pending.model = second.partial_fit(3 * X[:40], 5 + y[:40])
    other = learner().fit(7 * X[300:900] + 1, y[300:900] ** 3)
    pending.model = other
    assert not used_records(pending, rows, y).any()


def test_new_classes_come_between_prediction_and_label():
    rng = np.random.default_rng(5)
    X, y = sequence(1500, labels=True)
    y = y.astype("<U5")
    y[800:] = np.where(y[800:] == "mid", rng.choice(["mid", "new", "other"], 700), y[800:])
    one, several = (pronk.Pending(learner(True)) for _ in range(2))
    calls = in_batches(1500, 50, 100)
    expected = drive(one, X, y, calls)
    got = drive(several, X, y, cut(calls, 11))
    assert np.mean([expected[t] == got[t] for t in range(1500)]) > 0.998
    assert set(one.model.classes_) == {"high", "low", "mid", "new", "other"}
    # The record of three classes, learned with five, is that of a learner that knew all five.
    known = pronk.Pending(learner(True))
    known.model.partial_fit(X[:1], y[:1], classes=["high", "low", "mid", "new", "other"])
    found = pronk.Pending(learner(True))
    found.model.partial_fit(X[:1], y[:1])
    for pending in (known, found):
        pending.model.partial_fit(X[1:800], y[1:800])
        rows = list(range(780, 860))
        pending.predict(X[rows], rows)
        assert used_records(pending, rows, y).all()
    close(known.model.predict_proba(X[:50]), found.model.predict_proba(X[:50]), 1e-6)


@pytest.mark.slow
def test_a_challenger_takes_over_while_rows_wait():
    rng = np.random.default_rng(6)
    X = rng.uniform(-1, 1, (3600, 2))
    y = np.sin(3 * X[:, 0]) + 0.05 * rng.normal(size=3600)
    y[1200:] = 3 * np.cos(4 * X[1200:, 1]) + 2 + 0.05 * rng.normal(size=2400)
    calls = in_batches(3600, 60, 120)
    whole, single = (pronk.Pending(learner()) for _ in range(2))
    expected = drive(whole, X, y, calls)
    assert whole.model.change_counts_["swaps"] >= 1
    got = drive(single, X, y, cut(calls, 13))
    changes = [
        [(one["row"], one["outcome"], one["end"]) for one in pending.model.changes_]
        for pending in (whole, single)
    ]
    assert changes[0] == changes[1]
    np.testing.assert_allclose(
        [got[t] for t in range(3600)], [expected[t] for t in range(3600)], rtol=1e-3, atol=1e-3
    )
    errors = np.array([expected[t] - y[t] for t in range(3600)]) ** 2
    assert errors[3000:].mean() < 0.05


def test_many_classes_leave_no_long_records():
    rng = np.random.default_rng(7)
    X, y = rng.normal(size=(300, 2)), rng.integers(0, 120, 300)
    pending = pronk.Pending(pronk.OnlineKernelClassifier(random_state=0, budget=10, experts="few"))
    pending.model.partial_fit(X[:200], y[:200])
    pending.predict(X[200:], list(range(200, 300)))
    lines = [line for _, line in pending._rows.values()]
    assert all(len(line[1]) <= 2 * 121 + MOST_NUMBERS for line in lines)
    assert pending.learn(list(range(200, 300)), y[200:]) == 100


def covered(late, n=4000, seed=0):
    """Return mean squared error and coverage of 90 % intervals, labels so many rows late."""
    X, y = sequence(n, seed=seed)
    model = learner()
    pending, low, high, P = pronk.Pending(model), *np.full((3, n), np.nan)
    for t in range(n):
        if t > late + 1:
            low[t], high[t] = model.predict_interval(X[t : t + 1], ahead=False)[0]
        P[t] = pending.predict(X[t : t + 1], [t])[0]
        if t >= late:
            pending.learn([t - late], y[t - late : t - late + 1])
    rows = slice(1000, None)
    inside = (low[rows] <= y[rows]) & (y[rows] <= high[rows])
    return np.mean((P - y)[rows] ** 2), inside.mean(), X, y


@pytest.mark.slow
def test_intervals_hold_at_the_lateness_of_the_labels():
    """And errors are near those of the learner with that delay (same rule, other first rows)."""
    error, inside, X, y = covered(24)
    assert 0.87 < inside < 0.93
    P = learner(delay=24).predict_then_learn(X, y)
    assert error == pytest.approx(np.mean((P - y)[1000:] ** 2), rel=0.1)


@pytest.mark.parametrize(
    "damaged",
    [
        [3, True], [0, True, []], [2, 1, []], [2, True, [[0, 1, 2]]],
        [2, True, [[0, 1, 5, [1.5], 3]]], [2, True, [[0, 1, -5, [1], 3]]],
        [2, True, [[0, 1, 5, 1, 3]]], "text",
    ],
)  # fmt: skip
def test_headers_from_a_file_are_checked(damaged):
    header = Header(2, True, (Reader(0, 1, 5, (0, 3), 7),))
    assert Header.from_list(header.to_list()) == header and header.width == 11
    with pytest.raises(StateError):
        Header.from_list(damaged)
