"""The clock of the run log: zones that are derived, asked for, or known; the change to winter time; skew."""

from typing import Any

import pytest

from builders import DAY, NOON, Journal, Table, audited, row
from kill_audit.document import Document
from kill_audit.reconcile import Row, State

HOUR = 3600


def killed(*at: float) -> Journal:
    """A worker whose tasks t0, t1, … are killed 40 s after they were received at these seconds."""
    journal = Journal()
    unit = journal.unit(concurrency=1)
    for job, second in enumerate(at):
        journal.at(max(second, 1))
        unit.received(f"t{job}")
        journal.at(second + 40)
        unit.dies(job + 1, job)
    return journal


def audited_with(journal: Journal, *rows: Row, **table: Any) -> Document:
    """Audit with rows whose zone nobody gave."""
    known = {"knows_its_zone": False, **table}
    return audited(journal, run_log=Table(rows=rows, **known), now=NOON + 3 * DAY)


def verdicts(document: Document) -> list[str | None]:
    """The verdicts of the kills, in order of time."""
    return [kill.verdict for kill in document.kills]


def zone(document: Document) -> str | None:
    """The zone that the report says the run log's times are in."""
    assert document.run_log is not None
    return document.run_log.time_zone


@pytest.mark.parametrize(
    ("offset_s", "words"),
    [(7200, "UTC+02:00"), (-5 * HOUR, "UTC-05:00"), (5.75 * HOUR, "UTC+05:45"), (14 * HOUR, "UTC+14:00")],
)
def test_two_pairs_show_the_zone(offset_s: float, words: str) -> None:
    """Two rows that lie off by the same quarters of an hour show the zone of the clock that wrote them."""
    rows = [row(f"t{number}", State.OPEN, 100 * number + 2 + offset_s) for number in range(2)]
    document = audited_with(killed(0, 100), *rows)
    assert (verdicts(document), zone(document)) == (["stuck", "stuck"], f"{words} (derived from 2 rows)")
    assert document.kills[0].rows[0].started_at == "2026-11-30T12:00:02.000000Z"


def test_times_that_are_right_show_no_zone() -> None:
    """Where rows fit as they are, nothing is derived."""
    document = audited_with(killed(0, 100), *(row(f"t{number}", State.OPEN, 100 * number + 2) for number in range(2)))
    assert (verdicts(document), zone(document)) == (["stuck", "stuck"], "UTC")


def test_a_known_zone_is_not_doubted() -> None:
    """Times that carry a zone, or whose zone the user gave, are taken at their word."""
    rows = [row(f"t{number}", State.OPEN, 100 * number + 7202) for number in range(2)]
    document = audited_with(killed(0, 100), *rows, knows_its_zone=True)
    assert (verdicts(document), zone(document)) == (["missing", "missing"], "UTC")


def test_one_pair_is_asked_about() -> None:
    """One row that lies off by whole hours may be this run's: no verdict is guessed, and the zone is asked for."""
    (kill,) = audited_with(killed(0), row("t0", State.OPEN, 2 + 3 * HOUR)).kills
    assert kill.verdict == "ambiguous"
    assert any("UTC+03:00, not UTC: say so" in reason for reason in kill.reasons)


@pytest.mark.parametrize("apart", [3 * HOUR + 60, 1000.0, 15 * HOUR])
def test_what_is_no_offset_is_another_run(apart: float) -> None:
    """A row that lies off by what is no zone's offset is another run's."""
    assert verdicts(audited_with(killed(0), row("t0", State.FAILED, 2 + apart, 9 + apart))) == ["missing"]


def test_pairs_that_disagree_show_nothing() -> None:
    """Rows that lie off by different zones, to and fro, show no zone."""
    offsets = (2 * HOUR, 7 * HOUR, 2 * HOUR)
    rows = [row(f"t{number}", State.OPEN, 100 * number + offset) for number, offset in enumerate(offsets)]
    assert zone(audited_with(killed(0, 100, 200), *rows)) == "UTC"


def test_the_change_to_winter_time() -> None:
    """Rows in summer time, then in winter time, are each put right, also the hour that the clock showed twice."""
    at = (0, 600, 2 * HOUR, 3 * HOUR)
    offsets = (2 * HOUR, 2 * HOUR, HOUR, HOUR)
    rows = [
        row(f"t{number}", State.OPEN, begun + offset + 2)
        for number, (begun, offset) in enumerate(zip(at, offsets, strict=True))
    ]
    document = audited_with(killed(*at), *rows)
    assert verdicts(document) == ["stuck"] * 4
    assert zone(document) == "UTC+02:00, then UTC+01:00 (derived from 4 rows)"


def test_a_table_without_starts_shows_its_zone_by_failures() -> None:
    """Celery's table keeps no start; when it stored failures shows the app's zone."""
    rows = [row(f"t{number}", State.FAILED, None, 100 * number + 41 + 9 * HOUR) for number in range(2)]
    document = audited_with(killed(0, 100), *rows, one_row_per_id=True)
    assert (verdicts(document), zone(document)) == (["recorded"] * 2, "UTC+09:00 (derived from 2 rows)")


def test_ghosts_and_the_oldest_row_are_put_right_too() -> None:
    """The derived zone holds for every time of the run log."""
    journal = killed(0, 100)
    unit = journal.unit("celery@b.service", main=900)
    journal.at(400)
    unit.starts(300)
    rows = [row(f"t{number}", State.OPEN, 100 * number + 2 - 5 * HOUR) for number in range(2)]
    left = row("t9", State.OPEN, 200 - 5 * HOUR, worker=unit.node)
    later = row("t8", State.OPEN, 500 - 5 * HOUR, worker=unit.node)
    document = audited_with(journal, *rows, left, later)
    assert [ghost.key for ghost in document.ghosts] == [left.key]
    assert document.ghosts[0].started_at == "2026-11-30T12:03:20.000000Z"


@pytest.mark.parametrize(("ahead", "told"), [(0.0, 0.0), (3.0, 3.0), (-4.0, -4.0)])
def test_skew_is_told(ahead: float, told: float) -> None:
    """How far the run log's clock is ahead of the journal's is measured by the rows' starts."""
    rows = [row(f"t{number}", State.OPEN, (100 * number or 1) + ahead) for number in range(3)]
    document = audited_with(killed(0, 100, 200), *rows)
    assert document.run_log is not None
    assert document.run_log.skew_s == pytest.approx(told, abs=0.1)
    assert verdicts(document) == ["stuck"] * 3
