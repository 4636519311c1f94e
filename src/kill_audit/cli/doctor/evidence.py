"""What stands in the way of the evidence: each kind of coverage problem, and each worker's unit."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import tzinfo

from kill_audit import when
from kill_audit.cli.doctor.check import Check, State
from kill_audit.cli.doctor.look import Look
from kill_audit.coverage import INFORMATIONAL, Covered, Judgement
from kill_audit.entry import Micros, Problem, Question
from kill_audit.timeline import Life
from kill_audit.units import Found, SeenUnit, UnitSettings

SLACK = 60_000_000  # µs; a host may be silent for a while
FEW_KNOWN = 0.5  # the rest is what tasks print; below this share, and without a task line, the format is doubtful
FUTURE = 5_000_000  # µs; entries this much later than now are of a clock that was wrong


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """Coverage problems that are one check. `fine`: what is said when there are none; `fix`: what to type."""

    name: str
    codes: frozenset[str]
    state: State
    fine: str
    fix: str


TOPICS = (
    Topic(
        name="permission",
        codes=frozenset({"no-permission"}),
        state="fail",
        fine="every journal file may be read",
        fix="sudo usermod -aG systemd-journal $(id -un)    (and log in again)",
    ),
    Topic(
        name="storage",
        codes=frozenset({"volatile"}),
        state="warn",
        fine="the journal is kept over reboots",
        fix="sudo mkdir -p /var/log/journal && sudo systemctl restart systemd-journald && sudo journalctl --flush",
    ),
    Topic(
        name="damage",
        codes=frozenset({"damaged", "truncated", "unsupported", "reader-failed", "null-message"}),
        state="warn",
        fine="every source could be read to its end",
        fix="journalctl --verify --file FILE    (export JSON with --all, and copies again)",
    ),
    Topic(
        name="rate limit",
        codes=frozenset({"suppressed-messages"}),
        state="warn",
        fine="no line of a worker was dropped",
        fix="sudo systemctl edit UNIT    ([Service] LogRateLimitIntervalSec=0, then restart it)",
    ),
    Topic(
        name="kernel lines",
        codes=frozenset({"missed-kernel-messages"}),
        state="warn",
        fine="no kernel line is reported missing",
        fix="add log_buf_len=4M to the kernel's command line",
    ),
    Topic(
        name="boots",
        codes=frozenset({"boot-without-end"}),
        state="warn",
        fine="every boot has an orderly end",
        fix="last -x reboot shutdown    (SyncIntervalSec=30s in journald.conf loses less)",
    ),
)


def problem_checks(judgement: Judgement, *, live: bool) -> Iterator[Check]:
    """Give a check for each topic, and for each kind of coverage problem that none of them is about.

    `live`: a host's own journal is read, and no copy, which does not show where it was kept.
    """
    found: dict[str, list[tuple[Covered, Problem]]] = defaultdict(list)
    for covered in judgement.covered:
        for problem in covered.problems:
            found[problem.code].append((covered, problem))
    for topic in TOPICS:
        problems = [one for code in sorted(topic.codes) for one in found.pop(code, ())]
        if problems:
            yield Check(name=topic.name, state=topic.state, detail=_told(problems), fix=_fix(topic, problems[0]))
        elif live or topic.name != "storage":
            yield Check(name=topic.name, state="ok", detail=topic.fine)
    for code in sorted(found.keys() - _ELSEWHERE):
        state: State = "ok" if code in INFORMATIONAL else "warn"
        yield Check(name=code, state=state, detail=_told(found[code]), fix="kill-audit report -x")


# These are seen to by `retention_checks` and `unit_checks`, which know more.
_ELSEWHERE = frozenset(
    {"journal-starts-later", "journal-ends-earlier", "quiet-log-level", "logs-to-file", "no-worker"}
)


def _told(problems: Sequence[tuple[Covered, Problem]]) -> str:
    covered, first = problems[0]
    host = covered.stretch.host if covered.stretch is not None else None
    place = " on ".join(word for word in (first.unit, host) if word)
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    return f"{place or covered.source}: {first.detail}{more}"


def _fix(topic: Topic, problem: tuple[Covered, Problem]) -> str:
    covered, first = problem
    return topic.fix.replace("UNIT", first.unit or "UNIT").replace("FILE", covered.source)


# -- how far back -------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """How far a host's entries reach, and what they take of the space that they may (`space`, "" if unknown)."""

    host: str
    first: Micros
    last: Micros
    space: str
    starts_lack: bool


def retention_checks(
    looks: Sequence[Look], lives: Iterable[Life], question: Question, now: Micros, zone: tzinfo, *, live: bool
) -> Iterator[Check]:
    """Say for each host how far its entries reach, against the window and its lead-in.

    Args:
        looks: what was read.
        lives: the workers; the lead-in is short only if the start of one that touches the window was not read.
        question: the window.
        now: the present.
        zone: in which times are shown.
        live: as in `problem_checks`.
    """
    hosts = _reaches(looks, lives, question)
    if not hosts:
        yield Check(
            name="retention",
            state="fail",
            detail="no entry at all from the window's start, less the lead-in, to its end",
            fix="journalctl --list-boots    (then choose --since and --until)",
        )
    until = min(question.until, now)
    for one in hosts:
        yield _retention(one, question, zone, KEEP_MORE if live else COPY_MORE)
        if one.last < until - max(SLACK, (until - question.since) // 50):
            yield Check(
                name="newest entry",
                state="warn",
                detail=f"{one.host}: the last entry is of {when.describe(one.last, zone)}, before the window's end",
                fix="systemctl status systemd-journald" if live else COPY_MORE,
            )


def _reaches(looks: Sequence[Look], lives: Iterable[Life], question: Question) -> tuple[Reach, ...]:
    spans: dict[str, tuple[str, Micros, Micros]] = {}
    for one in looks:
        for stretch in one.partial.stretches:
            _, first, last = spans.get(stretch.machine, ("", stretch.first, stretch.last))
            spans[stretch.machine] = (stretch.host, min(first, stretch.first), max(last, stretch.last))
    said = sorted((usage for one in looks for usage in one.usages), key=lambda usage: usage.at)
    usages = {usage.machine: f"; {usage.path} takes {usage.use} of at most {usage.most}" for usage in said}
    headless = {life.group.machine for life in lives if life.started is None and life.last.at >= question.since}
    found = [
        Reach(host=host, first=first, last=last, space=usages.get(machine, ""), starts_lack=machine in headless)
        for machine, (host, first, last) in spans.items()
    ]
    return tuple(sorted(found, key=lambda reach: reach.host))


def _retention(one: Reach, question: Question, zone: tzinfo, fix: str) -> Check:
    said = f"{f'{one.host}: ' if one.host else ''}entries reach back to {when.describe(one.first, zone)}"
    if one.first > question.since + SLACK:
        lacking = when.human_span(one.first - question.since)
        detail = f"{said}: the first {lacking} of the window are not there{one.space}"
        return Check(name="retention", state="warn", detail=detail, fix=fix)
    whole_lead_in = one.first <= question.read_since + max(SLACK, (question.since - question.read_since) // 50)
    if whole_lead_in or not one.starts_lack:
        over = "the window and its lead-in" if whole_lead_in else "the window and each of its workers' starts"
        return Check(name="retention", state="ok", detail=f"{said}, over {over}{one.space}")
    lead, wanted = (when.human_span(question.since - at) for at in (one.first, question.read_since))
    detail = (
        f"{said}: over the window, but {lead} of its {wanted} lead-in; a task received before has no name{one.space}"
    )
    return Check(name="retention", state="warn", detail=detail, fix=fix)


KEEP_MORE = (
    "sudo mkdir -p /etc/systemd/journald.conf.d && printf '[Journal]\\nSystemMaxUse=8G\\n' | "
    "sudo tee /etc/systemd/journald.conf.d/60-kill-audit.conf && sudo systemctl restart systemd-journald"
)
COPY_MORE = "journalctl -o export --since TIME > FILE    (on that host: copy more, or choose another window)"


# -- units --------------------------------------------------------------------


def unit_checks(seen: Sequence[SeenUnit], looks: Sequence[Look], known: Found, question: Question) -> Iterator[Check]:
    """Say for each worker's unit whether its lines show what it does.

    `known`: settings of these and of other units that the service manager told of; those of them whose ExecStart
    starts a worker have no line of it.
    """
    names = {one.unit for one in seen}
    silent = [one for one in known.settings.values() if one.commands and one.unit not in names]
    if not seen and not silent:
        named = f" among {', '.join(question.units)}" if question.units else ""
        yield Check(
            name="units",
            state="fail",
            detail=f"no unit{named} has a Celery worker's lines in the window: it logs to files, its log level hides "
            "all, or it runs on another host",
            fix="systemctl list-units 'celery*'; journalctl -u celery -n 20",
        )
    for one in seen:
        key = (one.machine, one.unit)
        total = sum(look.lines.get(key, 0) for look in looks)
        share = sum(look.known.get(key, 0) for look in looks) / total if total else None
        yield _unit(one, total, share, known.settings.get(one.unit))
    for settings in silent:
        yield (
            _in_files(settings.unit, settings)
            if settings.logs_to_files
            else Check(
                name="unit",
                state="fail",
                detail=f"{settings.unit}: ExecStart starts a Celery worker, and no line of it is in the journal",
                fix=f"systemctl status {settings.unit}; journalctl -u {settings.unit} -n 20",
            )
        )


def _unit(one: SeenUnit, total: int, share: float | None, settings: UnitSettings | None) -> Check:
    name = " on ".join(word for word in (one.unit, one.host) if word) or "a worker of no unit"
    rate = "" if share is None else f"; {share:.0%} of its {total:,} log lines are understood"
    if one.task_lines != "visible" and (one.log_file or (settings and settings.logs_to_files)):
        return _in_files(name, settings)
    if one.task_lines == "hidden":
        levels = [command.log_level for command in settings.commands if command.log_level] if settings else []
        level = f" (ExecStart says {levels[0]})" if levels else ""
        return Check(
            name="unit",
            state="fail",
            detail=f"{name}: its log level hides which tasks it receives{level}{rate}",
            fix=f"sudo systemctl edit --full {one.unit}    (-l INFO in ExecStart, then restart it)",
        )
    if share is not None and share < FEW_KNOWN and one.task_lines != "visible":
        return Check(
            name="unit",
            state="warn",
            detail=f"{name}: no task line{rate}: its log format may not be understood",
            fix=f"journalctl -u {one.unit} -n 50    (worker_log_format should name the level and the process)",
        )
    lines = "task lines are visible" if one.task_lines == "visible" else "no task line yet"
    return Check(name="unit", state="ok", detail=f"{name}: {lines}{rate}")


def _in_files(name: str, settings: UnitSettings | None) -> Check:
    files = settings.log_files if settings else ()
    return Check(
        name="unit",
        state="fail",
        detail=f"{name}: its workers write to {' and '.join(files) or 'log files'}, not to the journal",
        fix="kill-audit report " + (" ".join(f"--file '{file}'" for file in files) or "--file LOGFILE"),
    )


# -- clock --------------------------------------------------------------------


def clock_check(looks: Iterable[Look], now: Micros, skew_s: float | None, zone: tzinfo) -> Check:
    """Say whether the clocks that wrote the evidence agree with this host's."""
    newest = max((one.newest for one in looks), default=0)
    if newest > now + FUTURE:
        return Check(
            name="clock",
            state="warn",
            detail=f"there are entries of {when.describe(newest, zone)}, {when.human_span(newest - now)} from now",
            fix="timedatectl    (and sudo timedatectl set-ntp true, on both hosts)",
        )
    if skew_s is not None and abs(skew_s) > 1:
        way = "ahead of" if skew_s > 0 else "behind"
        return Check(
            name="clock",
            state="warn",
            detail=f"the database's clock is {abs(skew_s):.1f} s {way} this host's",
            fix="timedatectl    (and sudo timedatectl set-ntp true, on both hosts)",
        )
    against = "" if skew_s is None else f"; the database's clock differs by {abs(skew_s):.1f} s"
    return Check(name="clock", state="ok", detail=f"no entry is later than now{against}")
