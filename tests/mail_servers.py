"""Mail servers of the tests' own, with certificates of the tests' own, that behave as they are told."""

import asyncio
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import trustme
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session

USER, PASSWORD = "kill-audit", "s3cr3t/w@rd"


@dataclass
class Post:
    """What a server got, and what it answers: to each DATA the next of `answers` ("cut" hangs up), then 250."""

    answers: list[str] = field(default_factory=list)
    refuse: dict[str, list[str]] = field(default_factory=dict)
    got: list[Envelope] = field(default_factory=list)
    encrypted: list[bool] = field(default_factory=list)
    logins: list[str] = field(default_factory=list)

    async def handle_RCPT(  # noqa: N802 - aiosmtpd's name
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        """Take a recipient, or give the next answer that is kept for it."""
        del server, session
        if self.refuse.get(address):
            return self.refuse[address].pop(0)
        envelope.rcpt_tos.append(address)
        envelope.rcpt_options.extend(options)
        return "250 OK"

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:  # noqa: N802
        """Take a mail, or not."""
        answer = self.answers.pop(0) if self.answers else "250 taken"
        if answer == "cut":
            assert isinstance(server.transport, asyncio.Transport)
            server.transport.abort()
            return "421 gone"
        if answer.startswith("250"):
            self.got.append(envelope)
            self.encrypted.append(session.ssl is not None)
        return answer

    def login(self, server: SMTP, session: Session, envelope: Envelope, mechanism: str, data: Any) -> AuthResult:
        """Let one user in."""
        del server, session, envelope, mechanism
        assert isinstance(data, LoginPassword)
        self.logins.append(data.login.decode())
        right = (data.login, data.password) == (USER.encode(), PASSWORD.encode())
        return AuthResult(success=right, handled=False)  # the server answers

    @property
    def to(self) -> list[list[str]]:
        """The recipients of each mail that was taken."""
        return [list(envelope.rcpt_tos) for envelope in self.got]


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificates:
    """An authority of the tests, and a certificate of it for a name."""

    authority: Path
    context: ssl.SSLContext


def certificates(folder: Path, name: str = "localhost") -> Certificates:
    """Make an authority, its file in a folder, and a server's certificate."""
    authority = trustme.CA()
    path = folder / f"{name}.pem"
    authority.cert_pem.write_to_path(path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(name).configure_cert(context)
    return Certificates(authority=path, context=context)


class _Server(Controller):
    """A controller that takes whatever port is free."""

    def _trigger_server(self) -> None:
        assert isinstance(self.server, asyncio.Server)
        self.port = self.server.sockets[0].getsockname()[1]
        super()._trigger_server()  # type: ignore[no-untyped-call]


@contextmanager
def serving(post: Post, **how: Any) -> Iterator[int]:
    """Serve on a free port of 127.0.0.1; `how` are arguments of aiosmtpd's controller."""
    controller = _Server(post, hostname="127.0.0.1", port=0, ready_timeout=60, **how)
    controller.start()
    try:
        yield controller.port
    finally:
        controller.stop()
