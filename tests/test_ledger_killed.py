"""Runs of `collect` that are killed on the way."""

import json
import subprocess
import sys
from pathlib import Path

VICTIM = Path(__file__).parent / "ledger_victim.py"


def test_a_run_that_is_killed_at_any_statement_neither_loses_nor_doubles_a_kill(tmp_path: Path) -> None:
    """It has done all or nothing, also of making the ledger, and whole runs then give the ids of undisturbed ones."""
    result = subprocess.run([sys.executable, VICTIM, tmp_path], capture_output=True, text=True, check=True)
    told = json.loads(result.stdout)
    assert len(told["undisturbed"]) == len(set(told["undisturbed"])) == 9
    first = told["first"][-1]["after"]
    for runs, before, undisturbed in (
        (told["first"], [], first),
        (told["later"], told["before"], told["undisturbed"]),
    ):
        assert sum(run["killed"] for run in runs) > 20
        assert not runs[-1]["killed"]
        complete = runs[-1]["after"]
        assert before != complete
        for run in runs:
            assert run["after"] in (before, complete)
            assert run["ids"] == undisturbed
