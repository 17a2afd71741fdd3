# `make demo` and `make test` work from a fresh clone: they make .venv, install what was tested, and do their job.
PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin/python -m
STAMP := $(VENV)/.installed

.PHONY: install demo test test-gpu faults test-cluster test-lowest lint hooks docs bench clean

install: $(STAMP)

# torch comes first and pinned: an open range would fetch gigabytes of CUDA packages on a machine without a GPU.
$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(RUN) pip install --quiet --disable-pip-version-check -c constraints.txt torch
	$(RUN) pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[report,test]'
	touch $@

demo: install
	rm -rf runs/demo
	$(RUN) isogloss map --out runs/demo

lint: install
	$(RUN) ruff check .
	$(RUN) ruff format --check .
	$(RUN) mypy

test: install lint
	@command -v chromium >/dev/null && command -v chromedriver >/dev/null || \
	  echo "no Chromium with chromedriver on this machine: the browser tests are skipped"
	$(RUN) pytest -n 2
	$(RUN) pytest -m cluster

# What needs a CUDA GPU; pytest's last line says how many ran.
test-gpu: install
	$(RUN) pytest -m gpu

test-cluster: install
	$(RUN) pytest -m cluster

# Kills, damage and mutated input by seed; every call goes on for ten minutes where the last one stopped.
faults: install
	$(VENV)/bin/python scripts/faults.py runs/faults

# The lowest versions that are declared, in an environment of their own, and the tests that lean on them the most.
# TORCH=torch==2.13.0 tries the others with another torch.
LOWEST := .venv-lowest
TORCH ?= $(shell grep ^torch== constraints-lowest.txt)
$(LOWEST)/.installed: pyproject.toml constraints-lowest.txt
	$(PYTHON) -m venv $(LOWEST)
	grep -v ^torch== constraints-lowest.txt > $(LOWEST)/constraints.txt
	echo '$(TORCH)' >> $(LOWEST)/constraints.txt
	$(LOWEST)/bin/python -m pip install --quiet --disable-pip-version-check -c $(LOWEST)/constraints.txt \
	  -e '.[report]' hypothesis pytest
	touch $@

test-lowest: $(LOWEST)/.installed
	$(LOWEST)/bin/python -m pytest tests/test_cli.py tests/stack tests/measures tests/mappings tests/vectors

$(VENV)/.docs: $(STAMP)
	$(RUN) pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[docs]'
	touch $@

# Fails on a broken link or anchor, on a page that is missing from the navigation, and on a public name that
# is not found in the source.
docs: $(VENV)/.docs
	$(RUN) scripts.docs_pages
	$(VENV)/bin/zensical build --clean --strict

hooks: install
	$(RUN) pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	$(VENV)/bin/pre-commit install

bench: install
	for one in $$(grep -l __main__ benchmarks/*.py); do $(RUN) benchmarks.$$(basename $$one .py) || exit 1; done

clean:
	rm -rf $(VENV) $(LOWEST) build runs .cache .mypy_cache .ruff_cache .pytest_cache
