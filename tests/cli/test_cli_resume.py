"""Resume training on new data: other files, files that grew, labels that arrive late."""

import json
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import pronk
from helpers import pronk_run
from pronk.evaluate import progressive

ROWS = 500


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    a, city = rng.uniform(0, 100, ROWS), rng.choice(["Rome", "Oslo", "Lima"], ROWS)
    hours = pd.Timestamp("2024-03-01") + pd.to_timedelta(np.arange(ROWS), unit="h")
    y = np.sin(a / 20) + (city == "Rome") + hours.hour / 24
    word = np.where(y > np.median(y), "high", "low")
    return pd.DataFrame({"a": a, "city": city, "time": hours, "y": y, "word": word})


def write(frame, path, rows):
    frame[rows].to_csv(path, index=False)
    return path


def run(capsys, file, *arguments, learner="fogd", target="y"):
    other = {"y": "word", "word": "y"}[target]
    chosen = ["-a", learner] if learner else []
    return pronk_run(capsys, "run", file, "-t", target, "--drop", other, *chosen, *arguments)


def good(result):
    code, out, err = result
    assert code == 0, err
    return out, err


@pytest.mark.parametrize("target", ["y", "word"])
def test_a_saved_model_resumes_with_another_file(capsys, tmp_path, frame, target):
    first = write(frame, tmp_path / "one.csv", slice(0, 300))
    second = write(frame[list(reversed(frame.columns))], tmp_path / "two.csv", slice(300, ROWS))
    whole = write(frame, tmp_path / "all.csv", slice(0, ROWS))
    model, other, at_once = (tmp_path / name for name in ("m.pronk", "n.pronk", "o.pronk"))
    choices = ["--categorical", "city", "--json"]
    good(run(capsys, first, "--save", model, *choices, target=target))
    before = model.read_bytes()
    expected = json.loads(good(run(capsys, whole, "--save", at_once, *choices, target=target))[0])
    call = ["run", second, "--model", model, "--json", "--predictions", tmp_path / "p.csv"]
    found = json.loads(good(pronk_run(capsys, *call, "--save", other))[0])
    assert model.read_bytes() == before
    assert found["rows"] == ROWS and found["rows_before"] == 300
    assert found["metrics"] == pytest.approx(expected["metrics"], rel=1e-9)
    assert found["baseline"] == pytest.approx(expected["baseline"], rel=1e-9)
    good(pronk_run(capsys, *call))  # saved again, where it was
    for path in (model, other):
        assert pronk.load(path).n_seen_ == ROWS
    one, two = pronk.load(model), pronk.load(at_once)
    if target == "y":
        np.testing.assert_allclose(one.predict(frame), two.predict(frame), rtol=1e-9, atol=1e-9)
    else:
        assert (one.predict(frame) == two.predict(frame)).all()
    assert len(pd.read_csv(tmp_path / "p.csv")) == 200


def test_the_model_decides_what_cannot_be_chosen(capsys, tmp_path, frame):
    file, model = write(frame, tmp_path / "d.csv", slice(0, 100)), tmp_path / "m.pronk"
    good(run(capsys, file, "--save", model, "--categorical", "city"))
    for option in (["-a", "ogd"], ["--scale", "none"], ["-p", "eta=1"], ["--slots", "3"]):
        code, _, err = pronk_run(capsys, "run", file, "--model", model, *option)
        assert code == 2 and "the model has its own" in err and err.count("\n") == 1
    narrow = tmp_path / "narrow.csv"
    frame.drop(columns="city").to_csv(narrow, index=False)
    text = tmp_path / "text.csv"
    frame.assign(a="x").to_csv(text, index=False)
    for name, words in ((narrow, "no column 'city'"), (text, "'a' is not numeric")):
        code, _, err = pronk_run(capsys, "run", name, "--model", model)
        assert code == 2 and words in err
    frame.assign(a=frame["time"]).to_csv(text, index=False)
    code, _, err = pronk_run(capsys, "run", text, "--model", model)
    assert code == 2 and "is a time, but the model has learned it as a number" in err
    code, _, err = pronk_run(capsys, "run", file, "--model", tmp_path / "none.pronk")
    assert code == 2 and "does not exist" in err


@pytest.mark.parametrize("ending", [".csv", ".ndjson"])
@pytest.mark.parametrize("delay", [0, 7])
def test_a_finished_checkpoint_resumes_when_rows_are_appended(
    capsys, tmp_path, frame, ending, delay
):
    file, predictions = tmp_path / "d.csv", tmp_path / f"p{ending}"
    choices = ["--drop", "city", "--delay", delay, "--json"]
    saved = ["--predictions", predictions, "--save", tmp_path / "m.pronk"]
    call = [*choices, *saved, "--checkpoint", tmp_path / "c"]
    write(frame, file, slice(0, 320))
    good(run(capsys, file, *call))
    once = run(capsys, file, *call)
    assert "the run was finished after 320" in good(once)[1]
    with file.open("a") as out:
        frame[320:].to_csv(out, index=False, header=False)
    out, err = good(run(capsys, file, *call))
    assert "the input has grown: the run resumes after 320" in err
    found = json.loads(out)
    plain = ["--predictions", tmp_path / f"q{ending}", "--save", tmp_path / "n.pronk"]
    expected = json.loads(good(run(capsys, file, *choices, *plain))[0])
    assert found["rows"] == ROWS
    assert found["metrics"] == pytest.approx(expected["metrics"], rel=1e-9)
    read = pd.read_csv if ending == ".csv" else lambda path: pd.read_json(path, lines=True)
    one, two = read(predictions), read(tmp_path / f"q{ending}")
    assert one["row"].tolist() == list(range(ROWS))
    np.testing.assert_allclose(one["prediction"], two["prediction"], rtol=1e-9, atol=1e-9)
    a, b = pronk.load(tmp_path / "m.pronk"), pronk.load(tmp_path / "n.pronk")
    np.testing.assert_allclose(a.predict(frame), b.predict(frame), rtol=1e-9, atol=1e-9)


def test_a_file_added_to_the_directory_is_learned(capsys, tmp_path, frame):
    folder = tmp_path / "in"
    folder.mkdir()
    write(frame, folder / "1.csv", slice(0, 200))
    call = ["--drop", "city", "--checkpoint", tmp_path / "c", "--json"]
    good(run(capsys, folder, *call))
    write(frame, folder / "2.csv", slice(200, ROWS))
    assert json.loads(good(run(capsys, folder, *call))[0])["rows"] == ROWS


def test_a_line_that_was_not_finished_is_refused(capsys, tmp_path):
    file, call = tmp_path / "d.csv", ["-t", "y", "--checkpoint", tmp_path / "c", "-a", "fogd"]
    file.write_text("a,y\n" + "1,2.5\n" * 30 + "1,2.5")
    good(pronk_run(capsys, "run", file, *call))
    with file.open("a") as out:
        out.write("7\n1,2\n")
    code, _, err = pronk_run(capsys, "run", file, *call)
    assert code == 2 and "last line was incomplete" in err
    file.write_text("a,y\n" + "1,2.5\n" * 29 + "1,9.5\n1,2.5\n1,3\n")
    code, _, err = pronk_run(capsys, "run", file, *call)
    assert code == 2 and "changed since" in err


@pytest.mark.parametrize("target", ["y", "word"])
def test_labels_that_come_late_are_learned_late(capsys, tmp_path, frame, target):
    file, predictions = write(frame, tmp_path / "d.csv", slice(0, 300)), tmp_path / "p.csv"
    call = ["--drop", "city", "--drop", "time", "--delay", 9, "--predictions", predictions]
    good(run(capsys, file, *call, "-p", "bandwidth=1", "--json", target=target))
    task = "regression" if target == "y" else "classification"
    learner = pronk.Prepared(pronk.make("fogd", task, random_state=0, bandwidth=1.0))
    X, y = frame[["a"]].to_numpy()[:300], frame[target].to_numpy()[:300]
    expected = []
    for t in range(300):  # from the definition
        known = t - 9
        expected.append(learner.predict(X[t : t + 1])[0] if known > 0 else None)
        if known >= 0:
            learner.partial_fit(X[known : known + 1], [y[known]])
    found = pd.read_csv(predictions)
    assert found["row"].tolist() == list(range(300))
    if target == "word":
        assert found["prediction"].tolist()[10:] == [str(word) for word in expected[10:]]
    else:
        np.testing.assert_allclose(found["prediction"][10:], expected[10:], rtol=1e-9, atol=0)
    *_, last = progressive(
        pronk.Prepared(pronk.make("fogd", task, random_state=0)), (X, y), delay=9
    )
    assert last.rows == 300


def test_predict_takes_the_options_of_reading(capsys, tmp_path, frame):
    file, model = write(frame, tmp_path / "d.csv", slice(0, 100)), tmp_path / "m.pronk"
    good(run(capsys, file, "--save", model, "--categorical", "city", "--missing", "error"))
    renamed = frame.rename(columns={"a": "x"})[:50]
    renamed.to_csv(tmp_path / "r.csv", index=False, sep=";")
    written = ["--output", tmp_path / "p.csv"]
    call = ["predict", model, tmp_path / "r.csv", "--delimiter", ";", *written]
    code, _, err = pronk_run(capsys, *call)
    assert code == 2 and "no column 'a'" in err and not (tmp_path / "p.csv").exists()
    good(pronk_run(capsys, *call, "--columns", "x,city,time"))
    expected = pronk.load(model).predict(frame[:50])
    given = pd.read_csv(tmp_path / "p.csv")["prediction"]
    np.testing.assert_allclose(given, expected, rtol=1e-9, atol=0)
    (tmp_path / "p.csv").unlink()
    frame[:50].assign(a=np.nan).to_csv(tmp_path / "gap.csv", index=False)
    call = ["predict", model, tmp_path / "gap.csv", *written]
    code, _, err = pronk_run(capsys, *call)
    assert code == 2 and "cannot fill it in" in err and not (tmp_path / "p.csv").exists()
    code, _, err = pronk_run(capsys, *call, "--missing", "mean")
    assert code == 2 and "No such option" in err


def test_metrics_resume_with_the_same_options(capsys, tmp_path, frame):
    numbers = frame[["a", "y"]]
    files = [tmp_path / f"{name}.csv" for name in ("one", "two", "all")]
    for file, rows in zip(files, (slice(0, 300), slice(300, ROWS), slice(0, ROWS)), strict=True):
        write(numbers, file, rows)
    one, two, whole = files
    with_interval, without, out = (tmp_path / name for name in ("i.pronk", "n.pronk", "o.pronk"))

    def told(*arguments):
        code, said, err = pronk_run(capsys, "run", *arguments, "--json")
        assert code == 0, err
        return json.loads(said), err

    expected, _ = told(whole, "-t", "y", "--interval", "0.9")
    told(one, "-t", "y", "--interval", "0.9", "--save", with_interval)
    told(one, "-t", "y", "--save", without)

    def same(found):
        assert found["rows"] == ROWS and found["rows_before"] == 300
        for name in ("metrics", "recent", "baseline"):
            assert found[name] == pytest.approx(expected[name], rel=1e-9), name

    going, err = told(two, "--model", with_interval, "--save", out)
    assert "note: the" not in err
    same(going)
    assert going["coverage"] == pytest.approx(expected["coverage"], rel=1e-9)
    _, err = told(two, "--model", without, "--save", out, "--interval", "0.9")
    assert "start over: --interval is not that of the model" in err
    _, err = told(two, "--model", without, "--save", out, "--window", "10")
    assert "start over: --window is not that of the model" in err


def test_the_summary_shows_that_the_task_is_the_model_s(capsys, tmp_path, frame):
    file, model = write(frame[["a", "y"]], tmp_path / "d.csv", slice(0, 100)), tmp_path / "m.pronk"
    out, _ = good(pronk_run(capsys, "run", file, "-t", "y", "-a", "fogd", "--save", model))
    assert "regression (inferred from 100 distinct numbers)" in out
    out, _ = good(pronk_run(capsys, "run", file, "--model", model, "--again"))
    assert "regression (of the model)" in out


def test_the_advice_for_text_can_be_used_as_it_stands(capsys, tmp_path, frame):
    file = write(frame, tmp_path / "d.csv", slice(0, 100))
    drop = ["--strict", "-t", "y", "--drop", "time,word", "-a", "fogd"]
    code, _, err = pronk_run(capsys, "run", file, *drop)
    assert code == 2 and "--categorical city (--categorical auto: all columns of text)" in err
    for named in ("city", "auto"):
        good(pronk_run(capsys, "run", file, *drop, "--categorical", named))
    code, _, err = pronk_run(capsys, "run", file, "--strict", "-t", "y", "--drop", "time")
    assert code == 2 and err.endswith("with --categorical auto\n")


# -- a job that is started twice ------------------------------------------------------------------


@pytest.fixture
def days(tmp_path, frame):
    """Two files, and a model that has learned the first."""
    files = [write(frame[["a", "y"]], tmp_path / f"{i}.csv", slice(250 * i, 250 * i + 250))
             for i in (0, 1)]  # fmt: skip
    return *files, tmp_path / "m.pronk"


def first(capsys, file, model, *arguments):
    return json.loads(good(pronk_run(capsys, "run", file, "-t", "y", "-a", "fogd", "--save", model,
                                     "--json", *arguments))[0])  # fmt: skip


def second(capsys, file, model, *arguments):
    return pronk_run(capsys, "run", file, "--model", model, "--json", *arguments)


def refused_as(result, *words):
    code, out, err = result
    assert code == 2 and err.count("\n") == 1 and not out
    for word in words:
        assert word in err, err


def test_a_file_is_not_learned_twice(capsys, tmp_path, days):
    one, two, model = days
    first(capsys, one, model)
    refused_as(second(capsys, one, model), "has learned '0.csv' already (250 rows)", "--again")
    good(second(capsys, two, model))
    before = model.read_bytes()
    copy = tmp_path / "copy.csv"
    copy.write_bytes(two.read_bytes())
    refused_as(second(capsys, two, model), "'1.csv' already")
    refused_as(second(capsys, copy, model), "'copy.csv' already, as '1.csv'")
    assert model.read_bytes() == before
    other = tmp_path / "twice.pronk"
    told = json.loads(good(second(capsys, two, model, "--again", "--save", other))[0])
    assert told["rows"] == 750 and pronk.load(other).n_seen_ == 750
    held = json.loads(good(pronk_run(capsys, "inspect", other, "--json"))[0])["model"]["learned"]
    assert [(one["rows"], one["files"][0]["name"]) for one in held] == [
        (250, "0.csv"),
        (250, "1.csv"),
    ]
    assert "files" in good(pronk_run(capsys, "inspect", other))[0]


def test_another_file_of_the_same_name_and_size_is_learned(capsys, days):
    one, _, model = days
    first(capsys, one, model)
    text = one.read_text()
    one.write_text(text.replace(text[-4], "7" if text[-4] != "7" else "8"))
    assert json.loads(good(second(capsys, one, model))[0])["rows"] == 500


def test_a_file_that_has_grown_is_recognised(capsys, days):
    one, two, model = days
    first(capsys, one, model)
    size = one.stat().st_size
    with one.open("a") as file:
        file.write("".join(two.read_text().splitlines(keepends=True)[1:]))
    words = "'0.csv' has grown since", f"first {size:,} bytes, 250 rows,", "--again"
    refused_as(second(capsys, one, model), *words)
    assert json.loads(good(second(capsys, one, model, "--again"))[0])["rows"] == 750
    refused_as(second(capsys, one, model), "has learned '0.csv' already (500 rows)")


def test_files_of_a_directory_are_recognised(capsys, tmp_path, days):
    one, two, model = days
    folder = tmp_path / "in"
    folder.mkdir()
    one.rename(folder / "0.csv")
    first(capsys, folder, model)
    two.rename(folder / "1.csv")
    for source in (folder, folder / "*.csv"):
        refused_as(second(capsys, source, model), "1 of the 2 files already: '0.csv'", "others")
    good(second(capsys, folder / "1.csv", model))
    refused_as(second(capsys, folder / "[01].csv", model), "2 of the 2 files")


def test_figures_of_this_file_stand_beside_the_totals(capsys, tmp_path, days):
    one, two, model = days
    before = first(capsys, one, model)
    assert before["this_input"] == {"rows": 250, "metrics": before["metrics"]}
    other = tmp_path / "n.pronk"
    told = json.loads(good(second(capsys, two, model, "--save", other))[0])
    part = told["this_input"]
    assert part["rows"] == 250 and told["rows_before"] == 250 and told["rows"] == 500
    assert before["unpredicted"] == told["unpredicted"] == 1  # of the first file
    mean = (249 * before["metrics"]["mse"] + 250 * part["metrics"]["mse"]) / 499
    assert told["metrics"]["mse"] == pytest.approx(mean, rel=1e-12)
    out, _ = good(pronk_run(capsys, "run", two, "--model", model, "--save", other))
    assert "this input" in out and "500 of 1 columns, 250 of them learned earlier" in out


def test_a_retried_job_with_a_checkpoint_gives_the_same_model(capsys, tmp_path, days):
    one, two, model = days
    first(capsys, one, model)
    call = ["--checkpoint", tmp_path / "c", "--checkpoint-every", 1]
    told = json.loads(good(second(capsys, two, model, *call))[0])
    learned = model.read_bytes()
    again = json.loads(good(second(capsys, two, model, *call))[0])
    assert model.read_bytes() == learned
    assert again["this_input"] == told["this_input"] and again["rows_before"] == 250
    (tmp_path / "c").rename(tmp_path / "d")
    refused_as(second(capsys, two, model, "--checkpoint", tmp_path / "c"), "'1.csv' already")
    taken = ["--save", tmp_path / "n.pronk"]
    refused_as(second(capsys, two, tmp_path / "d", *taken), "'1.csv' already")  # of a checkpoint
    refused_as(second(capsys, one, tmp_path / "d", *taken), "'0.csv' already")


def test_standard_input_leaves_no_record_and_prints_that(capsys, monkeypatch, days):
    one, two, model = days
    first(capsys, one, model)

    with two.open("rb") as rows:
        monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=rows))
        out, err = good(second(capsys, "-", model))
    assert "note: rows of standard input are not recorded in the model" in err
    assert json.loads(out)["this_input"]["rows"] == 250
    good(second(capsys, two, model))  # which nobody can know
    code, _, err = pronk_run(capsys, "run", two, "-t", "y", "--again")
    assert code == 2 and "--again needs --model" in err


@pytest.mark.parametrize("column", ["a", "y"])
def test_text_where_a_model_has_learned_numbers(capsys, tmp_path, frame, column):
    """The advice is what works with a model: its columns and its task cannot be changed."""
    numbers = frame[["a", "y"]][:60]
    numbers.to_csv(tmp_path / "one.csv", index=False)
    model, odd = tmp_path / "m.pronk", tmp_path / "two.csv"
    good(pronk_run(capsys, "run", tmp_path / "one.csv", "-t", "y", "-a", "fogd", "--save", model))
    changed = numbers.astype({column: object})
    changed[column] = "none yet"
    changed.to_csv(odd, index=False)
    code, _, err = pronk_run(capsys, "run", odd, "--model", model)
    assert code == 2 and repr(column) in err
    assert "--drop" not in err and "--task" not in err and "--na WORD" in err
