"""The ledger on real servers: the same as in a file, also when two write at the same time."""

from concurrent.futures import ThreadPoolExecutor

import msgspec
from sqlalchemy.engine import URL

from kill_audit.document import Document, Ghost, TaskReference, timestamp
from kill_audit.ledger import Ledger, open_ledger
from ledger_stories import DAY, HOUR, NOON, SCOPE, ids, left, read_at, weeks_of_kills

FOUR_DAYS = weeks_of_kills(4).source()
LATE = NOON + 3 * DAY + HOUR


def ledger_of(url: URL) -> Ledger:
    """Open a ledger to write it."""
    ledger = open_ledger(url.render_as_string(hide_password=False), scope=SCOPE, environ={}, writing=True)
    assert ledger is not None
    return ledger


def whole() -> Document:
    """The report of all four days."""
    return read_at(FOUR_DAYS, now=LATE, since=NOON + HOUR // 60)


def test_a_server_keeps_and_gives_back_what_a_file_does(database: URL) -> None:
    """Kills, position, coverage, and what the journal has lost come back; long and odd texts are kept."""
    book = ledger_of(database)
    document = whole()
    odd = msgspec.structs.replace(document.kills[0], reasons=("x" * 100_000, "\N{SNOWMAN} \0 \N{PILE OF POO}"))
    odd = msgspec.structs.replace(odd, task=msgspec.structs.replace(odd.task, name="tasks.\0\N{PILE OF POO}" * 90))
    document = msgspec.structs.replace(document, kills=(odd, *document.kills[1:]))
    assert book.record(document).new == 4
    assert book.record(document).changed == 0
    reader = open_ledger(database.render_as_string(hide_password=False), scope=SCOPE, environ={})
    assert reader is not None
    assert reader.kills(0, LATE) == document.kills
    assert reader.position() == LATE
    short = read_at(left(FOUR_DAYS, NOON + 2 * DAY), now=LATE + 1, since=NOON + HOUR // 60)
    assert [kill.id for kill in reader.supplement(short).kills] == [kill.id for kill in document.kills]


def test_a_server_drops_what_is_older_than_it_is_to_be_kept(database: URL) -> None:
    """Kills, a ghost that is not seen any more and coverage go, and are told as dropped; what is younger stays."""
    ghost = Ghost(key="1", task=TaskReference(name="tasks.a", id="g"), started_at=None, reasons=("its boot is over",))
    book = ledger_of(database)
    first = read_at(FOUR_DAYS, now=NOON + DAY + HOUR, since=NOON)
    book.record(msgspec.structs.replace(first, ghosts=(ghost,)), keep=DAY)
    book.record(read_at(FOUR_DAYS, now=LATE, since=NOON + DAY), keep=DAY)
    recorded = book.record(read_at(FOUR_DAYS, now=LATE + 1, since=NOON + 2 * DAY), keep=DAY)
    assert (recorded.dropped, recorded.withdrawn) == (2, 0)
    left_over = book.totals(0, LATE + DAY)
    assert (left_over.kills, left_over.ghosts) == (1, 0)
    assert book.seen(0, LATE + DAY) == ((NOON + 2 * DAY + HOUR, LATE + 1),)


def test_two_that_write_at_the_same_time_write_one_after_the_other(database: URL) -> None:
    """Runs side by side lose nothing and double nothing, also when the book is not there yet."""
    document = whole()
    later = [msgspec.structs.replace(document, generated_at=timestamp(LATE + number)) for number in range(8)]
    ledger_of(database)
    with ThreadPoolExecutor(4) as pool:
        recorded = list(pool.map(lambda one: ledger_of(database).record(one), later))
    assert sum(one.new for one in recorded) == 4
    assert ids(ledger_of(database)) == [kill.id for kill in document.kills]
