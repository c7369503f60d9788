# kdsl: `make demo` and `make test` on a machine with Python 3.11+, a C and C++ compiler and make.
# The first of them makes .venv and installs requirements-dev.txt there; nothing else is touched.

VENV := .venv
BIN := $(VENV)/bin
DEPS := $(VENV)/deps.stamp
KDSL := $(VENV)/kdsl.stamp
C_SOURCES := $(wildcard include/kdsl/*.h include/kdsl/*/*.h kdsl/runtime/csrc/*.[ch] kdsl/runtime/compat/*.[ch] kdsl/sim/csrc/*.* examples/*/*.c benchmarks/native/*)
BENCHMARKS ?= startup call rows attention kernels
PYTEST_ARGS ?=

.DELETE_ON_ERROR:
.PHONY: help demo test unit conformance lint format bench sanitize fuzz clean

help:  ## list the targets
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/make \1\t\2/p' Makefile | expand -t 14

demo: $(KDSL)  ## compile attention, call it from NumPy, Torch, JAX and apache-tvm-ffi, one table
	@$(BIN)/python examples/attention/demo.py

test: lint unit  ## lint, then all tests

unit: $(KDSL)  ## the tests alone, on two processes; PYTEST_ARGS goes to pytest
	$(BIN)/python -m pytest -n 2 --dist loadfile $(PYTEST_ARGS)

conformance: $(KDSL)  ## the wheel in clean environments; the runtime on each Python, each tvm-ffi
	$(BIN)/python -m pytest tests/wheel $(PYTEST_ARGS)
	$(BIN)/python -m tests.conformance.matrix

lint: $(KDSL)  ## ruff, mypy --strict and clang-format; changes nothing
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/clang-format --dry-run --Werror $(C_SOURCES)

format: $(KDSL)  ## let ruff and clang-format rewrite the files
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/clang-format -i $(C_SOURCES)

bench: $(KDSL)  ## measure against the peers, interleaved in one process; BENCHMARKS picks
	@for name in $(BENCHMARKS); do echo "== $$name"; $(BIN)/python benchmarks/$$name.py || exit 1; done

sanitize: $(KDSL)  ## the runtime's C core under Address-, UndefinedBehavior- and ThreadSanitizer
	$(BIN)/python -m tools.sanitize address
	$(BIN)/python -m tools.sanitize thread

fuzz: $(KDSL)  ## random arguments, containers, metadata, kernels for 10 minutes, then 10 million calls
	$(BIN)/python -m tools.fuzz --minutes 10
	$(BIN)/python -m tools.memory

clean:  ## remove .venv and what building left
	rm -rf $(VENV) build dist kdsl.egg-info kdsl/runtime/*.so .pytest_cache .mypy_cache .ruff_cache

$(DEPS): requirements-dev.txt tools/find_python.sh
	@python=$$(sh tools/find_python.sh) && { test -x $(BIN)/python || "$$python" -m venv $(VENV); }
	@echo "installing requirements-dev.txt into $(VENV)"
	@$(BIN)/python -m pip install -qq --disable-pip-version-check -r requirements-dev.txt
	@touch $@

$(KDSL): $(DEPS) pyproject.toml setup.py $(wildcard kdsl/runtime/c*/*.[ch]) $(wildcard include/kdsl/*.h include/kdsl/ffi/*)
	@sh tools/find_compiler.sh
	@$(BIN)/python -m pip install -qq --disable-pip-version-check \
	    --no-build-isolation --no-deps --editable .
	@touch $@
