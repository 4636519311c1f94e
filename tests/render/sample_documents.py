"""Documents for the tests of render/, built without the audit: every value is invented, every number adds up."""

import hashlib
import signal
import uuid
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from kill_audit.document import (
    Acceptance,
    Accepted,
    Advice,
    BlindDeath,
    Candidate,
    Coverage,
    CoverageProblem,
    Deploy,
    Document,
    Drain,
    Duplicate,
    Evidence,
    Ghost,
    IdleDeath,
    Incident,
    Kill,
    NotLoss,
    Offender,
    Row,
    RunLogFacts,
    SourceCoverage,
    Task,
    TaskReference,
    Tool,
    Totals,
    UnitAdvice,
    Window,
    timestamp,
)

MONDAY = 1_795_392_000_000_000  # 2026-11-23 00:00:00 UTC, in microseconds
MINUTE = 60_000_000
HOUR = 60 * MINUTE
DAY = 24 * HOUR

RUN_LOG = RunLogFacts(kind="postgresql", table="runs", preset="own", rows=48_211, time_zone="UTC", skew_s=0.1)
BOOT = "5f0c6f0e0b0d4a5f9f7d1d6a0a3b2c1d"
ZERO = Totals(
    kills=0, missing=0, stuck=0, accepted=0, ghosts=0, idle_deaths=0, blind_deaths=0, not_losses=0,
    by_cause={}, by_verdict={}, by_unit={}, by_task={},
)  # fmt: skip


def task_id(number: int) -> str:
    """An id as Celery makes them, always the same for a number."""
    return str(uuid.UUID(bytes=hashlib.sha256(b"task %d" % number).digest()[:16], version=4))


def kill(number: int, at: int, **changed: Any) -> Kill:
    """A child killed by a deploy while it ran a task; `changed` replaces fields, also those of the task."""
    task = Task(
        name=changed.pop("name", "shop.tasks.send_invoice"),
        id=changed.pop("task_id", task_id(number)),
        how=changed.pop("how", "accepted"),
        confidence=changed.pop("named", "high"),
        candidates=changed.pop("candidates", ()),
    )
    kill_id = hashlib.sha256(b"kill %d" % number).hexdigest()[:12]
    ran_for_s = changed.get("ran_for_s", 61.5 + number)
    usual = Kill(
        id=kill_id,
        at=timestamp(at),
        host="web1",
        boot_id=BOOT,
        unit="celery@a.service",
        invocation_id=hashlib.sha256(b"life %d" % (number // 8)).hexdigest()[:32],
        worker="a@web1",
        main_pid=1200,
        child_pid=1300 + number,
        host_pid=1300 + number,
        pool_process=f"ForkPoolWorker-{number + 1}",
        signal=15,
        signal_name="SIGTERM",
        exit_code=None,
        job=number,
        task=task,
        received_at=timestamp(at - int((ran_for_s or 0) * 1_000_000) - 20_000),
        started_at=timestamp(at - int((ran_for_s or 0) * 1_000_000)),
        ran_for_s=ran_for_s,
        cause="unit-stop",
        confidence="high",
        reasons=("the unit was being restarted", "signal 15 reached the child within 0.1s of the stop"),
        fate="lost",
        deliveries=1,
        killed_times=1,
        deploy=None,
        incident=None,
        verdict="missing",
        accepted=None,
        rows=(),
        evidence=(
            Evidence(cursor=f"s=00;i={number:x};b=00", at=timestamp(at), text=exited(number)),
            Evidence(cursor=f"s=00;i={number + 1:x};b=00", at=timestamp(at + 900_000), text=LOST.format(number)),
        ),
    )
    named = {"signal_name": signal.Signals(changed["signal"]).name} if changed.get("signal") else {}
    return msgspec.structs.replace(usual, **named, **changed)


LOST = "Task handler raised error: WorkerLostError('Worker exited prematurely: signal 15 (SIGTERM) Job: {}.')"


def exited(number: int) -> str:
    """The main process's line about a dead child."""
    return f"Process 'ForkPoolWorker-{number + 1}' pid:{1300 + number} exited with 'signal 15 (SIGTERM)'"


def whole(entries: int = 1_204_331) -> Coverage:
    """Evidence over the whole window."""
    return Coverage(verdict="complete", entries=entries, sources=(_source("celery@a.service", entries, ()),))


def partial() -> Coverage:
    """Evidence over a part of the window, with problems of several kinds; one of them in two units."""
    later = _problem("journal-starts-later", "the first entry is 2 days younger than the window's start", 0, 2 * DAY)
    dropped = _problem("suppressed-messages", "12,000 messages were dropped", 3 * DAY, 3 * DAY + 30_000_000)
    unheard = CoverageProblem(code="code-of-a-later-version", detail="something new", since=None, until=None)
    return Coverage(
        verdict="partial",
        entries=730_118,
        sources=(
            _source("celery@a.service", 700_118, (later, dropped)),
            _source("celery@b.service", 30_000, (later, unheard)),
        ),
    )


def nothing() -> Coverage:
    """No evidence at all."""
    denied = CoverageProblem(code="no-permission", detail="the user is not in systemd-journal", since=None, until=None)
    return Coverage(verdict="none", entries=0, sources=(_source(None, 0, (denied,)),))


def _problem(code: str, detail: str, since: int, until: int) -> CoverageProblem:
    return CoverageProblem(code=code, detail=detail, since=timestamp(MONDAY + since), until=timestamp(MONDAY + until))


def _source(unit: str | None, entries: int, problems: tuple[CoverageProblem, ...]) -> SourceCoverage:
    return SourceCoverage(
        host="web1",
        boot_id=BOOT,
        unit=unit,
        source="/var/log/journal",
        first=timestamp(MONDAY) if entries else None,
        last=timestamp(MONDAY + 7 * DAY) if entries else None,
        entries=entries,
        problems=problems,
    )


def document(kills: Iterable[Kill] = (), **changed: Any) -> Document:
    """The report of a week with these kills; `changed` replaces parts, and the totals are counted from the rest."""
    killed = tuple(kills)
    base = Document(
        format="kill-audit/report",
        version=1,
        tool=Tool(name="kill-audit", version="1.2.3"),
        generated_at=timestamp(MONDAY + 7 * DAY + 3 * HOUR),
        window=Window(since=timestamp(MONDAY), until=timestamp(MONDAY + 7 * DAY)),
        coverage=whole(),
        run_log=RUN_LOG,
        totals=ZERO,
        previous=None,
        deploys=(),
        incidents=(),
        kills=killed,
        idle_deaths=(),
        blind_deaths=(),
        ghosts=(),
        duplicates=(),
        offenders=_offenders(killed),
        not_losses=(),
        acceptances=(),
        advice=Advice(drain=(), units=()),
    )
    filled = msgspec.structs.replace(base, **changed)
    return msgspec.structs.replace(filled, totals=_totals(filled))


def _offenders(kills: tuple[Kill, ...]) -> tuple[Offender, ...]:
    names = Counter(one.task.name for one in kills if one.task.name is not None)
    return tuple(
        Offender(task=name, kills=number, lost_s=sum(k.ran_for_s or 0 for k in kills if k.task.name == name))
        for name, number in names.most_common()
    )


def _totals(filled: Document) -> Totals:
    kills = filled.kills
    verdicts = Counter(one.verdict for one in kills if one.verdict is not None)
    return Totals(
        kills=len(kills),
        missing=verdicts["missing"],
        stuck=verdicts["stuck"],
        accepted=sum(one.accepted is not None for one in kills),
        ghosts=len(filled.ghosts),
        idle_deaths=len(filled.idle_deaths),
        blind_deaths=len(filled.blind_deaths),
        not_losses=len(filled.not_losses),
        by_cause=dict(Counter(one.cause for one in kills).most_common()),
        by_verdict=dict(verdicts.most_common()),
        by_unit=dict(Counter(one.unit or "" for one in kills).most_common()),
        by_task=dict(Counter(one.task.name or "" for one in kills).most_common()),
    )


def deploys_only() -> Document:
    """119 runs killed in three deploys, none of them in the run log: the sentence that the product was made for."""
    deploys: list[Deploy] = []
    kills: list[Kill] = []
    tasks = ("shop.tasks.send_invoice", "shop.tasks.sync_stock", "shop.reports.monthly")
    for at, size in enumerate((52, 40, 27)):
        start = MONDAY + at * 2 * DAY + 9 * HOUR
        deploys.append(_deploy(at, start, size))
        kills += [
            kill(
                len(kills) + number,
                start + number * 40_000,
                unit="celery@b.service" if number % 3 == 0 else "celery@a.service",
                name=tasks[number % 3],
                deploy=f"d{at + 1}",
                ran_for_s=12.0 + 37.0 * number,
            )
            for number in range(size)
        ]
    advice = Advice(
        drain=(
            Drain(unit="celery@a.service", timeout_s=600, saved=61, of=79),
            Drain(unit="celery@b.service", timeout_s=600, saved=None, of=40),
        ),
        units=tuple(
            UnitAdvice(
                unit=unit,
                problem="kills-children",
                setting="KillMode",
                now="control-group",
                better="mixed",
                why="systemd sends the stop signal to every pool child, so no running task can finish",
            )
            for unit in ("celery@a.service", "celery@b.service")
        ),
    )
    before = msgspec.structs.replace(ZERO, kills=98, missing=98, by_cause={"unit-stop": 90, "oom-kernel": 8})
    return document(kills, deploys=tuple(deploys), advice=advice, previous=before)


def _deploy(
    at: int, start: int, kills: int, units: tuple[str, ...] = ("celery@a.service", "celery@b.service")
) -> Deploy:
    return Deploy(
        id=f"d{at + 1}",
        label=f"release 2026.{41 + at}",
        since=timestamp(start),
        until=timestamp(start + 2 * MINUTE),
        units=units,
        kills=kills,
        drained=3,
        requeued=1,
    )


def mixture() -> Document:
    """One of everything: deploys, OOM, time limits, a crash, every verdict, ghosts, duplicates, blind deaths."""
    deploy = MONDAY + DAY + 9 * HOUR + 12 * MINUTE
    night = MONDAY + 3 * DAY + 3 * HOUR + 12 * MINUTE
    oom = {"cause": "oom-kernel", "signal": 9, "unit": "celery@reports.service"}
    stop = {"cause": "unit-stop", "deploy": "d1"}
    row = Row(key="48210", status="running", started_at=timestamp(night - HOUR), finished_at=None)
    kills = (
        kill(1, deploy, **stop, ran_for_s=4_000.0),
        kill(2, deploy + 90_000, **stop, ran_for_s=75.0, verdict="recovered", fate="redelivered", deliveries=2),
        kill(3, deploy + 95_000, **stop, verdict="unsettled"),
        kill(
            4,
            night,
            **oom,
            name="shop.reports.monthly",
            verdict="stuck",
            rows=(row,),
            incident="i1",
            ran_for_s=86_400.0 * 1.5,
        ),
        kill(
            5, night + 300_000, **oom, how="job", named="medium", incident="i1", started_at=None, confidence="medium"
        ),
        kill(
            6, night + 2 * HOUR, cause="hard-time-limit", how="line", signal=9, verdict="recorded", ran_for_s=1_800.0
        ),
        kill(7, night + 3 * HOUR, cause="crash", signal=11, how="process", verdict="contradicted", fate="redelivered"),
        kill(8, night + 4 * HOUR, cause="exit", signal=None, signal_name=None, exit_code=3, verdict="ambiguous"),
        kill(
            9,
            night + 5 * HOUR,
            cause="unknown",
            confidence="low",
            name=None,
            task_id=None,
            how="none",
            named=None,
            ran_for_s=None,
            started_at=None,
            received_at=None,
            fate="unknown",
            verdict="uncovered",
            unit=None,
            candidates=(
                Candidate(name="shop.tasks.sync_stock", id=task_id(901), how="elimination"),
                Candidate(name="shop.tasks.send_invoice", id=task_id(902), how="elimination"),
            ),
        ),
        kill(
            10,
            night + 6 * HOUR,
            cause="manual-signal",
            ran_for_s=9.25,
            accepted=Accepted(
                reason="the operator's own test",
                until="2027-01-01T00:00:00.000000Z",
                by="cause manual-signal",
                where="kill-audit.accepted.toml:12",
            ),
        ),
        kill(
            11, night + 7 * HOUR, cause="host-reboot", host="web2", fate="pending", verdict="stuck", how="elimination"
        ),
    )
    return document(
        kills,
        coverage=partial(),
        deploys=(_deploy(0, deploy, 3), _deploy(1, deploy + DAY, 0)),
        incidents=(
            Incident(
                id="i1",
                cause="oom-kernel",
                since=timestamp(night),
                until=timestamp(night + 300_000),
                units=("celery@reports.service",),
                kills=2,
                culprit=kills[3].id,
            ),
        ),
        **_findings(night),
    )


def _findings(night: int) -> dict[str, Any]:
    return {
        "idle_deaths": tuple(
            IdleDeath(
                at=timestamp(night + number * MINUTE),
                host="web1",
                unit="celery@a.service",
                child_pid=1400 + number,
                signal=15,
                exit_code=None,
                cause="unit-stop",
            )
            for number in range(4)
        ),
        "blind_deaths": (
            BlindDeath(
                at=timestamp(night + 8 * HOUR),
                host="web1",
                unit="celery@quiet.service",
                main_pid=2200,
                signal=9,
                cause="oom-kernel",
                max_tasks=8,
                why="the unit's log level hides which tasks it had received",
            ),
        ),
        "ghosts": (
            Ghost(
                key="48100",
                task=TaskReference(name="shop.tasks.sync_stock", id=task_id(77)),
                started_at=timestamp(night - 5 * DAY),
                reasons=("the worker was restarted since", "no kill of the window claims the row"),
            ),
            Ghost(key="48101", task=TaskReference(name=None, id=None), started_at=None, reasons=("its boot is over",)),
        ),
        "duplicates": (
            Duplicate(task=TaskReference(name="shop.tasks.charge", id=task_id(78)), deliveries=3, finished=2),
        ),
        "not_losses": (
            NotLoss(
                at=timestamp(night),
                host="web1",
                unit="celery@a.service",
                text="Process 'ForkPoolWorker-3' pid:1402 exited with 'exitcode 155'",
                why="the task had succeeded before its process ended",
            ),
        ),
        "acceptances": (
            Acceptance(
                where="kill-audit.accepted.toml:12",
                by="cause manual-signal",
                reason="the operator's own test",
                until="2027-01-01T00:00:00.000000Z",
                kills=1,
                stale=None,
            ),
            Acceptance(
                where="kill-audit.accepted.toml:20",
                by="task shop.imports.*",
                reason="until the importer is split (OPS-77)",
                until="2026-11-01T00:00:00.000000Z",
                kills=0,
                stale="expired",
            ),
            Acceptance(
                where="kill-audit.accepted.toml:27",
                by="cause oom-*, unit celery@old.service",
                reason="too small a host, to be replaced",
                until=None,
                kills=0,
                stale="unmatched",
            ),
            Acceptance(
                where="kill-audit.accepted.toml:33",
                by="id 0123456789ab",
                reason="refunded by hand",
                until=None,
                kills=0,
                stale="gone",
            ),
        ),
        "advice": Advice(
            drain=(Drain(unit="celery@a.service", timeout_s=90, saved=1, of=1),),
            units=(
                UnitAdvice(
                    unit="celery@reports.service",
                    problem="oom-stops-unit",
                    setting="OOMPolicy",
                    now=None,
                    better="continue",
                    why="one child that ran out of memory took the unit's other tasks with it",
                ),
            ),
        ),
    }


RED = "\x1b[31mred\x1b[0m"
RIGHT_TO_LEFT = "invoice\u202egnp.exe"


def hostile() -> Document:
    """Names and texts that try to drive the terminal, the markup, the table, the formula and the page."""
    names = (
        "[red]markup[/red] [link=http://example.org]x[/link] :bomb:",
        f"tasks.{RED}\r\n\x07\x9b31mforged line",
        RIGHT_TO_LEFT + "\u2066\u200b\u2028\u00ad",
        "<script>alert(1)</script><img src=x onerror=alert(2)>",
        '=HYPERLINK("http://example.org","x")',
        "| a | b |\n# heading `code` **bold** ![i](http://example.org/i.png) <b>",
        "\u05de\u05e9\u05d9\u05de\u05d4.\u05d7\u05e9\u05d1\u05d5\u05e0\u05d9\u05ea \u4efb\u52a1\uff0e\u53d1\u7968",
        "quote\" back\\slash 'single' {{ 7 * 7 }} {% raw %} ${x} \ud7ff",
    )
    kills = [
        kill(
            number,
            MONDAY + number * HOUR,
            name=name,
            task_id=name if number % 2 else task_id(number),
            unit=f"celery@{name}.service",
            host=name,
            cause="unknown",
            reasons=(name,),
            evidence=(Evidence(cursor=name, at=timestamp(MONDAY), text=name),),
            accepted=Accepted(reason=name, until=None, by=f"task {name}", where=f"{name}:1") if number == 0 else None,
            deploy="d1",
            candidates=(Candidate(name=name, id=name, how="none"),),
        )
        for number, name in enumerate(names)
    ]
    everywhere = " ".join(names)
    problem = CoverageProblem(code="damaged", detail=everywhere, since=None, until=None)
    return document(
        kills,
        coverage=Coverage(verdict="partial", entries=10, sources=(_source(everywhere, 10, (problem,)),)),
        run_log=msgspec.structs.replace(RUN_LOG, table=everywhere),
        deploys=(msgspec.structs.replace(_deploy(0, MONDAY, len(kills)), label=everywhere),),
        ghosts=(
            Ghost(key=everywhere, task=TaskReference(name=names[0], id=names[1]), started_at=None, reasons=names),
        ),
        acceptances=tuple(
            Acceptance(where=name, by=name, reason=name, until=None, kills=number, stale="gone" if number else None)
            for number, name in enumerate(names)
        ),
    )


def crowd(number: int = 5_000) -> Document:
    """A bad week: many kills over many tasks, units, deploys and days."""
    causes = ("unit-stop", "stop-timeout", "oom-kernel", "hard-time-limit", "crash")
    verdicts = ("missing", "missing", "stuck", "recovered", "recorded")
    deploys = tuple(_deploy(at, MONDAY + at * 8 * HOUR, number // 40) for at in range(20))
    return document(
        (
            kill(
                at,
                MONDAY + at * (7 * DAY // number),
                name=f"shop.tasks.job_{at % 37}",
                unit=f"celery@{at % 12}.service",
                cause=causes[at % 5],
                verdict=verdicts[at % 7 % 5],
                deploy=f"d{at % 20 + 1}" if at % 2 else None,
                ran_for_s=float(at * 7919 % 100_003),
            )
            for at in range(number)
        ),
        deploys=deploys,
    )


SAMPLES: dict[str, Callable[[], Document]] = {
    "deploys": deploys_only,
    "mixture": mixture,
    "hostile": hostile,
    "nothing-found": document,
    "nothing-found-partial": lambda: document(coverage=partial()),
    "nothing-found-none": lambda: document(coverage=nothing(), run_log=None),
    "one-kill": lambda: document([kill(0, MONDAY + HOUR)]),
    "no-run-log": lambda: document(
        [kill(number, MONDAY + number * HOUR, verdict=None) for number in range(2)], run_log=None
    ),
}
"""Documents whose every form is held whole in golden/."""
