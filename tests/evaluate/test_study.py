"""Jobs and their records: keys, resuming, half-written lines, processes."""

import json
from dataclasses import replace

import numpy as np
import pytest

from pronk.evaluate import study
from pronk.evaluate.comparison_run import one_run
from pronk.evaluate.study import Job, Store, perform, run

JOB = Job("row", "set", one_run, 3, {"alpha": 0.5}, {"file": "a.csv"})


def jobs(count):
    return [replace(JOB, seed=seed) for seed in range(count)]


@pytest.fixture
def performed(monkeypatch):
    """Jobs give their seed; a list of those that ran."""
    ran = []

    def fake(job):
        ran.append(job.seed)
        return {"seed": job.seed}

    monkeypatch.setattr(study, "perform", fake)
    return ran


def test_a_key_is_the_work_not_its_place():
    assert replace(JOB, label="x", group="y").key == JOB.key
    changes = [{"seed": 4}, {"settings": {"alpha": 1}}, {"view": {"file": "b.csv"}}, {"work": run}]
    assert JOB.name == "comparison_run:one_run"
    assert len({replace(JOB, **change).key for change in changes} | {JOB.key}) == 5


def test_records_come_back_with_everything_about_them(tmp_path):
    path = tmp_path / "new" / "records.jsonl"
    kept = Store(path).add(JOB, {"loss": np.float64(0.5), "bad": np.nan, "curve": np.arange(2)})
    assert kept["result"] == {"loss": 0.5, "bad": None, "curve": [0, 1]}
    again = Store(path).get(JOB)
    assert again == kept
    assert again["settings"] == JOB.settings and again["seed"] == 3
    assert {"pronk", "numpy", "python", "machine"} <= set(again["made"])


def test_half_a_line_is_ignored_and_the_next_is_read(tmp_path):
    path = tmp_path / "records.jsonl"
    first, second = jobs(2)
    Store(path).add(first, {"x": 1})
    whole = path.read_bytes()
    path.write_bytes(whole + whole[:40])
    store = Store(path)
    assert store.get(first)["result"] == {"x": 1}
    store.add(second, {"x": 2})
    again = Store(path)
    assert [again.get(job)["result"]["x"] for job in (first, second)] == [1, 2]
    path.write_bytes(path.read_bytes() + b"\xff\xfe[1]\n")
    assert Store(path).get(second) is not None
    assert (store.damaged, Store(path).damaged) == (1, 2)


def test_two_stores_on_one_file_lose_nothing(tmp_path):
    path = tmp_path / "records.jsonl"
    one, two = Store(path), Store(path)
    for i, job in enumerate(jobs(6)):
        (one, two)[i % 2].add(job, {"i": i, "long": "x" * 20_000})
    assert [Store(path).get(job)["result"]["i"] for job in jobs(6)] == [*range(6)]
    assert all(json.loads(line) for line in path.read_text().splitlines())


def test_what_is_done_is_not_done_again(tmp_path, performed):
    store, told = Store(tmp_path / "r.jsonl"), []
    run(jobs(2), store)
    wanted = [*jobs(4), replace(JOB, seed=0, label="again")]
    records = run(wanted, store, done=lambda job, now: told.append((job.seed, now)))
    assert performed == [0, 1, 2, 3]
    assert [record["result"]["seed"] for record in records] == [0, 1, 2, 3, 0]
    assert records[-1]["label"] == "again" and records[0]["label"] == "row"
    assert sorted(told) == [(0, False), (0, False), (1, False), (2, True), (3, True)]


def test_after_a_failure_the_rest_is_run(tmp_path, monkeypatch):
    path, ran, broken = tmp_path / "r.jsonl", [], True

    def fake(job):
        if broken and job.seed == 2:
            raise KeyboardInterrupt
        ran.append(job.seed)
        return {}

    monkeypatch.setattr(study, "perform", fake)
    with pytest.raises(KeyboardInterrupt):
        run(jobs(4), Store(path))
    broken = False
    run(jobs(4), Store(path))
    assert ran == [0, 1, 2, 3]


def test_jobs_of_one_view_follow_each_other(tmp_path, performed):
    mixed = [replace(JOB, seed=i, view={"file": "ab"[i % 2]}) for i in range(4)]
    run(mixed, Store(tmp_path / "r.jsonl"))
    assert performed == [0, 2, 1, 3]


def test_a_job_has_one_thread():
    from threadpoolctl import threadpool_info

    threads = lambda job: {"threads": [pool["num_threads"] for pool in threadpool_info()]}  # noqa: E731
    assert set(perform(replace(JOB, work=threads))["threads"]) <= {1}
