"""What the command loads before it is asked for anything: help comes at once."""

import subprocess
import sys

import pytest

from command_line import run_log, scene
from kill_audit.cli import COMMANDS, SUMMARIES, find

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


def test_the_list_of_commands_loads_none_of_them() -> None:
    """What it says of each is that command's own short help."""
    said = subprocess.run([sys.executable, "-c", ASK, "--help"], check=True, capture_output=True, text=True)
    assert "kill_audit" in said.stdout
    loaded = "import sys, kill_audit.cli as c; c.commands.get_help(c.click.Context(c.commands)); print(*sys.modules)"
    modules = subprocess.run([sys.executable, "-c", loaded], check=True, capture_output=True, text=True).stdout.split()
    assert not set(COMMANDS.values()) & set(modules)
    commands = {name: find(name) for name in COMMANDS}
    assert {name: command.short_help for name, command in commands.items() if command is not None} == SUMMARIES


REPORT = """
import contextlib, io, sys
from kill_audit.cli import run
with contextlib.redirect_stdout(io.StringIO()):
    status = run(sys.argv[1:])
assert status in (0, 1, 3), status
print(*sorted(name for name in sys.modules if "." not in name))
"""


def loaded_by_report(*words: str) -> set[str]:
    """The libraries that a report loads."""
    command = [sys.executable, "-c", REPORT, "report", "-o", "json", *scene("deploy"), *words]
    return set(subprocess.run(command, check=True, capture_output=True, text=True).stdout.split())


def test_a_report_without_a_run_log_needs_no_database() -> None:
    """SQLAlchemy is loaded only with a run log, and pandas not even then where its rows are few; nothing draws."""
    assert loaded_by_report() & {"pandas", "sqlalchemy", "rich", "jinja2", "matplotlib", "systemd"} == set()
    loaded = loaded_by_report(*run_log("deploy"))
    assert "sqlalchemy" in loaded
    assert "pandas" not in loaded
