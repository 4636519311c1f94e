"""The shape of a configuration file: every table and key with its type.

Rules of this file: data only. A key is written with hyphens; what is Celery's or a run log's own name keeps its
underscores. None and an empty tuple mean that a key was not given. What a text must look like stands in its type
(`Form`), and is checked with everything else, so that all mistakes come at once.
"""

from enum import StrEnum
from typing import Annotated, Any, Literal

import msgspec


class Form(StrEnum):
    """What a text must look like, or what it names."""

    SPAN = "a time span"
    MOMENT = "a point in time"
    ZONE = "a time zone"
    FAIL_ON = "what to fail on"
    MATCH = "a journal match"
    PATH = "a path"
    PLACE = "a database URL or a path"


Span = Annotated[str, msgspec.Meta(extra={"form": Form.SPAN})]
Moment = Annotated[str, msgspec.Meta(extra={"form": Form.MOMENT})]
Zone = Annotated[str, msgspec.Meta(extra={"form": Form.ZONE})]
FailOn = Annotated[str, msgspec.Meta(extra={"form": Form.FAIL_ON})]
Match = Annotated[str, msgspec.Meta(extra={"form": Form.MATCH})]
Path = Annotated[str, msgspec.Meta(extra={"form": Form.PATH})]
Place = Annotated[str, msgspec.Meta(extra={"form": Form.PLACE})]
Year = Annotated[int, msgspec.Meta(ge=1970, le=9999)]
Output = Literal["table", "short", "json", "ndjson", "csv", "md", "html", "prometheus"]


def several(words: str | tuple[str, ...]) -> tuple[str, ...]:
    """Take one text for a list of one."""
    return (words,) if isinstance(words, str) else words


class Table(msgspec.Struct, frozen=True, kw_only=True, rename="kebab", forbid_unknown_fields=True):
    """A table of a configuration file."""


class RunColumns(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[run-log.columns]`: the column of each field, where the names are not the usual ones."""

    task_id: str | None = None
    task_name: str | None = None
    status: str | None = None
    started_at: str | None = None
    finished_at: str | None = None
    worker: str | None = None
    queue: str | None = None


class RunStates(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[run-log.states]`: status words by what they mean, besides the usual ones."""

    open: str | tuple[str, ...] = ()
    done: str | tuple[str, ...] = ()
    failed: str | tuple[str, ...] = ()
    revoked: str | tuple[str, ...] = ()
    retry: str | tuple[str, ...] = ()
    other: str | tuple[str, ...] = ()


class RunLog(Table, frozen=True, kw_only=True):
    """`[run-log]`: the app's run log. `time_zone`: of times that carry none."""

    url: Place | None = None
    table: str | None = None
    query: str | None = None
    preset: str | None = None
    time_zone: Zone | None = None
    columns: RunColumns = RunColumns()
    states: RunStates = RunStates()


class Results(Table, frozen=True, kw_only=True):
    """`[results]`: Celery's own result table."""

    url: Place | None = None
    table: str | None = None
    time_zone: Zone | None = None


class DeployMark(Table, frozen=True, kw_only=True):
    """`[[deploy-marks]]`: what tells of a deploy; exactly one of `match`, `unit` and `file`.

    `match`: journal fields, as journalctl takes them (SYSLOG_IDENTIFIER=deploy); all must hold, and the message labels
    the deploy. `unit`: a unit that runs the deploy, from its start to its end. `file`: a CSV or JSON file of marks.
    `label`: instead of the message, or of the unit's name.
    """

    match: Match | tuple[Match, ...] = ()
    unit: str | None = None
    file: Path | None = None
    label: str | None = None

    @property
    def matches(self) -> tuple[str, ...]:
        """The journal fields that must all hold, as FIELD=VALUE."""
        return several(self.match)


class Task(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[tasks."NAME"]`: acknowledgement settings of the tasks whose name fits, spelled as Celery spells them.

    `safe_to_rerun`: whether running the task twice does no harm, which only its author knows.
    """

    acks_late: bool | None = None
    reject_on_worker_lost: bool | None = None
    acks_on_failure_or_timeout: bool | None = None
    safe_to_rerun: bool | None = None


class Mail(Table, frozen=True, kw_only=True):
    """`[mail]`: what `kill-audit mail` needs; any option of that command may stand here."""

    to: str | tuple[str, ...] = ()
    sender: str | None = msgspec.field(default=None, name="from")
    when: Literal["always", "findings", "change"] | None = None


class Schedule(Table, frozen=True, kw_only=True):
    """`[schedule]`: what `kill-audit schedule` needs; any option of that command may stand here."""

    weekly: str | None = None


class Ledger(Table, frozen=True, kw_only=True):
    """`[ledger]`: where reports are kept, and for how long."""

    url: Place | None = None
    keep: Span | None = None


class Configuration(Table, frozen=True, kw_only=True):
    """The whole of a configuration file.

    Keys that are no tables are options of the same name, for every command that has them (`output`: for `report`).
    `[commands.NAME]` holds options of one command alone, and they count before those.
    """

    units: str | tuple[str, ...] = ()
    since: Moment | None = None
    until: Moment | None = None
    lead_in: Span | None = None
    directories: Path | tuple[Path, ...] = ()
    files: Path | tuple[Path, ...] = ()
    root: Path | None = None
    merge: bool | None = None
    namespace: str | None = None
    boot: str | None = None
    user: bool | None = None
    assume_timezone: Zone | None = None
    assume_year: Year | None = None
    utc: bool | None = None
    quiet: bool | None = None
    verbose: bool | None = None
    settle: Span | None = None
    tolerance: Span | None = None
    deploy_gap: Span | None = None
    fail_on: FailOn | None = None
    exit_zero: bool | None = None
    output: Output | None = None
    color: Literal["auto", "always", "never"] | None = None
    explain: bool | None = None
    accepted: Path | None = None
    run_log: RunLog = RunLog()
    results: Results = Results()
    deploy_marks: tuple[DeployMark, ...] = ()
    tasks: dict[str, Task] = {}
    mail: Mail = Mail()
    schedule: Schedule = Schedule()
    ledger: Ledger = Ledger()
    commands: dict[str, dict[str, Any]] = {}
