# The whole workflow. On a machine with only Python and make, each target installs what it needs into .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
BASE := $(VENV)/base.stamp
DEV := $(VENV)/dev.stamp
PIP_INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: help quickstart install test test-slow test-e2e test-browser check format docs bench picture
.NOTPARALLEL:

help:  ## list the targets
	@sed -n 's/^\([a-z0-9-]*\):.*## /\1	/p' Makefile | expand -t 14

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit("dpgap needs Python 3.11 or newer, this is " + sys.version.split()[0] + ". Write: make PYTHON=python3.11" if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)

$(BASE): pyproject.toml constraints.txt | $(BIN)/python
	$(PIP_INSTALL) -e '.[train]'
	touch $@

$(DEV): pyproject.toml constraints.txt | $(BIN)/python
	$(PIP_INSTALL) -e '.[dev]'
	touch $@ $(BASE)

quickstart: $(BASE)  ## install, then measure the gap and close it: two minutes, and a report
	$(BIN)/dpgap quickstart

install: $(DEV)  ## install dpgap and its development tools into .venv

test: $(DEV)  ## the quick tests and every doctest
	$(BIN)/python -m pytest -n 2

test-slow: $(DEV)  ## the statistics at full size
	$(BIN)/python -m pytest -n 2 -m slow -s

test-e2e: $(DEV)  ## the wheel, the quickstart and the commands of the pages, each installed from nothing
	$(BIN)/python -m pytest -m e2e tests/e2e

test-browser: $(DEV)  ## the report in headless Chromium, which must be installed
	$(BIN)/python -m pytest -m browser tests/browser

check: $(DEV)  ## format, lint, types, directions of imports, sizes, public names
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/basedpyright --pythonpath $(BIN)/python
	$(BIN)/lint-imports
	$(BIN)/python -m pytest -q tests/test_architecture.py tests/test_exports.py tests/test_docs.py

format: $(DEV)  ## rewrite the code as `check` wants it
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

docs: $(DEV)  ## build the documentation into site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

bench: $(DEV)  ## measure speed
	$(BIN)/python -m benchmarks.bounds
	$(BIN)/python -m benchmarks.fleet

picture: $(DEV)  ## draw the README's picture again from the real command
	$(BIN)/python docs/picture.py
