"""Start a server: options, tokens, recovery while the port is open, large files."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from driving import bits, crashed, created, learn, opened
from serving import Site
from typer.testing import CliRunner

import pronk
from helpers import pronk_run
from pronk.cli.app import app
from pronk.serve import Client, recovery
from pronk.serve.http.app import App
from pronk.serve.online import RECOVERING
from pronk.serve.service import Service
from pronk.serve.tokens import Tokens, TokensError, given_tokens


def _started(monkeypatch: Any, *arguments: str, **environment: str) -> Any:
    """The options with which a command would start a server."""
    found: list[Any] = []
    monkeypatch.setattr("pronk.serve.run.run", found.append)
    done = CliRunner().invoke(app, ["serve", *arguments], env=environment)
    assert done.exit_code == 0, (done.output, done.exception)
    return found[0]


def test_token_is_a_command_and_never_a_folder(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("pronk.serve.run.run", lambda _: pytest.fail("a server was started"))
    alone = CliRunner().invoke(app, ["serve", "token"])
    assert alone.exit_code == 2 or "FOLDER is missing" in str(alone.exception)
    assert "pronk serve token FOLDER" in str(alone.exception)
    assert not any(tmp_path.iterdir())
    shown = CliRunner().invoke(app, ["serve", "token", "--help"])
    assert shown.exit_code == 0 and "--scope" in shown.output and "--port" not in shown.output


def test_tokens_are_made_before_the_first_start(tmp_path: Path) -> None:
    folder = tmp_path / "not" / "yet"
    made = CliRunner().invoke(app, ["serve", "token", str(folder), "--scope", "learn"])
    token = made.output.strip()
    assert made.exit_code == 0 and token.startswith("pronk_")
    assert folder.stat().st_mode & 0o077 == 0
    assert Tokens(folder).check(token).may("learn")  # type: ignore[union-attr]
    listed = CliRunner().invoke(app, ["serve", "token", str(folder), "--list"])
    assert "learn" in listed.output
    nothing = CliRunner().invoke(app, ["serve", "token", str(tmp_path / "no"), "--list"])
    assert "does not exist" in str(nothing.exception) and not (tmp_path / "no").exists()


def test_options_come_from_the_command_line_the_environment_and_a_file(
    tmp_path: Path, monkeypatch: Any
) -> None:
    file = tmp_path / "serve.toml"
    text = (
        'folder = "a"\nport = 1\nmax-body = 2000\nlabel_days = 3.5\narchive = true\njson = true\n'
    )
    file.write_text(text)
    found = _started(monkeypatch, "--config", str(file))
    assert (str(found.folder), found.port, found.max_body) == ("a", 1, 2000)
    assert found.settings.label_days == 3.5 and found.settings.archive and found.as_json
    environment = {"PRONK_SERVE_CONFIG": str(file), "PRONK_SERVE_PORT": "2"}
    found = _started(monkeypatch, **environment)
    assert (found.port, found.max_body) == (2, 2000)
    found = _started(monkeypatch, "b", "--port", "3", **environment)
    assert (str(found.folder), found.port) == ("b", 3)


def test_every_option_can_be_in_the_environment(tmp_path: Path, monkeypatch: Any) -> None:
    values = {
        "FOLDER": "f", "HOST": "::1", "PORT": "5", "TLS_CERTIFICATE": "c", "TLS_KEY": "k",
        "TOKEN_FILE": "t", "SNAPSHOT_ROWS": "6", "QUEUE_ROWS": "7", "RETENTION_DAYS": "8",
        "LABEL_DAYS": "9", "ARCHIVE": "1", "ACCEPT_MISSING": "1",
        "MAX_BODY": "1000", "MAX_MODEL": "1100", "MAX_CONNECTIONS": "12", "JSON": "1",
    }  # fmt: skip
    found = _started(monkeypatch, **{f"PRONK_SERVE_{key}": value for key, value in values.items()})
    settings = found.settings
    assert (str(found.folder), found.host, found.port) == ("f", "::1", 5)
    assert (found.tls_certificate, found.tls_key, found.token_file) == (
        Path("c"),
        Path("k"),
        Path("t"),
    )
    assert (settings.snapshot_rows, settings.queue_rows) == (6, 7)
    assert (settings.retention_days, settings.label_days) == (8.0, 9.0)
    assert settings.archive and settings.accept_missing and found.as_json
    assert (found.max_body, found.max_model, found.max_connections) == (1000, 1100, 12)
    shown = CliRunner().invoke(app, ["serve", "--help"], env={"COLUMNS": "200"}).output
    options = {word for word in shown.split() if word.startswith("--")} - {"--help", "--config"}
    assert {option.strip(",.)") for option in options} >= {
        "--" + key.lower().replace("_", "-") for key in values if key != "FOLDER"
    }


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("prot = 1", "no option 'prot'; did you mean 'port'"),
        ("port = [1]", "port must be one value"),
        ("port =", "is not TOML"),
        ("config = 'x'", "no option 'config'"),
        ("port = 'x'", "--port"),
    ],
)
def test_a_wrong_file_of_options_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, words: str
) -> None:
    file = tmp_path / "serve.toml"
    file.write_text(text)
    code, _, error = pronk_run(capsys, "serve", "--config", file)
    assert code == 2 and len(error.splitlines()) == 1 and words in error


def test_tokens_of_the_environment_and_of_a_file(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("# who\nfirst-secret-of-the-file  infer,learn\n\nsecond-secret-of-file\n")
    tokens = Tokens(tmp_path, "secret-of-the-environment\n", secret)
    assert len(tokens) == 3
    found = tokens.check("first-secret-of-the-file")
    assert found is not None and found.may("learn") and not found.may("admin")
    assert tokens.check("second-secret-of-file").may("admin")  # type: ignore[union-attr]
    assert tokens.check("secret-of-the-environment").may("admin")  # type: ignore[union-attr]
    for wrong in ("", "first", "first-secret-of-the-file ", "infer,learn", "pronk_a_b"):
        assert tokens.check(wrong) is None
    secret.write_text("another-secret-of-the-file")
    tokens._checked = 0.0
    assert tokens.check("first-secret-of-the-file") is None
    assert tokens.check("another-secret-of-the-file") is not None
    assert tokens.list() == [] and not (tmp_path / "tokens.json").exists()
    for text in ("short", "long-enough-secret-text fly", "long-enough-secret-text infer learn"):
        with pytest.raises(TokensError, match="line 1"):
            given_tokens(text, "file")
    (tmp_path / "empty").write_text("# nothing")
    with pytest.raises(TokensError, match="no token"):
        Tokens(tmp_path, "", tmp_path / "empty")
    with pytest.raises(TokensError, match="cannot be read"):
        Tokens(tmp_path, "", tmp_path / "none")


def test_the_port_is_open_while_the_models_are_recovered(tmp_path: Path, monkeypatch: Any) -> None:
    before = opened(tmp_path)
    created(before)
    before.writer.group([learn(before, "1", [1.0, 2.0], 3.0)])
    before.close()
    begun, go_on = threading.Event(), threading.Event()
    whole = Service._restored

    def patient(self: Service, row: Any) -> Any:
        begun.set()
        assert go_on.wait(60)
        return whole(self, row)

    monkeypatch.setattr(Service, "_restored", patient)
    site = Site(tmp_path, recover=False)
    try:
        assert begun.wait(60)
        assert site.call("GET", "/v2/health/live", token=None).status == 200
        ready = site.call("GET", "/v2/health/ready", token=None)
        assert ready.status == 503 and ready.json["ready"] is False
        for method, path in (
            ("GET", "/v2/models"),
            ("POST", "/v2/models/m/infer"),
            ("GET", "/metrics"),
        ):
            reply = site.call(method, path, {"row": [1, 2]} if method == "POST" else None)
            assert reply.status == 503 and reply.headers["retry-after"] == "1"
        assert site.call("GET", "/v2/models", token=None).status == 401
        go_on.set()
        client = Client(f"http://127.0.0.1:{site.port}", site.token)
        while not (found := client.model("m"))["ready"]:  # opened, and its journal is replayed
            assert found["reason"] == RECOVERING
        assert found["rows"] == 1
        site.app._recovering.join()
        assert site.call("GET", "/v2/health/ready", token=None).status == 200
    finally:
        go_on.set()
        site.stop()


def _several(folder: Path) -> dict[str, bytes]:
    """Leave a folder with three models after a crash; return their bits."""
    before = opened(folder)
    for name, rows in (("a", 30), ("b", 10), ("c", 20)):
        created(before, name)
        for i in range(rows):
            before.writer.group([learn(before, str(i), [i / 7, 2.0], float(i % 3), name)])
    found = {name: bits(before, name) for name in "abc"}
    crashed(before)
    return found


def test_a_model_is_ready_while_others_are_recovered(tmp_path: Path, monkeypatch: Any) -> None:
    expected = _several(tmp_path)
    order: list[str] = []
    begun, go_on = threading.Event(), threading.Event()
    whole = recovery.catch_up

    def patient(journal: Any, online: Any, log: Any) -> None:
        order.append(online.name)
        if online.name == "a":
            begun.set()
            assert go_on.wait(60)
        whole(journal, online, log)

    monkeypatch.setattr(recovery, "catch_up", patient)
    site = Site(tmp_path, recover=False)
    try:
        assert begun.wait(60)
        assert order == ["b", "c", "a"]  # those with few rows to replay first
        for name in "bc":
            assert bits(site.service, name) == expected[name]
            assert site.call("GET", f"/v2/models/{name}/ready").status == 200
            assert site.call("POST", f"/v2/models/{name}/infer", {"row": [1, 2]}).status == 200
            body = {"id": "new", "row": [1, 2], "label": 3}
            assert site.call("POST", f"/v2/models/{name}/learn", body).status == 200
        assert site.call("POST", "/v2/models/b/snapshot").status == 200
        assert site.call("GET", "/v2/health/ready", token=None).status == 503
        assert site.call("GET", "/v2/models/a").json["reason"] == "it is being recovered"
        for method, call in (
            ("GET", "/ready"),
            ("POST", "/infer"),
            ("POST", "/learn"),
            ("POST", "/snapshot"),
            ("POST", "/rollback"),
            ("DELETE", ""),
        ):
            body = {"row": [1, 2], "label": 3} if call == "/learn" else {"row": [1, 2]}
            given = body if call in ("/infer", "/learn") else None
            reply = site.call(method, f"/v2/models/a{call}", given)
            assert reply.status == 503 and reply.headers["retry-after"] == "1", call
            assert call == "/ready" or "it is being recovered" in reply.error
        assert site.call("PUT", "/v2/models/A", {"columns": 2}).status == 409
        go_on.set()
        client = Client(f"http://127.0.0.1:{site.port}", site.token)
        assert client.infer("a", [[1, 2]])["version"] == 30
        assert bits(site.service, "a") == expected["a"]
        for _ in range(6000):
            if client.ready():
                break
            time.sleep(0.01)
        assert client.ready()
    finally:
        go_on.set()
        site.stop()
    again = opened(tmp_path)
    assert [again.model(name).scores.rows for name in "abc"] == [30, 11, 21]
    again.close()


def test_a_server_that_is_stopped_while_others_are_recovered_keeps_what_was_learned(
    tmp_path: Path, monkeypatch: Any
) -> None:
    expected = _several(tmp_path)
    begun = threading.Event()
    whole = recovery.catch_up

    def patient(journal: Any, online: Any, log: Any) -> None:
        if online.name == "a":
            begun.set()
            assert journal.stopping.wait(60)
        whole(journal, online, log)

    monkeypatch.setattr(recovery, "catch_up", patient)
    site = Site(tmp_path, recover=False)
    assert begun.wait(60)
    body = {"id": "new", "row": [1, 2], "label": 3}
    assert site.call("POST", "/v2/models/b/learn", body).status == 200
    site.stop()
    assert site.app.failure is None
    monkeypatch.undo()
    again = opened(tmp_path)
    assert again.model("b").scores.rows == 11
    assert {name: bits(again, name) for name in "ac"} == {name: expected[name] for name in "ac"}
    again.close()


def test_a_server_that_is_stopped_while_it_recovers_ends_in_order(
    tmp_path: Path, monkeypatch: Any
) -> None:
    before = opened(tmp_path)
    created(before)
    before.writer.group([learn(before, "1", [1.0, 2.0], 3.0)])
    before.close()
    begun = threading.Event()
    whole = Service._restored

    def patient(self: Service, row: Any) -> Any:
        begun.set()
        assert self.stopping.wait(60)
        return whole(self, row)

    monkeypatch.setattr(Service, "_restored", patient)
    site = Site(tmp_path, recover=False)
    assert begun.wait(60)
    site.stop()
    assert site.app.failure is None
    monkeypatch.undo()
    again = opened(tmp_path)  # the folder was left
    assert again.model("m").scores.rows == 1
    again.close()


def test_a_recovery_that_is_refused_ends_the_server_with_one_line(tmp_path: Path) -> None:
    before = opened(tmp_path)
    created(before)
    before.writer.group([learn(before, "1", [1.0, 2.0], 3.0)])
    before.close()
    (tmp_path / "journal.sqlite").write_bytes(b"")
    command = [sys.executable, "-m", "pronk", "serve", str(tmp_path), "--port", "0"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert last.startswith("pronk: ") and "--accept-missing" in last


def test_a_model_file_has_a_limit_of_its_own(site: Site, monkeypatch: Any, tmp_path: Path) -> None:
    learner = pronk.make("kernel-awv").fit(
        np.random.default_rng(0).normal(size=(600, 2)), np.ones(600)
    )
    learner.save(tmp_path / "m")
    data = (tmp_path / "m").read_bytes()
    assert len(data) > 1_000_000  # the limit of bodies of the test's server
    kind = {"Content-Type": "application/octet-stream"}
    assert site.call("PUT", "/v2/models/large-file", data, headers=kind).status == 201
    _, calls = _calls(site.app)
    monkeypatch.setattr(calls, "most_model_bytes", 1_000_000)
    reply = site.call("PUT", "/v2/models/larger-file", data, headers=kind)
    assert reply.status == 413 and "--max-model" in reply.error


def _calls(app: App) -> tuple[Any, Any]:
    method = app.fixed["/v2/models"]["GET"][0]
    return method, method.__self__  # type: ignore[attr-defined]


def test_a_rollback_without_a_version_restores_the_last_snapshot(site: Site) -> None:
    path = site.create("back")
    assert site.call("POST", f"{path}/rollback").status == 422
    versions = []
    for i in range(4):
        body = {"row": [1, i], "label": i}
        versions.append(site.call("POST", f"{path}/learn", body).json["model_version"])
        if i == 1:
            assert site.call("POST", f"{path}/snapshot").json["model_version"] == versions[1]
    reply = site.call("POST", f"{path}/rollback")
    assert reply.status == 200 and reply.json["model_version"] == versions[1]
    assert site.call("GET", path).json["rows"] == 2
    back = site.call("POST", f"{path}/rollback", {"version": int(versions[0])})
    assert back.json["model_version"] == versions[0]
