# Every task of this repository. `make` alone lists them.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: help install demo test test-long test-users test-cgroup2 test-cgroup2-devices test-gpu test-gpu-day lint audit format docs reference bench bench-scale soak soak-cluster soak-load torture fuzz pictures vendor lock clean

help: ## list the targets
	@grep -E '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z0-9-]+):[^#]*## /\1\t/' | expand -t 22

install: $(STAMP) ## set up .venv with rankd and everything it needs

$(STAMP): requirements-dev.lock pyproject.toml
	@echo "== setting up $(VENV): locked dependencies, then rankd itself"
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "rankd needs Python 3.11 or newer; this is " + sys.version)'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements-dev.lock
	@$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

demo: install ## two minutes: a broker, a database, all services, four users' jobs, the queue as it moves
	@echo "== demo: starting rankd with 4 simulated nodes and this machine as a real one"
	@$(BIN)/rankd demo

WORKERS ?= 4
RERUNS  ?= 0

test: install ## run every test, with the real servers that they start
	@echo "== tests: unit, properties, integration (real nats-server), system (real processes); $(WORKERS) at a time, since most of them wait"
	@$(BIN)/python -m compileall -q -j 0 daemon plugins migrations  # or each of the thousands of processes compiles them
	@$(BIN)/pytest --numprocesses $(WORKERS) --dist worksteal --reruns $(RERUNS) -rR

test-long: ## the same with more: all examples of the properties, longer faults, more kills and hostile inputs
	@RANKD_TEST_LONG=1 $(MAKE) --no-print-directory test

JOBS ?= 10000

test-users: install ## 10,000 jobs of two users under an agent that is root, each exactly once (needs root)
	@test "$$(id -u)" = 0 || { echo "make test-users needs root: it runs jobs as two users"; exit 1; }
	@RANKD_TEST_JOBS=$(JOBS) $(BIN)/pytest tests/integration/test_agent_users.py --timeout 3600

TESTS ?=
DEVICE_TESTS = tests/integration/test_device_group.py tests/integration/test_agent_device.py

test-cgroup2: install ## the tests of control groups under Debian's kernel with version 2 (needs root, Debian); TESTS=FILES for some
	@sh tests/cgroup2/run.sh $(TESTS)

test-cgroup2-devices: install ## the part of test-cgroup2 about GPUs and other devices
	@sh tests/cgroup2/run.sh $(DEVICE_TESTS)

test-gpu: install ## a whole rankd on this machine's NVIDIA GPUs, which nothing else may use meanwhile; skipped without one
	@RANKD_TEST_GPU=1 $(BIN)/pytest tests/system/test_real_gpu.py -v -rs

test-gpu-day: install ## jobs for a day, or SECONDS=N, on this machine's GPUs (made-up ones without a driver); prints a report
	@RANKD_TEST_GPU_DAY=$(or $(SECONDS),86400) $(BIN)/pytest tests/system/test_gpu_day.py -v -rs --timeout=0

lint: install ## ruff, mypy (strict), import-linter
	@echo "== lint"
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

audit: ## known vulnerabilities of the locked dependencies; status 3 if no package registry answers
	@PYTHON=$(PYTHON) .ci/audit

format: install ## let ruff format and fix what it can
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

docs: install ## build the documentation site in site/; a broken link or anchor is an error
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet
	@echo "open site/index.html; the search needs a server: $(BIN)/python -m http.server --directory site"

reference: install ## write the options and settings into docs/reference from the code
	@$(BIN)/python docs/tools/reference.py

bench: install ## measure what is claimed; a table on the terminal, JSON in benchmarks/results
	@echo "== benchmarks"
	@for script in $(filter-out benchmarks/bench_scale.py,$(wildcard benchmarks/bench_*.py)); do echo "-- $$script"; $(BIN)/python $$script || exit 1; done

SECONDS ?= 300
SEED    ?= 1

soak: install ## a workload under faults: make soak SECONDS=1200 SEED=7
	@echo "== soak: $(SECONDS) s of kills, pauses, restarts and cut connections (seed $(SEED)), then every record is checked"
	@$(BIN)/python tests/soak/run.py $(SECONDS) $(SEED)

soak-cluster: install ## the same on PostgreSQL with three brokers and standbys: make soak-cluster SECONDS=600 SEED=7
	@echo "== soak-cluster: $(SECONDS) s of faults of services, brokers, the database and their links (seed $(SEED))"
	@$(BIN)/python tests/soak/run_cluster.py $(SECONDS) $(SEED)

RUNS ?= 20
BUSY ?= 4

soak-load: install ## many soaks beside busy loops: make soak-load RUNS=20 SECONDS=60 SEED=1 BUSY=4
	@echo "== soak-load: $(RUNS) soaks of $(SECONDS) s from seed $(SEED), beside $(BUSY) busy loops"
	@$(BIN)/python tests/soak/series.py $(RUNS) $(SECONDS) $(SEED) $(BUSY)

KILLS ?= 5000

torture: install ## writers, checkpoints and readers of one database are killed: make torture KILLS=5000 SEED=1
	@echo "== torture: $(KILLS) kills (seed $(SEED)), after each the file is checked"
	@$(BIN)/python tests/engine_torture/run.py $(KILLS) $(SEED)

INPUTS ?= 100000

fuzz: install ## hostile inputs for all readers and a running site: make fuzz INPUTS=1000000 SEED=1
	@echo "== fuzz: $(INPUTS) hostile inputs (seed $(SEED)), a tenth of them for a running site"
	@$(BIN)/python tests/fuzz/run.py $(INPUTS) $(SEED)

bench-scale: install ## a million pending jobs on real processes: ten minutes; a table, JSON in benchmarks/results
	@$(BIN)/python benchmarks/bench_scale.py

COMPILE = uv pip compile --quiet --universal --generate-hashes --no-emit-index-url --no-annotate \
	--custom-compile-command "make lock"

pictures: install ## the pictures of the page in docs/pictures, made by the tests in a browser
	@RANKD_PICTURES=docs/pictures $(BIN)/pytest tests/browser -k every_page

vendor: ## fetch the scripts and styles of others that vendor.toml lists (needs npm), and compare their hashes
	@.ci/vendor

lock: ## resolve the dependencies again (needs uv)
	@$(COMPILE) pyproject.toml --output-file requirements.lock
	@$(COMPILE) pyproject.toml --extra postgresql --extra web --constraint requirements.lock --output-file requirements-container.lock
	@$(COMPILE) pyproject.toml --group dev --output-file requirements-dev.lock
	@$(COMPILE) --group audit --output-file requirements-audit.lock

clean: ## remove everything that was made here
	rm -rf $(VENV) .venv-audit .rankd dist build site .mypy_cache .ruff_cache .hypothesis .import_linter_cache benchmarks/results
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
