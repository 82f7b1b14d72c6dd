# Sets itself up: any target works in a fresh clone, given Python 3.11 or newer and make (git is for cloning).
#
#   make serve [ARGS="--port 9000"]   run a server
#   make check [ARGS="-k expiry"]     lint, and the tests that need no server, in half a minute
#   make test  [ARGS="-k expiry"]     run the tests
#   make lint                         check style, format and types
#   make prove [PROVE=full] [PROOF=crash]   break things, and show that what was promised holds
#   make bench [BENCH=append] [ARGS="--size full"]   measure, beside what limits it and beside its peers
#   make map                          write the map in ARCHITECTURE.md from the tree
#   make constraints                  pin the versions that are installed now
#   make clean                        remove what make and the tests left

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
UV := $(shell command -v uv 2>/dev/null)
# Extras are left out of a plain `make serve`, which has less to install.
EXTRAS := test,lint,example,prove
PROVE ?= quick
TOO_OLD := Layby needs Python 3.11 or newer: name one, for example `make PYTHON=python3.12 $(MAKECMDGOALS)`

ifdef UV
# uv finds a Python that is new enough, or brings one, unless PYTHON names it.
MAKE_VENV := "$(UV)" venv --quiet --python "$(or $(filter-out python3,$(PYTHON)),>=3.11)" $(VENV)
PIP := "$(UV)" pip
COMPILED := --compile-bytecode
ON_VENV := --python $(BIN)/python
else
MAKE_VENV := $(PYTHON) -m venv $(VENV)
PIP := $(BIN)/python -m pip --disable-pip-version-check
COMPILED := --compile
endif

# Compiled once, here: else the first start does it, and each one where PYTHONDONTWRITEBYTECODE is set, for seconds.
INSTALL = $(PIP) install --quiet $(COMPILED) $(ON_VENV) -c constraints.txt
COMPILE_OURS = $(BIN)/python -m compileall -q eventstore projections api cli

.DEFAULT_GOAL := help
.PHONY: help serve check quick test lint style types prove bench map constraints clean

# Else each process that a test starts compiles again what was changed since the installation, for seconds.
unexport PYTHONDONTWRITEBYTECODE

help:
	@sed -n 's/^#   //p' Makefile

serve: $(VENV)/.installed
	@exec $(BIN)/layby serve $(ARGS)

# Types and tests take one processor each, for about as long.
check: $(VENV)/.installed-bench
	@$(MAKE) --no-print-directory -j 2 style types quick

# What starts processes has yet to leave tests/unit.
LEFT_OUT := tests/unit/test_cli.py tests/unit/test_cli_keys.py tests/unit/test_fault_points.py
quick: $(VENV)/.installed-all
	$(BIN)/python -m pytest -q tests/unit tests/architecture $(LEFT_OUT:%=--ignore=%) $(ARGS)

test: $(VENV)/.installed-all
	$(BIN)/python -m pytest -n auto --dist worksteal $(ARGS)

lint: style types

style: $(VENV)/.installed-bench
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.installed-bench
	$(BIN)/basedpyright

prove: $(VENV)/.installed-all
	$(BIN)/python -m proofs --size $(PROVE) $(PROOF) $(ARGS)

# What comes from npm is installed by the benchmarks themselves, when they first need it.
bench: $(VENV)/.installed-bench
	$(BIN)/python -m benchmarks $(BENCH) $(ARGS)

map: $(VENV)/.installed-all
	$(BIN)/python -m tests.architecture.map

constraints: $(VENV)/.installed-bench
	$(PIP) freeze $(ON_VENV) --exclude-editable > constraints.txt

clean:
	rm -rf $(VENV) .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Installed again only when pyproject.toml or constraints.txt is newer than the stamp.
$(VENV)/.installed: pyproject.toml constraints.txt | $(BIN)/python
	$(INSTALL) -e .
	@$(COMPILE_OURS)
	@touch $@

$(VENV)/.installed-all: pyproject.toml constraints.txt | $(BIN)/python
	$(INSTALL) -e '.[$(EXTRAS)]'
	@$(COMPILE_OURS)
	@touch $@ $(VENV)/.installed

$(VENV)/.installed-bench: pyproject.toml constraints.txt | $(BIN)/python
	$(INSTALL) -e '.[$(EXTRAS),bench]'
	@$(COMPILE_OURS)
	@touch $@ $(VENV)/.installed $(VENV)/.installed-all

$(BIN)/python:
ifndef UV
	@command -v $(PYTHON) >/dev/null || { echo '$(TOO_OLD)' >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo '$(TOO_OLD)' >&2; exit 1; }
endif
	$(MAKE_VENV)
