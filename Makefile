# The front door. Everything installs into .venv; a target that is done is not done again.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
STAMPS := $(VENV)/.stamps
WORKERS ?= 2

.PHONY: run test test-slow lint bench docs clean constraints

run: $(STAMPS)/run
	$(BIN)/certeq compare --force --report certeq-report.html

test: $(STAMPS)/test
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup

test-slow: $(STAMPS)/test
	$(BIN)/python -m pytest -m "slow or not slow"

lint: $(STAMPS)/test
	$(BIN)/ruff check src tests benchmarks
	$(BIN)/ruff format --check src tests benchmarks
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(STAMPS)/bench
	$(BIN)/python -m benchmarks

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "certeq needs Python 3.11 or newer; set PYTHON=")'
	$(PYTHON) -m venv $(VENV)
	mkdir -p $(STAMPS)

# torch is pinned on its own line first: an unpinned one would pull gigabytes of accelerator libraries.
$(STAMPS)/run: pyproject.toml constraints.txt | $(BIN)/python
	mkdir -p $(STAMPS)
	$(PIP) install -q -c constraints.txt -e ".[portfolio,cli]"
	touch $@

$(STAMPS)/test: pyproject.toml constraints.txt | $(BIN)/python
	mkdir -p $(STAMPS)
	$(PIP) install -q -c constraints.txt torch
	$(PIP) install -q -c constraints.txt -e ".[all,test,lint]"
# pfhedge asks for NumPy 1; what is compared with here runs on NumPy 2 as well.
	$(PIP) install -q -c constraints.txt --no-deps pfhedge
	touch $@

$(STAMPS)/bench: $(STAMPS)/test
	$(PIP) install -q -c constraints.txt -e ".[all,test,bench]"
	touch $@

constraints: $(STAMPS)/bench
	$(PIP) freeze --exclude-editable --exclude certeq > constraints.txt

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
