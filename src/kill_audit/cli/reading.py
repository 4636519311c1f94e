"""From options to a document: opens what they name, runs the scans, and tells how far it is."""

import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from kill_audit import when
from kill_audit.cli.options import DEFAULT_SPAN, Reading
from kill_audit.errors import UsageError

if TYPE_CHECKING:
    import datetime as dt

    from kill_audit.audit import Each, Scan
    from kill_audit.config import Settings
    from kill_audit.deploys import Marked
    from kill_audit.document import Document
    from kill_audit.entry import MarkRule, Question, Source
    from kill_audit.reconcile import Results, RunLog
    from kill_audit.report import Findings
    from kill_audit.timeline import Partial

_I = TypeVar("_I", bound=tuple[Any, ...])
_R = TypeVar("_R")


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What a command works on: the sources, the question put to them, and the moment it was put (µs)."""

    sources: "tuple[Source, ...]"
    question: "Question"
    now: int


def document_of(asked: Reading, *, stdin: bool = False, settings: "Settings | None" = None) -> "Document":
    """Read what the options name and audit it."""
    from kill_audit.report import report

    document = report(findings_of(asked, evidence_of(asked, stdin=stdin), settings=settings))
    return document if stdin or asked.files or asked.directories else _informed(document, asked)


def _informed(document: "Document", asked: Reading) -> "Document":
    """Fill in what is set on the host whose journal was read, and leave out advice that it follows already."""
    units = sorted({one.unit for one in document.advice.units})
    if not units or asked.merge:  # merged journals may be other hosts'
        return document
    import msgspec

    from kill_audit.units import informed, settings_of

    known = settings_of(units, root=asked.root, user=asked.user)
    return msgspec.structs.replace(document, advice=informed(document.advice, known.settings))


def findings_of(asked: Reading, evidence: Evidence, *, settings: "Settings | None" = None) -> "Findings":
    """Examine the evidence, as the options and the configuration (`settings`) say."""
    from kill_audit.audit import examine, partials_of

    known: dict[str, Any] = {}
    question = evidence.question
    if settings is not None:
        question = replace(question, marks=tuple(_rules(settings)))
        known = {
            "settings": settings.tasks,
            "tolerance": settings.tolerance,
            "deploy_gap": settings.deploy_gap,
            "marks": _marks(settings, evidence.now, asked.zone),
        }
    tables = _Tables(asked, settings)
    scans = Scans(quiet=asked.quiet, meanwhile=tables.open)
    partials = partials_of(evidence.sources, question, scans if asked.no_cache else _remembering(scans))
    tables.open()
    return examine(
        partials,
        tables.run_log,
        question,
        now=evidence.now,
        results=tables.results,
        settle=settle_of(asked, settings),
        **{name: value for name, value in known.items() if value is not None},
    )


def settle_of(asked: Reading, settings: "Settings | None" = None) -> int:
    """How old a death must be before a missing row is called missing: by option, configuration, default (µs)."""
    from kill_audit.reconcile import SETTLE

    if asked.settle is not None:
        return when.span(asked.settle)
    return SETTLE if settings is None or settings.settle is None else settings.settle


def _rules(settings: "Settings") -> "Iterator[MarkRule]":
    """What marks a deploy in the journal, of the configuration.

    Raises:
        UsageError: a mark asks for a field that is not read.
    """
    from kill_audit.entry import MarkRule
    from kill_audit.grammar.marks import MATCHABLE

    for mark in settings.deploy_marks:
        fields = tuple((name, value) for name, _, value in (one.partition("=") for one in mark.matches))
        unknown = next((name for name, _ in fields if name not in MATCHABLE), None)
        if unknown is not None:
            raise UsageError(
                f"[[deploy-marks]]: {unknown} is none of the journal fields that are read",
                hint="match SYSLOG_IDENTIFIER, _SYSTEMD_UNIT, _COMM, _EXE, _UID or MESSAGE_ID",
            )
        if fields or mark.unit:
            yield MarkRule(fields=fields, unit=unit_name(mark.unit) if mark.unit else None, label=mark.label)


def _marks(settings: "Settings", now: int, zone: "dt.tzinfo") -> "tuple[Marked, ...]":
    from kill_audit.cli.marks import marks_of_file

    files = [(mark.file, mark.label) for mark in settings.deploy_marks if mark.file is not None]
    return tuple(
        replace(one, label=label or one.label)
        for file, label in files
        for one in marks_of_file(file, now=now, zone=zone)
    )


def evidence_of(asked: Reading, *, stdin: bool = False) -> Evidence:
    """Open the sources and resolve the window.

    Raises:
        UsageError: words that cannot be understood, or that exclude each other.
        SourceError: something named is missing or may not be read.
    """
    from kill_audit.entry import Question

    now = time.time_ns() // 1000
    window = when.window(asked.since, asked.until, now=now, zone=asked.zone, default_span=DEFAULT_SPAN)
    lead = when.span(asked.lead_in)
    question = Question(
        since=window.since,
        until=window.until,
        read_since=window.since - lead,
        read_until=window.until + lead,
        units=tuple(unit_name(unit) for unit in asked.units),
        assume_timezone=asked.assume_timezone,
        assume_year=asked.assume_year,
    )
    evidence = Evidence(sources=_sources(asked, stdin=stdin), question=question, now=now)
    if asked.verbose:
        from kill_audit.cli.verbose import tell

        tell(asked, evidence)
    return evidence


def unit_name(word: str) -> str:
    """Complete a unit's name as systemctl does: `celery` is `celery.service`."""
    return word if "." in word or any(mark in word for mark in "*?[") else f"{word}.service"


def _sources(asked: Reading, *, stdin: bool) -> "tuple[Source, ...]":
    from kill_audit import journal

    named = bool(asked.files or asked.directories or stdin)
    host = [name for name in ("root", "namespace") if getattr(asked, name) is not None]
    host += [name for name in ("merge", "user") if getattr(asked, name)]
    if named and host:
        raise UsageError(
            f"--{host[0]} names this host's journal, and --file, -D and `-` name others",
            hint="name one or the other",
        )
    if named:
        found = journal.open_sources(
            files=asked.files, directories=asked.directories, stdin=sys.stdin.buffer if stdin else None
        )
    else:
        found = journal.open_host(user=asked.user, namespace=asked.namespace, merge=asked.merge, root=asked.root)
    found = journal.read_by(found, journal.Reader(asked.reader))
    if asked.boot is None:
        return found
    return journal.in_boot(found, asked.boot, where=_where(asked))


def _where(asked: Reading) -> list[str]:
    """The words that name the same journals to journalctl."""
    words = [word for folder in asked.directories for word in ("--directory", folder)]
    words += ["--root", asked.root] if asked.root else []
    return words + (["--merge"] if asked.merge else [])


def run_log_of(asked: Reading, settings: "Settings | None" = None) -> "RunLog | None":
    """Open the app's run log, if one is named."""
    if asked.run_log is None:
        return None
    from kill_audit.runlog import open_run_log  # SQLAlchemy is heavy

    if settings is None:
        return open_run_log(asked.run_log, table=asked.run_log_table, preset=asked.run_log_preset)
    known = settings.for_run_log(asked.run_log, table=asked.run_log_table, preset=asked.run_log_preset)
    return open_run_log(asked.run_log, **known)


def _results_of(asked: Reading, settings: "Settings | None", run_log: "RunLog | None") -> "Results | None":
    """Open Celery's own result table, if one is named, or if the run log is one."""
    if asked.results is None and run_log is None:
        return None
    from kill_audit.runlog import open_results, results_in  # SQLAlchemy is heavy

    if asked.results is None:
        return results_in(run_log)
    if settings is None:
        return open_results(asked.results, table=asked.results_table)
    return open_results(asked.results, **settings.for_results(asked.results, table=asked.results_table))


def _remembering(scans: "Scans") -> "Each":
    """Let what never changes be read once."""
    from kill_audit.cache import Remembering
    from kill_audit.places import cache_directory

    folder = cache_directory(os.environ)
    return scans if folder is None else Remembering(each=scans, folder=folder)


class _Tables:
    """The app's run log and Celery's result table, opened while the journals are read: what opens them is heavy."""

    def __init__(self, asked: Reading, settings: "Settings | None") -> None:
        self._asked = asked
        self._settings = settings
        self._is_open = False
        self.run_log: RunLog | None = None
        self.results: Results | None = None

    def open(self) -> None:
        """Open them, if they are not open.

        Raises:
            KillAuditError: one cannot be opened.
        """
        if self._is_open:
            return
        self._is_open = True
        self.run_log = run_log_of(self._asked, self._settings)
        self.results = _results_of(self._asked, self._settings, self.run_log)


# -- running the scans --------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Scans:
    """Runs scans side by side (`audit.Each`); a scan whose process died is a source that could not be read."""

    quiet: bool = False
    meanwhile: Callable[[], None] | None = None

    def __call__(self, function: "Callable[[Scan], Partial]", items: "Sequence[Scan]") -> "Sequence[Partial]":
        """Give the results in the order of the items."""
        return self.run(function, items, _lost)

    def run(self, function: Callable[[_I], _R], items: Sequence[_I], lost: Callable[[str, str], _R]) -> Sequence[_R]:
        """Run any function over items that begin with a source; `lost` makes the result of a source that was lost."""
        from kill_audit import engine  # multiprocessing is not needed for --help

        bar = _Bar(shown=not self.quiet and sys.stderr.isatty())
        try:
            return engine.run(
                _Unpacked(function),
                [_Item(item) for item in items],
                progress=bar.step,
                meanwhile=self.meanwhile,
                on_lost=lambda item, reason: lost(item.name, reason),
            )
        finally:
            bar.end()


class _Bar:
    """One line on stderr that says how far a long read is; nothing for a short one, or where nobody looks."""

    def __init__(self, *, shown: bool) -> None:
        self._shown = shown
        self._since = time.monotonic()
        self._drawn = False

    def step(self, done: int, total: int, name: str) -> None:
        if not self._shown or total < 2 or time.monotonic() - self._since < 1.0:
            return
        filled = 20 * done // total
        sys.stderr.write(f"\r\x1b[K[{'#' * filled}{'.' * (20 - filled)}] {done} of {total} read  {name[-40:]}")
        sys.stderr.flush()
        self._drawn = True

    def end(self) -> None:
        if self._drawn:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


class _Item(Generic[_I]):
    """Something to run, as the engine wants it: with a name, and whether it may end its process."""

    def __init__(self, item: _I) -> None:
        self.item = item

    @property
    def name(self) -> str:
        return str(self.item[0].name)

    @property
    def fragile(self) -> bool:
        return bool(getattr(self.item[0], "fragile", True))

    @property
    def weight(self) -> float:
        return float(getattr(self.item[0], "weight", 0))


class _Unpacked(Generic[_I, _R]):
    """Unpacks an item for its function; picklable."""

    def __init__(self, function: Callable[[_I], _R]) -> None:
        self.function = function
        self.__module__ = function.__module__

    def __call__(self, item: _Item[_I]) -> _R:
        return self.function(item.item)


def _lost(name: str, reason: str) -> "Partial":
    from kill_audit.entry import Problem
    from kill_audit.timeline import Partial

    return Partial(
        source=name,
        problems=(Problem(code="damaged", detail=f"the process that read it ended ({reason}): nothing of it counts"),),
    )
