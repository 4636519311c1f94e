# Debian 12 or 13 or Ubuntu 24.04 with python3 and make is enough. What else is needed comes from apt (as root or by sudo) and
# from PyPI; what pip installs lies in .venv, and nothing is started as a service of this host. `make help` lists the targets.

SHELL = /bin/sh
.DELETE_ON_ERROR:
.SUFFIXES:

VENV = .venv
BIN = $(VENV)/bin
PIP = $(BIN)/python -m pip -qq --disable-pip-version-check
# The exact releases, of what runs and of what builds it.
LOCKED = --constraint requirements.lock --build-constraint requirements.lock

SAMPLE_REPORT = report --utc --since '2026-11-30 12:02 UTC' --until '2026-11-30 12:09 UTC' \
    --file 'sample_journals/*/journal.export' --run-log sample_journals/run_log.csv --exit-zero

# What the tests start or run: journal tools, database servers, a browser.
TEST_PACKAGES = systemd systemd-journal-remote xz-utils zstd postgresql mariadb-server-core mariadb-client-core chromium \
    man-db mandoc zsh fish
LAB_PACKAGES = mmdebstrap systemd-container

# The tests of what judges, which take seconds; `make test` runs the rest of them too.
QUICK_TESTS = $(filter-out %_properties.py %_accepted_file.py %_celery_app.py %_config.py %_database.py %_docs.py \
    %_engine.py %_manual.py %_schedule.py %_units.py tests/test_ledger% tests/test_mail%, $(wildcard tests/test_*.py))

PYTEST = $(BIN)/pytest -q -n 2 --dist loadgroup

# Everything is looked at, also after a failure; what pytest says comes last.
define CHECK
@status=0; \
$(BIN)/ruff check --quiet . || status=1; \
$(BIN)/ruff format --check --quiet . || { echo 'ruff format: run $(BIN)/ruff format' >&2; status=1; }; \
$(BIN)/mypy || status=1; \
$(BIN)/lint-imports --no-logo || status=1; \
$(PYTEST) $(1) || status=1; \
exit $$status
endef

.PHONY: report
report: $(VENV)/.installed ## print the report on sample_journals
	@$(BIN)/kill-audit $(SAMPLE_REPORT)

.PHONY: test
test: $(VENV)/.services $(VENV)/.lab ## all tests, as root with six scenarios of the kill lab, after lint, types and imports
	$(call CHECK,)

.PHONY: quick
quick: $(VENV)/.tools ## lint, types, imports and the core's tests: under a minute, no services
	$(call CHECK,-m 'not service and not journal' $(QUICK_TESTS))

# Where a recording goes, and which Celery it is of.
INTO = .lab
CELERY = 5.7

.PHONY: lab
lab: $(VENV)/.lab ## the kill lab's six scenarios (needs root); SCENARIO=name,name records these anew, see `make scenarios`
ifdef SCENARIO
	@$(BIN)/python -m tests.lab record $(SCENARIO) $(INTO) $(CELERY)
else
	@KILL_AUDIT_LAB=quick $(PYTEST) -m lab tests/lab
endif

.PHONY: lab-all
lab-all: $(VENV)/.lab ## every scenario on three releases of Celery, and this file in fresh Debians; or SCENARIO=name,name
	@KILL_AUDIT_LAB='$(or $(SCENARIO),all)' $(PYTEST) -m lab tests/lab

.PHONY: scenarios
scenarios: $(VENV)/.tools ## list the kill lab's scenarios
	@$(BIN)/python -m tests.lab list

.PHONY: bench
bench: $(VENV)/.services ## time it beside the programs that people use instead; WORDS='N=100000 ROUNDS=2' for less
	@$(BIN)/python -m tests.bench $(WORDS)

.PHONY: bless
bless: $(VENV)/.tools ## take over what the tests say now as what is expected
	@KILL_AUDIT_BLESS=1 $(BIN)/pytest -q -p no:randomly -k golden tests

.PHONY: docs
docs: $(VENV)/.tools ## write what is made from the package: parts of README.md and docs/, manual pages, completions
	@$(BIN)/python tests/documentation.py
	@$(BIN)/python tests/manual.py

.PHONY: samples
samples: $(VENV)/.installed ## make sample_journals/run_log.csv of the recordings' run logs
	@$(BIN)/python tests/samples.py

.PHONY: lock
lock: $(VENV)/.installed ## resolve all releases anew into requirements.lock
	@sh tests/setup/lock.sh $(BIN)/python >$(VENV)/requirements.lock && mv $(VENV)/requirements.lock .

.PHONY: help
help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# Stamps: what was installed, and of which recipe.

$(VENV)/.installed: pyproject.toml requirements.lock tests/setup/virtualenv.sh tests/setup/packages.sh
	@sh tests/setup/virtualenv.sh $(VENV) requirements.lock
	@echo 'pip install --editable .'
	@$(PIP) install $(LOCKED) --editable .
	@touch $@

$(VENV)/.tools: $(VENV)/.installed
	@echo "pip install --editable '.[all]' --group dev"
	@$(PIP) install $(LOCKED) --editable '.[all]' --group dev
	@touch $@

$(VENV)/.services: $(VENV)/.tools Makefile
	@sh tests/setup/packages.sh $(TEST_PACKAGES)
	@touch $@

$(VENV)/.lab: $(VENV)/.tools Makefile
	@sh tests/setup/packages.sh $(LAB_PACKAGES)
	@touch $@
