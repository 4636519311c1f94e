"""`kill-audit accept`: what it writes of what it finds, and what reports make of it."""

import datetime as dt
import os
import tomllib
from pathlib import Path
from typing import Any

import pytest
from click.shell_completion import ShellComplete

from command_line import Command, run_log, scene
from kill_audit.cli import commands

NAME = "kill-audit.accepted.toml"
DEPLOY = scene("deploy")
SINCE, JOURNAL = DEPLOY[1:3], DEPLOY[-2:]
LOOK = ["--utc", *SINCE, *JOURNAL]
"""The words that name the recorded deploy for `accept`, whose --until is another one."""


@pytest.fixture(autouse=True)
def _state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep state in a folder of the test's own."""
    monkeypatch.setenv("STATE_DIRECTORY", str(tmp_path / "state"))
    monkeypatch.setenv("LOGNAME", "jane")
    monkeypatch.delenv("SUDO_USER", raising=False)


def report(kill_audit: Command, *words: str) -> Any:
    """The JSON of the recorded deploy's report."""
    return kill_audit("report", *DEPLOY, *run_log("deploy"), "-o", "json", *words).json


def ids(kill_audit: Command) -> list[str]:
    """The ids of the kills of the recorded deploy."""
    return [kill["id"] for kill in report(kill_audit)["kills"]]


def entries(file: str = NAME) -> list[dict[str, Any]]:
    """The entries of the file, as TOML has them."""
    found: list[dict[str, Any]] = tomllib.loads(Path(file).read_text(encoding="utf-8"))["accepted"]
    return found


def test_an_accepted_kill_is_counted_shown_and_does_not_fail(kill_audit: Command) -> None:
    """A report whose kills are all accepted has the same kills and ends with 0; without one of them it ends with 1."""
    before = report(kill_audit)
    known = [kill["id"] for kill in before["kills"]]
    said = kill_audit("accept", *known, "--reason", "a  known\ndeploy", *LOOK)
    assert (said.status, said.err) == (0, "")
    assert said.out.splitlines() == [f"accepted in {NAME}: id {one}" for one in known]
    after = report(kill_audit)
    assert {kill["accepted"]["reason"] for kill in after["kills"]} == {"a known deploy"}
    assert after["totals"] == before["totals"] | {"accepted": len(known)}
    assert kill_audit("report", *DEPLOY, *run_log("deploy")).status == 0
    shown = kill_audit("report", *DEPLOY, *run_log("deploy"), "--fail-on", "any")
    assert shown.status == 0
    assert f"; {len(known)} accepted" in shown.out.splitlines()[0]
    assert f"accepted: a known deploy (id {known[0]}; {NAME}:" in shown.out
    assert kill_audit("accept", "--remove", known[0][:6]).status == 0
    assert kill_audit("report", *DEPLOY, *run_log("deploy")).status == 1


def test_a_reviewer_sees_what_an_id_stands_for(kill_audit: Command) -> None:
    """Comments of the entry name the task, the death, the place, who accepts it and when."""
    kill = report(kill_audit)["kills"][0]
    kill_audit("accept", kill["id"][:7], "--reason", "known", "--until", "2100-01-31", *LOOK)
    (entry,) = entries()
    assert entry == {
        "id": kill["id"],
        "reason": "known",
        "until": dt.date(2100, 1, 31),
        "seen": {"at": dt.datetime.fromisoformat(kill["at"]), "host": kill["host"], "unit": kill["unit"]},
    }
    comments = [
        line
        for line in Path(NAME).read_text(encoding="utf-8").partition("[[accepted]]")[2].splitlines()
        if "#" in line
    ]
    assert comments[0] == f"# {kill['task']['name']}[{kill['task']['id']}]"
    assert comments[1].startswith(
        f"# killed {kill['at'][:10]} {kill['at'][11:19]} UTC by {kill['cause']}, {kill['unit']}"
    )
    assert comments[2] == f"# accepted {dt.datetime.now(dt.UTC).date()} by jane"


def test_show_and_mail_say_so(kill_audit: Command) -> None:
    """`show` says why a kill is accepted; the mail counts accepted kills in its subject, with the reason below."""
    known = ids(kill_audit)
    kill_audit("accept", *known, "--reason", "a known deploy", *LOOK)
    shown = kill_audit("show", known[0], *DEPLOY)
    assert f"Accepted as known\n  a known deploy (id {known[0]}; {NAME}:" in shown.out
    mail = kill_audit("mail", "--to", "a@example.org", "--from", "b@example.org", "--dry-run", *DEPLOY)
    assert f"{len(known)} accepted" in mail.out
    assert f"1 kill accepted: a known deploy (id {known[0]}; {NAME}:" in " ".join(mail.out.split())
    due = kill_audit(
        "mail",
        "--to",
        "a@example.org",
        "--from",
        "b@example.org",
        "--when",
        "findings",
        "--smtp",
        "smtp+insecure://127.0.0.1:1",
        *DEPLOY,
    )
    assert "no mail: nothing was found" in due.out


def test_globs_are_accepted_without_reading_anything(kill_audit: Command) -> None:
    """Every kind of glob may be given, several times; a unit is completed as systemctl does; no journal is read."""
    globs = ["--cause", "oom-*", "--cause", "crash", "--task", "demo.*", "-u", "celery@a"]
    said = kill_audit("accept", *globs, "--reason", "demo", "--file", "/none")
    assert said.status == 0
    assert entries() == [{"cause": ["oom-*", "crash"], "task": "demo.*", "unit": "celery@a.service", "reason": "demo"}]


def test_a_configurations_window_and_units_are_not_accepted(
    kill_audit: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a configuration or a variable says for reports is never taken for what is to be accepted."""
    Path("kill-audit.toml").write_text('units = ["celery@*"]\nuntil = "2100-01-01"\n', encoding="utf-8")
    for name in ("CAUSE", "TASK", "REASON"):
        monkeypatch.setenv(f"KILL_AUDIT_{name}", "crash")
    assert "nothing is named" in kill_audit("accept").err
    assert "why is it accepted" in kill_audit("accept", "--task", "demo.*").err
    assert kill_audit("accept", "--task", "demo.*", "--reason", "demo").status == 0
    assert entries() == [{"task": "demo.*", "reason": "demo"}]


def test_the_ledger_knows_kills_that_the_journal_has_lost(kill_audit: Command) -> None:
    """An id is looked for in the ledger first, so that nothing has to be read."""
    kill_audit("collect", "--quiet", *DEPLOY)
    known = ids(kill_audit)
    Path("empty.export").touch()
    words = ["accept", known[0], "--reason", "known"]
    assert kill_audit(*words, *JOURNAL).status == 0
    assert [one["id"] for one in entries()] == known[:1]
    unknown = kill_audit(*words, "--file", "empty.export")
    assert (unknown.status, known[0] in unknown.err) == (2, True)


def test_an_entry_is_renewed_by_accepting_it_again(kill_audit: Command) -> None:
    """The same id or globs with another reason or day change the entry; nothing is written twice."""
    words = ["accept", "--task", "demo.*", "--reason"]
    first = kill_audit(*words, "demo")
    again = kill_audit(*words, "demo")
    other = kill_audit(*words, "still a demo", "--until", "+30d", "--utc")
    assert [said.out.partition(" in ")[0] for said in (first, again, other)] == [
        "accepted",
        "accepted already",
        "changed",
    ]
    (entry,) = entries()
    assert entry["reason"] == "still a demo"
    assert (entry["until"] - dt.datetime.now(dt.UTC).date()).days == 31


def test_what_is_stale_is_flagged(kill_audit: Command) -> None:
    """An entry that has expired fails reports again, and each report, the list and the metrics say so."""
    known = ids(kill_audit)
    kill_audit("accept", *known, "--reason", "known", *LOOK)
    text = Path(NAME).read_text(encoding="utf-8")
    Path(NAME).write_text(
        text.replace('reason = "known"', 'reason = "known"\nuntil = 2020-01-01', 1), encoding="utf-8"
    )
    said = kill_audit("report", *DEPLOY, *run_log("deploy"))
    assert said.status == 1
    assert f"id {known[0]}: expired on 2020-01-01, and accepts nothing; 1 kill of it" in said.out
    assert "kill_audit_acceptances_stale 1\n" in kill_audit("report", *DEPLOY, "-o", "prometheus").out
    listed = kill_audit("accept", "--list")
    assert listed.status == 0
    assert f"{len(known)} entries in {NAME}, 1 expired." in listed.out
    assert "expired 2020-01-01 00:00:00 UTC" in listed.out


def test_a_kill_that_is_gone_is_flagged(kill_audit: Command) -> None:
    """An id that whole evidence of its place and moment does not have any more is said to be gone."""
    known = ids(kill_audit)
    kill_audit("accept", known[0], "--reason", "known", *LOOK)
    text = Path(NAME).read_text(encoding="utf-8").replace(known[0], "0123456789")
    Path(NAME).write_text(text, encoding="utf-8")
    assert [one["stale"] for one in report(kill_audit)["acceptances"]] == ["gone"]


def test_the_list_of_nothing(kill_audit: Command) -> None:
    """Without a file nothing is accepted, and the list says so; a file that was named must be there."""
    said = kill_audit("accept", "--list")
    assert (said.status, said.out) == (0, f"Nothing is accepted: there are no entries in {NAME}.\n")
    for words in (["accept", "--list"], ["report", *DEPLOY], ["show", "ab", *DEPLOY]):
        said = kill_audit(*words, "--accepted", "none.toml")
        assert said.status == 2
        assert "none.toml: No such file" in said.err


def test_the_configuration_names_the_file(kill_audit: Command) -> None:
    """`accepted` names it from the configuration's folder; without that it lies beside the configuration."""
    Path("etc").mkdir()
    config = Path("etc/config.toml")
    config.touch()
    words = ["accept", "--task", "demo.*", "--reason", "demo", "--config", str(config)]
    kill_audit(*words)
    assert entries(f"etc/{NAME}")
    config.write_text('accepted = "known.toml"\n', encoding="utf-8")
    assert kill_audit(*words).out == "accepted in etc/known.toml: task demo.*\n"
    assert entries("etc/known.toml")


def test_mistakes_of_the_file_end_every_command(kill_audit: Command) -> None:
    """A file with mistakes is told with its lines, and nothing is reported or written."""
    Path(NAME).write_text("[[accepted]]\nid = '6190967735'\nreson = 'x'\n", encoding="utf-8")
    for words in (
        ["report", *DEPLOY, "-w", "out.txt"],
        ["accept", "--list"],
        ["accept", "--task", "x", "--reason", "y"],
    ):
        said = kill_audit(*words)
        assert said.status == 2
        assert f"{NAME}:3: reson: there is no such key; did you mean reason?" in said.err
    assert not Path("out.txt").exists()


def test_who_accepts_by_sudo_is_the_person(kill_audit: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """Under sudo the person stands there; a user without a name is a number."""
    monkeypatch.setenv("SUDO_USER", "ann")
    kill_audit("accept", "--task", "a", "--reason", "demo")
    monkeypatch.delenv("SUDO_USER")

    def nameless() -> str:
        raise KeyError

    monkeypatch.setattr("getpass.getuser", nameless)
    kill_audit("accept", "--task", "b", "--reason", "demo")
    text = Path(NAME).read_text(encoding="utf-8")
    assert "by ann\n" in text
    assert f"by user {os.getuid()}\n" in text


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "nothing is named to accept"),
        (["6190", "--cause", "crash", "--reason", "x"], "an ID names one kill"),
        (["--cause", "crash"], "why is it accepted?"),
        (["--cause", "crash", "--reason", "  "], "why is it accepted?"),
        (["--cause", "crahs", "--reason", "x"], "did you mean crash?"),
        (["--cause", "crash", "--reason", "x", "--until", "30d"], "that is past"),
        (["--cause", "crash", "--reason", "x", "--until", "never"], "not a point in time"),
        (["--cause", "crash", "--remove"], "No such file"),
        (["zzz", "--reason", "x", *LOOK], "zzz: no kill in this window has this id"),
        (["", "--reason", "x", *LOOK], "several kills begin so"),
    ],
)
def test_what_makes_no_sense_is_refused(kill_audit: Command, words: list[str], says: str) -> None:
    """Each in one line with what to type, and no file is made."""
    said = kill_audit("accept", *words)
    assert said.status == 2
    assert says in said.err
    assert not Path(NAME).exists()


def test_what_is_not_accepted_cannot_be_removed(kill_audit: Command) -> None:
    """Only the entry for just the same globs is removed."""
    kill_audit("accept", "--task", "demo.*", "--reason", "demo")
    said = kill_audit("accept", "--task", "demo.a", "--remove")
    assert (said.status, "has no entry for task demo.a" in said.err) == (2, True)
    assert kill_audit("accept", "--task", "demo.*", "--remove").out == f"removed from {NAME}: task demo.*\n"
    assert "accepted" not in tomllib.loads(Path(NAME).read_text(encoding="utf-8"))


def test_ids_are_offered_from_the_ledger(kill_audit: Command) -> None:
    """At the Tab key `show` and `accept` offer what the ledger has of the line's sources, with cause and task."""

    def offered(*words: str, begun: str = "") -> dict[str, str | None]:
        shell = ShellComplete(commands, {}, "kill-audit", "_KILL_AUDIT_COMPLETE")
        return {one.value: one.help for one in shell.get_completions(list(words), begun)}

    assert offered("show", *JOURNAL) == {}
    kill_audit("collect", "--quiet", *DEPLOY)
    known = report(kill_audit)["kills"]
    for verb in ("show", "accept"):
        assert set(offered(verb, *JOURNAL)) == {kill["id"] for kill in known}
    [(found, told)] = offered("show", *JOURNAL, begun=known[0]["id"][:6]).items()
    assert found == known[0]["id"]
    assert told == f"{known[0]['at'][:10]} {known[0]['cause']} {known[0]['task']['name']}"
    assert offered("accept", *JOURNAL, "--ledger", "/dev/null/x") == {}
