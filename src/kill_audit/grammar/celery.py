"""What Celery workers and billiard write, version 3.0 to 5.7.

Rules of this file: it recognises records and never decides what they mean for a task. A record's text is matched from
its first character, after the log prefix: a task that logs, raises or quotes a kill's words is not a kill. Tracebacks
arrive as many entries; their lines carry no prefix, and of them only the shutdown marker is read.

Upstream files are those of the celery, billiard and kombu repositories.
"""

import datetime as dt
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec

from kill_audit import events
from kill_audit.events import Line, Seen
from kill_audit.grammar.pattern import Pattern, table
from kill_audit.grammar.signals import signal_number


class TaskLine(NamedTuple):
    """A task line before it becomes a row of `events.TaskLines`."""

    kind: Line
    task_id: str
    task_name: str
    number: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A log record: `text` without the prefix; `process`, `logger` as the prefix names them, "" where it does not."""

    text: str
    process: str = ""
    logger: str = ""
    task_id: str = ""
    task_name: str = ""
    details: str = ""  # the traceback, where one entry holds the whole record
    eta: str = ""  # until when the task waits, where the record's own data say so
    prefixed: bool = False


# -- from an entry's message to a record ----------------------------------

# celery/app/defaults.py worker_log_format; 5.7's worker_log_datefmt may leave out the milliseconds.
_DEFAULT = re.compile(
    r"\[\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:[.,]\d{1,6})?[^:\]]{0,12}: (?P<level>[A-Z]+)/(?P<process>[^\]\s]+)\]"
    r"(?: (?P<text>.*))?$",
    re.DOTALL,
)
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")  # celery/utils/log.py ColorFormatter
_CHILD = re.compile(r"(?:Fork|Spawn)?(?:Pool)?Worker-\d+\Z")  # billiard/process.py; 3.x `Worker-N`, 4.0 `PoolWorker-N`
_PROCESS_WORD = re.compile(r"\b((?:(?:Fork|Spawn)?PoolWorker|Worker)-\d+|MainProcess)\b")
_LEVEL_WORD = re.compile(
    r"\b(?:TRACE|DEBUG|INFO|NOTICE|WARN(?:ING)?|ERR(?:OR)?|CRIT(?:ICAL)?|FATAL|SUCCESS)\b", re.IGNORECASE
)
_LOGGER_WORD = re.compile(r"(?<![\w./-])[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+(?![\w/])|\bmultiprocessing\b")
_OURS = re.compile(r"(?:celery|billiard|kombu|multiprocessing)(?:\.|\Z)")
_BARE_STAMP = re.compile(r"[\[\]()<>|\d\s:,.TZ+/-]*\Z")
# A record of another format: some head, a boundary, then words that only Celery's own records begin with.
_LOOSE = re.compile(
    r"(?:\A|(?<=[\w\])>|:-] )|(?<=\w:))(?="
    r"Task handler raised error: "
    r"|Task \S.*?\[[^\[\]]+\] (?:received\Z|succeeded |raised |retry: |ignored\Z|INTERNAL ERROR)"
    r"|Received task: |Got task from broker: |Task accepted: |Process ['\"]\S+['\"] pid:\d+ exited with "
    r"|(?:Soft|Hard) time limit \(|Discarding revoked task: |Terminating \S+ \(|Restoring \d+ unack"
    r"|Unrecoverable error: "
    r"|worker: (?:Warm|Cold) shutdown|Timed out waiting for UP message|Initiating Soft Shutdown|\S+@\S+ ready\.\Z)"
)
_MAX_HEAD = 200
_MARKED = re.compile(r"[\])>|:-] \Z")
# What the words of a head may be where no mark stands before the record: `12:00:09,123 ERROR celery.worker.request `.
_HEAD_WORD = re.compile(
    r"[\d:.,/+TZ-]*|UTC|GMT|(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)|(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"
    rf"|{_LEVEL_WORD.pattern}|(?:celery|billiard|kombu)(?:\.\w+)*|multiprocessing|{_PROCESS_WORD.pattern}"
    r"|MainThread|Thread-\d+|\w+\.py(?::\d+)?|pid[:=]?\d+",
    re.IGNORECASE,
)
_FIRST_WORD = re.compile(r"\[?[0-9]|DEBUG|INFO|WARN|ERROR|CRITICAL")
_PUNCTUATION = "[](){}<>|:,-="
# structlog's ConsoleRenderer: the event, then the logger's name in brackets, then pairs (structlog/dev.py).
_TRAILING = re.compile(r"\s+\[(?P<logger>[A-Za-z_][\w.]*)\](?P<pairs>(?:\s+[\w.]+=(?:'[^']*'|\S+))*)\s*\Z")
# logfmt: pairs all along, among them the level and the text.
_LOGFMT = re.compile(r"""(?:\A|\s)(?P<key>[\w.@-]+)=(?:"(?P<quoted>(?:[^"\\]|\\.)*)"|(?P<bare>[^\s"]*))""")
_LEVEL_KEYS = frozenset({"level", "lvl", "severity", "levelname"})
_LONGEST_KEY = 15
# Celery's own format with more behind it: a `worker_log_format` that goes on with `[%(task_id)s] ` or `%(name)s: `.
_MORE_HEAD = re.compile(
    r"(?:\[[^\[\]]{0,100}\] )*"
    r"(?:\[?(?P<logger>(?:celery|billiard|kombu|multiprocessing)[\w.]*)(?::\d+)?(?:\]|:| [-|])? +)?(?=[\w-])"
)
# The two formatters of Django's own documentation ("Logging", `verbose` and `simple`): words without any bracket.
_DJANGO = re.compile(
    r"(?:DEBUG|INFO|WARNING|ERROR|CRITICAL) "
    r"(?:\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:[,.]\d+)? (?:[\w.]+ )?\d+ \d+ )?(?=[A-Z])"
)
# Most lines of a host are not Celery's: without one of these words no pattern can match.
_WORTH = re.compile(
    r"Task |Process ['\"]|Received task|Got task|time limit|Terminating |Discarding|Restoring|Requeuing|Unrecoverable"
    r"|shutdown|Shutdown|Ctrl\+C|ready\.|UP message|concurrency:|-{14} |Restarting celery|WorkerTerminate|Arguments: "
    r"|celery multi |> "
)


def record(message: str) -> Record | None:
    """Take the log prefix off a message; None where it is no record of Celery's (a traceback's line, other text)."""
    if "\x1b" in message:
        message = _COLOUR.sub("", message)
    if message.startswith("["):
        match = _DEFAULT.match(message)
        if match is not None:
            text = match["text"] or ""
            if text.startswith("{"):
                inner = _json_record(text)
                if inner is not None:
                    return Record(
                        text=inner.text,
                        process=match["process"],
                        logger=inner.logger,
                        task_id=inner.task_id,
                        task_name=inner.task_name,
                        details=inner.details,
                        eta=inner.eta,
                        prefixed=True,
                    )
            more = _MORE_HEAD.match(text)
            start, logger = (more.end(), more["logger"] or "") if more is not None else (0, "")
            return Record(text=text[start:], process=match["process"], logger=logger, prefixed=True)
    elif message.startswith("{"):
        return _json_record(message)
    return _loose_record(message)


def _loose_record(message: str) -> Record | None:
    if _WORTH.search(message) is None:
        return None
    if message.startswith("Arguments: ") or _BARE.find(message) is not None:
        return Record(text=message)
    django = _DJANGO.match(message)
    if django is not None:
        return Record(text=message[django.end() :].rstrip(), prefixed=True)
    if "=" in message and (pairs := _logfmt_record(message)) is not None:
        return pairs
    trailing = _TRAILING.search(message)
    body = message if trailing is None else message[: trailing.start()]
    match = _LOOSE.search(body, 0, _MAX_HEAD + 4096)
    if match is None or match.start() > _MAX_HEAD:
        return None
    head = body[: match.start()]
    if trailing is not None:
        head = f"{head}{trailing['logger']}{trailing['pairs']} | "
    if not _credible(head):
        return None
    process = _PROCESS_WORD.search(head)
    return Record(
        text=body[match.start() :].rstrip(),
        process=process[1] if process else "",
        logger=next(filter(_OURS.match, _loggers_in(head)), ""),
        prefixed=bool(head),
    )


def _loggers_in(head: str) -> list[str]:
    """List the words of a head that can be a logger's name; a file's is none."""
    return [name for name in _LOGGER_WORD.findall(head) if not name.endswith(".py")]


def _credible(head: str) -> bool:
    """Whether the words before a record can be its log prefix: a stamp, or a level and no foreign logger's name.

    Where no mark stands before the record, or only a colon does, it must begin as a prefix does, with a stamp or a
    level, and each of its words must be known.
    """
    if not head or (_BARE_STAMP.match(head) and (_MARKED.search(head) or ":" in head)):
        return True
    if not _LEVEL_WORD.search(head):
        return False
    loggers = _loggers_in(head)
    if loggers and not any(_OURS.match(name) for name in loggers):
        return False
    if _MARKED.search(head) is not None:
        return True
    words = (word.strip(_PUNCTUATION) for word in re.split(r"\s+|:(?=\D)|(?<=[A-Za-z]):", head))
    return _FIRST_WORD.match(head) is not None and all(map(_HEAD_WORD.fullmatch, words))


def _logfmt_record(message: str) -> Record | None:
    found = {
        match["key"]: match["bare"] if match["quoted"] is None else match["quoted"].replace('\\"', '"')
        for match in _LOGFMT.finditer(message)
    }
    first = next(iter(found), "")
    if not found.keys() & _LEVEL_KEYS or not message.startswith(f"{first}=") or len(first) > _LONGEST_KEY:
        return None
    return _record_of(found)


def _json_record(message: str) -> Record | None:
    try:
        found = msgspec.json.decode(message)
    except msgspec.DecodeError:
        return None
    return _record_of(found) if isinstance(found, dict) else None


def _record_of(found: dict[str, Any]) -> Record | None:
    """Read a record whose parts have names."""
    inner = found.get("record")  # loguru's serialize=True nests everything under `record`
    if isinstance(inner, dict):
        found = {**inner, **{key: value for key, value in found.items() if key != "text"}}
    text = _first_text(found, "message", "msg", "event", "text", "log")
    if text is None:
        return None
    data = found.get("data")
    data = (
        data if isinstance(data, dict) else {}
    )  # celery/worker/strategy.py and celery/app/trace.py: extra={"data": …}
    text, process = text.strip("\n"), _first_text(found, "process", "processName", "process_name", "proc") or ""
    if (own := _DEFAULT.match(text)) is not None:  # a whole line of Celery's own format is the text
        text, process = own["text"] or "", own["process"]
    return Record(
        text=text,
        process=process,
        logger=_first_text(found, "logger", "name", "logger_name", "loggerName") or "",
        task_id=str(data.get("id") or _first_text(found, "task_id", "celery_task_id") or ""),
        task_name=str(data.get("name") or _first_text(found, "task_name", "celery_task_name") or ""),
        details=_first_text(found, "exc_info", "exception", "traceback", "exc_text", "stack") or "",
        eta=str(data.get("eta") or ""),
        prefixed=True,
    )


def _first_text(found: dict[str, Any], *keys: str) -> str | None:
    for key in keys:
        value = found.get(key)
        if isinstance(value, dict):  # loguru: {"name": "MainProcess", "id": 1}
            value = value.get("name")
        if isinstance(value, str) and value:
            return value
    return None


def is_child(process: str) -> bool:
    """Whether a process name is that of a pool process."""
    return _CHILD.match(process) is not None


# -- the patterns ---------------------------------------------------------

_REF = r"(?P<name>\S.*?)\[(?P<id>[^\[\]]+)\]"
_LOSS = (
    r"Worker exited prematurely(?:: (?:signal (?P<signal>\d+)(?: \(\w+\))?|exitcode (?P<code>-?\d+)|(?P<other>\w+))"
    r"(?: Job: (?P<job>\d+))?)?\."
)


def _status(match: re.Match[str]) -> tuple[int | None, int | None]:
    """Signal and exit code of a status; billiard before 3.3 prints a signal as a negative exit code."""
    if match["signal"]:
        return int(match["signal"]), None
    if match["code"]:
        code = int(match["code"])
        return (-code, None) if code < 0 else (None, code)
    return None, None


def _lost(match: re.Match[str], said: Record, seen: Seen) -> events.TaskLost:
    signal, code = _status(match)
    named = match.re.groupindex
    return events.TaskLost(
        seen=seen,
        process=said.process,
        signal=signal,
        exit_code=code,
        job=int(match["job"]) if match["job"] else None,
        task_id=match["id"] if "id" in named else None,
        task_name=match["name"] if "name" in named else None,
    )


def _lost_elsewhere(outcome: str) -> Any:
    """Make a loss only of the main process's own line: a task may raise or retry with the very words of a kill."""

    def make(match: re.Match[str], said: Record, seen: Seen) -> events.TaskLost | TaskLine:
        if said.process == "MainProcess" or (not said.process and said.logger.startswith("celery.worker")):
            lost = _lost(match, said, seen)
            return events.TaskLost(
                seen=seen,
                process=said.process,
                signal=lost.signal,
                exit_code=lost.exit_code,
                job=lost.job,
                outcome=outcome,
                task_id=match["id"],
                task_name=match["name"],
            )
        if outcome != "retried":
            return TaskLine(Line.RAISED, match["id"], match["name"])
        due = _RETRY_IN.search(said.text, match.end("id"))
        return TaskLine(Line.RETRIED, match["id"], match["name"], float(due[1]) if due else 0.0)

    return make


def _child_exited(match: re.Match[str], said: Record, seen: Seen) -> events.ChildExited:
    signal, code = _status(match)
    return events.ChildExited(
        seen=seen,
        process=said.process,
        child=match["child"],
        child_pid=int(match["pid"]),
        signal=signal,
        exit_code=code,
    )


def _received(match: re.Match[str], said: Record, _seen: Seen) -> TaskLine:
    old = _ETA.search(match["rest"]) if "rest" in match.re.groupindex else None
    eta = old[1] if old else said.eta
    if not eta:
        return TaskLine(Line.RECEIVED, match["id"], match["name"])
    return TaskLine(Line.WAITING, match["id"], match["name"], _epoch(eta))


_ETA = re.compile(r"ETA:\[([^\]]+)\]")


def _epoch(text: str) -> float:
    """Read an ETA (ISO 8601; UTC where it names no zone) as seconds since the epoch; 0 where it cannot be read."""
    try:
        moment = dt.datetime.fromisoformat(text)
    except ValueError:
        return 0.0
    return (moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)).timestamp()


def _ended(match: re.Match[str], said: Record, _seen: Seen) -> TaskLine:
    what, name, task_id = match["what"], match["name"], match["id"]
    if what.startswith("succeeded"):
        return TaskLine(Line.SUCCEEDED, task_id, name, float(match["runtime"]))
    if what.startswith("retry"):
        due = _RETRY_IN.match(said.text, match.end())
        return TaskLine(Line.RETRIED, task_id, name, float(due[1]) if due else 0.0)
    if what.startswith("ignored"):
        return TaskLine(Line.IGNORED, task_id, name)
    if what.startswith("reject"):
        return TaskLine(Line.REJECTED, task_id, name)
    if what.startswith("Task already"):  # deduplicated: an earlier run had succeeded, and this one did nothing
        return TaskLine(Line.IGNORED, task_id, name)
    return TaskLine(Line.RAISED, task_id, name)


_RETRY_IN = re.compile(r"Retry in (\d{1,12}(?:\.\d+)?)s")


def _event(kind: type[events.WorkerEvent], /, **fixed: Any) -> Any:
    def make(_match: re.Match[str], said: Record, seen: Seen) -> events.WorkerEvent:
        return kind(seen=seen, process=said.process, **fixed)

    return make


def _limit(match: re.Match[str], said: Record, seen: Seen) -> events.HardTimeLimit | TaskLine:
    if match["kind"] == "Soft":  # the task goes on, or raises by itself
        return TaskLine(Line.SPOKE, match["id"], match["name"])
    return events.HardTimeLimit(
        seen=seen, process=said.process, limit_s=float(match["limit"]), task_id=match["id"], task_name=match["name"]
    )


def _terminated(match: re.Match[str], said: Record, seen: Seen) -> events.Terminated:
    named = "id" in match.re.groupindex
    return events.Terminated(
        seen=seen,
        process=said.process,
        task_id=match["id"] if named else None,
        task_name=match["name"] if named else None,
    )


def _dumped_end(match: re.Match[str], _said: Record, _seen: Seen) -> TaskLine:
    kind = {"ignored": Line.IGNORED, "retry": Line.RETRIED}.get(match["what"].split(":")[0], Line.RAISED)
    return TaskLine(kind, match["id"], match["name"])


_UUID = "7c2323fb-d456-4b6c-a2e1-e5e8dd676627"

RECORDS = table(
    Pattern(
        name="received",
        upstream="celery/worker/strategy.py, celery/app/trace.py LOG_RECEIVED, 5.1 and later",
        regex=re.compile(rf"Task {_REF} received\s*\Z"),
        make=_received,
        samples=(f"Task shop.tasks.sleepy[{_UUID}] received", "Task run_flow[run-0c5d81f] received"),
        near_misses=(f"Task shop.tasks.sleepy[{_UUID}] received by the warehouse", "Task x received"),
        is_event=False,
    ),
    Pattern(
        name="received-old",
        upstream="celery/worker/strategy.py, 3.1 to 5.0; the ETA is in its text",
        regex=re.compile(rf"Received task: {_REF}(?P<rest>.*)\Z"),
        make=_received,
        samples=(
            f"Received task: kapp.sleep[{_UUID}]",
            f"Received task: kapp.retry[{_UUID}]  ETA:[2026-11-30 12:20:52.240674+00:00]",
            f"Received task: kapp.sleep[{_UUID}]   expires:[2026-11-30 12:38:37.906639+00:00]",
        ),
        near_misses=("Received task: nothing", "Received tasks: a[b]"),
        is_event=False,
    ),
    Pattern(
        name="got",
        upstream="celery/worker/consumer.py, 2.x and 3.0",
        regex=re.compile(rf"Got task from broker: {_REF}(?P<rest>.*)\Z"),
        make=_received,
        samples=(f"Got task from broker: quotes.tasks.add[{_UUID}]",),
        near_misses=("Got task from broker: garbage",),
        is_event=False,
    ),
    Pattern(
        name="accepted",
        upstream="celery/worker/request.py on_accepted, DEBUG",
        regex=re.compile(rf"Task accepted: {_REF} pid:(?P<pid>\d+)\s*\Z"),
        make=lambda match, _said, _seen: TaskLine(Line.ACCEPTED, match["id"], match["name"], float(match["pid"])),
        samples=(f"Task accepted: kapp.ok[{_UUID}] pid:16225",),
        near_misses=(f"Task accepted: kapp.ok[{_UUID}]",),
        is_event=False,
    ),
    Pattern(
        name="lost",
        upstream="celery/worker/request.py on_failure; billiard/pool.py mark_as_worker_lost, human_status",
        regex=re.compile(rf"Task handler raised error: (?:billiard\.exceptions\.)?WorkerLostError\(['\"]{_LOSS}"),
        make=_lost,
        samples=(
            "Task handler raised error: WorkerLostError('Worker exited prematurely: signal 15 (SIGTERM) Job: 3.')",
            "Task handler raised error: WorkerLostError('Worker exited prematurely: signal 9 (SIGKILL).',)",
            "Task handler raised error: WorkerLostError('Worker exited prematurely: exitcode 70 Job: 8204.')",
            "Task handler raised error: WorkerLostError('Worker exited prematurely: exitcode 3.')",
            "Task handler raised error: WorkerLostError('Worker exited prematurely: signal 34 Job: 0.')",
        ),
        near_misses=(
            "WorkerLostError seen in yesterday's log: Worker exited prematurely: signal 9 (SIGKILL) Job: 3.",
            "Task handler raised error: TimeLimitExceeded(4)",
        ),
    ),
    Pattern(
        name="lost-dumped",
        upstream="logging's own dump of a record that Celery 5.2 cannot format on Python 3.11",
        regex=re.compile(rf"Arguments: \(WorkerLostError\(['\"]{_LOSS}"),
        make=_lost,
        samples=("Arguments: (WorkerLostError('Worker exited prematurely: signal 11 (SIGSEGV) Job: 1.'),)",),
        near_misses=("Arguments: ('Worker exited prematurely: signal 11 (SIGSEGV) Job: 1.',)",),
    ),
    Pattern(
        name="lost-named",
        upstream="celery/worker/job.py on_failure, up to 3.1",
        regex=re.compile(rf"Task {_REF} raised (?:exception|unexpected): (?:\w+\.)*WorkerLostError\(u?['\"]{_LOSS}"),
        make=_lost_elsewhere("failed"),
        samples=(f"Task quotes.tasks.add[{_UUID}] raised exception: WorkerLostError('Worker exited prematurely.',)",),
        near_misses=(f"Task quotes.tasks.add[{_UUID}] raised exception: ValueError('WorkerLostError')",),
    ),
    Pattern(
        name="lost-after-success",
        upstream="celery/worker/request.py on_failure, 5.7",
        regex=re.compile(rf"Task {_REF} succeeded before the worker was lost: WorkerLostError\(['\"]{_LOSS}"),
        make=_lost_elsewhere("succeeded"),
        samples=(
            (
                f"Task kapp.late[{_UUID}] succeeded before the worker was lost: "
                "WorkerLostError('Worker exited prematurely: signal 9 (SIGKILL) Job: 0.')"
            ),
        ),
        near_misses=(f"Task kapp.late[{_UUID}] succeeded in 1.5s: 'before the worker was lost'",),
    ),
    Pattern(
        name="lost-retried",
        upstream="celery/worker/request.py on_failure with task_retry_on_worker_lost, 5.7",
        regex=re.compile(rf"Task {_REF} retry: Retry (?:in|at) [^:]*: WorkerLostError\(['\"]{_LOSS}"),
        make=_lost_elsewhere("retried"),
        samples=(
            (
                f"Task shop.tasks.sync[{_UUID}] retry: Retry in 180s: "
                "WorkerLostError('Worker exited prematurely: signal 9 (SIGKILL) Job: 31.')"
            ),
        ),
        near_misses=(f"Task shop.tasks.sync[{_UUID}] retry: Retry in 180s: ValueError('again')",),
    ),
    Pattern(
        name="terminated-named",
        upstream="celery/worker/job.py on_failure after revoke(terminate=True), up to 4.x",
        regex=re.compile(rf"Task {_REF} raised (?:exception|unexpected|expected): Terminated\(\S+\)"),
        make=_terminated,
        samples=(f"Task crawl.tasks.site[{_UUID}] raised unexpected: Terminated(15,)",),
        near_misses=(f"Task crawl.tasks.site[{_UUID}] raised unexpected: ValueError('Terminated(15,)')",),
    ),
    Pattern(
        name="ended",
        upstream="celery/app/trace.py LOG_SUCCESS, _FAILURE, _INTERNAL_ERROR, _IGNORED, _REJECTED, _RETRY",
        regex=re.compile(
            rf"Task {_REF} (?P<what>succeeded in (?P<runtime>\d{{1,12}}(?:\.\d*)?(?:e[+-]?\d{{1,2}})?)s(?=:|\Z)"
            r"|retry: |ignored\s*\Z"
            r"|reject(?:ed)?\b|raised (?:unexpected|expected|exception): |INTERNAL ERROR: "
            r"|Task already completed success)"
        ),
        make=_ended,
        samples=(
            f"Task kapp.ok[{_UUID}] succeeded in 0.020076239999980316s: 1",
            f"Task kapp.ok[{_UUID}] succeeded in 1.2e-05s: None",
            f"Task kapp.fail[{_UUID}] raised unexpected: ValueError('boom\\nsecond line')",
            f"Task kapp.retry[{_UUID}] retry: Retry in 1s: ValueError('again')",
            f"Task kapp.reject[{_UUID}] reject requeue=False: no thanks",
            f"Task kapp.ignore[{_UUID}] ignored",
            f"Task kapp.ok[{_UUID}] Task already completed successfully.",
        ),
        near_misses=(f"Task kapp.ok[{_UUID}] succeeded", f"Task kapp.ok[{_UUID}] received"),
        is_event=False,
    ),
    Pattern(
        name="ended-dumped",
        upstream="logging's own dump of a record that Celery 5.2 cannot format on Python 3.11",
        regex=re.compile(
            r"Arguments: \{"
            r"(?=.*'description': ['\"](?P<what>raised unexpected|raised expected|retry|INTERNAL ERROR|ignored))"
            r"(?=.*'id': '(?P<id>[^']+)')(?=.*'name': '(?P<name>[^']+)')"
        ),
        make=_dumped_end,
        samples=(
            (
                f"Arguments: {{'hostname': 'a@web1', 'id': '{_UUID}', 'name': 'shop.tasks.soft', "
                "'exc': 'ValueError()', 'description': 'raised unexpected', 'internal': False}"
            ),
        ),
        near_misses=("Arguments: {'id': '1'}", "Arguments: ('a',)"),
        is_event=False,
    ),
    Pattern(
        name="hard-limit-raised",
        upstream="celery/worker/request.py on_failure; billiard/pool.py on_hard_timeout",
        regex=re.compile(
            r"(?:Task handler raised error: |Arguments: \()TimeLimitExceeded\((?P<limit>\d{1,12}(?:\.\d*)?),?\)"
        ),
        make=lambda match, said, seen: events.HardTimeLimit(
            seen=seen, process=said.process, limit_s=float(match["limit"])
        ),
        samples=("Task handler raised error: TimeLimitExceeded(4)", "Arguments: (TimeLimitExceeded(4,),)"),
        near_misses=("TimeLimitExceeded(4)",),
    ),
    Pattern(
        name="time-limit",
        upstream="celery/worker/request.py on_timeout",
        regex=re.compile(
            rf"(?P<kind>Soft|Hard) time limit \((?P<limit>\d{{1,12}}(?:\.\d*)?)s\) exceeded for {_REF}\s*\Z"
        ),
        make=_limit,
        samples=(
            f"Hard time limit (4s) exceeded for shop.tasks.hard[{_UUID}]",
            f"Soft time limit (120s) exceeded for rpt.execute[{_UUID}]",
        ),
        near_misses=("Hard time limit (30s) exceeded for tile z=12[77], sending SIGKILL to pid 261",),
    ),
    Pattern(
        name="terminated",
        upstream="celery/worker/request.py on_failure after revoke(terminate=True), up to 5.0",
        regex=re.compile(r"(?:Task handler raised error: |Arguments: \()Terminated\(\S+\)"),
        make=_terminated,
        samples=("Task handler raised error: Terminated(15)", "Task handler raised error: Terminated(15,)"),
        near_misses=("Terminated(15)",),
    ),
    Pattern(
        name="terminating",
        upstream="celery/worker/control.py revoke; the signal's form depends on the Python version",
        regex=re.compile(r"Terminating (?P<id>\S+) \((?:Signals\.)?(?P<signal>\w+)\)\s*\Z"),
        make=lambda match, said, seen: events.Terminating(
            seen=seen, process=said.process, task_id=match["id"], signal=signal_number(match["signal"])
        ),
        samples=(f"Terminating {_UUID} (15)", f"Terminating {_UUID} (Signals.SIGTERM)"),
        near_misses=("Terminating session 12 (idle for 5 minutes)", "Terminating everything"),
    ),
    Pattern(
        name="discarded",
        upstream="celery/worker/request.py revoked",
        regex=re.compile(rf"Discarding revoked task: {_REF}"),
        make=lambda match, _said, _seen: TaskLine(Line.DISCARDED, match["id"], match["name"]),
        samples=(f"Discarding revoked task: kapp.sleep[{_UUID}]",),
        near_misses=("Discarding revoked task: none",),
        is_event=False,
    ),
    Pattern(
        name="cancelled-on-connection-loss",
        upstream="celery/worker/consumer/consumer.py, 5.1 and later",
        regex=re.compile(rf"Task {_REF}.*? cannot be acknowledged after a connection loss"),
        make=lambda match, said, seen: events.CancelledOnConnectionLoss(
            seen=seen, process=said.process, task_id=match["id"], task_name=match["name"]
        ),
        samples=(
            (
                f"Task kapp.sleep[{_UUID}] cannot be acknowledged after a connection loss since late acknowledgement "
                "is enabled for it."
            ),
        ),
        near_misses=(f"Task kapp.sleep[{_UUID}] cannot be acknowledged",),
    ),
    Pattern(
        name="eta-unreadable",
        upstream="celery/worker/strategy.py: the message is rejected and not requeued",
        regex=re.compile(r"Couldn't convert (?:ETA|eta) .*'id': '(?P<id>[^']+)'"),
        make=lambda match, _said, _seen: TaskLine(Line.REJECTED, match["id"], ""),
        samples=(f"Couldn't convert ETA 'soon' to timestamp: ValueError(). Task: {{'lang': 'py', 'id': '{_UUID}'}}",),
        near_misses=("Couldn't convert ETA",),
        is_event=False,
    ),
    Pattern(
        name="child-exited",
        upstream="billiard/pool.py _join_exited_workers; before 3.3 the status is a bare `exitcode -9`",
        regex=re.compile(
            r"Process (?P<quote>['\"])(?P<child>[^'\"]+)(?P=quote) pid:(?P<pid>\d+) exited with "
            r"(?P<mark>['\"]?)(?:signal (?P<signal>\d+)(?: \(\w+\))?|exitcode (?P<code>-?\d+))(?P=mark)\s*\Z"
        ),
        make=_child_exited,
        samples=(
            "Process 'ForkPoolWorker-3' pid:27 exited with 'signal 9 (SIGKILL)'",
            "Process 'ForkPoolWorker-3' pid:27 exited with 'exitcode 70'",
            "Process 'Worker-5' pid:1712 exited with exitcode -9",
        ),
        near_misses=(
            "Process 'ForkPoolWorker-9' pid:4242 exited with 'signal 9 (SIGKILL)' was the line",
            "Task process for 7d21c0aa exited with non zero exitcode -9",
        ),
    ),
    Pattern(
        name="child-not-up",
        upstream="celery/concurrency/asynpool.py verify_process_alive",
        regex=re.compile(r"Timed out waiting for UP message from <\w+\((?P<child>[^,)]+)"),
        make=lambda match, said, seen: events.ChildNotUp(seen=seen, process=said.process, child=match["child"]),
        samples=(
            "Timed out waiting for UP message from <ForkProcess(ForkPoolWorker-8, started daemon)>",
            "Timed out waiting for UP message from <Worker(Worker-5, started daemon)>",
        ),
        near_misses=("Timed out waiting for UP message",),
    ),
    Pattern(
        name="recycled",
        upstream="billiard/pool.py Worker.workloop (max memory, max tasks)",
        regex=re.compile(r"(?:child process exiting after exceeding memory limit \(|worker exiting after \d+ tasks)"),
        make=_event(events.Recycled),
        samples=(
            "child process exiting after exceeding memory limit (109108KiB / 60000KiB)",
            "worker exiting after 1 tasks",
        ),
        near_misses=("worker unable to determine memory usage",),
    ),
    Pattern(
        name="restoring",
        upstream="kombu/transport/virtual/base.py restore_unacked_once; a print up to 5.6",
        regex=re.compile(r"Restoring (?P<count>\d+) unacknowledged message\(s\)"),
        make=lambda match, said, seen: events.Restoring(seen=seen, process=said.process, count=int(match["count"])),
        samples=("Restoring 2 unacknowledged message(s)",),
        near_misses=("Restoring backups",),
    ),
    Pattern(
        name="requeue-bounced",
        upstream="kombu/transport/virtual/base.py, 5.3 and later",
        regex=re.compile(r"Requeuing undeliverable message for queue "),
        make=_event(events.RequeueBounced),
        samples=("Requeuing undeliverable message for queue 'a': No consumers.",),
        near_misses=("Requeuing message",),
    ),
    Pattern(
        name="ready",
        upstream="celery/apps/worker.py on_consumer_ready",
        regex=re.compile(r"(?P<node>[^\s@]+@\S+) (?:v\S+ )?(?:is )?(?:has started|ready)\.\s*\Z"),
        make=lambda match, said, seen: events.WorkerReady(seen=seen, process=said.process, node=match["node"]),
        samples=("celery@host ready.", "a@web1 ready."),
        near_misses=("a@web1 is ready for shipping.", "the database is ready."),
    ),
    Pattern(
        name="shutdown-soft",
        upstream="celery/apps/worker.py, 5.5 and later",
        regex=re.compile(r"Initiating Soft Shutdown, terminating in "),
        make=_event(events.Shutdown, kind="soft"),
        samples=("Initiating Soft Shutdown, terminating in 3.0 seconds",),
        near_misses=("Initiating shutdown",),
    ),
    Pattern(
        name="shutdown-remote",
        upstream="celery/worker/control.py shutdown",
        regex=re.compile(r"Got shutdown from remote\s*\Z"),
        make=_event(events.Shutdown, kind="remote"),
        samples=("Got shutdown from remote",),
        near_misses=("Got shutdown from remote desk",),
    ),
    Pattern(
        name="shutdown-crash",
        upstream="celery/bootsteps.py Blueprint.send_all; ends a warm shutdown early with billiard 3.5",
        regex=re.compile(r"Error on (?:stopping|terminating) Pool: "),
        make=_event(events.ShutdownCrash),
        samples=("""Error on stopping Pool: TypeError("can't pickle _thread.lock objects",)""",),
        near_misses=("Error on stopping Hub: KeyError(1)",),
    ),
    Pattern(
        name="worker-crash",
        upstream="celery/worker/worker.py start",
        regex=re.compile(r"Unrecoverable error: "),
        make=_event(events.WorkerCrash),
        samples=("Unrecoverable error: MemoryError('Process got: no more')",),
        near_misses=("An Unrecoverable error: no",),
    ),
    Pattern(
        name="connection-lost",
        upstream="celery/worker/consumer/consumer.py CONNECTION_RETRY",
        regex=re.compile(r"consumer: Connection to broker lost\. "),
        make=_event(events.ConnectionLost),
        samples=("consumer: Connection to broker lost. Trying to re-establish the connection...",),
        near_misses=("consumer: Connection to broker is fine",),
    ),
)

# Lines written straight to a file descriptor, without any prefix, by every logging set-up.
_BARE = table(
    Pattern(
        name="shutdown-warm",
        upstream="celery/apps/worker.py _shutdown_handler",
        regex=re.compile(r"worker: Warm shutdown \(MainProcess\)\s*\Z"),
        make=_event(events.Shutdown, kind="warm"),
        samples=("worker: Warm shutdown (MainProcess)",),
        near_misses=("worker: Warm shutdown (MainProcess) would be nice",),
    ),
    Pattern(
        name="shutdown-cold",
        upstream="celery/apps/worker.py _shutdown_handler",
        regex=re.compile(r"worker: Cold shutdown \(MainProcess\)\s*\Z"),
        make=_event(events.Shutdown, kind="cold"),
        samples=("worker: Cold shutdown (MainProcess)",),
        near_misses=("worker: Cold start (MainProcess)",),
    ),
    Pattern(
        name="shutdown-again",
        upstream="celery/apps/worker.py; 5.5 and later print it at every cold shutdown, before at the first SIGINT",
        regex=re.compile(r"worker: Hitting Ctrl\+C again will terminate all running tasks!"),
        make=_event(events.Shutdown, kind="again"),
        samples=("worker: Hitting Ctrl+C again will terminate all running tasks!",),
        near_misses=(
            "worker: Hitting the wall",
            "worker: Hitting Ctrl+C again will initiate cold shutdown, terminating all running tasks!",
        ),
    ),
    Pattern(
        name="reexec",
        upstream="celery/apps/worker.py _reload_current_worker, install_worker_restart_handler",
        regex=re.compile(r"Restarting celery worker \("),
        make=_event(events.Reexec),
        samples=("Restarting celery worker (/opt/app/bin/celery -A kapp worker -l INFO -c 1 -P prefork)",),
        near_misses=("Restarting celery worker",),
    ),
    Pattern(
        name="banner",
        upstream="celery/apps/worker.py BANNER",
        regex=re.compile(r" ?-{14} (?P<node>\S+@\S+) v(?P<version>\d\S*)(?: \([\w -]+\))?\s*\Z"),
        make=lambda match, said, seen: events.WorkerBanner(
            seen=seen, process=said.process, node=match["node"], version=match["version"]
        ),
        samples=(" -------------- celery@vm v5.7.0 (collider)", " -------------- w1@scan1 v4.2.1 (windowlicker)"),
        near_misses=(" -------------- [queues]",),
    ),
    Pattern(
        name="pool",
        upstream="celery/apps/worker.py BANNER; an autoscaled pool prints {min=…, max=…}",
        regex=re.compile(
            r"[-* ]*\.> concurrency:\s+(?:(?P<n>\d+)|\{min=\d+, max=(?P<max>\d+)\}) \((?P<pool>[\w.:]+)\)\s*\Z"
        ),
        make=lambda match, said, seen: events.WorkerPool(
            seen=seen,
            process=said.process,
            concurrency=int(match["n"] or match["max"]),
            pool=match["pool"].rsplit(":", 1)[-1].rsplit(".", 1)[-1],
        ),
        samples=(
            "- *** --- * --- .> concurrency: 2 (prefork)",
            "- *** --- * --- .> concurrency: {min=1, max=4} (prefork)",
        ),
        near_misses=("- ** ---------- .> app:         shop:0x7f6c96597a90",),
    ),
    Pattern(
        name="queue",
        upstream="celery/app/amqp.py Queues.format, in the banner of celery/apps/worker.py",
        regex=re.compile(r"[-* ]*\.> (?P<queue>\S+)\s+exchange=[^()\s]*\(\w+\) key=\S*\s*\Z"),
        make=lambda match, said, seen: events.WorkerQueue(seen=seen, process=said.process, queue=match["queue"]),
        samples=(
            "                .> celery           exchange=celery(direct) key=celery",
            "                .> mails            exchange=(direct) key=mails.#",
        ),
        near_misses=("- ** ---------- .> transport:   redis://127.0.0.1:6379/0",),
    ),
    Pattern(
        name="shutdown-traceback",
        upstream="celery/worker/state.py maybe_shutdown, in the traceback of a loss",
        regex=re.compile(
            r"(?:celery\.exceptions\.)?(?:WorkerShutdown|(?P<cold>WorkerTerminate))(?:: (?:\d+|\w+))?\s*\Z"
        ),
        make=lambda match, said, seen: events.ShutdownTraceback(
            seen=seen, process=said.process, cold=match["cold"] is not None
        ),
        samples=("celery.exceptions.WorkerShutdown: 0", "celery.exceptions.WorkerTerminate: 1"),
        near_misses=("WorkerShutdown is near",),
    ),
    Pattern(
        name="multi",
        upstream="celery/apps/multi.py, celery/bin/multi.py; the worker's own lines go to --logfile",
        regex=re.compile(
            r"(?:celery multi v\S+ \(|> (?:Starting|Stopping|Restarting) (?:nodes|node)\b"
            r"|\t?> \S+@\S+: (?:OK|TERM|DOWN))"
        ),
        make=_event(events.LogsToFile),
        samples=("celery multi v5.7.0 (collider)", "> Stopping nodes...", "\t> w1@host: TERM -> 1234"),
        near_misses=("> quoted mail", "celery multitool"),
    ),
)

BARE = _BARE

_TASK_LOGGER = re.compile(r"(?P<name>[^\s\[\]:][^\[\]:]*)\[(?P<id>[^\[\]?]+)\]: ")  # worker_task_log_format
_SHUTDOWN_IN = re.compile(r"celery\.exceptions\.(?:WorkerShutdown|(?P<cold>WorkerTerminate)): ")


def recognise(
    message: str, seen: Callable[[], Seen]
) -> tuple[Record, tuple[events.WorkerEvent | TaskLine, ...]] | None:
    """Recognise one entry's message; None where nothing of Celery's is in it.

    `seen` makes the evidence that an event keeps; it is called only for events. A record of a pool process that says
    nothing else is a HEARD line, or a SPOKE line where it names its task.
    """
    said = record(message)
    if said is None:
        return None
    if "." in said.logger and _OURS.match(said.logger) is None:  # the app's own words, whatever they quote
        return _own_line(said)
    found = (_BARE.find(said.text) if not said.prefixed else None) or RECORDS.find(said.text)
    if found is None and said.prefixed and said.text.startswith("worker: "):
        found = _BARE.find(said.text)
    if found is not None:
        pattern, match = found
        made = pattern.make(match, said, seen() if pattern.is_event else None)
        marker = _SHUTDOWN_IN.search(said.details) if isinstance(made, events.TaskLost) else None
        if marker is not None:
            cold = marker["cold"] is not None
            return said, (made, events.ShutdownTraceback(seen=made.seen, process=said.process, cold=cold))
        return said, (made,)
    return _own_line(said)


def _own_line(said: Record) -> tuple[Record, tuple[events.WorkerEvent | TaskLine, ...]] | None:
    if not said.prefixed:
        return None
    if said.task_id:
        return said, (TaskLine(Line.SPOKE, said.task_id, said.task_name),)
    if not is_child(said.process):
        return said, ()
    match = _TASK_LOGGER.match(said.text)
    if match is not None:
        return said, (TaskLine(Line.SPOKE, match["id"], match["name"]),)
    return said, (TaskLine(Line.HEARD, "", ""),)
