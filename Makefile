PY ?= $(shell command -v python3.11 || command -v python3.12)
# make demo EXTRA=gpu on CUDA machines
EXTRA ?= cpu
BIN := .venv/bin
# Folders of tests that are skipped, or interpreted, without a GPU.
ON_GPU := $(addprefix tests/,engine precompute)
PYTEST := $(BIN)/python -m pytest -q

.PHONY: demo test gpu-test lint check clean
.venv/.ok: pyproject.toml constraints.txt
	@test -n "$(PY)" || { echo "Lectern needs Python 3.11 or 3.12, and neither python3.11 nor python3.12 \
	is on the PATH. Install one, or name it: make $(MAKECMDGOALS) PY=/path/to/python3.12"; exit 1; }
	$(PY) -m venv .venv
	$(BIN)/python -m pip install -q -c constraints.txt -e ".[$(EXTRA),dev]"
	touch $@

demo: .venv/.ok  ## upload a handbook, watch it being read, ask eight questions
	$(BIN)/lectern demo

test: .venv/.ok  ## all tests: offline, CPU
	$(PYTEST) -n 3 --dist loadfile --no-loadscope-reorder

gpu-test: EXTRA := gpu
gpu-test: .venv/.ok  ## all tests that need a GPU; fails without one
	LECTERN_TEST_GPU=1 $(PYTEST) $(ON_GPU)
	$(BIN)/python -m bench.kernels.prefill --contexts 131072 --check llama2_7b llama3_8b qwen2.5_7b qwen3_8b \
	gemma2_9b gemma3_12b
	$(BIN)/python -m bench.kernels.families --families Llama Qwen Gemma --out $${TMPDIR:-/tmp}/families.json
	@echo "GPU tests passed at $$(git describe --always --abbrev=7 --dirty) on $$(date +%F)"

lint: .venv/.ok  ## style, types, layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

check: lint test  ## what CI runs

clean:  ## forget the virtual environment and the demo's data
	rm -rf .venv lectern-data
