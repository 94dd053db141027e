# Everything installs into .venv; a target that is done is not done again.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
OLDEST := .venv-oldest/bin/python -m pip --disable-pip-version-check
STAMPS := $(VENV)/.stamps
COMPILED := setup.py $(wildcard src/certeq/*/*.c)
WORKERS ?= 2
PORT ?= 8000
# Tests start some hundred processes; without bytecode each would compile the package anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: run test test-slow test-portable test-oldest dist lint bench bench-against reproduce docs supplement docs-serve clean constraints

run: $(STAMPS)/run
	$(BIN)/certeq compare --force --report certeq-report.html

test: $(STAMPS)/test
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup

test-slow: $(STAMPS)/test
	$(BIN)/python -m pytest -m "slow or not slow"

# As other machines run it: kernels, vector instructions, threads, signals, locale, without the compiled file.
test-portable: $(STAMPS)/test
	$(BIN)/python -m tests.portable --workers $(WORKERS)

# Exactly the lower bounds of pyproject.toml, in an environment of its own (torch as everywhere: see tests/oldest.py).
test-oldest: $(BIN)/python
	$(PYTHON) -m venv .venv-oldest
	$(BIN)/python -m tests.oldest > .venv-oldest/oldest.txt
	$(OLDEST) install -q -c .venv-oldest/oldest.txt torch
	$(OLDEST) install -q -c .venv-oldest/oldest.txt -e ".[all,test]"
	.venv-oldest/bin/python -m tests.oldest --installed
	.venv-oldest/bin/python -m pytest -n $(WORKERS) --dist loadgroup

# Source distribution and wheel, checked and used as a stranger would; `make dist STEPS="build check"` does a part.
dist: $(STAMPS)/release
	$(BIN)/python -m tests.distribution --workers $(WORKERS) $(STEPS)

lint: $(STAMPS)/test
	$(BIN)/ruff check src tests benchmarks docs experiments
	$(BIN)/ruff format --check src tests benchmarks docs experiments
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/codespell *.md src tests benchmarks docs experiments
	$(BIN)/python -m tests.docs.validation

bench: $(STAMPS)/bench
	$(BIN)/python -m benchmarks

# Against an earlier build: make bench-against BASE=path-to-another-checkout, its compiled file built.
bench-against: $(STAMPS)/test
	@test -n "$(BASE)" || { echo "BASE must name another checkout: make bench-against BASE=../certeq-old"; exit 2; }
	$(BIN)/python -m benchmarks --against "$(BASE)"

# Every table, figure and erratum of the paper: make reproduce NAMES="errata convergence", make reproduce QUICK=1.
reproduce: $(STAMPS)/reproduce
	$(BIN)/python -m experiments $(NAMES) $(if $(QUICK),--quick)

# Any warning fails the build; nothing is fetched.
docs: $(STAMPS)/docs
	$(BIN)/python -m sphinx -b html -W --keep-going -q docs docs/_build/html
	@echo "docs/_build/html/index.html is up to date; make docs-serve shows it"

# Theory, proofs, errata and results as one PDF, without TeX.
supplement: docs $(STAMPS)/supplement
	$(BIN)/python docs/supplement.py

docs-serve: docs
	$(BIN)/python -m http.server --bind 127.0.0.1 --directory docs/_build/html $(PORT)

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "certeq needs Python 3.11 or newer; set PYTHON=")'
	$(PYTHON) -m venv $(VENV)
	mkdir -p $(STAMPS)

# torch is pinned on its own line first: an unpinned one would pull gigabytes of accelerator libraries.
$(STAMPS)/run: pyproject.toml constraints.txt $(COMPILED) | $(BIN)/python
	mkdir -p $(STAMPS)
	$(PIP) install -q -c constraints.txt -e ".[portfolio,cli]"
	touch $@

$(STAMPS)/test: pyproject.toml constraints.txt $(COMPILED) | $(BIN)/python
	mkdir -p $(STAMPS)
	$(PIP) install -q -c constraints.txt torch
	$(PIP) install -q -c constraints.txt -e ".[all,test,lint,docs]"
# pfhedge asks for NumPy 1; what is compared with here runs on NumPy 2 as well.
	$(PIP) install -q -c constraints.txt --no-deps pfhedge
	touch $@

$(STAMPS)/bench: $(STAMPS)/test
	$(PIP) install -q -c constraints.txt -e ".[all,test,bench]"
	touch $@

$(STAMPS)/reproduce: pyproject.toml experiments/requirements.txt constraints.txt $(COMPILED) | $(BIN)/python
	mkdir -p $(STAMPS)
	$(PIP) install -q -c constraints.txt torch
	$(PIP) install -q -c constraints.txt -e ".[all]" -r experiments/requirements.txt
	touch $@

$(STAMPS)/docs: pyproject.toml constraints.txt $(COMPILED) | $(BIN)/python
	mkdir -p $(STAMPS)
	$(PIP) install -q -c constraints.txt torch
	$(PIP) install -q -c constraints.txt -e ".[all,docs]"
	touch $@

$(STAMPS)/supplement: $(STAMPS)/docs
	$(PIP) install -q -c constraints.txt weasyprint ziamath
	touch $@

$(STAMPS)/release: $(STAMPS)/test
	$(PIP) install -q -c constraints.txt -e ".[release]"
	touch $@

constraints: $(STAMPS)/bench $(STAMPS)/reproduce $(STAMPS)/docs $(STAMPS)/supplement $(STAMPS)/release
	$(PIP) freeze --exclude-editable --exclude certeq > constraints.txt

clean:
	rm -rf $(VENV) .venv-oldest build dist docs/_build docs/api docs/gallery .pytest_cache .mypy_cache .ruff_cache .hypothesis
