"""Judge whether the evidence reaches over the window, per host, boot and unit.

Rules of this file: causes are not known here. "Nothing found" is worth only as much as this verdict: a window that no
entry reaches, a hole in its middle, a log level that hides receipts, each is a reason. Informational problems are
said too, and do not make the verdict partial.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from kill_audit import events
from kill_audit.entry import Micros, Problem, Question
from kill_audit.events import Event
from kill_audit.timeline import Ending, History, Life, Partial, Stretch
from kill_audit.timeline.lives import SECOND

SLACK = 60 * SECOND  # a host may be silent for a while at the window's ends
_SILENCE = 3600 * SECOND  # journald writes a line of its own far more often than this on a host that runs units
INFORMATIONAL = frozenset({"assumed-timezone", "unvouched-text", "no-worker", "from-ledger"})
_ENDS = frozenset({"journal-starts-later", "journal-ends-earlier"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Covered:
    """One stretch of evidence with what is wrong with it."""

    stretch: Stretch | None
    source: str
    problems: tuple[Problem, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """How much of the window the evidence reaches over."""

    verdict: Literal["complete", "partial", "none"]
    entries: int
    covered: tuple[Covered, ...]


def judge(history: History, question: Question, now: Micros) -> Judgement:
    """Judge the evidence. `now` bounds a window that reaches into the future."""
    workers = {life.group.unit for life in history.lives}
    until = min(question.until, now)
    whole: dict[str, list[Problem]] = defaultdict(list)
    by_stretch: dict[tuple[str, str, str], list[Problem]] = defaultdict(list)
    for problem in (*_ends(history, question.since, until), *_told(history, question.since, until)):
        by_stretch[problem.host or "", problem.boot_id or "", problem.unit or ""].append(problem)
    for partial in history.partials:
        whole[partial.source].extend(partial.problems)
        if not partial.vouched:
            whole[partial.source].append(
                Problem(
                    code="unvouched-text",
                    detail="a text file: who wrote a line is vouched for by the file's owner alone",
                )
            )
    covered = tuple(_covered(history.partials, workers, whole, by_stretch))
    problems = [problem for one in covered for problem in one.problems]
    entries = sum(partial.entries for partial in history.partials)
    reached = any(
        stretch.last >= question.since and stretch.first < until for p in history.partials for stretch in p.stretches
    )
    verdict: Literal["complete", "partial", "none"] = "complete"
    if not reached or not workers:
        verdict = "none"
    elif any(problem.code not in INFORMATIONAL for problem in problems):
        verdict = "partial"
    return Judgement(verdict=verdict, entries=entries, covered=covered)


def _covered(
    partials: Iterable[Partial],
    workers: set[str],
    whole: dict[str, list[Problem]],
    by_stretch: dict[tuple[str, str, str], list[Problem]],
) -> Iterable[Covered]:
    """List each audited unit's stretch of each source, and the rest of each host's boot as one without a unit."""
    left = dict(by_stretch)
    for partial in partials:
        rest: dict[tuple[str, str], Stretch] = {}
        listed: list[Covered] = []
        for stretch in partial.stretches:
            if (stretch.unit or "") in workers:
                found = left.pop((stretch.machine, stretch.boot, stretch.unit or ""), [])
                listed.append(Covered(stretch=stretch, source=partial.source, problems=tuple(found)))
            else:
                rest[stretch.machine, stretch.boot] = _and(rest.get((stretch.machine, stretch.boot)), stretch)
        for stretch in rest.values():
            found = left.pop((stretch.machine, stretch.boot, ""), [])
            listed.append(Covered(stretch=stretch, source=partial.source, problems=tuple(found)))
        own = tuple(whole.pop(partial.source, []))
        if own and listed:
            first = listed[0]
            listed[0] = Covered(stretch=first.stretch, source=first.source, problems=(*own, *first.problems))
        elif own:
            listed.append(Covered(stretch=None, source=partial.source, problems=own))
        yield from listed
    for (machine, boot, unit), found in left.items():
        stretch = Stretch(host=machine, machine=machine, boot=boot, unit=unit or None, first=0, last=0, entries=0)
        yield Covered(stretch=stretch if machine else None, source="-", problems=tuple(found))


def _and(known: Stretch | None, more: Stretch) -> Stretch:
    first, last, entries = more.first, more.last, more.entries
    if known is not None:
        first, last, entries = min(first, known.first), max(last, known.last), entries + known.entries
    return Stretch(
        host=more.host, machine=more.machine, boot=more.boot, unit=None, first=first, last=last, entries=entries
    )


def _ends(history: History, since: Micros, until: Micros) -> Iterable[Problem]:
    """Whether each machine's entries reach from before the window to its end."""
    spans: dict[str, tuple[Micros, Micros, str]] = {}
    for partial in history.partials:
        for stretch in partial.stretches:
            first, last, boot = spans.get(stretch.machine, (stretch.first, stretch.last, stretch.boot))
            spans[stretch.machine] = (min(first, stretch.first), max(last, stretch.last), boot)
    tail = max(SLACK, min(_SILENCE, (until - since) // 50))
    machines_with_workers = {life.group.machine for life in history.lives}
    for machine, (first, last, _) in spans.items():
        if machine not in machines_with_workers:
            continue
        if first > since + SLACK:
            yield Problem(
                code="journal-starts-later",
                host=machine,
                since=since,
                until=first,
                boot_id=_boot_at(history, machine, first),
                detail="no entry of this host reaches back to the window's start: vacuumed, rotated or never kept",
            )
        if last < until - tail:
            yield Problem(
                code="journal-ends-earlier",
                host=machine,
                since=last,
                until=until,
                boot_id=_boot_at(history, machine, last),
                detail="the last entry of this host is older than the window's end",
            )


def _boot_at(history: History, machine: str, moment: Micros) -> str | None:
    """The boot that begins or ends at a moment."""
    for (owner, boot), (first, last) in history.boots.spans.items():
        if owner == machine and moment in (first, last):
            return boot
    return None


def _told(history: History, since: Micros, until: Micros) -> Iterable[Problem]:
    for event in history.told.other:
        if since <= event.at < until:
            yield from _loss_of_lines(event, history)
    for life in history.lives:
        if _touches(life, since, until):
            yield from _of_life(life)
    seen = {life.group.unit for life in history.lives if life.started is not None or life.runs}
    for (group, _), said in history.told.worker.items():
        for event in said:
            if isinstance(event, events.LogsToFile) and group.unit not in seen:
                yield Problem(
                    code="logs-to-file",
                    host=group.machine,
                    boot_id=group.boot,
                    unit=group.unit,
                    detail="this unit starts its workers with `celery multi`: their lines are in log files, not in "
                    "the journal; give them with --file",
                )
                break
    yield from _unclean_boots(history, since, until)


def _touches(life: Life, since: Micros, until: Micros) -> bool:
    last = life.end.at if life.end.at is not None else until
    return life.first_at < until and last >= since


def _loss_of_lines(event: Event, history: History) -> Iterable[Problem]:
    origin = event.seen.origin
    machine, boot = origin.machine_id or origin.host, origin.boot_id
    units = {life.group.unit for life in history.lives if life.group.machine == machine}
    if isinstance(event, events.Suppressed) and event.unit in units:
        count = "some" if event.count is None else str(event.count)
        yield Problem(
            code="suppressed-messages",
            host=machine,
            boot_id=boot,
            unit=event.unit,
            until=event.at,
            detail=f"journald's rate limit dropped {count} lines of this unit before this moment",
        )
    if isinstance(event, events.MissedKernelLines):
        count = "some" if event.count is None else str(event.count)
        yield Problem(
            code="missed-kernel-messages",
            host=machine,
            boot_id=boot,
            until=event.at,
            detail=f"{count} kernel lines were lost before journald read them: an OOM kill may be among them",
        )


def _of_life(life: Life) -> Iterable[Problem]:
    # Celery before 5 prints its banner only as it ends, where no terminal is: then the unit's start tells.
    started = life.started is not None or any(
        isinstance(event, events.UnitStarted) and event.at < life.first_at for event in life.about
    )
    if life.quiet and started:
        yield Problem(
            code="quiet-log-level",
            host=life.group.machine,
            boot_id=life.group.boot,
            unit=life.group.unit,
            since=life.first_at,
            until=life.end.at,
            detail="the worker's log level hides which tasks it received: kills cannot be named from its lines; "
            "start it with -l INFO",
        )


def _unclean_boots(history: History, since: Micros, until: Micros) -> Iterable[Problem]:
    """Find boots without a word of an orderly end: their last minutes may never have reached the disk."""
    orderly = {
        (event.seen.origin.machine_id or event.seen.origin.host, event.seen.origin.boot_id or "")
        for event in history.told.other
        if isinstance(event, events.JournalStopped | events.HostShutdown)
    }
    hosts = {life.group.machine for life in history.lives}
    for (machine, boot), (_, last) in history.boots.spans.items():
        over = history.boots.over(machine, boot)
        if over is None or (machine, boot) in orderly or machine not in hosts or not since <= last < until:
            continue
        yield Problem(
            code="boot-without-end",
            host=machine,
            boot_id=boot,
            since=last - 5 * 60 * SECOND,
            until=last,
            detail="the boot ends without a shutdown: five minutes of its lines may be missing (SyncIntervalSec)",
        )


__all__ = ["Covered", "Ending", "Judgement", "judge"]
