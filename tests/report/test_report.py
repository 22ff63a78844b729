"""Reports: one file without network requests, complete, and safe for any names."""

import re
import xml.etree.ElementTree
from html.parser import HTMLParser

import numpy as np
import pytest

from pronk.data import Reading
from pronk.evaluate.comparison import ComparedLearner, Comparison, results
from pronk.evaluate.drawing import Style
from pronk.evaluate.formatting import mean_and_deviation, microseconds
from pronk.evaluate.study import Store
from pronk.report import html, write_report
from pronk.report.charts import charts, trade_off

NASTY = "</script><script>alert(1)</script>&\"'<b>"
MARKS = [10, 100, 150, 200, 250, 300]


def made(tmp_path, *, task="regression", runs=2, labels=("one", "two"), shift=0.0, done=None):
    """Results from invented runs."""
    comparison = Comparison(
        Reading("/some/where/data.csv", f"y {NASTY}", task=task),
        digest="0123456789abcdef0123",
        reason="",
        columns=["a", "b"],
        rows=300,
        learners=[ComparedLearner(label, "fogd", {"eta": i}) for i, label in enumerate(labels)],
        runs=runs,
    )
    store = Store(tmp_path / "records.jsonl")
    names = ["error"] if task == "classification" else ["mse", "mae"]
    for i, job in enumerate(comparison.jobs()[:done]):
        loss = (1.0 + 0.1 * i) / np.sqrt(MARKS) - shift
        curve = {
            "rows": MARKS,
            "metrics": dict.fromkeys(names, loss),
            "windowed": dict.fromkeys(names, loss),
            "seconds": np.array(MARKS) * 1e-5,
            "size": [0 if job.label == "two" else mark // 10 for mark in MARKS],
            "memory": [1000 * mark for mark in MARKS],
        }
        if job.label == "one":
            curve |= {"regret": np.log(MARKS) - 3 * shift, "bound": 2 * np.log(MARKS)}
        result = {
            "rows": 300,
            "metrics": dict.fromkeys(names, loss[-1]),
            "recent": dict.fromkeys(names, loss[-1]),
            "seconds": 0.003,
            "microseconds_per_row": 10.0,
            "size": curve["size"][-1],
            "memory": 300_000,
            "params": {"eta": 0.5, "kernel": "gaussian", "kernel__bandwidth": 1.0},
            "curve": curve,
            "notes": [],
        }
        store.add(job, result)
    return results(comparison, store)


class Page(HTMLParser):
    """Tags, attributes and texts of a page."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.links, self.text, self.scripts, self.open = [], [], "", [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.open.append(tag)
        self.links += [value for name, value in attributes if name in ("src", "href", "action")]

    def handle_endtag(self, tag):
        while self.open and self.open.pop() != tag:
            pass

    def handle_data(self, data):
        if self.open and self.open[-1] == "script":
            self.scripts.append(data)
        elif not (self.open and self.open[-1] == "style"):
            self.text += data + "\n"


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    return made(tmp_path_factory.mktemp("results"))


@pytest.fixture(scope="module")
def page(found):
    return Page(html(found))


def test_the_page_makes_no_network_request(page):
    assert page.links == []
    assert not {"link", "img", "iframe", "object", "base"} & set(page.tags)


def test_the_page_forbids_network_requests(found):
    assert "Content-Security-Policy\" content=\"default-src 'none';" in html(found)


def test_the_table_needs_no_script(page):
    for text in ("one", "two", "running mean", "last value", "mean squared error", "µs per row"):
        assert text in page.text
    assert "0.06928" in page.text  # (1 + 1.4) / 2 / sqrt(300)
    assert page.tags.count("table") == 2 and page.tags.count("dl") == 2
    assert "300 kB" in page.text and "30" in page.text


def test_settings_and_versions_are_shown(page, found):
    for text in ("data.csv", "0123456789abcdef", "minmax", "0 to 1", "eta=0.5", "pronk 0."):
        assert text in page.text
    assert "/some/where" not in page.text
    assert "pronk compare data.csv" in Page(html(found, "pronk compare data.csv")).text


def test_settings_show_how_rows_were_prepared(found):
    from dataclasses import replace

    from pronk.report.comparison_page import settings

    chosen = replace(
        found.comparison, unlabelled=7,
        learners=[ComparedLearner("online-kernel", "online-kernel", {}, "none")],
    )  # fmt: skip
    settings = " ".join(settings(replace(found, comparison=chosen)).values())
    for text in ("7 without a label", "minmax; none for online-kernel"):
        assert text in settings


def test_names_cannot_break_the_page(page):
    assert page.tags.count("script") == 1
    assert not any(script.strip() == "alert(1)" for script in page.scripts)
    assert f"y {NASTY}" in page.text
    assert "b" not in page.tags


def test_a_label_cannot_break_the_pictures(tmp_path):
    text = html(made(tmp_path, labels=(NASTY,)))
    page = Page(text)
    assert page.tags.count("script") == 1 and "b" not in page.tags
    names = {node.get("data-name") for svg in pictures(text).values() for node in svg.iter()}
    assert NASTY in names


def pictures(text):
    """Return the pictures of a page as XML, by name."""
    found = re.findall(r'id="chart-([\w-]+)">.*?(<div class="plot">.*?</div>)', text, re.S)
    assert len(found) == text.count('id="chart-')
    return {name: xml.etree.ElementTree.fromstring(one) for name, one in found}


def test_every_chart_has_its_place_and_is_valid(found):
    drawn = pictures(html(found))
    names = {"loss", "windowed-loss", "time", "size", "memory", "regret", "trade-off"}
    assert set(drawn) == names
    for name, svg in drawn.items():
        paths = [one.get("d") for one in svg.iter("path")]
        assert paths and all(one.startswith("M") and "nan" not in one for one in paths)
        assert sum(one.tag == "text" for one in svg.iter()) >= 5, name


def test_curves_are_means_over_the_runs(found):
    loss = charts(found)[0]
    one = next(curve for curve in loss.curves if curve.name == "one")
    values = [record["result"]["curve"]["metrics"]["mse"] for record in found.summaries[0].records]
    np.testing.assert_allclose(one.y, np.mean(values, axis=0), rtol=1e-7, atol=0)
    low, high = one.band
    np.testing.assert_allclose((high - low) / 2, np.std(values, axis=0, ddof=1), rtol=1e-7, atol=0)
    np.testing.assert_allclose((high + low) / 2, one.y, rtol=1e-7, atol=0)
    assert [curve.name for curve in loss.curves] == ["one", "two", "running mean", "last value"]
    assert loss.log_x and loss.log_y
    size = next(chart for chart in charts(found) if chart.name == "size")
    assert [curve.name for curve in size.curves] == ["one"]
    time = next(chart for chart in charts(found) if chart.name == "time")
    np.testing.assert_allclose(time.curves[0].y, 10.0, rtol=1e-7, atol=0)


def test_where_nothing_is_certified_there_is_no_regret(tmp_path):
    without = made(tmp_path, labels=("two",))
    assert "regret" not in {chart.name for chart in charts(without)}
    assert "<h2>Regret" not in html(without)


def test_what_is_not_positive_is_drawn_on_a_plain_axis(tmp_path):
    shifted = made(tmp_path, shift=2.0)
    drawn = {chart.name: chart for chart in charts(shifted)}
    assert not drawn["loss"].log_y and not drawn["regret"].log_y and drawn["memory"].log_y
    assert not trade_off(shifted).log_y and trade_off(shifted).log_x


def test_a_diverged_learner_does_not_hide_the_others(tmp_path):
    straight = made(tmp_path, labels=("one", "two", "three"))
    (tmp_path / "wild").mkdir()
    store = Store(tmp_path / "wild" / "records.jsonl")
    wild = [1.0, 1e3, 1e100, 1e200, 1e250, 1e300]
    for i, job in enumerate(straight.comparison.jobs()):
        record = Store(tmp_path / "records.jsonl").get(job)["result"]
        if job.label == "three":
            values = [(1 + i) * value for value in wild]
            record["curve"]["metrics"]["mse"] = record["curve"]["windowed"]["mse"] = values
            record["metrics"]["mse"] = values[-1]
        store.add(job, record)
    found = results(straight.comparison, store)
    loss = next(chart for chart in charts(found) if chart.name == "loss")
    assert loss.caption.endswith("are not drawn.") and np.nanmax(loss.curves[2].y) < 100
    assert "not drawn." not in next(c for c in charts(straight) if c.name == "loss").caption
    assert [curve.name for curve in trade_off(found).curves] == ["one", "two"]
    assert "e+300" in Page(html(found)).text


def test_classification_one_run(tmp_path):
    page = Page(text := html(made(tmp_path, task="classification", runs=1)))
    assert "error rate" in page.text and "most frequent label" in page.text
    assert "±" not in page.text
    assert 'class="band"' not in text and 'class="line"' in text


def test_missing_runs_are_listed(tmp_path):
    assert "3 runs not finished" in Page(html(made(tmp_path, done=3))).text


def test_many_learners_can_be_distinguished(tmp_path):
    labels = [f"learner {i}" for i in range(27)]
    assert len({Style.of(i) for i in range(27)}) == 27
    many = made(tmp_path, labels=labels, runs=1)
    page = Page(html(many))
    assert page.tags.count("input") == 29 and page.tags.count("details") == 1
    assert len({curve.style for curve in charts(many)[0].curves}) == 29


def test_a_report_is_replaced_whole(tmp_path, found, monkeypatch):
    path = tmp_path / "report.html"
    path.write_text("before")
    write_report(found, path)
    assert path.read_text(encoding="utf-8") == html(found)
    path.write_text("before")
    monkeypatch.setattr("os.replace", lambda *_: (_ for _ in ()).throw(OSError("full")))
    with pytest.raises(OSError, match="full"):
        write_report(found, path)
    assert path.read_text() == "before" and [*tmp_path.iterdir()] == [path]


@pytest.mark.parametrize(
    "mean, deviation, text",
    [
        (0.06431, 0.000123, "0.06431 ± 0.00012"),
        (0.06431, None, "0.06431"),
        (0.06431, 0.0, "0.06431 ± 0"),
        (1234.5, 20.0, "1,234 ± 20"),
        (1e-7, 1e-9, "1.00e-07 ± 1e-09"),
        (float("inf"), None, "inf"),
    ],
)
def test_mean_and_deviation(mean, deviation, text):
    assert mean_and_deviation(mean, deviation) == text


def test_microseconds():
    assert microseconds(1.234, 0.5) == "1.23 ± 0.50"
    assert microseconds(1234.5, None) == "1,234"
