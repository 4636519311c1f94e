"""The ledger: a book of findings for each thing that is watched, read and written in whole transactions.

Rules of this file: SQL lives here and in `tables`. What a document changes is decided by `merge`, on what was read in
the transaction that writes it, so that a run that is killed at any moment has done all of it or nothing.
"""

import datetime as dt
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from hashlib import sha256
from typing import Any, Final, TypeVar

import msgspec
import sqlalchemy as sa
from sqlalchemy import exc
from sqlalchemy.engine import Connection, Engine

from kill_audit.database import hidden
from kill_audit.document import CoverageProblem, Deploy, Document, Incident, Kill, Totals, Window, micros
from kill_audit.entry import Micros
from kill_audit.ledger.evidence import GONE, OUT_OF_REACH, Hole, holes, reach, seen
from kill_audit.ledger.failures import LedgerError
from kill_audit.ledger.kept import Kept, Key, Kind, decoded
from kill_audit.ledger.merge import changes
from kill_audit.ledger.place import engine_for, file_of, is_there, locate
from kill_audit.ledger.spans import Span, Spans, joined, length, less, within
from kill_audit.ledger.supplement import Held, supplemented
from kill_audit.ledger.tables import BOOK, FINDING, PROBLEM, SEEN, STEPS, migrate, refuse_later, version_of
from kill_audit.ledger.weeks import Week, covered_days, period_before, weeks_before
from kill_audit.report import totals

T = TypeVar("T")

UNWATCHED: Final = 3_600_000_000
"""Microseconds that may be missing from a period that is compared with another, and at most a part of it."""
_PART: Final = 50

_AHEAD: Final = 3_600_000_000
"""Microseconds by which what was read may lie after now; what does further, a run left whose clock was wrong."""

_TRIES: Final = 5
_DEADLOCK: Final = frozenset({"40001", "40P01", "1213"})
"""PostgreSQL's SQLSTATEs (manual, appendix A) and MySQL's error number for "try again"."""

_END: Final = 2**62  # after every moment
_AT_ONCE: Final = 500  # ids in one statement


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """What is watched: the sources in words that are the same at each run, and the patterns of `--unit`."""

    sources: str
    units: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """The same for the same sources and units, whatever their order."""
        return sha256("\n".join((self.sources, *sorted(set(self.units)))).encode()).hexdigest()

    def wants(self, units: Sequence[str]) -> bool:
        """Whether something about these units is in it; what names no unit always is."""
        if not self.units or not units:
            return True
        return any(fnmatchcase(unit, pattern) for unit in units for pattern in self.units)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """What a document changed: how many kills are new, are told otherwise than before, were withdrawn.

    `lost`: spans since the last position that the journal had already lost when it was read. `dropped`: kills that had
    been kept as long as they were to be.
    """

    new: int
    changed: int
    withdrawn: int
    dropped: int
    lost: Spans


def open_ledger(
    text: str | None, *, scope: Scope, environ: Mapping[str, str], writing: bool = False
) -> "Ledger | None":
    """Open the ledger that `--ledger` names, or the usual one.

    Args:
        text: a database URL, `@FILE` with a URL in its first line, or a path; None is the usual place.
        scope: what is watched.
        environ: the environment, with the place of state and the passwords.
        writing: make it if it is not there, and bring it to this version; else None is given for one that is missing.

    Raises:
        LedgerError: it cannot be opened, or is of a later version.
    """
    url = locate(text, environ)
    path = file_of(url)
    if path is not None and not writing and not is_there(path):
        return None
    ledger = Ledger(engine_for(url, writing=writing), shown=str(path) if path else hidden(url), scope=scope)
    if writing:
        ledger.upgrade()
        return ledger
    return ledger if ledger.exists() else None


class Ledger:
    """One book of a ledger.

    Args:
        engine: of `place.engine_for`.
        shown: where the ledger lies, for people.
        scope: what is watched. Who reads and finds no book for these units reads that of all units, if there is one.
    """

    def __init__(self, engine: Engine, *, shown: str, scope: Scope) -> None:
        self.shown = shown
        self._engine = engine
        self._scope = scope

    def upgrade(self) -> None:
        """Make the tables, or bring them to this version."""
        self._run(migrate)

    def exists(self) -> bool:
        """Whether there are tables; a ledger of an earlier version is none until something is collected into it."""
        version = self._run(version_of)
        refuse_later(version)
        return version == len(STEPS)

    # -- writing --------------------------------------------------------------

    def record(self, document: Document, *, moves: bool = True, keep: Micros | None = None) -> Recorded:
        """Keep a document's findings and coverage, and (if `moves`) until when has been read, in one transaction.

        With `keep` what is older than that many microseconds is dropped from the book in the same transaction.

        Raises:
            LedgerError: the ledger cannot be written; nothing of the document is kept then.
        """
        return self._run(lambda connection: _record(connection, self._scope, document, moves=moves, keep=keep))

    # -- reading --------------------------------------------------------------

    def position(self) -> Micros | None:
        """Until when has been read; None before the first run."""
        return self._run(lambda connection: _position(connection, self._scope))

    def kills(self, since: Micros, until: Micros) -> tuple[Kill, ...]:
        """Give the kills of a period, in their order."""
        found = (one.body for one in self._findings(since, until) if one.kind is Kind.KILL)
        return tuple(body for body in found if isinstance(body, Kill))

    def seen(self, since: Micros, until: Micros) -> Spans:
        """Give the spans of a period that evidence reached over when it was read."""
        return self._of_book(lambda connection, book: _seen(connection, book, since, until), ())

    def covered(self, since: Micros, until: Micros) -> Spans:
        """Give the spans of a period that were read, and with which nothing was wrong."""
        return less(self.seen(since, until), (span for span, _ in self._problems(since, until)))

    def totals(self, since: Micros, until: Micros) -> Totals:
        """Count what was found in a period."""
        found = self._findings(since, until)
        number = {kind: sum(one.kind is kind for one in found) for kind in Kind}
        return totals(
            [one.body for one in found if isinstance(one.body, Kill)],
            ghosts=number[Kind.GHOST],
            idle=number[Kind.IDLE_DEATH],
            blind=number[Kind.BLIND_DEATH],
            not_losses=number[Kind.NOT_LOSS],
        )

    def previous(self, window: Window, zone: dt.tzinfo = dt.UTC) -> Totals | None:
        """Count the period before a window, for `previous` of its document.

        The period is as long as the window; between the same times of day it is as many days of the zone's calendar.
        None if the ledger did not watch the whole of it (up to an hour, or a fiftieth): half a week is no week.
        """
        since, until = period_before(micros(window.since), micros(window.until), zone)
        if until - since - length(self.seen(since, until)) > min(UNWATCHED, (until - since) // _PART):
            return None
        return self.totals(since, until)

    def weeks(self, n: int, until: Micros, zone: dt.tzinfo = dt.UTC) -> tuple[Week, ...]:
        """Give the last `n` whole ISO weeks of the zone that ended at or before `until`, oldest first."""
        return tuple(self._week(since, end, zone) for since, end in weeks_before(until, zone, n))

    def _week(self, since: Micros, until: Micros, zone: dt.tzinfo) -> Week:
        covered, days = covered_days(self.covered(since, until), since, until, zone)
        counted = self.totals(since, until) if self.seen(since, until) else None
        return Week(
            since=since,
            until=until,
            kills=None if counted is None else counted.kills,
            missing=None if counted is None else counted.missing,
            stuck=None if counted is None else counted.stuck,
            covered=covered,
            days=days,
        )

    def supplement(self, document: Document) -> Document:
        """Add to a report what the journal no longer has, and say so in its coverage; see `supplement`."""
        since, until = reach(document)
        held = Held(
            shown=f"ledger {self.shown}",
            seen=self.seen(since, until),
            problems=tuple(problem for _, problem in self._problems(since, until)),
            findings=self._findings(since, until),
        )
        return supplemented(document, held)

    def _findings(self, since: Micros, until: Micros) -> tuple[Kept, ...]:
        def read(connection: Connection, book: int) -> tuple[Kept, ...]:
            where = (FINDING.c.at >= since) & (FINDING.c.at < until)
            return tuple(one for one in _select(connection, book, where) if self._scope.wants(one.units))

        return self._of_book(read, ())

    def _problems(self, since: Micros, until: Micros) -> tuple[tuple[Span, CoverageProblem], ...]:
        return self._of_book(lambda connection, book: tuple(_problems(connection, book, since, until)), ())

    def _of_book(self, read: Callable[[Connection, int], T], otherwise: T) -> T:
        def work(connection: Connection) -> T:
            book = _book(connection, self._scope) or _book(connection, Scope(sources=self._scope.sources))
            return otherwise if book is None else read(connection, book)

        return self._run(work)

    def _run(self, work: Callable[[Connection], T]) -> T:
        for left in reversed(range(_TRIES)):
            try:
                with self._connect() as connection, connection.begin():
                    return work(connection)
            except (exc.SQLAlchemyError, msgspec.MsgspecError, OSError, UnicodeError) as error:
                if left and _was_in_the_way(error):
                    continue
                failure = self._failure(error)
                break
        raise failure  # outside the except block: a driver's frames hold the password

    def _connect(self) -> Connection:
        try:
            return self._engine.connect()
        except (exc.SQLAlchemyError, OSError, TypeError, ValueError) as error:  # also options that a driver refuses
            failure = self._failure(error)
        raise failure

    def _failure(self, error: Exception) -> LedgerError:
        cause: BaseException = getattr(error, "orig", None) or error
        words = (str(cause).strip() or type(cause).__name__).partition("\n")[0]
        password = self._engine.url.password
        if password:
            words = words.replace(str(password), "***")
        hint = "name another place with --ledger, or go without by --no-ledger"
        if "locked" in words:
            hint = "another kill-audit is writing to it: try again when that is done"
        return LedgerError(f"the ledger {self.shown}: {words}", hint=hint)


def _was_in_the_way(error: Exception) -> bool:
    """Whether two wrote at the same time: the one that was refused finds other rows when it tries again."""
    cause = getattr(error, "orig", None)
    code = getattr(cause, "sqlstate", None) or next(iter(getattr(cause, "args", ())), "")
    return isinstance(error, exc.IntegrityError) or str(code) in _DEADLOCK


# -- one transaction ----------------------------------------------------------


def _record(connection: Connection, scope: Scope, document: Document, *, moves: bool, keep: Micros | None) -> Recorded:
    book, position = _locked_book(connection, scope)
    since, until = reach(document)
    before, now_seen = _seen(connection, book, 0, micros(document.generated_at) + _AHEAD), seen(document)
    if position is not None and position > micros(document.generated_at) + _AHEAD:
        position = None
    known = _known(connection, book, document)
    found = changes(known, document)
    _put(connection, book, new=found.new, again=found.again, withdrawn=found.withdrawn)
    _replace_problems(connection, book, document, now_seen)
    oldest = _oldest_kept(document, before, keep)
    dropped = _drop(connection, book, oldest)
    all_seen = joined((*before, *now_seen))
    connection.execute(sa.delete(SEEN).where(SEEN.c.book == book))
    if left := within(all_seen, oldest, _END):
        connection.execute(sa.insert(SEEN), [{"book": book, "since": s, "until": u} for s, u in left])
    lost: Spans = ()
    if moves and document.coverage.entries and (position is None or since <= position):
        if position is not None:
            lost = less((cut for span in _gone(document) for cut in within((span,), position, until)), all_seen)
        connection.execute(sa.update(BOOK).where(BOOK.c.id == book).values(position=max(position or 0, until)))
    return Recorded(
        new=sum(one.kind is Kind.KILL for one in found.new),
        changed=sum(one.kind is Kind.KILL and one.body != known[one.key].body for one in found.again),
        withdrawn=sum(kind is Kind.KILL for kind, _ in found.withdrawn),
        dropped=dropped,
        lost=lost,
    )


def _oldest_kept(document: Document, before: Spans, keep: Micros | None) -> Micros:
    """From when on findings stay, so many microseconds before the end of what earlier runs had read.

    Not before now: a clock that is wrong for one run, as at a boot before it is set, must not empty the book.
    """
    if keep is None or not before:
        return 0
    return max(0, min(before[-1][1], micros(document.generated_at)) - keep)


def _drop(connection: Connection, book: int, oldest: Micros) -> int:
    """Drop what is older than a moment, and give the number of kills; a ghost is as old as its last sighting."""
    old = (FINDING.c.book == book) & (FINDING.c.at < oldest)
    old &= (FINDING.c.kind != Kind.GHOST) | (FINDING.c.judged_at < oldest)
    kills = sa.select(sa.func.count()).select_from(FINDING).where(old & (FINDING.c.kind == Kind.KILL))
    number = connection.execute(kills).scalar_one()
    connection.execute(sa.delete(FINDING).where(old))
    connection.execute(sa.delete(PROBLEM).where((PROBLEM.c.book == book) & (PROBLEM.c.until <= oldest)))
    return number


def _gone(document: Document) -> Iterable[Span]:
    return (hole.span for hole in holes(document) if hole.problem.code == GONE)


def _book(connection: Connection, scope: Scope) -> int | None:
    return connection.execute(sa.select(BOOK.c.id).where(BOOK.c.scope == scope.key)).scalar_one_or_none()


def _position(connection: Connection, scope: Scope) -> Micros | None:
    return connection.execute(sa.select(BOOK.c.position).where(BOOK.c.scope == scope.key)).scalar_one_or_none()


def _locked_book(connection: Connection, scope: Scope) -> tuple[int, Micros | None]:
    """Find or make the book and hold its row, so that two who write one book do so one after the other."""
    chosen = sa.select(BOOK.c.id, BOOK.c.position).where(BOOK.c.scope == scope.key).with_for_update()
    row = connection.execute(chosen).one_or_none()
    if row is None:
        named = {"scope": scope.key, "sources": scope.sources, "units": " ".join(sorted(set(scope.units)))}
        connection.execute(sa.insert(BOOK).values(**named, position=None))
        row = connection.execute(chosen).one()
    return row.id, row.position


def _known(connection: Connection, book: int, document: Document) -> dict[Key, Kept]:
    """Read what is kept of the window, and besides whatever the document names that began before it."""
    since, until = reach(document)
    known = {one.key: one for one in _select(connection, book, (FINDING.c.at >= since) & (FINDING.c.at < until))}
    named = (*document.kills, *document.deploys, *document.incidents)
    ids = sorted({one.id for one in named if isinstance(one, Kill | Deploy | Incident)})
    for place in range(0, len(ids), _AT_ONCE):
        some = FINDING.c.id.in_(ids[place : place + _AT_ONCE])
        known |= {one.key: one for one in _select(connection, book, some)}
    ghosts = _select(connection, book, FINDING.c.kind == Kind.GHOST) if document.ghosts else ()
    return known | {one.key: one for one in ghosts}


def _select(connection: Connection, book: int, where: sa.ColumnElement[bool]) -> Iterable[Kept]:
    columns = (FINDING.c.kind, FINDING.c.id, FINDING.c.at, FINDING.c.judged_at, FINDING.c.reach, FINDING.c.body)
    chosen = sa.select(*columns).where(FINDING.c.book == book).where(where)
    for row in connection.execute(chosen.order_by(FINDING.c.at, FINDING.c.kind, FINDING.c.id)):
        kind = Kind(row.kind)
        body = decoded(kind, row.body)
        yield Kept(kind=kind, id=row.id, at=row.at, judged_at=row.judged_at, reach=row.reach, body=body)


def _put(
    connection: Connection, book: int, *, new: Sequence[Kept], again: Sequence[Kept], withdrawn: Sequence[Key]
) -> None:
    if new:
        connection.execute(sa.insert(FINDING), [{"book": book, **_row(one)} for one in new])
    for one in again:
        connection.execute(sa.update(FINDING).where(_is(book, one.key)).values(**_row(one)))
    for key in withdrawn:
        connection.execute(sa.delete(FINDING).where(_is(book, key)))


def _is(book: int, key: Key) -> sa.ColumnElement[bool]:
    kind, name = key
    return (FINDING.c.book == book) & (FINDING.c.kind == kind.value) & (FINDING.c.id == name)


def _row(one: Kept) -> dict[str, Any]:
    body = one.body
    kill = body if isinstance(body, Kill) else None
    row = {
        "host": one.host,
        "unit": " ".join(one.units) or None,
        "task_name": kill and kill.task.name,
        "task_id": kill and kill.task.id,
        "cause": getattr(body, "cause", None),
        "fate": kill and kill.fate,
        "verdict": kill and kill.verdict,
    }
    # PostgreSQL has no NUL in text; the body spells it as JSON does.
    plain = {name: value and value.replace("\0", r"\x00") for name, value in row.items()}
    return plain | {
        "kind": one.kind.value,
        "id": one.id,
        "at": one.at,
        "judged_at": one.judged_at,
        "reach": one.reach,
        "body": msgspec.json.encode(body).decode(),
    }


def _seen(connection: Connection, book: int, since: Micros, until: Micros) -> Spans:
    rows = connection.execute(
        sa.select(SEEN.c.since, SEEN.c.until)
        .where(SEEN.c.book == book)
        .where((SEEN.c.until > since) & (SEEN.c.since < until))
    )
    return within(((row.since, row.until) for row in rows), since, until)


def _problems(
    connection: Connection, book: int, since: Micros, until: Micros
) -> Iterable[tuple[Span, CoverageProblem]]:
    rows = connection.execute(
        sa.select(PROBLEM.c.since, PROBLEM.c.until, PROBLEM.c.body)
        .where(PROBLEM.c.book == book)
        .where((PROBLEM.c.until > since) & (PROBLEM.c.since < until))
        .order_by(PROBLEM.c.since, PROBLEM.c.id)
    )
    for row in rows:
        yield (row.since, row.until), msgspec.json.decode(row.body, type=CoverageProblem)


def _replace_problems(connection: Connection, book: int, document: Document, now_seen: Spans) -> None:
    """Where a document's evidence reaches it tells what is wrong with it; of the rest what was told before stays."""
    since, until = reach(document)
    before = tuple(_problems(connection, book, since, until))
    rows = {
        _problem_id(span, problem): (span, problem) for whole, problem in before for span in less((whole,), now_seen)
    }
    for hole in holes(document) if now_seen else ():
        if hole.problem.code not in OUT_OF_REACH:
            rows[_problem_id(hole.span, _placed(hole))] = (hole.span, _placed(hole))
    overlapping = (PROBLEM.c.until > since) & (PROBLEM.c.since < until)
    connection.execute(sa.delete(PROBLEM).where(PROBLEM.c.book == book).where(overlapping))
    if rows:
        connection.execute(
            sa.insert(PROBLEM),
            [
                {
                    "book": book,
                    "id": key,
                    "since": span[0],
                    "until": span[1],
                    "body": msgspec.json.encode(problem).decode(),
                }
                for key, (span, problem) in rows.items()
            ],
        )


def _placed(hole: Hole) -> CoverageProblem:
    """The problem with its place in its words, because in the ledger it stands without its source."""
    where = " on ".join(word for word in (hole.source.unit, hole.source.host) if word)
    detail = f"{where}: {hole.problem.detail}" if where else hole.problem.detail
    return msgspec.structs.replace(hole.problem, detail=detail)


def _problem_id(span: Span, problem: CoverageProblem) -> str:
    return sha256(repr((span, problem)).encode()).hexdigest()
