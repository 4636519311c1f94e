"""The report as a document: its own versioned JSON shape, both ways, and its JSON Schema.

What `-o json` prints, what render, ledger and mail read. Later versions only add keys. Times are RFC 3339 with
microseconds and `Z`; what is not known is null. The keys stand in the order of this file.
"""

import datetime as dt
from typing import Any, Literal

import msgspec

from kill_audit.errors import UsageError

FORMAT: Literal["kill-audit/report"] = "kill-audit/report"
VERSION: Literal[1] = 1

Confidence = Literal["high", "medium", "low"]
How = Literal["line", "accepted", "process", "job", "elimination", "result", "none"]


class Struct(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=False):
    """A part of the document; unknown keys of a later version are passed over."""


class Tool(Struct, frozen=True, kw_only=True):
    """What wrote the document."""

    name: str
    version: str


class Window(Struct, frozen=True, kw_only=True):
    """Deaths in [since, until) are in the document."""

    since: str
    until: str


class CoverageProblem(Struct, frozen=True, kw_only=True):
    """Why the evidence is not whole: a stable code, a sentence, and the span where it is known."""

    code: str
    detail: str
    since: str | None
    until: str | None


class SourceCoverage(Struct, frozen=True, kw_only=True):
    """What one source holds of one unit in one boot of one host."""

    host: str | None
    boot_id: str | None
    unit: str | None
    source: str
    first: str | None
    last: str | None
    entries: int
    problems: tuple[CoverageProblem, ...]


class Coverage(Struct, frozen=True, kw_only=True):
    """How much of the window the evidence reaches over."""

    verdict: Literal["complete", "partial", "none"]
    entries: int
    sources: tuple[SourceCoverage, ...]


class RunLogFacts(Struct, frozen=True, kw_only=True):
    """The run log of the reconciliation: `rows` in the table, `skew_s` in seconds (database less journal)."""

    kind: str
    table: str | None
    preset: str | None
    rows: int | None
    time_zone: str | None
    skew_s: float | None


class Totals(Struct, frozen=True, kw_only=True):
    """The numbers of the headline, each derived from the lists below."""

    kills: int
    missing: int
    stuck: int
    accepted: int
    ghosts: int
    idle_deaths: int
    blind_deaths: int
    not_losses: int
    by_cause: dict[str, int]
    by_verdict: dict[str, int]
    by_unit: dict[str, int]
    by_task: dict[str, int]


class Deploy(Struct, frozen=True, kw_only=True):
    """A deploy window: stop and restart jobs of audited units that belong together."""

    id: str
    label: str
    since: str
    until: str
    units: tuple[str, ...]
    kills: int
    drained: int
    requeued: int


class Incident(Struct, frozen=True, kw_only=True):
    """Deaths of one event. `culprit` is the id of the kill that caused the others, where one did."""

    id: str
    cause: str
    since: str
    until: str
    units: tuple[str, ...]
    kills: int
    culprit: str | None


class Candidate(Struct, frozen=True, kw_only=True):
    """A task that may have been the one."""

    name: str | None
    id: str | None
    how: How


class Task(Struct, frozen=True, kw_only=True):
    """The task of a kill, and how it was named."""

    name: str | None
    id: str | None
    how: How
    confidence: Confidence | None
    candidates: tuple[Candidate, ...]


class Row(Struct, frozen=True, kw_only=True):
    """A row of the run log that belongs to a kill."""

    key: str
    status: str | None
    started_at: str | None
    finished_at: str | None


class Evidence(Struct, frozen=True, kw_only=True):
    """A journal entry that proves a claim."""

    cursor: str
    at: str
    text: str


class Accepted(Struct, frozen=True, kw_only=True):
    """Why a kill is accepted as known. `by`: what the entry says that accepts it; `where`: its file and line."""

    reason: str
    until: str | None
    by: str
    where: str


class Kill(Struct, frozen=True, kw_only=True):
    """One task run that began and was cut off by the death of the process that ran it."""

    id: str
    at: str
    host: str | None
    boot_id: str | None
    unit: str | None
    invocation_id: str | None
    worker: str | None
    main_pid: int | None
    child_pid: int | None
    host_pid: int | None
    pool_process: str | None
    signal: int | None
    signal_name: str | None
    exit_code: int | None
    job: int | None
    task: Task
    received_at: str | None
    started_at: str | None
    ran_for_s: float | None
    cause: str
    confidence: Confidence
    reasons: tuple[str, ...]
    fate: str
    deliveries: int
    killed_times: int
    deploy: str | None
    incident: str | None
    verdict: str | None
    accepted: Accepted | None
    rows: tuple[Row, ...]
    evidence: tuple[Evidence, ...]


class IdleDeath(Struct, frozen=True, kw_only=True):
    """A pool process that died with no task on it."""

    at: str
    host: str | None
    unit: str | None
    child_pid: int | None
    signal: int | None
    exit_code: int | None
    cause: str


class BlindDeath(Struct, frozen=True, kw_only=True):
    """A worker that died while the journal cannot show what it was running; at most `max_tasks` runs."""

    at: str
    host: str | None
    unit: str | None
    main_pid: int | None
    signal: int | None
    cause: str
    max_tasks: int | None
    why: str


class TaskReference(Struct, frozen=True, kw_only=True):
    """A task by name and id."""

    name: str | None
    id: str | None


class Ghost(Struct, frozen=True, kw_only=True):
    """A row that is still open although its process is dead."""

    key: str
    task: TaskReference
    started_at: str | None
    reasons: tuple[str, ...]


class Duplicate(Struct, frozen=True, kw_only=True):
    """An id that finished more than once."""

    task: TaskReference
    deliveries: int
    finished: int


class Offender(Struct, frozen=True, kw_only=True):
    """A task by how often it was killed and the seconds of work that were lost."""

    task: str
    kills: int
    lost_s: float


class NotLoss(Struct, frozen=True, kw_only=True):
    """A line that looks like a kill and is none."""

    at: str
    host: str | None
    unit: str | None
    text: str
    why: str


class Acceptance(Struct, frozen=True, kw_only=True):
    """An entry of the file of accepted findings, and how many kills of the window it is about.

    `stale`: `expired` accepts nothing any more, `unmatched` is about no kill of a whole week, and `gone` names a kill
    that was there when it was accepted and is not found any more.
    """

    where: str
    by: str
    reason: str
    until: str | None
    kills: int
    stale: Literal["expired", "unmatched", "gone"] | None


class Drain(Struct, frozen=True, kw_only=True):
    """How many of the killed runs a stop timeout of `timeout_s` seconds with KillMode=mixed would have saved."""

    unit: str
    timeout_s: int
    saved: int | None
    of: int


class UnitAdvice(Struct, frozen=True, kw_only=True):
    """A unit setting to change."""

    unit: str
    problem: str
    setting: str
    now: str | None
    better: str
    why: str


class Advice(Struct, frozen=True, kw_only=True):
    """What would have saved the killed runs."""

    drain: tuple[Drain, ...]
    units: tuple[UnitAdvice, ...]


class Document(Struct, frozen=True, kw_only=True):
    """The whole report."""

    format: Literal["kill-audit/report"]
    version: Literal[1]
    tool: Tool
    generated_at: str
    window: Window
    coverage: Coverage
    run_log: RunLogFacts | None
    totals: Totals
    previous: Totals | None
    deploys: tuple[Deploy, ...]
    incidents: tuple[Incident, ...]
    kills: tuple[Kill, ...]
    idle_deaths: tuple[IdleDeath, ...]
    blind_deaths: tuple[BlindDeath, ...]
    ghosts: tuple[Ghost, ...]
    duplicates: tuple[Duplicate, ...]
    offenders: tuple[Offender, ...]
    not_losses: tuple[NotLoss, ...]
    acceptances: tuple[Acceptance, ...]
    advice: Advice


def timestamp(micros: int) -> str:
    """Write microseconds since the epoch as RFC 3339 in UTC, with six digits of fraction and `Z`."""
    seconds, fraction = divmod(micros, 1_000_000)
    moment = dt.datetime.fromtimestamp(seconds, dt.UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{fraction:06d}Z"


def micros(text: str) -> int:
    """Read what `timestamp` wrote, as microseconds since the epoch."""
    moment = dt.datetime.fromisoformat(text)
    return (moment - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)) // dt.timedelta(microseconds=1)


def encode(document: Document) -> bytes:
    """Write the document as indented JSON with a newline at its end."""
    return msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n"


def decode(data: bytes | str) -> Document:
    """Read a document of this version.

    Raises:
        UsageError: it is no kill-audit report, or one of another version.
    """
    try:
        return msgspec.json.decode(data, type=Document)
    except msgspec.MsgspecError as error:
        raise UsageError(
            f"this is no kill-audit report of version {VERSION}: {error}",
            hint="make one with `kill-audit report -o json`",
        ) from error


def schema() -> dict[str, Any]:
    """Make the JSON Schema (2020-12) of the document; the package ships it as schema/report-1.json."""
    body = msgspec.json.schema(Document)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "urn:kill-audit:report:1",
        "title": "kill-audit report, version 1",
        **body,
    }
