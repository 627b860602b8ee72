# Every target does all the set-up it needs; a second call installs nothing.
#   make demo | test | test-slow | docs | lint | audit | format | gpu | clean
# TORCH_INDEX=URL takes torch from another index, e.g. PyTorch's CPU-only one.

PYTHON ?= $(shell for p in python3.11 python3.12 python3.13 python3; do \
	$$p -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 14))' 2>/dev/null && echo $$p && break; done)
TORCH_INDEX ?=
GPU_PYTHON ?= $(BIN)/python
MINUTES ?= 25
TO ?= results/gpu
VENV := .venv
BIN := $(VENV)/bin
CORE := $(VENV)/.installed
TEST := $(VENV)/.installed-test
TORCH := $(shell sed -n 's/^torch==/torch==/p' constraints.txt)
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.PHONY: demo test test-slow test-cluster docs lint audit format gpu clean
.DELETE_ON_ERROR:

demo: $(CORE)
	$(BIN)/cse demo

test: lint
	OMP_NUM_THREADS=1 TOKENIZERS_PARALLELISM=false HF_HUB_OFFLINE=1 $(BIN)/python -m pytest -n 2 --dist loadscope --no-loadscope-reorder

# Hours on two cores; PART=1/4 takes a quarter of the files. Triton's interpreter runs a card's kernels on the CPU.
test-slow: $(TEST)
	$(PIP) triton
	TRITON_INTERPRET=1 OMP_NUM_THREADS=1 TOKENIZERS_PARALLELISM=false HF_HUB_OFFLINE=1 $(BIN)/python -m pytest -m slow --timeout 900 $(if $(PART),--part $(PART))

test-cluster: $(TEST)
	$(PIP) --constraint constraints.txt 'psycopg[binary]'
	OMP_NUM_THREADS=1 TOKENIZERS_PARALLELISM=false HF_HUB_OFFLINE=1 $(BIN)/python -m pytest -m cluster --timeout 900

# All that is to be shown on a card, within MINUTES; a second call goes on. Where no venv can be made, the python at hand,
# which needs torch and transformers: make gpu GPU_PYTHON=python3 MINUTES=9 TO=results/gpu
gpu: $(if $(filter $(BIN)/python,$(GPU_PYTHON)),$(TEST))
	$(if $(filter $(BIN)/python,$(GPU_PYTHON)),$(PIP) --constraint constraints.txt --editable '.[bench]')
	$(GPU_PYTHON) -m benchmarks.gpu --minutes $(MINUTES) --to $(TO)

# The site of docs/ in build/docs, as strict as on GitHub Pages; `.venv/bin/mkdocs serve` shows it while you write.
docs: $(CORE)
	$(PIP) --constraint constraints.txt --editable '.[docs]'
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

lint: $(TEST)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# pip-audit asks pypi.org; --strict, because it calls what it could not look up "no known vulnerabilities".
audit: $(CORE)
	@if $(BIN)/python -c "import urllib.request as u; u.urlopen('https://pypi.org/pypi/pip/24.0/json', timeout=10)" 2>/dev/null; \
	then $(PIP) --constraint constraints.txt pip-audit && $(BIN)/pip-audit --strict --no-deps --disable-pip --requirement constraints.txt; \
	else echo "audit skipped: pypi.org/pypi cannot be reached here, and pip-audit needs it"; fi

format: $(TEST)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "no Python 3.11, 3.12 or 3.13 found: name one with make PYTHON=/path/to/python"; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.torch: constraints.txt | $(BIN)/python
	$(PIP) $(if $(TORCH_INDEX),--index-url $(TORCH_INDEX)) $(TORCH)
	@touch $@

$(CORE): pyproject.toml constraints.txt $(VENV)/.torch
	$(PIP) --constraint constraints.txt --editable .
	@touch $@

$(TEST): pyproject.toml constraints.txt $(CORE)
	$(PIP) --constraint constraints.txt --editable '.[test,docs]'
	@touch $@

clean:
	rm -rf build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
