"""Spans of time, and the weeks of a calendar."""

import datetime as dt
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kill_audit.ledger.spans import Span, holds, joined, length, less, within
from kill_audit.ledger.weeks import covered_days, last_week, period_before, weeks_before

HOUR = 3_600_000_000
BERLIN = ZoneInfo("Europe/Berlin")

spans = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), max_size=8)


def points(given_spans: list[Span] | tuple[Span, ...]) -> set[int]:
    """The whole numbers in spans."""
    return {number for since, until in given_spans for number in range(since, until)}


def at(text: str, zone: dt.tzinfo = BERLIN) -> int:
    """A local time in microseconds."""
    moment = dt.datetime.fromisoformat(text).replace(tzinfo=zone)
    return round(moment.timestamp()) * 1_000_000


@given(spans)
def test_joined_spans_hold_the_same_moments_once(some: list[Span]) -> None:
    """Joining changes no moment, and gives spans in order that neither overlap nor touch."""
    whole = joined(some)
    assert points(whole) == points(some)
    assert all(first[1] < second[0] for first, second in pairwise(whole))
    assert length(whole) == len(points(some))


@given(spans, spans)
def test_spans_less_holes_are_the_moments_of_one_and_not_of_the_other(some: list[Span], holes: list[Span]) -> None:
    """Taking holes out is a difference of sets."""
    rest = less(some, holes)
    assert points(rest) == points(some) - points(holes)
    assert joined(rest) == rest


@given(spans, st.integers(0, 40), st.integers(0, 40))
def test_spans_are_cut_to_a_window(some: list[Span], since: int, until: int) -> None:
    """Cutting is an intersection, and membership is that of the sets."""
    assert points(within(some, since, until)) == points(some) & set(range(since, until))
    assert holds(some, since) == (since in points(some))


@pytest.mark.parametrize(
    ("now", "since", "until", "hours"),
    [
        ("2026-11-30T00:00:00", "2026-11-23T00:00:00", "2026-11-30T00:00:00", 168),
        ("2026-11-29T23:59:59", "2026-11-16T00:00:00", "2026-11-23T00:00:00", 168),
        ("2027-01-07T08:00:00", "2026-12-28T00:00:00", "2027-01-04T00:00:00", 168),
        ("2026-10-26T08:00:00", "2026-10-19T00:00:00", "2026-10-26T00:00:00", 169),
        ("2027-03-29T08:00:00", "2027-03-22T00:00:00", "2027-03-29T00:00:00", 167),
    ],
    ids=["monday-midnight", "sunday-night", "new-year", "clocks-back", "clocks-forward"],
)
def test_the_last_whole_week_is_from_monday_to_monday_in_the_zone(
    now: str, since: str, until: str, hours: int
) -> None:
    """A week begins at midnight of Monday, belongs to no year, and is an hour longer or shorter if clocks are set."""
    week = last_week(at(now), BERLIN)
    assert week == (at(since), at(until))
    assert (week[1] - week[0]) // HOUR == hours


def test_weeks_before_a_moment_follow_each_other() -> None:
    """The weeks of a line touch, the newest is the last whole one, and they run over New Year and summer time."""
    weeks = weeks_before(at("2027-01-06T12:00:00"), BERLIN, 12)
    assert len(weeks) == 12
    assert all(first[1] == second[0] for first, second in pairwise(weeks))
    assert weeks[-1] == last_week(at("2027-01-06T12:00:00"), BERLIN)
    assert weeks[0][0] == at("2026-10-12T00:00:00")


def test_the_period_before_a_week_is_the_week_before_though_the_clocks_were_set() -> None:
    """Between the same times of day the period before has as many days; else it has as many microseconds."""
    assert period_before(at("2026-10-19T00:00:00"), at("2026-10-26T00:00:00"), BERLIN) == (
        at("2026-10-12T00:00:00"),
        at("2026-10-19T00:00:00"),
    )
    assert period_before(at("2026-10-26T00:00:00"), at("2026-11-02T00:00:00"), BERLIN) == last_week(
        at("2026-10-26T08:00:00"), BERLIN
    )
    assert period_before(1_000 * HOUR, 1_005 * HOUR, dt.UTC) == (995 * HOUR, 1_000 * HOUR)


def test_a_midnight_that_the_clocks_skip_begins_the_day_when_they_were_set() -> None:
    """In Beirut 00:00 became 01:00 on 2026-03-29: the week that ends there ends at that moment."""
    beirut = ZoneInfo("Asia/Beirut")
    since, until = last_week(at("2026-03-31T08:00:00", beirut), beirut)
    assert (until - since) // HOUR == 167
    days = covered_days(((since, until),), since, until, beirut)
    assert days == (7, 7)


@given(st.integers(0, 168), st.integers(0, 168))
def test_a_day_is_covered_only_from_end_to_end(since: int, until: int) -> None:
    """Days of a week without a hole in them are counted; a hole of an hour takes its day away."""
    monday = at("2026-11-23T00:00:00")
    week = (monday, monday + 168 * HOUR)
    hole = (monday + since * HOUR, monday + until * HOUR)
    touched = {hour // 24 for hour in range(since, until)}
    assert covered_days(less((week,), (hole,)), *week, BERLIN) == (7 - len(touched), 7)
