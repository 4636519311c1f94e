"""`kill-audit mail`: from the words of a command line to what arrives at a server."""

import datetime as dt
import time
from email import policy
from email.message import EmailMessage
from email.parser import BytesParser
from pathlib import Path

import pytest

from command_line import Command, run_log, scene
from mail_servers import Post, serving

DEPLOY = scene("deploy")
WHO = ("--to", "ops@example.org", "--from", "kill-audit@web1.example.org", "--label", "web1")
AUDIT = (*DEPLOY, *run_log("deploy"), *WHO)


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keep state in a folder of the test's own, and wait for nobody."""
    folder = tmp_path / "state"
    monkeypatch.setenv("STATE_DIRECTORY", str(folder))
    monkeypatch.setattr(time, "sleep", lambda _: None)
    return folder


def by(port: int) -> tuple[str, str]:
    """The words that name a server."""
    return "--smtp", f"smtp+insecure://127.0.0.1:{port}"


def mails(post: Post) -> list[EmailMessage]:
    """What arrived, as a mail program has it."""
    return [read(bytes(one.content)) for one in post.got if isinstance(one.content, bytes)]


def read(data: bytes) -> EmailMessage:
    """A mail as a mail program has it."""
    return BytesParser(EmailMessage, policy=policy.default).parsebytes(data)


def plain(message: EmailMessage) -> str:
    """The text of a mail."""
    part = message.get_body(("plain",))
    assert part is not None
    return str(part.get_content())


def test_what_the_report_finds_arrives_by_mail_once(kill_audit: Command) -> None:
    """The numbers in the subject are the report's; a second run of the same window sends nothing."""
    report = kill_audit("report", *DEPLOY, *run_log("deploy"), "-o", "json", "--exit-zero").json
    post = Post()
    with serving(post) as port:
        first = kill_audit("mail", *AUDIT, *by(port))
        second = kill_audit("mail", *AUDIT, *by(port))
        again = kill_audit("mail", *AUDIT, *by(port), "--again")
    assert (first.status, second.status, again.status) == (0, 0, 0)
    one, more = mails(post)
    totals = report["totals"]
    unrecorded = totals["missing"] + totals["stuck"]
    assert one["Subject"].startswith(f"kill-audit web1: {totals['kills']} killed, {unrecorded} unrecorded")
    assert first.out == f"sent to ops@example.org: {one['Subject']}\n"
    assert "it was sent already" in second.out
    assert one["Message-ID"] != more["Message-ID"]
    longest = max(report["kills"], key=lambda kill: kill["ran_for_s"] or 0)
    assert f"1. {longest['task']['name']}[{longest['task']['id']}]" in plain(one)


def test_without_a_window_it_is_the_last_whole_week(kill_audit: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a Monday morning it is Monday to Sunday before, and the numbers of the week before come from the ledger."""
    began = dt.datetime.fromtimestamp(float(DEPLOY[2][1:]), dt.UTC).date()
    monday = dt.datetime.combine(began - dt.timedelta(days=began.weekday()) + dt.timedelta(days=7), dt.time(8), dt.UTC)
    post = Post()
    with serving(post) as port:
        for week in (0, 1):
            moment = monday + dt.timedelta(days=7 * week)
            monkeypatch.setattr(time, "time_ns", lambda moment=moment: int(moment.timestamp()) * 10**9)
            assert kill_audit("mail", "--quiet", "--utc", "--file", DEPLOY[-1], *WHO, *by(port)).status == 0
    first, second = mails(post)
    last = monday.date() - dt.timedelta(days=7)
    assert f"Mon {last} to Sun {last + dt.timedelta(days=6)} (UTC)" in plain(first)
    assert f"Mon {last + dt.timedelta(days=7)} to" in plain(second)
    assert first["References"] == second["References"]


def test_a_second_week_is_compared_with_the_first(kill_audit: Command) -> None:
    """What was mailed, or collected, is what the next mail stands against, also after the journal has gone."""
    since, until = (float(word[1:]) for word in (DEPLOY[2], DEPLOY[4]))
    length = until - since
    post = Post()
    with serving(post) as port:
        kill_audit("mail", *AUDIT, *by(port))
        following = ("--utc", "--since", f"@{until:.6f}", "--until", f"@{until + length:.6f}", "--file", DEPLOY[-1])
        kill_audit("mail", *following, *WHO, *by(port))
    first, second = mails(post)
    number = first["Subject"].split()[2]
    assert f"({number} the period before)" in second["Subject"]


def test_a_failing_audit_is_mailed_and_exits_2(kill_audit: Command) -> None:
    """A journal that is not there is told by mail, once a day, and on stderr."""
    post = Post()
    with serving(post) as port:
        for _ in range(2):
            said = kill_audit("mail", "--file", "/nonexistent.export", *WHO, *by(port))
            assert said.status == 2
            assert "/nonexistent.export" in said.err
    [message] = mails(post)
    assert message["Subject"].startswith("kill-audit web1: could not audit: ")
    assert 'this is not "nothing was killed"' in plain(message)


def test_an_error_of_its_own_is_mailed_too(kill_audit: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever breaks inside is named in the mail, and still breaks."""

    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr("kill_audit.cli.mail.document_of", broken)
    post = Post()
    with serving(post) as port, pytest.raises(ZeroDivisionError):
        kill_audit("mail", *AUDIT, *by(port))
    [message] = mails(post)
    assert "an error of kill-audit itself: ZeroDivisionError: division by zero" in plain(message)


def test_a_mail_that_no_server_takes_waits_and_goes_first(kill_audit: Command, state: Path) -> None:
    """The exit status is 2, the mail lies in the outbox, and --flush or the next mail sends it."""
    post = Post(answers=["451 later"] * 3)
    with serving(post) as port:
        said = kill_audit("mail", *AUDIT, *by(port))
        assert said.status == 2
        assert "did not take the mail: 451 later" in said.err
        assert len(list((state / "outbox").glob("*.mail"))) == 1
        assert kill_audit("mail", "--flush", *by(port)).out.startswith("sent to ops@example.org: ")
        assert kill_audit("mail", "--flush", *by(port)).out == "nothing waits\n"
    assert len(post.got) == 1


def test_whether_a_mail_is_due(kill_audit: Command) -> None:
    """`findings` withholds a quiet week and `change` the same numbers again; both say so and exit 0."""
    quiet = scene("drain")
    post = Post()
    with serving(post) as port:
        withheld = kill_audit("mail", *quiet, *WHO, *by(port), "--when", "findings")
        assert (withheld.status, post.got) == (0, [])
        assert "no mail: nothing was found in whole evidence" in withheld.out
        kill_audit("mail", *AUDIT, *by(port), "--when", "change")
        same = kill_audit("mail", *AUDIT, *by(port), "--when", "change", "--again")
        other = kill_audit("mail", *quiet, *WHO, *by(port), "--when", "change")
    assert "nothing is other than in the last mail" in same.out
    assert other.out.startswith("sent to")
    assert len(post.got) == 2


def test_a_dry_run_writes_the_mail_and_keeps_nothing(kill_audit: Command, state: Path) -> None:
    """The file is a mail that mail programs open; no ledger and no outbox are made; without -w it is on stdout."""
    assert kill_audit("mail", *AUDIT, "--dry-run", "-w", "week.eml").status == 0
    data = Path("week.eml").read_bytes()
    message = read(data)
    assert message["Subject"].startswith("kill-audit web1: ")
    assert data.count(b"\n") == data.count(b"\r\n")
    assert not state.exists()
    said = kill_audit("mail", *AUDIT, "--dry-run")
    assert said.out.startswith("From: kill-audit@web1.example.org\nTo: ops@example.org\nSubject: kill-audit web1: ")


def test_a_dry_run_that_fails_leaves_the_file_as_it_was(kill_audit: Command) -> None:
    """Yesterday's file is still there, and nobody is mailed."""
    Path("week.eml").write_text("yesterday")
    assert kill_audit("mail", "--file", "/nonexistent", *WHO, "--dry-run", "-w", "week.eml").status == 2
    assert Path("week.eml").read_text() == "yesterday"


def test_a_ledger_that_cannot_be_read_does_not_keep_the_mail_back(kill_audit: Command) -> None:
    """The mail goes without the weeks before, and says so."""
    Path("ledger").write_text("no database " * 100)
    post = Post()
    with serving(post) as port:
        assert kill_audit("mail", *AUDIT, *by(port), "--ledger", "ledger").status == 0
    [message] = mails(post)
    assert "Without the weeks before" in plain(message)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--from", "k@example.org"), "nobody to mail to"),
        (("--to", "nobody", "--from", "k@example.org"), "is no mail address"),
        (("--to", "ops@example.org", "--smtp", "ftp://h"), "no such kind of server"),
        (("--to", "ops@example.org", "-w", "x.eml"), "-w is for --dry-run"),
        (("--to", "ops@example.org", "--since", "now", "--until", "yesterday"), "the window is empty"),
    ],
)
def test_what_cannot_be_mailed_is_refused(kill_audit: Command, words: tuple[str, ...], says: str) -> None:
    """Each in one line with a hint, before anything is read."""
    said = kill_audit("mail", "--file", DEPLOY[-1], *words)
    assert said.status == 2
    assert says in said.err
    assert "hint: " in said.err
