# `make demo` and `make test` need nothing but Python 3.11 or newer.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test lint bench clean fuzz

$(VENV)/installed-demo: pyproject.toml setup.py
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[demo]'
	touch $@

$(VENV)/installed-test: pyproject.toml setup.py
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[demo,test]'
	touch $@

demo: $(VENV)/installed-demo
	$(BIN)/dotnetdiag demo

lint: $(VENV)/installed-test
	$(BIN)/ruff check .
	$(BIN)/mypy

# FUZZ_SECONDS: in total, 600 when not given
fuzz: $(VENV)/installed-test
	$(BIN)/python fuzz/run.py

test: lint
	$(BIN)/python -m pytest -q

clean:
	rm -rf $(VENV) build dist src/*.egg-info
