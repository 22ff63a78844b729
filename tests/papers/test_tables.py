"""Jobs, what they compute, and every table on small generated sets."""

import json
import math
import os
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

import pronk
from papers import (
    TITLES,
    datasets,
    dualsvrg_1,
    dualsvrg_2,
    load_experiment,
    pros_n_kons_1,
    pros_n_kons_2,
    work,
)
from papers.__main__ import main
from papers.datasets import DataView, load
from papers.experiment import Job, Options, Store, command, run, run_experiment, view
from papers.page import markdown, parts, summarise


def casp(algorithm="con-kons", seed=3, work=work.online, **settings):
    params = settings.pop("params", {"bandwidth": 0.5, "clip": 1.0})
    held = {"algorithm": algorithm, "params": params, **settings}
    return Job("row", "casp", work, seed, held, view(data="casp"))


# -- what jobs compute -------------------------------------------------------------------------


def test_an_online_job_is_a_plain_pass(sets):
    result = work.online(casp(points=10))
    X, y = load(DataView("casp"))
    rows = work.order(3, len(y))
    learner = pronk.make("con-kons", kernel=pronk.Gaussian(0.5), clip=1.0, random_state=3)
    losses = (learner.predict_then_learn(X[rows], y[rows]) - y[rows]) ** 2
    assert result["loss"] == pytest.approx(losses.mean(), rel=1e-9)
    assert result["size"] == learner.size_ and result["rows"] == len(y)
    assert len(result["curve"]) == 10
    assert result["curve"][4][1] == pytest.approx(losses[:200].mean(), rel=1e-9)


def test_runs_differ_by_permutation_and_rows_can_be_fewer(sets):
    assert work.online(casp(rows=100))["rows"] == 100
    assert work.online(casp(seed=1))["loss"] != work.online(casp(seed=2))["loss"]
    given = work.chosen_rows(casp(order="given"), 7)
    np.testing.assert_array_equal(given, np.arange(7))


def test_a_time_limit_stops_a_learner(sets):
    assert work.online(casp(points=10, block=40, seconds=0.0))["rows"] == 40


def test_the_comparator_is_the_ridge_solution_in_the_final_span(sets):
    result = work.online(casp(hindsight={"batch": 1.0, "free": 1e-6}))
    X, y = load(DataView("casp"))
    rows = work.order(3, len(y))
    learner = pronk.make("con-kons", kernel=pronk.Gaussian(0.5), clip=1.0, random_state=3)
    learner.partial_fit(X[rows], y[rows])
    points, kernel = learner.dictionary_, pronk.Gaussian(0.5)
    K = kernel(X, points)
    c = np.linalg.solve(K.T @ K + kernel(points, points), K.T @ y)
    assert result["batch"] == pytest.approx(np.mean((K @ c - y) ** 2), rel=1e-6)
    assert result["free"] < result["batch"] < result["loss"]


def test_the_hinge_comparator_separates_what_can_be_separated(sets):
    job = Job(
        "row", "cod-rna", work.online, 0,
        {"algorithm": "con-kons", "params": {"bandwidth": 0.5, "gamma": 0.01, "alpha": 0.01},
         "hindsight": {"batch": 0.01}},
        view(data="cod-rna"),
    )  # fmt: skip
    result = work.online(job)
    assert result["batch"] < 0.02 and result["batch"] < result["loss"]


def test_a_batch_job_tests_on_the_other_part(sets):
    seen = view(data="cod-rna")
    settings = {"algorithm": "fogd", "params": {"precision": 2.0, "eta": 2.0}}
    result = work.batch(Job("row", "cod-rna", work.batch, 0, settings, seen))
    assert result["rows"] == 250 and result["loss"] < 0.2
    more = work.batch(Job("row", "cod-rna", work.batch, 0, {**settings, "passes": 5}, seen))
    assert more["loss"] <= result["loss"] + 0.05
    for peer in ("svc", "llsvm"):
        settings = {"peer": peer, "params": {"precision": 2.0, "C": 100.0, "budget": 50}}
        exact = work.batch(Job("row", "cod-rna", work.batch, 0, settings, seen))
        assert exact["loss"] < 0.1 and exact["size"] > 0


def test_a_random_split_where_there_are_no_parts(sets):
    settings = {"algorithm": "fogd", "params": {"precision": 2.0, "eta": 2.0}}
    seen = view(data="covtype", positive=2.0)
    result = work.batch(Job("row", "covtype", work.batch, 0, settings, seen))
    assert result["rows"] == 360


def test_the_search_finds_the_better_parameters(sets):
    grid = [{"precision": 256.0, "eta": 1e-4}, {"precision": 2.0, "eta": 2.0}]
    settings = {"algorithm": "fogd", "params": {"n_features": 50}, "rows": 400, "grid": grid}
    job = Job("row", "cod-rna", work.select, 0, settings, view(data="cod-rna"))
    result = work.select(job)
    assert result["params"] == grid[1] and len(result["scores"]) == 2


def test_a_choice_in_hindsight_has_the_least_error_of_a_whole_pass(sets):
    grid = [{"eta": 0.05, "precision": 0.01}, {"eta": 1.0, "precision": 1.0}]
    settings = {"algorithm": "fogd", "params": {"n_features": 20}, "grid": grid, "online": True}
    result = work.select(Job("row", "cod-rna", work.select, 4, settings, view(data="cod-rna")))
    for params, score in zip(grid, result["scores"], strict=True):
        one = {"algorithm": "fogd", "params": {"n_features": 20, **params}}
        job = Job("row", "cod-rna", work.online, 4, one, view(data="cod-rna"))
        assert work.online(job)["loss"] == score
    assert result["params"] == grid[int(np.argmin(result["scores"]))]


def test_precision_and_bandwidth():
    r2 = 3.0
    k = pronk.Gaussian(work.bandwidth(0.7))(np.zeros((1, 1)), np.full((1, 1), math.sqrt(r2)))
    assert k[0, 0] == pytest.approx(math.exp(-0.7 * r2))


# -- keeping and resuming ----------------------------------------------------------------------


def test_finished_jobs_are_not_run_again(sets, tmp_path):
    path = tmp_path / "out" / "records.jsonl"
    jobs = [casp(seed=seed) for seed in range(3)]
    told = []
    first = run(jobs, Store(path), done=lambda job, now: told.append(now))
    assert told == [True] * 3
    with path.open("a") as file:
        file.write('{"key": "half a li')  # what an interrupt may leave
    told.clear()
    extended = [*jobs, casp(seed=3)]
    again = run(extended, Store(path), done=lambda job, now: told.append(now))
    assert again[:3] == first and told == [False] * 3 + [True]
    assert run(extended, Store(path)) == again
    assert casp(seed=0).key != casp(seed=0, rows=100).key
    record = json.loads(path.read_text().splitlines()[0])
    assert record["settings"]["algorithm"] == "con-kons" and record["made"]["pronk"]


@pytest.mark.slow
def test_two_processes_give_what_one_gives(tmp_path):
    chosen, options = load_experiment("pkawv-3"), Options(quick=True, runs=1)
    one = run_experiment(chosen, options, Store(tmp_path / "1.jsonl"), 1)
    two = run_experiment(chosen, options, Store(tmp_path / "2.jsonl"), 2)
    assert [r["result"] for r in one] == [r["result"] for r in two]


# -- tables ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name, chosen",
    [
        ("pros-n-kons-1", ("casp",)),
        ("pros-n-kons-2", ("cod-rna",)),
        ("dualsvrg-1", ("cod-rna",)),
        ("dualsvrg-2", ("cod-rna", "flights2001_3m")),
        ("pkawv-2", ("susy_30k",)),
        ("pkawv-3", ()),
        ("pkawv-4", ("casp",)),
        ("kons-theory", ("casp",)),
        ("successors", ("casp", "cod-rna")),
    ],
)
def test_every_table(sets, tmp_path, name, chosen):
    options = Options(quick=True, runs=1, data=chosen)
    records = run_experiment(load_experiment(name), options, Store(tmp_path / "records.jsonl"))
    page = load_experiment(name).page(options, records)
    text = markdown(parts(page, command(load_experiment(name), options), records))
    assert text.startswith(f"# {page.title}\n") and f"`python -m papers {name} --quick" in text
    assert page.notes and "nan" not in text.lower().replace("nanogram", "")
    for section in page.sections:
        assert section.rows and all(len(row) == len(section.header) for row in section.rows)
    for figure in page.figures:
        for ending, start in (("svg", b"<?xml"), ("png", b"\x89PNG")):
            figure.draw(tmp_path / f"{figure.name}.{ending}")
            assert (tmp_path / f"{figure.name}.{ending}").read_bytes().startswith(start)


def test_all_experiments_name_known_data():
    for name in TITLES:
        chosen = load_experiment(name)
        assert chosen.name == name
        for dataset in chosen.data:
            datasets.find(dataset)


def test_printed_figures_are_shown_beside_ours(sets, tmp_path):
    options = Options(quick=True, runs=2, data=("casp",))
    records = run_experiment(load_experiment("pros-n-kons-1"), options, Store(tmp_path / "r.jsonl"))
    text = markdown(parts(load_experiment("pros-n-kons-1").page(options, records), "", records))
    for value, spread, *_ in pros_n_kons_1.PRINTED["casp"].values():
        assert f"{value:.5f} ± {spread:.5f}" in text
    found = [r for r in records if r["label"].startswith("CON-KONS|exp(-r²/128)")]
    ours = summarise(found)
    assert ours is not None and ours.runs == 2 and f"{ours.loss:.5f} ± {ours.spread:.5f}" in text


@pytest.mark.parametrize("name", TITLES)
def test_a_stored_page_has_the_notes_of_its_module(name):
    path = Path(__file__).parents[2] / "docs" / "results" / f"{name}.json"
    page = markdown(json.loads(path.read_text("utf-8")))
    module = import_module(load_experiment(name).page.__module__)
    assert page.endswith("\n".join(["", *(f"- {note}" for note in module.NOTES), ""]))
    assert f"`python -m papers {name}" in page


def test_printed_tables_have_the_shape_of_the_papers():
    for table in (pros_n_kons_1.PRINTED, dualsvrg_1.PRINTED, dualsvrg_2.PRINTED):
        for rows in table.values():
            assert all(len(cell) == 4 and cell[0] is not None for cell in rows.values())
    assert pros_n_kons_1.PRINTED["casp"]["PROS-N-KONS"] == (0.06773, 0.00105, 21, 40.73)
    assert pros_n_kons_2.PRINTED["ijcnn1"][0.01]["B-KONS"][0] == 4.85
    assert dualsvrg_2.PRINTED["covtype"]["DualSVRG-H-AM"][0] == 22.92
    assert dualsvrg_1.PRINTED["w8a"]["LIBSVM"][0] == 0.94


# -- the command -------------------------------------------------------------------------------


def call(*arguments):
    with pytest.raises(SystemExit) as end:
        main([*map(str, arguments)])
    return end.value.code


def test_the_command_writes_page_and_records(sets, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "docs").mkdir()
    arguments = ("pros-n-kons-1", "--quick", "--runs", 1, "--workers", 1, "--data", "casp")
    assert call(*arguments, "--output", "o", "--write-docs") == 0
    said = capsys.readouterr()
    assert "CON-KONS" in said.out and "0.06832" in said.out and "written: " in said.err
    page = (tmp_path / "o" / "pros-n-kons-1.md").read_text()
    stored = (tmp_path / "docs" / "results" / "pros-n-kons-1.json").read_text()
    assert page == markdown(json.loads(stored)) and len(stored.splitlines()) > 10
    assert "`python -m papers pros-n-kons-1 --quick --runs 1 --data casp`" in page
    lines = len((tmp_path / "o" / "pros-n-kons-1.jsonl").read_text().splitlines())
    assert call(*arguments, "--output", "o") == 0
    assert len((tmp_path / "o" / "pros-n-kons-1.jsonl").read_text().splitlines()) == lines
    capsys.readouterr()
    assert call(*arguments, "--output", "o", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert told["name"] == "pros-n-kons-1" and told["pages"] == ["o/pros-n-kons-1.md"]
    table, *_ = told["tables"]
    assert all(len(row) == len(table["header"]) for row in table["rows"])
    assert any("CON-KONS" in row for row in table["rows"])


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["pros-n-kons-3"], "No such command 'pros-n-kons-3'"),
        (["pros-n-kons-1", "--data", "w8a"], "has no data set 'w8a'"),
        (["pkawv-3", "--runs", "0"], "--runs"),
        (["pros-n-kons-1", "--write-docs"], "no directory docs"),
        (["pros-n-kons-1", "--output", "file/x"], "file"),
    ],
)
def test_mistakes_are_one_line(sets, tmp_path, capsys, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("")
    assert call(*arguments) in (1, 2)
    err = capsys.readouterr().err
    assert err.count("\n") == 1 and message in err


def test_a_missing_set_is_one_line(sets, tmp_path, capsys, monkeypatch):
    (sets / "casp.parquet").unlink()
    monkeypatch.chdir(tmp_path)
    assert call("pros-n-kons-1", "--quick") == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1 and "python -m papers data fetch casp" in err


def test_without_a_name_the_tables_are_listed(capsys):
    call()
    out = capsys.readouterr().out
    assert all(name in out for name in TITLES) and "greedy" in out and "data" in out


@pytest.mark.data
@pytest.mark.skipif("PRONK_DATA" not in os.environ, reason="PRONK_DATA is not set")
def test_parkinson_as_the_definition_gives_it(tmp_path):
    if datasets.locate(datasets.find("parkinson")) is None:
        pytest.skip("not here")
    options = Options(runs=2, data=("parkinson",))
    records = run_experiment(load_experiment("pros-n-kons-1"), options, Store(tmp_path / "r.jsonl"))
    found = {r["label"]: r["result"] for r in records}
    ours = found["CON-KONS|exp(-r²/128)"]
    assert 33 <= ours["size"] <= 49 and ours["loss"] == pytest.approx(0.0418, abs=0.001)
    assert found["PROS-N-KONS|exp(-r²/128)"] | {"seconds": 0} == (
        found["B-KONS|exp(-r²/128)"] | {"seconds": 0}
    )


def test_dictionary_sizes_in_the_definition_are_those_of_the_learner(sets):
    X, y = load(DataView("casp"))
    for seed in range(3):
        rows = work.order(seed, len(y))
        learner = pronk.make(
            "con-kons", kernel=pronk.Gaussian(0.5), clip=1.0, random_state=seed
        ).partial_fit(X[rows], y[rows])
        job = Job("size", "casp", work.dictionary_size, seed,
                  {"bandwidth": 0.5, "power": 0.5}, view(data="casp"))  # fmt: skip
        assert work.dictionary_size(job)["size"] == learner.size_


def test_kors_of_public_code_two_ways(sets):
    params = {"bandwidth": 0.5, "clip": 1.0, "gamma": 1.0, "beta": 1.0, "epsilon": 0.5}
    sizes = []
    for seed in range(3):
        learned = work.online_public_kors(casp("con-kons", seed, params=params))
        settings = {"bandwidth": 0.5, "power": 1.0}
        job = Job("size", "casp", work.dictionary_size, seed, settings, view(data="casp"))
        assert learned["size"] == work.dictionary_size(job)["size"]
        sizes.append((learned["size"], work.online(casp("con-kons", seed, params=params))["size"]))
    assert all(public < defined for public, defined in sizes)
