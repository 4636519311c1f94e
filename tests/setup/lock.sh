#!/bin/sh
# usage: lock.sh PYTHON >requirements.lock
#
# Resolve all that the package, its extras and its tests need, and all that builds them, in a fresh virtual environment.
set -eu

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
trap 'exit 1' HUP INT TERM
"$1" -m venv "$folder"
pip() { "$folder/bin/python" -m pip -qq --disable-pip-version-check "$@"; }
pip install --upgrade pip
pip install --upgrade hatchling setuptools wheel
pip install --editable '.[all]' --group dev
cat <<'END'
# The releases that `make` installs: what runs, what tests, and what builds. `make lock` resolves them anew.
# They are constraints, so a Python that needs something else besides gets it.
END
pip freeze --all --exclude kill-audit --exclude-editable
