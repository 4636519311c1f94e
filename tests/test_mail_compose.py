"""The mail itself, read back as a mail program reads it."""

import datetime as dt
import os
import re
import shutil
import sys
from collections.abc import Iterator
from contextlib import suppress
from email.utils import parsedate_to_datetime
from html.parser import HTMLParser
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from playwright.sync_api import Browser, sync_playwright

from builders import DAY, Journal
from kill_audit import texts
from kill_audit.document import (
    Accepted,
    BlindDeath,
    Candidate,
    Document,
    Duplicate,
    Ghost,
    Task,
    TaskReference,
    timestamp,
)
from kill_audit.errors import SourceError
from kill_audit.mail import Due, MailError, compose, compose_failure, fingerprint, parties, withheld
from kill_audit.mail.content import rounded, spark, subject
from mail_weeks import (
    BERLIN,
    MONDAY,
    SENT_AT,
    WEEK,
    WHO,
    before,
    body,
    hole,
    mailed,
    moved,
    read,
    summary,
    week,
    weeks,
    with_coverage,
)

CHROMIUM = os.environ.get("KILL_AUDIT_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
HOSTILE = "tasks.\x1b[31m\r\nBcc: eve@example.org\u202e<script>alert(1)</script><img src=x>{{ 7 * 7 }}"


# -- the subject --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (
            msgspec.structs.replace(week(), previous=before(98, missing=98)),
            "3 killed, 3 unrecorded (98 the week before), 1 deploy",
        ),
        (
            msgspec.structs.replace(week(), previous=before(98)),
            "3 killed (98 the week before), 3 unrecorded, 1 deploy",
        ),
        (week(), "3 killed, 3 unrecorded, 1 deploy"),
        (msgspec.structs.replace(week(run_log=False), previous=before(9)), "3 killed (9 the week before), 1 deploy"),
        (week(deploy=False), "3 killed, 3 unrecorded"),
        (week(0), "0 killed, 7 of 7 days covered"),
        (msgspec.structs.replace(week(0), previous=before(2)), "0 killed (2 the week before), 7 of 7 days covered"),
        (with_coverage(week(0), hole(MONDAY, MONDAY + 2 * DAY)), "0 killed, only 5 of 7 days covered"),
        (
            with_coverage(week(), hole(MONDAY, MONDAY + DAY + 1)),
            "3 killed, 3 unrecorded, 1 deploy, only 5 of 7 days covered",
        ),
    ],
    ids=[
        "all-of-it",
        "no-run-log-before",
        "nothing-before",
        "no-run-log",
        "no-deploy",
        "quiet",
        "quiet-after-two",
        "quiet-with-a-hole",
        "kills-with-a-hole",
    ],
)
def test_the_subject_has_the_numbers(document: Document, expected: str) -> None:
    """It says how many were killed and not recorded, against the week before, and how sure that is."""
    assert subject(summary(document)) == f"kill-audit web1: {expected}"
    assert mailed(document)["Subject"] == f"kill-audit web1: {expected}"


def test_another_window_is_compared_with_the_period_before() -> None:
    """Only a week of the calendar has a week before."""
    document = msgspec.structs.replace(week(), previous=before(98, missing=98))
    assert "(98 the period before)" in subject(summary(document, whole_week=False))


def test_a_blind_death_is_in_the_subject() -> None:
    """A death whose tasks cannot be known is not "0 killed" alone."""
    blind = BlindDeath(
        at=timestamp(MONDAY), host="web1", unit="celery@q.service", main_pid=1, signal=9, cause="unknown",
        max_tasks=8, why="the log level hides which tasks it had received",
    )  # fmt: skip
    document = msgspec.structs.replace(week(0), blind_deaths=(blind,))
    assert subject(summary(document)) == "kill-audit web1: 0 killed, 1 blind death, 7 of 7 days covered"
    assert "at most 8 tasks (the log level hides which" in " ".join(body(mailed(document), "plain").split())


# -- headers ------------------------------------------------------------------------------------------------------


def test_a_mail_says_that_nobody_wrote_it_to_which_list_and_thread_it_belongs_and_when() -> None:
    """Auto-Submitted, List-Id, References, Date and a Message-ID on the sender's domain."""
    message = mailed(week())
    assert message["Auto-Submitted"] == "auto-generated"
    assert message["List-Id"] == "kill-audit web1 <web1.kill-audit.web1.example.org>"
    assert message["References"] == message["In-Reply-To"] == "<kill-audit.web1@web1.example.org>"
    assert re.fullmatch(r"<web1\.[0-9a-f]{20}@web1\.example\.org>", message["Message-ID"])
    assert parsedate_to_datetime(message["Date"]) == SENT_AT
    assert (message["From"], message["To"]) == ("kill-audit@web1.example.org", "Ops <ops@example.org>")


def test_a_week_has_one_message_id_and_all_weeks_one_thread() -> None:
    """The same week composed again is the same message; another one, or one sent again, is not; the thread stays."""
    first, second = mailed(week()), mailed(with_coverage(week(5), entries=7))
    other = mailed(moved(week(), "2026-12-07", "2026-12-14", dt.UTC))
    again = read(compose(summary(week()), WHO, date=SENT_AT, again="1"))
    to_others = mailed(week(), parties("kill-audit@web1.example.org", ["dev@example.org"], "web1"))
    assert first["Message-ID"] == second["Message-ID"]
    assert len({message["Message-ID"] for message in (first, other, again, to_others)}) == 4
    assert {message["References"] for message in (first, other, again, to_others)} == {first["References"]}
    assert read(compose(summary(week()), WHO, date=SENT_AT, thread=False))["References"] is None


@pytest.mark.parametrize(
    "addresses",
    [
        ["nonsense"],
        ["ops@"],
        ["@example.org"],
        ["a@b\r\nBcc: eve@example.org"],
        ["ops@ex ample.org"],
        [],
        [""],
        ["b@é"],
    ],
)
def test_what_is_no_address_is_refused(addresses: list[str]) -> None:
    """An address is refused before anything is composed, with the form that it should have."""
    with pytest.raises(MailError) as refused:
        parties("kill-audit@example.org", addresses, "web1")
    assert "ops@example.org" in refused.value.hint


@given(st.text(st.sampled_from('ab.@,;<>()"\\ é\n'), max_size=16))
def test_any_text_is_an_address_or_is_refused(text: str) -> None:
    """Whatever is written, it is read as addresses that can stand in an envelope, or refused in one line."""
    with suppress(MailError):
        who = parties("kill-audit@example.org", [text], "web1")
        assert all(re.fullmatch(r"[\x21-\x7e]+@[A-Za-z0-9.-]+", address.addr_spec) for address in who.recipients)


def test_addresses_may_have_names_and_stand_together() -> None:
    """Several recipients may stand in one text; who stands twice gets one mail."""
    who = parties("KA <k@example.org>", ["Ops <ops@example.org>, dev@example.org", "dev@example.org"], "web 1/b")
    assert [address.addr_spec for address in who.recipients] == ["ops@example.org", "dev@example.org"]
    assert who.list_id == "kill-audit web-1-b <web-1-b.kill-audit.example.org>"
    with pytest.raises(MailError, match="more than one"):
        parties("a@example.org, b@example.org", ["c@example.org"], "web1")


# -- what a mail program shows ------------------------------------------------------------------------------------


class _Tags(HTMLParser):
    """The tags of a page with their attributes, and its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


def test_the_mail_is_text_or_html_with_its_picture() -> None:
    """Alternatives of text and HTML; the HTML shows the picture that comes with it by its Content-ID, in words too."""
    message = mailed(week(), weeks=weeks(12, 40, 31, 66, 0, None, 98))
    assert message.get_content_type() == "multipart/alternative"
    assert [part.get_content_type() for part in message.iter_parts()] == ["text/plain", "multipart/related"]
    [picture] = [part for part in message.walk() if part.get_content_type() == "image/png"]
    [image] = [attributes for tag, attributes in _Tags(body(message, "html")).found if tag == "img"]
    assert image["src"] == f"cid:{picture['Content-ID'].strip('<>')}"
    assert picture["Content-ID"].endswith("@web1.example.org>")
    assert image["alt"] == (
        "Killed runs per week, oldest first: W42 12, W43 40, W44 31, W45 66, W46 0, W47 not read, W48 98, W49 3"
    )
    assert picture.get_content()[:8] == b"\x89PNG\r\n\x1a\n"
    assert picture.get_content_disposition() == "inline"


def test_the_text_is_whole_without_the_picture() -> None:
    """The plain part has the line of weeks with every number, and everything that the HTML says."""
    text = body(mailed(week(), weeks=weeks(12, 40, 31, 66, 0, None, 98)), "plain")
    assert f"  {spark([12, 40, 31, 66, 0, None, 98, 3])}  oldest first" in text
    assert " ".join(text.split()).count("W42 12, W43 40, W44 31, W45 66, W46 0, W47 ?*, W48 98, W49 3") == 1
    for title in ("WORST FIRST", "BY CAUSE", "BY TASK", "BY DEPLOY", "COVERAGE", "WHAT TO DO NEXT"):
        assert f"\n{title}\n" in text
    assert text.index("WORST FIRST") < text.index("BY CAUSE") < text.index("WHAT TO DO NEXT")


def test_without_matplotlib_the_line_of_weeks_stands_in_the_html(monkeypatch: pytest.MonkeyPatch) -> None:
    """The extra may be missing: there is no picture then, and no gap where it would be."""
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    message = mailed(week(), weeks=weeks(1, 2, 3))
    assert [part.get_content_type() for part in message.walk()] == ["multipart/alternative", "text/plain", "text/html"]
    page = _Tags(body(message, "html"))
    assert spark([1, 2, 3, 3]) in page.text
    assert "img" not in {tag for tag, _ in page.found}


def test_without_weeks_before_there_is_no_line() -> None:
    """One week alone makes no line; neither do weeks that nobody read."""
    assert "WEEK BY WEEK" not in body(mailed(week()), "plain")
    assert "WEEK BY WEEK" not in body(mailed(week(), weeks=weeks(None, None)), "plain")


def test_a_quiet_week_is_one_honest_line() -> None:
    """Nothing found in whole evidence is said in one line, with how much was read; nothing else is asked for."""
    message = mailed(week(0))
    assert body(message, "plain") == (
        "0 kills in 1.2 M entries, 7 of 7 days covered.\n\nWeek 49: Mon 2026-11-30 to Sun 2026-12-06 (UTC)\n"
    )
    assert "0 kills in 1.2 M entries, 7 of 7 days covered." in body(message, "html")
    assert "<h2" not in body(message, "html")


def test_a_week_with_holes_is_not_quiet() -> None:
    """No kills in evidence with a hole is told with the hole, and with what to do about it."""
    text = body(mailed(with_coverage(week(0), hole(MONDAY, MONDAY + 2 * DAY))), "plain")
    assert "5 of 7 days covered; partial" in text
    assert "the journal starts later: vacuumed" in text
    assert "kill-audit doctor" in text


def test_the_worst_comes_first_and_the_rest_is_a_number() -> None:
    """Ten kills are shown, the longest first; commands carry the window, so that they still work next month."""
    text = body(mailed(week(25)), "plain")
    assert len(re.findall(r"^\d+\. shop\.tasks\.ring\[", text, re.MULTILINE)) == 10
    assert "and 15 more kills" in text
    assert re.search(r"^  kill-audit show [0-9a-f]+ -S '2026-11-30 UTC' -U '2026-12-07 UTC'$", text, re.MULTILINE)


def test_this_week_stands_against_the_last() -> None:
    """Numbers and causes stand beside those of the week before, also a cause that only that one had."""
    document = msgspec.structs.replace(week(), previous=before(98, missing=90))
    text = body(mailed(document), "plain")
    assert re.search(r"^ +3  killed  \(98 the week before\)$", text, re.MULTILINE)
    assert re.search(r"^ +3  no run row  \(90 the week before\)$", text, re.MULTILINE)
    assert re.search(r"^ +3  unit-stop  \(98 the week before\)", text, re.MULTILINE)


def accepted_by(document: Document, entry: Accepted, *numbers: int) -> Document:
    """The report with kills that an entry accepts."""
    kills = tuple(
        msgspec.structs.replace(kill, accepted=entry) if number in numbers else kill
        for number, kill in enumerate(document.kills)
    )
    number = sum(kill.accepted is not None for kill in kills)
    return msgspec.structs.replace(
        document, kills=kills, totals=msgspec.structs.replace(document.totals, accepted=number)
    )


def test_accepted_kills_are_counted_with_their_reason_and_not_among_the_worst() -> None:
    """The subject, the numbers and both bodies tell how many and why; they are compared with nothing."""
    entry = Accepted(reason="the drill", until=None, by="task shop.*", where="kill-audit.accepted.toml:5")
    document = accepted_by(week(), entry, 0, 2)
    document = msgspec.structs.replace(document, previous=before(98, missing=98))
    message = mailed(document)
    assert "3 killed, 3 unrecorded (98 the week before), 2 accepted, 1 deploy" in message["Subject"]
    text = body(message, "plain")
    assert "\n      2  accepted as known\n" in text
    assert len(re.findall(r"^[0-9]+\. ", text, re.MULTILINE)) == 1
    assert "and 2 more kills, all accepted as known" in text
    told = "2 kills accepted: the drill (task shop.*; kill-audit.accepted.toml:5)"
    assert told in " ".join(text.split())
    assert told in body(message, "html")


def test_a_week_whose_kills_are_all_accepted_has_no_worst() -> None:
    """It is still no quiet week, and no command asks to look at a kill that is known."""
    known = Accepted(reason="the drill", until=None, by="task shop.*", where="a.toml:5")
    text = body(mailed(accepted_by(week(), known, 0, 1, 2)), "plain")
    assert "WORST FIRST" not in text
    assert "\n\n3 kills, all accepted as known\n\n" in text
    assert "kill-audit show" not in text


def test_tasks_are_compared_and_the_rest_of_them_is_a_number() -> None:
    """Ten tasks stand with their number of the week before; all others together are one line, so that it adds up."""
    document = week(13)
    kills = tuple(
        msgspec.structs.replace(kill, task=msgspec.structs.replace(kill.task, name=f"tasks.t{number:02}"))
        for number, kill in enumerate(document.kills)
    )
    earlier = msgspec.structs.replace(before(5), by_task={"tasks.t00": 4, "tasks.gone": 1})
    text = body(mailed(msgspec.structs.replace(document, kills=kills, previous=earlier)), "plain")
    assert re.search(r"^ +1  tasks.t00  \(4 the week before\)", text, re.MULTILINE)
    assert re.search(r"^ +3  \(4 other tasks\)  \(1 the week before\)", text, re.MULTILINE)


def test_what_the_run_log_says_of_all_kills_is_counted() -> None:
    """A run whose row says success, or that the table does not reach back to, is counted too."""
    document = week(3)
    verdicts = {"contradicted": 2, "uncovered": 1}
    document = msgspec.structs.replace(document, totals=msgspec.structs.replace(document.totals, by_verdict=verdicts))
    text = body(mailed(msgspec.structs.replace(document, previous=before(98, missing=98))), "plain")
    titles = texts.load().verdicts
    assert f"\n      2  {titles['contradicted'].title}  (0 the week before)\n" in text
    assert f"\n      1  {titles['uncovered'].title}  (0 the week before)\n" in text


def test_what_is_no_kill_is_told_besides() -> None:
    """Ghost rows, tasks that finished twice and idle deaths are told, and a ghost alone is no quiet week."""
    ghost = Ghost(
        key="1", task=TaskReference(name="shop.tasks.ring", id="g"), started_at=None, reasons=("its boot is over",)
    )
    twice = Duplicate(task=TaskReference(name="shop.tasks.charge", id="c"), deliveries=3, finished=2)
    document = msgspec.structs.replace(week(0), ghosts=(ghost,), duplicates=(twice,))
    message = mailed(document)
    assert message["Subject"] == "kill-audit web1: 0 killed, 1 ghost row, 7 of 7 days covered"
    text = " ".join(body(message, "plain").split())
    assert "1 ghost row, still open although nothing runs: shop.tasks.ring[g]" in text
    assert "1 task finished more than once: shop.tasks.charge[c]" in text


def test_a_kill_without_a_name_shows_what_it_may_have_been() -> None:
    """Candidates stand where the name would; a verdict of a later version stands as it is."""
    document = week(1)
    [kill] = document.kills
    candidate = Candidate(name="shop.tasks.sync", id="s", how="elimination")
    task = Task(name=None, id=None, how="none", confidence=None, candidates=(candidate,))
    odd = msgspec.structs.replace(kill, task=task, verdict="of-a-later-version", accepted=None)
    document = msgspec.structs.replace(document, kills=(odd,), run_log=None)
    assert "1. (not named), perhaps shop.tasks.sync" in body(mailed(document), "plain")
    assert "of-a-later-version" in body(mailed(document), "plain")


def test_kills_that_nobody_has_to_act_on_are_a_number() -> None:
    """Recorded and recovered runs are not among the worst; deploys beyond ten are a number too."""
    document = week(3)
    recorded = tuple(msgspec.structs.replace(kill, verdict="recorded") for kill in document.kills)
    [deploy] = document.deploys
    many = tuple(msgspec.structs.replace(deploy, id=f"d{number}", label=f"release {number}") for number in range(13))
    text = body(mailed(msgspec.structs.replace(document, kills=recorded, deploys=(deploy, *many))), "plain")
    assert "WORST FIRST" not in text
    assert "\n\n3 kills\n\n" in text
    assert "kill-audit show" not in text
    assert "and 4 more deploys" in text
    assert "- release 0, 2026-11-30 12:01:00: 0 killed" in text


def test_the_text_fits_a_phone() -> None:
    """No line but a command or an id is longer than 72 characters."""
    document = msgspec.structs.replace(week(), previous=before(98, missing=98))
    long = [line for line in body(mailed(document, weeks=weeks(*range(7))), "plain").splitlines() if len(line) > 72]
    assert [line for line in long if not line.startswith("  kill-audit ")] == []


def test_a_bad_week_stays_below_what_gmail_cuts() -> None:
    """5,000 kills of 40 tasks make a page of less than 102 KB."""
    journal = Journal()
    units = [
        journal.unit(f"celery@{number}.service", main=10_000 * (number + 1), concurrency=500) for number in range(10)
    ]
    for place, unit in enumerate(units):
        for number in range(500):
            unit.received(f"{place}-{number}", name=f"shop.tasks.job_{number % 40}")
    many = week(500)
    kills = tuple(
        msgspec.structs.replace(kill, id=f"{place}{kill.id}", unit=units[place].name)
        for place in range(10)
        for kill in many.kills
    )
    message = mailed(msgspec.structs.replace(many, kills=kills), weeks=weeks(*range(7)))
    assert len(body(message, "html").encode()) < 102_000
    assert len(body(message, "plain").encode()) < 102_000


def test_names_out_of_a_journal_forge_nothing() -> None:
    """What comes from journals neither makes a header, nor a tag, nor drives a terminal."""
    document = week(2, name="shop.tasks.ring", host="web1")
    kill = document.kills[0]
    hostile = msgspec.structs.replace(
        kill, host=HOSTILE, unit=HOSTILE, task=msgspec.structs.replace(kill.task, name=HOSTILE, id=HOSTILE)
    )
    document = msgspec.structs.replace(document, kills=(hostile, *document.kills[1:]))
    message = mailed(document, parties("k@example.org", ["ops@example.org"], "web1\r\nBcc: eve@example.org"),
                     label="web1\r\nBcc: eve@example.org", notes=(HOSTILE,))  # fmt: skip
    assert message["Bcc"] is None
    assert message["Subject"].startswith(r"kill-audit web1\r\nBcc: eve@example.org: 2 killed")
    plain, page = body(message, "plain"), _Tags(body(message, "html"))
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e]", plain + page.text)
    assert {tag for tag, _ in page.found} & {"script", "img"} == set()
    assert "{{ 7 * 7 }}" in page.text


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Debian's Chromium."""
    if CHROMIUM is None:
        reason = "there is no Chromium: apt-get install chromium"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        yield opened
        opened.close()


@pytest.mark.xdist_group("browser")
def test_a_phone_shows_it_without_scrolling_sideways(browser: Browser, tmp_path: Path) -> None:
    """At 360 CSS pixels nothing is wider than the screen, with a picture and with the oddest names."""
    document = week(12)
    odd = [
        msgspec.structs.replace(
            kill, unit="celery@" + "x" * 80, task=msgspec.structs.replace(kill.task, name=HOSTILE * 2)
        )
        for kill in document.kills
    ]
    document = msgspec.structs.replace(document, kills=tuple(odd), previous=before(98_765, missing=98_765))
    message = mailed(document, weeks=weeks(12, 40, 31, 66_000, 0, None, 98))
    [picture] = [part for part in message.walk() if part.get_content_type() == "image/png"]
    (tmp_path / "weeks.png").write_bytes(picture.get_content())
    page_file = tmp_path / "mail.html"
    cid = f"cid:{picture['Content-ID'].strip('<>')}"
    page_file.write_text(body(message, "html").replace(cid, (tmp_path / "weeks.png").as_uri()), encoding="utf-8")
    page = browser.new_page(viewport={"width": 360, "height": 740})
    page.goto(page_file.as_uri())
    assert page.evaluate("document.documentElement.scrollWidth") == 360
    assert page.evaluate("document.images[0].naturalWidth") > 1000
    narrow = "[...document.querySelectorAll('td')].filter(cell => cell.offsetWidth < 10).length"
    assert page.evaluate(narrow) == 0
    page.close()


# -- periods ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("since", "until", "period"),
    [
        ("2026-12-28", "2027-01-04", "Week 53: Mon 2026-12-28 to Sun 2027-01-03 (Europe/Berlin (CET))"),
        ("2026-10-19", "2026-10-26", "Week 43: Mon 2026-10-19 to Sun 2026-10-25 (Europe/Berlin (CEST, then CET))"),
        ("2027-03-22", "2027-03-29", "Week 12: Mon 2027-03-22 to Sun 2027-03-28 (Europe/Berlin (CET, then CEST))"),
    ],
    ids=["new-year", "clocks-back", "clocks-forward"],
)
def test_a_week_over_new_year_or_summer_time_has_seven_days(since: str, until: str, period: str) -> None:
    """Its number is ISO's, its days are those of the zone, and all seven are covered."""
    document = moved(week(0), since, until)
    zone = mailed(document, zone=dt.UTC)
    message = mailed(document, zone=BERLIN)
    assert period in body(message, "plain")
    assert message["Subject"].endswith("7 of 7 days covered")
    assert zone["Message-ID"] == message["Message-ID"]


# -- small parts --------------------------------------------------------------------------------------------------


@given(st.lists(st.none() | st.integers(0, 10**9), max_size=12))
def test_a_line_of_numbers_has_a_height_for_each(values: list[int | None]) -> None:
    """Unknown is a dot, zero alone is the lowest, the most is the highest, and more is never lower."""
    line = spark(values)
    assert len(line) == len(values)
    known = sorted((value, height) for value, height in zip(values, line, strict=True) if value is not None)
    assert [height for _, height in known] == sorted(height for _, height in known)
    assert all((height == "▁") == (value == 0) for value, height in known)
    assert not known or known[-1][0] == 0 or known[-1][1] == "█"
    assert line.count("·") == values.count(None)


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (0, "0"),
        (9_999, "9,999"),
        (48_211, "48 k"),
        (1_204_331, "1.2 M"),
        (12_500_000, "12 M"),
        (3_100_000_000, "3.1 G"),
    ],
)
def test_large_numbers_are_rounded_as_people_say_them(number: int, said: str) -> None:
    """Two digits are enough where nobody counts entries."""
    assert rounded(number) == said


# -- failures and whether a mail is due ---------------------------------------------------------------------------


def test_its_own_failure_is_mailed_as_not_knowing() -> None:
    """The mail says why there is no summary, what may help, and that this is no "nothing was killed"."""
    error = SourceError("this user may not read the journal", hint="usermod -aG systemd-journal kill-audit")
    message = read(compose_failure(error, WHO, period="last week", date=SENT_AT))
    assert message["Subject"] == "kill-audit web1: could not audit: this user may not read the journal"
    text = message.get_content()
    assert "usermod -aG systemd-journal kill-audit" in text
    assert "Nothing is known of last week" in text
    assert message["References"] == "<kill-audit.web1@web1.example.org>"
    assert message["Auto-Submitted"] == "auto-generated"
    tomorrow = compose_failure(error, WHO, period="last week", date=SENT_AT + dt.timedelta(days=1))
    assert message["Message-ID"] != tomorrow["Message-ID"]


def test_a_mail_is_due_always_with_findings_or_when_something_changed() -> None:
    """Holes are something to say; the same numbers as the last time are no change, whatever the ids and times."""
    quiet, found = week(0), week(3)
    holes = with_coverage(quiet, hole(MONDAY, MONDAY + WEEK))
    assert [withheld(one, Due.ALWAYS, last=None) for one in (quiet, found, holes)] == [None] * 3
    assert [withheld(one, Due.FINDINGS, last=None) is None for one in (quiet, found, holes)] == [False, True, True]
    same = msgspec.structs.replace(
        found, kills=tuple(msgspec.structs.replace(kill, id=f"x{kill.id}") for kill in found.kills)
    )
    assert withheld(same, Due.CHANGE, last=fingerprint(found)) is not None
    for other in (quiet, week(4), with_coverage(found, hole(MONDAY, MONDAY + DAY))):
        assert withheld(other, Due.CHANGE, last=fingerprint(found)) is None
    assert withheld(found, Due.CHANGE, last=None) is None
