"""Mails that wait for a server, and what was sent: one folder, one lock.

Rules of this file: a mail is on the disk before it is given to anybody, and leaves it only after it was taken and that
was noted. Whoever is killed in between leaves a mail that waits, or one that is known to have been sent. Files are
written whole beside their place and renamed into it, for their owner alone.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec

from kill_audit.mail.failures import MailError

_REMEMBERED: Final = 200
_SUFFIX: Final = ".mail"


class Letter(msgspec.Struct, frozen=True, kw_only=True):
    """A mail on its way: its name, the addresses of its envelope that are still to be served, and its bytes.

    `written`: when it was put into the outbox (microseconds since the epoch). `fingerprint`: of the report in it (see
    `when_due`), empty for others. `message` ends its lines with CRLF.
    """

    key: str
    message_id: str
    subject: str
    sender: str
    recipients: tuple[str, ...]
    written: int
    message: bytes
    fingerprint: str = ""


class Sent(msgspec.Struct, frozen=True, kw_only=True):
    """A mail that was taken: when (microseconds since the epoch), and by whom it can be found."""

    key: str
    message_id: str
    at: int
    fingerprint: str = ""


class Outbox:
    """The folder of mails on their way.

    Args:
        folder: made if it is not there, for its owner alone.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the outbox against every other process; waits for one that holds it.

        Raises:
            MailError: the folder cannot be written.
        """
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            lock = os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise self._failure(error) from None
        try:
            self._keep_owner(self.folder / "lock")
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)

    # -- what waits -----------------------------------------------------------

    def waiting(self) -> tuple[Letter, ...]:
        """Give the mails that wait, oldest first. One that cannot be read is left where it is."""
        found = []
        for path in self.folder.glob(f"*{_SUFFIX}"):
            try:
                found.append(msgspec.json.decode(path.read_bytes(), type=Letter))
            except (OSError, msgspec.MsgspecError):
                continue
        return tuple(sorted(found, key=lambda letter: (letter.written, letter.key)))

    def put(self, letter: Letter) -> None:
        """Put a mail in; one of the same name is replaced, and keeps its turn and whoever has it already."""
        for known in self.waiting():
            if known.key == letter.key:
                left = tuple(address for address in letter.recipients if address in known.recipients)
                letter = msgspec.structs.replace(letter, written=known.written, recipients=left)
        self._write(self._path(letter.key), msgspec.json.encode(letter))

    def drop(self, letter: Letter) -> None:
        """Take a mail out that was sent."""
        self._path(letter.key).unlink(missing_ok=True)

    def refuse(self, letter: Letter) -> Path:
        """Set a mail aside that no server will take as it is; gives the place of its bytes, which can be looked at."""
        path = self.folder / "refused" / f"{letter.key}.eml"
        path.parent.mkdir(mode=0o700, exist_ok=True)
        self._write(path, letter.message)
        self.drop(letter)
        return path

    # -- what was sent --------------------------------------------------------

    def sent(self) -> tuple[Sent, ...]:
        """Give the last mails that were sent, oldest first."""
        try:
            return msgspec.json.decode((self.folder / "sent.json").read_bytes(), type=tuple[Sent, ...])
        except (OSError, msgspec.MsgspecError):
            return ()

    def note(self, sent: Sent) -> None:
        """Remember that a mail was sent."""
        others = [one for one in self.sent() if one.key != sent.key]
        self._write(self.folder / "sent.json", msgspec.json.encode([*others, sent][-_REMEMBERED:]))

    # -- files ----------------------------------------------------------------

    def _path(self, key: str) -> Path:
        return self.folder / f"{key}{_SUFFIX}"

    def _write(self, path: Path, data: bytes) -> None:
        part = path.with_name(f".{path.name}.part")
        try:
            with open(part, "wb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            self._keep_owner(part)
            part.replace(path)
            folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fsync(folder)  # so that the name is on the disk too (fsync(2))
            finally:
                os.close(folder)
        except OSError as error:
            raise self._failure(error) from None

    def _keep_owner(self, path: Path) -> None:
        """Leave a file to the owner of the outbox when root writes there: a service must be able to read it later."""
        if os.geteuid() == 0:
            owner = self.folder.stat()
            os.chown(path, owner.st_uid, owner.st_gid)

    def _failure(self, error: OSError) -> MailError:
        return MailError(
            f"cannot write the outbox {self.folder}: {error.strerror}",
            hint="name a place that you may write to: STATE_DIRECTORY=FOLDER kill-audit mail …",
        )
