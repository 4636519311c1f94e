"""Handing mail over: to real servers over TLS, to a program, and what waits when that fails."""

import os
import socket
import stat
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from email import message_from_bytes, policy
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiosmtpd.smtp import Envelope

from kill_audit.errors import KillAuditError
from kill_audit.mail import Delivered, Letter, MailError, Outbox, Sent, deliver, find_route, transport
from kill_audit.mail.route import Security, SendmailRoute, SmtpRoute
from kill_audit.mail.transport import OutOfReachError, Receipt
from mail_servers import PASSWORD, USER, Post, certificates, serving

MESSAGE = b"From: k@example.org\r\nTo: ops@example.org\r\nSubject: kill-audit web1: 3 killed\r\n\r\nline\r\n.dot\r\n"
LOGIN = {"KILL_AUDIT_SMTP_PASSWORD": PASSWORD}
NOW = 1_796_600_000_000_000


def letter(number: int = 1, *to: str, written: int | None = None) -> Letter:
    """A mail to ops (or to others)."""
    return Letter(
        key=f"web1.{number}",
        message_id=f"<web1.{number}@example.org>",
        subject="kill-audit web1: 3 killed",
        sender="k@example.org",
        recipients=to or ("ops@example.org",),
        written=NOW + number if written is None else written,
        message=MESSAGE,
    )


class Clock:
    """Sleeps without time going by, and remembers for how long."""

    def __init__(self) -> None:
        self.slept: list[float] = []

    def sleep(self, seconds: float) -> None:
        """Remember."""
        self.slept.append(seconds)


@pytest.fixture
def outbox(tmp_path: Path) -> Outbox:
    """An empty outbox."""
    return Outbox(tmp_path / "state" / "outbox")


@pytest.fixture
def clock() -> Clock:
    """A clock of the test's own."""
    return Clock()


Send = Callable[..., Delivered]


@pytest.fixture
def send(outbox: Outbox, clock: Clock) -> Send:
    """Deliver a mail by an `--smtp` URL, or by a transport."""

    def sending(one: Letter | None, by: str | Any, authority: Path | None = None, **environ: str) -> Delivered:
        if not isinstance(by, str):
            return deliver(one, outbox, by, route="a test", now=NOW, sleep=clock.sleep)
        way = find_route(by, None, authorities=str(authority) if authority else None, environ=environ)
        return deliver(one, outbox, transport(way), route=str(way), now=NOW, sleep=clock.sleep)

    return sending


def content(envelope: Envelope) -> bytes:
    """The bytes of a mail that a server took."""
    assert isinstance(envelope.content, bytes)
    return envelope.content


# -- protected connections ----------------------------------------------------------------------------------------


def test_starttls_with_a_login_delivers(send: Send, tmp_path: Path, outbox: Outbox, clock: Clock) -> None:
    """With a certificate that holds and the right password the mail arrives whole and leaves the outbox."""
    post, tls = Post(), certificates(tmp_path)
    how = {"authenticator": post.login, "auth_required": True, "auth_require_tls": True, "require_starttls": True}
    with serving(post, tls_context=tls.context, **how) as port:
        done = send(letter(), f"smtp://{USER}@localhost:{port}", tls.authority, **LOGIN)
    assert [content(envelope) for envelope in post.got] == [MESSAGE]
    assert (post.to, post.encrypted, post.logins) == ([["ops@example.org"]], [True], [USER])
    assert [one.key for one in done.sent] == ["web1.1"]
    assert (outbox.waiting(), clock.slept) == ((), [])


def test_tls_from_the_first_byte_delivers(send: Send, tmp_path: Path) -> None:
    """smtps:// speaks TLS before anything else."""
    post, tls = Post(), certificates(tmp_path)
    with serving(post, ssl_context=tls.context, authenticator=post.login, auth_require_tls=False) as port:
        send(letter(), f"smtps://{USER}@localhost:{port}", tls.authority, **LOGIN)
    assert (post.to, post.logins) == ([["ops@example.org"]], [USER])


@pytest.mark.parametrize("scheme", ["smtp", "smtps"])
@pytest.mark.parametrize("fault", ["unknown-authority", "other-name"])
def test_a_certificate_that_does_not_hold_stops_everything(
    send: Send, tmp_path: Path, outbox: Outbox, clock: Clock, scheme: str, fault: str
) -> None:
    """Neither mail nor password goes to a server whose certificate is another's; trying again makes no sense."""
    post, tls = Post(), certificates(tmp_path, "mail.example.org" if fault == "other-name" else "localhost")
    how = {"tls_context" if scheme == "smtp" else "ssl_context": tls.context}
    authority = tls.authority if fault == "other-name" else None
    with (
        serving(post, authenticator=post.login, auth_require_tls=False, **how) as port,
        pytest.raises(MailError, match="not to be trusted"),
    ):
        send(letter(), f"{scheme}://{USER}@localhost:{port}", authority, **LOGIN)
    assert (post.got, post.logins, clock.slept) == ([], [], [])
    assert [one.key for one in outbox.waiting()] == ["web1.1"]


def test_a_server_without_starttls_gets_neither_mail_nor_password(send: Send, outbox: Outbox) -> None:
    """smtp:// insists on encryption: who strips it from the server's offer gets nothing."""
    post = Post()
    with (
        serving(post, authenticator=post.login, auth_require_tls=False) as port,
        pytest.raises(MailError, match="STARTTLS"),
    ):
        send(letter(), f"smtp://{USER}@localhost:{port}", **LOGIN)
    assert (post.got, post.logins, len(outbox.waiting())) == ([], [], 1)


def test_a_wrong_password_is_told_and_the_mail_waits(send: Send, tmp_path: Path, outbox: Outbox, clock: Clock) -> None:
    """A login that fails for good is not tried three times, and the password is in no message."""
    post, tls = Post(), certificates(tmp_path)
    wrong = {"KILL_AUDIT_SMTP_PASSWORD": "wr0ng"}
    with (
        serving(post, tls_context=tls.context, authenticator=post.login) as port,
        pytest.raises(MailError, match="login of kill-audit failed: 535") as failed,
    ):
        send(letter(), f"smtp://{USER}@localhost:{port}", tls.authority, **wrong)
    assert "wr0ng" not in failed.value.message + failed.value.hint
    assert (post.got, clock.slept, len(outbox.waiting())) == ([], [], 1)


# -- servers with faults ------------------------------------------------------------------------------------------


def plain(port: int) -> str:
    """The URL of a server without encryption."""
    return f"smtp+insecure://127.0.0.1:{port}"


def test_a_mail_that_was_cut_off_is_sent_again_once(send: Send, outbox: Outbox, clock: Clock) -> None:
    """A server that hangs up within DATA did not take the mail; the next try does, and it arrives once."""
    post = Post(answers=["cut"])
    with serving(post) as port:
        send(letter(), plain(port))
    assert [content(envelope) for envelope in post.got] == [MESSAGE]
    assert (clock.slept, outbox.waiting()) == ([5.0], ())


def test_three_tries_and_then_the_mail_waits_and_goes_first(send: Send, outbox: Outbox, clock: Clock) -> None:
    """After three tries with growing pauses it waits; the next run sends it before its own, and each once."""
    post = Post(answers=["451 later", "cut", "451 later"])
    with serving(post) as port:
        with pytest.raises(MailError, match="451 later") as failed:
            send(letter(1), plain(port))
        assert (post.got, clock.slept) == ([], [5.0, 30.0])
        assert str(outbox.folder) in failed.value.hint
        done = send(letter(2), plain(port))
    assert [one.key for one in done.sent] == ["web1.1", "web1.2"]
    assert len(post.got) == 2
    assert outbox.waiting() == ()


def test_a_server_that_is_down_loses_nothing(send: Send, clock: Clock) -> None:
    """Nobody listens: the mails wait in their order, and go when somebody does."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        for number in (1, 2):
            with pytest.raises(MailError, match="refused"):
                send(letter(number), f"smtp+insecure://127.0.0.1:{port}")
    assert clock.slept == [5.0, 30.0] * 2
    post = Post()
    with serving(post) as port:
        done = send(None, plain(port))
    assert [one.key for one in done.sent] == ["web1.1", "web1.2"]


def test_a_server_that_does_not_answer_is_given_up(outbox: Outbox, clock: Clock) -> None:
    """A server that accepts a connection and says nothing is as good as one that is down."""
    with socket.socket() as mute:
        mute.bind(("127.0.0.1", 0))
        mute.listen()
        way = SmtpRoute(host="127.0.0.1", port=mute.getsockname()[1], security=Security.NONE, timeout_s=0.05)
        with pytest.raises(MailError, match="did not answer in time"):
            deliver(letter(), outbox, transport(way), route="mute", now=NOW, sleep=clock.sleep)
    assert len(outbox.waiting()) == 1


def test_a_mail_that_is_refused_for_good_does_not_hold_up_others(send: Send, outbox: Outbox, clock: Clock) -> None:
    """A 5yz to the mail itself is told, and the mail set aside to be looked at; the next mail goes."""
    post = Post(answers=["554 no such thing here"])
    with serving(post) as port:
        with pytest.raises(MailError, match="554 no such thing here"):
            send(letter(1), plain(port))
        assert (clock.slept, outbox.waiting()) == ([], ())
        assert (outbox.folder / "refused" / "web1.1.eml").read_bytes() == MESSAGE
        assert outbox.sent() == ()
        assert [one.key for one in send(letter(2), plain(port)).sent] == ["web1.2"]


def test_who_has_the_mail_does_not_get_it_again(send: Send, outbox: Outbox, clock: Clock) -> None:
    """Of several recipients only those that were put off are tried again, also by the next run."""
    post = Post(refuse={"b@example.org": ["450 busy"] * 4, "c@example.org": ["550 unknown"]})
    to = ("a@example.org", "b@example.org", "c@example.org")
    with serving(post) as port:
        with pytest.raises(MailError, match="450 busy"):
            send(letter(1, *to), plain(port))
        assert outbox.waiting()[0].recipients == ("b@example.org",)
        post.refuse["b@example.org"] = ["450 busy"] * 3
        with pytest.raises(MailError, match="450 busy"):
            send(letter(1, *to), plain(port))
        send(letter(1, *to), plain(port))
    assert post.to == [["a@example.org"], ["b@example.org"]]
    assert clock.slept == [5.0, 30.0] * 2


def test_a_recipient_who_is_unknown_is_told_and_the_others_have_the_mail(send: Send, outbox: Outbox) -> None:
    """One refused address does not keep the mail from the others, who are not served twice."""
    post = Post(refuse={"b@example.org": ["550 unknown"]})
    with serving(post) as port:
        with pytest.raises(MailError, match=r"b@example\.org: 550 unknown"):
            send(letter(1, "a@example.org", "b@example.org"), plain(port))
        assert send(letter(1, "a@example.org", "b@example.org"), plain(port)).already is not None
    assert post.to == [["a@example.org"]]
    assert outbox.waiting() == ()


# -- once -----------------------------------------------------------------------------------------------------------


def test_the_mail_of_a_week_is_sent_once(send: Send) -> None:
    """A second run for the same week finds that it was sent, and says when."""
    post = Post()
    with serving(post) as port:
        first = send(letter(), plain(port))
        second = send(letter(), plain(port))
    assert (first.already, second.sent) == (None, ())
    assert second.already == Sent(key="web1.1", message_id="<web1.1@example.org>", at=NOW)
    assert len(post.got) == 1


def test_runs_at_the_same_time_send_one_mail(send: Send) -> None:
    """The outbox is locked: of four runs that send the same mail one does."""
    post = Post()
    with serving(post) as port, ThreadPoolExecutor(4) as pool:
        done = list(pool.map(lambda _: send(letter(), plain(port)), range(4)))
    assert len(post.got) == 1
    assert sorted(len(one.sent) for one in done) == [0, 0, 0, 1]


def test_a_mail_that_waits_is_replaced_by_the_same_mail_composed_anew(send: Send, outbox: Outbox) -> None:
    """The week's mail that waits is not joined by a second one; it keeps its turn, with what is known now."""

    def down(_: Letter) -> Receipt:
        raise OutOfReachError("down", at_once=False)

    for number in (1, 2):
        with pytest.raises(MailError, match="down"):
            send(letter(number), down)
    with pytest.raises(MailError, match="down"):
        send(msgspec.structs.replace(letter(1), message=b"anew", written=NOW + 99), down)
    assert [(one.key, one.message) for one in outbox.waiting()] == [("web1.1", b"anew"), ("web1.2", MESSAGE)]


def test_who_is_killed_after_the_server_took_the_mail_sends_the_same_message_again(send: Send, outbox: Outbox) -> None:
    """Before it is noted nobody knows that it was taken: it goes again under the same Message-ID, never not at all."""
    taken: list[Letter] = []

    def killed(one: Letter) -> Receipt:
        taken.append(one)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        send(letter(), killed)
    assert [one.message_id for one in outbox.waiting()] == ["<web1.1@example.org>"]
    post = Post()
    with serving(post) as port:
        send(None, plain(port))
    assert [one.message_id for one in taken] == ["<web1.1@example.org>"]
    assert len(post.got) == 1


def test_who_is_killed_after_noting_it_does_not_send_it_again(send: Send, outbox: Outbox) -> None:
    """A mail that was noted as sent and still lies in the outbox is only taken out."""
    with outbox.locked():
        outbox.put(letter())
        outbox.note(Sent(key="web1.1", message_id="<web1.1@example.org>", at=NOW))
    post = Post()
    with serving(post) as port:
        assert send(None, plain(port)).sent == ()
    assert (post.got, outbox.waiting()) == ([], ())


def test_the_outbox_is_for_its_owner_alone(send: Send, outbox: Outbox) -> None:
    """Folder and files are closed to others, and nothing half-written stays behind."""

    def down(_: Letter) -> Receipt:
        raise OutOfReachError("down", at_once=False)

    before = os.umask(0)
    try:
        with pytest.raises(MailError, match="down"):
            send(letter(), down)
    finally:
        os.umask(before)
    files = sorted(outbox.folder.iterdir())
    assert [path.name for path in files] == ["lock", "web1.1.mail"]
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}
    assert stat.S_IMODE(outbox.folder.stat().st_mode) == 0o700


def test_a_file_that_is_no_mail_stays_where_it_is(send: Send, outbox: Outbox) -> None:
    """Whatever else lies in the outbox is neither sent nor removed, and stops nothing."""
    outbox.folder.mkdir(parents=True)
    (outbox.folder / "odd.mail").write_text("{")
    (outbox.folder / "sent.json").write_text("{")
    post = Post()
    with serving(post) as port:
        send(letter(), plain(port))
    assert len(post.got) == 1
    assert (outbox.folder / "odd.mail").exists()


def test_an_outbox_that_cannot_be_written_sends_nothing(tmp_path: Path, clock: Clock) -> None:
    """What could not be kept is not sent either: nobody would know of it."""
    (tmp_path / "file").touch()
    with pytest.raises(MailError, match="cannot write the outbox"):
        deliver(letter(), Outbox(tmp_path / "file" / "outbox"), pytest.fail, route="x", now=NOW, sleep=clock.sleep)  # type: ignore[arg-type]


# -- a program ----------------------------------------------------------------------------------------------------


def program(folder: Path, script: str) -> Path:
    """A program that takes mail."""
    path = folder / "sendmail"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def test_sendmail_gets_the_mail_on_its_standard_input(send: Send, tmp_path: Path) -> None:
    """The envelope is in its arguments, after `--`; lines end as this system ends them; a dot ends nothing."""
    path = program(tmp_path, f'printf "%s\\n" "$@" >{tmp_path}/words; cat >{tmp_path}/mail')
    send(letter(1, "a@example.org", "b@example.org"), transport(SendmailRoute(program=path)))
    assert (tmp_path / "words").read_text().split() == [
        "-i",
        "-f",
        "k@example.org",
        "--",
        "a@example.org",
        "b@example.org",
    ]
    assert (tmp_path / "mail").read_bytes() == MESSAGE.replace(b"\r\n", b"\n")
    assert message_from_bytes((tmp_path / "mail").read_bytes(), policy=policy.default)["To"] == "ops@example.org"


def test_a_sendmail_that_fails_is_told_and_the_mail_waits(
    send: Send, tmp_path: Path, outbox: Outbox, clock: Clock
) -> None:
    """Exit status 75 (sysexits.h) is tried again, others are not; in both cases the mail waits."""
    busy = program(tmp_path, "echo queue full >&2; exit 75")
    with pytest.raises(MailError, match="75: queue full"):
        send(letter(), transport(SendmailRoute(program=busy)))
    assert clock.slept == [5.0, 30.0]
    broken = program(tmp_path, "exit 1")
    with pytest.raises(MailError, match="1: without a word"):
        send(letter(), transport(SendmailRoute(program=broken)))
    with pytest.raises(MailError, match="No such file"):
        send(letter(), transport(SendmailRoute(program=tmp_path / "none")))
    assert len(clock.slept) == 2
    assert len(outbox.waiting()) == 1


# -- which way ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("smtp://mail.example.org", ("mail.example.org", 587, "smtp", None)),
        ("smtps://mail.example.org", ("mail.example.org", 465, "smtps", None)),
        ("smtp+insecure://localhost", ("localhost", 25, "smtp+insecure", None)),
        ("smtp://k%40x@mail.example.org:25", ("mail.example.org", 25, "smtp", "k@x")),
        ("smtps://k@[::1]:4465", ("::1", 4465, "smtps", "k")),
    ],
)
def test_a_url_says_how_the_connection_is_protected(url: str, expected: tuple[object, ...]) -> None:
    """The scheme decides on protection and port; a user needs a password, which is shown nowhere."""
    way = find_route(url, None, authorities=None, environ={"KILL_AUDIT_SMTP_PASSWORD": PASSWORD})
    assert isinstance(way, SmtpRoute)
    assert (way.host, way.port, way.security, way.user) == expected
    assert way.password == (PASSWORD if expected[3] else None)
    assert PASSWORD not in repr(way) + str(way)


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("ftp://mail.example.org", "no such kind of server"),
        ("mail.example.org", "no such kind of server"),
        ("smtp://mail.example.org:port", "no such kind of server"),
        ("smtp://mail.example.org/path", "no such kind of server"),
        ("smtp://k@mail.example.org", "no password for k"),
        ("smtp+insecure://k:pass@mail.example.org", "unprotected"),
    ],
)
def test_what_is_no_way_is_refused_without_its_password(url: str, says: str) -> None:
    """A URL that cannot be meant is told with what can be written, and no secret of it."""
    with pytest.raises(MailError, match=says) as refused:
        find_route(url, None, authorities=None, environ={})
    assert "pass@" not in refused.value.message
    assert refused.value.hint


def test_the_password_comes_from_where_secrets_are_kept(tmp_path: Path) -> None:
    """A variable, a file for its owner alone, or systemd's credential; a file that others can read is refused."""
    secret = tmp_path / "smtp-password"
    secret.write_text(f"{PASSWORD}\n")
    secret.chmod(0o600)
    for environ in (
        {"KILL_AUDIT_SMTP_PASSWORD": PASSWORD},
        {"KILL_AUDIT_SMTP_PASSWORD_FILE": str(secret)},
        {"CREDENTIALS_DIRECTORY": str(tmp_path)},
    ):
        way = find_route("smtp://k@mail.example.org", None, authorities=None, environ=environ)
        assert isinstance(way, SmtpRoute)
        assert way.password == PASSWORD
    secret.chmod(0o644)
    with pytest.raises(KillAuditError, match="not only its owner"):
        find_route("smtp://k@h", None, authorities=None, environ={"KILL_AUDIT_SMTP_PASSWORD_FILE": str(secret)})


def test_without_a_server_it_is_sendmail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The host's own, or the one that is named; without either the message says how to name a server."""
    path = program(tmp_path, "exit 0")
    assert find_route(None, str(path), authorities=None, environ={}) == SendmailRoute(program=path)
    monkeypatch.setattr("kill_audit.mail.route.SENDMAIL_PLACES", str(tmp_path))
    assert str(find_route(None, None, authorities=None, environ={})) == str(path)
    with pytest.raises(MailError, match="no program"):
        find_route(None, str(tmp_path / "none"), authorities=None, environ={})
    path.unlink()
    with pytest.raises(MailError, match="no sendmail") as refused:
        find_route(None, None, authorities=None, environ={})
    assert "--smtp" in refused.value.hint


def test_an_authority_that_is_not_there_is_refused() -> None:
    """A file of certificates that is missing is told before anything is sent."""
    with pytest.raises(MailError, match="--smtp-ca"):
        find_route("smtp://localhost", None, authorities="/nonexistent.pem", environ={})
