"""Summaries of weeks for the tests of mail: reports of journals written in a few words, and weeks before them."""

import datetime as dt
from email import message_from_bytes, policy
from email.message import EmailMessage
from typing import Any
from zoneinfo import ZoneInfo

import msgspec

from builders import DAY, NOON, Journal, Table, audited
from kill_audit.document import CoverageProblem, Document, Totals, Window, timestamp
from kill_audit.entry import Question
from kill_audit.ledger import Week
from kill_audit.mail import Parties, Summary, compose, parties

MONDAY = NOON - DAY // 2  # 2026-11-30 00:00 UTC
WEEK = 7 * DAY
BERLIN = ZoneInfo("Europe/Berlin")
SENT_AT = dt.datetime(2026, 12, 7, 8, 0, tzinfo=dt.UTC)
WHO = parties("kill-audit@web1.example.org", ["Ops <ops@example.org>"], "web1")


def week(
    kills: int = 3, *, run_log: bool = True, deploy: bool = True, host: str = "web1", name: str = "shop.tasks.ring"
) -> Document:
    """A report of a week in which a deploy (or nobody) killed some runs, on a host that writes until its end."""
    journal = Journal(host)
    unit = journal.unit(concurrency=max(kills, 1))
    for number in range(kills):
        unit.received(f"task-{number}", name=name)
    journal.at(60)
    if deploy:
        unit.systemd.stopping()
        unit.warm()
    for number in range(kills):
        unit.exited(number + 1, 15)
        unit.lost(number + 1, 15)
    if deploy:
        unit.systemd.stopped()
        journal.at(90)
        unit.starts(main=5000)
    for hour in range(1, 24 * 7 - 11):
        journal.at(hour * 3600.0)
        journal.chatter()
    question = Question(since=MONDAY, until=MONDAY + WEEK, read_since=MONDAY - WEEK, read_until=MONDAY + 2 * WEEK)
    whole = audited(journal, question=question, now=MONDAY + WEEK, run_log=Table() if run_log else None)
    return with_coverage(whole)


def with_coverage(document: Document, *problems: CoverageProblem, entries: int = 1_204_331) -> Document:
    """The report with evidence over the whole week but for these problems."""
    [*sources] = document.coverage.sources
    sources = [msgspec.structs.replace(source, problems=()) for source in sources]
    sources[0] = msgspec.structs.replace(sources[0], problems=problems)
    coverage = msgspec.structs.replace(
        document.coverage, verdict="partial" if problems else "complete", entries=entries, sources=tuple(sources)
    )
    return msgspec.structs.replace(document, coverage=coverage)


def hole(since: int, until: int) -> CoverageProblem:
    """A span that the journal does not reach back to."""
    return CoverageProblem(
        code="journal-starts-later", detail="vacuumed", since=timestamp(since), until=timestamp(until)
    )


def before(kills: int, *, missing: int | None = None) -> Totals:
    """The totals of the week before; with `missing` a run log was read then."""
    counted = {} if missing is None else {"missing": missing}
    return Totals(
        kills=kills, missing=missing or 0, stuck=0, accepted=0, ghosts=0, idle_deaths=0, blind_deaths=0, not_losses=0,
        by_cause={"unit-stop": kills}, by_verdict=counted, by_unit={}, by_task={},
    )  # fmt: skip


def weeks(*kills: int | None) -> tuple[Week, ...]:
    """The weeks before, oldest first; None was not read."""
    first = MONDAY - WEEK * len(kills)
    return tuple(
        Week(
            since=first + WEEK * place,
            until=first + WEEK * (place + 1),
            kills=number,
            missing=number,
            stuck=None if number is None else 0,
            covered=0 if number is None else 7,
            days=7,
        )
        for place, number in enumerate(kills)
    )


def summary(document: Document, **known: Any) -> Summary:
    """A summary in UTC of web1."""
    return Summary(**{"document": document, "label": "web1", "zone": dt.UTC, **known})


def read(message: EmailMessage) -> EmailMessage:
    """A mail as a mail program has it: from its bytes on the wire."""
    got = message_from_bytes(message.as_bytes(policy=message.policy), policy=policy.default)
    assert isinstance(got, EmailMessage)
    return got


def mailed(document: Document, who: Parties = WHO, **known: Any) -> EmailMessage:
    """The mail of a report, read back."""
    return read(compose(summary(document, **known), who, date=SENT_AT))


def body(message: EmailMessage, kind: str) -> str:
    """The plain or the html part."""
    part = message.get_body((kind,))
    assert part is not None
    text = part.get_content()
    assert isinstance(text, str)
    return text.replace("\r\n", "\n")


def moved(document: Document, since: str, until: str, zone: dt.tzinfo = BERLIN) -> Document:
    """The report with another window, of local times."""
    edges = [dt.datetime.fromisoformat(text).replace(tzinfo=zone).timestamp() for text in (since, until)]
    window = Window(since=timestamp(round(edges[0]) * 1_000_000), until=timestamp(round(edges[1]) * 1_000_000))
    return msgspec.structs.replace(document, window=window, generated_at=window.until)
