# `make help` lists the targets. Every target that needs the environment builds
# it first; nothing has to be installed but Python 3.11 or newer and make.

# The first of these that runs: a version manager may put a `python3.11` on the
# path that only prints an error.
PYTHON ?= $(shell for p in python3.11 python3; do \
	$$p -c "" 2>/dev/null && echo $$p && break; done)
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
PEERS := $(VENV)/peers/.installed
JSPSYCH := 8.3.0
ARGS ?=
SLICE := --functions "Forrester et al (2008)" Levy --seeds 8 --iterations 10 \
	--output build/bench

# On matrices of this size more threads are slower, and tests run in two processes.
export OMP_NUM_THREADS := 1

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test lint compat bench speed docs tutorials picture clean

help: ## Show this list
	@echo "Usage: make TARGET [ARGS=\"...\"]"
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  %-9s %s\n", $$1, $$2 }' \
		$(MAKEFILE_LIST)

demo: $(INSTALLED) ## Examine a simulated patient and draw what is found
	@rm -rf build/demo && mkdir -p build/demo
	$(BIN)/binary-context demo build/demo/eye.journal $(ARGS)
	$(BIN)/binary-context plot build/demo/eye.journal build/demo/eye.png

test: $(INSTALLED) $(PEERS) ## Run the tests; ARGS goes to pytest: ARGS="-k probit -x"
	$(BIN)/python -m pytest -n 2 --dist worksteal $(ARGS)

lint: $(INSTALLED) ## Check format, style and types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyright

compat: ## Test with the oldest supported packages and, if there are any, newer Pythons
	scripts/check_compatibility.sh $(PYTHON)

bench: $(INSTALLED) ## Run a small slice of the studies and report on it
	$(BIN)/python -m benchmarks run binary $(SLICE)
	$(BIN)/python -m benchmarks run duels $(SLICE)
	$(BIN)/python -m benchmarks report binary --output build/bench
	$(BIN)/python -m benchmarks report duels --output build/bench

speed: $(INSTALLED) ## Measure the speed; ARGS goes to the benchmark
	$(BIN)/python -m benchmarks speed $(ARGS)

docs: $(VENV)/.installed-docs ## Build the documentation into docs/_build/html
	$(BIN)/python -m sphinx -W --keep-going -q -d docs/_build/doctrees $(ARGS) \
		docs docs/_build/html
	@echo "Site: docs/_build/html/index.html"

tutorials: $(VENV)/.installed-tutorials ## Execute the tutorials; SMOKE_TEST=1: only a check
	$(BIN)/python scripts/execute_tutorials.py $(ARGS)

picture: $(INSTALLED) ## Draw the picture of the README
	$(BIN)/python scripts/draw_idea.py

clean: ## Delete caches and build products; the environment stays
	rm -rf build dist htmlcov docs/_build docs/studies docs/tutorials/*.ipynb docs/tutorials/pictures \
		.coverage .coverage.* \
		.hypothesis .pytest_cache .ruff_cache
	find . -path ./$(VENV) -prune -o -path ./.git -prune -o \
		-type d -name __pycache__ -exec rm -rf {} +

# The stamp is written last, so an interrupted installation starts again. An
# environment that has no working pip was itself interrupted: it is made anew.
$(INSTALLED): pyproject.toml constraints.txt
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || ( \
		echo "Creating $(VENV)" && $(PYTHON) -m venv --clear $(VENV) )
	@echo "Installing the package and its tools into $(VENV) (a few minutes at first)"
	$(BIN)/python -m pip install --quiet --disable-pip-version-check \
		-c constraints.txt -e ".[test,lint,benchmarks,ax]"
	@touch $@

# Packages to test with; where they cannot be installed, their tests are skipped.
$(PEERS): tests/integrations/peers.txt $(INSTALLED)
	@echo "Installing the packages that the integrations are tested with"
	@mkdir -p $(@D)/jspsych
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps \
		--upgrade --target $(@D) -r $< \
		&& cd $(@D) && npm pack --silent jspsych@$(JSPSYCH) >/dev/null \
		&& tar -xzf jspsych-$(JSPSYCH).tgz -C jspsych --strip-components 1 \
		&& touch .installed \
		|| echo "They cannot be installed here: their tests are skipped"

# What only some targets need, each in a group of its own.
$(VENV)/.installed-%: $(INSTALLED)
	@echo "Installing what the target needs beside: $*"
	$(BIN)/python -m pip install --quiet --disable-pip-version-check \
		-c constraints.txt -e ".[$*]"
	@touch $@
