"""What a summary says: every sentence and number, before it is text or HTML.

Rules of this file: it takes a document, what weeks it is compared with, and a zone; no clock, no file. Texts of the
document are made printable first, so that none can forge a line or a header.
"""

import datetime as dt
import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import msgspec

from kill_audit import texts
from kill_audit.document import Deploy, Document, Kill, Totals, micros
from kill_audit.ledger import Week, covered, covered_days
from kill_audit.render import figures, headline
from kill_audit.render.figures import Share, place
from kill_audit.render.printable import printable, printable_document
from kill_audit.render.sentences import (
    a_few,
    accepted,
    besides,
    drain,
    ran_for,
    reference,
    run_log,
    stale,
    unit_advice,
)
from kill_audit.render.sentences import coverage as coverage_said
from kill_audit.render.view import Clock, count, span

LISTED = 10  # kills, tasks and deploys shown; the rest is a number, because Gmail cuts a mail at 102 KB
_DATE = "%Y-%m-%d"


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """What a mail is made of.

    `weeks` are those before the window, oldest first, none without a ledger. `whole_week`: the window is a week of the
    calendar. `notes` are sentences about the run itself, such as a ledger that could not be read.
    """

    document: Document
    label: str
    zone: dt.tzinfo
    weeks: tuple[Week, ...] = ()
    whole_week: bool = True
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Number:
    """A count of the window and of the one before (None: not known). `bad`: somebody has to act on it."""

    label: str
    now: int
    before: int | None
    bad: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One kill in a few words."""

    id: str
    task: str
    ran: str
    what: str
    when: str
    where: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """A week of the line: `unrecorded` of its `kills` have no row or one stuck open; None where nothing was read."""

    label: str
    kills: int | None
    unrecorded: int | None
    whole: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """Everything that a mail says, in its order. `quiet`: nothing found in whole evidence, which one line says."""

    subject: str
    headline: str
    period: str
    before: str
    quiet: bool
    numbers: tuple[Number, ...]
    worst: tuple[Item, ...]
    more: str
    causes: tuple[Share, ...]
    tasks: tuple[Share, ...]
    deploys: tuple[str, ...]
    bars: tuple[Bar, ...]
    coverage: tuple[str, ...]
    remarks: tuple[str, ...]
    advice: tuple[str, ...]
    steps: tuple[tuple[str, str], ...]
    notes: tuple[str, ...]


def content(summary: Summary) -> Content:
    """Say everything."""
    document = printable_document(summary.document)
    clock = Clock.over(document, summary.zone)
    longest, _ = figures.worst_first(document)
    quiet = is_quiet(document)
    return Content(
        subject=subject(summary),
        headline=_quiet_line(summary) if quiet else _headline(document),
        period=_period(summary, document, clock),
        before=_before(summary),
        quiet=quiet,
        numbers=tuple(_numbers(document)),
        worst=tuple(_item(kill, clock) for kill in longest[:LISTED]),
        more=_more(document, shown=len(longest[:LISTED])),
        causes=figures.by_cause(document),
        tasks=_tasks(document),
        deploys=tuple(_deploys(document, clock)),
        bars=tuple(_bars(summary)),
        coverage=tuple(_coverage(summary, document)),
        remarks=tuple(_remarks(document, clock)),
        advice=(*map(drain, document.advice.drain), *unit_advice(document.advice.units)),
        steps=tuple(_steps(document, clock)),
        notes=(*(printable(note) for note in summary.notes), *stale(document, clock)),
    )


def nothing_to_act_on(document: Document) -> bool:
    """Whether nothing was found but what is accepted as known, and the evidence is good enough to say so."""
    known = tuple(kill for kill in document.kills if kill.accepted is None)
    return is_quiet(msgspec.structs.replace(document, kills=known))


def is_quiet(document: Document) -> bool:
    """Whether nothing was found, and the evidence is good enough to say so."""
    found = document.kills or document.blind_deaths or document.ghosts or document.duplicates
    return not found and document.coverage.verdict == "complete"


def covered_of(summary: Summary) -> tuple[int, int]:
    """Count the days of the window that the evidence covers from end to end, and all of them."""
    window = summary.document.window
    return covered_days(covered(summary.document), micros(window.since), micros(window.until), summary.zone)


# -- the subject --------------------------------------------------------------


def subject(summary: Summary) -> str:
    """Say the numbers: `kill-audit web1: 125 killed, 125 unrecorded (98 the week before), 3 deploys`."""
    document = summary.document
    days, of = covered_of(summary)
    said = [_killed(document, _before(summary))]
    if document.totals.accepted:
        said.append(f"{document.totals.accepted:,} accepted")
    if blind := len(document.blind_deaths):
        said.append(count(blind, "blind death"))
    if not document.kills and document.ghosts:
        said.append(count(len(document.ghosts), "ghost row"))
    _, deploys = figures.deploys_with_kills(document)
    if deploys:
        said.append(count(deploys, "deploy"))
    if days < of:
        said.append(f"only {days} of {count(of, 'day')} covered")
    elif not document.kills:
        said.append(f"{days} of {count(of, 'day')} covered")
    return f"kill-audit {printable(summary.label)}: {', '.join(said)}"


def _killed(document: Document, before: str) -> str:
    """Count the killed and those without a proper row; the number before stands with what it is comparable to."""
    killed, earlier = f"{len(document.kills):,} killed", document.previous
    unrecorded = unrecorded_in(document.totals)
    if document.run_log is None or not document.kills:
        return killed if earlier is None else f"{killed} ({earlier.kills:,} {before})"
    if earlier is None:
        return f"{killed}, {unrecorded:,} unrecorded"
    if earlier.kills and not earlier.by_verdict:  # no run log was read then
        return f"{killed} ({earlier.kills:,} {before}), {unrecorded:,} unrecorded"
    return f"{killed}, {unrecorded:,} unrecorded ({unrecorded_in(earlier):,} {before})"


def unrecorded_in(totals: Totals) -> int:
    """The kills that the run log does not tell of: without a row, or with one that still says it runs."""
    return totals.missing + totals.stuck


def _before(summary: Summary) -> str:
    return "the week before" if summary.whole_week else "the period before"


# -- the parts ----------------------------------------------------------------


def _headline(document: Document) -> str:
    """The report's own, without the period before, which the numbers below it stand against."""
    return headline(msgspec.structs.replace(document, previous=None))


def _quiet_line(summary: Summary) -> str:
    days, of = covered_of(summary)
    entries = rounded(summary.document.coverage.entries)
    return f"0 kills in {entries} entries, {days} of {count(of, 'day')} covered."


def rounded(number: int) -> str:
    """A large number as people say it: `1.2 M`, `48 k`, `9,204`."""
    for size, unit in ((1_000_000_000, "G"), (1_000_000, "M"), (10_000, "k")):
        if number >= size:
            shown = number / (1_000 if unit == "k" else size)
            return f"{shown:.0f} {unit}" if shown >= 10 else f"{shown:.1f} {unit}"
    return f"{number:,}"


def _period(summary: Summary, document: Document, clock: Clock) -> str:
    if not summary.whole_week:
        return f"{clock.at(document.window.since)} to {clock.at(document.window.until)} ({clock.name})"
    first, last = clock.day(document.window.since), clock.day_before(document.window.until)
    return f"Week {first.isocalendar().week}: {first:%a} {first} to {last:%a} {last} ({clock.name})"


def _numbers(document: Document) -> Iterator[Number]:
    now, before = document.totals, document.previous
    # What the run log did not tell of then can only be compared if one was read then.
    known = before if before is not None and (before.by_verdict or not before.kills) else None
    yield _number("killed", "kills", now, before, bad=False)
    if now.accepted:  # what was accepted then is not known: the ledger keeps kills as they were found
        yield _number("accepted as known", "accepted", now, None, bad=False)
    if document.run_log is not None:
        yield _number("no run row", "missing", now, known)
        yield _number("row stuck open", "stuck", now, known)
        yield from _other_verdicts(now, known)
        yield _number("ghost row" if now.ghosts == 1 else "ghost rows", "ghosts", now, known)
    if now.blind_deaths or (before is not None and before.blind_deaths):
        yield _number("blind death" if now.blind_deaths == 1 else "blind deaths", "blind_deaths", now, before)


def _other_verdicts(now: Totals, known: Totals | None) -> Iterator[Number]:
    """Count what the run log says of all other kills, as far as it says it of any."""
    titles = texts.load().verdicts
    for verdict, number in now.by_verdict.items():
        if verdict not in figures.UNSETTLED_ROWS and number:
            earlier = None if known is None else known.by_verdict.get(verdict, 0)
            label = titles[verdict].title if verdict in titles else printable(verdict)
            yield Number(label=label, now=number, before=earlier, bad=False)


def _number(label: str, key: str, now: Totals, before: Totals | None, *, bad: bool = True) -> Number:
    earlier = None if before is None else int(getattr(before, key))
    return Number(label=label, now=int(getattr(now, key)), before=earlier, bad=bad)


def _item(kill: Kill, clock: Clock) -> Item:
    moment = clock.at(kill.at)
    known = texts.load().verdicts
    verdict = "no run log given"
    if kill.verdict is not None:
        verdict = known[kill.verdict].title if kill.verdict in known else kill.verdict
    return Item(
        id=kill.id,
        task=reference(kill.task) if kill.task.name or kill.task.id else _candidates(kill),
        ran=ran_for(kill),
        what=f"{kill.cause} ({kill.confidence}), {kill.fate}, {verdict}",
        when=f"{dt.date.fromisoformat(moment[:10]):%a} {moment}",
        where=place(kill.unit, kill.host),
    )


def _candidates(kill: Kill) -> str:
    names = list(dict.fromkeys(one.name or "" for one in kill.task.candidates))
    return f"{figures.NO_NAME}, perhaps {a_few(names)}" if names else figures.NO_NAME


def _more(document: Document, *, shown: int) -> str:
    """Count the kills that are not shown; accepted ones never are."""
    number, accepted = len(document.kills) - shown, document.totals.accepted
    if number <= 0:
        return ""
    said = f"and {count(number, 'more kill')}" if shown else count(number, "kill")
    if not accepted:
        return said
    return f"{said}, {'all' if accepted == number else f'{accepted:,} of them'} accepted as known"


def _tasks(document: Document) -> tuple[Share, ...]:
    """The tasks that were killed most, and all others as one."""
    shares = figures.by_task(document, compared=True)
    rest = shares[LISTED:]
    if len(rest) <= 1:
        return shares
    lost_s = [share.lost_s for share in rest if share.lost_s is not None]
    others = Share(
        key=f"({count(len(rest), 'other task')})",
        kills=sum(share.kills for share in rest),
        missing=sum(share.missing for share in rest),
        stuck=sum(share.stuck for share in rest),
        lost_s=sum(lost_s) if lost_s else None,
        before=None if document.previous is None else sum(share.before or 0 for share in rest),
    )
    return (*shares[:LISTED], others)


def _deploys(document: Document, clock: Clock) -> Iterator[str]:
    shares = [share for share in figures.by_deploy(document) if share.kills or share.deploy is not None]
    shares.sort(key=lambda share: -share.kills)
    for share in shares[:LISTED]:
        units = a_few([unit for unit, _ in share.by_unit])
        where = f" ({units})" if units else ""
        if share.deploy is None:
            yield f"outside any deploy: {share.kills:,} killed{where}"
        else:
            yield f"{_deploy_name(share.deploy, clock)}: {share.kills:,} killed{where}"
    if len(shares) > LISTED:
        yield f"and {count(len(shares) - LISTED, 'more deploy')}"


def _deploy_name(deploy: Deploy, clock: Clock) -> str:
    """Its time, and its label unless that is but the time again."""
    utc = dt.datetime.fromisoformat(deploy.since).astimezone(dt.UTC)
    since = clock.at(deploy.since)
    return since if deploy.label == f"{utc:%Y-%m-%d %H:%M} UTC" else f"{deploy.label}, {since}"


def _bars(summary: Summary) -> Iterator[Bar]:
    if all(week.kills is None for week in summary.weeks):
        return
    for week in summary.weeks:
        kills = week.kills
        unrecorded = None if kills is None else (week.missing or 0) + (week.stuck or 0)
        yield Bar(
            label=_week(week.since, summary.zone), kills=kills, unrecorded=unrecorded, whole=week.covered == week.days
        )
    document, (days, of) = summary.document, covered_of(summary)
    since = micros(document.window.since)
    yield Bar(
        label=_week(since, summary.zone) if summary.whole_week else "now",
        kills=None if document.coverage.verdict == "none" and not document.kills else len(document.kills),
        unrecorded=unrecorded_in(document.totals),
        whole=days == of,
    )


def _week(since: int, zone: dt.tzinfo) -> str:
    local = dt.datetime.fromtimestamp(since // 1_000_000, dt.UTC).astimezone(zone)
    return f"W{local.isocalendar().week}"


def _coverage(summary: Summary, document: Document) -> Iterator[str]:
    days, of = covered_of(summary)
    yield f"{days} of {count(of, 'day')} covered; {coverage_said(document)}"
    known = texts.load().coverage
    for hole in figures.holes(document)[:LISTED]:
        title = known[hole.problem.code].title if hole.problem.code in known else hole.problem.code
        yield f"{title}: {hole.problem.detail} ({a_few(hole.places)})"
    yield f"run log: {run_log(document.run_log)}"


def _remarks(document: Document, clock: Clock) -> Iterator[str]:
    for blind in document.blind_deaths[:LISTED]:
        tasks = (
            "an unknown number of tasks" if blind.max_tasks is None else f"at most {count(blind.max_tasks, 'task')}"
        )
        yield f"blind death of {place(blind.unit, blind.host)}, {clock.at(blind.at)}: {tasks} ({blind.why})"
    if ghosts := len(document.ghosts):
        names = a_few([reference(ghost.task) for ghost in document.ghosts])
        yield f"{count(ghosts, 'ghost row')}, still open although nothing runs: {names}"
    yield from _accepted(document, clock)
    if twice := len(document.duplicates):
        names = a_few([reference(one.task) for one in document.duplicates])
        yield f"{count(twice, 'task')} finished more than once: {names}"
    yield from besides(document)


def _accepted(document: Document, clock: Clock) -> Iterator[str]:
    """Say by which entries how many kills are accepted, and why."""
    entries = Counter(kill.accepted for kill in document.kills if kill.accepted is not None).most_common()
    for entry, number in entries[:LISTED]:
        yield f"{count(number, 'kill')} {accepted(entry, clock)}"
    if rest := entries[LISTED:]:
        number = sum(number for _, number in rest)
        yield f"{count(number, 'more kill')} accepted by {count(len(rest), 'other entry', 'other entries')}"


def _steps(document: Document, clock: Clock) -> Iterator[tuple[str, str]]:
    """Commands to copy, each with the window, because by the time the mail is read the usual one is another."""
    window = f"-S {_spelt(document.window.since, clock)} -U {_spelt(document.window.until, clock)}"
    longest, _ = figures.worst_first(document)
    for kill in longest[:1]:
        yield f"kill-audit show {kill.id} {window}", "the evidence for the first kill above"
    if document.kills:
        yield f"kill-audit report {window} -x", "all of it, with what each finding means and how to fix it"
    if figures.deploys_with_kills(document)[0]:
        yield f"kill-audit deploys {window}", "every deploy, and what it cost"
    if document.coverage.verdict != "complete" or document.blind_deaths:
        yield "kill-audit doctor", "why the evidence is not whole, and how to keep more"


def _spelt(moment: str, clock: Clock) -> str:
    local = dt.datetime.fromisoformat(moment).astimezone(clock.zone)
    written = f"{local:{_DATE}}" if local.time() == dt.time() else f"{local:{_DATE} %H:%M:%S}"
    return shlex.quote(f"{written} UTC" if clock.short == "UTC" else written)


def spark(values: Sequence[int | None]) -> str:
    """Draw a line of numbers with eight heights, zero the lowest; a number that is not known is a dot."""
    most = max((value for value in values if value is not None), default=0)
    steps = "▁▂▃▄▅▆▇█"
    return "".join(
        "·" if value is None else steps[0] if value == 0 else steps[1 + (value * 6) // most] for value in values
    )


def lost(share: Share) -> str:
    """How much work a share lost, as the tables show it."""
    return span(share.lost_s)
