"""Run the how-to page: its curl commands and its Python, against one server."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from serving import Site

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "serve.md"
DEPLOY = PAGE.with_name("deploy.md")
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_the_commands_of_the_page_print_what_it_shows(site: Site) -> None:
    if shutil.which("curl") is None or shutil.which("bash") is None:
        pytest.skip("there is no curl or no bash")
    url = f"http://127.0.0.1:{site.port}"
    environment = {**os.environ, "URL": url, "TOKEN": site.token, "NO_PROXY": "*"}
    commands = 0
    for kind, text in FENCE.findall(PAGE.read_text(encoding="utf-8")):
        if kind == "py":
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                exec(compile(text, str(PAGE), "exec"), {"URL": url, "TOKEN": site.token})
            assert out.getvalue().startswith("[")
        elif kind == "bash" and text.startswith("curl"):
            done = subprocess.run(
                ["bash", "-c", text], capture_output=True, text=True, env=environment, timeout=900
            )
            assert done.returncode == 0, done.stderr
            for line in done.stdout.splitlines():
                assert "error" not in json.loads(line), (text, line)
            commands += 1
    assert commands >= 9
    models = {model["name"]: model for model in site.call("GET", "/v2/models").json["models"]}
    assert models["prices"]["rows"] == 2 and models["sensors"]["rows"] == 2
    assert models["houses"]["rows"] == 5 and models["houses"]["waiting"] == 0


@pytest.mark.parametrize("page", [PAGE, DEPLOY], ids=lambda page: page.stem)
def test_every_option_of_the_page_is_one_of_the_command(page: Path) -> None:
    from typer.testing import CliRunner

    from pronk.cli.app import app

    text = page.read_text(encoding="utf-8")
    wide = {"COLUMNS": "200"}
    shown = CliRunner().invoke(app, ["serve", "--help"], env=wide).output
    shown += CliRunner().invoke(app, ["serve", "token", "--help"], env=wide).output
    own = {"--read-only", "--tmpfs", "--cap-drop", "--volume", "--uid", "--no-cache-dir"}
    options = set(re.findall(r"(?<![\w-])--[a-z-]+", text)) - own
    known = {
        "--param",
        "--format",
        "--by",
        "--save",
        "--data-binary",
        "--host",
        "--only",
        "--seconds",
    }
    assert {option for option in options - known if option not in shown} == set()
