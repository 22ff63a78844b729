"""Late labels in an evaluation: who holds rows back, what baselines know, what the notes say."""

import numpy as np
import pytest

import pronk
from pronk.evaluate import progressive
from pronk.evaluate.evaluation import Evaluation, chunk_rows


def stream(n=400, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, 2))
    level = np.zeros(n)
    for t in range(1, n):
        level[t] = 0.97 * level[t - 1] + 0.3 * rng.normal()
    return X, np.sin(3 * X[:, 0]) + level


def test_the_default_learner_gets_the_delay_and_whole_blocks():
    X, y = stream()
    model = pronk.OnlineKernelRegressor(random_state=0)
    (record,) = progressive(model, (X, y), delay=20, predictions=True, interval=0.9)
    assert model.delay == 20
    twin = pronk.OnlineKernelRegressor(random_state=0, delay=20)
    expected, ends = twin.predict_then_learn(X, y, interval=0.9)
    np.testing.assert_allclose(record.predictions, expected, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(record.forecast.intervals, ends, rtol=1e-9, atol=1e-9)
    prepared = pronk.Prepared(pronk.OnlineKernelRegressor(random_state=0))
    list(progressive(prepared, (X, y), delay=20))
    assert prepared.learner_.delay == 20


def test_a_model_that_has_learned_keeps_its_delay():
    X, y = stream()
    late = pronk.OnlineKernelRegressor(random_state=0, delay=3).fit(X[:50], y[:50])
    assert Evaluation(late).delay == 3
    with pytest.raises(ValueError, match="delay=5, but the model has delay=3"):
        Evaluation(late, delay=5)
    plain = pronk.OnlineKernelRegressor(random_state=0).fit(X[:50], y[:50])
    (record,) = progressive(plain, (X[50:90], y[50:90]), delay=5)  # rows are held back
    assert plain.delay == 0
    assert (record.rows, plain.n_seen_) == (40, 90)


@pytest.mark.parametrize(("delay", "chunk"), [(1, 1), (15, 1), (16, 2), (72, 8), (9999, 64)])
def test_chunks_have_at_most_an_eighth_of_the_delay(delay, chunk):
    assert chunk_rows(delay) == chunk


@pytest.mark.parametrize("blocks", [400, 37])
def test_rows_of_a_chunk_are_predicted_before_the_rows_that_arrived(blocks):
    X, y = stream()
    delay, chunk = 40, 4
    model, expected = pronk.PKAWVRegressor(random_state=0, budget=10), []
    for start in range(0, 400, chunk):
        rows = slice(start, start + chunk)
        known = slice(max(0, start - chunk - delay), max(0, start - delay))
        if known.stop:
            model.partial_fit(X[known], y[known])
        expected.append(model.predict(X[rows]) if known.stop else np.zeros(chunk))
    evaluation = Evaluation(
        pronk.PKAWVRegressor(random_state=0, budget=10), delay=delay, predictions=True
    )
    got = []
    for start in range(0, 400, blocks):
        evaluation.feed(X[start : start + blocks], y[start : start + blocks])
        got.append(evaluation.record().predictions)
    got.append(evaluation.finish().predictions)
    got = np.concatenate([part for part in got if part is not None])
    np.testing.assert_allclose(got, np.concatenate(expected), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("delay", [0, 1, 30, 1000])
@pytest.mark.parametrize("labels", [False, True])
def test_baselines_know_the_labels_that_the_learner_knows(delay, labels):
    X, y = stream(200)
    y = np.where(y > 0.2, "up", "down") if labels else y
    task = "classification" if labels else "regression"
    evaluation = Evaluation(pronk.make("fogd", task, random_state=0, n_features=5), delay=delay)
    for start in (0, 70, 71, 130):
        stop = {0: 70, 70: 71, 71: 130, 130: 200}[start]
        evaluation.feed(X[start:stop], y[start:stop])
    evaluation.finish()
    mean, last = evaluation.trace.baselines.values()
    blind = evaluation.unpredicted  # rows are predicted in chunks, by up to an eighth later
    assert min(200, delay + 1) <= blind <= min(200, max(delay + 1, 9 * delay / 8))
    losses = np.full((2, 200), np.nan)
    for t in range(blind, 200):
        known = y[: t - delay].tolist()
        if labels:
            counts = {label: known.count(label) for label in dict.fromkeys(known)}
            losses[:, t] = max(counts, key=counts.get) != y[t], known[-1] != y[t]
        else:
            losses[:, t] = (np.array([np.mean(known), known[-1]]) - y[t]) ** 2
    losses = losses[:, blind:]
    if not losses.size:
        assert np.isnan([*mean.values(), *last.values()]).all()
        return
    name = "error" if labels else "mse"
    if not labels:  # of equally frequent labels another may have come first
        assert mean[name] == pytest.approx(losses[0].mean())
    assert last[name] == pytest.approx(losses[1].mean())


def test_a_note_says_when_past_labels_carry_the_score():
    X, y = stream(600)
    sticky, late = (Evaluation(pronk.OnlineKernelRegressor(random_state=0)) for _ in range(2))
    sticky.feed(X, y)
    assert sticky.carried_by_past_labels.startswith("past labels carry the score: the last value")
    late.feed(X, np.sin(3 * X[:, 0]))
    assert late.carried_by_past_labels == ""
