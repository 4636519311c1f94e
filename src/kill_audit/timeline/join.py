"""Join what the sources say into one history: runs with their ends, lives, deaths, redeliveries.

Rules of this file:
1. The same entry read twice counts once.
2. An end belongs to the receipt that it can have started from; where a line does not settle it, to the latest.
3. What a source cancelled is only asked for again when another source makes it matter (`second_look`).
"""

import re
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from kill_audit import events
from kill_audit.entry import Micros
from kill_audit.events import Event, Line, UnitEvent, WorkerEvent
from kill_audit.grammar.ids import hash_of
from kill_audit.timeline.adoption import adopted
from kill_audit.timeline.deaths import Blind, Death, Elsewhere, IdleExit, Spared, deaths_of
from kill_audit.timeline.echoes import without_echoes
from kill_audit.timeline.hashes import Hashed, among
from kill_audit.timeline.lives import (
    SECOND,
    Boots,
    Ending,
    Life,
    LifeEnd,
    Told,
    boots_of,
    group_of,
    lives_of,
    unseen,
)
from kill_audit.timeline.partial import End, Group, Mark, Partial, Run

_Key = tuple[Group, int, str, Micros]  # what tells a run from every other: its process, its id, its first moment


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """A delivery of an id, wherever it was received."""

    at: Micros
    group: Group
    run: Run


@dataclass(frozen=True, slots=True, kw_only=True)
class Twice:
    """An id that finished more than once, and when, in order of time."""

    task_id: str
    task_name: str
    deliveries: int
    finished_at: tuple[Micros, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """What happened, put together from all sources. All sequences are in order of time."""

    lives: tuple[Life, ...]
    deaths: tuple[Death, ...]
    idle: tuple[IdleExit, ...]
    blind: tuple[Blind, ...]
    spared: tuple[Spared, ...]
    receipts: Mapping[str, tuple[Receipt, ...]]
    deliveries: Mapping[str, int]
    ends: Mapping[str, tuple[End, ...]]
    twice: tuple[Twice, ...]
    told: Told
    boots: Boots
    runtimes: Mapping[tuple[str, str], tuple[tuple[int, int], ...]]
    partials: tuple[Partial, ...]


# -- what must be looked at again -----------------------------------------


def second_look(partials: Sequence[Partial]) -> dict[int, frozenset[int]]:
    """Tell which ids a source cancelled that matter after all: index of the partial to hashes to keep.

    An id that one source leaves open, or finished too, may have been delivered again in another; and within one
    source an id may finish twice. A hash may match by chance, so a match only asks for a second reading.
    """
    wanted: dict[int, frozenset[int]] = {}
    shown = [_shown(partial) for partial in partials]
    times_shown = Counter(one for few in shown for one in few)
    several = _in_several([partial.finished for partial in partials], shown)
    for place, partial in enumerate(partials):
        retried = {one for one, times in partial.retried.items() if times and times_shown[one] > (one in shown[place])}
        finished = {*several[among(several, partial.finished)].tolist()} - shown[place]
        asked = partial.repeated | retried | finished
        if asked:
            wanted[place] = asked
    return wanted


def _shown(partial: Partial) -> frozenset[int]:
    """Give the hashes of the ids that a partial names."""
    return frozenset(map(hash_of, (*(run.task_id for run in partial.runs), *(end.task_id for end in partial.ends))))


def _in_several(finished: Sequence[Hashed], shown: Sequence[frozenset[int]]) -> Hashed:
    """Find the hashes that several sources finished or show, by one sorting of all."""
    if not finished:
        return np.empty(0, np.uint64)
    more = [np.array(sorted(few), np.uint64) for few in shown]
    met = [*finished, *(few[~among(few, many)] for few, many in zip(more, finished, strict=True))]
    every = np.sort(np.concatenate(met))
    return np.unique(every[1:][every[1:] == every[:-1]])


def overlapping(partials: Sequence[Partial]) -> tuple[tuple[int, ...], ...]:
    """Find the sources that tell of one main process at the same time: they hold some of the same entries.

    A journal's files follow one another; what one process wrote lies in one of them at a time. Returns clusters of
    indexes, each of at least two, in order of time.
    """
    spans: dict[tuple[Group, int], list[tuple[Micros, Micros, int]]] = defaultdict(list)
    for place, partial in enumerate(partials):
        for segment in partial.segments:
            spans[segment.group, segment.main_pid].append((segment.first_at, segment.last.at, place))
    parent = list(range(len(partials)))

    def root(place: int) -> int:
        while parent[place] != place:
            place = parent[place]
        return place

    for found in spans.values():
        found.sort()
        latest = found[0]
        for first, last, place in found[1:]:
            if place != latest[2] and first <= latest[1]:
                parent[root(place)] = root(latest[2])
            latest = max(latest, (first, last, place), key=lambda one: one[1])
    clusters: dict[int, list[int]] = defaultdict(list)
    for place in range(len(partials)):
        clusters[root(place)].append(place)

    def span(place: int) -> tuple[Micros, Micros]:
        stretches = partials[place].stretches
        return min(one.first for one in stretches), max(one.last for one in stretches)

    return tuple(tuple(sorted(places, key=span)) for places in clusters.values() if len(places) > 1)


# -- joining --------------------------------------------------------------


def join(partials: Sequence[Partial]) -> History:
    """Put the sources together."""
    boots = boots_of(partials)
    partials = adopted(without_echoes(partials), boots)
    told = _told(partials)
    runs, ends = _runs_with_ends(partials)
    lives = lives_of(partials, told, runs, boots)
    receipts = _receipts(lives)
    gaps = _gaps(told)
    by_unit: dict[str, int] = {life.group.unit: life.concurrency for life in lives if life.concurrency is not None}
    found = [
        deaths_of(
            life,
            Elsewhere(
                received_again=_received_again(life, receipts),
                concurrency=life.concurrency or by_unit.get(life.group.unit) or _processes_seen(life),
                gaps=gaps.get(life.group[:3], ()),
            ),
        )
        for life in lives
    ]
    retried: Counter[int] = Counter()
    for partial in partials:
        retried.update(partial.retried)
    return History(
        lives=lives,
        deaths=tuple(
            sorted((one for each in found for one in each.deaths), key=lambda death: (death.at, death.place))
        ),
        idle=tuple(sorted((one for each in found for one in each.idle), key=lambda idle: idle.exit.at)),
        blind=tuple(
            sorted(
                (*(one for each in found for one in each.blind), *_silent_programs(told, lives)),
                key=lambda blind: blind.at,
            )
        ),
        spared=tuple(sorted((one for each in found for one in each.spared), key=lambda one: one.mark.at)),
        receipts=receipts,
        deliveries={task_id: len(found_) + retried.get(hash_of(task_id), 0) for task_id, found_ in receipts.items()},
        ends=ends,
        twice=_twice(ends, receipts),
        told=told,
        boots=boots,
        runtimes=_runtimes(partials),
        partials=tuple(partials),
    )


def _silent_programs(told: Told, lives: Sequence[Life]) -> Iterator[Blind]:
    """Find workers that a text says were killed, and of which no line was read until then."""
    for (machine, boot, unit), found in told.units.items():
        if boot or not _WORKERS.search(unit) or any(one.unit != unit for one in found):
            continue
        for event in found:
            alive = any(life.group.machine == machine and life.first_at <= event.at for life in lives)
            if isinstance(event, events.MainExited) and event.code != "exited" and not alive:
                mark = Mark(event.at, event.seen.cursor, event.seen.text)
                end = LifeEnd(ending=Ending.KILLED, at=event.at, signal=event.status, marks=(mark,))
                yield Blind(
                    life=unseen(Group(machine, boot, unit, ""), mark, end, tuple(found)),
                    at=event.at,
                    max_tasks=None,
                    why="no line of it was read that would show the tasks it received",
                )


def _told(partials: Sequence[Partial]) -> Told:
    every = _each_once(event for partial in partials for event in partial.events)
    every.sort(key=lambda event: event.at)
    every = _heard(every, partials)
    worker: dict[tuple[Group, int], list[WorkerEvent]] = defaultdict(list)
    units: dict[tuple[str, str, str], list[UnitEvent]] = defaultdict(list)
    other: list[Event] = []
    for event in every:
        if isinstance(event, WorkerEvent):
            worker[group_of(event), event.seen.pid].append(event)
        elif isinstance(event, UnitEvent):
            origin = event.seen.origin
            units[origin.machine_id or origin.host, origin.boot_id or "", event.unit or ""].append(event)
        else:
            other.append(event)
    speakers = {*(group for group, _ in worker), *(one.group for partial in partials for one in partial.segments)}
    _lend_to_text(speakers, units, every)
    return Told(
        worker={key: tuple(found) for key, found in worker.items()},
        units={key: tuple(found) for key, found in units.items()},
        other=tuple(other),
    )


_HASH = 20  # at the end of a cursor, `x=`: the hash of an entry's fields, the same in every file it was copied to


def _each_once(told: Iterable[Event]) -> list[Event]:
    """Leave out what is read again, in the same file or in a copy of it.

    Lines of one write have one time and may have one text: "Warm shutdown" twice, where Celery up to 5.0.1 leaves it
    in a buffer until it exits. Only their numbers (`i=`) tell them apart, and only those of one writer (`s=`) compare.
    """
    met: set[tuple[Hashable, str]] = set()
    by_writer: Counter[tuple[Hashable, str]] = Counter()
    kept: Counter[Hashable] = Counter()
    every: list[Event] = []
    for event in told:
        seen = event.seen
        what = (type(event), event.at, seen.pid, seen.text, seen.monotonic, seen.cursor[-_HASH:])
        if (what, seen.cursor) in met:
            continue
        met.add((what, seen.cursor))
        writer = seen.cursor.partition(";")[0]
        by_writer[what, writer] += 1
        if by_writer[what, writer] > kept[what]:
            kept[what] += 1
            every.append(event)
    return every


def _heard(every: Sequence[Event], partials: Sequence[Partial]) -> list[Event]:
    """Tell exits when their process was last heard of, where an earlier source says it."""
    busy: dict[tuple[Group, str], list[Micros]] = defaultdict(list)
    for partial in partials:
        for key, at in partial.busy.items():
            busy[key].append(at)
    found: list[Event] = []
    for event in every:
        if isinstance(event, events.ChildExited) and event.heard_at is None:
            before = [at for at in busy.get((group_of(event), event.child), ()) if at <= event.at]
            found.append(replace(event, heard_at=max(before)) if before else event)
        else:
            found.append(event)
    return found


def _lend_to_text(
    speakers: Iterable[Group],
    units: dict[tuple[str, str, str], list[UnitEvent]],
    every: Sequence[Event],
) -> None:
    """In text that lost its fields a unit's records do not name the program whose lines stand beside them.

    Records of services without lines of their own go to the worker's program of the same host, if it is the only one:
    those that speak of Celery or a worker, or all where none does.
    """
    place = {id(event): number for number, event in enumerate(every)}
    programs: dict[str, set[str]] = defaultdict(set)
    for group in speakers:
        if not group.boot:
            programs[group.machine].add(group.unit)
    lent: dict[tuple[str, str, str], list[UnitEvent]] = defaultdict(list)
    for (machine, boot, unit), found in units.items():
        names = programs.get(machine, set())
        if not boot and len(names) == 1 and unit not in names:
            lent[machine, boot, next(iter(names))].extend(found)
    for key, found in lent.items():
        likely = [event for event in found if _WORKERS.search(f"{event.unit} {event.seen.text}")]
        units.setdefault(key, []).extend(likely or found)
        units[key].sort(key=lambda event: place[id(event)])


_WORKERS = re.compile(r"celery|worker", re.IGNORECASE)


def _runs_with_ends(partials: Sequence[Partial]) -> tuple[list[tuple[int, Run]], dict[str, tuple[End, ...]]]:
    """Give each run its end: those that `follow` settled, and those that only all sources together can settle."""
    ends: dict[str, dict[tuple[Micros, int, Line], End]] = defaultdict(dict)
    runs: dict[_Key, tuple[int, Run]] = {}
    for number, partial in enumerate(partials):
        for end in partial.ends:
            ends[end.task_id].setdefault((end.mark.at, end.pid, end.kind), end)
        for run in partial.runs:
            if run.received is None and run.end is not None:  # its receipt may be in another source
                ends[run.task_id].setdefault((run.end.mark.at, run.end.pid, run.end.kind), run.end)
            key = (run.group, run.main_pid, run.task_id, run.first_at)
            known = runs.get(key)
            if known is None or (known[1].end is None and run.end is not None):
                runs[key] = (number, run)
    runs = _reunited(runs)
    by_id: dict[str, list[_Key]] = defaultdict(list)
    for key, (_, run) in runs.items():
        by_id[run.task_id].append(key)
    for task_id, keys in by_id.items():
        loose = sorted(ends.get(task_id, {}).values(), key=lambda end: end.mark.at)
        _settle(runs, sorted(keys, key=lambda key: runs[key][1].first_at), loose)
        for key in keys:
            last = runs[key][1].end
            if last is not None:
                ends[task_id].setdefault((last.mark.at, last.pid, last.kind), last)
    finished = {task_id: tuple(sorted(found.values(), key=lambda end: end.mark.at)) for task_id, found in ends.items()}
    return _without_late_words(partials, _waiting(partials, runs)), finished


def _reunited(runs: dict[_Key, tuple[int, Run]]) -> dict[_Key, tuple[int, Run]]:
    """Give words of a run whose receipt is in another source to the receipt that they followed."""
    whole = {key: found for key, found in runs.items() if found[1].received is not None}
    by_id: dict[str, list[_Key]] = defaultdict(list)
    for key, (_, run) in whole.items():
        by_id[run.task_id].append(key)
    for key, (number, run) in runs.items():
        if run.received is not None:
            continue
        before = [
            other
            for other in by_id.get(run.task_id, ())
            if whole[other][1].group == run.group
            and whole[other][1].first_at <= run.first_at
            and (whole[other][1].end is None or whole[other][1].end == run.end)
        ]
        if not before:
            whole[key] = (number, run)
            continue
        place = max(before, key=lambda other: whole[other][1].first_at)
        first, known = whole[place]
        whole[place] = (first, _with_words(known, run))
    return whole


def _with_words(known: Run, words: Run) -> Run:
    if known.accepted is None and words.accepted is not None:
        known = replace(known, accepted=words.accepted, accepted_pid=words.accepted_pid)
    if known.spoke is None and words.spoke is not None:
        known = replace(known, spoke=words.spoke, spoke_pid=words.spoke_pid, spoke_process=words.spoke_process)
    return known


def _waiting(partials: Sequence[Partial], runs: dict[_Key, tuple[int, Run]]) -> dict[_Key, tuple[int, Run]]:
    """Take back numbers of retried tasks whose countdown another source tells of: they waited when received."""
    for number, partial in enumerate(partials):
        for task_id, due in partial.due.items():
            later = [
                key
                for key, (source, run) in runs.items()
                if run.task_id == task_id and source != number and run.received is not None and run.received.at < due
            ]
            first = min(later, key=lambda key: runs[key][1].first_at, default=None)
            if first is not None:
                _take_back(runs, first, due)
    return runs


def _take_back(runs: dict[_Key, tuple[int, Run]], place: _Key, due: Micros) -> None:
    source, waited = runs[place]
    if waited.number is None or waited.end is not None:
        return
    for key, (other, run) in list(runs.items()):
        same = other == source and run.group == waited.group and run.main_pid == waited.main_pid
        if same and run.number is not None and run.number > waited.number and run.first_at < due:
            runs[key] = (other, replace(run, number=run.number - 1))
    runs[place] = (source, replace(waited, number=None))


def _settle(runs: dict[_Key, tuple[int, Run]], keys: Sequence[_Key], loose: Sequence[End]) -> None:
    """Give loose ends of one id to its open runs (rule 2)."""
    loose = [*loose, *_unsettled_retries(runs, keys)]
    loose.sort(key=lambda end: end.mark.at)
    taken = {(run.end.mark.at, run.end.pid) for _, run in (runs[key] for key in keys) if run.end is not None}
    for end in loose:
        if (end.mark.at, end.pid) in taken:
            continue
        open_keys = [
            key
            for key in keys
            if runs[key][1].end is None
            and runs[key][1].group == end.group
            and runs[key][1].first_at <= end.mark.at + SECOND
        ]
        if not open_keys:
            continue
        key = _whose(end, open_keys, runs)
        number, run = runs[key]
        runs[key] = (number, replace(run, end=end, waits=False, settled_late=True))


def _unsettled_retries(runs: dict[_Key, tuple[int, Run]], keys: Sequence[_Key]) -> list[End]:
    """Take back "retry:" ends where an earlier receipt, of another source, has none: the first is the earliest's."""
    found: list[End] = []
    open_before: set[Group] = set()
    for key in keys:
        number, run = runs[key]
        if run.end is None:
            open_before.add(run.group)
        elif run.end.kind is Line.RETRIED and run.group in open_before:
            found.append(run.end)
            runs[key] = (number, replace(run, end=None))
    return found


def _whose(end: End, keys: Sequence[_Key], runs: Mapping[_Key, tuple[int, Run]]) -> _Key:
    for key in keys:
        run = runs[key][1]
        if run.spoke_process and run.spoke_process == end.process and run.spoke_pid in (end.pid, None, 0):
            return key
    if end.kind is Line.RETRIED:  # the retried message may be received before its own "retry:" line
        return keys[0]
    if end.runtime_s is not None:
        start = end.mark.at - int(end.runtime_s * SECOND)
        possible = [key for key in keys if runs[key][1].first_at <= start + SECOND]
        if possible:
            return possible[-1]
    return keys[-1]


def _without_late_words(partials: Sequence[Partial], runs: Mapping[_Key, tuple[int, Run]]) -> list[tuple[int, Run]]:
    """Leave out runs known only by a late line of their own: another source shows that they had finished."""
    kept = []
    for number, run in runs.values():
        if run.received is None and run.end is None:
            wanted = np.uint64(hash_of(run.task_id))
            if any(wanted in partial.finished for place, partial in enumerate(partials) if place != number):
                continue
        kept.append((number, run))
    return kept


def _receipts(lives: Iterable[Life]) -> dict[str, tuple[Receipt, ...]]:
    found: dict[str, list[Receipt]] = defaultdict(list)
    for life in lives:
        for run in life.runs:
            found[run.task_id].append(Receipt(at=run.first_at, group=life.group, run=run))
    return {task_id: tuple(sorted(each, key=lambda one: one.at)) for task_id, each in found.items()}


def _received_again(life: Life, receipts: Mapping[str, Sequence[Receipt]]) -> frozenset[int]:
    """Runs of this life whose id was received again after the life's last word or its end."""
    moment = life.end.at if life.end.at is not None else life.last.at
    moment = min(moment, life.last.at)
    return frozenset(
        id(run)
        for run in life.runs
        if run.end is None and any(one.at > moment and one.run is not run for one in receipts.get(run.task_id, ()))
    )


def _gaps(told: Told) -> dict[tuple[str, str, str], tuple[tuple[Micros, Micros], ...]]:
    """Spans in which lines of a unit were dropped: journald reports it only with the unit's next line."""
    found: dict[tuple[str, str, str], list[tuple[Micros, Micros]]] = defaultdict(list)
    for event in told.other:
        if isinstance(event, events.Suppressed) and event.unit:
            origin = event.seen.origin
            key = (origin.machine_id or origin.host, origin.boot_id or "", event.unit)
            found[key].append((event.at - 60 * SECOND, event.at))
    return {key: tuple(spans) for key, spans in found.items()}


def _processes_seen(life: Life) -> int | None:
    """How many pool processes were seen at work: a lower bound of the concurrency, where no banner was read."""
    names = {run.spoke_process or run.spoke_pid for run in life.runs if run.spoke is not None}
    names |= {event.child for event in life.said if isinstance(event, events.ChildExited)}
    return len(names) or None if life.pool is None and len(names) > len(life.runs) else None


def _twice(ends: Mapping[str, Sequence[End]], receipts: Mapping[str, Sequence[Receipt]]) -> tuple[Twice, ...]:
    found = []
    for task_id, each in ends.items():
        finished = [end for end in each if end.kind is Line.SUCCEEDED]
        if len(finished) > 1:
            found.append(
                Twice(
                    task_id=task_id,
                    task_name=finished[0].task_name,
                    finished_at=tuple(sorted(end.mark.at for end in finished)),
                    deliveries=max(len(receipts.get(task_id, ())), len(finished)),
                )
            )
    return tuple(sorted(found, key=lambda one: one.task_id))


def _runtimes(partials: Sequence[Partial]) -> dict[tuple[str, str], tuple[tuple[int, int], ...]]:
    total: dict[tuple[str, str], Counter[int]] = defaultdict(Counter)
    for partial in partials:
        for key, counts in partial.runtimes.items():
            total[key].update(dict(counts))
    return {key: tuple(sorted(counts.items())) for key, counts in total.items()}


__all__ = ["History", "Mark", "Receipt", "Twice", "join", "second_look"]
