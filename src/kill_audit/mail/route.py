"""Which way a mail goes: to which server and how it is protected, or to which program.

Rules of this file: nothing is sent here. Encryption is never optional where it was asked for: without STARTTLS, or
with a certificate that does not hold, nothing is sent.
"""

import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from urllib.parse import SplitResult, unquote, urlsplit

from kill_audit.database import read_secret
from kill_audit.mail.failures import MailError

FORMS = (
    "smtp://[USER@]HOST[:587] (STARTTLS), smtps://[USER@]HOST[:465] (TLS), "
    "smtp+insecure://HOST[:25] (neither: for this host only)"
)
SENDMAIL_PLACES = "/usr/sbin:/usr/lib:/usr/local/sbin:/usr/bin"


class Security(StrEnum):
    """How the connection to a server is protected."""

    STARTTLS = "smtp"
    TLS = "smtps"
    NONE = "smtp+insecure"


_PORTS = {Security.STARTTLS: 587, Security.TLS: 465, Security.NONE: 25}


@dataclass(frozen=True, slots=True, kw_only=True)
class SmtpRoute:
    """A server. `authorities`: a file of certificates to trust instead of the system's. `timeout_s`: of each step."""

    host: str
    port: int
    security: Security
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    authorities: Path | None = None
    timeout_s: float = 30.0

    def __str__(self) -> str:
        """Name it without its password."""
        return f"{self.security.value}://{self.host}:{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SendmailRoute:
    """A program that takes mail as sendmail(8) does."""

    program: Path
    timeout_s: float = 120.0

    def __str__(self) -> str:
        """Name it."""
        return str(self.program)


Route = SmtpRoute | SendmailRoute


def find_route(
    smtp: str | None, sendmail: str | None, *, authorities: str | None, environ: Mapping[str, str]
) -> Route:
    """Find the way: the server that is named, else the program that is named, else the host's own sendmail.

    The password of a server is in the URL (not on the command line), in KILL_AUDIT_SMTP_PASSWORD, in a file that
    KILL_AUDIT_SMTP_PASSWORD_FILE names and only its owner may read, or in the systemd credential `smtp-password`.

    Raises:
        MailError: it is no such URL, there is no such program, or neither was named and there is no sendmail.
        RunLogError: a file with a password cannot be read, or others can read it.
    """
    if smtp is not None:
        return _server(smtp, Path(authorities) if authorities is not None else None, environ)
    found = shutil.which(sendmail or "sendmail", path=None if sendmail else SENDMAIL_PLACES)
    if found is None:
        what = f"there is no program {sendmail}" if sendmail else "this host has no sendmail, and no server is named"
        raise MailError(what, hint=f"name a server: --smtp {FORMS}")
    return SendmailRoute(program=Path(found))


def _server(text: str, authorities: Path | None, environ: Mapping[str, str]) -> SmtpRoute:
    url, port = _split(text)
    if url.scheme not in list(Security) or not url.hostname or url.path.strip("/") or url.query or url.fragment:
        raise MailError(f"--smtp {_hidden(text)}: no such kind of server", hint=f"write it as one of {FORMS}")
    security = Security(url.scheme)
    user = None if url.username is None else unquote(url.username)
    password = None if url.password is None else unquote(url.password)
    if user is not None and password is None:
        password = _password(environ)
    if user is not None and security is Security.NONE and not _is_this_host(url.hostname):
        raise MailError(
            f"--smtp {_hidden(text)}: a password would go over the network unprotected",
            hint=f"use smtp:// or smtps:// with {url.hostname}",
        )
    if user is not None and password is None:
        raise MailError(
            f"no password for {user} at {url.hostname}",
            hint="put it in KILL_AUDIT_SMTP_PASSWORD, in a file named by KILL_AUDIT_SMTP_PASSWORD_FILE (mode 600), or "
            "in the systemd credential smtp-password",
        )
    if authorities is not None and not authorities.is_file():
        raise MailError(f"--smtp-ca {authorities}: there is no such file", hint=f"ls -l {authorities.parent}")
    return SmtpRoute(
        host=url.hostname,
        port=port or _PORTS[security],
        security=security,
        user=user,
        password=password,
        authorities=authorities,
    )


def _split(text: str) -> tuple[SplitResult, int | None]:
    try:
        url = urlsplit(text)
        port = url.port
    except ValueError:  # a port that is no number, or half a bracket
        return urlsplit(""), None
    return url, port


def _hidden(text: str) -> str:
    scheme, mark, rest = text.partition("://")
    return f"{scheme}{mark}{rest.rpartition('@')[2]}"


def _is_this_host(name: str) -> bool:
    return name in {"localhost", "::1"} or name.startswith("127.")


def _password(environ: Mapping[str, str]) -> str | None:
    if "KILL_AUDIT_SMTP_PASSWORD" in environ:
        return environ["KILL_AUDIT_SMTP_PASSWORD"]
    if file := environ.get("KILL_AUDIT_SMTP_PASSWORD_FILE"):
        return read_secret(Path(file).expanduser())
    if folder := environ.get("CREDENTIALS_DIRECTORY"):
        credential = Path(folder, "smtp-password")
        if credential.is_file():
            return read_secret(credential, by_manager=True)
    return None
