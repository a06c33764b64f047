SHELL := /bin/bash
.DEFAULT_GOAL := help

PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python
STAMP := $(VENV)/.installed
LINTED := $(wildcard src tests bench demo)
TYPED := $(wildcard src bench tests)
ONLY ?=
# One more than there are cores: a test often waits, for a server or a commit. Each takes up to 2 GB.
WORKERS ?= $(shell echo $$(($$(getconf _NPROCESSORS_ONLN) + 1)))
# Files in the order that tests/balance.py gives them, by how long they take.
PARALLEL = -n $(WORKERS) --dist loadfile --no-loadscope-reorder

.PHONY: help setup demo test quick lint bench soak clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(STAMP) ## Make .venv with everything installed (skipped when up to date)

$(STAMP): pyproject.toml constraints.txt
	@major=$$(java -version 2>&1 | sed -n 's/.* version "\([0-9]*\).*/\1/p' | head -n 1); \
	if [ -z "$$major" ]; then \
		echo "warning: no java found. Spark needs Java 17 or newer on PATH; everything else will work." >&2; \
	elif [ "$$major" -lt 17 ]; then \
		echo "warning: java $$major found. Spark needs Java 17 or newer on PATH; everything else will work." >&2; \
	fi
	@test -x $(PY) || $(PYTHON) -m venv $(VENV)
	@$(PY) -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

demo: setup ## Capture a shop in a real PostgreSQL; KEEP=1 leaves it up
	@$(PY) -m demo.shop

test: setup ## Run the tests (all but the soak tests)
	@$(PY) -m pytest -q $(PARALLEL)

quick: setup ## Run the tests that need neither Spark nor a server
	@$(PY) -m pytest -q $(PARALLEL) -m 'not soak and not services'

lint: setup ## Check style, formatting and types
	@$(PY) -m ruff check $(LINTED)
	@$(PY) -m ruff format --check $(LINTED)
	@$(PY) -m mypy $(TYPED)

bench: setup ## Run the benchmarks; ONLY=name runs one
	@$(PY) -m bench $(ONLY)

soak: setup ## Run the long soak tests, and report what they covered
	@$(PY) -m pytest -q $(PARALLEL) -m 'soak or generated' --hypothesis-profile=soak -o time_limit=7200

clean: ## Remove .venv, caches and build products
	@rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis spark-warehouse metastore_db derby.log
	@rm -rf src/*.egg-info
	@find src tests bench demo -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true
