"""Failures: full disks and queues, slow and idle clients, two servers, damaged files, clocks."""

from __future__ import annotations

import os
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from driving import bits, created, infer, label, learn, opened
from serving import Site
from typer.testing import CliRunner

from helpers import pronk_run
from pronk.cli.app import app
from pronk.estimators.atomic import InUse
from pronk.serve import Client, recovery
from pronk.serve.journal import Batch, JournalError
from pronk.serve.recovery import DAY, drop, expire
from pronk.serve.service import Service
from pronk.serve.spec import HTTPError
from pronk.serve.tokens import Tokens, TokensError
from pronk.serve.worker import Queues, Task


def _raw(site: Site, text: bytes) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", site.port), timeout=10)
    connection.sendall(text)
    return connection


def _head(site: Site, path: str, *lines: str) -> bytes:
    return "\r\n".join(
        [f"POST {path} HTTP/1.1", "Host: x", f"Authorization: Bearer {site.token}", *lines, "", ""]
    ).encode()


def test_a_body_of_a_gigabyte_is_refused_before_it_is_read(site: Site) -> None:
    path = site.create("large")
    with _raw(site, _head(site, f"{path}/learn", "Content-Length: 1000000000")) as connection:
        assert connection.recv(100).startswith(b"HTTP/1.1 413")
    with _raw(site, _head(site, f"{path}/learn", "Transfer-Encoding: chunked")) as connection:
        chunk = b"186A0\r\n" + b" " * 100_000 + b"\r\n"
        try:
            for _ in range(20):
                connection.sendall(chunk)
        except OSError:
            pass  # it stopped to listen
        else:
            assert connection.recv(100).startswith(b"HTTP/1.1 413")
    assert site.call("GET", path).json["rows"] == 0


def test_a_body_that_is_half_sent_ends_in_time_or_with_the_connection(site: Site) -> None:
    path = site.create("half")
    with _raw(site, _head(site, f"{path}/learn", "Content-Length: 50") + b'{"row": [1') as slow:
        with _raw(site, _head(site, f"{path}/learn", "Content-Length: 50") + b'{"row"'):
            pass  # gone
        assert slow.recv(100).startswith(b"HTTP/1.1 408")
    assert site.call("GET", path).json["rows"] == 0


def test_idle_clients_do_not_delay_others(site: Site) -> None:
    silent = [socket.create_connection(("127.0.0.1", site.port)) for _ in range(200)]
    try:
        assert site.call("GET", "/v2/health/ready").status == 200
    finally:
        for connection in silent:
            connection.close()


def test_an_idle_connection_is_closed(site: Site, monkeypatch: Any) -> None:
    monkeypatch.setattr("pronk.serve.http.exchange.LimitedProtocol.silence", 0.1)
    with socket.create_connection(("127.0.0.1", site.port), timeout=10) as connection:
        assert connection.recv(1) == b""


def test_a_head_that_does_not_end_is_closed_on_an_old_connection_too(
    site: Site, monkeypatch: Any
) -> None:
    monkeypatch.setattr("pronk.serve.http.exchange.LimitedProtocol.silence", 0.1)
    for half in (b"GET /v2/hea", b"\r\n", b"GET / HTTP/1.1\r\nX-A: b\r\n"):
        with _raw(site, b"GET /v2/health/live HTTP/1.1\r\nHost: x\r\n\r\n") as connection:
            answer = b""
            while not answer.endswith(b"}"):
                answer += connection.recv(1000)
            connection.sendall(half)
            assert connection.recv(1) == b""


@pytest.mark.parametrize("token", [False, True])
def test_a_refused_request_whose_body_does_not_end_is_closed(
    site: Site, monkeypatch: Any, token: bool
) -> None:
    monkeypatch.setattr("pronk.serve.http.exchange.LimitedProtocol.unread", 0.2)
    head = b"POST /v2/models/none/learn HTTP/1.1\r\nHost: x\r\nContent-Length: 900000\r\n\r\n"
    if token:
        head = _head(site, "/v2/models/none/learn", "Content-Length: 900000")
    with _raw(site, head + b"{") as connection:
        answer = connection.recv(1000)
        assert answer.startswith(b"HTTP/1.1 404" if token else b"HTTP/1.1 401")
        sent = 0
        with suppress(OSError):  # a byte now and then does not keep it open
            while sent < 1000:
                connection.sendall(b" ")
                time.sleep(0.01)
                sent += 1
        assert sent < 1000


def test_a_refused_request_whose_body_ends_keeps_its_connection(site: Site) -> None:
    head = b"POST /v2/models/none/learn HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n"
    with _raw(site, head + b" " * 1000) as connection:
        assert connection.recv(1000).startswith(b"HTTP/1.1 401")
        connection.sendall(b" " * 99_000 + b"GET /v2/health/live HTTP/1.1\r\nHost: x\r\n\r\n")
        assert connection.recv(1000).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("kind", ["one header", "many headers", "address"])
def test_a_head_beyond_64_kilobytes_is_refused_in_one_piece_too(site: Site, kind: str) -> None:
    for size, status in ((50_000, b"200"), (70_000, b"431"), (120_000, b"431")):
        more = {
            "one header": b"X-A: " + b"a" * size + b"\r\n",
            "many headers": b"X-A: bcdefgh\r\n" * (size // 14),
            "address": b"",
        }[kind]
        query = b"?" + b"a" * size if kind == "address" else b""
        head = b"GET /v2/health/live" + query + b" HTTP/1.1\r\nHost: x\r\n" + more + b"\r\n"
        with _raw(site, head) as connection:
            assert connection.recv(1000).startswith(b"HTTP/1.1 " + status)


def test_idle_connections_are_closed_for_new_ones(site: Site, monkeypatch: Any) -> None:
    monkeypatch.setattr("pronk.serve.http.exchange.LimitedProtocol.most_connections", 20)
    idle = [socket.create_connection(("127.0.0.1", site.port), timeout=10) for _ in range(60)]
    try:
        assert site.call("GET", "/v2/health/live").status == 200
        assert idle[0].recv(1) == b""  # the oldest
        assert len(site.server.server_state.connections) <= 21
    finally:
        for connection in idle:
            connection.close()


@pytest.mark.parametrize("line", [b"X-A: b\r\n", b"a"])
def test_a_head_without_end_is_refused_before_it_fills_the_memory(site: Site, line: bytes) -> None:
    with _raw(site, b"GET /v2/health/live HTTP/1.1\r\nHost: x\r\nX-First: ") as connection:
        try:
            for _ in range(100):
                connection.sendall(line * (100_000 // len(line)))
            refused = connection.recv(100).startswith(b"HTTP/1.1 431")
        except ConnectionError:
            refused = True  # it stopped to listen
        assert refused
    assert site.call("GET", "/v2/health/live").status == 200


def test_large_bodies_on_one_connection_are_no_heads(site: Site) -> None:
    path = site.create("wide")
    with _raw(site, b"") as connection:
        for size in (50_000, 70_000, 120_000, 200_000, 300_000, 900_000) * 3:
            body = b'{"row": [1, 2]' + b" " * size + b"}"
            head = _head(site, f"{path}/infer", f"Content-Length: {len(body)}")
            connection.sendall(head + body)  # in one piece: it may be read in one too
            assert connection.recv(10_000).startswith(b"HTTP/1.1 200")


def test_a_model_that_learns_long_holds_up_no_other_call(site: Site) -> None:
    path = site.create("busy")
    online = site.service.model("busy")
    with online.lock:  # as the writer has it for a piece of a block
        waiting = threading.Thread(target=site.call, args=("GET", path))
        waiting.start()
        time.sleep(0.1)
        assert site.call("GET", "/v2/health/live").status == 200
        assert site.call("GET", "/metrics").status == 200
        assert waiting.is_alive()
    waiting.join()


def test_a_full_queue_returns_when_to_retry(tmp_path: Path) -> None:
    service = opened(tmp_path)
    created(service)
    begin, done = threading.Event(), []

    def work(taken: list[Any]) -> None:
        begin.wait()
        done.append([item.id for item in taken])

    queues = Queues(3, 10, work)
    queues.put("m", learn(service, "0", [1.0, 2.0], 3.0))
    while queues.rows:  # until a thread has it
        time.sleep(0.001)
    for i in range(1, 4):
        queues.put("m", learn(service, str(i), [1.0, 2.0], 3.0))
    with pytest.raises(HTTPError) as refused:
        queues.put("m", learn(service, "4", [1.0, 2.0], 3.0))
    assert refused.value.status == 429 and refused.value.headers == {"Retry-After": "1"}
    queues.put("n", learn(service, "5", [1.0, 2.0], 3.0))  # another model has its share
    queues.close()
    with pytest.raises(HTTPError, match="stopping"):
        queues.put("m", learn(service, "6", [1.0, 2.0], 3.0))
    begin.set()
    queues.join()
    assert sorted(done) == [["0"], ["1", "2", "3"], ["5"]] and queues.rows == 0
    service.close()


def test_a_full_disk_learns_nothing_and_later_resumes(tmp_path: Path) -> None:
    service = opened(tmp_path)
    created(service)
    service.writer.group([learn(service, "1", [1.0, 2.0], 3.0)])
    before = bits(service)
    connection = service.journal.connection
    pages = connection.execute("PRAGMA page_count").fetchone()[0]
    connection.execute(f"PRAGMA max_page_count={pages}")
    many = [learn(service, f"x{i}", [1.0, float(i)], 3.0) for i in range(300)]
    service.writer.group(many)
    assert {type(work.outcome) for work in many} == {HTTPError}
    assert all(work.outcome.status == 507 for work in many)  # type: ignore[union-attr]
    assert "full" in str(many[0].outcome) and service.journal.failed
    assert bits(service) == before
    connection.execute("PRAGMA max_page_count=1000000")
    again = [learn(service, f"x{i}", [1.0, float(i)], 3.0) for i in range(300)]
    service.writer.group(again)
    assert not any(isinstance(work.outcome, Exception) for work in again)
    assert service.journal.failed is None and service.model("m").scores.rows == 301
    after = bits(service)
    service.close()
    reopened = opened(tmp_path)
    assert bits(reopened) == after
    reopened.close()


def test_orders_on_a_full_disk_are_refused_and_it_stops_in_order(tmp_path: Path) -> None:
    events: list[str] = []
    service = Service(tmp_path, log=lambda event, **_: events.append(event))
    created(service)
    service.writer.group([learn(service, "1", [1.0, 2.0], 3.0)])
    before = bits(service)
    connection = service.journal.connection
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.execute("PRAGMA query_only=1")  # no transaction is taken
    model = service.models["m"]
    for call in (
        lambda: service.snapshot("m"),
        lambda: service.rollback("m", 0),
        lambda: service.remove("m"),
        lambda: service.create("n", model.spec),
    ):
        order = Task(call)
        service.writer._run_task(order)
        assert isinstance(order.outcome, HTTPError) and order.outcome.status == 507
        assert "nothing was changed" in str(order.outcome)
    assert list(service.models) == ["m"] and bits(service) == before
    service.stop()
    assert events[-1] == "stopped without a snapshot"
    again = opened(tmp_path)
    assert bits(again) == before
    again.close()


def test_a_damaged_file_of_tokens_is_one_line(tmp_path: Path) -> None:
    tokens = Tokens(tmp_path)
    token = tokens.add(("infer",))
    for text in ("", "{", "[1]", '[{"id": "a"}]', '{"a": 1}', "[" * 10_000, "\udcff"):
        tokens.path.write_text(text, errors="surrogateescape")
        with pytest.raises(TokensError, match=r"tokens\.json cannot be read"):
            Tokens(tmp_path)
    tokens._checked = 0.0
    assert tokens.check(token) is not None  # a server that runs goes on with those of before
    done = CliRunner().invoke(app, ["serve", "token", str(tmp_path), "--list"])
    assert done.exit_code == 1 and "cannot be read" in str(done.exception)


def test_a_snapshot_that_cannot_be_written_loses_nothing(tmp_path: Path, monkeypatch: Any) -> None:
    service = opened(tmp_path, snapshot_rows=1)
    created(service)

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pronk.serve.recovery.files.save_checkpoint", full)
    service.writer.work([learn(service, "1", [1.0, 2.0], 3.0)])
    assert not recovery.snapshots(tmp_path, "m") and service.model("m").scores.rows == 1
    service.close()


def test_a_learner_that_runs_out_of_memory_is_repaired_by_a_restart(
    tmp_path: Path, monkeypatch: Any
) -> None:
    service = opened(tmp_path)
    created(service)
    work = learn(service, "1", [1.0, 2.0], 3.0)

    def no_memory(*_: Any) -> None:
        raise MemoryError

    monkeypatch.setattr(service.model("m").learner, "predict_then_learn", no_memory)
    service.writer.group([work])
    assert isinstance(work.outcome, HTTPError) and work.outcome.status == 503
    later = learn(service, "2", [1.0, 2.0], 3.0)
    service.writer.group([later])
    assert isinstance(later.outcome, HTTPError) and later.outcome.status == 503
    service.close()
    again = opened(tmp_path)
    assert again.model("m").scores.rows == 1
    again.close()


def test_rows_that_a_learner_does_not_take_are_refused_alone_and_alike_in_a_replay(
    tmp_path: Path,
) -> None:
    service = opened(tmp_path)
    created(service, algorithm="kernel-awv", parameters={"kernel": "polynomial"}, scale="none")
    works = [learn(service, str(i), [1.0, 10.0 ** (140 * (i == 1))], 1.0) for i in range(3)]
    service.writer.group(works)
    kinds = [isinstance(work.outcome, HTTPError) for work in works]
    assert kinds == [False, True, False]
    assert "overflow" in str(works[1].outcome)
    before = bits(service)
    repeat = learn(service, "1", [1.0, 1e140], 1.0)
    service.writer.group([repeat])
    assert str(repeat.outcome) == str(works[1].outcome)
    service.close()
    again = opened(tmp_path)
    assert bits(again) == before and again.model("m").scores.rows == 2
    again.close()


def test_two_servers_on_one_folder(tmp_path: Path) -> None:
    first = opened(tmp_path)
    with pytest.raises(InUse, match=f"process {os.getpid()}"):
        opened(tmp_path)
    first.close()
    opened(tmp_path).close()


def test_a_torn_page_of_the_journal_is_reported_at_the_start(tmp_path: Path) -> None:
    service = opened(tmp_path)
    created(service)
    for i in range(60):
        service.writer.group([learn(service, str(i), [1.0, 2.0], 3.0)])
    service.journal.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    service.close()
    path = tmp_path / "journal.sqlite"
    data = bytearray(path.read_bytes())
    data[4096 + 100 : 4096 * 4] = b"\x55" * (4096 * 3 - 100)
    path.write_bytes(data)
    with pytest.raises((JournalError, sqlite3.DatabaseError), match=r"damaged|malformed"):
        opened(tmp_path)
    path.write_bytes(b"not a database at all" * 400)
    with pytest.raises(JournalError, match=r"not a database; move .*-wal and .*-shm away"):
        opened(tmp_path)


def test_a_torn_tail_of_the_log_is_a_transaction_that_was_not_acknowledged(tmp_path: Path) -> None:
    service = opened(tmp_path)
    created(service)
    service.writer.group([learn(service, "1", [1.0, 2.0], 3.0)])
    expected = bits(service)
    log = tmp_path / "journal.sqlite-wal"
    whole = log.stat().st_size
    last = (tmp_path / "sequence").read_bytes()
    service.writer.group([learn(service, "2", [1.0, 2.0], 4.0)])
    files = {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.name != "lock"}
    files["sequence"] = last  # it is written after the transaction
    service.close()
    for name, data in files.items():  # what a power cut may leave
        (tmp_path / name).write_bytes(data)
    (tmp_path / "journal.sqlite-shm").unlink(missing_ok=True)
    data = bytearray(files["journal.sqlite-wal"])
    data[whole + 30 :] = b"\x00" * (len(data) - whole - 30)
    log.write_bytes(data)
    again = opened(tmp_path)
    assert bits(again) == expected
    again.close()


def test_the_clock_steps_back(tmp_path: Path, monkeypatch: Any) -> None:
    service = opened(tmp_path)
    created(service)
    service.writer.group([infer(service, "1", [1.0, 2.0])])
    now = time.time()
    monkeypatch.setattr("pronk.serve.journal.time.time", lambda: now - 10 * DAY)
    service.writer.group([infer(service, "2", [1.0, 2.0])])
    times = [row[0] for row in service.journal.connection.execute("SELECT time FROM journal")]
    assert times == sorted(times) and times[1] >= times[0]
    assert expire(service.journal, service.model("m"), 1.0) == 0
    service.close()


def test_labels_that_never_come_are_given_up_and_counted(tmp_path: Path, monkeypatch: Any) -> None:
    service = opened(tmp_path, label_days=7.0)
    created(service)
    service.writer.group([infer(service, str(i), [1.0, 2.0]) for i in range(3)])
    service.writer.group([label(service, "0", 1.0)])
    now = time.time()
    monkeypatch.setattr("pronk.serve.journal.time.time", lambda: now + 8 * DAY)
    service.housekeeping("m")
    assert service.counters.labels_expired == 2 and service.model("m").waiting == 0
    late = label(service, "1", 1.0)
    service.writer.group([late])
    assert isinstance(late.outcome, HTTPError) and late.outcome.status == 404
    before = bits(service)
    service.close()
    again = opened(tmp_path)
    assert bits(again) == before and again.journal.sequence >= 4
    again.close()


@pytest.mark.parametrize("archive", [False, True])
def test_old_rows_go_once_a_snapshot_has_passed_them(
    tmp_path: Path, monkeypatch: Any, archive: bool
) -> None:
    service = opened(tmp_path)
    created(service)
    for i in range(6):
        service.writer.group([learn(service, str(i), [float(i), 2.0], 3.0 + i)])
        if i == 3:
            service._due_snapshot(service.model("m"))
    model, folder = service.model("m"), service.folder
    assert drop(service.journal, model, folder, 30.0, archive, service.log) == 0
    now = time.time()
    monkeypatch.setattr("pronk.serve.journal.time.time", lambda: now + 31 * DAY)
    assert drop(service.journal, model, folder, 30.0, archive, service.log) == 4
    left = [entry.id for block in service.journal.learned(1, 0) for entry in block]
    assert left == ["4", "5"]
    files = list((tmp_path / "archive").glob("*.parquet")) if archive else []
    if archive:
        import pyarrow.parquet as pq

        table = pq.read_table(files[0])
        assert table["a"].to_pylist() == [0.0, 1.0, 2.0, 3.0]
        assert table["label"].to_pylist() == [3.0, 4.0, 5.0, 6.0]
    before = bits(service)
    service.close()
    again = opened(tmp_path)
    assert bits(again) == before
    with pytest.raises(HTTPError, match="cannot be reached"):
        again.rollback("m", 2)
    assert again.rollback("m", 5) == 5
    again.close()
    recovery.snapshot_path(tmp_path, "m", 4).unlink()
    broken = opened(tmp_path)
    assert "no readable snapshot" in (broken.model("m").broken or "")
    broken.close()


def test_rows_stay_until_a_snapshot_behind_them_can_be_read(
    tmp_path: Path, monkeypatch: Any
) -> None:
    service = opened(tmp_path, snapshot_rows=1)
    created(service)
    now = time.time()
    for i in range(5):
        service.writer.work([learn(service, str(i), [float(i), 2.0], 3.0 + i)])
    assert list(recovery.snapshots(tmp_path, "m")) == [3, 4, 5]
    before = bits(service)
    service.close()
    for path in recovery.snapshots(tmp_path, "m").values():
        path.write_bytes(path.read_bytes()[:-1])
    again = opened(tmp_path)
    monkeypatch.setattr("pronk.serve.journal.time.time", lambda: now + 31 * DAY)
    again.housekeeping("m")
    assert again.counters.rows_dropped == 0 and bits(again) == before
    again.snapshot("m")
    again.journal.write(Batch(more=[("DELETE FROM snapshots", ())]))  # an automatic one, say
    again.housekeeping("m")
    assert again.counters.rows_dropped == 5
    again.close()
    last = opened(tmp_path)
    assert bits(last) == before
    last.close()


def test_a_snapshot_that_cannot_be_read_back_is_none(tmp_path: Path, monkeypatch: Any) -> None:
    from pronk.estimators import files

    events: list[str] = []
    service = Service(tmp_path, log=lambda event, **_: events.append(event))
    created(service)
    service.writer.work([learn(service, "1", [1.0, 2.0], 3.0)])
    service.snapshot("m")
    whole = files.save_checkpoint

    def torn(tree: Any, path: Path) -> None:
        whole(tree, path)
        path.write_bytes(path.read_bytes()[:-10])

    monkeypatch.setattr("pronk.serve.recovery.files.save_checkpoint", torn)
    for i in range(2, 6):
        service.writer.work([learn(service, str(i), [1.0, 2.0], 3.0)])
        service._due_snapshot(service.model("m"))
    assert events.count("snapshot failed") == 4
    assert list(recovery.snapshots(tmp_path, "m")) == [1]
    service.close()


def test_a_label_that_cannot_be_kept_is_refused_before_the_journal(site: Site) -> None:
    path = site.create("large-labels")
    for value in (1e149, -1e140, 1e140):
        reply = site.call("POST", f"{path}/learn", {"row": [1, 2], "label": value})
        assert reply.status == 422 and "row 0, label" in reply.error
    rows = [[float(i % 7), float(i)] for i in range(50)]
    body = {"rows": rows, "labels": [4e139 * (-1) ** i for i in range(50)]}
    assert site.call("POST", f"{path}/learn", body).status == 200
    assert site.call("POST", f"{path}/snapshot").status == 200  # it was read back
    assert site.call("GET", path).json["rows"] == 50


# -- the process ---------------------------------------------------------------------------------


def _pronk(*arguments: str, **more: Any) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "pronk", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **more,
    )


@pytest.mark.slow
def test_sigterm_under_load_answers_keeps_and_restarts_clean(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "folder"
    process = _pronk("serve", str(folder), "--port", "0")
    assert process.stdout is not None
    page, token = (process.stdout.readline().split(maxsplit=1)[1].strip() for _ in range(2))
    url = page.split("/#")[0]
    Client(url, token).create("m", 2, algorithm="fogd")
    done: set[str] = set()

    def feed(number: int) -> None:
        client = Client(url, token, retries=0)
        for i in range(10_000):
            id = f"{number}-{i}"
            try:
                client.learn("m", [[1.0, float(i % 7)]], [1.0], id=id)
            except Exception:
                return
            done.add(id)

    threads = [threading.Thread(target=feed, args=(i,)) for i in range(3)]
    for thread in threads:
        thread.start()
    while len(done) < 50:
        time.sleep(0.01)
    refused = _pronk("serve", str(folder), "--port", "0")
    assert refused.wait(60) == 1 and refused.stderr is not None
    assert "in use by process" in refused.stderr.read().splitlines()[-1]
    process.send_signal(signal.SIGTERM)
    for thread in threads:
        thread.join()
    assert process.wait(60) == 0 and process.stderr is not None
    assert '"stopped"' in process.stderr.read()
    service = Service(folder)
    learned = [entry.id for block in service.journal.learned(1, 0) for entry in block]
    assert done <= set(learned) and len(learned) == len(set(learned))
    assert service.model("m").snapshot == service.model("m").version  # nothing to replay
    service.close()


def test_a_folder_that_cannot_be_used_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "file"
    file.write_text("x")
    code, _, error = pronk_run(capsys, "serve", file, "--port", "0")
    assert code == 1 and len(error.splitlines()) == 1
    assert error.startswith("pronk: ") and "cannot be used" in error


@pytest.mark.skipif(
    hasattr(os, "geteuid") and os.geteuid() == 0, reason="root may write everywhere"
)
def test_a_read_only_folder_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    try:
        with pytest.raises((OSError, JournalError)):
            opened(tmp_path)
    finally:
        tmp_path.chmod(0o700)
