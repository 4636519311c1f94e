# make report   the sample report: all it needs, in .venv
# make test     everything: all it needs, then lint, types, imports and tests
# make quick    lint, types, imports and the tests that need no services
# make help     the rest
#
# Debian 12 or 13 or Ubuntu 24.04 with python3 and make is enough: what else is needed comes from apt (as root or by sudo)
# and from PyPI. Everything that is installed by pip lies in .venv; nothing is started as a service of this host.

SHELL = /bin/sh
.DELETE_ON_ERROR:
.SUFFIXES:

VENV = .venv
BIN = $(VENV)/bin
# Exact releases, of what runs and of what builds. (uv and conda set PYTHONPATH and PIP_* too: those are the user's own.)
LOCKED = --constraint requirements.lock --build-constraint requirements.lock

SAMPLE_REPORT = report --utc --since '2026-11-30 12:02 UTC' --until '2026-11-30 12:09 UTC' \
    --file 'sample_journals/*/journal.export' --run-log sample_journals/run_log.csv --exit-zero

PYTEST = $(BIN)/pytest -q -n 2 --dist loadgroup

.PHONY: report
report: $(VENV)/.installed ## print the report on sample_journals
	@$(BIN)/kill-audit $(SAMPLE_REPORT)
