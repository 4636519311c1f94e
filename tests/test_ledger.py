"""The ledger: what it keeps of reports, and what it gives back when the journal has forgotten."""

import errno
import os
import sqlite3
import stat
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from zoneinfo import ZoneInfo

import msgspec
import pytest
import sqlalchemy as sa
from sqlalchemy.pool import NullPool

from builders import Journal, Table, row
from kill_audit import ledger as room
from kill_audit.document import (
    BlindDeath,
    CoverageProblem,
    Document,
    Ghost,
    NotLoss,
    SourceCoverage,
    TaskReference,
    Window,
    micros,
    timestamp,
)
from kill_audit.ledger import LedgerError, Scope, covered, open_ledger
from kill_audit.ledger.place import file_of, locate, state_directory
from kill_audit.ledger.tables import STEPS, TABLES, migrate, version_of
from kill_audit.reconcile import State
from ledger_stories import DAY, HOUR, NOON, SCOPE, ids, ledger_at, left, moment, read_at, weeks_of_kills

TEN_DAYS = weeks_of_kills(10).source()
LATE = NOON + 9 * DAY + HOUR


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the ledger of a test lies."""
    return tmp_path / "state" / "ledger.sqlite3"


def whole() -> Document:
    """The report of an undisturbed journal on all ten days."""
    return read_at(TEN_DAYS, now=LATE, since=NOON - HOUR)


def seconds(document: Document) -> list[float]:
    """When the kills of a report died, in seconds after noon of the first day."""
    return [(micros(kill.at) - NOON) / 1_000_000 for kill in document.kills]


# -- keeping ------------------------------------------------------------------------------------------------------


def test_hourly_runs_keep_what_one_report_over_all_shows(path: Path) -> None:
    """Each kill is kept once under its id, however often it was read."""
    book = ledger_at(path)
    for hour in range(2, 10 * 24, 5):
        book.record(read_at(TEN_DAYS, now=NOON + hour * HOUR))
    assert ids(book) == [kill.id for kill in whole().kills]
    assert len(ids(book)) == 10


def test_a_kill_is_kept_as_the_document_has_it(path: Path) -> None:
    """What was recorded comes back equal, key by key."""
    book = ledger_at(path)
    document = whole()
    recorded = book.record(document)
    assert (recorded.new, recorded.changed, recorded.withdrawn, recorded.lost) == (10, 0, 0, ())
    assert book.kills(NOON, LATE) == document.kills
    assert book.kills(NOON + DAY, NOON + 3 * DAY) == document.kills[1:3]


def test_the_position_is_where_reading_ended_and_never_goes_back(path: Path) -> None:
    """A run that ends later moves it; one of an older window, or one that left a gap before itself, does not."""
    book = ledger_at(path)
    assert book.position() is None
    book.record(read_at(TEN_DAYS, now=NOON + 2 * DAY))
    assert book.position() == NOON + 2 * DAY
    book.record(read_at(TEN_DAYS, now=NOON + 3 * DAY, since=NOON, until=NOON + DAY))
    assert book.position() == NOON + 2 * DAY
    book.record(read_at(TEN_DAYS, now=NOON + 5 * DAY, since=NOON + 4 * DAY))
    assert book.position() == NOON + 2 * DAY
    book.record(read_at(TEN_DAYS, now=NOON + 5 * DAY), moves=False)
    assert book.position() == NOON + 2 * DAY
    book.record(read_at(TEN_DAYS, now=NOON + 5 * DAY))
    assert book.position() == NOON + 5 * DAY


def test_a_position_of_a_wrong_clock_holds_up_nothing(path: Path) -> None:
    """What a run wrote whose clock was years ahead does not keep later ones from telling what the journal lost."""
    book = ledger_at(path)
    book.record(read_at(TEN_DAYS, now=NOON + 2 * DAY))
    book.record(read_at(TEN_DAYS, now=NOON + 2_000 * DAY, since=NOON))
    assert book.position() == NOON + 2_000 * DAY
    book.record(read_at(TEN_DAYS, now=NOON + 3 * DAY))
    assert book.position() == NOON + 3 * DAY
    assert book.seen(0, 2**62)[-1][1] == NOON + 3 * DAY + HOUR


def test_what_is_older_than_it_is_to_be_kept_is_dropped(path: Path) -> None:
    """With `keep` kills, coverage and its problems go once they are that old, each once, and the rest stays."""
    book = ledger_at(path)
    book.record(read_at(TEN_DAYS, now=NOON + 5 * DAY, since=NOON - HOUR))
    recorded = book.record(read_at(TEN_DAYS, now=NOON + 6 * DAY, since=NOON + 4 * DAY), keep=2 * DAY)
    assert (recorded.dropped, recorded.withdrawn) == (3, 0)
    assert ids(book) == [kill.id for kill in whole().kills[3:6]]
    assert book.seen(0, LATE) == ((NOON + 3 * DAY, NOON + 6 * DAY),)
    assert book.record(read_at(TEN_DAYS, now=NOON + 6 * DAY, since=NOON + 5 * DAY), keep=3 * DAY).dropped == 0
    assert book.totals(0, LATE).idle_deaths == 0
    assert not book.record(read_at(TEN_DAYS, now=NOON + 6 * DAY, since=NOON + 5 * DAY)).dropped


def test_an_open_row_is_kept_as_long_as_it_is_seen(path: Path) -> None:
    """A ghost is dropped by its last sighting: a row that is open for years was not found today."""
    book = ledger_at(path)
    ghost = Ghost(key="1", task=TaskReference(name="tasks.a", id="g"), started_at=None, reasons=("its boot is over",))
    for day in (2, 4, 6):
        read = read_at(TEN_DAYS, now=NOON + day * DAY, since=NOON + (day - 2) * DAY)
        book.record(msgspec.structs.replace(read, ghosts=(ghost,)), keep=DAY)
    assert book.totals(NOON + DAY, NOON + 3 * DAY).ghosts == 1
    book.record(read_at(TEN_DAYS, now=NOON + 8 * DAY, since=NOON + 6 * DAY), keep=DAY)
    book.record(read_at(TEN_DAYS, now=NOON + 9 * DAY, since=NOON + 8 * DAY), keep=DAY)
    assert book.totals(0, LATE).ghosts == 0


def test_a_wrong_clock_drops_nothing(path: Path) -> None:
    """A run that thinks itself years ahead drops what is old by the end of the runs before it, not by its own time."""
    book = ledger_at(path)
    book.record(read_at(TEN_DAYS, now=NOON + 5 * DAY, since=NOON - HOUR), keep=30 * DAY)
    kept = ids(book)
    assert book.record(read_at(TEN_DAYS, now=NOON + 2_000 * DAY), keep=30 * DAY).dropped == 0
    assert ids(book)[: len(kept)] == kept


def test_a_window_that_reaches_into_the_future_is_kept_as_far_as_it_was_read(path: Path) -> None:
    """What had not happened yet when the report was made counts neither as read nor as covered."""
    book = ledger_at(path)
    book.record(read_at(TEN_DAYS, now=NOON + 2 * DAY, since=NOON, until=NOON + 30 * DAY))
    assert book.position() == NOON + 2 * DAY
    assert book.seen(NOON, NOON + 30 * DAY) == ((NOON, NOON + 2 * DAY),)


def test_young_kills_are_judged_again(path: Path) -> None:
    """A kill whose task comes back later is kept with what became of it."""
    journal = Journal()
    unit = journal.unit(concurrency=1)
    unit.received("a")
    journal.at(60)
    unit.dies(1, job=1)
    book = ledger_at(path)
    journal.at(600)
    journal.chatter()
    log = Table(rows=(row("a", State.DONE, 301, 302),))
    book.record(read_at(journal.source(), now=moment(120), run_log=Table()))
    [before] = book.kills(NOON, NOON + HOUR)
    journal.at(601)
    unit.received("a")
    journal.at(602)
    unit.succeeded("a", 1)
    log = Table(rows=(row("a", State.DONE, 601, 602),))
    recorded = book.record(read_at(journal.source(), now=moment(3600), run_log=log))
    [after] = book.kills(NOON, NOON + HOUR)
    assert (before.fate, before.verdict) == ("lost", "unsettled")
    assert (after.fate, after.verdict) == ("redelivered", "recovered")
    assert (after.id, recorded.new, recorded.changed) == (before.id, 0, 1)


def test_a_judgement_never_replaces_a_later_one(path: Path) -> None:
    """Of two runs side by side the one that read first may write last; what the other one knew stays."""
    book = ledger_at(path)
    kill = whole().kills[9]
    early = read_at(TEN_DAYS, now=LATE)
    late = msgspec.structs.replace(
        early,
        generated_at=timestamp(LATE + HOUR),
        kills=tuple(msgspec.structs.replace(one, fate="redelivered") for one in early.kills),
    )
    book.record(late)
    book.record(early)
    assert {one.fate for one in book.kills(NOON, LATE)} == {"redelivered"}
    assert book.kills(NOON, LATE)[-1].id == kill.id


def test_what_turns_out_to_be_no_kill_is_withdrawn(path: Path) -> None:
    """A kill that a later report of the same records does not have any more is gone from the ledger."""
    book = ledger_at(path)
    document = whole()
    mistaken = msgspec.structs.replace(document.kills[4], id="mistaken")
    book.record(msgspec.structs.replace(document, kills=(*document.kills, mistaken)))
    recorded = book.record(msgspec.structs.replace(document, generated_at=timestamp(LATE + HOUR)))
    assert recorded.withdrawn == 1
    assert ids(book) == [kill.id for kill in document.kills]


@pytest.mark.parametrize("code", ["damaged", "no-permission", "reader-failed"])
def test_what_could_not_be_read_withdraws_nothing(path: Path, code: str) -> None:
    """A report without a kill proves nothing if a source of it could not be read."""
    book = ledger_at(path)
    document = whole()
    book.record(document)
    problem = CoverageProblem(code=code, detail="not read", since=None, until=None)
    source = SourceCoverage(
        host=None, boot_id=None, unit=None, source="-", first=None, last=None, entries=0, problems=(problem,)
    )
    coverage = msgspec.structs.replace(
        document.coverage, verdict="partial", sources=(*document.coverage.sources, source)
    )
    later = timestamp(LATE + HOUR)
    book.record(msgspec.structs.replace(document, generated_at=later, kills=(), coverage=coverage))
    assert ids(book) == [kill.id for kill in document.kills]


def test_what_the_journal_has_lost_is_not_withdrawn(path: Path) -> None:
    """A report of a vacuumed journal lacks old kills; the ledger keeps them."""
    book = ledger_at(path)
    book.record(whole())
    book.record(read_at(left(TEN_DAYS, NOON + 6 * DAY), now=LATE + HOUR, since=NOON - HOUR))
    assert ids(book) == [kill.id for kill in whole().kills]


def test_a_kill_keeps_its_name_when_the_journal_loses_the_line_that_named_it(path: Path) -> None:
    """The records of a death may outlive the line that received its task: what was known stays known."""
    book = ledger_at(path)
    book.record(read_at(TEN_DAYS, now=NOON + 5 * DAY))
    short = left(TEN_DAYS, NOON + 4 * DAY + 100 * 1_000_000)
    document = read_at(short, now=NOON + 5 * DAY + HOUR, since=NOON + 4 * DAY)
    [unnamed] = [kill for kill in document.kills if micros(kill.at) < NOON + 4 * DAY + HOUR]
    assert unnamed.task.id is None
    book.record(document)
    [kept] = book.kills(NOON + 4 * DAY, NOON + 4 * DAY + HOUR)
    assert kept.id == unnamed.id
    assert kept.task.id == "web1-4"
    shown = book.supplement(document).kills[0]
    assert shown.task.id == "web1-4"
    assert shown.reasons[-1].startswith("the journal has lost entries about it")


def test_what_became_of_a_kill_is_told_though_the_line_that_named_it_is_gone(path: Path) -> None:
    """If a later report still knows the task, but no longer the cause, the old cause stays with the new fate."""
    book = ledger_at(path)
    first = read_at(TEN_DAYS, now=NOON + 5 * DAY)
    known = msgspec.structs.replace(first.kills[4], cause="unit-stop", confidence="high")
    book.record(msgspec.structs.replace(first, kills=(*first.kills[:4], known)))
    short = read_at(left(TEN_DAYS, NOON + 4 * DAY + 45_000_000), now=NOON + 5 * DAY + HOUR, since=NOON + 4 * DAY)
    later = msgspec.structs.replace(short.kills[0], fate="redelivered", deliveries=2)
    assert (later.task.id, later.cause) == ("web1-4", "unknown")
    book.record(msgspec.structs.replace(short, kills=(later, *short.kills[1:])))
    [kept] = book.kills(NOON + 4 * DAY, NOON + 4 * DAY + HOUR)
    assert (kept.cause, kept.confidence, kept.fate, kept.deliveries) == ("unit-stop", "high", "redelivered", 2)


def test_a_ghost_counts_in_the_period_in_which_it_was_first_seen(path: Path) -> None:
    """A row that is still open week after week is one finding, and stays one after somebody closed it."""
    book = ledger_at(path)
    ghost = Ghost(
        key="48100", task=TaskReference(name="shop.tasks.ring", id="g"), started_at=None, reasons=("its boot is over",)
    )
    for day, ghosts in ((2, (ghost,)), (4, (ghost,)), (6, ())):
        document = read_at(TEN_DAYS, now=NOON + day * DAY + HOUR)
        book.record(msgspec.structs.replace(document, ghosts=ghosts))
    counts = [book.totals(NOON + day * DAY, NOON + (day + 1) * DAY).ghosts for day in range(8)]
    assert counts == [0, 0, 1, 0, 0, 0, 0, 0]


def test_blind_deaths_and_lines_that_are_no_losses_are_kept(path: Path) -> None:
    """They are counted in their period, and given back when the journal has lost it."""
    book = ledger_at(path)
    at = timestamp(NOON + DAY + HOUR)
    blind = BlindDeath(
        at=at, host="web1", unit="celery@a.service", main_pid=7, signal=9, cause="unknown", max_tasks=2, why="quiet"
    )
    line = NotLoss(at=at, host="web1", unit="celery@a.service", text="exitcode 155", why="it had finished")
    document = msgspec.structs.replace(whole(), blind_deaths=(blind,), not_losses=(line,))
    book.record(document)
    counted = book.totals(NOON + DAY, NOON + 2 * DAY)
    assert (counted.blind_deaths, counted.not_losses) == (1, 1)
    shown = book.supplement(read_at(left(TEN_DAYS, NOON + 6 * DAY), now=LATE + HOUR, since=NOON + HOUR))
    assert (shown.blind_deaths, shown.not_losses) == ((blind,), (line,))
    assert (shown.totals.blind_deaths, shown.totals.not_losses) == (1, 1)


# -- holes --------------------------------------------------------------------------------------------------------


def test_entries_that_vanish_between_two_runs_are_a_hole(path: Path) -> None:
    """If the oldest entry is younger than where the last run ended, the span between is lost, and counts as such."""
    book = ledger_at(path)
    book.record(read_at(TEN_DAYS, now=NOON + DAY, since=NOON + HOUR))
    short = left(TEN_DAYS, NOON + 3 * DAY)
    recorded = book.record(read_at(short, now=NOON + 5 * DAY))
    first = short.entries[0].realtime
    assert recorded.lost == ((NOON + DAY, first),)
    assert book.seen(NOON + HOUR, NOON + 5 * DAY) == ((NOON + HOUR, NOON + DAY), (first, NOON + 5 * DAY))
    again = book.record(read_at(short, now=NOON + 5 * DAY + HOUR))
    assert again.lost == ()


def test_a_source_that_cannot_be_read_moves_nothing(path: Path) -> None:
    """A run that finds no entries leaves the position and the coverage as they were."""
    book = ledger_at(path)
    book.record(read_at(TEN_DAYS, now=NOON + 2 * DAY, since=NOON + HOUR))
    book.record(read_at(replace(TEN_DAYS, entries=()), now=NOON + 3 * DAY))
    assert book.position() == NOON + 2 * DAY
    assert book.seen(NOON, NOON + 3 * DAY) == ((NOON + HOUR, NOON + 2 * DAY),)


def test_what_is_wrong_with_the_evidence_outlives_it(path: Path) -> None:
    """Lines that journald dropped are a hole in the ledger also after the journal has lost that time."""
    journal = weeks_of_kills(3)
    journal.at(2 * 86_400.0 + 86_000)
    journal.suppressed("celery@a.service")
    at = journal.entries[-1].realtime
    journal.at(9 * 86_400.0)
    journal.unit(concurrency=1, main=500).received("later")
    book = ledger_at(path)
    book.record(read_at(journal.source(), now=NOON + 3 * DAY, since=NOON + HOUR))
    end = NOON + 3 * DAY
    assert book.covered(at - DAY, end) == ((at - DAY, at - 500_000), (at + 500_000, end))
    document = read_at(left(journal.source(), NOON + 8 * DAY), now=NOON + 10 * DAY, since=NOON + 2 * DAY)
    codes = [problem.code for source in book.supplement(document).coverage.sources for problem in source.problems]
    assert "suppressed-messages" in codes


def test_a_later_reading_tells_what_is_wrong_where_it_still_reaches(path: Path) -> None:
    """A problem of an earlier run, of a user who could read less, is forgotten once all could be read."""
    book = ledger_at(path)
    document = whole()
    problem = CoverageProblem(code="no-permission", detail="some files", since=None, until=None)
    [first, *rest] = document.coverage.sources
    blind = msgspec.structs.replace(
        document.coverage, verdict="partial", sources=(msgspec.structs.replace(first, problems=(problem,)), *rest)
    )
    book.record(msgspec.structs.replace(document, coverage=blind))
    assert book.covered(NOON, LATE) == ()
    book.record(msgspec.structs.replace(document, generated_at=timestamp(LATE + HOUR)))
    assert book.covered(NOON, LATE) == ((NOON, LATE),)


# -- giving back --------------------------------------------------------------------------------------------------


def test_a_report_gets_back_what_the_journal_has_lost(path: Path) -> None:
    """Kills before the journal's first entry come from the ledger, counted and marked, and coverage says so."""
    book = ledger_at(path)
    for day in range(1, 10):
        book.record(read_at(TEN_DAYS, now=NOON + day * DAY + HOUR, since=NOON + HOUR * (day > 1)))
    short = left(TEN_DAYS, NOON + 6 * DAY)
    document = read_at(short, now=LATE, since=NOON + HOUR)
    assert document.coverage.verdict == "partial"
    shown = book.supplement(document)
    assert [kill.id for kill in shown.kills] == [kill.id for kill in whole().kills[1:]]
    assert shown.totals.kills == 9
    assert sum(offender.kills for offender in shown.offenders) == 9
    marks = [kill.reasons[-1].startswith("the journal has lost") for kill in shown.kills]
    assert marks == [True] * 5 + [False] * 4
    assert shown.coverage.verdict == "complete"
    problems = [problem for source in shown.coverage.sources for problem in source.problems]
    assert [problem.code for problem in problems] == ["from-ledger"]
    assert problems[0].detail.startswith("5 of 9 kills are from the ledger")


def test_a_kill_just_before_the_first_entry_comes_back_too(path: Path) -> None:
    """Less than a minute may be lost without being called a hole; a kill in it is added all the same."""
    book = ledger_at(path)
    book.record(whole())
    kill = whole().kills[4]
    died = micros(kill.at)
    later = left(TEN_DAYS, died + 1_000_000).entries
    entries = (replace(later[0], realtime=died + 30_000_000), *later)
    document = read_at(replace(TEN_DAYS, entries=entries), now=LATE, since=died - 1_000_000)
    assert (document.coverage.verdict, document.totals.kills) == ("complete", 5)
    shown = book.supplement(document)
    assert [one.id for one in shown.kills] == [one.id for one in whole().kills[4:]]
    assert (shown.coverage.verdict, shown.totals.kills) == ("complete", 6)


def test_what_neither_has_stays_a_hole(path: Path) -> None:
    """The ledger shrinks a hole to what nobody ever read, and coverage stays partial."""
    book = ledger_at(path)
    book.record(read_at(TEN_DAYS, now=NOON + 2 * DAY, since=NOON + HOUR))
    document = read_at(left(TEN_DAYS, NOON + 6 * DAY), now=LATE, since=NOON + HOUR)
    shown = book.supplement(document)
    holes = [
        problem
        for source in shown.coverage.sources
        for problem in source.problems
        if problem.code == "journal-starts-later"
    ]
    assert [(problem.since, micros(problem.until or "") // HOUR) for problem in holes] == [
        (timestamp(NOON + 2 * DAY), (NOON + 6 * DAY) // HOUR)
    ]
    assert shown.coverage.verdict == "partial"
    assert seconds(shown)[:3] == [86_520.0, 6 * 86_400 + 120.0, 7 * 86_400 + 120.0]


def test_a_journal_that_is_quite_empty_is_answered_from_the_ledger(path: Path) -> None:
    """Where no entry is left at all, the report is the ledger's, and partial only if that has holes."""
    book = ledger_at(path)
    book.record(read_at(TEN_DAYS, now=NOON + 3 * DAY, since=NOON + HOUR))
    nothing = replace(TEN_DAYS, entries=())
    shown = book.supplement(read_at(nothing, now=LATE, since=NOON + HOUR, until=NOON + 3 * DAY))
    assert (shown.totals.kills, shown.coverage.verdict) == (2, "complete")
    beyond = book.supplement(read_at(nothing, now=LATE, since=NOON + HOUR))
    assert (beyond.totals.kills, beyond.coverage.verdict) == (2, "partial")


def test_the_journal_wins_where_it_reaches(path: Path) -> None:
    """A kill that the ledger has and the whole journal does not show is not added."""
    book = ledger_at(path)
    document = whole()
    mistaken = msgspec.structs.replace(document.kills[4], id="mistaken")
    book.record(msgspec.structs.replace(document, kills=(*document.kills, mistaken)))
    assert book.supplement(document) == document


def test_a_report_that_needs_nothing_is_left_as_it_is(path: Path) -> None:
    """Without a hole before the journal's first entry nothing changes, also with an empty ledger."""
    book = ledger_at(path)
    assert book.supplement(whole()) == whole()
    book.record(whole())
    assert book.supplement(whole()) == whole()


def test_other_findings_of_the_lost_time_come_back_too(path: Path) -> None:
    """Deploys, idle deaths and lines that are no losses are kept and given back like kills."""
    journal = Journal()
    unit = journal.unit()
    journal.at(10)
    unit.exited(1, 15)
    unit.systemd.stopping()
    unit.warm()
    journal.at(12)
    unit.systemd.stopped()
    journal.at(20)
    unit.starts(main=300)
    journal.at(5 * 86_400.0)
    unit.received("x")
    unit.succeeded("x", 1)
    document = read_at(journal.source(), now=NOON + 4 * DAY, since=NOON - HOUR)
    assert (len(document.deploys), len(document.idle_deaths)) == (1, 1)
    book = ledger_at(path)
    book.record(document)
    short = read_at(left(journal.source(), NOON + 3 * DAY), now=NOON + 6 * DAY, since=NOON - HOUR)
    shown = book.supplement(short)
    assert (shown.deploys, shown.idle_deaths) == (document.deploys, document.idle_deaths)
    assert shown.totals.idle_deaths == 1


# -- comparing ----------------------------------------------------------------------------------------------------


def window(since: int, until: int) -> Window:
    """A document's window."""
    return Window(since=timestamp(since), until=timestamp(until))


def test_the_period_before_is_counted(path: Path) -> None:
    """`previous` counts as long a period just before the window."""
    book = ledger_at(path)
    book.record(read_at(TEN_DAYS, now=LATE, since=NOON + HOUR))
    before = book.previous(window(NOON + 6 * DAY, NOON + 8 * DAY))
    assert before is not None
    assert before.kills == 2
    assert before.by_task == {"shop.tasks.ring": 2}


def test_a_period_that_was_not_watched_is_compared_with_nothing(path: Path) -> None:
    """`previous` is None unless the whole period before was read: half a week compares with none."""
    book = ledger_at(path)
    book.record(read_at(TEN_DAYS, now=LATE, since=NOON + 2 * HOUR))
    assert book.previous(window(NOON + 2 * DAY, NOON + 4 * DAY)) is None
    assert book.previous(window(NOON + 2 * DAY + 2 * HOUR, NOON + 4 * DAY + 2 * HOUR)) is not None


def test_weeks_count_kills_and_tell_what_was_never_read(path: Path) -> None:
    """A week without any reading has no number, one that was read in part has fewer covered days."""
    book = ledger_at(path)
    book.record(read_at(TEN_DAYS, now=LATE, since=NOON + HOUR))
    berlin = ZoneInfo("Europe/Berlin")
    weeks = book.weeks(3, NOON + 14 * DAY, berlin)
    told = [(week.kills, week.covered, week.days) for week in weeks]
    assert told == [(None, 0, 7), (6, 6, 7), (3, 2, 7)]
    assert timestamp(weeks[1].since) == "2026-11-29T23:00:00.000000Z"


def test_the_covered_part_of_a_report_is_its_window_less_its_problems() -> None:
    """A problem with both ends is a hole of that span; the journal's missing start is one."""
    document = read_at(left(TEN_DAYS, NOON + 3 * DAY), now=NOON + 5 * DAY, since=NOON)
    first = left(TEN_DAYS, NOON + 3 * DAY).entries[0].realtime
    assert covered(document) == ((first, NOON + 5 * DAY),)
    assert covered(read_at(TEN_DAYS, now=LATE, since=NOON + HOUR)) == ((NOON + HOUR, LATE),)


# -- books --------------------------------------------------------------------------------------------------------


def test_hosts_that_share_a_ledger_keep_apart(path: Path) -> None:
    """Each thing that is watched has a book of its own: kills, position and coverage do not mix."""
    one, two = ledger_at(path), ledger_at(path, Scope(sources="journal of web2"))
    one.record(read_at(TEN_DAYS, now=LATE, since=NOON + HOUR))
    two.record(read_at(weeks_of_kills(2, host="web2").source(), now=NOON + 2 * DAY, since=NOON - HOUR))
    assert {kill.host for kill in one.kills(0, LATE)} == {"web1"}
    assert {kill.host for kill in two.kills(0, LATE)} == {"web2"}
    assert two.position() == NOON + 2 * DAY


def test_a_report_on_some_units_reads_the_book_of_all(path: Path) -> None:
    """Who asks for a unit that has no book of its own gets its findings out of the book of all units."""
    journal = Journal()
    a, b = journal.unit("celery@a.service"), journal.unit("celery@b.service", main=500)
    a.received("a")
    b.received("b")
    journal.at(60)
    a.dies(1, job=1)
    b.dies(2, job=None)
    everything = ledger_at(path)
    everything.record(read_at(journal.source(), now=NOON + HOUR))
    some = open_ledger(str(path), scope=replace(SCOPE, units=("celery@b*",)), environ={})
    assert some is not None
    assert [kill.unit for kill in some.kills(0, LATE)] == ["celery@b.service"]
    assert [kill.unit for kill in everything.kills(0, LATE)] == ["celery@a.service", "celery@b.service"]


def test_the_order_of_units_makes_no_other_book() -> None:
    """A scope is the same whatever the order of its units and however often one is named."""
    assert Scope(sources="x", units=("a", "b", "a")).key == Scope(sources="x", units=("b", "a")).key
    assert Scope(sources="x", units=("a",)).key != Scope(sources="x").key


# -- the file -----------------------------------------------------------------------------------------------------


def test_only_its_owner_may_read_the_file(path: Path) -> None:
    """The ledger is made with mode 0600 in a folder of mode 0700, whatever the umask."""
    before = os.umask(0)
    try:
        ledger_at(path).record(whole())
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert list(path.parent.iterdir()) == [path]


def test_a_reader_makes_no_ledger(path: Path) -> None:
    """Without a ledger a reader gets None, and nothing is made."""
    assert open_ledger(str(path), scope=SCOPE, environ={}) is None
    assert not path.parent.exists()


def test_an_empty_database_is_no_ledger(path: Path) -> None:
    """A file without tables is none for a reader, and becomes one for a writer."""
    path.parent.mkdir()
    path.touch()
    assert open_ledger(str(path), scope=SCOPE, environ={}) is None
    assert ledger_at(path).position() is None


def test_the_tables_are_what_all_steps_make(tmp_path: Path) -> None:
    """The steps from an empty database give the tables that the program works with, and know their version."""
    engine = sa.create_engine(f"sqlite:///{tmp_path / 'new'}", poolclass=NullPool)
    with engine.begin() as connection:
        migrate(connection)
        migrate(connection)
        assert version_of(connection) == len(STEPS)
    made = sa.MetaData()
    made.reflect(engine)
    assert {name: set(table.columns.keys()) for name, table in made.tables.items()} == {
        name: set(table.columns.keys()) for name, table in TABLES.tables.items()
    }
    assert all(name.startswith("kill_audit_") for name in made.tables)


def test_a_ledger_of_an_earlier_version_goes_through_the_later_steps_once(path: Path) -> None:
    """A step that was not made yet is made, and its version is written with it."""
    book = ledger_at(path)
    book.record(whole())
    engine = sa.create_engine(f"sqlite:///{path}", poolclass=NullPool)
    later = (*STEPS, lambda connection: connection.exec_driver_sql("ALTER TABLE kill_audit_book ADD COLUMN note TEXT"))
    for _ in range(2):
        with engine.begin() as connection:
            migrate(connection, later)
            assert version_of(connection) == len(STEPS) + 1
    with engine.begin() as connection:
        assert connection.exec_driver_sql("SELECT count(*), max(note) FROM kill_audit_book").one() == (1, None)


def test_a_ledger_of_a_later_version_is_refused(path: Path) -> None:
    """What a newer program wrote is neither read nor written, and the message says what to do."""
    ledger_at(path)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE kill_audit_version SET version = 99")
    for writing in (False, True):
        with pytest.raises(LedgerError, match="version 99") as refused:
            open_ledger(str(path), scope=SCOPE, environ={}, writing=writing)
        assert "upgrade" in refused.value.hint


def test_a_kill_that_an_earlier_program_wrote_lacks_what_it_did_not_know(path: Path) -> None:
    """Keys that later versions added are null, or empty lists, in what was kept before."""
    book = ledger_at(path)
    book.record(whole())
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(
            "UPDATE kill_audit_finding SET body = json_remove(body, '$.host_pid', '$.evidence', '$.task.confidence') "
            "WHERE kind = 'kill'"
        )
    kill = book.kills(NOON, LATE)[0]
    assert (kill.host_pid, kill.evidence, kill.task.confidence) == (None, (), None)
    assert kill.task.id == "web1-0"


def test_a_locked_ledger_says_who_has_it(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A writer waits for another one, and then gives up with a word on what is going on."""
    ledger_at(path)
    monkeypatch.setattr("kill_audit.ledger.place.BUSY_S", 0)
    with closing(sqlite3.connect(path)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(LedgerError, match="locked") as refused:
            ledger_at(path)
        reader = open_ledger(str(path), scope=SCOPE, environ={})
    assert "another kill-audit" in refused.value.hint
    assert reader is not None


def test_a_file_that_is_no_database_is_refused_in_one_line(path: Path) -> None:
    """Text where a ledger should be is named as what it is not."""
    path.parent.mkdir()
    path.write_text("no database " * 100)
    with pytest.raises(LedgerError, match="not a database"):
        ledger_at(path)


def test_a_place_that_may_not_be_looked_into_is_told_in_one_line(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder of a service is closed to others: that is neither "no ledger" nor a traceback."""

    def closed(self: Path, **_: object) -> os.stat_result:
        raise PermissionError(errno.EACCES, "Permission denied", str(self))

    monkeypatch.setattr(Path, "stat", closed)
    with pytest.raises(LedgerError, match=r"cannot read the ledger .*: Permission denied") as refused:
        open_ledger(str(path), scope=SCOPE, environ={})
    assert "--no-ledger" in (refused.value.hint or "")


def test_a_place_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    """A folder that cannot be made is an error with the option to name another."""
    (tmp_path / "file").touch()
    with pytest.raises(LedgerError, match="cannot write the ledger") as refused:
        ledger_at(tmp_path / "file" / "ledger")
    assert "--ledger" in refused.value.hint


def test_the_usual_place_is_the_services_the_roots_or_the_users(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """$STATE_DIRECTORY goes before all; root has the folder of the service; a user has one by XDG."""
    assert state_directory({"STATE_DIRECTORY": "/var/lib/kill-audit:/var/lib/other"}) == Path("/var/lib/kill-audit")
    assert state_directory({}, root=True) == Path("/var/lib/kill-audit")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert state_directory({}, root=False) == tmp_path / "kill-audit"


def test_a_user_without_a_home_is_told_to_name_a_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """A service's user may have no home; then only a named place will do."""

    def homeless(*_: object, **__: object) -> Path:
        raise RuntimeError("could not determine the home directory")

    monkeypatch.setattr("platformdirs.user_state_path", homeless)
    with pytest.raises(LedgerError, match="no home directory") as refused:
        state_directory({}, root=False)
    assert "STATE_DIRECTORY" in refused.value.hint


def test_a_place_may_be_a_path_or_a_url() -> None:
    """A path is a SQLite file; a URL is what it says; a ledger in memory is refused."""
    assert file_of(locate("state/ledger", {})) == Path("state/ledger").absolute()
    assert locate("postgresql://h/d", {"KILL_AUDIT_LEDGER_PASSWORD": "x"}).password == "x"  # noqa: S105
    with pytest.raises(LedgerError, match="not supported"):
        locate("ftp://h/d", {})
    with pytest.raises(LedgerError, match="memory"):
        open_ledger("sqlite://", scope=SCOPE, environ={})


def test_a_server_that_is_not_there_is_one_line_without_the_password() -> None:
    """A refused connection is told without secrets."""
    with pytest.raises(room.LedgerError) as refused:
        open_ledger(
            "postgresql://app@127.0.0.1:1/app",
            scope=SCOPE,
            environ={"KILL_AUDIT_LEDGER_PASSWORD": "hunter2"},
            writing=True,
        )
    assert "hunter2" not in refused.value.message
    assert "\n" not in refused.value.message
