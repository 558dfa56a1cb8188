# Everything below runs in .venv, which the first target that needs it makes.
# Nothing but make and Python >= 3.11 has to be there: PYTHON=/path/to/python picks one.

PYTHON ?= $(firstword $(foreach name,python3 python3.13 python3.12 python3.11 python, \
  $(if $(shell $(name) -c 'import sys; print(sys.version_info >= (3, 11) or "")' 2>&1 \
  | grep -x True),$(name))))
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check

.PHONY: help demo test lint types imports doctest docs bench clean

help:
	@echo "make demo     run Black-Scholes and terrain on plain Dask and fused, and compare"
	@echo "make test     run the tests (ARGS=... goes to pytest)"
	@echo "make lint     ruff, mypy and the import rules"
	@echo "make doctest  run the examples in docstrings"
	@echo "make docs     build the documentation into docs/_build/html"
	@echo "make bench    run the benchmarks (ARGS=... goes to asv)"
	@echo "make clean    remove .venv and what was built"

demo: $(VENV)/.demo
	$(BIN)/dask-diffuse run black_scholes --compare --cluster threads
	$(BIN)/dask-diffuse run terrain --compare --cluster threads

# A file stays on one worker, since some files share a cluster that is dear to start.
test: $(VENV)/.test
	$(BIN)/python -m pytest -n 2 --dist loadfile $(ARGS)

lint: $(VENV)/.lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

doctest: $(VENV)/.test
	$(BIN)/python -m pytest --doctest-modules dask_diffuse $(ARGS)

docs: $(VENV)/.docs
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs docs/_build/html
	@echo "open docs/_build/html/index.html"

bench: $(VENV)/.bench
	cd asv_bench && $(abspath $(BIN))/asv machine --yes
	cd asv_bench && $(abspath $(BIN))/asv run --python=same --show-stderr $(ARGS)

clean:
	rm -rf $(VENV) docs/_build docs/reference/generated build dist

# One empty file per set of packages says that it is installed. All sets share the
# environment, so that adding one later does not install the others again.

$(BIN)/python:
	@test -n "$(PYTHON)" || { \
	  echo "dask-diffuse needs Python >= 3.11 and found none on the PATH;" \
	       "name one with: make PYTHON=/path/to/python"; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { \
	  echo "$(PYTHON) cannot make a virtual environment; on Debian and Ubuntu" \
	       "install its package python3-venv"; rm -rf $(VENV); exit 1; }
	$(PIP) install --upgrade pip

$(VENV)/.demo: pyproject.toml | $(BIN)/python
	$(PIP) install --editable '.[demo]'
	@touch $@

$(VENV)/.test: pyproject.toml | $(BIN)/python
	$(PIP) install --editable '.[distributed,viz,demo]' --group test
	@touch $@

$(VENV)/.lint $(VENV)/.docs $(VENV)/.bench: $(VENV)/.%: pyproject.toml | $(BIN)/python
	$(PIP) install --editable . --group $*
	@touch $@
