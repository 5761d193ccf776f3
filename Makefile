# Two commands: `make demo` and `make test`. Each sets up what it needs in .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test test-slow check bench kernels wheel clean help

help:
	@echo "make demo        train on the bundled corpus, print scores and tagged sentences"
	@echo "make test        run the tests"
	@echo "make test-slow   run the longer campaigns"
	@echo "make check       lint, type-check and check the import contract"
	@echo "make kernels     compile kernels ahead (the others do it too; needs a C compiler, goes on without)"
	@echo "make wheel       a wheel with the compiled kernels, for this kind of machine, in dist/"
	@echo "make bench       measure speed beside python-crfsuite (hours; BENCH=--quick: a minute)"

demo: $(VENV)/.installed
	-$(BIN)/python -m loglinear.kernels.build --if-needed --default-only --labels 12  # as many vectors of labels as the demo's 16
	$(BIN)/loglinear demo

# By file: what a file's tests share, fixtures and kernels compiled at run time, is made by one process.
test: $(VENV)/.installed-test kernels
	$(BIN)/python -m pytest -n 2 --dist loadfile -m "not slow"

test-slow: $(VENV)/.installed-test kernels
	$(BIN)/python -m pytest -n 2 --dist loadfile -m slow

check: $(VENV)/.installed-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# What to measure: make bench BENCH="--quick"
BENCH ?= --full --json bench.json --markdown bench.md --resume

bench: $(VENV)/.installed-bench kernels
	LOGLINEAR_DATA=$${LOGLINEAR_DATA:-../shared/data} $(BIN)/loglinear bench $(BENCH)

# Without a C compiler, or on another kind of machine, Numba compiles when kernels are first called.
kernels: $(VENV)/.installed
	-$(BIN)/python -m loglinear.kernels.build --if-needed

wheel: kernels
	$(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir dist .

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "loglinear needs Python 3.11 or newer; try make PYTHON=python3.12")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e .
	touch $@

$(VENV)/.installed-test: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[test]'
	touch $@ $(VENV)/.installed

$(VENV)/.installed-bench: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[test,bench]'
	touch $@ $(VENV)/.installed $(VENV)/.installed-test

clean:
	rm -rf $(VENV) dist build .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
