# make          the same as make train
# make train    measure this machine, plan, and train the digits network on two unequal devices
# make mri      draw a cohort of MRI scans, train on it on two unequal devices and on one, and report (about 20 minutes)
# make test     style, types, import rules, and the fast tests (about 4 minutes)
# make test-all the same, then an eighth of the slow tests and laws, drawn by landing and commit; ten landings run them all (about 25 minutes)
# make test-hosts tests on several hosts: network namespaces and a real Slurm, for root, where these are (about 10 minutes)
# make test-every all tests, with more examples of each law (about an hour and a half)
# make conformance compare every class of Keras with Keras itself (about two hours)
# make coverage what `make test-every` runs of the package, in lines and branches
# make docs     build the documentation site into docs/_build/html; a warning is an error
# PYTHON=...    the Python to make .venv with (3.10 to 3.13)

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
DOCS_STAMP := $(VENV)/.docs-installed
PYTHON ?=
export TF_CPP_MIN_LOG_LEVEL ?= 3
# the tests start many processes, each of which would else compile the package, and pytest its tests
unexport PYTHONDONTWRITEBYTECODE
TIMED := .ci/timed
PARALLEL := --numprocesses auto --maxprocesses 4 --dist worksteal
THOROUGH := -m pytest -q --hypothesis-profile=thorough
# tests of SIGTERM and of a full disk, which coverage's own handler and data files are in the way of
UNCOVERED := --deselect=tests/commands/test_main.py::test_a_signal_to_end_ends_like_an_interruption \
  --deselect=tests/commands/process/test_interruption.py::test_a_worker_interrupted_as_it_begins_to_serve_ends \
  --deselect=tests/commands/test_train.py::test_a_death_or_interruption_ends_in_one_sentence_and_leaves_nothing \
  --deselect=tests/commands/test_train.py::test_a_disk_that_is_full_while_saving_leaves_no_half_file

.DEFAULT_GOAL := train
.PHONY: train mri test test-all test-hosts test-every slow coverage conformance docs lint types imports compiled check install clean

train: $(STAMP)
	@$(BIN)/python -m tools.train

mri: $(STAMP)
	@$(BIN)/python -m tools.mri

test: check compiled
	@$(TIMED) "fast tests" $(BIN)/python -m pytest -q $(PARALLEL) -m "not slow"

test-all: test slow

slow: DRAWN := --drawn=$(shell tail -n 1 .ci/landings.csv | cut -d , -f 1):$(shell git rev-parse --short HEAD 2>/dev/null || echo release)
slow: $(STAMP) compiled
	@$(TIMED) "slow tests" $(BIN)/python $(THOROUGH) $(DRAWN) $(PARALLEL) -m "(slow or law) and not (slow and serial)"
	@$(TIMED) "slow tests, one at a time" $(BIN)/python $(THOROUGH) $(DRAWN) -m "slow and serial"

test-hosts: $(STAMP)
	@$(BIN)/python -m pytest -q --hosts tests/hosts

test-every: check
	@$(BIN)/python $(THOROUGH) $(PARALLEL) -m "not (slow and serial)"
	@$(BIN)/python $(THOROUGH) -m "slow and serial"

coverage: $(STAMP)
	@$(BIN)/coverage erase
	@$(BIN)/coverage run $(THOROUGH) $(UNCOVERED) $(PARALLEL) -m "not (slow and serial)"
	@$(BIN)/coverage run $(THOROUGH) $(UNCOVERED) -m "slow and serial"
	@$(BIN)/coverage combine --quiet
	@$(BIN)/coverage json --quiet
	@$(BIN)/python -m tools.coverage_totals coverage.json

conformance: $(STAMP)
	@$(BIN)/python -m tools.conformance.run

docs: $(DOCS_STAMP)
	@$(BIN)/python -m sphinx --builder html --fail-on-warning --keep-going --nitpicky --quiet --jobs auto docs docs/_build/html
	@echo "docs/_build/html/index.html"

# so that no process of a test, which may be killed or meet a disk that is full, has to
compiled: $(STAMP)
	@$(BIN)/python -m compileall -q hetero_mtf tests tools

check: lint types imports

lint: $(STAMP)
	@$(TIMED) ruff $(BIN)/ruff check .

types: $(STAMP)
	@$(TIMED) mypy $(BIN)/mypy

imports: $(STAMP)
	@$(TIMED) import-linter $(BIN)/lint-imports

install: $(STAMP)

$(STAMP): setup.cfg pyproject.toml | $(BIN)/python
	@echo "installing hetero_mtf and what it needs into $(VENV) (once, some minutes)"
	@$(TIMED) installation $(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[dev]"
	@touch $@

$(DOCS_STAMP): $(STAMP)
	@echo "installing what the documentation needs into $(VENV) (once)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[docs]"
	@touch $@

$(BIN)/python:
	@for p in $(if $(PYTHON),"$(PYTHON)",python3 python3.13 python3.12 python3.11 python3.10); do \
	  if "$$p" -c 'import sys, venv, ensurepip; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 13))' >/dev/null 2>&1; then \
	    echo "making $(VENV) with $$("$$p" --version)"; exec "$$p" -m venv $(VENV); \
	  fi; \
	done; \
	echo "no Python 3.10 to 3.13 with venv found$(if $(PYTHON), at $(PYTHON)); install one or name it: make PYTHON=/path/to/python3.12" >&2; exit 1

clean:
	@rm -rf $(VENV) docs/_build docs/api build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	@rm -rf .coverage .coverage.* coverage.json
