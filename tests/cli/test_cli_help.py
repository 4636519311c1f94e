"""What the command loads before it is asked for anything: help comes at once."""

import subprocess
import sys

import pytest

from kill_audit.cli import COMMANDS

HEAVY = {"jinja2", "lz4", "msgspec", "numpy", "pandas", "rich", "sqlalchemy", "systemd", "tomlkit", "zstandard"}
ASK = """
import contextlib, io, sys
from kill_audit.cli import run
with contextlib.redirect_stdout(io.StringIO()) as said:
    status = run(sys.argv[1:])
assert status == 0 and said.getvalue().startswith("Usage: kill-audit"), said.getvalue()
print(*sorted(name for name in sys.modules if "." not in name))
"""


@pytest.mark.parametrize("words", [["--help"], *([name, "--help"] for name in COMMANDS)], ids=" ".join)
def test_help_loads_nothing_heavy(words: list[str]) -> None:
    """Neither the help of all nor of any command loads a library that only the work needs."""
    said = subprocess.run([sys.executable, "-c", ASK, *words], check=True, capture_output=True, text=True)
    assert set(said.stdout.split()) & HEAVY == set()
