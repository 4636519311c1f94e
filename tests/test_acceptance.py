"""Which kills are accepted, by what, and which entries are said to be stale."""

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from builders import DAY, NOON, TASK, Journal, audited
from kill_audit.acceptance import WEEK, Acceptance, Seen, accepted, accepted_by
from kill_audit.document import CoverageProblem, Document, Kill, Window, micros, timestamp

UNIT = "celery@a.service"


def scene() -> Document:
    """A crash and a kill by nobody, of one unit, in evidence that is whole."""
    journal = Journal()
    unit = journal.unit(UNIT, concurrency=1)
    for job, signal in enumerate((9, 11)):
        unit.received(f"t{job}")
        unit.dies(job + 1, job, signal)
        journal.at(60 * (job + 1))
    return audited(journal)


def entry(**said: Any) -> Acceptance:
    """An entry with a reason; `said` is what it accepts, until when, and where its kill was seen."""
    return Acceptance(**({"where": "accepted.toml:1", "reason": "known"} | said))


def whole(document: Document, *, since: int = NOON - WEEK, until: int = NOON + DAY) -> Document:
    """The same report of another window, whose evidence is whole."""
    return msgspec.structs.replace(
        document,
        window=Window(since=timestamp(since), until=timestamp(until)),
        coverage=msgspec.structs.replace(document.coverage, verdict="complete"),
    )


def by(document: Document, *entries: Acceptance) -> list[str | None]:
    """What each kill is accepted by."""
    return [None if kill.accepted is None else kill.accepted.by for kill in accepted(document, entries).kills]


def stale(document: Document, one: Acceptance, **how: bool) -> str | None:
    """What is said of an entry."""
    (listed,) = accepted(document, (one,), **how).acceptances
    return listed.stale


def kills(document: Document) -> tuple[Kill, Kill]:
    """The two kills of the scene: by nobody, and the crash."""
    first, second = document.kills
    return first, second


def test_an_accepted_kill_stays_where_it_is() -> None:
    """Nothing of a kill changes but that it says by what it is accepted; it is in every number, and in one more."""
    before = scene()
    after = accepted(before, (entry(causes=("crash",)),))
    assert [msgspec.structs.replace(kill, accepted=None) for kill in after.kills] == list(before.kills)
    assert after.totals == msgspec.structs.replace(before.totals, accepted=1)
    assert (before.totals.accepted, len(before.acceptances), len(after.acceptances)) == (0, 0, 1)


@pytest.mark.parametrize(
    ("said", "first", "second"),
    [
        ({"causes": ("crash",)}, False, True),
        ({"causes": ("c*", "unk*")}, True, True),
        ({"tasks": (TASK,)}, True, True),
        ({"tasks": ("other.*",)}, False, False),
        ({"units": ("celery@*",), "causes": ("unknown",)}, True, False),
        ({"units": ("celery@b.service",), "causes": ("unknown",)}, False, False),
        ({"causes": ("CRASH",)}, False, False),
    ],
)
def test_every_kind_of_glob_must_fit(said: dict[str, Any], first: bool, second: bool) -> None:
    """Of each kind that an entry has, one glob must fit; case counts."""
    one = entry(**said)
    assert [None if not fits else one.by for fits in (first, second)] == by(scene(), one)


def test_a_kill_without_a_name_fits_no_glob_of_tasks() -> None:
    """Who accepts every task accepts no run whose task is not known."""
    first, _ = kills(scene())
    nameless = msgspec.structs.replace(first, task=msgspec.structs.replace(first.task, name=None), unit=None)
    assert accepted_by(nameless, (entry(tasks=("*",)), entry(units=("*",))), now=NOON) is None
    assert accepted_by(nameless, (entry(causes=("*",)),), now=NOON) is not None


def test_the_entry_that_names_a_kill_goes_first() -> None:
    """An id goes before globs wherever it stands; of globs the first entry counts; all of them count the kill."""
    document = scene()
    first, _ = kills(document)
    entries = (entry(causes=("*",)), entry(tasks=("*",)), entry(id=first.id))
    assert by(document, *entries) == [f"id {first.id}", "cause *"]
    assert [one.kills for one in accepted(document, entries).acceptances] == [2, 2, 1]


def test_a_whole_id_is_needed() -> None:
    """The beginning of an id names no kill in the file, because another kill may begin so one day."""
    first, _ = kills(scene())
    assert by(scene(), entry(id=first.id[:8])) == [None, None]


@pytest.mark.parametrize(("ahead", "accepts"), [(1, True), (0, False), (-DAY, False)])
def test_an_entry_that_has_expired_accepts_nothing(ahead: int, accepts: bool) -> None:
    """It accepts until the moment of `until`, by the time at which the report was made, and is stale from then on."""
    document = scene()
    one = entry(causes=("*",), until=micros(document.generated_at) + ahead)
    assert by(document, one) == ([one.by] * 2 if accepts else [None, None])
    assert stale(document, one) == (None if accepts else "expired")
    assert accepted(document, (one,)).acceptances[0].kills == 2


# stale entries


def test_globs_that_fit_nothing_of_a_whole_week_are_said() -> None:
    """Globs without a kill are stale only if whole evidence of a week or more, of every unit, has none for them."""
    document, one = whole(scene()), entry(causes=("watchdog",))
    assert stale(document, one) == "unmatched"
    assert stale(whole(scene(), since=NOON + DAY - WEEK + 1), one) is None
    assert stale(msgspec.structs.replace(document, coverage=scene().coverage), one) is None
    assert stale(document, one, every_unit=False) is None
    assert stale(document, entry(causes=("crash",))) is None


def test_globs_of_units_need_only_their_own_units() -> None:
    """With `-u` an entry for units that were read can be missed, one for others cannot."""
    document = whole(scene())
    mine, others = (entry(causes=("watchdog",), units=(unit,)) for unit in (UNIT, "celery@b.service"))
    assert [stale(document, one, every_unit=False) for one in (mine, others)] == ["unmatched", None]


def test_an_id_that_is_not_found_any_more_is_said() -> None:
    """An id is stale if evidence that is whole, and holds the place and the moment where it was seen, has it not."""
    document = whole(scene())
    first, _ = kills(document)
    seen = Seen(at=micros(first.at), host=first.host, unit=first.unit)
    gone = entry(id="0123456789", seen=seen)
    assert stale(document, gone) == "gone"
    assert stale(document, replace(gone, id=first.id)) is None
    assert stale(document, replace(gone, seen=None)) is None
    for otherwise in ({"host": "elsewhere"}, {"unit": "celery@b.service"}, {"at": seen.at - DAY}):
        assert stale(document, replace(gone, seen=replace(seen, **otherwise))) is None
    assert stale(whole(scene(), since=seen.at + 1), gone) is None
    assert stale(msgspec.structs.replace(document, coverage=_with_a_hole(document)), gone) is None


def _with_a_hole(document: Document) -> Any:
    problem = CoverageProblem(code="damaged", detail="", since=None, until=None)
    source = msgspec.structs.replace(document.coverage.sources[0], problems=(problem,))
    return msgspec.structs.replace(document.coverage, verdict="partial", sources=(source,))
