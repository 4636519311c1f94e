"""How the fields of journal entries become the columns of a `Batch`, the same for every door.

Rules of this file: it knows journald's fields (systemd.journal-fields(7)), and no format that they arrive in.
A door hands over each entry as a mapping from field names to text, with the first value of a field that repeats.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from kill_audit.entry import BATCH_ENTRIES, DETAIL_FIELDS, Batch, Micros, Origin, Problem, Question

ORIGIN_FIELDS: Final = (
    "_HOSTNAME", "_MACHINE_ID", "_BOOT_ID", "_SYSTEMD_UNIT", "_SYSTEMD_USER_UNIT", "_SYSTEMD_INVOCATION_ID",
    "_TRANSPORT", "SYSLOG_IDENTIFIER", "SYSLOG_FACILITY", "_EXE", "_COMM", "_UID", "_STREAM_ID", "_SYSTEMD_CGROUP",
    "_NAMESPACE", "CONTAINER_NAME", "CONTAINER_ID_FULL", "CONTAINER_ID",
)  # fmt: skip
"""The fields that `origin_of` takes, in its order."""

WANTED_FIELDS: Final = frozenset({"MESSAGE", "_PID", *ORIGIN_FIELDS, *DETAIL_FIELDS})
"""Every field that a door has to hand over, beside the entry's cursor and its two clocks."""

_BULKY_FIELDS: Final = frozenset({"_CMDLINE", "PRIORITY", "CODE_FUNC"})
TELLING_FIELDS: Final = DETAIL_FIELDS - _BULKY_FIELDS
"""An entry that has none of these has no details."""

NO_FIELDS: Final[Mapping[str, str]] = MappingProxyType({})

OriginKey = tuple[str | None, ...]

_WORTH_BULKY_FIELDS: Final = frozenset({"MESSAGE_ID", "UNIT", "USER_UNIT", "_LINE_BREAK"})
# A batch is handed on early when its texts are large, so that memory is bounded by bytes as well as by entries.
_BATCH_CHARACTERS: Final = 32 << 20
_MOST_PROBLEMS: Final = 10
# Who writes a container's lines to the journal: Docker's daemon (also as Red Hat and Ubuntu's snap build it), and
# conmon, which podman and CRI-O start for each container. Anybody may set CONTAINER_NAME=, or call a process dockerd.
_RUNTIME_PROGRAMS: Final = frozenset({"dockerd", "dockerd-current", "conmon", "podman"})
_RUNTIME_UNITS: Final = ("docker.service", "snap.docker.", "libpod-conmon-", "crio-conmon-")


def decode(raw: bytes) -> str:
    """Text of a field's bytes; what is no UTF-8 becomes backslash escapes, so that nothing is lost or refused."""
    return raw.decode("utf-8", "backslashreplace")


def origin_of(key: OriginKey) -> Origin:
    """Make the `Origin` of an entry whose `ORIGIN_FIELDS` have these values (None: the entry lacks the field)."""
    (host, machine_id, boot_id, unit, user_unit, invocation_id, transport, identifier, facility, exe, comm, uid,
     stream_id, cgroup, namespace, container, long_id, short_id) = key  # fmt: skip
    if not _of_container_runtime(unit, exe, comm, uid):
        container = long_id = short_id = None
    if user_unit == "init.scope":  # a user's manager itself, which is no unit's own
        user_unit = None
    return Origin(
        host=host or "",
        machine_id=machine_id,
        boot_id=boot_id,
        unit=container or user_unit or unit,
        invocation_id=invocation_id,
        transport=transport or "",
        identifier=identifier,
        facility=number(facility),
        exe=exe,
        comm=comm,
        uid=number(uid),
        stream_id=stream_id,
        cgroup=cgroup,
        namespace=namespace,
        container=long_id or short_id or container,
    )


def _of_container_runtime(unit: str | None, exe: str | None, comm: str | None, uid: str | None) -> bool:
    if (unit or "").startswith(_RUNTIME_UNITS):
        return True
    if exe is None:  # journald was too late to see it; a process may call itself anything, so only root's word counts
        return comm in _RUNTIME_PROGRAMS and uid == "0"
    return exe.startswith("/") and exe.rpartition("/")[2] in _RUNTIME_PROGRAMS


def number(text: str | None) -> int | None:
    """Read a field that holds a number in decimal digits; None when it is missing or holds anything else."""
    return int(text) if text is not None and text.isascii() and text.isdigit() else None


def details_of(fields: Mapping[str, str]) -> Mapping[str, str]:
    """Choose the fields of an entry that its batch keeps (see `DETAIL_FIELDS`).

    The command line, the priority and the function's name are left out where no grammar asks for them: nearly every
    line of a worker would carry them.
    """
    if fields.keys().isdisjoint(TELLING_FIELDS):
        return NO_FIELDS
    kept = fields.keys() & DETAIL_FIELDS
    if kept.isdisjoint(_WORTH_BULKY_FIELDS):
        kept -= _BULKY_FIELDS
    return {name: fields[name] for name in sorted(kept)}


class Columns:
    """The batch that a door is filling: rows go in, and a `Batch` comes out when it is full."""

    def __init__(self, question: Question) -> None:
        self._since = question.read_since
        self._until = question.read_until
        self._reset()

    def _reset(self) -> None:
        self._realtime: list[Micros] = []
        self._monotonic: list[Micros] = []
        self._pid: list[int] = []
        self._origin: list[int] = []
        self._message: list[str | None] = []
        self._cursor: list[str] = []
        self._fields: list[Mapping[str, str]] = []
        self._origins: list[Origin] = []
        self._places: dict[OriginKey | Origin, int] = {}
        self._characters = 0

    def __len__(self) -> int:
        """The rows that wait to be taken."""
        return len(self._realtime)

    @property
    def full(self) -> bool:
        """Whether the batch has to be taken before another row is added."""
        return len(self._realtime) >= BATCH_ENTRIES or self._characters >= _BATCH_CHARACTERS

    def asked_for(self, realtime: Micros) -> bool:
        """Whether an entry of this time is within the span that the question reads."""
        return self._since <= realtime < self._until

    def place(self, key: OriginKey) -> int:
        """Give the index, in this batch, of the origin with these values of `ORIGIN_FIELDS`."""
        place = self._places.get(key)
        return self._new_place(key, origin_of(key)) if place is None else place

    def place_of(self, origin: Origin) -> int:
        """Give the index of an origin in this batch."""
        place = self._places.get(origin)
        return self._new_place(origin, origin) if place is None else place

    def _new_place(self, key: OriginKey | Origin, origin: Origin) -> int:
        place = self._places[key] = len(self._origins)
        self._origins.append(origin)
        return place

    def writer(self, origin: int, pid: int) -> int:
        """Give the pid to keep: 0 for a container's line, whose `_PID` is that of the container's runtime."""
        return 0 if self._origins[origin].container is not None else pid

    def add(
        self,
        realtime: Micros,
        monotonic: Micros,
        pid: int,
        origin: int,
        message: str | None,
        cursor: str,
        fields: Mapping[str, str],
    ) -> None:
        """Append one row."""
        self._realtime.append(realtime)
        self._monotonic.append(monotonic)
        self._pid.append(pid)
        self._origin.append(origin)
        self._message.append(message)
        self._cursor.append(cursor)
        self._fields.append(fields)
        if message is not None:
            self._characters += len(message)

    def add_entry(
        self, realtime: Micros, monotonic: Micros, cursor: str, fields: Mapping[str, str]
    ) -> tuple[int, int, Mapping[str, str]]:
        """Append one entry, given as its wanted fields; give its pid, its place among the origins, and its details."""
        origin = self.place(tuple(map(fields.get, ORIGIN_FIELDS)))
        pid = self.writer(origin, number(fields.get("_PID")) or 0)
        details = details_of(fields)
        self.add(realtime, monotonic, pid, origin, fields.get("MESSAGE"), cursor, details)
        return pid, origin, details

    def take(self) -> Batch:
        """Hand over the rows as a batch, and begin the next."""
        batch = Batch(
            realtime=tuple(self._realtime),
            monotonic=tuple(self._monotonic),
            pid=tuple(self._pid),
            origin=tuple(self._origin),
            origins=tuple(self._origins),
            message=tuple(self._message),
            cursor=tuple(self._cursor),
            fields=tuple(self._fields),
        )
        self._reset()
        return batch


class Damage:
    """Counts the damaged places of a source; the first few are told one by one, the rest as a number."""

    def __init__(self, code: str = "damaged") -> None:
        self._code = code
        self._places = 0

    def met(self, detail: str, *, since: Micros | None = None) -> tuple[Problem, ...]:
        """Give the problem to report for one more damaged place (none, once enough were reported).

        `since`: the time of the last entry before it, if there is one.
        """
        self._places += 1
        if self._places > _MOST_PROBLEMS:
            return ()
        return (Problem(code=self._code, detail=detail, since=since),)

    def rest(self) -> tuple[Problem, ...]:
        """Give the problem that counts the places not reported one by one, if there were any."""
        unsaid = self._places - _MOST_PROBLEMS
        if unsaid <= 0:
            return ()
        return (Problem(code=self._code, detail=f"and {unsaid:,} more places like these"),)
