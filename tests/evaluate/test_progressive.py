"""Progressive validation against a plain loop: predictions, metrics, records, delay, river."""

from functools import partial

import numpy as np
import pytest
from sklearn.metrics import mean_absolute_error, mean_squared_error

import pronk
from pronk.data import drifting
from pronk.estimators import files
from pronk.evaluate import Evaluation, RunningMajority, RunningMean, held_bytes, progressive
from pronk.evaluate.evaluation import pieces
from pronk.evaluate.metrics import METRICS, get_metrics
from pronk.evaluate.pictures import pictures

N = 1000


@pytest.fixture(scope="module")
def data():
    return next(drifting(N, seed=0))


def learner(task="regression"):
    return pronk.make("pkawv-taylor", task, degree=3)


def blocks(X, y, *cuts):
    return list(zip(np.split(X, cuts), np.split(y, cuts), strict=True))


class Counting:
    """A model that counts its calls and predicts the sum of a row."""

    size_ = 3

    def __init__(self):
        self.calls = []

    def predict_then_learn(self, X, y):
        self.calls.append(len(y))
        return X.sum(axis=1)


def test_equals_a_loop_by_hand(data):
    X, y = data
    cuts = (100, 101, 640)
    (record,) = progressive(learner(), blocks(X, y, *cuts), predictions=True)
    by_hand = learner()
    expected = np.concatenate([by_hand.predict_then_learn(A, b) for A, b in blocks(X, y, *cuts)])
    np.testing.assert_array_equal(record.predictions, expected)
    np.testing.assert_array_equal(record.targets, y)
    assert record.rows == N and record.unpredicted == 1
    scored = y[1:], expected[1:]  # no label was known before the first row
    assert record.metrics["mse"] == pytest.approx(mean_squared_error(*scored), rel=1e-12)
    assert record.metrics["mae"] == pytest.approx(mean_absolute_error(*scored), rel=1e-12)
    assert expected[0] == 0.0 and np.isnan(record.forecast.values[0])
    np.testing.assert_array_equal(record.forecast.values[1:], expected[1:])
    assert record.windowed == record.metrics
    assert record.size == by_hand.size_ == 0
    assert record.memory > 8 * 35**2 and record.seconds > 0


def test_a_pair_of_arrays_is_a_stream(data):
    (one,) = progressive(learner(), data)
    (other,) = progressive(learner(), [data])
    assert one.metrics == other.metrics


@pytest.mark.parametrize("every", [1, 64, 300, 1000, 5000])
@pytest.mark.parametrize("window", [None, 1, 50, 700])
@pytest.mark.thinned
def test_records_are_exact_wherever_the_blocks_are_cut(data, every, window):
    X, y = data
    losses = (X.sum(axis=1) - y) ** 2
    for cuts in [(), (1, 2, 500), range(50, N, 50)]:
        records = list(progressive(Counting(), blocks(X, y, *cuts), "mse", every, window=window))
        ends = [*range(every, N + 1, every)]
        ends += [] if ends and ends[-1] == N else [N]
        assert [record.rows for record in records] == ends
        for record in records:
            past = losses[1 : record.rows]
            recent = past[-(window or every) :]
            assert record.unpredicted == 1 and record.size == 3
            if len(past):
                assert record.metrics["mse"] == pytest.approx(past.mean(), rel=1e-12)
                assert record.windowed["mse"] == pytest.approx(recent.mean(), rel=1e-12)
            else:
                assert np.isnan([record.metrics["mse"], record.windowed["mse"]]).all()


def test_predictions_of_all_records_are_those_of_the_stream(data):
    X, y = data
    records = list(progressive(Counting(), blocks(X, y, 333), every=100, predictions=True))
    np.testing.assert_array_equal(np.concatenate([r.predictions for r in records]), X.sum(axis=1))
    np.testing.assert_array_equal(np.concatenate([r.targets for r in records]), y)
    assert all(len(r.predictions) == 100 for r in records)


def test_the_model_is_called_once_a_block_however_many_records(data):
    """What keeps the harness cheap: calls are counted in blocks, not in rows or records."""
    X, y = data
    model = Counting()
    list(progressive(model, blocks(X, y, 600), every=7, memory=False))
    assert model.calls == [600, 400]


def test_a_function_is_a_metric_of_all_rows_and_of_the_window(data):
    X, y = data

    def loss(y, predictions):
        return np.abs(y - predictions)

    for record in progressive(Counting(), blocks(X, y, 600), [loss, "mae"], every=70, window=90):
        assert record.metrics["loss"] == record.metrics["mae"]
        assert record.windowed["loss"] == record.windowed["mae"]


def test_a_long_block_is_given_in_pieces():
    model = Counting()
    list(progressive(model, next(drifting(9000, block=9000))))
    assert model.calls == [4096, 4096, 808]


def test_records_are_yielded_during_the_stream(data):
    X, y = data
    read = []

    def stream():
        for i in range(0, N, 100):
            read.append(i)
            yield X[i : i + 100], y[i : i + 100]

    records = progressive(Counting(), stream(), every=100)
    assert read == []
    next(records)
    assert read == [0]


def test_to_dict_holds_the_numbers(data):
    (record,) = progressive(Counting(), data, predictions=True)
    assert set(record.to_dict()) == {
        "rows", "unlabelled", "unpredicted", "metrics", "windowed", "seconds",
        "microseconds_per_row", "size", "memory",
    }  # fmt: skip


# -- metrics -------------------------------------------------------------------------------------


def test_labels_are_scored_by_errors(data):
    X, y = data
    labels = np.where(y > 0, "up", "down")
    (record,) = progressive(learner("classification"), (X, labels), predictions=True)
    expected = np.mean(record.predictions[1:] != labels[1:])
    assert record.metrics == {"error": pytest.approx(expected)}
    (record,) = progressive(learner("classification"), (X, labels), ["accuracy", "error"])
    assert record.metrics["accuracy"] == pytest.approx(1 - expected)


def test_several_outputs_are_averaged(data):
    X, y = data
    Y = np.column_stack([y, 2 * y])
    (record,) = progressive(learner(), (X, Y), ["mse", "rmse"], predictions=True)
    assert record.metrics["mse"] == pytest.approx(np.mean((record.predictions - Y)[1:] ** 2))
    assert record.metrics["rmse"] == pytest.approx(record.metrics["mse"] ** 0.5)


def test_wrong_metrics_are_named(data):
    with pytest.raises(ValueError, match=r"'msee' is not known; did you mean 'mse'"):
        progressive(Counting(), data, "msee")
    with pytest.raises(ValueError, match="'mean_squared_error' must return one loss per row"):
        list(progressive(Counting(), data, mean_squared_error))
    assert [metric.name for metric in get_metrics(["mse", METRICS["mae"]])] == ["mse", "mae"]


# -- delay ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("delay", [1, 5, 2000])
def test_delayed_labels_against_a_loop_by_hand(data, delay):
    X, y = data[0][:300], data[1][:300]
    (record,) = progressive(learner(), blocks(X, y, 37, 200), delay=delay, predictions=True)
    model, expected = learner(), []
    for t in range(len(y)):
        known = t - delay  # rows learned before row t is predicted
        expected.append(model.predict(X[t : t + 1])[0] if known > 0 else 0.0)
        if known >= 0:
            model.partial_fit(X[known : known + 1], y[known : known + 1])
    np.testing.assert_allclose(record.predictions, expected, atol=1e-10, rtol=1e-7)
    np.testing.assert_array_equal(record.targets, y)
    assert record.rows == 300 and record.unpredicted == min(300, delay + 1)


def test_no_delay_in_the_delayed_path_is_predict_then_learn(data):
    """Labels one row late: the prediction for t + 1 does not know y_t."""
    X, y = data[0][:50], data[1][:50]
    model = learner()
    list(progressive(model, (X, y), delay=3))
    assert model.n_seen_ == 50  # all labels have come at the end


def test_delayed_labels_of_a_classifier(data):
    X, y = data[0][:60], np.where(data[1][:60] > 0, "up", "down")
    (record,) = progressive(learner("classification"), (X, y), delay=4, predictions=True)
    assert record.predictions[:5].tolist() == [None] * 5
    assert set(record.predictions[5:]) <= {"up", "down"}
    records = list(progressive(learner("classification"), (X, y), delay=4, every=20))
    assert [r.rows for r in records] == [20, 40, 60]


# -- other models --------------------------------------------------------------------------------


def test_river_models_run_in_the_same_harness(data):
    linear_model = pytest.importorskip("river.linear_model")
    X, y = data
    (record,) = progressive(linear_model.LinearRegression(), blocks(X, y, 300), predictions=True)
    model, expected = linear_model.LinearRegression(), []
    for x, target in zip(X.tolist(), y.tolist(), strict=True):
        row = dict(enumerate(x))
        expected.append(model.predict_one(row))
        model.learn_one(row, target)
    np.testing.assert_array_equal(record.predictions, expected)
    assert record.metrics["mse"] == pytest.approx(np.mean((np.array(expected) - y)[1:] ** 2))
    assert record.size is None and record.memory > 0
    delayed = list(progressive(linear_model.LinearRegression(), (X, y), delay=2))
    assert delayed[-1].rows == N


def test_river_classifiers_get_the_names_of_the_columns(data):
    linear_model = pytest.importorskip("river.linear_model")
    X, y = data

    class Stream(list):
        columns = ["a", "b", "c", "d"]

    model = linear_model.LogisticRegression()
    (record,) = progressive(model, Stream([(X, y > 0)]))
    assert set(model.weights) == set(Stream.columns)
    assert list(record.metrics) == ["error"] and record.metrics["error"] < 0.5


def test_other_models_are_refused(data):
    with pytest.raises(TypeError, match="predict_then_learn"):
        list(progressive(object(), data))


def test_baselines(data):
    X, y = data
    means = np.concatenate([[0.0], np.cumsum(y)[:-1] / np.arange(1, N)])
    model = RunningMean()
    given = np.concatenate([model.predict_then_learn(A, b) for A, b in blocks(X, y, 3, 400)])
    np.testing.assert_allclose(given, means, atol=1e-12, rtol=1e-7)
    assert model.predict(X[:2]) == pytest.approx(y.mean())
    labels = (y > 0.5).tolist()
    given = RunningMajority().predict_then_learn(X, labels).tolist()
    assert given[0] is None
    for t in range(1, N):
        counts = [labels[:t].count(label) for label in (False, True)]
        assert counts[given[t]] == max(counts)


# -- wrong use -----------------------------------------------------------------------------------


@pytest.mark.parametrize("wrong", [{"every": 0}, {"window": 0}, {"delay": -1}])
def test_counts_are_checked(data, wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        progressive(Counting(), data, **wrong)


def test_a_stream_without_rows_is_an_error():
    with pytest.raises(ValueError, match="no rows"):
        list(progressive(Counting(), []))


def test_lengths_must_agree(data):
    X, y = data
    with pytest.raises(ValueError, match="one label per row"):
        list(progressive(learner(), (X, y[:-1])))


def test_evaluation_can_be_fed_by_hand(data):
    X, y = data
    evaluation = Evaluation(Counting(), "mse", every=400)
    records = evaluation.feed(X[:500], y[:500]) + evaluation.feed(X[500:], y[500:])
    last = evaluation.finish()
    assert [r.rows for r in [*records, last]] == [400, 800, 1000]
    for by_hand, record in zip(
        [*records, last], progressive(Counting(), data, "mse", 400), strict=True
    ):
        assert by_hand.metrics == pytest.approx(record.metrics, rel=1e-12)


def test_held_bytes_counts_arrays_once_and_no_code():
    shared = np.zeros(10_000)

    class Model:
        def __init__(self):
            self.a, self.b, self.rest = shared, shared[5:], {"list": [shared], "code": np.sum}

    assert 80_000 <= held_bytes(Model()) < 83_000


# -- rows without a label, and going on ------------------------------------------------------------


def gappy(labels):
    """Rows of which some have no label, in blocks of 70."""
    rng = np.random.default_rng(5)
    X = rng.uniform(-1, 1, (300, 2))
    y = X[:, 0] * X[:, 1]
    if labels:
        y = np.where(y > 0, "same", "other").astype(object)
    y[[0, 1, 40, 41, 42, 150, 299]] = None if labels else np.nan
    return [(X[i : i + 70], y[i : i + 70]) for i in range(0, 300, 70)]


@pytest.mark.parametrize("labels", [False, True])
@pytest.mark.parametrize("delay", [0, 3])
def test_rows_without_a_label_are_predicted_only(labels, delay):
    task = "classification" if labels else "regression"
    blocks = gappy(labels)
    evaluation = Evaluation(pronk.make("pkawv-taylor", task), delay=delay, predictions=True)
    kept = []
    for X, y in blocks:
        evaluation.feed(X, y)
        kept.append(evaluation.record())
    kept.append(evaluation.finish())
    targets = np.concatenate([r.targets for r in kept if r is not None and r.targets is not None])
    last = evaluation.record()
    assert (last.rows, last.unlabelled, len(targets)) == (293, 7, 300)
    X, y = (np.concatenate(part) for part in zip(*blocks, strict=True))
    known = np.array([value is not None and value == value for value in y.tolist()])
    twin = Evaluation(pronk.make("pkawv-taylor", task))
    plain = np.array(y[known].tolist())
    twin.feed(X[known], plain)
    if not delay:
        assert last.metrics == pytest.approx(twin.record().metrics, rel=1e-9)
    np.testing.assert_allclose(
        evaluation.model._model.predict(X), twin.model._model.predict(X), atol=1e-9, rtol=1e-7
    )


@pytest.mark.parametrize("delay", [0, 3])
@pytest.mark.parametrize("labels", [False, True])
def test_an_evaluation_resumes_from_its_state(tmp_path, labels, delay):
    task = "classification" if labels else "regression"
    blocks = gappy(labels)

    def evaluation(model):
        return Evaluation(model, every=50, window=60, delay=delay, memory=False)

    whole = evaluation(pronk.make("pkawv-taylor", task))
    records = [record for X, y in blocks for record in whole.feed(X, y)]
    first = evaluation(pronk.make("pkawv-taylor", task))
    given = [record for X, y in blocks[:2] for record in first.feed(X, y)]
    tree = {"model": files.learner_tree(first.model), "evaluation": first.to_state()}
    files.save_checkpoint(tree, tmp_path / "checkpoint")
    tree = files.load_checkpoint(tmp_path / "checkpoint")
    second = evaluation(files.learner_from_tree(tree["model"], "here"))
    second.restore(tree["evaluation"])
    given += [record for X, y in blocks[2:] for record in second.feed(X, y)]
    ends = [whole.finish(), second.finish()]
    for one, other in zip([*records, ends[0]], [*given, ends[1]], strict=True):
        assert (one.rows, one.metrics, one.windowed) == (other.rows, other.metrics, other.windowed)


def test_a_state_is_taken_after_the_predictions_were(data):
    evaluation = Evaluation(Counting(), predictions=True)
    evaluation.feed(*data)
    with pytest.raises(ValueError, match="record"):
        evaluation.to_state()


# -- a bar -------------------------------------------------------------------------------------


def test_a_progress_bar_is_on_stderr_and_changes_nothing(data, capsys, monkeypatch):
    monkeypatch.setattr("pronk.evaluate.formatting.PAUSE", 0.0)
    X, y = data
    plain = list(progressive(learner(), blocks(X, y, 300), every=100, memory=False))
    shown = list(
        progressive(learner(), blocks(X, y, 300), every=100, memory=False, progress="always")
    )
    out, err = capsys.readouterr()
    assert out == "" and "1,000 rows" in err and "100%" in err and "mse 0." in err
    assert [r.metrics for r in shown] == [r.metrics for r in plain]


def test_without_a_terminal_there_is_no_bar(data, capsys):
    list(progressive(learner(), data, progress=True))
    assert capsys.readouterr() == ("", "")


def test_a_progress_bar_reads_the_length_of_the_stream(data, capsys, monkeypatch):
    monkeypatch.setattr("pronk.evaluate.formatting.PAUSE", 0.0)

    class Stream(list):
        def expected_rows(self):
            return 2 * N

    list(progressive(Counting(), iter([data]), progress="always"))
    assert "%" not in capsys.readouterr().err
    list(progressive(Counting(), Stream([data]), progress="always"))
    assert "50%" in capsys.readouterr().err


def test_a_bar_is_put_away_when_the_reader_leaves_or_the_model_fails(data, capsys):
    X, y = data
    for _ in progressive(learner(), blocks(X, y, 300), every=100, progress="always"):
        break
    assert capsys.readouterr().err.endswith("\x1b[2K")  # the line is empty again
    with pytest.raises(ValueError, match="one label per row"):
        list(progressive(learner(), [(X, y[:-1])], progress="always"))


def test_a_record_at_any_moment(data):
    X, y = data
    evaluation = Evaluation(Counting(), "mse")
    assert evaluation.feed(X[:400], y[:400]) == []
    record = evaluation.record()
    assert record.rows == 400 and record.metrics == evaluation.metrics
    evaluation.feed(X[400:], y[400:])
    assert evaluation.record().rows == N
    assert evaluation.finish() is None  # it was just told


def test_early_rows_are_cut_at_places_of_the_stream():
    """However the blocks are cut, the first 4,096 rows give marks; later ones are left whole."""
    X, y = np.zeros((9000, 1)), np.arange(9000.0)

    def ends(lengths):
        done, found = 0, []
        for length in lengths:
            block = slice(done, done + length)
            given = pieces(X[block], y[block], 9000, y[block], done)
            for piece, targets, weights in given:
                assert len(piece) == len(targets) == len(weights)
                done += len(piece)
                found.append(done)
        return found

    own = [*range(256, 4097, 256)]
    assert ends([9000]) == [*own, 9000]
    assert ends([100, 300, 8600]) == [100, 256, 400, *own[1:], 9000]
    assert ends([4096, 4904]) == [*own, 9000]


def test_a_short_stream_has_a_picture_of_its_points():
    evaluation = Evaluation(pronk.OnlineKernelRegressor(random_state=0), short_first=True)
    X = np.random.default_rng(0).uniform(-1, 1, (1200, 2))
    evaluation.feed(X, np.sin(3 * X[:, 0]))
    assert {"points", "experts"} <= {one.name for one in pictures(evaluation.trace)}


def test_times_of_rows_reach_learners_that_fade_by_time():
    rng = np.random.default_rng(0)
    X, y, times = rng.uniform(size=(300, 2)), rng.normal(size=300), np.cumsum(rng.random(300)) * 300
    make = partial(pronk.PKAWVRegressor, pronk.Gaussian(0.5), half_life="1h", random_state=0)
    expected = make().predict_then_learn(X, y, times=times)
    *_, last = progressive(make(), (X, y), times=times, predictions=True)
    np.testing.assert_allclose(last.predictions, expected, rtol=1e-9, atol=1e-12)
    *_, last = progressive(make(), (X, y), times=times.astype("datetime64[s]"), delay=5)
    assert last.rows == 300
    with pytest.raises(ValueError, match="give times="):
        list(progressive(make(), (X, y)))
    with pytest.raises(ValueError, match="times has 299 rows but y has 300"):
        progressive(make(), (X, y), times=times[1:])
    with pytest.raises(ValueError, match="no meaning for FOGDRegressor"):
        progressive(pronk.FOGDRegressor(), (X, y), times=times)
    with pytest.raises(ValueError, match="pair of arrays"):
        progressive(make(), iter([(X, y)]), times=times)
