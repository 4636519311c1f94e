"""Runs of `collect` that are killed on the way."""

import json
import subprocess
import sys
from pathlib import Path

VICTIM = Path(__file__).parent / "ledger_victim.py"


def test_a_run_that_is_killed_at_any_statement_neither_loses_nor_doubles_a_kill(tmp_path: Path) -> None:
    """It has done all or nothing, and after the next whole runs the ids are those of undisturbed ones."""
    result = subprocess.run([sys.executable, VICTIM, tmp_path], capture_output=True, text=True, check=True)
    told = json.loads(result.stdout)
    killed = [run for run in told["runs"] if run["killed"]]
    assert len(killed) > 20
    assert not told["runs"][-1]["killed"]
    assert len(told["undisturbed"]) == len(set(told["undisturbed"])) == 9
    complete = told["runs"][-1]["after"]
    for run in told["runs"]:
        assert run["after"] in (told["before"], complete)
        assert run["ids"] == told["undisturbed"]
    assert told["before"] != complete
