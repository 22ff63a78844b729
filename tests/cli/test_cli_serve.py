"""`pronk serve` on the command line: tokens, and errors before the port is opened."""

import json

import pytest

from helpers import pronk_run
from pronk.serve.tokens import Tokens


def test_tokens_are_made_listed_and_revoked(capsys, tmp_path):
    call = ["serve", "token", tmp_path]
    code, out, _ = pronk_run(capsys, *call, "--scope", "infer", "--scope", "learn", "--name", "me")
    token = out.strip()
    assert code == 0 and Tokens(tmp_path).list()[0].scopes == ("infer", "learn")
    code, out, _ = pronk_run(capsys, *call, "--scope", "admin", "--json")
    assert code == 0 and set(json.loads(out)) == {"token"}
    own = token.split("_")[1]
    code, out, _ = pronk_run(capsys, *call, "--list")
    assert code == 0 and len(out.splitlines()) == 2
    assert next(line for line in out.splitlines() if line.startswith(own)).endswith("me")
    code, out, _ = pronk_run(capsys, *call, "--list", "--json")
    held = {one["id"]: one for one in json.loads(out)["tokens"]}
    assert held[own] == {"id": own, "scopes": ["infer", "learn"], "name": "me"}
    assert token not in out  # a token is shown once
    code, out, _ = pronk_run(capsys, *call, "--revoke", own)
    assert code == 0 and out == f"revoked {own}\n"
    code, _, err = pronk_run(capsys, *call, "--revoke", own)
    assert code == 2 and f"no token has the id {own!r}" in err
    assert [one.scopes for one in Tokens(tmp_path).list()] == [("admin",)]


@pytest.mark.parametrize(
    "words, said",
    [
        (["token", "{place}", "--scope", "rule"], "--scope: scopes are infer, learn, admin"),
        (["token", "{place}"], "--scope: scopes are infer, learn, admin; got none"),
        (["{place}", "{place}"], "unexpected extra argument"),
        (["{place}", "--scope", "infer"], "No such option .. --scope"),  # quoted by some versions
        ([], "FOLDER is missing"),
        (["{place}", "--tls-key", "{place}/key"], "--tls-key must be given together"),
    ],
)
def test_what_is_refused(capsys, tmp_path, words, said):
    if words[:1] != ["token"]:
        pytest.importorskip("uvicorn")
    words = [word.format(place=tmp_path) for word in words]
    code, _, err = pronk_run(capsys, "serve", *words)
    assert code in (1, 2) and err.count("\n") == 1
    assert all(part in err for part in said.split(" .. ")), err
