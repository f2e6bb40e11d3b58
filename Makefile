PY ?= $(shell command -v python3.11 || command -v python3.12)
# make demo EXTRA=gpu on CUDA machines
EXTRA ?= cpu
BIN := .venv/bin

.PHONY: demo test check clean
.venv/.ok: pyproject.toml constraints.txt
	$(PY) -m venv .venv
	$(BIN)/python -m pip install -q -c constraints.txt -e ".[$(EXTRA),dev]"
	touch $@

demo: .venv/.ok  ## upload a handbook, watch it being read, ask eight questions
	$(BIN)/lectern demo

test: .venv/.ok  ## all tests: offline, CPU
	$(BIN)/python -m pytest -q

check: .venv/.ok  ## lint, types, layers, tests: what CI runs
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m pytest -q

clean:  ## forget the virtual environment and the demo's data
	rm -rf .venv lectern-data
