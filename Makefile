# Everything runs in a virtual environment of its own; only Python, pip and make are needed.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PLAIN  := $(VENV)/.installed-plain
LIGHT  := $(VENV)/.installed-light
STAMP  := $(VENV)/.installed

.PHONY: help demo check test slow integrations coverage lint docs site pictures torch soak bench lock sbom clean

help:
	@echo "make demo      install, index examples/notes and search it four times"
	@echo "make check     lint, types of src and unit tests, with few dependencies"
	@echo "make test      lint, types and all tests but the slow ones"
	@echo "make slow      the slow tests: every command of the documentation, both stores side by side"
	@echo "make integrations  programs of other frameworks, each in an environment of its own"
	@echo "make coverage  all tests, with the branch coverage of src: at least 90 %"
	@echo "make docs      regenerate the generated parts of the documentation"
	@echo "make site      build the site of the documentation and serve it at http://localhost:8000"
	@echo "make pictures  take the screenshots of the documentation again"
	@echo "make torch     the tests of the provider sentence-transformers, which installs torch"
	@echo "make soak      the long tests: kills, damage, random input, many processes and clients;"
	@echo "               PART=kills runs one module of tests/soak, SOAK_SCALE=0.1 a tenth of it"
	@echo "make lock      write requirements/*.lock again, with the newest versions"
	@echo "make sbom      list every package of an installation, in dist/ (CycloneDX)"
	@echo "make bench     speed and quality, as tables and JSON (see bench/README.md)"

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"

# As users install it: the newest versions that pyproject.toml allows.
$(PLAIN): pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable .
	@touch $(PLAIN)

# As developers install it: the versions of the lock file, each by its hash.
$(LIGHT): requirements/light.lock | $(BIN)/python
	$(BIN)/python -m pip install --quiet --require-hashes --no-deps -r requirements/light.lock
	$(BIN)/python -m pip install --quiet --no-deps --editable .
	@touch $(LIGHT)

$(STAMP): requirements/dev.lock | $(BIN)/python
	$(BIN)/python -m pip install --quiet --require-hashes --no-deps -r requirements/dev.lock
	$(BIN)/python -m pip install --quiet --no-deps --editable .
	@touch $(LIGHT) $(STAMP)

demo: $(PLAIN)
	@bash examples/demo.sh $(BIN)/memwell

check: $(LIGHT)
	$(BIN)/ruff check src tests bench training deploy clients
	$(BIN)/ruff format --check src tests bench training deploy clients
	$(BIN)/mypy src
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "not (browser or process or server or soak)" tests/unit

lint: $(STAMP)
	$(BIN)/ruff check src tests bench training deploy clients
	$(BIN)/ruff format --check src tests bench training deploy clients
	$(BIN)/mypy

test: lint
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "not (soak or slow)"

slow: $(STAMP)
	$(BIN)/python -m pytest -n 2 --dist worksteal -m slow

integrations: $(STAMP)
	$(BIN)/python -m tests.integrations

coverage: $(STAMP)
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "not soak" --cov --cov-report=term:skip-covered

docs: $(STAMP)
	$(BIN)/python -m tests.support.documents

site: $(STAMP)
	$(BIN)/zensical build --strict --clean
	$(BIN)/zensical serve

pictures: $(STAMP)
	$(BIN)/python -m tests.support.screenshots

torch: $(STAMP)
	$(BIN)/python -m pip install --quiet --group torch
	$(BIN)/python -m pytest -n 2 tests/unit/embed/test_local_providers.py

soak: $(STAMP)
	$(BIN)/python -m pytest -m soak -s $(if $(PART),tests/soak/test_$(PART).py)

bench: $(STAMP)
	$(BIN)/python -m bench

lock: | $(BIN)/python
	$(BIN)/python -m pip install --quiet uv
	for group in light dev; do $(BIN)/uv pip compile pyproject.toml --quiet --upgrade --universal \
		--python-version 3.11 --generate-hashes --no-header --no-annotate --group $$group \
		--output-file requirements/$$group.lock; done

sbom:
	$(PYTHON) -m venv build/sbom
	build/sbom/bin/python -m pip install --quiet .
	$(PYTHON) -m venv build/sbom-tool
	build/sbom-tool/bin/python -m pip install --quiet cyclonedx-bom
	mkdir -p dist
	build/sbom-tool/bin/cyclonedx-py environment --output-reproducible --pyproject pyproject.toml \
		--output-file dist/memwell.cdx.json build/sbom

clean:
	rm -rf $(VENV) .venv-integrations build dist bench/out .coverage .pytest_cache .mypy_cache .ruff_cache .hypothesis
