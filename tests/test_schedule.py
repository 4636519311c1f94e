"""Timers and cron lines: what is written, that systemd takes it, and whose files are left alone."""

import os
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kill_audit.schedule import (
    Plan,
    ScheduleError,
    Whose,
    block_of,
    calendar_of,
    cron_text,
    crontab,
    manager_runs,
    next_run,
    refuse_others,
    remove,
    replace_crontab,
    tell_manager,
    unit_files,
    whose,
    with_block,
    write,
)
from kill_audit.schedule.own import signed
from kill_audit.schedule.plan import cron_command, cron_time, exec_line

EXPOSURE = 20
"""What `systemd-analyze security` may find, in tenths: 1.5 is what a service with a network and a user can reach."""

NAMES = ["kill-audit-collect.service", "kill-audit-collect.timer", "kill-audit-mail.service", "kill-audit-mail.timer"]
needs_systemd = pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd-analyze")


def plan(**known: object) -> Plan:
    """A plan with a program that exists."""
    values = {
        "weekly": "Mon 08:00",
        "program": ("/bin/true",),
        "collect": ("collect", "--quiet", "--unit", "celery@*"),
        "mail": ("mail", "--quiet", "--to", "ops@example.org"),
        "credentials": (("smtp-password", "/etc/kill-audit/smtp password"),),
    }
    return Plan(**{**values, **known})  # type: ignore[arg-type]


# -- what is written ----------------------------------------------------------------------------------------------


@needs_systemd
@pytest.mark.parametrize("user", [False, True], ids=["system", "user"])
@pytest.mark.parametrize("through_sendmail", [False, True], ids=["smtp", "sendmail"])
def test_systemd_takes_the_units(tmp_path: Path, user: bool, through_sendmail: bool) -> None:
    """`systemd-analyze verify` has nothing to say about them."""
    odd = plan(user=user, through_sendmail=through_sendmail, mail=("mail", "--label", 'a b; "$HOME" %n \\ \u00e9'))
    paths = write(tmp_path, unit_files(odd))
    assert sorted(path.name for path in paths) == NAMES
    done = subprocess.run(
        ["systemd-analyze", *(["--user"] if user else []), "verify", *paths],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)},
    )
    assert [line for line in done.stderr.splitlines() if "kill-audit" in line] == []
    assert done.returncode == 0, done.stderr


@needs_systemd
@pytest.mark.parametrize("service", ["kill-audit-collect.service", "kill-audit-mail.service"])
def test_the_services_are_hardened(tmp_path: Path, service: str) -> None:
    """`systemd-analyze security` finds less exposure than 2.0 of 10 ("OK" begins below 5)."""
    write(tmp_path, unit_files(plan()))
    words = ["systemd-analyze", "security", "--offline=yes", f"--threshold={EXPOSURE}", str(tmp_path / service)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout.splitlines()[-1]


def test_the_services_share_a_user_who_may_read_the_journal_and_keeps_state() -> None:
    """Both have one dynamic user, the journal's group, one state directory, and their own command."""
    files = unit_files(plan())
    for name, words in (("collect", "collect --quiet --unit celery@*"), ("mail", "mail --quiet --to ops@example.org")):
        lines = files[f"kill-audit-{name}.service"].splitlines()
        assert f"ExecStart=/bin/true {words}" in lines
        for line in (
            "DynamicUser=yes",
            "User=kill-audit",
            "SupplementaryGroups=systemd-journal",
            "StateDirectory=kill-audit",
            "ProtectSystem=strict",
            "LoadCredential=smtp-password:/etc/kill-audit/smtp password",
        ):
            assert line in lines
    assert "Restart=on-failure" in files["kill-audit-mail.service"]
    assert "Restart=" not in files["kill-audit-collect.service"]


def test_the_timers_make_up_for_what_was_missed_and_do_not_start_all_hosts_at_once() -> None:
    """Collect runs every hour and mail when it was asked to; both are persistent and spread."""
    files = unit_files(plan(weekly="Mon 08:00 Europe/Berlin"))
    assert "OnCalendar=hourly\n" in files["kill-audit-collect.timer"]
    assert "OnCalendar=Mon 08:00 Europe/Berlin\n" in files["kill-audit-mail.timer"]
    for name in ("collect", "mail"):
        assert "Persistent=true\nRandomizedDelaySec=5min\n" in files[f"kill-audit-{name}.timer"]
        assert "WantedBy=timers.target\n" in files[f"kill-audit-{name}.timer"]


def test_a_users_services_ask_for_nothing_that_only_the_system_can_give() -> None:
    """A user's manager makes no users and no folders; what sendmail needs is not taken away."""
    smtp = unit_files(plan(user=True))["kill-audit-mail.service"]
    sendmail = unit_files(plan(user=True, through_sendmail=True))["kill-audit-mail.service"]
    assert "DynamicUser" not in smtp
    assert "StateDirectory" not in smtp
    assert "NoNewPrivileges=yes" in smtp
    assert "NoNewPrivileges" not in sendmail
    assert "SystemCallFilter" not in sendmail


@pytest.mark.parametrize(
    ("word", "written"),
    [
        ("--to", "--to"),
        ("celery@*", "celery@*"),
        ("a b", '"a b"'),
        ("", '""'),
        ("100%", "100%%"),
        ("$HOME", "$$HOME"),
        ('say "x"', '"say \\"x\\""'),
        ("back\\slash", '"back\\\\slash"'),
        (";", '";"'),
        ("it's", '"it\'s"'),
    ],
)
def test_a_word_is_written_as_systemd_reads_it(word: str, written: str) -> None:
    """Quotes, backslashes, `%` and `$` mean themselves (systemd.service(5), "Command lines")."""
    assert exec_line((word,)) == written


def test_a_word_with_a_line_break_is_refused() -> None:
    """Nothing can begin another line of a unit or of a crontab."""
    for write_line in (exec_line, cron_command):
        with pytest.raises(ScheduleError, match="does not fit on a line"):
            write_line(("mail", "--label", "a\nExecStart=/bin/sh"))


# -- cron ---------------------------------------------------------------------------------------------------------


def test_cron_runs_the_same_commands() -> None:
    """Every hour at the host's own minute, and weekly; in /etc/cron.d as root, secrets by the names of their files."""
    text = cron_text(plan(minute=42), with_user=True)
    assert text.splitlines() == [
        "SHELL=/bin/sh",
        'KILL_AUDIT_SMTP_PASSWORD_FILE="/etc/kill-audit/smtp password"',
        "42 * * * * root /bin/true collect --quiet --unit 'celery@*'",
        "0 8 * * 1 root /bin/true mail --quiet --to ops@example.org",
    ]
    assert " root " not in cron_text(plan(), with_user=False)


@pytest.mark.parametrize(
    ("weekly", "fields"),
    [("Mon 08:00", "0 8 * * 1"), ("sunday 23:59", "59 23 * * 0"), ("Fri 7:05", "5 7 * * 5")],
)
def test_a_day_and_a_time_are_five_fields(weekly: str, fields: str) -> None:
    """Sunday is 0."""
    assert cron_time(weekly) == fields


@needs_systemd
@pytest.mark.parametrize(
    ("line", "calendar"), [("7 * * * * root x", "*:07"), ("0 8 * * 0 x", "Sun 08:00"), ("59 23 * * 1 x", "Mon 23:59")]
)
def test_a_line_of_cron_is_a_calendar_event(line: str, calendar: str) -> None:
    """So that systemd can say when it runs next."""
    assert calendar_of(line) == calendar
    assert next_run(calendar)


@pytest.mark.parametrize("line", ["SHELL=/bin/sh", "0 8 * * 1-5 root x", "*/5 * * * * x", "0 8 1 * * x", ""])
def test_another_line_of_cron_is_left_unsaid(line: str) -> None:
    """What was changed by hand may run at times that this program never writes."""
    assert calendar_of(line) is None


@pytest.mark.parametrize("weekly", ["Mon 08:00 Europe/Berlin", "weekly", "Mon..Fri 08:00", "Mun 08:00", "Mon 24:00"])
def test_what_cron_has_no_line_for_is_refused(weekly: str) -> None:
    """A zone, a range or a word is systemd's alone."""
    with pytest.raises(ScheduleError, match="a day and a time only"):
        cron_time(weekly)


@given(st.lists(st.text(st.characters(min_codepoint=32, max_codepoint=126)), min_size=1, max_size=4))
def test_cron_and_its_shell_give_the_words_back(words: list[str]) -> None:
    """What cron hands to the shell is split into the very words, percent signs and quotes included."""
    handed = cron_command(tuple(words)).replace(r"\%", "%")
    assert "%" not in cron_command(tuple(words)).replace(r"\%", "")
    assert shlex.split(handed) == words


# -- whose files --------------------------------------------------------------------------------------------------


def test_files_are_known_by_the_hash_in_their_first_line(tmp_path: Path) -> None:
    """Ours, changed, somebody else's, a link, and none are told apart."""
    ours, changed, others, link = (tmp_path / name for name in ("ours", "changed", "others", "link"))
    ours.write_text(signed("a\n"))
    changed.write_text(signed("a\n") + "b\n")
    others.write_text("a\n")
    link.symlink_to("/dev/null")
    (tmp_path / "bytes").write_bytes(b"\xff\xfe")
    assert [whose(path) for path in (ours, changed, others, link, tmp_path / "bytes", tmp_path / "none")] == [
        Whose.OURS,
        Whose.CHANGED,
        Whose.OTHERS,
        Whose.OTHERS,
        Whose.OTHERS,
        Whose.NOBODYS,
    ]


def test_what_it_wrote_it_overwrites_and_removes(tmp_path: Path) -> None:
    """A new plan replaces the old files; removing leaves nothing of them."""
    write(tmp_path, unit_files(plan()))
    paths = write(tmp_path, unit_files(plan(weekly="Fri 17:00")))
    assert "OnCalendar=Fri 17:00" in (tmp_path / "kill-audit-mail.timer").read_text()
    assert {path.stat().st_mode & 0o777 for path in paths} == {0o644}
    assert sorted(path.name for path in remove(paths)) == NAMES
    assert list(tmp_path.iterdir()) == []
    assert remove(paths) == ()


@pytest.mark.parametrize("how", ["changed", "others", "masked"])
def test_what_it_did_not_write_it_neither_overwrites_nor_removes(tmp_path: Path, how: str) -> None:
    """One such file stops everything before anything is touched, and the message says how to move it away."""
    paths = write(tmp_path, unit_files(plan()))
    path = tmp_path / "kill-audit-mail.timer"
    if how == "changed":
        path.write_text(path.read_text().replace("08:00", "09:00"))
    else:
        path.unlink()
        path.write_text("[Timer]\n") if how == "others" else path.symlink_to("/dev/null")
    before = {one.name: one.read_text() for one in tmp_path.iterdir()}
    with pytest.raises(ScheduleError, match="left alone") as refused:
        write(tmp_path, unit_files(plan(weekly="Fri 17:00")))
    assert f"mv {path}" in refused.value.hint
    with pytest.raises(ScheduleError, match="left alone"):
        remove(paths)
    assert {one.name: one.read_text() for one in tmp_path.iterdir()} == before
    with pytest.raises(ScheduleError, match="left alone"):
        refuse_others(paths)


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    """Whoever may not write there gets one line."""
    (tmp_path / "file").touch()
    with pytest.raises(ScheduleError, match="cannot"):
        write(tmp_path / "file", unit_files(plan()))


lines = st.lists(st.text(st.characters(min_codepoint=32, max_codepoint=126)), max_size=4).map(
    lambda some: "".join(f"{line}\n" for line in some)
)


@given(lines, lines, lines)
def test_lines_in_a_crontab_come_and_go_without_a_trace(crontab: str, first: str, second: str) -> None:
    """The rest of a crontab stays as it is, whether lines are put in, replaced or taken out."""
    once = with_block(crontab, first)
    twice = with_block(once, second)
    assert (block_of(once), block_of(twice)) == (first, second)
    assert twice.startswith(crontab)
    assert with_block(twice, None) == crontab
    assert with_block(crontab, None) == crontab


def test_lines_in_a_crontab_that_were_changed_are_left_alone() -> None:
    """By their hash they are no longer ours; a begin without an end is nobody's to repair."""
    crontab = with_block("MAILTO=ops\n", "0 8 * * 1 kill-audit mail\n")
    with pytest.raises(ScheduleError, match="changed by hand"):
        with_block(crontab.replace("0 8", "0 9"), None)
    with pytest.raises(ScheduleError, match="no end"):
        with_block(crontab.replace("# END", "# end"), "x\n")


# -- when ---------------------------------------------------------------------------------------------------------


@needs_systemd
def test_the_next_run_is_what_systemd_says() -> None:
    """systemd-analyze names the moment; what it cannot parse or never comes is refused with what can be written."""
    told = next_run("Mon 08:00 UTC")
    assert told is not None
    assert told.startswith("Mon 2")
    for never in ("Mun 08:00", "2001-01-01 08:00"):
        with pytest.raises(ScheduleError, match="is no calendar event") as refused:
            next_run(never)
        assert "Mon 08:00" in refused.value.hint


def test_without_systemd_the_next_run_is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """A host with cron alone has nobody to ask."""
    monkeypatch.setattr("shutil.which", lambda _: None)
    assert next_run("Mon 08:00") is None


def test_systemctl_that_is_not_there_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message has the command to try by hand."""
    monkeypatch.setattr("shutil.which", lambda _: None)
    with pytest.raises(ScheduleError, match="is not installed") as refused:
        tell_manager(("daemon-reload",), user=True)
    assert refused.value.hint.endswith("systemctl --user daemon-reload")
    with pytest.raises(ScheduleError, match="no crontab program"):
        crontab()
    with pytest.raises(ScheduleError, match="is not there"):
        replace_crontab("x\n")


def test_the_manager_is_there_if_it_has_its_folder(tmp_path: Path) -> None:
    """A user's manager has one in the user's runtime directory (sd_booted(3) for the system's)."""
    environ = {"XDG_RUNTIME_DIR": str(tmp_path)}
    assert not manager_runs(environ, user=True)
    (tmp_path / "systemd").mkdir()
    assert manager_runs(environ, user=True)
    assert not manager_runs({}, user=True)
    assert manager_runs({}, user=False) == Path("/run/systemd/system").is_dir()


def test_a_crontab_is_replaced_by_the_program_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading and writing go through crontab(1), which keeps the file; no crontab is an empty one."""
    kept = tmp_path / "kept"
    script = tmp_path / "crontab"
    script.write_text(
        f'#!/bin/sh\ncase "$1" in\n-l) cat {kept} 2>/dev/null || {{ echo "no crontab for me" >&2; exit 1; }} ;;\n'
        f"-r) rm {kept} ;;\n-) cat >{kept} ;;\nesac\n"
    )
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert crontab() == ""
    replace_crontab("5 5 * * * backup\n")
    assert crontab() == kept.read_text() == "5 5 * * * backup\n"
    replace_crontab("\n")
    assert not kept.exists()
