# One command each; .ci/run calls the same ones. `make help` lists them.
#
# Everything runs in .venv, made from PYTHON (3.11 or newer). What is installed there is remembered
# in stamp files, so a second call installs nothing; change pyproject.toml or constraints.txt and
# the next call installs again.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
# Arguments to add on the command line: make test ARGS="-k newton -x", make bench ARGS=--quick
ARGS ?=
TEST_WORKERS ?= 2

# Two test processes share two cores: nested pools of threads would only fight over them.
export OMP_NUM_THREADS ?= 1
export OPENBLAS_NUM_THREADS ?= 1
# Tests start many processes; without bytecode on disk each would compile the whole package again.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help install demo test test-all test-oldest coverage lint format types docs docs-serve bench bench-against \
        readme pictures experiments constraints dist test-dist release clean

help: ## List the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 16

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "Crossfade needs Python 3.11 or newer; name one: make PYTHON=python3.12 ..." >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

# .venv/.has-X says that the extra X is installed, at the pinned versions.
$(VENV)/.has-%: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) install --quiet --constraint constraints.txt --editable '.[$*]'
	@touch $@

# The extra dev holds all others, so nothing more is installed after it.
install: $(VENV)/.has-dev ## Make .venv with everything that tests, benchmarks, lint and docs need
	@touch $(addprefix $(VENV)/.has-,cli test bench lint docs)

demo: $(VENV)/.has-cli ## Install what the command line needs and compare models on a bundled data set
	$(BIN)/crossfade compare breast-cancer --splits 8 $(ARGS)

test: $(VENV)/.has-test ## Install the test extra and run the tests, docstring examples included
	$(BIN)/python -m pytest -n $(TEST_WORKERS) --dist worksteal $(ARGS)

test-all: $(VENV)/.has-test ## The same with the simulations that take many seconds, which `make test` leaves out
	$(BIN)/python -m pytest -n $(TEST_WORKERS) --dist worksteal -m "slow or not slow" $(ARGS)

test-oldest: ## Run every test with the oldest dependency versions that pyproject.toml admits
	$(PYTHON) -m venv --clear .venv-oldest
	$(PYTHON) tools/oldest.py > .venv-oldest/constraints.txt
	.venv-oldest/bin/python -m pip install --quiet --constraint .venv-oldest/constraints.txt --editable '.[test]'
	.venv-oldest/bin/python -m pytest -n $(TEST_WORKERS) --dist worksteal $(ARGS)

coverage: $(VENV)/.has-test $(VENV)/.has-coverage ## Run every test and print which lines none of them reaches
	$(BIN)/python -m pytest -n $(TEST_WORKERS) --dist worksteal -m "slow or not slow" --cov --cov-report=term:skip-covered $(ARGS)

lint: $(VENV)/.has-lint ## Check style and formatting
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: $(VENV)/.has-lint ## Mend style and formatting
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

types: $(VENV)/.has-lint ## Check types
	$(BIN)/mypy

docs: $(VENV)/.has-docs ## Build the documentation into site/, warnings being errors
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet $(ARGS)

docs-serve: $(VENV)/.has-docs ## Serve the documentation on this machine while it is written
	$(BIN)/mkdocs serve $(ARGS)

# Some machines force an old OpenBLAS kernel; a benchmark must see the one the processor deserves.
# It chooses its threads itself and states them.
bench: $(VENV)/.has-bench ## Time Crossfade against other libraries and print the ratios
	env -u OPENBLAS_CORETYPE -u OPENBLAS_L2_SIZE -u OMP_NUM_THREADS -u OPENBLAS_NUM_THREADS \
	  $(BIN)/python -m benchmarks $(ARGS)

REF ?= main
bench-against: $(VENV)/.has-bench ## Time the working tree against another commit, REF=main, in one run
	env -u OPENBLAS_CORETYPE -u OPENBLAS_L2_SIZE -u OMP_NUM_THREADS -u OPENBLAS_NUM_THREADS \
	  $(BIN)/python tools/bench_against.py $(REF) $(ARGS)

readme: $(VENV)/.has-test ## Run the commands and examples of README.md and docs/, and write their output there
	$(BIN)/python tools/render_examples.py README.md docs/*.md docs/guide/*.md docs/experiments/*.md

EXPERIMENTS ?= bouchard-triggs-table bouchard-triggs-figure ng-jordan regimes efficiency
experiments: $(VENV)/.has-test ## Repeat the published experiments (10 minutes) and show the results in docs/experiments/
	for name in $(EXPERIMENTS); do \
	  $(BIN)/python -m reproduction $$name --out docs/experiments/results $(ARGS) || exit; \
	done
	$(BIN)/python tools/render_examples.py docs/experiments/*.md

pictures: $(VENV)/.has-test ## Make the documentation's pictures of the page (needs chromium)
	$(BIN)/python tools/picture_report.py

constraints: ## Install the newest versions of everything in a fresh place and pin them
	$(PYTHON) -m venv --clear build/constraints
	build/constraints/bin/python -m pip install --quiet --editable '.[dev,coverage,release]'
	@{ sed '/^[^#]/,$$d' constraints.txt; \
	   build/constraints/bin/python -m pip freeze --exclude-editable | grep -E '^[A-Za-z0-9._-]+==[^ ;]+$$'; \
	 } > build/constraints.txt && mv build/constraints.txt constraints.txt
	@rm -rf build/constraints

dist: $(VENV)/.has-release ## Build the wheel and the source archive into dist/, and check what they say of themselves
	rm -rf dist
	$(BIN)/python -m build --outdir dist
	$(BIN)/python -m twine check --strict dist/*

# What a person gets who has the archive and nothing else.
test-dist: ## Install the archive of dist/ in a fresh place and run the tests that it holds
	rm -rf build/dist && mkdir -p build/dist
	tar -x -z -C build/dist --strip-components 1 -f dist/*.tar.gz
	$(PYTHON) -m venv build/dist/.venv
	build/dist/.venv/bin/python -m pip --disable-pip-version-check install --quiet --constraint constraints.txt "$$(echo dist/*.whl)[test]"
	cd build/dist && rm -r src && .venv/bin/python -m pytest -n $(TEST_WORKERS) --dist worksteal tests $(ARGS)

release: ## Check version, change log and tag, build, and test what was built; publishing is the workflow's
	$(PYTHON) tools/release.py
	$(MAKE) dist test-dist

clean: ## Remove what the targets above made
	rm -rf $(VENV) .venv-oldest build dist site .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find src tests reproduction benchmarks tools -name __pycache__ -type d -prune -exec rm -rf {} +
