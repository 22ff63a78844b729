"""Files of the repository that repeat each other: versions, dependencies, targets, Pythons."""

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import pronk
from tools import oldest

ROOT = Path(__file__).parents[1]
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT = SETTINGS["project"]
yaml = pytest.importorskip("yaml")


def read(name):
    return yaml.safe_load((ROOT / name).read_text(encoding="utf-8"))


def test_every_place_has_the_version():
    assert read("CITATION.cff")["version"] == pronk.__version__
    assert read("conda/recipe.yaml")["context"]["version"] == pronk.__version__
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.search(rf"^## {re.escape(pronk.__version__)}\b", changes, re.MULTILINE)


def test_the_conda_recipe_has_the_dependencies():
    listed = [text.replace(" ", "") for text in read("conda/recipe.yaml")["requirements"]["run"]]
    wanted = [f"python{PROJECT['requires-python']}", *PROJECT["dependencies"]]
    assert [str(Requirement(text)) for text in listed] == [str(Requirement(t)) for t in wanted]


def test_the_workflow_calls_targets_of_the_makefile():
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M)
    jobs = read(".github/workflows/ci.yml")["jobs"]
    called = jobs["target"]["strategy"]["matrix"]["target"]
    assert set(called) <= set(targets) and "test" in targets
    everything = re.search(r"for target in (.*); do", (ROOT / ".ci/run").read_text("utf-8"))
    assert set(everything.group(1).split()) <= set(called)


def test_the_workflow_runs_every_declared_python():
    declared = re.findall(r"Python :: (3\.\d+)", "\n".join(PROJECT["classifiers"]))
    jobs = read(".github/workflows/ci.yml")["jobs"]
    # The workflow tries one more, which is declared when it has passed.
    assert jobs["test"]["strategy"]["matrix"]["python"] == [*declared, "3.14"]
    assert PROJECT["requires-python"] == f">={declared[0]}"
    assert SETTINGS["tool"]["mypy"]["python_version"] == declared[0]
    (setup,) = (step["with"] for step in jobs["target"]["steps"] if "python-version" in str(step))
    assert setup["python-version"] == declared[0]
    span = f"{declared[0]} to {declared[-1]}"
    said = {"CHANGELOG.md": f"Python {span}", "docs/backcompat.md": f"| Python | {span} |"}
    for name in ("README.md", "CONTRIBUTING.md", "Makefile", "docs/index.md", "docs/tutorial.md"):
        said[name] = f"{declared[0]} or newer"
    for name, words in said.items():
        assert words in (ROOT / name).read_text(encoding="utf-8"), name


def test_every_dependency_has_a_lower_bound():
    """So that `make oldest` tests what pyproject.toml promises."""
    bounds = oldest.oldest()
    for text in PROJECT["dependencies"]:
        assert Requirement(text).name in bounds
    tested = (ROOT / "constraints.txt").read_text(encoding="utf-8").lower()
    assert [
        name for name in bounds if f"\n{name.replace('-', '_')}==" not in tested.replace("-", "_")
    ] == []


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text(encoding="utf-8").split()) < 700
