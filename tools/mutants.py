"""`make mutants`: change the code on purpose and see whether a test notices (long; not in CI).

    python -m tools.mutants                     the named changes
    python -m tools.mutants --every 7           and every 7th change of each compiled module
    python -m tools.mutants --file parts/losses.py --every 1
    python -m tools.mutants --file engines/default/mixing.py --every 5 --plain

Works on a copy of the tree, with its warm caches; only the tests of the changed module are run. A
mutant that no test notices is a survivor; docs/reliability.md says which known ones are equivalent.
``--plain`` compiles nothing (NUMBA_DISABLE_JIT=1), which is the faster way where the tests are
short; tests that are not are stopped after some seconds (tools.plain).
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
    "parts/losses.py": ("tests/parts/test_losses.py",),
    "parts/elementary.py": ("tests/parts/test_elementary.py",),
    "parts/distances.py": ("tests/parts/test_kernels.py",),
    "parts/kernels.py": ("tests/parts/test_kernels.py", "tests/parts/test_embeddings.py"),
    "parts/embeddings.py": ("tests/parts/test_embeddings.py", "tests/parts/test_kernels.py"),
    "parts/quantiles.py": ("tests/streams/test_stream_preparing.py",),
    "parts/linalg.py": ("tests/parts/test_linalg.py",),
    "parts/panels.py": ("tests/parts/test_linalg.py",),
    "parts/fixed_scale.py": ("tests/parts/test_fixed_scale.py",),
    "parts/blas.py": ("tests/parts/test_linalg.py", "tests/parts/test_threads.py"),
    "parts/rules.py": ("tests/parts/test_dictionaries.py",),
    "parts/dictionaries.py": ("tests/parts/test_dictionaries.py",),
    "parts/leverage.py": ("tests/test_naive_twins.py", "tests/regret/test_regret_bounds.py"),
    "engines/newton/recurrence.py": ("tests/engines/test_newton.py", "tests/learners/test_kons.py"),
    "engines/newton/triangle.py": ("tests/engines/test_newton.py",),
    "engines/newton/learner.py": (
        "tests/engines/test_newton.py",
        "tests/engines/test_split.py",
        "tests/learners/test_certificate.py",
    ),
    "engines/newton/certificate.py": ("tests/learners/test_certificate.py",),
    "engines/newton/bank.py": ("tests/learners/test_certificate.py", "tests/learners/test_kons.py"),
    "engines/newton/span.py": ("tests/learners/test_awv.py", "tests/learners/test_certificate.py"),
    "engines/newton/krls.py": ("tests/learners/test_krls.py",),
    "engines/newton/onerow.py": ("tests/learners/test_one_row.py",),
    "engines/gradient.py": ("tests/learners/test_gradient.py",),
    "engines/dual/steps.py": ("tests/learners/test_dual.py",),
    "engines/dual/sgd.py": ("tests/learners/test_dual.py",),
    "engines/dual/joint.py": ("tests/learners/test_dual.py",),
    "engines/expansion/rows.py": ("tests/learners/test_expansion.py",),
    "engines/expansion/updates.py": ("tests/learners/test_expansion.py",),
    "engines/expansion/support.py": ("tests/learners/test_expansion.py",),
    "engines/expansion/forgetron.py": ("tests/learners/test_expansion.py",),
    "engines/expansion/projectron.py": ("tests/learners/test_expansion.py",),
    "engines/expansion/merging.py": ("tests/learners/test_expansion.py",),
    "engines/default/mixing.py": ("tests/engines/test_default_parts.py",),
    "engines/default/mixture.py": ("tests/engines/test_default_parts.py",),
    "engines/default/combination.py": ("tests/engines/test_combination.py",),
    "engines/default/intervals.py": ("tests/engines/test_default_parts.py",),
    "engines/default/temperature.py": ("tests/engines/test_default_parts.py",),
    "engines/default/spread.py": (
        "tests/engines/test_default_parts.py",
        "tests/learners/test_online_kernel.py",
    ),
    "engines/default/stacks.py": ("tests/engines/test_default_parts.py",),
    "engines/default/guard.py": ("tests/engines/test_default_parts.py",),
    "engines/default/lines.py": ("tests/engines/test_default_parts.py",),
    "engines/default/signs.py": ("tests/engines/test_default_parts.py",),
    "engines/default/guesses.py": ("tests/engines/test_default_parts.py",),
    "engines/default/discounted.py": ("tests/engines/test_default_parts.py",),
    "engines/default/onerow.py": ("tests/learners/test_one_row.py",),
    "regret/bounds/awv.py": ("tests/regret/test_regret_bounds.py",),
    "regret/bounds/kons.py": ("tests/regret/test_regret_bounds.py",),
    "regret/bounds/kors.py": ("tests/regret/test_regret_bounds.py",),
    "regret/bounds/pros_n_kons.py": ("tests/regret/test_regret_bounds.py",),
    "regret/bounds/dimensions.py": ("tests/regret/test_regret_bounds.py",),
}


PACKAGE = ROOT / "src" / "pronk"


def compiled_modules() -> list[str]:
    """The files with compiled code that are not in the table; the laws are their tests."""
    paths = sorted((*PACKAGE.glob("parts/*.py"), *PACKAGE.glob("engines/**/*.py")))
    found = [str(path.relative_to(PACKAGE)) for path in paths if "@njit" in path.read_text()]
    return [file for file in found if file not in TESTS]


def chosen(files: list[str], every: int, named: bool, first: int = 0) -> list[Mutant]:
    """The named mutants, and every so many-th of each file's own, from one of them on."""
    found = [mutant for mutant in NAMED if not files or mutant.file in files] if named else []
    for file in files or [*TESTS, *compiled_modules()]:
        tests = TESTS.get(file, ("tests/laws/test_laws.py",))
        if every:
            found += list(mutants_of(file, (PACKAGE / file).read_bytes(), tests))[first::every]
    return found


def copy_tree(place: Path) -> Path:
    """What the tests need, in another place."""
    for name in ("src", "papers", "tools", "tests", "docs", "examples", "benchmarks"):
        shutil.copytree(ROOT / name, place / name, ignore=shutil.ignore_patterns("_build"))
    for name in ("pyproject.toml", "README.md", "CONTRIBUTING.md", "Makefile"):
        shutil.copy(ROOT / name, place / name)
    return place


def survives(mutant: Mutant, tree: Path, seconds: float, plain: bool) -> bool:
    """Whether the tests pass with the change; a test that no longer ends has noticed it."""
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
