# make run     the main job: a broker, real flights, a PySpark pipeline, its result under out/
# make spark   the list of the Spark pipelines, with the minutes that they take; make spark NAME=warehouse runs one
# make test    everything: checks, all tests with their coverage gates, compatibility with stock clients and Spark
# make compat-cluster  the clients' scenarios on three brokers, the long ones too; leaders, coordinators and controllers are
#              killed in some (CLUSTER=kafka-2.7.2-cluster: the same on Apache Kafka)
# make compatibility  the compatibility suite on every Kafka release that is here; docs/compatibility.md says what came out
# make check   format, lint, types, layers, generated code, fast tests: about a minute, no Java, no network
# make simulate  thousands of random histories of a log on a disk that fails and dies, of consumers in a group, and of the
#                coordinators of groups (KIP-848) and of transactions (KIP-890)
#                (KAFKAPY_SIMULATIONS=5000)
# make simulate-cluster  10,000 histories of a cluster in one process, under seeds, and rules broken on purpose (HISTORIES=100)
# make kill    1,000 brokers killed under load, one after the other, nothing acknowledged lost (KILLS=100; ARGUMENTS=--power
#              cuts the power of an ext4 of its own instead, for kafkapy.flush=ack)
# make exactly-once  some 100,000 transactions that read, process and write, broker and client killed at random meanwhile:
#              each record comes out once, in order (RECORDS=10000; ARGUMENTS=--seed 2)
# make mirror-kills  `kafkapy mirror` and its brokers killed under load, with and without transactions: nothing is lost or
#              reordered, with transactions nothing comes twice (MIRROR_KILLS=30; ARGUMENTS="--target kafka" for Kafka 2.7.2,
#              "--brokers 3" for two clusters whose leaders, controllers and coordinators are killed)
# make chaos   three brokers on a ZooKeeper under 1,000 faults: killed, stopped, cut off, without ZooKeeper, with full disks;
#              nothing acknowledged is lost, moved, doubled or reordered (WINDOWS=50; ARGUMENTS="--seed 7 --clusters 2",
#              --target kafka does the same to Apache Kafka 2.7.2)
# make kill-all  the same cluster, all brokers killed at once 30 times, started on busy processors while one of them is stopped or
#              loses its session: workers in librdkafka and Java copy each record once, every coordinator is where Kafka's formula
#              says (ALL_KILLS=100; ARGUMENTS="--seed 7")
# make spark-kills  Spark, a broker, or both killed 20 times in micro-batches that form sessions: each session exactly once
#              (SPARK_KILLS=5; ARGUMENTS="--target kafkapy-cluster --seed 7", or --target kafka-2.7.2, kafka-4.4.0)
# make soak    three brokers under steady load, three hours: memory, descriptors and latencies stay flat (MINUTES=30)
# make compat-long  100,000 requests of every API, drawn by a seed that is printed, the same to Apache Kafka 2.7.2 and kafkapy:
#              the same answers, field by field (REQUESTS=5000; ARGUMENTS="--seed 7 --security sasl_ssl", or "--release 4.4.0
#              --keep-going", or --replay FILE)
# make fuzz    ten million broken and hostile requests, drawn by a seed that is printed: no traceback, bounded memory, other
#              clients are served meanwhile (FRAMES=100000; ARGUMENTS="--seed 7 --security sasl_ssl --before-login", or --replay FILE)
# make strangers  5,000 connections that do not authenticate: at most 64 KiB each, an end, other clients are served meanwhile
# make bench   kafkapy beside Apache Kafka; ARGUMENTS=--quick for a short run
# make setup   .venv with the development tools; make spark-setup adds PySpark, which check, fmt and setup do not need
# Each of them sets up what it needs, in .venv and .cache, once.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
WORKERS ?= 2
# Most of the compatibility suite waits: for JVMs that start, sessions that end, brokers that come back.
COMPAT_WORKERS ?= 4
# Where it is set, each of the thousand brokers that tests start would compile all modules again.
unexport PYTHONDONTWRITEBYTECODE
ARGUMENTS ?=
SCAN := $(wildcard setup.py $(foreach name,scan compact entries alike,kafkapy/records/$(name).py kafkapy/records/$(name).pxd))
INSTALLED := $(VENV)/.installed
SPARK_INSTALLED := $(VENV)/.installed-spark
SPARK_JARS := $(VENV)/.spark-jars
# The pipeline real_time needs a newer Spark than the pinned one.
VENV_42 := .venv-spark-4.2
SPARK_42_INSTALLED := $(VENV_42)/.installed-spark
COMPILED := $(VENV)/.compiled

.PHONY: compat-cluster compat-long fuzz strangers simulate simulate-cluster kill mirror-kills chaos kill-all spark-kills soak exactly-once help setup spark-setup java jars archives check fmt lint lint-spark fast test unit coverage compat compatibility run spark bench clean

help:
	@sed -n 's/^# \(make .*\|  .*\)/\1/p' Makefile

# --- set-up -------------------------------------------------------------------------------------------------------

$(VENV)/pyvenv.cfg:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "kafkapy needs Python 3.11 or newer; try make PYTHON=python3.12"; exit 1; }
	$(PYTHON) -m venv $(VENV)

# The editable install compiles the per-record scan where a C compiler is there.
$(INSTALLED): $(VENV)/pyvenv.cfg pyproject.toml
	@echo "Installing kafkapy and its development tools into $(VENV), and compiling the record scan: some minutes the first time"
	$(BIN)/python -m pip install --disable-pip-version-check -e '.[dev]'
	touch $(INSTALLED) $(COMPILED)

$(SPARK_INSTALLED): $(INSTALLED)
	@echo "Installing PySpark and the libraries of spark_examples into $(VENV): 450 MB to download the first time"
	$(BIN)/python -m pip install --disable-pip-version-check -e '.[spark]'
	touch $(SPARK_INSTALLED)

# The libraries of the extra `spark`, with another PySpark.
OTHER_LIBRARIES := import tomllib; extras = tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]; \
	print(*(each for each in extras["spark"] if not each.startswith("pyspark")), sep="\n")

$(SPARK_42_INSTALLED): pyproject.toml
	@echo "Installing PySpark 4.2 and the libraries of spark_examples into $(VENV_42): 450 MB to download the first time"
	$(PYTHON) -m venv $(VENV_42)
	$(PYTHON) -c '$(OTHER_LIBRARIES)' > $(VENV_42)/libraries.txt
	$(VENV_42)/bin/python -m pip install --disable-pip-version-check -e . pyspark==4.2.0 -r $(VENV_42)/libraries.txt
	@$(VENV_42)/bin/python -m harness.java --ensure
	@$(VENV_42)/bin/python -m spark_examples.common.session
	touch $(SPARK_42_INSTALLED)

# An editable install keeps running a stale binary after an edit.
$(COMPILED): $(INSTALLED) $(SCAN)
	@if [ -f setup.py ]; then echo "Compiling the record scan"; $(BIN)/python setup.py --quiet build_ext --inplace; fi
	@touch $(COMPILED)

setup: $(INSTALLED) $(COMPILED)

# Spark's Kafka connector and Iceberg, which a session would fetch when it starts.
$(SPARK_JARS): $(SPARK_INSTALLED)
	@$(BIN)/python -m harness.java --ensure
	@$(BIN)/python -m spark_examples.common.session
	@touch $(SPARK_JARS)

# What the Spark pipelines, Java and the suites beside real Kafka need as well (Kafka's jars come with PySpark's Ivy).
spark-setup: setup $(SPARK_JARS)

java: setup $(SPARK_INSTALLED)
	@$(BIN)/python -m harness.java --ensure

jars: java
	@$(BIN)/python -m harness.jars

# What makes the suite's many brokers start sooner.
archives: jars
	@$(BIN)/python -m harness.class_archive

# --- the checks ---------------------------------------------------------------------------------------------------

fmt: setup
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

lint: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/mypy --strict harness tools compat_tests bench --exclude '^compat_tests/spark/'
	$(BIN)/lint-imports
	$(BIN)/python -m tools.codegen --check
	$(BIN)/python -m compat_tests.report.compatibility --check

# The types of what needs PySpark and matplotlib.
lint-spark: spark-setup
	$(BIN)/mypy --strict spark_examples compat_tests/spark

fast: setup
	$(BIN)/pytest -n $(WORKERS) -m "not java and not spark and not slow" tests
	KAFKAPY_INTERPRETED_SCAN=1 $(BIN)/pytest -n $(WORKERS) -m "not java and not spark and not slow" tests/records

check: lint fast

KAFKAPY_SIMULATIONS ?= 5000

simulate: setup
	KAFKAPY_SIMULATIONS=$(KAFKAPY_SIMULATIONS) $(BIN)/pytest --timeout=0 --show-capture=no tests/simulation
	KAFKAPY_GROUP_EXAMPLES=$(KAFKAPY_SIMULATIONS) $(BIN)/pytest --timeout=0 tests/coordinator/test_ownership.py

HISTORIES ?= 10000

simulate-cluster: setup
	$(BIN)/python -m tests.simulation.cluster.campaign --seeds $(HISTORIES) $(ARGUMENTS)
	@[ -n "$(ARGUMENTS)" ] || $(BIN)/python -m tests.simulation.cluster.campaign --rule all

KILLS ?= 1000

kill: setup
	$(BIN)/python -m compat_tests.chaos.campaign --kills $(KILLS) $(ARGUMENTS)

MIRROR_KILLS ?= 100

mirror-kills: setup
	$(BIN)/python -m compat_tests.chaos.mirror_campaign --kills $(MIRROR_KILLS) $(ARGUMENTS)
	$(BIN)/python -m compat_tests.chaos.mirror_campaign --kills $(MIRROR_KILLS) --exactly-once $(ARGUMENTS)

WINDOWS ?= 1000
# With librdkafka 2.16 a client may stay cut off from a broker that the metadata have left out for a while.
CHAOS_CLIENT := .cache/confluent-kafka-2.8.2

$(CHAOS_CLIENT): $(INSTALLED)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --target $@ confluent-kafka==2.8.2

chaos: setup jars $(CHAOS_CLIENT)
	PYTHONPATH=$(CURDIR)/$(CHAOS_CLIENT) $(BIN)/python -m compat_tests.chaos.cluster_campaign --windows $(WINDOWS) $(ARGUMENTS)

ALL_KILLS ?= 30

kill-all: setup jars $(CHAOS_CLIENT)
	PYTHONPATH=$(CURDIR)/$(CHAOS_CLIENT) $(BIN)/python -m compat_tests.chaos.cluster_campaign --windows $(ALL_KILLS) \
		--kind kill_all --copiers 2 --java 1 --bound 120 $(ARGUMENTS)

MINUTES ?= 180

soak: setup jars
	$(BIN)/python -m compat_tests.chaos.soak --minutes $(MINUTES) $(ARGUMENTS)

RECORDS ?= 250000

exactly-once: setup
	$(BIN)/python -m compat_tests.chaos.exactly_once --records $(RECORDS) --pause 6 $(ARGUMENTS)

REQUESTS ?= 100000

compat-long: setup jars
	$(BIN)/python -m compat_tests.differential.campaign --requests $(REQUESTS) $(ARGUMENTS)

FRAMES ?= 10000000

fuzz: setup
	$(BIN)/python -m compat_tests.attack.fuzzer --frames $(FRAMES) $(ARGUMENTS)

STRANGERS ?= 5000

strangers: setup
	$(BIN)/python -m compat_tests.attack.strangers --connections $(STRANGERS) $(ARGUMENTS)

# --- everything ---------------------------------------------------------------------------------------------------

unit: spark-setup jars
	rm -f .coverage .coverage.*
	$(BIN)/pytest -n $(WORKERS) --cov --cov-branch --cov-report= tests
	KAFKAPY_INTERPRETED_SCAN=1 $(BIN)/pytest -n $(WORKERS) --cov --cov-branch --cov-report= --cov-append tests/records

# Every branch of what keeps data right; nine tenths of the rest.
coverage: unit
	$(BIN)/coverage report --skip-covered --include='kafkapy/records/*,kafkapy/storage/*,kafkapy/coordinator/*' --fail-under=100
	$(BIN)/coverage report --skip-covered --omit='kafkapy/protocol/messages/*,kafkapy/records/*,kafkapy/storage/*,kafkapy/coordinator/*' --fail-under=90

COMPAT := $(BIN)/pytest compat_tests -m "not long" --target kafka-2.7.2 --target kafkapy --target kafkapy-cluster

# Its summary line closes the output of `make test`. Other people's clients and brokers have time-outs of their own that
# a busy machine can trip: what failed runs once more, by itself, and counts as it ends then.
compat: setup archives
	@$(COMPAT) -n $(COMPAT_WORKERS) || { \
		code=$$?; test $$code -eq 1 || exit $$code; \
		echo "--- what failed, once more, by itself ---"; $(COMPAT) --last-failed --last-failed-no-failures none; }

# The same scenarios on every release there is, an hour and a half; docs/compatibility.md tells what came out.
FOUND := .cache/compatibility-results.json
TARGETS ?= kafkapy kafkapy-cluster kafka-2.7.2 kafka-3.9.1 kafka-4.4.0

compatibility: setup archives
	@$(BIN)/python -m harness.jars --long
	rm -f $(FOUND)
	@failed=0; for target in $(TARGETS); do \
		echo "--- $$target ---"; \
		$(BIN)/pytest compat_tests -n $(WORKERS) --results $(FOUND) --target $$target || \
		$(BIN)/pytest compat_tests --results $(FOUND) --target $$target --last-failed --last-failed-no-failures none || \
		failed=1; \
	done; \
	$(BIN)/python -m compat_tests.report.compatibility --results $(FOUND); \
	exit $$failed

CLUSTER ?= kafkapy-cluster

compat-cluster: setup archives
	@$(BIN)/python -m harness.jars --long
	$(BIN)/pytest compat_tests -n $(WORKERS) -m scenario --target $(CLUSTER) $(ARGUMENTS)

test: lint lint-spark coverage
	@$(MAKE) --no-print-directory compat

run: setup java
	$(BIN)/python -m spark_examples monitoring $(ARGUMENTS)

NAME ?=

# Without a name: the list of the pipelines.
ifeq ($(NAME),real_time)
spark: $(SPARK_42_INSTALLED)
	@$(VENV_42)/bin/python -m spark_examples $(NAME) $(ARGUMENTS)
else
spark: setup java
	@$(BIN)/python -m spark_examples $(NAME) $(ARGUMENTS)
endif

SPARK_KILLS ?= 20

spark-kills: spark-setup jars
	$(BIN)/python -m compat_tests.spark.kills --kills $(SPARK_KILLS) $(ARGUMENTS)

bench: setup jars
	$(BIN)/python -m bench $(ARGUMENTS)

# Leaves .cache (downloads) alone.
clean:
	rm -rf $(VENV) $(VENV_42) build dist out *.egg-info .coverage .coverage.* .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find kafkapy -name '*.so' -delete
