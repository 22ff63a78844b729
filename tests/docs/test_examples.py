"""The documentation is run: blocks of code, commands, examples, links, names of tests."""

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
PAGES = [
    path
    for path in sorted(DOCS.rglob("*.md"))
    if not {"generated", "_build", "results"} & set(path.relative_to(DOCS).parts)
]
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def name_of(path):
    return str(path.relative_to(ROOT))


def blocks(page):
    """(language, text) of the fenced blocks, in order."""
    return FENCE.findall(page.read_text(encoding="utf-8"))


def environment():
    paths = [str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}


RUN = [page for page in PAGES if any(kind in ("python", "sh") for kind, _ in blocks(page))]


@pytest.mark.parametrize("page", RUN, ids=name_of)
def test_the_blocks_of_a_page_run_and_print_what_it_says(page, tmp_path, monkeypatch):
    if "river" in page.name:
        pytest.importorskip("river")
    monkeypatch.chdir(tmp_path)
    scope = {"__name__": "page"}
    found = [*blocks(page), ("", "")]
    for (kind, text), (following, expected) in pairwise(found):
        if kind == "python":
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                exec(compile(text, str(page), "exec"), scope)
            if following == "text":
                assert out.getvalue() == expected, text
        elif kind == "sh":
            for line in text.splitlines():
                words = shlex.split(line)
                assert words[0] == "pronk"
                command = [sys.executable, "-m", *words]
                result = subprocess.run(command, capture_output=True, text=True, env=environment())
                assert result.returncode == 0, result.stderr


def test_the_gallery_has_five_examples():
    assert len(EXAMPLES) == 5


@pytest.mark.parametrize("script", EXAMPLES, ids=name_of)
def test_an_example_runs_and_draws(script, tmp_path):
    pytest.importorskip("matplotlib")
    image = tmp_path / "figure.png"
    runner = DOCS / "extensions" / "run_example.py"
    command = [sys.executable, str(runner), str(script), str(image)]
    result = subprocess.run(command, capture_output=True, text=True, env=environment())
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip()
    assert image.stat().st_size > 5000


@pytest.mark.parametrize(
    "page", [*PAGES, ROOT / "README.md", ROOT / "CONTRIBUTING.md"], ids=name_of
)
def test_links_lead_to_files(page):
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        target = link.split("#")[0]
        if not target or "://" in target or "generated/" in target:
            continue  # what the build makes, the build checks
        base = DOCS if target.startswith("/") else page.parent
        assert (base / target.lstrip("/")).exists(), f"{page.name}: {link}"


def test_the_errata_name_tests_that_exist():
    text = (DOCS / "errata.md").read_text(encoding="utf-8")
    file = None
    named = re.findall(r"`([\w/]+\.py)?::(\w+)`", text)
    assert len(named) > 30
    for path, function in named:
        file = path or file
        source = (ROOT / "tests" / file).read_text(encoding="utf-8")
        assert f"def {function}(" in source, f"{file}::{function}"
