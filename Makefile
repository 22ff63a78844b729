# Needs python3 (3.11 or newer) with venv, and make; everything else goes into .venv.

PYTHON ?= python3
VENV   ?= .venv
JOBS   ?= 2
EVERY  ?= 0

# What `make coverage` runs as plain Python, a hundred times slower than compiled code: the tests
# nearest to compiled code, each for at most PLAIN_SECONDS of CPU time.
COVERED ?= tests/core tests/newton tests/first_order tests/aggregate/test_default_parts.py \
    tests/aggregate/test_online_kernel.py tests/data/test_stream_preparing.py \
    tests/aggregate/test_one_row.py tests/estimators/test_weights.py
PLAIN_SECONDS ?= 2

SCRIPTS := $(if $(filter Windows_NT,$(OS)),Scripts,bin)
BIN   := $(VENV)/$(SCRIPTS)
STAMP := $(VENV)/.installed
DIST  := dist

# The build backend is pinned too; a pip that does not know the setting ignores it.
export PIP_BUILD_CONSTRAINT := constraints.txt
export PIP_DISABLE_PIP_VERSION_CHECK := 1

# PRONK_DATA, if set, is the directory of the benchmark data sets; tests that need
# them are skipped without it.

.DEFAULT_GOAL := help
.PHONY: help install demo test testall oldest bare doctest docs lint format bench soak mutants fingerprints coverage spark sktime dist clean

help: ## list the targets
	@grep -E '^[a-z]+:.*## ' $(firstword $(MAKEFILE_LIST)) | sed -E 's/^([a-z]+):.*## (.*)/  make \1\t\2/' | expand -t 22

install: $(STAMP) ## create .venv and install pronk with its tools into it

$(STAMP): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet -e ".[dev,docs,river]" -c constraints.txt
	touch $@

# One thread everywhere where time is measured or two processes share two cores.
TIMED := test testall oldest bare doctest docs bench soak mutants fingerprints coverage spark sktime
$(TIMED): export OPENBLAS_NUM_THREADS := 1
$(TIMED): export OMP_NUM_THREADS := 1
$(TIMED): export MKL_NUM_THREADS := 1
$(TIMED): export NUMBA_NUM_THREADS := 1

# Every process that a test starts would compile the sources again.
test testall oldest bare doctest spark sktime: export PYTHONDONTWRITEBYTECODE :=

demo: $(STAMP) ## the main job on a generated file, ending with the command for your own
	$(BIN)/pronk demo

# The cache is filled by one process first, or every worker would compile everything for itself.
WARMUP = -c "import pronk; pronk.warmup()"
PYTEST = -m pytest -n $(JOBS) --dist worksteal --doctest-modules
FAST   = -m "not matrix and not slow"

test: $(STAMP) ## run the tests and the examples in the docstrings
	$(BIN)/python $(WARMUP)
	$(BIN)/python $(PYTEST) $(FAST) tests src/pronk papers

testall: $(STAMP) ## the same with the tests marked slow or matrix
	$(BIN)/python $(WARMUP)
	$(BIN)/python $(PYTEST) tests src/pronk papers

# Two environments of their own, so that .venv stays as it is.
oldest: ## run the tests with the oldest supported versions of all dependencies
	test -x $(VENV)-oldest/$(SCRIPTS)/python || $(PYTHON) -m venv $(VENV)-oldest
	$(VENV)-oldest/$(SCRIPTS)/python -m pip install --quiet packaging
	$(VENV)-oldest/$(SCRIPTS)/python -m tools.oldest > $(VENV)-oldest/constraints.txt
	$(VENV)-oldest/$(SCRIPTS)/python -m pip install --quiet -e ".[data,papers,river,serve,sql,test]" \
	    adbc-driver-sqlite -c $(VENV)-oldest/constraints.txt
	$(VENV)-oldest/$(SCRIPTS)/python $(WARMUP)
	$(VENV)-oldest/$(SCRIPTS)/python $(PYTEST) $(FAST) tests

bare: ## run the tests without the optional extras; what needs one is skipped
	test -x $(VENV)-bare/$(SCRIPTS)/python || $(PYTHON) -m venv $(VENV)-bare
	$(VENV)-bare/$(SCRIPTS)/python -m pip install --quiet -e ".[test]" -c constraints.txt
	$(VENV)-bare/$(SCRIPTS)/python $(WARMUP)
	PRONK_TEST_BARE=1 $(VENV)-bare/$(SCRIPTS)/python $(PYTEST) $(FAST) tests

# PySpark and nothing else is installed, beside .venv; the rest is that of .venv.
spark: $(STAMP) ## run the tests with Spark, which need Java
	test -d $(VENV)-spark/pyspark || $(BIN)/python -m pip install --quiet --no-deps \
	    --target $(VENV)-spark pyspark py4j -c constraints.txt
	PYTHONPATH=$(abspath $(VENV)-spark) $(BIN)/python -m pytest -q tests/spark

# sktime and nothing else, in the same way.
sktime: $(STAMP) ## run the checks of sktime
	test -d $(VENV)-sktime/sktime || $(BIN)/python -m pip install --quiet --no-deps \
	    --target $(VENV)-sktime sktime scikit-base -c constraints.txt
	PYTHONPATH=$(abspath $(VENV)-sktime) $(BIN)/python -m pytest -q tests/compat/test_sktime.py

doctest: $(STAMP) ## run only the examples in the docstrings
	$(BIN)/python $(PYTEST) src/pronk papers

docs: $(STAMP) ## the documentation site in docs/_build/html; a warning is an error
	$(BIN)/python -m sphinx -W --keep-going -q -j auto -b html docs docs/_build/html
	@echo "docs/_build/html/index.html"

lint: $(STAMP) ## ruff, mypy, and the layers with import-linter
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

format: $(STAMP) ## let ruff rewrite the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(STAMP) ## run every benchmarks/bench_*.py
	@set -e; for script in benchmarks/bench_*.py; do \
	    printf '\n== %s\n' "$$script"; $(BIN)/python "$$script"; \
	done

soak: $(STAMP) ## run the long reliability tests (benchmarks/soak.py)
	$(BIN)/python benchmarks/soak.py

mutants: $(STAMP) ## change the code on purpose, list changes that no test notices (long; EVERY=7: more)
	$(BIN)/python -m tools.mutants --every $(EVERY)

fingerprints: $(STAMP) ## digests of what every learner predicts and saves (AGAINST=old.json: what differs)
	PYTHONPATH=tests $(BIN)/python -m tools.fingerprints --out fingerprints.json $(if $(AGAINST),--against $(AGAINST))

# Two runs put together: compiled functions as plain Python, so that their lines count (some tests of
# exact bits fail then), and all tests as they are.
coverage: $(STAMP) ## lines that no test runs, in htmlcov/ (long)
	rm -f .coverage .coverage.*
	-NUMBA_DISABLE_JIT=1 PRONK_TEST_SECONDS=$(PLAIN_SECONDS) \
	    $(BIN)/coverage run --data-file=.coverage.plain -m pytest -q $(COVERED)
	-$(BIN)/coverage run --data-file=.coverage.compiled -m pytest -q --doctest-modules tests src/pronk
	$(BIN)/coverage combine
	$(BIN)/coverage report
	$(BIN)/coverage html -q

# Build both archives, install each into an empty environment, use it from there.
dist: $(STAMP) ## wheel and sdist in dist/, each tried in an empty environment
	rm -rf $(DIST)
	$(BIN)/python -m build --no-isolation --outdir $(DIST) .
	@set -e; root=$$(pwd); \
	temporary=$$(mktemp -d); trap 'rm -rf "$$temporary"' EXIT; \
	for archive in $(DIST)/pronk-*.whl $(DIST)/pronk-*.tar.gz; do \
	    printf '\n== %s in an empty environment\n' "$$archive"; \
	    rm -rf "$$temporary/venv"; \
	    $(PYTHON) -m venv "$$temporary/venv"; \
	    "$$temporary/venv/$(SCRIPTS)/python" -m pip install --quiet "$$archive" -c constraints.txt; \
	    ( cd "$$temporary"; \
	      venv/$(SCRIPTS)/pronk --version; \
	      venv/$(SCRIPTS)/python "$$root/.ci/smoke.py" ); \
	done

clean: ## remove caches and built files (not .venv)
	rm -rf build $(DIST) docs/_build docs/generated docs/results/*.md .mypy_cache .pytest_cache .ruff_cache .hypothesis \
	    .import_linter_cache .numba_cache .coverage htmlcov
	find . -path './$(VENV)*' -prune -o -type d -name __pycache__ -exec rm -rf {} +
