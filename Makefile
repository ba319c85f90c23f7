# The README's commands. Each target installs first, from the lock file, into .venv.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed-$(shell cat requirements.lock pyproject.toml | cksum | cut -d' ' -f1)
ARGS   ?=

.PHONY: help install demo test check bench chaos papers lock

help:            ## what can be made
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/'

install: $(STAMP) ## make .venv with the command onepass in it

$(STAMP): requirements.lock pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	rm -f $(VENV)/.installed-*
	touch $@

demo: install    ## the whole loop on embedded parts; make demo ARGS="--seconds 20"
	$(BIN)/onepass demo $(ARGS)

test: install    ## every test, on real Redis and real Kafka; make test ARGS="-k laws"
	$(BIN)/python -m pytest $(ARGS)

check: install   ## format, lint, types, import rules
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
