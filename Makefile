# Everything a person or a CI job does with this project. A bare machine needs Python 3.11 (or newer) and make.
# Two stamps in .venv remember what is installed: `run` (the runtime only) and `dev` (everything tests need).

SHELL := /bin/sh
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

# Without stored bytecode every start would compile the libraries' source again: seconds, in each process.
unexport PYTHONDONTWRITEBYTECODE

VENV ?= .venv
BIN := $(VENV)/bin
# Only expanded when .venv has to be made; a name that is there but too old or not runnable is passed over.
PYTHON ?= $(shell for p in python3.11 python3; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 && echo $$p && break; done)

TEST_PROCESSES ?= 2
SOAK ?= 20
SOAK_SECONDS ?= 300
SOAK_STOPS ?= 200
SOAK_CASES ?= 50000

RUN_STAMP := $(VENV)/.installed-run
DEV_STAMP := $(VENV)/.installed-dev
COMPILED_STAMP := $(VENV)/.compiled-run
# What the benchmark compares with, in an environment of its own.
PEERS := .venv-bench
PEERS_STAMP := $(PEERS)/.installed
# Programs that generate clients from the OpenAPI document, for tests. Their pins differ from ours.
GENERATORS := .venv-generators
GENERATORS_STAMP := $(GENERATORS)/.installed
# A headless Chromium for the tests of the dashboard, where the machine has no browser.
BROWSER := .browser
BROWSER_STAMP := $(BROWSER)/.installed

# uv is the fast way; it does not read pip's settings, so where only pip knows the package index, pip does the same work.
define install_pinned
	@echo "installing $(1) with the versions of constraints.txt"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt uv
	@VIRTUAL_ENV=$(VENV) $(BIN)/uv pip install --quiet --constraints constraints.txt --build-constraints constraints.txt --editable clients/python --editable '$(1)' \
		|| PIP_CONSTRAINT=constraints.txt $(BIN)/python -m pip install --quiet --disable-pip-version-check --editable clients/python --editable '$(1)'
endef

.PHONY: help install run test test-quick check kernels generators browser bench soak docs reference recording screenshots sync-client constraints

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

install: $(DEV_STAMP) ## make .venv with everything, pinned, editable

run: $(COMPILED_STAMP) ## start the API and its workers on http://127.0.0.1:8000 (ARGS="--port 9000" is passed on)
	@exec $(BIN)/hyperplane serve $(ARGS)

test: check kernels generators browser ## the quality gates, then every test (SQLite and a PostgreSQL that the tests start)
	$(BIN)/pytest -n $(TEST_PROCESSES) --dist worksteal $(ARGS)

test-quick: check ## the quality gates and the fast unit tests, for the inner loop (under 2 minutes once compiled)
	$(BIN)/pytest -n $(TEST_PROCESSES) --dist worksteal -m "not slow" tests/unit $(ARGS)

check: $(DEV_STAMP) ## ruff, mypy --strict, import-linter
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --strict
	$(BIN)/lint-imports --no-logo

# Once, before many processes need them at the same time.
kernels: $(RUN_STAMP) ## compile the solvers, the readers and what preprocessing counts into numba's cache
	@$(BIN)/python -m app.runtime.warm_up

# A machine without npm or an index of packages runs the other tests; those of a missing program are skipped.
generators: | $(BIN)/python ## install the programs that tests generate clients with, in an environment of their own
	@$(MAKE) --no-print-directory $(GENERATORS_STAMP) || echo "tests of generated clients are skipped"

# A machine without npm, or on which that browser does not run, gets Debian's package if it is Debian and we are root.
browser: | $(BIN)/python ## install a headless Chromium for the tests of the dashboard, if the machine has no browser
	@$(BIN)/python tests/support/chromium.py || $(MAKE) --silent --no-print-directory $(BROWSER_STAMP) || { \
		test "$$(id -u)" = 0 && grep -q '^ID=debian' /etc/os-release 2>/dev/null \
		&& echo "installing Debian's chromium instead, with apt-get" && apt-get update -qq \
		&& apt-get install --yes -qq --no-install-recommends chromium >/dev/null; \
		} || echo "browser tests are skipped"

bench: $(DEV_STAMP) kernels $(PEERS_STAMP) ## side-by-side runs against peers, printed as ratios (ARGS="peers --quick", ARGS=--help)
	$(BIN)/python -m benchmarks $(ARGS)

soak: $(DEV_STAMP) kernels ## certificates in exact arithmetic, proofs of searches against true curves, random faults for SOAK_SECONDS (300) on each database, SOAK_CASES (50000) requests from the OpenAPI document, SOAK_STOPS (200) stops, then the property and fault tests SOAK (20) times over
	$(BIN)/python -m tests.soak.certificates
	$(BIN)/python -m tests.soak.tuning
	$(BIN)/python -m tests.soak --seconds $(SOAK_SECONDS) $(SOAK_ARGS)
	$(BIN)/python -m tests.soak.openapi --cases $(SOAK_CASES)
	$(BIN)/python -m tests.soak.stops --stops $(SOAK_STOPS)
	HYPERPLANE_SOAK_EXAMPLES=$(SOAK) $(BIN)/pytest -n $(TEST_PROCESSES) --dist worksteal tests/property tests/fault $(ARGS)

# Material's notice about its successor is not a warning about our pages.
docs: $(DEV_STAMP) ## build the documentation into site/ (a broken link is an error)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	@echo "built: site/index.html"

screenshots: $(DEV_STAMP) kernels ## write docs/images/ui/*.webp with the Chromium of this machine
	$(BIN)/python -m tests.browser.screenshots $(ARGS)

reference: $(DEV_STAMP) ## write the pages of docs/ that come from the code
	$(BIN)/python -m docs.scripts.reference

sync-client: $(DEV_STAMP) ## write the synchronous client from the asynchronous one
	$(BIN)/python clients/python/write_sync.py

recording: $(DEV_STAMP) kernels ## record docs/images/session.svg from a real session
	$(BIN)/python -m docs.scripts.recording

# hatchling and uv are what the installation itself runs on, so they are pinned in the same file.
constraints: $(RUN_STAMP) ## resolve the pins of constraints.txt anew
	printf 'hatchling\nuv\n' | $(BIN)/uv pip compile --upgrade --all-extras --no-annotate --no-header \
		--no-emit-package hyperplane-client --no-emit-index-url --no-emit-find-links --python-version 3.11 --output-file constraints.txt pyproject.toml -

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "Hyperplane needs Python 3.11 or newer; name one with: make PYTHON=/path/to/python3.11" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "Hyperplane needs Python 3.11 or newer, but $(PYTHON) is $$($(PYTHON) --version 2>&1)" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); exit 1; }

$(RUN_STAMP): pyproject.toml clients/python/pyproject.toml constraints.txt | $(BIN)/python
	$(call install_pinned,.)
	@touch $@

# Before the service starts: else the first job would wait for it, longer than the README's session does.
$(COMPILED_STAMP): $(RUN_STAMP) $(shell find solvers app/datasets app/preprocess app/worker -name "*.py")
	@echo "compiling the kernels of the readers and of what auto can take, once (a minute or two)"
	@$(BIN)/python -c 'import app.datasets.reading.parser_preload; from app.worker import kernels; kernels.compile_first()'
	@touch $@

# What tests need contains what running needs.
$(DEV_STAMP): pyproject.toml clients/python/pyproject.toml constraints.txt | $(BIN)/python
	$(call install_pinned,.[dev])
	@touch $@ $(RUN_STAMP)

# The two editions of LIBLINEAR have one import name, so each gets a folder.
$(PEERS_STAMP): benchmarks/peers/requirements.txt benchmarks/peers/liblinear.txt | $(BIN)/python
	@echo "installing the benchmark's peers into $(PEERS)"
	@$(BIN)/python -m venv $(PEERS)
	@$(PEERS)/bin/python -m pip install --quiet --disable-pip-version-check -r benchmarks/peers/requirements.txt
	@while read -r edition; do $(PEERS)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --upgrade \
		--target "$(PEERS)/$${edition%%=*}" "$$edition" || exit 1; done < benchmarks/peers/liblinear.txt
	@touch $@

$(GENERATORS_STAMP): tests/e2e/generated/requirements.txt tests/e2e/generated/package.json
	@echo "installing the generators of clients into $(GENERATORS)"
	@$(BIN)/python -m venv $(GENERATORS)
	@$(GENERATORS)/bin/python -m pip install --quiet --disable-pip-version-check -r tests/e2e/generated/requirements.txt
	@cp tests/e2e/generated/package.json $(GENERATORS)/ && npm install --silent --no-audit --no-fund --prefix $(GENERATORS)
	@touch $@

# Its own libraries let the program start on a machine that has none of a browser's.
$(BROWSER_STAMP): tests/browser/chromium/package.json tests/browser/chromium/unpack.mjs
	@echo "installing a headless Chromium into $(BROWSER)"
	@rm -rf $(BROWSER) && mkdir $(BROWSER) && cp $< $(BROWSER)/ && npm install --silent --no-audit --no-fund --prefix $(BROWSER)
	@node tests/browser/chromium/unpack.mjs $(BROWSER)
	@LD_LIBRARY_PATH=$(BROWSER)/lib $(BROWSER)/chromium --version
	@touch $@
