"""Runs that are only counted: whatever a worker goes through, counting says what going line by line says."""

import uuid
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from builders import EVERYTHING, NOON, SECOND, Journal, Memory, Unit
from kill_audit.entry import Batch, Question
from kill_audit.grammar import recognise
from kill_audit.timeline import Follower, Partial, hash_of
from kill_audit.timeline.partial import Group, runtime_bucket
from kill_audit.timeline.plain import bucket_of, sort_out

IDS = tuple(str(uuid.UUID(int=number * 0x9E3779B97F4A7C15F39CC0605CEDC835 % (1 << 128))) for number in range(1, 200))
USUAL = ("received", "succeeded", "raised", "whole", "speaks", "heard")
STEPS = (
    *USUAL, *USUAL, *USUAL, "received again", "ended again", "retries", "received early", "discarded", "dies",
    "restarts", "again", "warm", "waits",
)  # fmt: skip
STORIES = st.lists(
    st.tuples(st.sampled_from(STEPS), st.sampled_from((0, 0, 0, 1)), st.integers(min_value=1, max_value=4)),
    min_size=30,
    max_size=90,
)


class Storyteller:
    """Makes up what a worker goes through, step by step: new tasks, and what becomes of those that are open."""

    def __init__(self, unit: Unit, fresh: Iterator[str]) -> None:
        self.unit = unit
        self.fresh = fresh
        self.open: list[str] = []
        self.ended: list[str] = []

    def tell(self, step: str, child: int) -> None:  # noqa: C901 -- a table of steps
        """Take a step; one that needs an open task, or one that ended, is passed over where there is none."""
        unit = self.unit
        match step:
            case "received":
                self.open.append(next(self.fresh))
                unit.received(self.open[-1])
            case "whole":
                unit.received(one := next(self.fresh))
                unit.speaks(one, child)
                unit.succeeded(one, child, 0.003 * child)
            case "received again" if self.ended:
                self.open.append(self.ended[-child % len(self.ended)])
                unit.received(self.open[-1])
            case "ended again" if self.ended:
                unit.succeeded(self.ended[-child % len(self.ended)], child)
            case "heard":
                unit.says("reading the catalogue", child=child)
            case "dies":
                unit.dies(child, child)
            case "restarts":
                unit.starts(unit.main + 50, anew=child % 2 == 0)
            case "again":
                unit.starts(unit.main, anew=False)
            case "warm":
                unit.warm()
            case "waits":
                unit.journal.at((unit.journal.now - NOON) / SECOND + child)
            case _ if self.open:
                self._of_open(step, child)
            case _:
                pass

    def _of_open(self, step: str, child: int) -> None:
        unit, place = self.unit, -child % len(self.open)
        one = self.open[place]
        match step:
            case "succeeded":
                unit.succeeded(one, child, 0.004 * child)
            case "raised":
                unit.raised(one, child)
            case "discarded":
                unit.says(f"Discarding revoked task: shop.tasks.ring[{one}]")
            case "speaks":
                unit.speaks(one, child)
            case "retries":
                unit.retries(one, child, 0.05 * child)
                unit.received(one)
            case "received early":
                unit.received(one)
                unit.retries(one, child, 0.02)
            case _:
                pass
        if step in {"succeeded", "raised", "discarded"}:
            self.ended.append(self.open.pop(place))


def told(story: list[tuple[str, int, int]]) -> Journal:
    """A journal of two units that go through a story."""
    journal, fresh = Journal(), iter(IDS)
    units = journal.unit("celery@a.service", main=100), journal.unit("celery@b.service", main=600)
    tellers = [Storyteller(unit, fresh) for unit in units]
    for step, which, child in story:
        tellers[which].tell(step, child)
    return journal


def followed(journal: Journal, at_once: int, question: Question = EVERYTHING) -> Partial:
    """Follow a journal in batches of so many entries. Of a single entry nothing can be counted."""
    follower = Follower(question)
    for batch in Memory(name="journal", entries=tuple(journal.entries), at_once=at_once).batches(question):
        assert isinstance(batch, Batch)
        follower.feed(batch, *recognise(batch, question))
    return follower.partial("journal")


def facts(partial: Partial) -> dict[str, Any]:
    """What a partial says; the order of runs and ends says nothing."""
    found = {name: getattr(partial, name) for name in partial.__dataclass_fields__}
    return found | {
        "runs": Counter(partial.runs),
        "ends": Counter(partial.ends),
        "segments": Counter(partial.segments),
        "finished": partial.finished.tolist(),
        "stretches": Counter(partial.stretches),
    }


@given(story=STORIES, at_once=st.sampled_from((7, 40, 65_536)))
def test_counting(story: list[tuple[str, int, int]], at_once: int) -> None:
    """Runs, ends, numbers, lives, events and histograms are the same whether runs are counted or gone through."""
    journal = told(story)
    assert facts(followed(journal, at_once)) == facts(followed(journal, 1))


@given(story=STORIES, kept=st.sets(st.sampled_from(IDS), max_size=5))
def test_kept(story: list[tuple[str, int, int]], kept: set[str]) -> None:
    """Runs whose ids are asked for are kept, however plain they are."""
    question = Question(
        since=EVERYTHING.since,
        until=EVERYTHING.until,
        read_since=EVERYTHING.read_since,
        read_until=EVERYTHING.read_until,
        keep=frozenset(map(hash_of, kept)),
    )
    journal = told(story)
    whole = followed(journal, 65_536, question)
    assert facts(whole) == facts(followed(journal, 1, question))
    named = {run.task_id for run in whole.runs} | {end.task_id for end in whole.ends}
    assert {one for one in kept if hash_of(one) in whole.finished} <= named


def test_plain_runs_are_not_gone_through() -> None:
    """Of a worker that goes on undisturbed, no line is looked at by itself."""
    unit = Journal().unit()
    for one in IDS:
        unit.received(one)
        unit.speaks(one, 1)
        unit.succeeded(one, 1, 0.002)
        unit.says("cleaning up", child=1)
    (batch,) = Memory(name="journal", entries=tuple(unit.journal.entries)).batches(EVERYTHING)
    assert isinstance(batch, Batch)
    lines, found = recognise(batch, EVERYTHING)
    groups = [Group("m", "b", origin.unit or "", "") for origin in batch.origins]
    sorted_out = sort_out(batch, lines, groups, [row for row, _ in found], np.empty(0, np.uint64))
    assert sorted_out.others.tolist() == []
    assert [len(track.received) for track in sorted_out.tracks] == [len(IDS)]


@given(seconds=st.floats(min_value=1e-7, max_value=1e9))
def test_buckets(seconds: float) -> None:
    """A run time falls into the same bucket of the histogram, counted or gone through."""
    assert bucket_of([seconds]).tolist() == [runtime_bucket(seconds)]
