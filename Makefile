# Two commands: `make demo` and `make test`. Each sets up what it needs in .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test test-slow fuzz faults bounds audit check bench kernels wheel clean help

help:
	@echo "make demo        train on the bundled corpus, print scores and tagged sentences"
	@echo "make test        run the tests"
	@echo "make test-slow   run the longer campaigns"
	@echo "make fuzz        look for crashes, hangs and errors without a sentence (FUZZ=\"models --cases 100000\"; FUZZ=--help)"
	@echo "make faults      kill commands, fill disks, use models for long (an hour; FAULTS='kills=50 minutes=1': less)"
	@echo "make bounds      run the tests of the command line and of models with the oldest dependencies allowed"
	@echo "make audit       look for known faults in the dependencies (asks a server), and list them in dist/loglinear.cdx.json"
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

# How much: make faults FAULTS="kills=500 seed=3"; what can be counted is in tests/faults/counts.py.
FAULTS ?= long

faults: $(VENV)/.installed-test kernels
	LOGLINEAR_FAULTS="$(FAULTS)" $(BIN)/python -m pytest -m slow -s tests/faults
# What to attack, and for how long: make fuzz FUZZ="readers --cases 1000000 --minutes 30 --seed 1"
FUZZ ?= --minutes 1

fuzz: $(VENV)/.installed-fuzz kernels
	cd tests && ../$(BIN)/python -m fuzzing --folder ../.fuzz $(FUZZ)

check: $(VENV)/.installed-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# The oldest versions that pyproject.toml allows, in an environment of their own.
bounds: $(VENV)-lowest/.installed
	LOGLINEAR_COMPILED=0 $(VENV)-lowest/bin/python -m pytest -n 2 -m "not slow" tests/cli tests/estimators tests/scale tests/test_model_file.py

$(VENV)-lowest/.installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)-lowest
	$(VENV)-lowest/bin/python -c "import re, tomllib; project = tomllib.load(open('pyproject.toml', 'rb'))['project']; \
	  needs = sum((project['optional-dependencies'][extra] for extra in ('dask', 'parquet')), project['dependencies']); \
	  print(*(re.sub(r'>=([0-9.]+).*', r'==\1', need) for need in needs), sep='\n')" > $(VENV)-lowest/lowest.txt
	$(VENV)-lowest/bin/python -m pip install --quiet --disable-pip-version-check -c $(VENV)-lowest/lowest.txt -e '.[test]'
	touch $@

# The tools have their own environment, so that they are not among what they list.
audit: $(VENV)/.installed
	$(PYTHON) -m venv $(VENV)-audit
	$(VENV)-audit/bin/python -m pip install --quiet --disable-pip-version-check pip-audit cyclonedx-bom
	mkdir -p dist
	$(VENV)-audit/bin/cyclonedx-py environment $(BIN)/python --pyproject pyproject.toml --output-reproducible --output-file dist/loglinear.cdx.json
	$(BIN)/python -m pip freeze --exclude-editable > dist/dependencies.txt
	$(VENV)-audit/bin/pip-audit --strict --no-deps --disable-pip --requirement dist/dependencies.txt

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

# Atheris has no wheel for every Python and machine: without it, coverage-guided fuzzing is skipped.
$(VENV)/.installed-fuzz: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[test,fuzz]' || \
	  $(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[test]'
	touch $@ $(VENV)/.installed $(VENV)/.installed-test

clean:
	rm -rf .fuzz $(VENV) $(VENV)-lowest $(VENV)-audit dist build .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
