"""What must not change a finding: how the evidence is cut into files, and whatever has nothing to do with it."""

import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import DAY, SECOND, Entry, Journal, Memory, Unit, audited, batch_of, findings
from kill_audit.document import Document, micros
from kill_audit.entry import Origin, Question
from kill_audit.grammar import recognise
from recorded import Scene, cases, recordings

SCENES = {scene.name: scene for scene in (*recordings(), *cases())}
JOURNALS = {name: scene for name, scene in SCENES.items() if all(entry.origin.vouched for entry in scene.entries())}
scenes = pytest.mark.parametrize("scene", SCENES.values(), ids=SCENES.keys())


@cache
def whole(name: str) -> dict[str, Any]:
    """What is found in a scene whose entries are in one file."""
    scene = SCENES[name]
    return findings(scene.audited(Memory(name="whole", entries=scene.entries())))


@cache
def boundaries(name: str) -> tuple[int, ...]:
    """The places between entries of which one, at least, tells something."""
    entries = SCENES[name].entries()
    lines, events = recognise(batch_of(entries), SCENES[name].question)
    telling = {*lines.row, *(row for row, _ in events)}
    return tuple(sorted({place for row in telling for place in (row, row + 1) if 0 < place < len(entries)}))


def named(plain: dict[str, Any]) -> dict[str, Any]:
    """Findings without the rung that named: of a retried task that came due after a rotation numbers are not used."""
    bare = {"how": None, "confidence": None, "candidates": None}
    kills = [{**kill, "task": {**kill["task"], **bare}, "advice": None} for kill in plain["kills"]]
    return {**plain, "kills": kills}


def found(scene: Scene, *parts: Sequence[Entry]) -> dict[str, Any]:
    """What is found in a scene whose entries are in several files."""
    return findings(scene.audited(*(Memory(name=f"part{n}", entries=part) for n, part in enumerate(parts))))


def as_whole(scene: Scene, cut: dict[str, Any]) -> bool:
    """Whether the findings of a scene in several files are those of its one journal."""
    uncut = whole(scene.name)
    return cut == uncut or (scene.name.endswith("/retries") and named(cut) == named(uncut))


# -- files -----------------------------------------------------------------------------------------------------------


@scenes
def test_rotated(scene: Scene) -> None:
    """A journal that was rotated anywhere, so that it is in two files, gives the same findings."""
    entries, places = scene.entries(), boundaries(scene.name)
    for place in places if len(places) < 12 else (*places[:: len(places) // 5], places[-2]):
        assert as_whole(scene, found(scene, entries[:place], entries[place:]))


@scenes
def test_newest_first(scene: Scene) -> None:
    """Files are given in any order: that of their names puts the newest before the archived ones."""
    entries, places = scene.entries(), boundaries(scene.name)
    ties = [place for place in places if entries[place - 1].realtime == entries[place].realtime]
    for place in (*ties[:3], *places[len(places) // 2 :][:1]):
        assert found(scene, entries[place:], entries[:place]) == found(scene, entries[:place], entries[place:])


@given(data=st.data())
def test_rotated_anywhere(data: st.DataObject) -> None:
    """Wherever a journal is cut, into whatever number of files in whatever order, the findings are the same."""
    scene = SCENES[data.draw(st.sampled_from(sorted(SCENES)))]
    entries = scene.entries()
    cuts = sorted(data.draw(st.sets(st.sampled_from(boundaries(scene.name)), min_size=1, max_size=3)))
    parts = [entries[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(entries)], strict=True)]
    order = data.draw(st.permutations(range(len(parts))))
    assert as_whole(scene, found(scene, *(parts[place] for place in order)))


@scenes
def test_given_twice(scene: Scene) -> None:
    """The same entries given twice count once."""
    entries = scene.entries()
    assert found(scene, entries, entries) == whole(scene.name)


@scenes
def test_copied_in_part(scene: Scene) -> None:
    """A file that holds the first, or the last, of what another file holds whole, adds nothing."""
    entries, places = scene.entries(), boundaries(scene.name)
    for part in (entries[: places[0]], entries[: places[len(places) // 2]], entries[places[-1] :]):
        assert found(scene, part, entries) == whole(scene.name)
        assert found(scene, entries, part) == whole(scene.name)


@given(data=st.data())
def test_files_that_overlap(data: st.DataObject) -> None:
    """Files that hold some entries both (a copy made by hand, and the journal) give the same findings."""
    scene = SCENES[data.draw(st.sampled_from(sorted(SCENES)))]
    entries = scene.entries()
    first, second = sorted(data.draw(st.tuples(*[st.sampled_from(boundaries(scene.name))] * 2)))
    assert as_whole(scene, found(scene, entries[:second], entries[first:]))


@given(data=st.data(), at_once=st.integers(min_value=1, max_value=200))
def test_batches(data: st.DataObject, at_once: int) -> None:
    """Where a batch ends changes nothing."""
    scene = SCENES[data.draw(st.sampled_from(sorted(SCENES)))]
    source = Memory(name="whole", entries=scene.entries(), at_once=at_once)
    assert findings(scene.audited(source)) == whole(scene.name)


# -- what has nothing to do with it ----------------------------------------------------------------------------------

CHATTER = (
    "GET /health 200",
    "[error] worker process 31 exited on signal 9",
    "WORKER TIMEOUT (pid:31)",
    "Stopping nginx...",
    "Task done",
    "ready.",
    "",
)


def neighbour(entry: Entry, message: str, number: int) -> Entry:
    """A line of another unit, of the same host and boot and at the same time."""
    origin = entry.origin
    quiet = Origin(
        host=origin.host,
        machine_id=origin.machine_id,
        boot_id=origin.boot_id,
        unit="nginx.service",
        vouched=origin.vouched,
        transport=origin.transport if not origin.vouched else "stdout",
        identifier="nginx",
        exe="/usr/sbin/nginx",
        comm="nginx",
        uid=33,
    )
    return replace(entry, origin=quiet, pid=900, message=message, cursor=f"neighbour-{number}", fields={})


@given(data=st.data())
def test_unrelated_entries(data: st.DataObject) -> None:
    """Lines of other units between those of a worker change nothing."""
    scene = JOURNALS[data.draw(st.sampled_from(sorted(JOURNALS)))]
    entries = list(scene.entries())
    added = data.draw(st.lists(st.tuples(st.integers(0, len(entries) - 1), st.sampled_from(CHATTER)), max_size=20))
    for number, (place, message) in enumerate(sorted(added, reverse=True)):
        entries.insert(place + 1, neighbour(entries[place], message, number))
    assert found(scene, entries) == whole(scene.name)


def elsewhere(entries: Sequence[Entry], host: str, by: int) -> tuple[Entry, ...]:
    """The same entries on another host, so many microseconds later."""
    return tuple(
        replace(
            entry,
            realtime=entry.realtime + by,
            origin=replace(
                entry.origin,
                host=host,
                machine_id=f"machine-{host}",
                boot_id=entry.origin.boot_id and f"{host}-{entry.origin.boot_id}",
            ),
            cursor=f"{host}-{entry.cursor}",
        )
        for entry in entries
    )


def of_host(document: Document, host: str) -> list[Any]:
    """The findings of one host, without what may join several."""
    plain = findings(document)
    return [
        [{**one, "deploy": None, "incident": None} for one in plain[part] if one["host"] == host]
        for part in ("kills", "idle_deaths", "blind_deaths", "not_losses")
    ]


@given(data=st.data())
def test_interleaved_hosts(data: st.DataObject) -> None:
    """Two hosts' journals in one file, entry by entry, with equal units and pids, are told apart."""
    names = data.draw(st.lists(st.sampled_from(sorted(JOURNALS)), min_size=2, max_size=2, unique=True))
    one, other = (JOURNALS[name] for name in names)
    ours = elsewhere(one.entries(), "ours", 0)
    theirs = elsewhere(other.entries(), "theirs", ours[0].realtime - other.entries()[0].realtime)
    both = sorted([*ours, *theirs], key=lambda entry: entry.realtime)
    since, until = both[0].realtime - DAY, both[-1].realtime + DAY
    question = Question(since=since, until=until, read_since=since, read_until=until)

    def ask(entries: Sequence[Entry]) -> Document:
        return audited(Memory(name="journal", entries=entries), question=question, now=until)

    together = ask(both)
    assert of_host(together, "ours") == of_host(ask(ours), "ours")
    assert of_host(together, "theirs") == of_host(ask(theirs), "theirs")


UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


@pytest.mark.parametrize(
    "name", ["celery-5.7/deploy_default", "celery-5.7/visibility", "celery-5.7/eta_waiting", "C31"]
)
def test_renumbered(name: str) -> None:
    """With other task ids the same deaths are found, of the renumbered tasks."""
    scene = SCENES[name]

    def renumber(text: str) -> str:
        return UUID.sub(
            lambda match: match[0][::-1].translate(str.maketrans("0123456789abcdef", "5a7c01be9f2463d8")), text
        )

    def masked(plain: dict[str, Any]) -> list[Any]:
        return [
            {key: value for key, value in kill.items() if key not in {"id", "evidence", "task", "incident"}}
            for kill in sorted(plain["kills"], key=lambda kill: (kill["at"], str(kill["child_pid"]), str(kill["job"])))
        ]

    entries = tuple(replace(entry, message=entry.message and renumber(entry.message)) for entry in scene.entries())
    renamed = found(scene, entries)
    ids = sorted(str(kill["task"]["id"]) for kill in renamed["kills"])
    assert ids == sorted(renumber(str(kill["task"]["id"])) for kill in whole(name)["kills"])
    assert masked(renamed) == masked(whole(name))


# -- ids -------------------------------------------------------------------------------------------------------------

WITH_KILLS = {name: scene for name, scene in SCENES.items() if scene.expected}


@pytest.mark.parametrize("scene", WITH_KILLS.values(), ids=WITH_KILLS.keys())
def test_ids_and_the_window(scene: Scene) -> None:
    """A kill has one id, which no other has, and the window around it and the lead-in before it do not change it."""
    kills = {kill["id"]: kill for kill in whole(scene.name)["kills"]}
    assert len(kills) == len(whole(scene.name)["kills"])
    source = Memory(name="whole", entries=scene.entries())
    for key, kill in kills.items():
        at = micros(kill["at"])
        for lead in (scene.question.since - scene.question.read_since, 30 * DAY):
            narrow = replace(scene.question, since=at, until=at + 1, read_since=at - lead)
            again = audited(source, question=narrow, now=scene.now)
            assert key in {one.id for one in again.kills}


@pytest.mark.parametrize("scene", WITH_KILLS.values(), ids=WITH_KILLS.keys())
def test_ids_and_the_run_log(scene: Scene) -> None:
    """A kill's id is the same with a run log."""
    from builders import Table

    source = Memory(name="whole", entries=scene.entries())
    with_rows = scene.audited(source, run_log=Table())
    assert [kill.id for kill in with_rows.kills] == [kill["id"] for kill in whole(scene.name)["kills"]]


# -- a worker at random ----------------------------------------------------------------------------------------------


SURE = frozenset({"high"})
ANY = frozenset({"high", "medium", "low"})


@dataclass(slots=True)
class Shift:
    """A worker's shift at random: tasks come, wait, run, finish, and die with their processes; it knows what is true.

    Jobs are numbered as they are handed to the pool, and taken in the order of their numbers (billiard/pool.py).
    """

    dice: random.Random
    unit: Unit
    speaking: float
    waiting_share: float
    free: list[int] = field(default_factory=list)
    busy: dict[int, tuple[int, str, float]] = field(default_factory=dict)  # process -> job, id, start
    queue: list[tuple[int, str]] = field(default_factory=list)
    waiting: list[tuple[float, str]] = field(default_factory=list)
    killed: dict[str, int] = field(default_factory=dict)  # id -> pid
    jobs: int = 0
    ids: int = 0
    processes: int = 0

    @property
    def second(self) -> float:
        """The time on the journal's clock, in seconds after its first entry."""
        return (self.unit.journal.now - self.unit.journal.entries[0].realtime) / SECOND

    def work(self, steps: int) -> None:
        """Work for so many steps."""
        for _ in range(self.unit.concurrency):
            self._new_process()
        for _ in range(steps):
            self._wait(self.dice.choice([0.05, 0.3, 1.0, 3.0, 20.0]))
            self._hand_out_due()
            step = self.dice.random()
            if step < 0.45 or not self.busy:
                self._receive()
            elif step < 0.8:
                self._finish(self.dice.choice(sorted(self.busy)))
            else:
                self._kill(self.dice.sample(sorted(self.busy), min(self.dice.choice([1, 1, 1, 2]), len(self.busy))))

    def _wait(self, seconds: float) -> None:
        self.unit.journal.now += round(seconds * SECOND)

    def _new_process(self) -> None:
        self.processes += 1
        self.free.append(self.processes)

    def _hand_out(self, task_id: str) -> None:
        self.queue.append((self.jobs, task_id))
        self.jobs += 1

    def _hand_out_due(self) -> None:
        for due, task_id in sorted(self.waiting):
            if due <= self.second:
                self.waiting.remove((due, task_id))
                self._hand_out(task_id)
        self._take()

    def _take(self) -> None:
        while self.free and self.queue:
            process, (job, task_id) = self.free.pop(0), self.queue.pop(0)
            self.busy[process] = job, task_id, self.second
            if self.dice.random() < self.speaking:
                self.unit.speaks(task_id, process)

    def _receive(self) -> None:
        self.ids += 1
        task_id = f"t{self.ids}"
        self.unit.received(task_id)
        if self.dice.random() < self.waiting_share:
            self.waiting.append((self.second + self.dice.choice([2, 30, 400]), task_id))
        else:
            self._hand_out(task_id)
        self._take()

    def _finish(self, process: int) -> None:
        _, task_id, start = self.busy.pop(process)
        self.unit.succeeded(task_id, process, round(self.second - start, 3))
        self.free.append(process)
        self._take()

    def _kill(self, processes: Sequence[int]) -> None:
        for process in sorted(processes, reverse=True):
            self.unit.exited(process)
        for job, task_id, process in sorted((*self.busy[one][:2], one) for one in processes):
            self.unit.lost(job)
            self.killed[task_id] = self.unit.pid(process)
        for process in processes:
            del self.busy[process]
            self._new_process()
        self._wait(0.3)
        self._take()


def worked(seed: int, *, waiting: float, steps: int = 30) -> Shift:
    """A shift by a seed."""
    dice = random.Random(seed)  # noqa: S311 -- no secrets
    unit = Journal().unit(concurrency=dice.choice([1, 2, 3]))
    shift = Shift(dice=dice, unit=unit, speaking=dice.choice([0.0, 0.3]), waiting_share=waiting)
    shift.work(steps)
    return shift


def wrong(shift: Shift, *, of: frozenset[str]) -> Iterator[str]:
    """Where an audit of a shift says what is not true, in names of these confidences."""
    document = audited(shift.unit.journal)
    if len(document.kills) != len(shift.killed):
        yield f"{len(document.kills)} kills for {len(shift.killed)}"
    for kill in document.kills:
        if kill.task.id is None or kill.task.confidence not in of:
            continue
        if kill.task.id not in shift.killed:
            yield f"{kill.task.id} was not killed ({kill.task.how}, {kill.task.confidence})"
        elif kill.child_pid not in {None, shift.killed[kill.task.id]}:
            yield f"{kill.task.id} died as {shift.killed[kill.task.id]}, not as {kill.child_pid} ({kill.task.how})"


@given(seed=st.integers(min_value=0, max_value=2**32))
def test_names_at_random(seed: int) -> None:
    """Whatever happens in a worker in which no task waits, every kill is found and no name or pid is wrong."""
    assert list(wrong(worked(seed, waiting=0), of=ANY)) == []


@pytest.mark.parametrize("batch", range(5))
def test_names_at_random_with_waits(batch: int) -> None:
    """With tasks that wait unseen for their ETA every kill is still found, and a name or pid called sure is right."""
    shifts = [worked(seed, waiting=0.25) for seed in range(batch * 20, batch * 20 + 20)]
    assert [what for shift in shifts for what in wrong(shift, of=SURE)] == []
