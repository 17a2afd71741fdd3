# `make demo` and `make test` work from a fresh clone: they make .venv, install what was tested, and do their job.
PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin/python -m
STAMP := $(VENV)/.installed

.PHONY: install demo test test-cluster lint bench clean

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

test-cluster: install
	$(RUN) pytest -m cluster

bench: install
	for one in $$(grep -l __main__ benchmarks/*.py); do $(RUN) benchmarks.$$(basename $$one .py) || exit 1; done

clean:
	rm -rf $(VENV) runs .mypy_cache .ruff_cache .pytest_cache
