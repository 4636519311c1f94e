"""One attempt to hand a mail over: to a server by SMTP, or to a program.

Rules of this file: it tries once, and says for each address what came of it. A server's 5yz is a refusal that another
try does not change, a 4yz is none yet (RFC 5321, section 4.2.1). What went wrong before a server looked at the mail
(no connection, no encryption, no login, a sender who may not send here) is `OutOfReachError`: the mail is as good as
before, and waits.
"""

import smtplib
import ssl
import subprocess
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from kill_audit.mail.outbox import Letter
from kill_audit.mail.route import Route, Security, SendmailRoute, SmtpRoute

_TEMPORARY: Final = range(400, 500)
_EX_TEMPFAIL: Final = 75  # sysexits.h: try again later


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """What came of a mail: the reason for each address that was refused for good, or put off; the others have it."""

    refused: Mapping[str, str] = field(default_factory=dict)
    put_off: Mapping[str, str] = field(default_factory=dict)


class OutOfReachError(Exception):
    """Nothing was handed over; `at_once`: another try in a moment may do better."""

    def __init__(self, reason: str, *, at_once: bool) -> None:
        super().__init__(reason)
        self.reason = reason
        self.at_once = at_once


Transport: TypeAlias = Callable[[Letter], Receipt]


def transport(route: Route) -> Transport:
    """Give the function that hands a mail over by a route."""
    if isinstance(route, SendmailRoute):
        return lambda letter: by_sendmail(route, letter)
    return lambda letter: by_smtp(route, letter)


# -- SMTP ---------------------------------------------------------------------


def by_smtp(route: SmtpRoute, letter: Letter) -> Receipt:
    """Hand a mail to a server.

    Raises:
        OutOfReachError: the server did not come to look at the mail, or broke off before it had taken it.
    """
    try:
        server = _connected(route)
    except smtplib.SMTPAuthenticationError as error:
        raise OutOfReachError(f"the login of {route.user} failed: {_said(error)}", at_once=_later(error)) from None
    except smtplib.SMTPNotSupportedError as error:
        raise OutOfReachError(str(error), at_once=False) from None
    except ssl.SSLError as error:
        reason = getattr(error, "verify_message", "") or error.reason or str(error)
        raise OutOfReachError(f"its encryption is not to be trusted: {reason}", at_once=False) from None
    except (smtplib.SMTPException, OSError) as error:
        raise OutOfReachError(_said(error), at_once=_later(error)) from None
    try:
        return _hand_over(server, letter)
    finally:
        # The mail was taken or not; how the server says good-bye changes nothing.
        with suppress(smtplib.SMTPException, OSError):
            server.quit()
        server.close()


def _connected(route: SmtpRoute) -> smtplib.SMTP:
    context = ssl.create_default_context(cafile=route.authorities)
    server: smtplib.SMTP
    if route.security is Security.TLS:
        server = smtplib.SMTP_SSL(route.host, route.port, timeout=route.timeout_s, context=context)
    else:
        server = smtplib.SMTP(route.host, route.port, timeout=route.timeout_s)
    try:
        server.ehlo_or_helo_if_needed()
        if route.security is Security.STARTTLS:
            server.starttls(context=context)
            server.ehlo()
        if route.user is not None and route.password is not None:
            server.login(route.user, route.password)
    except BaseException:
        server.close()
        raise
    return server


def _hand_over(server: smtplib.SMTP, letter: Letter) -> Receipt:
    everybody = letter.recipients
    refused: dict[str, tuple[int, bytes | str]]
    try:
        refused = {**server.sendmail(letter.sender, everybody, letter.message)}
    except smtplib.SMTPRecipientsRefused as error:
        # Nobody has it. A server that hangs up (421) was not asked about everybody.
        refused = {address: error.recipients.get(address, (421, b"it hung up")) for address in everybody}
    except smtplib.SMTPDataError as error:
        refused = dict.fromkeys(everybody, (error.smtp_code, error.smtp_error))
    except (smtplib.SMTPException, OSError) as error:
        raise OutOfReachError(_said(error), at_once=_later(error)) from None
    answers = {address: (code, _text(code, words)) for address, (code, words) in refused.items()}
    return Receipt(
        refused={address: text for address, (code, text) in answers.items() if code not in _TEMPORARY},
        put_off={address: text for address, (code, text) in answers.items() if code in _TEMPORARY},
    )


def _later(error: Exception) -> bool:
    """Whether another try in a moment makes sense; a server that answered 5yz has made up its mind."""
    return not isinstance(error, smtplib.SMTPResponseException) or error.smtp_code in _TEMPORARY


def _said(error: Exception) -> str:
    if isinstance(error, smtplib.SMTPResponseException):
        return _text(error.smtp_code, error.smtp_error)
    if isinstance(error, TimeoutError) or isinstance(error.__context__, TimeoutError):  # smtplib wraps some
        return "it did not answer in time"
    if isinstance(error, OSError):
        return error.strerror or str(error) or type(error).__name__
    return str(error) or type(error).__name__


def _text(code: int, words: bytes | str) -> str:
    text = words.decode("utf-8", "backslashreplace") if isinstance(words, bytes) else words
    return f"{code} {' '.join(text.split())}"


# -- a program ----------------------------------------------------------------


def by_sendmail(route: SendmailRoute, letter: Letter) -> Receipt:
    """Hand a mail to a program.

    Raises:
        OutOfReachError: it could not be run, took too long, or says that it is to be tried later.
    """
    words = [str(route.program), "-i", "-f", letter.sender, "--", *letter.recipients]
    try:
        done = subprocess.run(  # noqa: S603 - the administrator's own program, and addresses that were checked
            words,
            input=letter.message.replace(b"\r\n", b"\n"),  # the local convention of sendmail(8)
            capture_output=True,
            check=False,
            timeout=route.timeout_s,
        )
    except subprocess.TimeoutExpired:
        raise OutOfReachError(f"it took longer than {route.timeout_s:g} s", at_once=False) from None
    except OSError as error:
        raise OutOfReachError(error.strerror or str(error), at_once=False) from None
    if done.returncode == 0:
        return Receipt()
    words_said = " ".join(done.stderr.decode("utf-8", "backslashreplace").split()) or "without a word"
    raise OutOfReachError(f"it ended with {done.returncode}: {words_said}", at_once=done.returncode == _EX_TEMPFAIL)
