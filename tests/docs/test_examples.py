"""Run the documentation: blocks of code, commands, examples, links, names of tests."""

import ast
import base64
import contextlib
import importlib
import io
import json
import os
import pydoc
import re
import runpy
import shlex
import subprocess
import sys
import tomllib
from itertools import pairwise
from pathlib import Path

import pytest

import pronk
from pronk.cli import main

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
PAGES = [
    path
    for path in sorted(DOCS.rglob("*.md"))
    if not {"generated", "_build", "results"} & set(path.relative_to(DOCS).parts)
]
ERRATA = (DOCS / "errata.md").read_text(encoding="utf-8")
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def name_of(path):
    return str(path.relative_to(ROOT))


def blocks(page):
    """(language, text) of the fenced blocks, in order."""
    return FENCE.findall(page.read_text(encoding="utf-8"))


def environment():
    paths = [str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}


RUN = [
    page
    for page in [*PAGES, ROOT / "README.md"]
    if any(kind in ("python", "sh") for kind, _ in blocks(page))
]


#: Commands that start other processes, or do not end.
APART = {"serve"}


def run_command(arguments):
    """Run a command in this process; return its exit code and messages."""
    if APART & {*arguments}:
        command = [sys.executable, "-m", "pronk", *arguments]
        result = subprocess.run(command, capture_output=True, text=True, env=environment())
        return result.returncode, result.stderr
    if "compare" in arguments:
        arguments = [*arguments, "--workers", "1"]  # the same numbers, in this process
    out, err = io.StringIO(), io.StringIO()
    sent = contextlib.redirect_stdout(out), contextlib.redirect_stderr(err)
    with sent[0], sent[1], pytest.raises(SystemExit) as end:
        main(arguments)
    return end.value.code, err.getvalue()


#: Pages whose blocks take some seconds.
LONG = (
    "tutorial.md", "compare.md", "river.md", "forecast.md", "queue.md", "uncertainty.md",
    "messy.md", "save.md", "late.md",
)  # fmt: skip


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, id=name_of(page), marks=[pytest.mark.slow] * (page.name in LONG))
        for page in RUN
    ],
)
def test_the_blocks_of_a_page_run_and_print_what_it_shows(page, tmp_path, monkeypatch):
    for name in ("river", "mlflow", "pandas"):  # extras, and what is no dependency at all
        if re.search(rf"^(from|import) {name}\b", page.read_text(encoding="utf-8"), re.MULTILINE):
            pytest.importorskip(name)
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
                code, err = run_command(words[1:])
                assert code == 0, f"{line}: {err}"


def test_the_gallery_has_five_examples():
    assert len(EXAMPLES) == 5


@pytest.mark.slow  # `make docs` runs them too
@pytest.mark.parametrize("script", EXAMPLES, ids=name_of)
def test_an_example_runs_and_draws(script):
    pytest.importorskip("matplotlib")
    pages = runpy.run_path(str(DOCS / "extensions" / "pages.py"))
    (output,) = pages["run"](script.name, [script.read_text(encoding="utf-8")])
    assert output["printed"].strip()
    assert len(base64.b64decode(output["drawn"])) > 5000


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
        path = base / target.lstrip("/")
        if path.parent == DOCS / "results":
            path = path.with_suffix(".json")  # from which the build makes the page
            assert page.parent != ROOT, f"{page.name} is read where nothing is built: {link}"
        assert path.exists(), f"{page.name}: {link}"


def test_the_examples_of_deployment_are_what_the_service_reads():
    yaml = pytest.importorskip("yaml")
    folder = ROOT / "examples" / "deploy"
    texts = {path.name: path.read_text(encoding="utf-8") for path in folder.iterdir()}
    calls = (ROOT / "src/pronk/serve/http/app.py").read_text(encoding="utf-8")
    options = (ROOT / "src/pronk/cli/serve.py").read_text(encoding="utf-8")
    parsed = [*yaml.safe_load_all(texts["kubernetes.yaml"]), yaml.safe_load(texts["compose.yaml"])]
    settings = [parsed[0]["data"]["pronk.toml"], parsed[-1]["configs"]["pronk"]["content"]]
    for text in texts.values():
        for path in re.findall(r"/v2/health/\w+", text):
            assert f'"{path}"' in calls
        for name in re.findall(r"PRONK_SERVE_(\w+)", text):
            assert re.search(rf'["\s]{name.lower()}["\s:]', options), name
    for text in settings:
        for name in tomllib.loads(text):
            assert f'"{name.replace("-", "_")}"' in options, name


def test_every_public_name_is_in_the_reference():
    reference = "".join(path.read_text(encoding="utf-8") for path in (DOCS / "api").glob("*.md"))
    for package in ("evaluate", "regret", "report", "data"):
        for name in importlib.import_module(f"pronk.{package}").__all__:
            named = re.search(rf"\bpronk\.({package}\.)?{name}\b", reference)
            assert named, f"pronk.{package}.{name}"
    kept = [name for name in pronk.__all__ if not name.endswith(("Regressor", "Classifier"))]
    for name in {*kept} - {"__version__", "KernelPerceptron"}:  # learners have pages of their own
        assert f":: pronk.{name}\n" in reference, name


def test_every_algorithm_has_its_row_by_memory():
    text = (DOCS / "which.md").read_text(encoding="utf-8")
    lines = text.partition("## By memory")[2].partition("## By loss")[0].splitlines()
    algorithms, rows = pronk.algorithms(), {}
    for line in lines:
        names = [name for name in re.findall(r"`([\w+-]+)`", line) if name in algorithms]
        rows |= dict.fromkeys(names, line.split("|")[1].strip() if names else "")
    assert set(rows) == set(algorithms)
    for name, kind in rows.items():
        if kind == "constant":
            assert algorithms[name].bounded, name
        elif kind.startswith("grows"):
            assert not algorithms[name].bounded, name


def test_the_page_of_exit_codes_quotes_a_real_message(tmp_path, monkeypatch):
    (_, rows), (_, message) = blocks(DOCS / "api" / "exit-codes.md")[:2]
    (tmp_path / "job.csv").write_text(rows, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert run_command(["run", "job.csv", "--target", "y", "--strict"]) == (2, message)


def test_the_ratios_of_boosting_are_those_of_the_page_of_streams():
    """docs/why.md quotes docs/results/streams.json, made by benchmarks/bench_streams.py."""
    made = json.dumps(json.loads((DOCS / "results/streams.json").read_text(encoding="utf-8")))
    text = (DOCS / "why.md").read_text(encoding="utf-8").partition("## Compared with retrained")[2]
    rows = re.findall(r"^\| 14 .* \| ([\d.]+) \| ([\d.]+) \| (\d+) of 14 \|$", text, re.MULTILINE)
    assert len(rows) == 2
    for name, (whole, last, first) in zip(("Sets", "Streams"), rows, strict=True):
        ratio = rf"\*\*{name}, all rows\*\*: .{{,90}}mean: {whole} \(\d+\)\. First on {first} of 14"
        assert re.search(ratio, made), name
        assert re.search(rf"\*\*{name}, the last quarter\*\*: .{{,90}}mean: {last} ", made), name


def test_the_ratios_of_other_learners_are_those_of_the_page_of_the_default_learner():
    """Pages quote the first list of ratios in docs/results/default.json, of all sets."""
    made = json.loads((DOCS / "results/default.json").read_text(encoding="utf-8"))
    line = next(part for part in made if str(part).startswith("Geometric mean of the others'"))
    found = dict(re.findall(r"([A-Za-z][\w -]*) ([\d.]+) \(\d+\)", line))
    kinds = {
        "linear,": "linear", "(AMF)": "AMF", "(ARF)": "ARF", "(HAT)": "HAT", "SGD,": "SGD",
        "Vowpal": "VW", "| 5 nearest": "kNN", "(SGBT)": "SGBT", "(SRP)": "SRP",
        "CapyMOA: 3 nearest": "kNN of MOA", "the last target": "last",
    }  # fmt: skip
    page = (DOCS / "benchmarks.md").read_text(encoding="utf-8")
    rows = re.findall(r"^(\| [^|]*) \| (\d+\.\d\d) \| \d+ \|$", page, re.MULTILINE)
    assert len(rows) == len(kinds)
    for text, ratio in rows:
        (kind,) = (kind for words, kind in kinds.items() if words in text)
        assert ratio == found[kind], text
    one = r"(\d\.\d)"
    quotes = {
        ("README.md", "SGBT", "AMF", "ARF"): rf"factor of {one} .*, {one} \(.* and {one} \(",
        ("docs/why.md", "AMF", "ARF", "linear"): rf"AMF {one}, ARF {one}; linear {one} \|",
        ("docs/why.md", "SGD", "VW"): rf"SGD {one} \| {one} \|",
        ("docs/why.md", "SGBT", "kNN of MOA"): rf"SGBT {one}, kNN {one} \|",
        ("joss/paper.md", "AMF", "SGBT", "SGD"): rf"of {one} \(.*, {one} \(.*\)\sand {one} \(",
    }
    for (name, *quoted), pattern in quotes.items():
        match = re.search(pattern, (ROOT / name).read_text(encoding="utf-8"))
        assert match, (name, pattern)
        for kind, ratio in zip(quoted, match.groups(), strict=True):
            assert abs(float(ratio) - float(found[kind])) < 0.051, (name, kind)


def test_the_errata_name_tests_that_exist():
    file = None
    named = re.findall(r"`([\w/]+\.py)?::(\w+)`", ERRATA)
    assert len(named) > 40
    for path, function in named:
        file = path or file
        source = (ROOT / "tests" / file).read_text(encoding="utf-8")
        assert f"def {function}(" in source, f"{file}::{function}"


def test_every_entry_of_the_errata_shows_something():
    """A test, the entry above ("the same"), or a page."""
    rows = [line for line in ERRATA.splitlines() if line.startswith("|")]
    rows = [line for line in rows if not re.match(r"\| (?:printed|found) |\|:--", line)]
    assert len(rows) > 35
    for row in rows:
        shown = re.split(r"(?<!\\)\|", row)[-2].strip()
        assert "::" in shown or shown == "the same" or ".md" in shown, row


def test_the_tests_written_for_the_errata_are_cited_there():
    source = (ROOT / "tests" / "docs" / "test_errata.py").read_text(encoding="utf-8")
    for name in re.findall(r"^def (test_\w+)\(", source, re.MULTILINE):
        assert f"::{name}`" in ERRATA, name


def test_every_update_is_set_as_a_formula():
    """Each block of formulas in `docs/extensions/formulas.py` stands for one of its docstring."""
    sys.path.insert(0, str(DOCS / "extensions"))
    try:
        formulas = importlib.import_module("formulas").FORMULAS
        reference = importlib.import_module("formulas").REFERENCE
        paragraphs = importlib.import_module("docstrings").paragraphs
    finally:
        sys.path.remove(str(DOCS / "extensions"))
    files = {path.stem: path for path in (ROOT / "src/pronk/estimators/algorithms").glob("*.py")}
    for name in files.keys() - {"__init__"}:
        text = ast.get_docstring(ast.parse(files[name].read_text(encoding="utf-8"))) or ""
        blocks = [part for part in paragraphs(text) if part.startswith("    ")]
        assert bool(blocks) == (name in formulas), name
        assert len(formulas.get(name, [])) <= len(blocks), name
    assert set(formulas) <= set(files)
    for name, several in reference.items():
        text = (pydoc.locate(name) or importlib.import_module(name)).__doc__ or ""
        blocks = [part for part in paragraphs(text) if part.startswith("    ")]
        assert len(several) <= len(blocks), name
