"""The ledger on the command line: which book, and a report completed by it."""

import errno
import os
from pathlib import Path

import msgspec
import pytest

from command_line import Command, scene
from kill_audit.cli.keeping import from_ledger, scope_of
from kill_audit.cli.options import Reading
from kill_audit.document import Document, decode
from kill_audit.ledger import LedgerError

DEPLOY = scene("deploy")


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keep state in a folder of the test's own."""
    folder = tmp_path / "state"
    monkeypatch.setenv("STATE_DIRECTORY", str(folder))
    return folder


def reported(kill_audit: Command) -> Document:
    """The report of the recorded deploy, without a ledger."""
    return decode(kill_audit("report", *DEPLOY, "-o", "json", "--exit-zero", "--no-ledger").out)


def test_each_thing_that_is_watched_has_a_scope_of_its_own() -> None:
    """Other sources, namespaces, users or units are other books; the order of files and units is not."""
    asked = [
        Reading(),
        Reading(user=True),
        Reading(merge=True),
        Reading(namespace="shop"),
        Reading(root="/mnt"),
        Reading(files=("a", "b")),
        Reading(directories=("a", "b")),
        Reading(units=("celery",)),
    ]
    assert len({scope_of(one).key for one in asked}) == len(asked)
    assert scope_of(Reading(files=("a", "b"))) == scope_of(Reading(files=("b", "a")))
    assert scope_of(Reading(units=("b", "a"))).key == scope_of(Reading(units=("a.service", "b"))).key


def test_a_report_is_completed_by_the_ledger_of_the_same_sources(kill_audit: Command) -> None:
    """What was collected comes back to a report that has lost it; another file's report gets nothing of it."""
    kill_audit("collect", "--quiet", *DEPLOY)
    whole = reported(kill_audit)
    lost = msgspec.structs.replace(
        whole, kills=(), coverage=msgspec.structs.replace(whole.coverage, verdict="none", sources=())
    )
    found = from_ledger(lost, Reading(files=(DEPLOY[-1],)), None)
    assert {kill.id for kill in found.kills} == {kill.id for kill in whole.kills}
    assert found.totals.kills == whole.totals.kills == len(found.kills)
    assert from_ledger(lost, Reading(files=("/other",)), None) == lost
    assert from_ledger(lost, Reading(files=(DEPLOY[-1],), boot="0"), None) == lost


def test_without_a_ledger_a_report_is_as_it_is(kill_audit: Command, state: Path) -> None:
    """Reading makes none."""
    whole = reported(kill_audit)
    assert from_ledger(whole, Reading(files=(DEPLOY[-1],)), None) == whole
    assert not state.exists()


def test_a_ledger_in_a_closed_folder_is_a_warning(
    kill_audit: Command, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The folder of a service may be closed to whoever reports: the report stands without what is kept there."""
    whole = reported(kill_audit)
    look = Path.stat

    def closed(path: Path, *, follow_symlinks: bool = True) -> os.stat_result:
        if path.name == "ledger.sqlite3":
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return look(path, follow_symlinks=follow_symlinks)

    monkeypatch.setattr(Path, "stat", closed)
    assert from_ledger(whole, Reading(files=(DEPLOY[-1],)), None) == whole
    assert "warning: without the ledger: cannot read the ledger" in capsys.readouterr().err


def test_a_broken_ledger_is_a_warning_unless_it_was_named(
    kill_audit: Command, state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The usual one may be broken: the report stands without it. One that was named must be readable."""
    whole = reported(kill_audit)
    state.mkdir()
    (state / "ledger.sqlite3").write_text("no database " * 100)
    assert from_ledger(whole, Reading(files=(DEPLOY[-1],)), None) == whole
    assert "warning: without the ledger" in capsys.readouterr().err
    with pytest.raises(LedgerError, match="not a database"):
        from_ledger(whole, Reading(files=(DEPLOY[-1],)), str(state / "ledger.sqlite3"))
