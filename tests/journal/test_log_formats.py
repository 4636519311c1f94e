"""The log formats that people configure, and what collectors put in front: the same kill is read from each."""

import datetime as dt
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from kill_audit.audit import audit
from kill_audit.document import Document
from kill_audit.entry import Question
from kill_audit.journal import open_sources
from kill_audit.when import moment

DAY = dt.datetime(2026, 11, 20, 12, tzinfo=dt.UTC)
FIRST, SECOND = "3f0f1c1e-0d4b-4a5e-9a55-0123456789ab", "7aa01c1e-0d4b-4a5e-9a55-0123456789ab"


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """A record: when (seconds after noon, UTC), its level, logger, function and process, and its text."""

    second: float
    text: str
    level: str = "INFO"
    logger: str = "celery.worker.strategy"
    function: str = "task_message_handler"
    process: str = "MainProcess"
    pid: int = 100

    @property
    def at(self) -> dt.datetime:
        """Its time."""
        return DAY + dt.timedelta(seconds=self.second)

    @property
    def named(self) -> dict[str, object]:
        """Its parts by the names that the templates below use."""
        at = self.at
        return {
            "date": f"{at:%Y-%m-%d}", "clock": f"{at:%H:%M:%S}", "ms": f"{at.microsecond // 1000:03d}",
            "us": f"{at.microsecond:06d}", "level": self.level, "lower": self.level.lower(), "logger": self.logger,
            "function": self.function, "process": self.process, "pid": self.pid, "text": self.text,
            "syslog": f"{at:%b %d %H:%M:%S}", "slashes": f"{at:%d/%b/%Y %H:%M:%S}", "epoch": f"{at.timestamp():.6f}",
            "celery": f"[{at:%Y-%m-%d %H:%M:%S},{at.microsecond // 1000:03d}: {self.level}/{self.process}] "
            + self.text,
        }  # fmt: skip


def said(*, old: bool) -> tuple[Said, ...]:
    """Two tasks are received, one succeeds, and the process of the other is killed, as Celery 3.1 or 5 says it."""
    received = "Received task: {}[{}]" if old else "Task {}[{}] received"
    status = "" if old else " Job: 1"
    return (
        Said(second=1, text=received.format("shop.tasks.a", FIRST)),
        Said(second=2, text=received.format("shop.tasks.b", SECOND)),
        Said(
            second=3.5, text=f"Task shop.tasks.a[{FIRST}] succeeded in 2.5s: None", logger="celery.app.trace",
            function="info", process="ForkPoolWorker-1", pid=101,
        ),
        Said(
            second=9.123, text="Process 'ForkPoolWorker-2' pid:102 exited with 'signal 9 (SIGKILL)'", level="ERROR",
            logger="multiprocessing", function="_join_exited_workers",
        ),
        Said(
            second=9.14, level="ERROR", logger="celery.worker.request", function="on_failure",
            text="Task handler raised error: "
            f"WorkerLostError('Worker exited prematurely: signal 9 (SIGKILL){status}.')",
        ),
    )  # fmt: skip


LINES = {
    "Celery's own": "{celery}",
    "with a pid": "[{date} {clock},{ms}: {level}/{process}/{pid}] {text}",
    "with the logger behind it": "[{date} {clock},{ms}: {level}/{process}] [{logger}] {text}",
    "with the logger and its line behind it": "[{date} {clock},{ms}: {level}/{process}] {logger}:161 {text}",
    "with the task's id behind it": "[{date} {clock},{ms}: {level}/{process}] [None(None)] {text}",
    "with an ISO 8601 stamp": "[{date}T{clock}.{us}+00:00: {level}/{process}] {text}",
    "coloured": "\x1b[31;1m{celery}\x1b[0m",
    "loguru": "{date} {clock}.{ms} | {level:<8} | {logger}:{function}:161 - {text}",
    "loguru without a logger": "{date} {clock}.{ms} | {level} | {text}",
    "structlog": "{date}T{clock}.{us}Z [{lower:<9}] {text} [{logger}]",
    "structlog with pairs": "{date} {clock} [{lower:<9}] {text:<60} [{logger}] process={process} more='a b'",
    "logging.basicConfig": "{date} {clock} {level}:{logger}:{text}",
    "a level first": "{level}:{date} {clock},{ms}:{logger}:{text}",
    "Django's verbose": "{level} {date} {clock},{ms} strategy {pid} 140213 {text}",
    "a stamp alone": "{date} {clock},{ms} {text}",
    "words alone": "{date} {clock},{ms} {level} {logger} {text}",
    "words, pid and thread": "{date} {clock},{ms} {pid} MainThread {level} {logger} {text}",
    "dashes": "{date} {clock},{ms} - {logger} - {level} - {text}",
    "colons": "{date} {clock},{ms}:{level}:{logger}:{text}",
    "brackets": "[{date} {clock}] [{level}] [{logger}] {text}",
    "brackets and a file": "{date} {clock} [{level}] {function}.py:161: {text}",
    "slashes": "[{slashes}] {level} [{logger}:161] {text}",
    "braces, as Airflow": "[{date}T{clock}.{ms}+0000] {{{function}.py:161}} {level} - {text}",
    "trace ids": "{date} {clock},{ms} {level} [{logger}] [a.py:5] [trace_id=0 span_id=0 trace_sampled=False] - {text}",
    "logfmt": 'time={date}T{clock}.{ms}Z level={lower} msg="{text}" logger={logger}',
    "logfmt, the text last": 'level={lower} ts={date}T{clock}.{us}Z logger={logger} event="{text}"',
    "syslog": "{syslog} web1 celery[100]: {celery}",
    "syslog without a pid": "{syslog} ip-10-0-0-1 web: {celery}",
    "RFC 5424": "<30>1 {date}T{clock}.{us}+00:00 web1 celery 100 - - {celery}",
    "rsyslog": "{date}T{clock}.{us}+00:00 web1 celery[100]: {celery}",
    "journalctl -o short-iso": "{date}T{clock}+0000 web1 celery[100]: {celery}",
    "journalctl -o short-full": "Fri {date} {clock} UTC web1 celery[100]: {celery}",
    "journalctl -o short-unix": "{epoch} web1 celery[100]: {celery}",
    "journalctl -o with-unit": "Fri {date} {clock} UTC web1 celery@a.service[100]: {celery}",
    "docker compose": "worker-1  | {celery}",
    "docker compose -t": "worker-1  | {date}T{clock}.{us}123Z {celery}",
    "the kubelet": "{date}T{clock}.{us}123Z stderr F {celery}",
    "kubectl --prefix": "[pod/worker-7d9f/worker] {celery}",
    "stern": "worker-7d9f-abc worker {celery}",
    "Heroku": "{date}T{clock}.{us}+00:00 app[worker.1]: {celery}",
    "CloudWatch": "{date}T{clock}.{ms}Z {celery}",
}


def _json(said: Said, *names: str, **more: object) -> str:
    """A record as a JSON object; `names` pairs its keys with parts of the record."""
    found = (name.partition("=") for name in names)
    return json.dumps({key: str(value).format(**said.named) for key, _, value in found} | more)


OBJECTS: dict[str, Callable[[Said], str]] = {
    "structlog": lambda one: _json(one, "event={text}", "level={lower}", "logger={logger}",
                                   "timestamp={date}T{clock}.{us}Z"),
    "python-json-logger": lambda one: _json(one, "asctime={date} {clock},{ms}", "levelname={level}", "name={logger}",
                                            "processName={process}", "message={text}", process=one.pid),
    "logstash": lambda one: _json(one, "@timestamp={date}T{clock}.{ms}Z", "message={text}", "level={level}",
                                  "logger_name={logger}", host="web1"),
    "Elastic Common Schema": lambda one: _json(one, "@timestamp={date}T{clock}.{ms}Z", "log.level={lower}",
                                               "message={text}", log={"logger": one.logger}),
    "Google Cloud": lambda one: _json(one, "severity={level}", "time={date}T{clock}.{us}Z", "message={celery}"),
    "Docker's json-file": lambda one: _json(one, "log={celery}\n", "time={date}T{clock}.{us}123Z", stream="stderr"),
    "loguru": lambda one: json.dumps({"text": one.text, "record": {
        "level": {"name": one.level, "no": 20}, "message": one.text, "name": one.logger,
        "process": {"id": one.pid, "name": one.process}, "time": {"repr": one.at.isoformat(),
                                                                  "timestamp": one.at.timestamp()}}}),
}  # fmt: skip


def report(lines: list[str], folder: Path) -> Document:
    """What is found in a log file of these lines."""
    file = folder / "worker.log"
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    since, until = (moment(text, now=0, zone=dt.UTC) for text in ("2026-11-20 00:00 UTC", "2026-11-21 00:00 UTC"))
    question = Question(
        since=since, until=until, read_since=since, read_until=until, assume_timezone="UTC", assume_year=2026
    )
    return audit(
        open_sources(files=[str(file)]), None, question, lambda f, items: [f(item) for item in items], now=until
    )


def kills(document: Document) -> list[tuple[object, ...]]:
    """The kills in short."""
    return [(kill.task.id, kill.task.name, kill.child_pid, kill.signal, kill.at[11:19]) for kill in document.kills]


@pytest.mark.parametrize("old", [pytest.param(False, id="5.x"), pytest.param(True, id="3.1")])
@pytest.mark.parametrize("template", [pytest.param(line, id=name) for name, line in LINES.items()])
def test_a_kill_is_read_from_each_format(template: str, old: bool, tmp_path: Path) -> None:
    """Exit and loss line are one kill, with the process, the task and the time, whatever stands around them."""
    lines = [template.format(**one.named) for one in said(old=old)]
    assert kills(report(lines, tmp_path)) == [(SECOND, "shop.tasks.b", 102, 9, "12:00:09")]


@pytest.mark.parametrize("old", [pytest.param(False, id="5.x"), pytest.param(True, id="3.1")])
@pytest.mark.parametrize("form", [pytest.param(form, id=name) for name, form in OBJECTS.items()])
def test_a_kill_is_read_from_each_json_format(form: Callable[[Said], str], old: bool, tmp_path: Path) -> None:
    """The same where each record is a JSON object, or lies in one."""
    assert kills(report([form(one) for one in said(old=old)], tmp_path)) == [
        (SECOND, "shop.tasks.b", 102, 9, "12:00:09")
    ]


@pytest.mark.parametrize(
    "template",
    [
        pytest.param("{date} {clock},{ms} {level} shop {text}", id="another's word before it"),
        pytest.param("{date} {clock},{ms} {level} shop.tasks {text}", id="another's logger"),
        pytest.param("{date} {clock} {level}:shop.views:{text}", id="another's logger and colons"),
        pytest.param("{date} {clock} [{lower}] {text} [shop.views]", id="structlog of another"),
        pytest.param('level={lower} ts={date}T{clock}Z logger=shop.views msg="seen: {text}"', id="logfmt that quotes"),
        pytest.param(
            '{{"time": "{date}T{clock}Z", "level": "{lower}", "logger": "shop.views", "message": "{text}"}}',
            id="JSON of another's logger",
        ),
        pytest.param("{date} {clock} {level} the worker said {text}", id="a sentence"),
        pytest.param("[{date} {clock},{ms}: {level}/ForkPoolWorker-1] {text}", id="a pool process"),
        pytest.param("[{date} {clock},{ms}: {level}/ForkPoolWorker-1] [celery.worker] {text}", id="one that pretends"),
    ],
)
def test_what_others_say_is_no_kill(template: str, tmp_path: Path) -> None:
    """The same words by another program's logger, by a task, or in a sentence are no record of the main process."""
    lines = [LINES["Celery's own"].format(**one.named) for one in said(old=False)[:3]]
    lines += [template.format(**one.named) for one in said(old=False)[3:]]
    assert kills(report(lines, tmp_path)) == []
