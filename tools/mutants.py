"""Change the code on purpose and check that a test fails (`make mutants`; long, not in CI).

    python -m tools.mutants                     the named changes
    python -m tools.mutants --every 7           and every 7th change of each compiled module
    python -m tools.mutants --file core/losses.py --every 1
    python -m tools.mutants --file aggregate/mixture.py --every 5 --plain

The tool works on a copy of the tree, with its warm caches, and runs only the tests of the changed
module. A mutant with which all tests pass is a survivor; docs/reliability.md lists the known ones
that are equivalent. ``--plain`` compiles nothing (NUMBA_DISABLE_JIT=1), which is faster where tests
are short; long tests are stopped after some seconds (tools.plain).
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tools.mutating import Mutant, mutants_of
from tools.named_mutants import NAMED

ROOT = Path(__file__).resolve().parents[1]

#: The modules with compiled code and the bounds, and the tests nearest to them.
TESTS: dict[str, tuple[str, ...]] = {
    "core/losses.py": ("tests/core/test_losses.py",),
    "core/elementary.py": ("tests/core/test_elementary.py",),
    "core/kernels.py": ("tests/core/test_kernels.py", "tests/core/test_features.py"),
    "core/features.py": ("tests/core/test_features.py", "tests/core/test_kernels.py"),
    "core/scales.py": ("tests/data/test_stream_preparing.py", "tests/core/test_fixed_scale.py"),
    "core/linalg.py": ("tests/core/test_linalg.py", "tests/core/test_blas_threads.py"),
    "core/dictionary.py": (
        "tests/core/test_dictionaries.py",
        "tests/test_naive_twins.py",
        "tests/regret/test_regret_bounds.py",
    ),
    "newton/recurrence.py": (
        "tests/newton/test_newton.py",
        "tests/newton/test_kons.py",
    ),
    "newton/engine.py": (
        "tests/newton/test_newton.py",
        "tests/parallel/test_split.py",
        "tests/newton/test_certificate.py",
    ),
    "newton/certificate.py": ("tests/newton/test_certificate.py", "tests/newton/test_kons.py"),
    "newton/exact.py": ("tests/newton/test_awv.py", "tests/newton/test_certificate.py"),
    "newton/krls.py": ("tests/newton/test_krls.py",),
    "first_order/gradient.py": ("tests/first_order/test_gradient.py",),
    "first_order/dual_svrg.py": ("tests/first_order/test_dual.py",),
    "first_order/dual_sgd.py": ("tests/first_order/test_dual.py",),
    "first_order/expansion.py": ("tests/first_order/test_expansion.py",),
    "first_order/support.py": ("tests/first_order/test_expansion.py",),
    "first_order/budgets.py": ("tests/first_order/test_expansion.py",),
    "aggregate/mixture.py": ("tests/aggregate/test_default_parts.py",),
    "aggregate/certificate.py": ("tests/aggregate/test_combination.py",),
    "aggregate/calibration.py": (
        "tests/aggregate/test_default_parts.py",
        "tests/aggregate/test_online_kernel.py",
    ),
    "aggregate/clipping.py": ("tests/aggregate/test_default_parts.py",),
    "aggregate/stacks.py": ("tests/aggregate/test_default_parts.py",),
    "aggregate/learner.py": ("tests/aggregate/test_default_parts.py",),
    "aggregate/baselines.py": ("tests/aggregate/test_default_parts.py",),
    "newton/discounted.py": ("tests/newton/test_discounted.py",),
    "newton/forecaster.py": ("tests/aggregate/test_online_kernel.py",),
    "aggregate/boosting.py": ("tests/aggregate/test_boosting.py",),
    "regret/bounds.py": ("tests/regret/test_regret_bounds.py",),
}


PACKAGE = ROOT / "src" / "pronk"


def compiled_modules() -> list[str]:
    """Return the files with compiled code that are not in the table; the laws are their tests."""
    paths = sorted(
        (
            *PACKAGE.glob("core/*.py"),
            *PACKAGE.glob("newton/*.py"),
            *PACKAGE.glob("first_order/*.py"),
            *PACKAGE.glob("aggregate/*.py"),
        )
    )
    found = [str(path.relative_to(PACKAGE)) for path in paths if "@compiled" in path.read_text()]
    return [file for file in found if file not in TESTS]


def chosen(files: list[str], every: int, named: bool, first: int = 0) -> list[Mutant]:
    """Return the named mutants, and every n-th mutant of each file."""
    found = [mutant for mutant in NAMED if not files or mutant.file in files] if named else []
    for file in files or [*TESTS, *compiled_modules()]:
        tests = TESTS.get(file, ("tests/laws/test_laws.py",))
        if every:
            found += list(mutants_of(file, (PACKAGE / file).read_bytes(), tests))[first::every]
    return found


def copy_tree(place: Path) -> Path:
    """Copy what the tests need to another folder."""
    for name in ("src", "papers", "tools", "tests", "docs", "examples", "benchmarks"):
        shutil.copytree(ROOT / name, place / name, ignore=shutil.ignore_patterns("_build"))
    for name in ("pyproject.toml", "README.md", "CONTRIBUTING.md", "Makefile"):
        shutil.copy(ROOT / name, place / name)
    return place


def survives(mutant: Mutant, tree: Path, seconds: float, plain: bool) -> bool:
    """Return whether the tests pass with the change; a test that does not end counts as failed."""
    path = tree / "src" / "pronk" / mutant.file
    source = path.read_bytes()
    path.write_bytes(mutant.apply(source))
    try:
        return tests_pass(mutant.tests, tree, seconds, plain)
    finally:
        path.write_bytes(source)


def tests_pass(tests: tuple[str, ...], tree: Path, seconds: float, plain: bool) -> bool:
    environment = os.environ | {"PYTHONPATH": str(tree / "src"), "OPENBLAS_NUM_THREADS": "1"}
    environment |= {"NUMBA_DISABLE_JIT": "1", "PRONK_TEST_SECONDS": "8"} if plain else {}
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests]
    try:
        run = subprocess.run(
            command, cwd=tree, env=environment, capture_output=True, timeout=seconds
        )
    except subprocess.TimeoutExpired:
        return False
    if run.returncode > 2:  # no tests, or a wrong call; a crash is negative, and notices too
        raise RuntimeError(run.stdout.decode()[-2000:] + run.stderr.decode()[-2000:])
    return run.returncode == 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--file", action="append", default=[], help="only this module (repeat)")
    parser.add_argument("--every", type=int, default=0, help="every N-th change; 0: named only")
    parser.add_argument("--first", type=int, default=0, help="the first of every N")
    parser.add_argument("--unnamed", action="store_true", help="without the named ones")
    parser.add_argument("--trust", action="store_true", help="the tests pass without a change")
    parser.add_argument("--plain", action="store_true", help="compile nothing")
    parser.add_argument("--seconds", type=float, default=600.0, help="most for one mutant")
    parser.add_argument("--out", type=Path, help="write the survivors as JSON")
    given = parser.parse_args()
    mutants = chosen(given.file, given.every, not given.unnamed, given.first)
    survivors = []
    with tempfile.TemporaryDirectory() as place:
        tree = copy_tree(Path(place))
        groups = dict.fromkeys(mutant.tests for mutant in mutants)
        for tests in () if given.trust else groups:
            if not tests_pass(tests, tree, 10 * given.seconds, given.plain):
                print(f"without any change these fail: {' '.join(tests)}")
                return 2
        for number, mutant in enumerate(mutants, 1):
            alive = survives(mutant, tree, given.seconds, given.plain)
            survivors += [mutant] if alive else []
            word = "SURVIVED" if alive else "noticed "
            print(f"{number:4d}/{len(mutants)} {word} {mutant.label}", flush=True)
    print(f"\n{len(mutants)} mutants, {len(survivors)} survived")
    if given.out:
        given.out.write_text(json.dumps([mutant.label for mutant in survivors], indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
