"""Recorded scenes: real workers really killed, and small inputs of the world's kinds, each with what is true of it.

`data/recordings/CELERY/SCENE`: the container's journal, the app's run log in two designs, and `truth.json`, written by
the tasks themselves as they ran. `data/cases/CNN.*`: rewritten from public reports, with what a correct audit finds.
"""

import datetime as dt
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from sqlite3 import connect
from typing import Any

from builders import DAY, SECOND, Entry, audited, entries_of
from kill_audit.document import Document, Kill, micros
from kill_audit.entry import Micros, Question, Source
from kill_audit.journal import open_sources
from kill_audit.reconcile import RunLog
from kill_audit.runlog import open_run_log

DATA = Path(__file__).parent / "data"
AGES_AGO, FAR_OFF = micros("2000-01-01T00:00:00Z"), micros("2100-01-01T00:00:00Z")
TOLERANCE = 5 * SECOND

# A case's word for what became of a run -> the report's.
_FATES = {
    "failed": {"lost"},
    "lost": {"lost", "unknown"},
    "requeued": {"requeued", "redelivered"},
    "retried": {"retried", "redelivered"},
    "revoked": {"revoked"},
}
# A recording's word for what became of a run's message -> the report's.
_MESSAGES = {
    "redelivered": {"redelivered"},
    "waiting": {"redelivered", "pending", "requeued", "unknown"},
    "gone": {"lost", "revoked", "unknown"},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """A kill that must be found. None, or an empty set, where the truth says nothing."""

    unit: str | None
    task_id: str | None
    task_name: str | None
    child_pid: int | None
    causes: frozenset[str]
    fates: frozenset[str] = frozenset()
    signals: tuple[int | None, ...] = ()
    exit_code: int | None = None
    any_of: frozenset[str] = frozenset()
    nameable: bool = True
    at: Micros | None = None
    at_tolerance: Micros = TOLERANCE
    started: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """A recorded scene: the files to read, the question, and what is true."""

    name: str
    folder: Path
    files: tuple[Path, ...]
    question: Question
    expected: tuple[Expected, ...]
    idle: int | None
    duplicates: frozenset[str]
    truth: Mapping[str, Any]

    @property
    def now(self) -> Micros:
        """A moment at which everything has settled."""
        return self.question.until + DAY

    def sources(self) -> tuple[Source, ...]:
        """Open its files."""
        return open_sources(files=[str(path) for path in self.files])

    def audited(self, *sources: Source, run_log: RunLog | None = None) -> Document:
        """Audit its files, or the sources given instead."""
        return audited(*(sources or self.sources()), question=self.question, run_log=run_log, now=self.now)

    def run_log(self, table: str) -> RunLog:
        """Open the app's run log."""
        return open_run_log(f"sqlite:///{self.folder / 'runlog.sqlite3'}", table=table)

    def entries(self) -> tuple[Entry, ...]:
        """All entries of its files, in their order."""
        return _entries(self.files, self.question)


@cache
def _entries(files: tuple[Path, ...], question: Question) -> tuple[Entry, ...]:
    opened = open_sources(files=[str(path) for path in files])
    return tuple(entry for source in opened for entry in entries_of(source.batches(question)))


def _question(since: Micros, until: Micros, **assumed: Any) -> Question:
    return Question(since=since, until=until, read_since=since - 7 * DAY, read_until=until + 7 * DAY, **assumed)


# -- recordings ------------------------------------------------------------------------------------------------------


def recordings() -> Iterator[Scene]:
    """All recordings, by name."""
    for path in sorted((DATA / "recordings").glob("*/*/truth.json")):
        folder, truth = path.parent, json.loads(path.read_text(encoding="utf-8"))
        kills = tuple(_kill_of_recording(kill, truth) for kill in truth["kills"])
        more_than_once = truth.get("ran_more_than_once", {})
        yield Scene(
            name=f"{folder.parent.name}/{folder.name}",
            folder=folder,
            files=(*folder.glob("journal.export*"), *folder.glob("a.log")),
            question=_question(round(truth["from"] * SECOND), round(truth["until"] * SECOND), assume_timezone="UTC"),
            expected=kills,
            idle=truth.get("idle"),
            duplicates=frozenset(
                task_id
                for task_id in more_than_once
                if all(run["end"] == "end" for run in truth["runs"] if run["id"] == task_id)
            ),
            truth=truth,
        )


def _kill_of_recording(kill: Mapping[str, Any], truth: Mapping[str, Any]) -> Expected:
    later = any(run["id"] == kill["task_id"] and run["t"] > kill["started"] + 0.001 for run in truth["runs"])
    fates = _MESSAGES.get("redelivered" if later else kill.get("fate", ""), set())
    return Expected(
        unit=kill["unit"],
        task_id=kill["task_id"],
        task_name=kill["task"],
        child_pid=kill["child_pid"],
        causes=frozenset({kill["cause"], *kill.get("cause_ok", [])}),
        fates=frozenset(fates),
        nameable=truth.get("nameable", True),
        started=kill["started"],
    )


def verdict_of(scene: Scene, table: str, kill: Expected) -> str:
    """What the run log must say of a killed run: its own row is open, or a later run finished, or nothing is there."""
    assert kill.started is not None
    with closing(connect(f"file:{scene.folder / 'runlog.sqlite3'}?mode=ro", uri=True)) as database:
        rows = database.execute(
            f"select status, started_at from {table} where task_id = ?",  # noqa: S608 -- a name of our own
            (kill.task_id,),
        ).fetchall()
    own = [
        status
        for status, started in rows
        if started is not None
        and abs(dt.datetime.fromisoformat(started).replace(tzinfo=dt.UTC).timestamp() - kill.started) < 3
    ]
    if "running" in own:
        return "stuck"
    return "recovered" if any(status == "success" for status, _ in rows) else "missing"


# -- cases -----------------------------------------------------------------------------------------------------------


def cases() -> Iterator[Scene]:
    """All cases, by name."""
    for path in sorted((DATA / "cases").glob("*.expect.json")):
        truth = json.loads(path.read_text(encoding="utf-8"))
        told = [kill for kill in truth["kills"] if kill.get("fate") != "finished"]
        yield Scene(
            name=truth["case"],
            folder=path.parent,
            files=(path.parent / truth["input"],),
            question=_question(
                AGES_AGO, FAR_OFF, assume_timezone=truth.get("assume_tz"), assume_year=truth.get("assume_year")
            ),
            expected=tuple(one for kill in told if kill.get("kind") != "child" for one in _kills_of_case(kill)),
            idle=sum(kill.get("kind") == "child" for kill in told),
            duplicates=frozenset(one["task_id"] for one in truth.get("duplicates", [])),
            truth=truth,
        )


def _kills_of_case(kill: Mapping[str, Any]) -> Iterator[Expected]:
    fates = _FATES.get(kill.get("fate", ""), set())
    one = Expected(
        unit=kill["unit"],
        task_id=kill.get("task_id"),
        task_name=kill.get("task_name"),
        child_pid=kill["child_pid"],
        causes=frozenset({kill["cause"], *kill.get("cause_ok", [])}),
        fates=frozenset(fates if kill.get("task_id") else fates and fates | {"unknown"}),
        signals=(kill.get("signal"), *kill.get("signal_ok", [])),
        exit_code=kill.get("exitcode"),
        any_of=frozenset(kill.get("task_any", [])),
        nameable=bool(kill.get("task_id")),
        at=micros(kill["at"]) if kill.get("at") else None,
        at_tolerance=kill.get("at_tolerance_s", 5) * SECOND,
    )
    if kill.get("kind") == "main":
        for task_id in kill.get("in_flight", []):
            yield replace(one, task_id=task_id, task_name=None, child_pid=None, nameable=True, signals=())
    else:
        yield one


# -- comparing -------------------------------------------------------------------------------------------------------


_ALIKE: tuple[Callable[[Expected, Kill], bool], ...] = (
    lambda want, kill: want.task_id == kill.task.id is not None and kill.child_pid in {None, want.child_pid},
    lambda want, kill: want.child_pid == kill.child_pid is not None and kill.task.id is None,
    lambda want, kill: want.child_pid == kill.child_pid is not None,
    lambda want, kill: want.task_id == kill.task.id is not None,
    lambda want, kill: want.at is not None and abs(micros(kill.at) - want.at) <= 3 * TOLERANCE,
    lambda want, kill: want.started is not None and want.unit == kill.unit and kill.task.id is None,
)
"""How a kill may be the expected one; the surest first."""


def paired(expected: Sequence[Expected], found: Sequence[Kill]) -> tuple[list[tuple[Expected, Kill]], list[Kill]]:
    """Pair what must be found with what was: by id, by process, then by time; and what was found besides."""
    pairs: list[tuple[Expected, Kill]] = []
    open_, left = list(expected), list(found)
    for test in _ALIKE:
        for want in list(open_):
            kill = next((kill for kill in left if test(want, kill)), None)
            if kill is not None:
                pairs.append((want, kill))
                open_.remove(want)
                left.remove(kill)
    return pairs, left


def complaints(scene: Scene, document: Document) -> list[str]:
    """Say, a line each, where a report is not what is true of a scene."""
    pairs, extra = paired(scene.expected, document.kills)
    said = [f"extra: {kill.at} {kill.unit} {kill.task.id} {kill.cause}" for kill in extra]
    met = {id(want) for want, _ in pairs}
    said += [
        f"missed: {want.unit} {want.task_id} pid {want.child_pid}" for want in scene.expected if id(want) not in met
    ]
    for want, kill in pairs:
        said += [f"{kill.at} {want.task_id}: {what}" for what in _differences(want, kill)]
    twice = {one.task.id for one in document.duplicates}
    if twice != scene.duplicates:
        said.append(f"duplicates: {sorted(map(str, twice))} for {sorted(scene.duplicates)}")
    if scene.idle is not None and len(document.idle_deaths) != scene.idle:
        said.append(f"idle deaths: {len(document.idle_deaths)} for {scene.idle}")
    return said


def _differences(want: Expected, kill: Kill) -> Iterator[str]:
    if not _named_rightly(want, kill):
        yield f"named {kill.task.name}[{kill.task.id}] for {want.task_name}[{want.task_id or sorted(want.any_of)}]"
    if kill.cause not in want.causes:
        yield f"cause {kill.cause} for {sorted(want.causes)}"
    if want.signals and kill.signal not in want.signals:
        yield f"signal {kill.signal} for {want.signals}"
    if want.exit_code is not None and kill.exit_code != want.exit_code:
        yield f"exit code {kill.exit_code} for {want.exit_code}"
    if want.fates and kill.fate not in want.fates:
        yield f"fate {kill.fate} for {sorted(want.fates)}"
    if None not in {want.unit, kill.unit} and kill.unit != want.unit:
        yield f"unit {kill.unit} for {want.unit}"
    if None not in {want.child_pid, kill.child_pid} and kill.child_pid != want.child_pid:
        yield f"pid {kill.child_pid} for {want.child_pid}"
    if want.at is not None and abs(micros(kill.at) - want.at) > want.at_tolerance:
        yield f"at {kill.at} for {want.at}"


def _named_rightly(want: Expected, kill: Kill) -> bool:
    if kill.task.id is None:
        return not want.nameable
    if kill.task.id not in (want.any_of if want.task_id is None else {want.task_id}):
        return False
    return None in {kill.task.name, want.task_name} or kill.task.name == want.task_name
