"""Print the lower bounds of pyproject.toml as constraints: the oldest versions that pronk supports.

    python -m tools.oldest > oldest.txt

`make oldest` installs with them and runs the tests. A requirement without a bound, or one of
another system or Python, is left out.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from packaging.markers import default_environment
from packaging.requirements import Requirement

PROJECT = Path(__file__).parents[1] / "pyproject.toml"


def requirements() -> list[Requirement]:
    """Return the requirements of the package and all its extras."""
    project = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]
    texts = [*project["dependencies"]]
    for extra in project["optional-dependencies"].values():
        texts += extra
    return [Requirement(text) for text in texts]


def oldest() -> dict[str, str]:
    """Return the lower bound of every requirement of this system by its name."""
    found: dict[str, str] = {}
    environment = {**default_environment(), "extra": ""}
    for requirement in requirements():
        if requirement.marker and not requirement.marker.evaluate(environment):
            continue
        bounds = [each.version for each in requirement.specifier if each.operator == ">="]
        if bounds and requirement.name != "pronk":
            found[re.sub(r"[-_.]+", "-", requirement.name).lower()] = bounds[0]
    return found


def main() -> None:
    for name, version in sorted(oldest().items()):
        print(f"{name}=={version}")


if __name__ == "__main__":
    main()
