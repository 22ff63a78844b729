"""The report of one run, and the same figures from Python."""

import json
import re

import altair
import numpy as np
import pyarrow as pa
import pyarrow.csv as arrow_csv
import pytest

import pronk
from pronk.cli import main
from pronk.evaluate import Evaluation
from pronk.evaluate.metrics import ALL
from pronk.evaluate.pictures import pictures
from pronk.report.run_page import chart


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
    own, guess = found["so-far"].curves
    assert own.y[-1] == pytest.approx(evaluation.metrics["mse"], rel=1e-9)
    assert guess.y[-1] == pytest.approx(evaluation.trace.baseline_scores.values()["mse"], rel=1e-9)
    means, rows = found["loss"].curves[0].y, np.diff([0, *found["loss"].curves[0].x])
    assert (means * rows).sum() / 600 == pytest.approx(evaluation.metrics["mse"], rel=1e-9)
    assert found["loss"].alarms == [alarm.row for alarm in evaluation.trace.alarms]


def test_a_figure_in_a_notebook():
    params = {"loss": "logistic"}
    evaluation = evaluated("classification", probabilities=True, params=params)
    figure = evaluation.plot()
    titles = [axes.get_title(loc="left") for axes in figure.axes]
    assert "Labels and predictions" in titles and "Calibration of the probabilities" in titles
    html = evaluation._repr_html_()
    assert "most frequent label" in html and "last label" in html and "600 rows" in html
    with pytest.raises(ValueError, match="nothing to plot"):
        Evaluation(pronk.make("fogd")).plot()


def test_every_picture_is_valid_vega_lite():
    for task in ("regression", "classification"):
        for picture in pictures(evaluated(task).trace):
            spec = chart(picture)
            altair.Chart.from_dict(spec)  # checks it against the schema
            assert json.loads(json.dumps(spec, allow_nan=False)) == spec


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
    assert "<i>up" not in text and text.count("<script") == 3
    assert "y&lt;script&gt;" in text and "macro F1" in text
    assert not re.search(r'(src|href)="http', text)
    ids = set(re.findall(r'id="chart-([\w-]+)"', text))
    data = re.search(r'id="data">(.*?)</script>', text, re.S)[1]
    assert ids == set(json.loads(data)["charts"]) and "confusion" in ids
