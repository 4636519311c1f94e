#!/bin/sh
# usage: virtualenv.sh FOLDER CONSTRAINTS
#
# Make a virtual environment with the first Python that will do, with the pip that the constraints name, and install what is
# needed to build systemd-python in it (which has no wheels).
set -eu

folder=$1
constraints=$2

fits() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }

if ! { fits "$folder/bin/python" && "$folder/bin/python" -c 'import pip' 2>/dev/null; }; then
    for python in ${PYTHON:-} python3 /usr/bin/python3 python3.14 python3.13 python3.12 python3.11; do
        if fits "$python"; then break; fi
        python=
    done
    if [ -z "$python" ]; then
        echo "kill-audit needs Python 3.11 or later; name one: make PYTHON=/path/to/python3" >&2
        exit 1
    fi
else
    python=$folder/bin/python
fi

# The system's own Python comes in parts; one that was built by hand or by pyenv is whole.
parts=$("$python" -c '
import sys
if sys.base_prefix == "/usr":
    print("python3.{0}-dev python3.{0}-venv".format(sys.version_info.minor))')
# shellcheck disable=SC2086 # the packages are words
sh "$(dirname "$0")/packages.sh" gcc libc6-dev pkg-config libsystemd-dev $parts

if [ "$python" != "$folder/bin/python" ]; then
    "$python" -m venv --clear "$folder"
fi
"$folder/bin/python" -m pip install -qq --disable-pip-version-check --constraint "$constraints" pip
