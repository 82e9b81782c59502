# Every target works on a machine that has only Python 3.11+ and make.
PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin/
# Python compiles what it imports; to compile all files of all libraries takes longer than most of what follows.
PIP := $(RUN)pip install --quiet --no-compile --constraint constraints.txt

# Where an environment forbids it, every process would compile torch and transformers anew, for five seconds.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: install demo docs notebooks test test-all test-rest coverage wheel wheel-test oldest mutants torture lint format clean

install: $(VENV)/installed

$(VENV)/installed: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "attnlab needs Python 3.11 or newer; name one with: make PYTHON=python3.12"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(PIP) --editable '.[dev]'
	@touch $@

demo: install  ## train, capture, fit and report on the embedded corpus
	$(RUN)attnlab demo --overwrite

# A stamp of its own: who only works on the code needs none of this.
$(VENV)/installed-docs: $(VENV)/installed
	$(PIP) --editable '.[docs]'
	@touch $@

docs: $(VENV)/installed-docs  ## build/docs/index.html; warnings are errors
	$(RUN)sphinx-build -W --keep-going --quiet --fresh-env --jobs 2 docs build/docs

notebooks:  ## docs/**/*.ipynb, of the pages that are notebooks
	$(PYTHON) docs/notebook_files.py

PYTEST := $(RUN)python -m pytest --numprocesses 2 --dist worksteal
# Checks of types and shapes at run time, over the whole package.
TYPED := --jaxtyping-packages=attnlab,shape_checks.everywhere
test: install  ## all that a change can break, in minutes
	$(PYTEST)

test-all: test test-rest  ## every test, with types and shapes checked at run time

test-rest: install  ## what `make test` leaves out
	$(PYTEST) -m 'not torture and (slow or not typed)' $(TYPED)

# Tracing the checks of types and shapes would triple the time, so this goes without them.
coverage: install  ## every test, and which lines they run
	$(PYTEST) -m 'not torture' --jaxtyping-packages= --cov --cov-report=term:skip-covered --cov-fail-under=90

wheel: install  ## build/wheel/attnlab-*.whl
	$(RUN)pip wheel --quiet --no-deps --wheel-dir build/wheel .

wheel-test:  ## the wheel in an empty environment: what works without make and without extras
	PYTHON=$(PYTHON) .ci/wheel-test

oldest:  ## fast tests of models, reading, labels and questions with constraints-oldest.txt
	$(PYTHON) -m venv build/oldest
	build/oldest/bin/pip install --quiet --constraint constraints-oldest.txt --editable '.[cluster,embeddings,treebanks]' \
		beartype hypothesis pytest pytest-timeout statsmodels
	build/oldest/bin/python -m pytest --jaxtyping-packages= -m 'not slow and not torture' \
		tests/attention/test_parity.py tests/models tests/reading tests/labels tests/questions

# Small faults put into the package one at a time; SAMPLE=0 tries all of them, which takes days.
SAMPLE ?= 300
mutants: install  ## which faults no test notices
	$(RUN)python -m tests.mutation --sample $(SAMPLE)

# Nightly; KILLS is of each command that writes, CASES of damaged inputs. It tells how much was tried, and what was lost.
KILLS ?= 20
CASES ?= 2000
torture: install  ## kills at steps drawn at random, full disks, two processes in a folder, damaged inputs
	ATTNLAB_TORTURE_KILLS=$(KILLS) $(RUN)python -m pytest -m torture --timeout=7200 tests/torture tests/models
	ATTNLAB_FUZZ_CASES=$(CASES) $(RUN)python -m pytest -m 'not torture' --jaxtyping-packages= --timeout=7200 tests/fuzz
	@echo "torture: $(CASES) damaged inputs tried; all were read or refused in a sentence"

lint: install
	$(RUN)ruff format --check .
	$(RUN)ruff check .
	$(RUN)mypy

format: install
	$(RUN)ruff format .
	$(RUN)ruff check --fix .

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage
	find attnlab tests experiments -name __pycache__ -type d -prune -exec rm -rf {} +
