"""`kill-audit report` in each format, and where it goes."""

import csv
import io
import json
import os
import stat
import threading
from pathlib import Path

import jsonschema
import pytest
from prometheus_client.parser import text_string_to_metric_families

from command_line import Command, run_log, scene
from kill_audit.__main__ import main
from kill_audit.cli.output import put, write
from kill_audit.document import schema
from kill_audit.errors import KillAuditError
from kill_audit.render import FORMS

REPORT = ["report", "--no-ledger", *scene("deploy"), *run_log("deploy")]


def test_an_error_of_its_own_is_exit_2(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Python's own status of an exception would be 1, which means findings; the traceback is for a bug report."""

    def broken(_: object) -> int:
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr("kill_audit.cli.run", broken)
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert "ZeroDivisionError: division by zero" in capsys.readouterr().err


def test_every_format_tells_of_every_kill(kill_audit: Command) -> None:
    """All formats have the same kills, as the JSON has them, and the same exit status."""
    said = {form: kill_audit(*REPORT, "-o", form) for form in FORMS}
    assert {one.status for one in said.values()} == {1}
    assert {one.err for one in said.values()} == {""}
    whole = said["json"].json
    jsonschema.Draft202012Validator(schema()).validate(whole)
    ids = [kill["id"] for kill in whole["kills"]]
    assert len(ids) == 4
    for form in set(FORMS) - {"prometheus"}:
        assert [one for one in ids if one not in said[form].out] == []
    records = [json.loads(line) for line in said["ndjson"].out.splitlines()]
    assert [one["id"] for one in records if one["record"] == "kill"] == ids
    assert sorted(row["id"] for row in csv.DictReader(io.StringIO(said["csv"].out))) == sorted(ids)
    assert len(said["short"].out.splitlines()) == len(ids)
    samples = [one for family in text_string_to_metric_families(said["prometheus"].out) for one in family.samples]
    assert [one.value for one in samples if one.name == "kill_audit_kills"] == [len(ids)]


@pytest.mark.parametrize("form", ["table", "short", "md", "html"])
def test_explain_says_what_it_means_and_how_to_fix_it(kill_audit: Command, form: str) -> None:
    """`-x` adds to each format for people what a finding means and what to do; without it the page has it folded."""
    plain, explained = (kill_audit(*REPORT, "-o", form, *more).out for more in ([], ["-x"]))
    fix = "KillMode=mixed"
    assert explained.count(fix) >= 1
    assert ("<details open>" in explained) == (form == "html")
    assert len(explained) > len(plain)


def test_a_format_that_does_not_exist_is_refused(kill_audit: Command) -> None:
    """The hint lists the formats."""
    said = kill_audit(*REPORT, "-o", "xml")
    assert (said.status, said.out) == (2, "")
    assert all(form in said.err for form in FORMS)


def test_a_file_is_replaced_as_a_whole(kill_audit: Command) -> None:
    """Yesterday's report stays until today's is whole; it keeps its permissions, a link stays one, nothing is left."""
    Path("kills.prom").write_text("yesterday\n", encoding="utf-8")
    Path("kills.prom").chmod(0o640)
    Path("link.prom").symlink_to("kills.prom")
    before = Path("kills.prom").stat().st_ino
    assert kill_audit(*REPORT, "-o", "prometheus", "-w", "link.prom").status == 1
    after = Path("kills.prom").stat()
    assert Path("link.prom").is_symlink()
    assert (after.st_ino != before, stat.S_IMODE(after.st_mode)) == (True, 0o640)
    assert Path("kills.prom").read_text(encoding="utf-8").startswith("# HELP kill_audit_kills ")
    assert kill_audit(*REPORT[:-4], "--file", "none.export", "-o", "prometheus", "-w", "kills.prom").status == 2
    assert Path("kills.prom").read_text(encoding="utf-8").startswith("# HELP kill_audit_kills ")
    assert sorted(path.name for path in Path().iterdir()) == ["kills.prom", "link.prom"]


def test_what_is_no_file_is_written_to(tmp_path: Path) -> None:
    """A pipe gets the text, and a device stays a device, also for root."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    heard: list[str] = []
    reader = threading.Thread(target=lambda: heard.append(pipe.read_text(encoding="utf-8")))
    reader.start()
    write("kills\n", str(pipe))
    reader.join()
    put(b"kills\n", os.devnull)
    assert heard == ["kills\n"]
    assert (pipe.is_fifo(), Path(os.devnull).is_char_device()) == (True, True)


def test_what_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    """A folder that is not there, and a folder itself, are told with a hint; nothing is left behind."""
    folder = tmp_path / "folder"
    folder.mkdir()
    for target in (folder / "none" / "report", folder):
        with pytest.raises(KillAuditError, match="cannot write") as refused:
            put(b"", str(target))
        assert refused.value.hint
    assert list(folder.iterdir()) == []
