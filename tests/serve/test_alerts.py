"""Alerts: what is noticed, the signed post, repetition, and a receiver that does not answer."""

import http.server
import json
import shlex
import threading
from types import SimpleNamespace

import numpy as np
import pytest

from pronk.cli.on_alarm import OnAlarm, split
from pronk.cli.screen import CommandError, messages
from pronk.serve import alerts
from pronk.serve.online import LiveScores, OnlineModel


class Receiver(http.server.ThreadingHTTPServer):
    """Accept posts on the loopback interface; refuse the first ``failing`` of them."""

    def __init__(self, failing=0):
        self.failing, self.got, self.arrived = failing, [], threading.Condition()
        super().__init__(("127.0.0.1", 0), _Handler)
        self.address = f"http://127.0.0.1:{self.server_port}/alerts"
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def wait(self, count):
        with self.arrived:
            assert self.arrived.wait_for(lambda: len(self.got) >= count, 30)
        return [json.loads(body) for body, _ in self.got]


class _Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        server = self.server
        with server.arrived:
            refused = server.failing > 0
            server.failing -= refused
            if not refused:
                server.got.append((body, self.headers["X-Pronk-Signature"]))
            server.arrived.notify_all()
        self.send_response(503 if refused else 204)
        self.end_headers()

    def log_message(self, *_):
        pass


@pytest.fixture(autouse=True)
def soon(monkeypatch):
    monkeypatch.setattr(alerts, "WAIT", 0.01)


class Scored(SimpleNamespace):
    """A model with scores, and changes if it is trained."""

    changes = OnlineModel.changes


def model(rows=0):
    """Return a model of which the service knows scores only."""
    found = Scored(
        name="taxi", created=1.0, version=0, waiting=0, trained=False,
        scores=LiveScores("regression"),
    )  # fmt: skip
    learn(found, rows, 0.1)
    return found


def learn(online, rows, error):
    y = np.sin(np.arange(online.scores.rows, online.scores.rows + rows))
    if rows:
        online.scores.add(y, y + error, None, None)


def test_alarms_changes_and_silence_are_posted_once():
    receiver, log, now = Receiver(failing=2), [], [0.0]
    own = alerts.Alerts(
        receiver.address, "secret", 2.0, lambda *a, **k: log.append((a, k)), lambda: now[0]
    )
    online = model(2000)
    own.look_at(online)
    learn(online, 300, 5.0)  # the loss rises
    own.look_at(online)
    own.look_at(online)
    first, second = receiver.wait(2)
    assert (first["event"], first["model"]) == ("drift alarm", "taxi") and first["row"] > 2000
    body, signed = receiver.got[0]
    assert signed == alerts.signature("secret", body) and not log
    assert second["event"] == "worse" and "baseline" not in second
    count = 2
    online.waiting, now[0] = 7, 3 * 3600.0
    own.look_at(online)
    own.look_at(online)
    assert receiver.wait(count + 1)[-1]["event"] == "no labels"
    change = {"row": 9, "columns": ["fare"], "outcome": "on trial", "returned": None, "end": None}
    online.trained, online.learner = True, SimpleNamespace(changes_=[change])
    own.look_at(online)
    change["outcome"], change["end"] = "swap", 30
    online.learner = SimpleNamespace(changes_=[dict(change)])
    own._known["taxi"]["changes"][9] = {**change, "outcome": "on trial"}
    own.look_at(online)
    found = receiver.wait(count + 3)[count + 1 :]
    assert [(one["event"], one["columns"]) for one in found] == [
        ("change", ["fare"]), ("swap", ["fare"]),
    ]  # fmt: skip
    own.stop()
    receiver.shutdown()
    receiver.server_close()


def test_a_receiver_that_fails_holds_nothing_up(monkeypatch):
    monkeypatch.setattr(alerts, "ATTEMPTS", 2)
    log, done = [], threading.Event()
    own = alerts.Alerts(
        "http://127.0.0.1:9/", None, 1.0, lambda *a, **k: (log.append((a, k)), done.set())
    )
    online = model(2000)
    own.look_at(online)
    learn(online, 300, 5.0)
    own.look_at(online)
    assert done.wait(30) and log[0][0] == ("alert dropped",) and own.dropped == 1
    own.stop()
    with pytest.raises(ValueError, match="is not an address"):
        alerts.check_address("file:///etc/passwd")


def test_on_alarm_starts_a_command_and_notes_a_failure(tmp_path, capsys):
    for command in ("no-such-program-here", "'"):
        with pytest.raises(CommandError, match="--on-alarm"):
            split(command)
    with pytest.raises(CommandError, match="'>>' needs a shell; give --on-alarm ") as error:
        split("cat >> 'the alarms'")
    advice = str(error.value).partition(" give --on-alarm ")[2]
    assert split(*shlex.split(advice)) == ["sh", "-c", "cat >> 'the alarms'"]
    out = tmp_path / "alarm.json"
    hook = OnAlarm(f"tee {out}", messages())
    hook.call({"row": 3})
    hook.finish()
    assert json.loads(out.read_text()) == {"row": 3}
    hook = OnAlarm("false", messages())
    hook.call({"row": 3})
    hook.finish()
    assert "ended with code 1" in capsys.readouterr().err
