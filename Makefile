# Everything starts here: `make demo` and `make test` set up what they need.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: demo test test-services docs faults bench lint clean

demo: $(READY)
	$(BIN)/devote demo

test: $(READY) lint
	$(BIN)/python -m pytest -n 2 --dist loadfile

# what needs a browser, SLURM, Ray, ...: .ci/services installs what can be had, the rest is skipped;
# and beside it the cases that compile for long
test-services: $(READY)
	.ci/services $(BIN)
	$(BIN)/python -m pytest -n 2 --dist loadfile -m "services or slow"

# the site, in build/site
docs: $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[docs]'
	.ci/docs $(BIN)

faults: $(READY)
	$(BIN)/python tests/faults/run.py

bench: $(READY)
	$(BIN)/python benchmarks/speed.py

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

$(READY): requirements.lock pyproject.toml
	$(PYTHON) -c "import sys; assert sys.version_info >= (3, 11), 'Python 3.11 or newer is needed'"
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps -e .
	touch $(READY)

clean:
	rm -rf $(VENV) build .pytest_cache .ruff_cache .mypy_cache
