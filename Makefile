# A machine with Python >= 3.11, venv and pip is enough: every target makes what it needs.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed

# A fraction of the installed modules is ever imported: these are compiled then, once, and not again at every start.
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --editable
unexport PYTHONDONTWRITEBYTECODE

# The tested releases, for the build backend too (newer pips read its constraints from the second name).
TESTED := PIP_CONSTRAINT=constraints.txt PIP_BUILD_CONSTRAINT=constraints.txt

.DEFAULT_GOAL := help
.PHONY: help run test quick pythons newest constraints volume sanitize runtime numba frontends variants lint format docs examples bench release clean

help:  ## Show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: $(STAMP)  ## Run the ladder: every kernel verified on a simulated GPU, in one screen
	@$(BIN)/tilewright ladder

# mypy uses one core, so it runs beside the tests; what it says comes last.
test: $(STAMP)  ## Lint, types and the test suite
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/mypy >$(VENV)/types.txt 2>&1 & types=$$!; $(BIN)/pytest; tests=$$?; \
	  wait $$types; types=$$?; cat $(VENV)/types.txt; test $$types -eq 0 && exit $$tests

quick: $(STAMP)  ## Lint and the tests of what changed since main, under a minute; a fixed list where nothing changed
	@$(BIN)/python .ci/quick.py

# PYTHONS names interpreters; BESIDE names an environment whose version of Python is left out.
pythons:  ## Commands and quick tests in a fresh environment of each Python at hand, 3.11 to 3.13 (PYTHONS=...)
	@$(PYTHON) .ci/pythons.py tested $(if $(BESIDE),--beside $(BESIDE)) $(PYTHONS)

newest:  ## The same with the newest releases, not those of constraints.txt: says which broke what
	@$(PYTHON) .ci/pythons.py newest $(PYTHONS); status=$$?; $(PYTHON) .ci/frontends.py newest $(PYTHONS) && exit $$status

constraints:  ## The same, and write constraints.txt and constraints-frontends.txt if nothing is broken
	@$(PYTHON) .ci/pythons.py constraints $(PYTHONS)
	@$(PYTHON) .ci/frontends.py constraints $(PYTHONS)

volume: $(STAMP)  ## The slow, high-volume tests that `make test` leaves out
	@$(BIN)/pytest -m volume
	@for host in own avx2 sse; do for levels in swapped usual; do \
	  ISA_LEVELS=$$levels ISA_HOST=$$host $(BIN)/pytest -m "volume or not volume" tests/isa || exit 1; done; done

runtime: $(STAMP)  ## Compile the C parts to the bitcode that stands beside them, and test that it does
	@$(BIN)/python -c 'import ziglang' 2>/dev/null || $(INSTALL) '.[runtime]'
	@$(BIN)/python -m tilewright.ground.native.clang $$(find src -name '*.c')
	@$(BIN)/pytest -n 0 tests/unit/ground/native/test_bitcode.py tests/unit/ground/native/test_header.py

sanitize: $(STAMP)  ## Test the C parts under the address, undefined-behaviour and thread sanitizers
	@$(BIN)/pytest -m "volume or not volume" tests/native_c

numba: $(STAMP)  ## numba-cuda's own tests on the simulated GPU, compared with the lists in tests/numba_suite
	@$(BIN)/python tests/numba_suite/suite.py

frontends:  ## Tests of torch, Triton, CuPy, CuTe and JAX, in a fresh environment without and with numba-cuda
	@$(PYTHON) .ci/frontends.py tested $(PYTHONS)

variants: $(STAMP)  ## Kernels of the findings' corpus in other words: check still finds every defect, and nothing else
	@$(BIN)/python tests/findings/variants.py

lint: $(STAMP)  ## ruff check, ruff format --check, mypy --strict, and warnings of long files and functions
	@$(BIN)/python .ci/sizes.py
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/mypy

format: $(STAMP)  ## Format the code and mend what ruff can mend
	@$(BIN)/ruff check --fix --quiet || true
	@$(BIN)/ruff format

docs: $(STAMP)  ## Write the generated pages of docs/, and build all of them as HTML
	@$(BIN)/python -c 'import furo, myst_parser, numpydoc' 2>/dev/null || $(INSTALL) '.[docs]'
	@$(BIN)/tilewright ptx-support > docs/ptx-support.md
	@$(BIN)/python docs/making/intrinsics.py
	@$(BIN)/python docs/making/commands.py
	@$(BIN)/python docs/making/documents.py
	@$(BIN)/python docs/making/pictures.py
	@$(BIN)/python -m sphinx -W --keep-going -q -b html docs build/docs
	@echo "build/docs/index.html"

examples: $(STAMP)  ## Run the examples of README and docs/, and write into the pages what they print now
	@$(BIN)/python docs/making

bench: $(STAMP)  ## Run every script of benchmarks/
	@set -e; for script in benchmarks/*.py; do echo "== $$script"; $(BIN)/python "$$script"; done

# The wheel is tried in a fresh environment without this checkout; `make release TAG=1` tags the commit as well.
release:  ## Build sdist and wheel, check them and try the wheel; TAG=1 tags the version
	@test -z "$$(git status --porcelain)" || { echo "commit or stash first: git status"; exit 1; }
	@rm -rf dist build/release && mkdir -p build
	@$(PYTHON) -m venv build/release && build/release/bin/python -m pip install -q --disable-pip-version-check build twine
	@build/release/bin/python -m build --outdir dist . >build/release.txt 2>&1 || { cat build/release.txt; exit 1; }
	@build/release/bin/python -m twine check --strict dist/*
	@$(PYTHON) -m venv --clear build/release && $(TESTED) build/release/bin/python -m pip install -q --disable-pip-version-check dist/*.whl
	@cd build && release/bin/tilewright ladder --device cpu --sizes 64 && release/bin/tilewright --version
	@test -z "$(TAG)" || git tag -a "v$$(build/release/bin/python -c 'import tilewright; print(tilewright.__version__)')" -m "Release"
	@ls -l dist

clean:  ## Remove the environment and everything built
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The environment is made once, and brought up to date when what it is made from changes.
$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; v = sys.version.split()[0]; sys.version_info >= (3, 11) or \
	  sys.exit(f"Tilewright needs Python 3.11 or newer (got {v}); try: make PYTHON=python3.12")'
	@test -x $(BIN)/python || { echo "Creating $(VENV) ..."; $(PYTHON) -m venv $(VENV); }
	@echo "Installing Tilewright and its compilers into $(VENV) (about a minute, once) ..."
	@$(TESTED) $(INSTALL) '.[all]'
	@touch $@
