"""The report of one run, and the same figures from Python."""

import copy
import json
import re
from xml.etree import ElementTree

import numpy as np
import pyarrow as pa
import pyarrow.csv as arrow_csv
import pytest

import pronk
from pronk.cli import main
from pronk.evaluate import Evaluation
from pronk.evaluate.drawing import Axis, Curve, Picture, svg
from pronk.evaluate.metrics import ALL
from pronk.evaluate.models import Forecast
from pronk.evaluate.pictures import pictures
from pronk.evaluate.trace import RECENT, SAMPLE, Trace

CLOSE = {"rtol": 1e-9, "atol": 1e-12}


def evaluated(task, rows=600, **options):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (rows, 2))
    y = np.sin(3 * X[:, 0]) * np.where(np.arange(rows) < 400, 1, -1)
    if task == "classification":
        y = np.where(y > 0, "<b>up", "down")
    evaluation = Evaluation(
        pronk.make("fogd", task, random_state=0, **options.pop("params", {})),
        ALL[task] if task == "regression" else None,
        window=100,
        **options,
    )
    for i in range(0, rows, 100):
        evaluation.feed(X[i : i + 100], y[i : i + 100])
    return evaluation


def test_figures_show_the_losses():
    evaluation = evaluated("regression")
    found = {picture.name: picture for picture in pictures(evaluation.trace)}
    assert {"loss", "so-far", "residuals", "against"} <= set(found)
    own, guess, last = found["so-far"].curves
    assert [curve.name for curve in (own, guess, last)] == ["learner", "running mean", "last value"]
    assert own.y[-1] == pytest.approx(evaluation.metrics["mse"], rel=1e-9)
    assert guess.y[-1] == pytest.approx(evaluation.trace.baseline_scores.values()["mse"], rel=1e-9)
    assert last.y[-1] == pytest.approx(evaluation.trace.repeat_scores.values()["mse"], rel=1e-9)
    means, rows = found["loss"].curves[0].y, np.diff([0, *found["loss"].curves[0].x])
    assert (means * rows).sum() / 599 == pytest.approx(evaluation.metrics["mse"], rel=1e-9)
    assert found["loss"].alarms == [alarm.row for alarm in evaluation.trace.alarms]


def with_intervals(rows=6000, coverage=0.9, share=0.9):
    """A trace of rows whose intervals contain y with a given probability."""
    rng = np.random.default_rng(0)
    trace = Trace(False, False, coverage)
    y = rng.normal(size=rows)
    low = np.where(rng.uniform(size=rows) < share, y - 1, y + 1)
    for i in range(0, rows, 500):
        part = slice(i, i + 500)
        ends = np.column_stack((low, low + 2))[part]
        trace.add(y[part], Forecast(y[part] + 0.1, intervals=ends, coverage=coverage), 0)
    return trace, y, low


@pytest.mark.parametrize("rows", [200, 6000])
def test_y_and_its_prediction_come_first(rows):
    trace, y, low = with_intervals(rows)
    found = pictures(trace)
    assert [picture.name for picture in found if picture.first] == ["recent"] == [found[0].name]
    prediction, target = found[0].curves
    kept = min(rows, RECENT)
    np.testing.assert_array_equal(target.x, np.arange(rows - kept, rows) + 1)
    np.testing.assert_array_equal(target.y, y[-kept:])
    np.testing.assert_array_equal(prediction.y, y[-kept:] + 0.1)
    np.testing.assert_array_equal(prediction.band[0], low[-kept:])
    whole = [picture for picture in found if picture.name == "stream"]
    assert len(whole) == (rows > RECENT)
    for picture in whole:  # every row at a distance of the stride
        rows_drawn = picture.curves[1].x.astype(int)
        assert len(rows_drawn) <= SAMPLE and set(np.diff(rows_drawn)) == {trace.sample.stride}
        np.testing.assert_array_equal(picture.curves[1].y, y[rows_drawn - 1])


def test_a_trace_goes_on_from_its_state():
    trace = with_intervals()[0]
    other = Trace(False, False, 0.9)
    state = trace.to_state()
    other._load(copy.deepcopy(state))
    np.testing.assert_array_equal(other.recent, trace.recent)
    assert other.coverage == trace.coverage


def test_coverage_is_drawn_over_enough_rows_with_its_noise():
    coverage = {p.name: p for p in pictures(with_intervals()[0])}["coverage"]
    measured, nominal = coverage.curves
    assert np.diff(measured.x, prepend=0).min() >= 400
    low, high = nominal.band
    np.testing.assert_allclose(
        high - 0.9, 1.96 * np.sqrt(0.09 / np.diff(measured.x, prepend=0)), **CLOSE
    )
    assert np.mean((low <= measured.y) & (measured.y <= high)) > 0.8
    low, high = (wrong := pictures(with_intervals(share=0.8)[0]))[4].curves[1].band
    assert wrong[4].name == "coverage" and (wrong[4].curves[0].y < low).all()
    short = {p.name: p for p in pictures(with_intervals(300)[0])}["coverage"]
    assert 2 <= len(short.curves[0].x) <= 3


def test_weights_have_the_share_of_the_challenger():
    class Learner:
        experts_ = ()
        changes_ = ()

    def expert(factor, weight, learner="incumbent"):
        return {"factor": factor, "alpha": 1.0, "weight": weight, "learner": learner}

    trace, learner = with_intervals()[0], Learner()
    for i, share in enumerate([0.0, 0.25, 0.75]):
        learner.experts_ = [expert(1, 0.6 * (1 - share)), expert(2, 0.4 * (1 - share))]
        learner.experts_ += [expert(k, share / 20, "challenger") for k in range(20)]
        trace.observe_model(1000 * (i + 1), learner)
    experts = {p.name: p for p in pictures(trace)}["experts"]
    first, *others = experts.curves
    assert first.name == "challenger, all experts"
    np.testing.assert_allclose(first.y, [0, 0.25, 0.75], **CLOSE)
    assert [c.name for c in others] == ["bandwidth x1, alpha 1", "bandwidth x2, alpha 1"]
    np.testing.assert_allclose(sum(c.y for c in experts.curves), 1, **CLOSE)
    learner.experts_ = [expert(3, 1.0)]  # the challenger has replaced the other learner
    learner.changes_ = [{"end": 500}, {"end": 3500}, {"end": None}]
    trace.observe_model(6000, learner)
    first = {p.name: p for p in pictures(trace)}["experts"].curves[0]
    np.testing.assert_allclose(first.x, [1000, 2000, 3000, 3500, 3500, 6000], **CLOSE)
    np.testing.assert_allclose(first.y, [0, 0.25, 0.75, 0.75, 0, 0], **CLOSE)


def test_a_figure_in_a_notebook():
    params = {"loss": "logistic"}
    evaluation = evaluated("classification", probabilities=True, params=params)
    charts = evaluation.plot()
    below = "600 rows, the first not scored (no label was known)"
    assert below in charts._repr_html_() and below in evaluation._repr_html_()
    assert "<h4>Calibration of the probabilities</h4>" in charts._repr_html_()
    html = evaluation._repr_html_()
    assert "most frequent label" in html and "last label" in html and "600 rows" in html
    with pytest.raises(ValueError, match="nothing to plot"):
        Evaluation(pronk.make("fogd")).plot()


def values(text, name):
    """Return the values (n, 2) of a curve of an SVG, from its coordinates and axes."""
    root = ElementTree.fromstring(text[text.index("<div") :])
    inside = next(one for one in root.iter("svg") if one.get("class") == "inside")
    ends = [[*map(float, inside.get(f"data-{axis}").split(","))] for axis in "xy"]
    group = next(one for one in inside.iter("g") if one.get("data-name") == name)
    found = re.findall(r"([\d.-]+) ([\d.-]+)", [*group.iter("path")][-1].get("d"))
    places = np.array(found, dtype=np.float64) / 1000
    places[:, 1] = 1 - places[:, 1]
    for j, (log, low, high) in enumerate(ends):
        places[:, j] = low + places[:, j] * (high - low)
        places[:, j] = 10 ** places[:, j] if log else places[:, j]
    return places


def test_every_picture_has_all_its_values():
    traces = [*(evaluated(task).trace for task in ("regression", "classification"))]
    for trace in [*traces, with_intervals()[0]]:
        for picture in pictures(trace):
            if picture.counts is not None:
                continue
            text = svg(picture)
            assert "nan" not in text and text.count('class="event"') == len(picture.alarms)
            for curve in picture.curves:
                known = np.isfinite(curve.x) & np.isfinite(curve.y)
                expected = np.column_stack((curve.x, curve.y))[known]
                np.testing.assert_allclose(
                    values(text, curve.name), expected, rtol=1e-3, atol=2e-5 * np.ptp(expected)
                )


def test_gaps_and_values_that_an_axis_cannot_show_are_left_out():
    x, y = np.arange(6.0), np.array([np.nan, 1.0, 10.0, 0.0, 100.0, np.inf])
    picture = Picture("a", "a & b", "", "rows", "<y>", [Curve('"&<', x, y)], log_y=True)
    text = svg(picture)
    assert "&lt;y&gt;" in text and "a &amp; b" in text
    np.testing.assert_allclose(values(text, '"&<'), [[1, 1], [2, 10], [4, 100]], rtol=1e-3, atol=0)
    d = re.search(r'class="line"[^>]* d="([^"]*)"', text)[1]
    assert d.count("M") == 2 and d.endswith("h0")  # a gap, and a point alone
    empty = svg(Picture("a", "a", "", "rows", "y", [Curve("b", x[:0], y[:0])]))
    assert 'd=""' in empty


@pytest.mark.parametrize(
    "ends, log, percent, texts",
    [
        ([0, 10], False, False, ["0", "2", "4", "6", "8", "10"]),
        ([-0.3, 0.25], False, False, ["-0.3", "-0.2", "-0.1", "0", "0.1", "0.2"]),
        ([0, 1], False, True, ["0%", "20%", "40%", "60%", "80%", "100%"]),
        ([0.86, 0.94], False, True, ["86%", "88%", "90%", "92%", "94%"]),
        ([0, 60_000], False, False, ["0", "10k", "20k", "30k", "40k", "50k", "60k"]),
        ([100_000, 100_400], False, False,
         ["100,000", "100,100", "100,200", "100,300", "100,400"]),
        ([1e-8, 5e-8], False, False, ["1e-8", "2e-8", "3e-8", "4e-8", "5e-8"]),
        ([0.01, 100], True, False, ["0.01", "0.1", "1", "10", "100"]),
        ([0.2, 6], True, False, ["0.2", "0.5", "1", "2", "5"]),
        ([1.0, 1.3], True, False, ["1", "1.05", "1.1", "1.15", "1.2", "1.25", "1.3"]),
        ([3, 3], False, False, ["2.7", "2.8", "2.9", "3", "3.1", "3.2", "3.3"]),
    ],
)  # fmt: skip
def test_ticks(ends, log, percent, texts):
    ticks = Axis([np.array(ends)], log, percent).ticks()
    assert [text for _, text in ticks] == texts
    places = [place for place, _ in ticks]
    assert min(places) >= -1e-9 and max(places) <= 1 + 1e-9 and places == sorted(places)


def test_the_page_of_a_run(capsys, tmp_path):
    rng = np.random.default_rng(0)
    a = rng.normal(size=300)
    table = pa.table({"a": a, "y<script>": np.where(a > 0, "<i>up</i>", "down")})
    arrow_csv.write_csv(table, tmp_path / "data.csv")
    page = tmp_path / "page.html"
    arguments = ["run", tmp_path / "data.csv", "-t", "y<script>", "-a", "fogd", "--report", page]
    with pytest.raises(SystemExit) as exit_:
        main([*map(str, arguments), "--json"])
    assert exit_.value.code == 0
    assert json.loads(capsys.readouterr().out)["report"] == str(page)
    text = page.read_text(encoding="utf-8")
    assert "Content-Security-Policy\" content=\"default-src 'none';" in text
    assert "<i>up" not in text and text.count("<script") == 1
    assert "y&lt;script&gt;" in text and "macro F1" in text
    assert not re.search(r'(src|href)="http', text)
    ids = set(re.findall(r'id="chart-([\w-]+)"', text))
    assert {"loss", "so-far"} <= ids and "confusion" not in ids
    assert "&lt;i&gt;up&lt;/i&gt;</th>" in text and 'class="shade"' in text
