"""Task ids as the journal writes them, and as columns of other types hold them.

Rules of this file: an id is text. A UUID may be kept as a UUID, as 32 hexadecimal digits (Django's UUIDField on MySQL
and SQLite) or as 16 bytes; an app that numbers its runs may keep an integer.
"""

import uuid
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.types import TypeEngine

from kill_audit.runlog.cells import text

DIGITS: Final = 18  # of an integer that every database holds


class IdColumn:
    """Translates ids to and from what a column of this type holds."""

    def __init__(self, kind: TypeEngine[Any]) -> None:
        self._kind = kind
        length = getattr(kind, "length", None)
        self._hex = isinstance(kind, sa.String) and length == 32
        self._bytes = isinstance(kind, (sa.BINARY, sa.LargeBinary)) and length == 16

    def forms(self, task_id: str) -> tuple[object, ...]:
        """Give the values under which the column may hold an id; none if it cannot hold it."""
        if isinstance(self._kind, sa.Integer):
            is_number = task_id.isascii() and task_id.isdecimal() and len(task_id) <= DIGITS
            return (int(task_id),) if is_number else ()
        if isinstance(self._kind, sa.Uuid) or self._bytes:
            form = _uuid(task_id)
            return () if form is None else (form.bytes if self._bytes else form,)
        if "\0" in task_id or not _is_unicode(task_id):  # no server takes these in text
            return ()
        form = _uuid(task_id) if self._hex else None
        return (task_id,) if form is None else (task_id, form.hex)

    def text(self, cell: object) -> str | None:
        """Read what the column holds as an id."""
        if self._bytes and isinstance(cell, bytes) and len(cell) == 16:
            return str(uuid.UUID(bytes=cell))
        found = text(cell)
        form = _uuid(found) if self._hex and found is not None and len(found) == 32 else None
        return found if form is None else str(form)


def kind_of(value: object) -> TypeEngine[Any]:
    """Give the type of a column of which only a value is known."""
    match value:
        case bool():
            return sa.Boolean()
        case int():
            return sa.BigInteger()
        case uuid.UUID():
            return sa.Uuid()
        case _:
            return sa.types.NullType()


def _uuid(words: str) -> uuid.UUID | None:
    try:
        return uuid.UUID(words)
    except ValueError:
        return None


def _is_unicode(words: str) -> bool:
    try:
        words.encode()
    except UnicodeEncodeError:
        return False
    return True
