# The README's commands. Each target installs first, from the lock file, into .venv.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed-$(shell cat requirements.lock pyproject.toml | cksum | cut -d' ' -f1)
ARGS   ?=
PART   ?=
LANES  ?= 4
PYTEST := $(BIN)/python -m pytest --dist=loadscope --no-loadscope-reorder

.PHONY: help install demo quick test check bench chaos papers lock

help:            ## list the targets
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/'

install: $(STAMP) ## make .venv with the command onepass in it, about a minute

$(STAMP): requirements.lock pyproject.toml
	$(PYTHON) install.py $(VENV)
	rm -f $(VENV)/.installed-*
	touch $@

demo: install    ## the whole service on embedded servers; make demo ARGS="--seconds 20"
	$(BIN)/onepass demo $(ARGS)

quick: install   ## the tests that need no server, in 72 s; make quick ARGS="-k laws"
	$(PYTEST) --numprocesses=2 --quick $(ARGS)

test: install    ## every test, on real Redis and real Kafka, in 5 minutes; make test ARGS="tests/test_lanes.py"
	$(PYTEST) --numprocesses=$(LANES) $(ARGS)

check: install   ## format, lint, types, import rules, Prometheus' files
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	@if command -v promtool >/dev/null; then promtool check config deploy/prometheus/prometheus.yml \
	    && promtool check rules deploy/prometheus/rules/*.yml && promtool test rules deploy/prometheus/tests/*.yml; \
	else echo "NOT CHECKED: deploy/prometheus needs promtool (Debian package prometheus)"; fi

bench: install   ## events per second of the decoder, the learners and the whole loop; the pause of a checkpoint
	$(BIN)/python -m tests.bench.loop
	$(BIN)/onepass bench learners $(ARGS)
	$(BIN)/onepass bench kernels $(ARGS)
	$(BIN)/onepass bench checkpoint $(ARGS)

chaos: install   ## many faults, all compositions, new examples; 1 to 60 minutes per part; make chaos PART=kill; writes docs/reliability.md
	$(BIN)/python -m tests.chaos.run $(PART) $(ARGS)

papers: install  ## McKenna's tables, Bollegala's heart data, Carvalho & Cohen's movie reviews; needs ONEPASS_DATA
	@test -n "$$ONEPASS_DATA" || { echo "set ONEPASS_DATA to the folder of the data sets"; exit 2; }
	@echo "Bollegala, table 2: GN 0.870 accuracy on the 54 held-out rows"
	$(BIN)/onepass replay "$$ONEPASS_DATA/bollegala/heart.train.svm.gz" --test "$$ONEPASS_DATA/bollegala/heart.test.svm.gz" \
	    --learner sgd-log:horizon=216 --learner pa1:C=0.01 --scale gn --shuffle 0 $(ARGS)
	@echo "Carvalho & Cohen: MBW ahead of the other online learners on movie reviews"
	$(BIN)/python -m tests.bench.movies
	@echo "McKenna: tables 5.1, 5.2, 6.1 and 6.2"
	$(BIN)/onepass papers

lock:            ## rewrite both lock files from pyproject.toml; needs uv
	uv pip compile --universal --generate-hashes --python-version 3.11 --extra dev --extra fast --extra bench --extra plot \
	    --quiet --output-file requirements.lock pyproject.toml
	uv pip compile --universal --generate-hashes --python-version 3.11 --extra fast --group build --constraints requirements.lock \
	    --quiet --output-file requirements-runtime.lock pyproject.toml
