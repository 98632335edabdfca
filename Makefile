# `make demo` and `make test` need nothing but Python 3.11 or newer.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

BENCHMARKS := $(filter-out %/record.py %/processes.py %/programs.py %/traces.py %/__init__.py,$(wildcard benchmarks/*.py))

.PHONY: demo test lint pytest docs pictures notebooks bench clean fuzz soak mutants sdist wheel image

# what builds the image, and how many bytes it may have
CONTAINER ?= $(shell command -v podman || echo docker)
IMAGE_BYTES := 100000000

# what an installation is made of; the bytecode is written too, as pip does for packages that are not editable
WORKERS ?= $(shell expr `getconf _NPROCESSORS_ONLN` + 2)
KERNELS := $(wildcard src/dotnetdiag/*/_kernels.pyx src/dotnetdiag/*/*.pxd)

$(VENV)/installed-demo: pyproject.toml setup.py $(KERNELS)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[demo]'
	$(BIN)/python -m compileall -q "$(CURDIR)/src"
	touch $@

$(VENV)/installed-test: pyproject.toml setup.py $(KERNELS)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[demo,test]'
	$(BIN)/python -m compileall -q "$(CURDIR)/src"
	touch $@

$(VENV)/installed-mutants: $(VENV)/installed-test
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[mutants]'
	touch $@

$(VENV)/installed-bench: $(VENV)/installed-test
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[bench]'
	touch $@

$(VENV)/installed-docs: pyproject.toml setup.py $(KERNELS)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[docs]'
	touch $@

$(VENV)/installed-build:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check 'build>=1.2' 'twine>=6'
	touch $@

demo: $(VENV)/installed-demo
	$(BIN)/dotnetdiag demo --force

lint: $(VENV)/installed-test
	$(BIN)/ruff check .
	$(BIN)/mypy

# FUZZ_SECONDS: of each, 600 when not given
fuzz: $(VENV)/installed-test
	$(BIN)/python fuzz/run.py
	$(BIN)/python fuzz/run.py --sanitize

test: lint pytest

# the site, in build/site: strict, so that a dead link, a public name or a verb without a page is an error
docs: $(VENV)/installed-docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# what README and the site show: on the demo's program, with Chromium
pictures: $(VENV)/installed-test $(VENV)/installed-docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/python tools/pictures.py

# the notebooks of the site, run again
notebooks: $(VENV)/installed-test
	cd docs/notebooks && PATH="$$PWD/../../$(BIN):$$PATH" ../../$(BIN)/jupyter-execute --inplace *.ipynb && rm -f *.nettrace *.flamegraph.html

# in dist/; a wheel is always built of the sdist, so that nothing of a worn checkout comes into it
sdist: $(VENV)/installed-build
	rm -rf dist
	$(BIN)/python -m build --sdist
	$(BIN)/python -m twine check --strict dist/*

wheel: $(VENV)/installed-build
	rm -rf dist
	$(BIN)/python -m build
	$(BIN)/python -m twine check --strict dist/*

# needs docker or podman
image:
	$(CONTAINER) build --tag dotnetdiag --file Containerfile .
	@size=$$($(CONTAINER) image inspect --format '{{.Size}}' dotnetdiag) && echo "dotnetdiag: $$size bytes" \
		&& test $$size -le $(IMAGE_BYTES)

# two workers more than there are cores: three run the live tests, each one after the other, which wait most of their time. OPTIONS: of
# pytest. A test that fails is asked once more, for many of them talk to real processes on a machine that others use too; the end says which (RERUN), and each is to be mended
pytest: $(VENV)/installed-test
	$(BIN)/python -m pytest -q -n $(WORKERS) --reruns 1 -rR $(OPTIONS)

# each prints its ratios and writes a row into benchmarks/RESULTS.md; half an hour on two cores
bench: $(VENV)/installed-test
	@for file in $(BENCHMARKS); do echo "== $$file"; $(BIN)/python $$file || exit 1; done

# SOAK_SECONDS: how long the flood lasts that is watched, 600 when not given; SOAK_SESSIONS_SECONDS: how long sessions are
# recorded whose targets are stopped, killed and cut off, 240 when not given; SOAK_RECORDER_MINUTES: how long the flight recorder
# runs on a flood, 10 when not given; SOAK_COUNTERS_SECONDS: how long counters of many processes are watched, 600 when not given
soak: $(VENV)/installed-test
	$(BIN)/python soak/run.py
	$(BIN)/python soak/recorder.py
	$(BIN)/python soak/counters.py

# ROOM: wire, ipc, providers, client, transport, nettrace, events, trace, analysis, export or recipes; minutes on two cores. MUTANTS: only so many of them, always the same ones.
# Writes tests/MUTANTS.md.
mutants: $(VENV)/installed-mutants
	$(BIN)/python tools/mutants.py $(or $(ROOM),wire) $(if $(MUTANTS),--sample $(MUTANTS))

clean:
	rm -rf $(VENV) build dist src/*.egg-info
