"""`kill-audit schedule`: what it writes, shows and removes."""

import sys
from pathlib import Path

import pytest

from command_line import Command
from kill_audit.schedule.programs import Said

NAMES = ["kill-audit-collect.service", "kill-audit-collect.timer", "kill-audit-mail.service", "kill-audit-mail.timer"]


class Programs:
    """Stands in for systemctl, systemd-analyze and crontab: remembers what was run, and keeps a crontab."""

    def __init__(self) -> None:
        self.ran: list[str] = []
        self.crontab: str | None = None
        self.refuses = False

    def run(self, words: tuple[str, ...], text: str | None = None) -> Said:
        """Answer as the program would."""
        self.ran.append(" ".join(words))
        match words:
            case ("crontab", "-l") if self.crontab is None:
                return Said(status=1, out="", err="no crontab for root")
            case ("crontab", "-l"):
                return Said(status=0, out=self.crontab or "", err="")
            case ("crontab", "-"):
                self.crontab = text
            case ("crontab", "-r"):
                self.crontab = None
            case ("systemd-analyze", *_):
                return Said(status=0, out="    Next elapse: Mon 2026-12-07 08:00:00 UTC\n", err="")
            case _:
                pass
        return Said(status=int(self.refuses), out="", err="Access denied" if self.refuses else "")


@pytest.fixture
def programs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Programs:
    """Programs that are not run, folders of the test's own, and a manager that listens."""
    standing_in = Programs()
    monkeypatch.setattr("kill_audit.schedule.programs.run", standing_in.run)
    monkeypatch.setattr("kill_audit.schedule.manager_runs", lambda _environ, *, user: not user)
    monkeypatch.setattr("kill_audit.cli.schedule._SYSTEM_UNITS", tmp_path / "system")
    monkeypatch.setattr("kill_audit.cli.schedule._CRON", tmp_path / "cron.d")
    monkeypatch.setattr("kill_audit.cli.schedule._HIDDEN", ("/hidden/",))
    return standing_in


def line_of(path: Path) -> str:
    """What a service runs; nothing for a timer."""
    return next((line for line in path.read_text().splitlines() if line.startswith("ExecStart=")), "")


def test_install_writes_and_starts_timers_with_the_options_it_was_given(
    kill_audit: Command, programs: Programs, tmp_path: Path
) -> None:
    """Options of sources and of the run log go to both services, those of the mail to one; nothing else does."""
    said = kill_audit(
        *("schedule", "install", "--weekly", "Fri 17:00", "--to", "ops@example.org", "--to", "dev@example.org"),
        *("--program", "/bin/true", "-u", "celery@*", "--run-log", "runs.csv", "--utc", "--when", "findings"),
        *("--smtp", "smtps://k@mail.example.org", "--smtp-password-file", "secret"),
    )  # fmt: skip
    assert (said.status, said.err) == (0, "")
    folder = tmp_path / "system"
    assert sorted(path.name for path in folder.iterdir()) == NAMES
    here = Path.cwd()
    shared = f"--quiet --unit celery@* --utc --run-log {here}/runs.csv"
    assert f"ExecStart=/bin/true collect {shared}\n" in (folder / NAMES[0]).read_text()
    mail = (folder / NAMES[2]).read_text()
    to = "--to ops@example.org --to dev@example.org --when findings --smtp smtps://k@mail.example.org"
    assert f"ExecStart=/bin/true mail {shared} {to}\n" in mail
    assert f"LoadCredential=smtp-password:{here}/secret\n" in mail
    assert "OnCalendar=Fri 17:00\n" in (folder / NAMES[3]).read_text()
    assert programs.ran[1:] == [
        "systemctl daemon-reload",
        "systemctl enable --now kill-audit-collect.timer kill-audit-mail.timer",
    ]
    assert "next mail: Mon 2026-12-07 08:00:00 UTC" in said.out
    assert "systemctl start kill-audit-mail.service" in said.out


def test_show_says_whose_they_are_and_when_they_run(kill_audit: Command, programs: Programs) -> None:
    """Without anything installed the exit status is 1."""
    assert kill_audit("schedule", "show").status == 1
    kill_audit("schedule", "install", "--to", "ops@example.org", "--program", "/bin/true")
    said = kill_audit("schedule", "show")
    assert said.status == 0
    assert said.out.count("written by kill-audit") == 4
    assert "Mon 08:00, next: Mon 2026-12-07 08:00:00 UTC" in said.out
    assert programs.refuses is False


def test_remove_stops_and_removes_them(kill_audit: Command, programs: Programs, tmp_path: Path) -> None:
    """Timers are stopped before their files go; the second time there is nothing to do."""
    kill_audit("schedule", "install", "--to", "ops@example.org", "--program", "/bin/true")
    programs.ran.clear()
    said = kill_audit("schedule", "remove")
    assert said.out.count("removed ") == 4
    assert list((tmp_path / "system").iterdir()) == []
    assert programs.ran == [
        "systemctl disable --now kill-audit-collect.timer kill-audit-mail.timer",
        "systemctl daemon-reload",
    ]
    assert kill_audit("schedule", "remove").out == "there was nothing to remove\n"


def test_what_was_changed_by_hand_is_left_alone(kill_audit: Command, programs: Programs, tmp_path: Path) -> None:
    """Neither install nor remove touches anything then, nor stops a timer."""
    words = ("--to", "ops@example.org", "--program", "/bin/true")
    kill_audit("schedule", "install", *words)
    timer = tmp_path / "system" / NAMES[3]
    timer.write_text(timer.read_text() + "# mine\n")
    programs.ran.clear()
    for command in (("remove",), ("install", "--weekly", "Fri 17:00", *words)):
        said = kill_audit("schedule", *command)
        assert said.status == 2
        assert "changed since: it is left alone" in said.err
    assert timer.read_text().endswith("# mine\n")
    assert [line for line in programs.ran if line.startswith("systemctl")] == []
    assert "changed since" in kill_audit("schedule", "show").out


def test_a_hardened_service_mails_to_this_host_when_no_server_is_named(
    kill_audit: Command, programs: Programs, tmp_path: Path
) -> None:
    """It cannot run sendmail; the note says what it does instead, unless a configuration names a server."""
    del programs
    said = kill_audit("schedule", "install", "--to", "ops@example.org", "--program", "/bin/true")
    assert "--smtp smtp+insecure://localhost" in (tmp_path / "system" / NAMES[2]).read_text()
    assert "cannot run sendmail" in said.err
    Path("kill-audit.toml").write_text('[mail]\nto = "ops@example.org"\nsmtp = "smtp://mail.example.org"\n')
    said = kill_audit("schedule", "install", "--program", "/bin/true")
    assert said.status == 0
    text = (tmp_path / "system" / NAMES[2]).read_text()
    assert f"ExecStart=/bin/true mail --quiet --config {Path.cwd()}/kill-audit.toml\n" in text
    assert "must be able to read" in said.err


def test_a_program_that_the_service_cannot_see_is_refused(
    kill_audit: Command, programs: Programs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kill-audit in somebody's home does not run under ProtectHome; a user's own timer may run it."""
    del programs
    monkeypatch.setattr("kill_audit.cli.schedule._HIDDEN", (sys.prefix,))
    said = kill_audit("schedule", "install", "--to", "ops@example.org")
    assert said.status == 2
    assert "cannot see" in said.err
    assert kill_audit("schedule", "install", "--to", "ops@example.org", "--user").status == 0


def test_what_is_accepted_goes_with_the_mail(kill_audit: Command, programs: Programs, tmp_path: Path) -> None:
    """--accepted is the mail's, --keep both services'; a file that is found only from here is told."""
    del programs
    install = ("schedule", "install", "--to", "ops@example.org", "--smtp", "smtps://h", "--program", "/bin/true")
    Path("kill-audit.accepted.toml").touch()
    told = kill_audit(*install)
    assert "note: what runs later does not read kill-audit.accepted.toml: name it with --accepted" in told.err
    assert kill_audit(*install, "--accepted", "kill-audit.accepted.toml", "--keep", "1y").err == ""
    here = Path.cwd()
    collect, _, mail, _ = (line_of(tmp_path / "system" / name) for name in NAMES)
    assert collect == "ExecStart=/bin/true collect --quiet --keep 1y"
    assert f"--keep 1y --to ops@example.org --accepted {here}/kill-audit.accepted.toml" in mail


def test_a_file_that_the_service_cannot_see_is_refused(
    kill_audit: Command, programs: Programs, tmp_path: Path
) -> None:
    """What ProtectHome= hides is told before anything is written; a user's own service sees it."""
    del programs
    words = ("--to", "ops@example.org", "--smtp", "smtps://h", "--program", "/bin/true")
    said = kill_audit("schedule", "install", *words, "--accepted", "/hidden/me/a.toml")
    assert said.status == 2
    assert "--accepted /hidden/me/a.toml: a hardened service cannot see /hidden/me/a.toml" in said.err
    assert not (tmp_path / "system").exists()
    assert kill_audit("schedule", "install", "--user", *words, "--accepted", "/hidden/me/a.toml").status == 0


def test_a_users_timers_go_to_the_users_manager(kill_audit: Command, programs: Programs, tmp_path: Path) -> None:
    """They lie in the user's own folder, run for the user's own journal, and the words for systemctl are shown."""
    said = kill_audit("schedule", "install", "--to", "ops@example.org", "--program", "/bin/true", "--user")
    folder = tmp_path / "no-configuration" / "systemd" / "user"
    assert sorted(path.name for path in folder.iterdir()) == NAMES
    assert "ExecStart=/bin/true collect --quiet --user\n" in (folder / NAMES[0]).read_text()
    assert "systemctl --user enable --now kill-audit-collect.timer" in said.out
    assert [line for line in programs.ran if line.startswith("systemctl")] == []


def test_into_writes_elsewhere_and_starts_nothing(kill_audit: Command, programs: Programs, tmp_path: Path) -> None:
    """For packages and containers: the files are written, shown and removed there."""
    words = ("--into", tmp_path / "etc")
    kill_audit("schedule", "install", *words, "--to", "ops@example.org", "--program", "/bin/true")
    assert sorted(path.name for path in (tmp_path / "etc").iterdir()) == NAMES
    assert kill_audit("schedule", "show", *words).status == 0
    assert kill_audit("schedule", "remove", *words).out.count("removed ") == 4
    assert [line for line in programs.ran if line.startswith("systemctl")] == []


def test_cron_lines_go_to_cron_d(kill_audit: Command, programs: Programs, tmp_path: Path) -> None:
    """For the system they are a file of cron's folder, run as root."""
    del programs
    words = ("--to", "ops@example.org", "--program", "/bin/true")
    assert kill_audit("schedule", "install", "--cron", *words).status == 0
    text = (tmp_path / "cron.d" / "kill-audit").read_text()
    assert "0 8 * * 1 root /bin/true mail --quiet --to ops@example.org\n" in text
    said = kill_audit("schedule", "show", "--cron")
    assert "    0 8 * * 1 root /bin/true mail" in said.out
    assert "    Mon 08:00, next: Mon 2026-12-07 08:00:00 UTC\n" in said.out
    assert kill_audit("schedule", "remove", "--cron").out.startswith("removed ")


def test_a_users_cron_lines_stand_among_the_users_own(kill_audit: Command, programs: Programs) -> None:
    """They are put into the crontab and taken out again, and the rest of it stays."""
    programs.crontab = "MAILTO=me\n5 5 * * * backup\n"
    words = ("schedule", "install", "--cron", "--user", "--to", "ops@example.org", "--program", "/bin/true")
    assert kill_audit(*words).status == 0
    assert kill_audit(*words, "--weekly", "Fri 17:00").status == 0
    assert programs.crontab.startswith("MAILTO=me\n5 5 * * * backup\n")
    assert "0 17 * * 5 /bin/true mail --quiet --user --to ops@example.org\n" in programs.crontab
    assert "0 17 * * 5" in kill_audit("schedule", "show", "--cron", "--user").out
    assert kill_audit("schedule", "remove", "--cron", "--user").status == 0
    assert programs.crontab == "MAILTO=me\n5 5 * * * backup\n"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((), "nobody to mail to"),
        (("--to", "ops@example.org", "--keep", "1d"), "kills are judged again"),
        (("--to", "ops@example.org", "--since", "7d"), "--since is for a single run"),
        (("--to", "ops@example.org", "--program", "/nonexistent"), "no such program"),
        (
            ("--to", "ops@example.org", "--cron", "--weekly", "weekly", "--program", "/bin/true"),
            "a day and a time only",
        ),
        (("--to", "ops@example.org", "--program", "/bin/true", "--label", "a\nb"), "does not fit on a line"),
        (
            ("--to", "ops@example.org", "--program", "/bin/true", "--run-log", "mysql://u:p@h/d"),
            "has a password in it",
        ),
    ],
)
def test_what_cannot_run_is_refused_before_anything_is_written(
    kill_audit: Command, programs: Programs, tmp_path: Path, words: tuple[str, ...], says: str
) -> None:
    """Each has one line that says why, and a hint."""
    del programs
    said = kill_audit("schedule", "install", *words)
    assert said.status == 2
    assert says in said.err
    assert "hint: " in said.err
    assert not (tmp_path / "system").exists()


def test_a_manager_that_refuses_is_told(kill_audit: Command, programs: Programs) -> None:
    """What systemctl says is passed on, with the command to try by hand."""
    programs.refuses = True
    said = kill_audit("schedule", "install", "--to", "ops@example.org", "--program", "/bin/true")
    assert said.status == 2
    assert "systemctl Access denied" in said.err
    assert "hint: try it by hand: systemctl daemon-reload" in said.err
