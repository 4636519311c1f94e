"""How far the evidence reaches: "nothing found" is worth only as much as that."""

from dataclasses import replace

import pytest

from builders import DAY, EVERYTHING, HOUR, NOON, Journal, Memory, Unit, audited, moment
from kill_audit import texts
from kill_audit.document import CoverageProblem, Document, micros
from kill_audit.entry import Micros, Problem, Question

WINDOW = Question(since=NOON, until=NOON + DAY, read_since=NOON - DAY, read_until=NOON + 2 * DAY)


def whole_day(host: str = "web1") -> tuple[Journal, Unit]:
    """A host whose journal reaches from before the window to its end, with a worker at work."""
    journal = Journal(host)
    journal.now = NOON - HOUR
    unit = journal.unit()
    for hour in range(24):
        journal.now = NOON + hour * HOUR
        journal.chatter()
    return journal, unit


def finish(journal: Journal) -> Document:
    """Let the journal reach the window's end, and audit it."""
    journal.now = NOON + DAY - 1_000_000
    journal.chatter()
    return audited(journal, question=WINDOW, now=NOON + DAY)


def problems(document: Document) -> list[CoverageProblem]:
    """All problems, whatever source they are about."""
    return [problem for source in document.coverage.sources for problem in source.problems]


def codes(document: Document) -> list[str]:
    """The codes of all problems."""
    return [problem.code for problem in problems(document)]


def test_complete() -> None:
    """Evidence from before the window to its end, without a hole, is complete."""
    journal, _ = whole_day()
    document = finish(journal)
    assert (document.coverage.verdict, codes(document)) == ("complete", [])
    assert document.coverage.entries == len(journal.entries)


def test_by_source_and_unit() -> None:
    """Each source is listed by host, boot and audited unit, with its first and last entry."""
    journal, unit = whole_day()
    listed = {source.unit: source for source in finish(journal).coverage.sources}
    assert listed.keys() == {unit.name, None}
    assert {source.host for source in listed.values()} == {"web1"}
    assert {source.source for source in listed.values()} == {"web1.journal"}
    assert micros(str(listed[unit.name].first)) == NOON - HOUR
    assert sum(source.entries for source in listed.values()) == len(journal.entries)


def test_nothing_at_all() -> None:
    """Without an entry there is no evidence."""
    document = audited(Memory(name="empty", entries=()), question=WINDOW, now=NOON + DAY)
    assert (document.coverage.verdict, document.coverage.entries) == ("none", 0)


def test_no_worker() -> None:
    """A journal in which no worker speaks is no evidence about workers."""
    journal = Journal()
    journal.chatter()
    assert finish(journal).coverage.verdict == "none"


def test_outside_the_window() -> None:
    """Entries that all lie before the window are no evidence about it."""
    journal = Journal()
    journal.now = NOON - HOUR
    journal.unit()
    document = audited(journal, question=WINDOW, now=NOON + DAY)
    assert document.coverage.verdict == "none"


def test_vacuumed() -> None:
    """A journal whose first entry is younger than the window's start was vacuumed or rotated away."""
    journal = Journal()
    journal.now = NOON + 5 * HOUR
    journal.unit()
    document = finish(journal)
    (problem,) = problems(document)
    assert (document.coverage.verdict, problem.code) == ("partial", "journal-starts-later")
    assert (micros(str(problem.since)), micros(str(problem.until))) == (NOON, NOON + 5 * HOUR)


def test_ends_early() -> None:
    """A journal whose last entry is hours older than the window's end tells nothing of the rest."""
    journal = Journal()
    journal.now = NOON - HOUR
    journal.unit()
    journal.now = NOON + 5 * HOUR
    journal.chatter()
    document = audited(journal, question=WINDOW, now=NOON + DAY)
    assert (document.coverage.verdict, codes(document)) == ("partial", ["journal-ends-earlier"])


def test_window_into_the_future() -> None:
    """A window that reaches into the future is judged up to now."""
    journal = Journal()
    journal.now = NOON - HOUR
    journal.unit()
    for hour in (4, 5):
        journal.now = NOON + hour * HOUR
        journal.chatter()
    assert audited(journal, question=WINDOW, now=NOON + 5 * HOUR).coverage.verdict == "complete"


def test_each_host() -> None:
    """One host's whole journal does not make up for another's hole."""
    whole, _ = whole_day("web1")
    whole.now = NOON + DAY - 1_000_000
    whole.chatter()
    late = Journal("web2")
    late.now = NOON + 5 * HOUR
    late.unit()
    late.now = NOON + DAY - 1_000_000
    late.chatter()
    document = audited(whole, late, question=WINDOW, now=NOON + DAY)
    found = [(source.host, problem.code) for source in document.coverage.sources for problem in source.problems]
    assert (document.coverage.verdict, found) == ("partial", [("web2", "journal-starts-later")])


def test_suppressed() -> None:
    """Lines that journald's rate limit dropped may tell of deaths; the number is said."""
    journal, unit = whole_day()
    journal.suppressed(unit.name, 1532)
    document = finish(journal)
    (problem,) = problems(document)
    assert (document.coverage.verdict, problem.code) == ("partial", "suppressed-messages")
    assert "1532" in problem.detail


def test_suppressed_elsewhere() -> None:
    """Lines dropped of a unit that runs no worker do not matter."""
    journal, _ = whole_day()
    journal.suppressed("nginx.service")
    assert finish(journal).coverage.verdict == "complete"


def test_missed_kernel_lines() -> None:
    """Kernel lines that journald missed may tell of an OOM kill."""
    journal, _ = whole_day()
    journal.missed(12)
    document = finish(journal)
    assert (document.coverage.verdict, codes(document)) == ("partial", ["missed-kernel-messages"])


def test_boot_without_an_end() -> None:
    """A boot that another follows without a word of shutdown may lack its last five minutes."""
    first, _ = whole_day()
    second = Journal(boot=2)
    second.now = NOON + DAY - HOUR // 2
    second.unit(main=900)
    second.now = NOON + DAY - 1_000_000
    second.chatter()
    document = audited(first, second, question=WINDOW, now=NOON + DAY)
    assert (document.coverage.verdict, codes(document)) == ("partial", ["boot-without-end"])


@pytest.mark.parametrize("how", ["journald stops", "logind tells"])
def test_boot_with_an_end(how: str) -> None:
    """A boot that ends in an orderly way is whole."""
    first, unit = whole_day()
    if how == "journald stops":
        unit.systemd.stopping()
        unit.warm()
        unit.systemd.succeeded()
        unit.systemd.stopped()
        first.journal_stops()
    else:
        first.goes_down()
        unit.systemd.stopping()
        unit.warm()
        unit.systemd.succeeded()
        unit.systemd.stopped()
    second = Journal(boot=2)
    second.now = NOON + DAY - HOUR // 2
    second.unit(main=900)
    second.now = NOON + DAY - 1_000_000
    second.chatter()
    assert audited(first, second, question=WINDOW, now=NOON + DAY).coverage.verdict == "complete"


def test_quiet_log_level() -> None:
    """A worker at log level WARNING shows no receipts: its kills cannot be named."""
    journal = Journal()
    journal.now = NOON - HOUR
    unit = journal.unit(starts=False)
    unit.runs = 1
    unit.bare(f" -------------- {unit.node} v5.7.0 (collider)")
    unit.bare("- *** --- * --- .> concurrency: 2 (prefork)")
    document = finish(journal)
    assert (document.coverage.verdict, codes(document)) == ("partial", ["quiet-log-level"])


def test_quiet_log_level_of_4_4() -> None:
    """Its banner comes when it ends: what shows a quiet one is that its unit was seen to start."""
    for seen_to_start in (True, False):
        journal = Journal()
        journal.now = NOON - HOUR
        unit = journal.unit(starts=False, version="4.4.7")
        unit.runs = 1
        if seen_to_start:
            unit.systemd.started()
        journal.now = NOON + HOUR
        unit.warm()
        unit.dies(1, 0, 15)
        unit.bare(f" -------------- {unit.node} v4.4.7 (cliffs)")
        assert ("quiet-log-level" in codes(finish(journal))) is seen_to_start


def test_idle_worker() -> None:
    """A worker that is ready and receives nothing is not quiet."""
    journal, _ = whole_day()
    assert "quiet-log-level" not in codes(finish(journal))


def test_logs_to_file() -> None:
    """A unit that starts its workers with `celery multi` writes no task lines to the journal."""
    journal, _ = whole_day()
    multi = Unit(journal, "celery.service", main=4000, starts=False)
    multi.runs = 1
    multi.systemd.started()
    multi.bare("celery multi v5.7.0 (collider)")
    multi.bare("> Starting nodes...")
    document = finish(journal)
    found = [(source.unit, problem.code) for source in document.coverage.sources for problem in source.problems]
    assert (document.coverage.verdict, found) == ("partial", [("celery.service", "logs-to-file")])


def test_text() -> None:
    """A text file is vouched for by its owner alone; that is said, and makes nothing partial."""
    journal = Journal(vouched=False)
    journal.now = NOON - HOUR
    journal.unit()
    document = finish(journal)
    assert (document.coverage.verdict, codes(document)) == ("complete", ["unvouched-text"])


def test_problems_of_a_source() -> None:
    """What a source could not read is a problem of that source, with its time."""
    journal, _ = whole_day()
    journal.now = NOON + DAY - 1_000_000
    journal.chatter()
    damaged = replace(
        journal.source(), problems=(Problem(code="damaged", detail="no entry at byte 7", since=moment(60)),)
    )
    document = audited(damaged, question=WINDOW, now=NOON + DAY)
    (problem,) = problems(document)
    assert (document.coverage.verdict, problem.code, problem.since) == (
        "partial",
        "damaged",
        "2026-11-30T12:01:00.000000Z",
    )


def test_source_without_entries() -> None:
    """A source that could not be read at all is listed with its problem."""
    journal, _ = whole_day()
    journal.now = NOON + DAY - 1_000_000
    journal.chatter()
    nothing = Memory(name="gone.journal", entries=(), problems=(Problem(code="no-permission", detail="root only"),))
    document = audited(journal, nothing, question=WINDOW, now=NOON + DAY)
    listed = [
        (source.source, source.entries, [one.code for one in source.problems]) for source in document.coverage.sources
    ]
    assert ("gone.journal", 0, ["no-permission"]) in listed
    assert document.coverage.verdict == "partial"


HOLES: dict[str, Micros] = {"before the window": NOON - 2 * HOUR, "after the window": NOON + DAY + HOUR}


@pytest.mark.parametrize("at", HOLES.values(), ids=HOLES.keys())
def test_holes_outside(at: Micros) -> None:
    """A hole outside the window does not matter."""
    journal = Journal()
    journal.now = min(at, NOON - HOUR)
    unit = journal.unit()
    if at < NOON:
        journal.now = at
        journal.suppressed(unit.name)
    for hour in range(25):
        journal.now = NOON + hour * HOUR
        journal.chatter()
    if at > NOON + DAY:
        journal.now = at
        journal.missed()
    assert audited(journal, question=WINDOW, now=NOON + DAY).coverage.verdict == "complete"


def test_every_code_has_a_text() -> None:
    """Every problem of the evidence that can be said has a text that explains it."""
    journal = Journal()
    unit = journal.unit()
    journal.suppressed(unit.name)
    journal.missed()
    said = set(codes(audited(journal, question=EVERYTHING, now=NOON + DAY)))
    assert said == {"journal-starts-later", "journal-ends-earlier", "suppressed-messages", "missed-kernel-messages"}
    assert said <= texts.load().coverage.keys()
