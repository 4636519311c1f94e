import io
import json
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from journal_entries import EVERYTHING, Entry, sorted_out

from kill_audit.entry import Origin, Problem, Question
from kill_audit.errors import UsageError
from kill_audit.journal import text
from kill_audit.journal.text import read_text

IN_UTC = replace(EVERYTHING, assume_timezone="UTC")
MODIFIED = datetime(2026, 1, 15, tzinfo=UTC)
LOST = "[2024-05-23 18:28:39,511: ERROR/MainProcess] Process 'Worker-2' pid:22141 exited with 'signal 9 (SIGKILL)'"


def read(log: str | bytes, question: Question = IN_UTC) -> tuple[list[Entry], list[Problem]]:
    """Read a log to its end."""
    data = log if isinstance(log, bytes) else log.encode()
    modified = int(MODIFIED.timestamp()) * 1_000_000
    return sorted_out(read_text(io.BytesIO(data), question, name="w.log", modified=modified))


def one(log: str, question: Question = IN_UTC) -> Entry:
    """Read a log of one entry."""
    (entry,), _ = read(log, question)
    return entry


def clock(entry: Entry) -> str:
    """Write an entry's time in UTC."""
    return datetime.fromtimestamp(entry.realtime / 1e6, UTC).isoformat(" ", "milliseconds").removesuffix("+00:00")


def test_a_worker_s_log_file_is_an_entry_a_line() -> None:
    """Its lines have the time of their stamp, no pid and no unit, and only the file's owner vouches for them."""
    assert read(LOST + "\n") == (
        [
            Entry(
                realtime=1_716_488_919_511_000, monotonic=0, pid=0, origin=Origin(transport="text", vouched=False),
                message=LOST, cursor="w.log:1", fields={},
            )
        ],
        [],
    )  # fmt: skip


def test_lines_without_a_stamp_have_the_time_of_the_line_before_them() -> None:
    """A traceback follows its record; empty lines are no entries but count as lines."""
    entries, _ = read(f'{LOST}\n\nTraceback (most recent call last):\n  File "pool.py", line 1\n')
    assert [(clock(entry), entry.cursor) for entry in entries] == [
        ("2024-05-23 18:28:39.511", "w.log:1"),
        ("2024-05-23 18:28:39.511", "w.log:3"),
        ("2024-05-23 18:28:39.511", "w.log:4"),
    ]


def test_lines_before_the_first_stamp_have_its_time() -> None:
    """A banner comes before the first record."""
    entries, _ = read(f" -------------- celery@web1 v5.3.6 (emerald-rush)\n{LOST}\n")
    assert {clock(entry) for entry in entries} == {"2024-05-23 18:28:39.511"}


def test_a_log_without_any_stamp_is_taken_to_be_of_when_it_was_written_and_says_so() -> None:
    """Pasted lines without times are not lost."""
    entries, problems = read("worker: Warm shutdown (MainProcess)\nTraceback:\n")
    assert [clock(entry) for entry in entries] == ["2026-01-15 00:00:00.000"] * 2
    assert [problem.code for problem in problems] == ["unsupported"]


TAGGED = Entry(
    realtime=0, monotonic=0, pid=20911, message=LOST, cursor="w.log:1", fields={},
    origin=Origin(host="web1", transport="text", identifier="celery", vouched=False),
)  # fmt: skip


@pytest.mark.parametrize(
    "prefix",
    [
        "May 23 18:28:39 web1 celery[20911]: ",
        "May 23 18:28:39.600123 web1 celery[20911]: ",
        "<30>May 23 18:28:39 web1 celery[20911]: ",
        "Thu 2024-05-23 18:28:39 UTC web1 celery[20911]: ",
        "Thu 2024-05-23 14:28:39 EDT web1 celery[20911]: ",
        "2024-05-23T18:28:39+0000 web1 celery[20911]: ",
        "2024-05-23T20:28:39.600123+02:00 web1 celery[20911]: ",
        "2024-05-23T18:28:39Z web1 celery[20911]: ",
        "<30>1 2024-05-23T18:28:39.600Z web1 celery 20911 - - ",
        '<30>1 2024-05-23T18:28:39.600Z web1 celery 20911 ID47 [a@1 b="c \\] d"][e@1 f="g"] \ufeff',
    ],
)
def test_the_prefixes_of_syslog_and_journalctl_tell_host_program_and_pid(prefix: str) -> None:
    """The message is the line without them, and Celery's own stamp is its time."""
    entry = one(prefix + LOST)
    assert replace(entry, realtime=0) == TAGGED
    assert clock(entry) == "2024-05-23 18:28:39.511"


@pytest.mark.parametrize(
    ("line", "identifier", "pid", "message"),
    [
        ("Mar  7 10:35:30 web1 systemd[1]: Stopping Celery...", "systemd", 1, "Stopping Celery..."),
        ("Mar  7 10:35:30 web1 kernel: [  123.456789] Out of memory: Killed", "kernel", 0, "Out of memory: Killed"),
        ("Mar  7 10:35:30 web1 kernel: Out of memory: Killed", "kernel", 0, "Out of memory: Killed"),
        ("Mar  7 10:35:30 web1 sudo:   deploy : TTY=pts/0", "sudo", 0, "  deploy : TTY=pts/0"),
        ("Mar  7 10:35:30 web1 a line without a tag", None, 0, "a line without a tag"),
        ("2018-03-07T10:35:30+00:00 web1 kernel: Out of memory", "kernel", 0, "Out of memory"),
        ("[Wed Mar  7 10:35:30 2018] Out of memory: Killed", "kernel", 0, "Out of memory: Killed"),
    ],
)
def test_other_programs_lines_keep_their_tag(line: str, identifier: str | None, pid: int, message: str) -> None:
    """PID 1 is systemd's, kernel lines are the kernel's, whatever wrote the file."""
    entry = one(line, replace(IN_UTC, assume_year=2018))
    assert (entry.origin.identifier, entry.pid, entry.message) == (identifier, pid, message)
    assert clock(entry) == "2018-03-07 10:35:30.000"


def test_journalctl_with_unit_names_the_unit() -> None:
    """`journalctl -o with-unit` has the unit in place of the tag."""
    entries, _ = read(
        f"Thu 2024-05-23 18:28:39 UTC web1 celery@a.service[7]: {LOST}\n"
        "Thu 2024-05-23 18:28:40 UTC web1 init.scope[1]: Stopped Celery.\n"
    )
    assert [(entry.origin.unit, entry.origin.identifier, entry.pid) for entry in entries] == [
        ("celery@a.service", None, 7),
        ("init.scope", "systemd", 1),
    ]


def test_what_journalctl_prints_between_entries_is_no_entry() -> None:
    """Headers, and the explanations of `journalctl -x`, old (`--`) and new; a banner's dashes are none of them."""
    entries, _ = read(
        "-- Journal begins at Mon 2021-07-12 08:00:00 UTC, ends at Wed 2021-07-14 20:15:00 UTC. --\n"
        "Jul 14 20:14:21 inv2 systemd[1]: Stopping Worker...\n"
        "-- Subject: A stop job for unit worker.service has begun execution\n"
        "-- Defined-By: systemd\n"
        "--\n"
        "-- A stop job for unit worker.service has begun execution.\n"
        "Jul 14 20:14:27 inv2 systemd[1]: Stopped Worker.\n"
        "\u2591\u2591 Subject: A stop job for unit worker.service has finished\n"
        "\u2591\u2591 \n"
        "-- ******* ---- Linux-5.4.0 2021-07-14 20:14:31\n"
    )
    assert [entry.message for entry in entries] == [
        "Stopping Worker...", "Stopped Worker.", "-- ******* ---- Linux-5.4.0 2021-07-14 20:14:31"
    ]  # fmt: skip


def test_lines_behind_a_boot_s_headline_are_of_that_boot() -> None:
    """Its headline is printed by journalctl where a boot begins."""
    boot = "3c8a" * 8
    entries, _ = read(f"May 23 18:00:00 a b: one\n-- Boot {boot} --\nMay 23 18:01:00 a b: two\n")
    assert [entry.origin.boot_id for entry in entries] == [None, boot]


COMPOSE = f"""\
Attaching to worker-long_1, redis_1
redis_1        | 1:M 29 Aug 2021 05:04:08.114 * Background saving terminated with success
worker-long_1  | {LOST}
worker-long_1  | Traceback (most recent call last):
redis_1        | [2024-05-23 18:30:00,000] other
worker-long_1  |     raise WorkerLostError(
"""


def test_docker_compose_names_the_service_of_each_line() -> None:
    """The service stands for the unit, and a line without a stamp goes with its own service's."""
    entries, _ = read(COMPOSE)
    assert [(entry.origin.unit, entry.message, clock(entry)[11:16]) for entry in entries][2:] == [
        ("worker-long_1", LOST, "18:28"),
        ("worker-long_1", "Traceback (most recent call last):", "18:28"),
        ("redis_1", "[2024-05-23 18:30:00,000] other", "18:30"),
        ("worker-long_1", "    raise WorkerLostError(", "18:28"),
    ]


def test_colours_are_taken_off() -> None:
    """On a terminal docker compose colours its prefixes."""
    coloured = "".join(f"\x1b[36mworker_1  |\x1b[0m {line}\n" for line in ("\x1b[31mone\x1b[0m", "two"))
    assert [(entry.origin.unit, entry.message) for entry in read(coloured)[0]] == [
        ("worker_1", "one"),
        ("worker_1", "two"),
    ]


@pytest.mark.parametrize(
    "line",
    [
        "INFO     | 2024-05-23 18:28:39,511 | tasks | hello",
        "2024-05-23 18:28:39.511 | INFO     | tasks:run:12 - hello",
        "INFO 2024-05-23 18:28:39,511 tasks 123 140 hello",
        "[INFO] [2024-05-23 18:28:39,511] hello",
        "[23/May/2024 18:28:39] INFO hello",
        "Thu May 23 18:28:39 2024 - hello",
        "2024-05-23 18:28:39,511 INFO exited: celery-memory (terminated by SIGKILL; not expected)",
        "[2024-05-23 18:28:39 +0000] [9] [CRITICAL] hello",
    ],
)
def test_a_program_s_own_stamp_gives_the_time_and_stays_in_the_message(line: str) -> None:
    """Level-first, loguru's, Django's, uWSGI's, gunicorn's and supervisord's formats; none is a compose prefix."""
    entry = one(f"{line}\n")
    assert (entry.message, entry.origin.unit, clock(entry)[:19]) == (line, None, "2024-05-23 18:28:39")


@pytest.mark.parametrize(
    "line", ["ValueError('bad date 2019-01-01 00:00:00')", "x = 2019-01-01 00:00:00", "  2019-01-01"]
)
def test_a_date_further_on_in_a_line_is_no_stamp(line: str) -> None:
    """A traceback may quote a date."""
    entries, _ = read(f"{LOST}\n{line}\n")
    assert clock(entries[1]) == "2024-05-23 18:28:39.511"


def test_celery_s_own_stamp_counts_before_a_collector_s_in_another_zone() -> None:
    """The collector's clock is two hours ahead; lines that have only its stamp are put back by as much."""
    entries, problems = read(
        f"2024-05-23 20:28:39 {LOST}\n2024-05-23 20:28:39 Traceback (most recent call last):\n"
        '2024-05-23 20:28:41   File "pool.py", line 1\n'
    )
    assert [(clock(entry), entry.message) for entry in entries] == [
        ("2024-05-23 18:28:39.511", LOST),
        ("2024-05-23 18:28:39.511", "Traceback (most recent call last):"),
        ("2024-05-23 18:28:41.000", '  File "pool.py", line 1'),
    ]
    assert problems == []


@pytest.mark.parametrize(
    "prefix",
    [
        "2024-05-23T16:28:39.612345678Z ",
        "2024-05-23T18:28:39.612345678+02:00 ",
        "2024-05-23T16:28:39.612345678Z stderr F ",
        "[pod/worker-7d9-abc/worker] 2024-05-23T16:28:39.612345678Z ",
    ],
)
def test_a_runtime_s_stamp_names_the_zone_of_celery_s(prefix: str) -> None:
    """UTC is what kubectl and docker print; Celery wrote the same moment in its own zone, to the millisecond."""
    entries, problems = read(f"{prefix}{LOST}\n", EVERYTHING)
    assert ([clock(entry) for entry in entries], problems) == (["2024-05-23 16:28:39.511"], [])
    assert entries[0].message == LOST


def test_a_collector_that_is_minutes_late_is_believed_over_a_guessed_zone() -> None:
    """Where the two stamps are not whole quarters of an hour apart, only the one with a zone is sure."""
    assert clock(one(f"2024-05-23T16:35:00Z {LOST}\n", EVERYTHING)) == "2024-05-23 16:35:00.000"


def test_kubectl_s_prefix_names_pod_and_container() -> None:
    """`kubectl logs --prefix` stands for the unit."""
    assert one(f"[pod/worker-7d9-abc/worker] {LOST}").origin.unit == "worker-7d9-abc/worker"


@pytest.mark.parametrize(
    ("line", "unit", "container"),
    [
        ({"log": f"{LOST}\n", "stream": "stderr", "time": "2024-05-23T18:28:39.6Z"}, None, None),
        (
            {"log": LOST, "stream": "stderr", "time": "2024-05-23T18:28:39.6Z", "attrs": {"tag": "worker_1"}},
            "worker_1", "worker_1",
        ),
        (
            {
                "@timestamp": "2024-05-23T18:28:39.6Z", "message": LOST,
                "kubernetes": {"pod_name": "w-1", "container_name": "worker", "docker_id": "12ab"},
            },
            "w-1/worker", "12ab",
        ),
        (
            {
                "time": "2024-05-23T18:28:39.6Z", "log": LOST,
                "kubernetes": {"pod": {"name": "w-1"}, "container": {"name": "worker"}},
            },
            "w-1/worker", "w-1/worker",
        ),
        (
            {"container_name": "/worker_1", "container_id": "12ab", "source": "stderr", "log": LOST, "time": "x"},
            "worker_1", "12ab",
        ),
    ],
)  # fmt: skip
def test_a_container_s_line_in_json_is_the_text_inside(
    line: dict[str, object], unit: str | None, container: str | None
) -> None:
    """Docker's json-file, Fluent Bit's, Fluentd's and Filebeat's records name the container beside the line."""
    entry = one(json.dumps(line))
    assert (entry.message, entry.origin.unit, entry.origin.container) == (LOST, unit, container)
    assert clock(entry) == "2024-05-23 18:28:39.511"


@pytest.mark.parametrize("key", ["time", "asctime", "timestamp", "@timestamp"])
def test_a_program_s_own_json_record_stays_whole(key: str) -> None:
    """What an app logs as JSON is its message; the time is where loggers put it."""
    line = json.dumps({key: "2024-05-23 18:28:39,511", "message": "Task x received", "level": "INFO"})
    entry = one(line)
    assert (entry.message, clock(entry)) == (line, "2024-05-23 18:28:39.511")


@pytest.mark.parametrize("line", ["{not json", "{}", "[1]", '{"log": 3}', '{"kubernetes": {}, "log": null}'])
def test_a_line_that_only_looks_like_json_is_text(line: str) -> None:
    """It is kept as it is."""
    assert [entry.message for entry in read(f"{LOST}\n{line}\n")[0]] == [LOST, line]


def test_without_a_zone_this_machine_s_is_taken_and_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is silently taken for UTC."""
    monkeypatch.setenv("TZ", "America/New_York")
    entries, problems = read(LOST, EVERYTHING)
    assert clock(entries[0]) == "2024-05-23 22:28:39.511"
    assert [(problem.code, "America/New_York" in problem.detail) for problem in problems] == [
        ("assumed-timezone", True)
    ]


def test_nothing_is_assumed_where_every_stamp_names_its_zone() -> None:
    """Then there is no such problem."""
    assert read(f"2024-05-23T18:28:39Z web1 celery[7]: {LOST}", EVERYTHING)[1] == []


@pytest.mark.parametrize(
    ("zone", "time"),
    [
        ("Europe/Berlin", "16:28"),
        ("+02:00", "16:28"),
        ("-0330", "21:58"),
        ("UTC", "18:28"),
        ("CET-1CEST,M3.5.0,M10.5.0/3", "16:28"),
    ],
)
def test_a_zone_can_be_named_in_several_ways(zone: str, time: str) -> None:
    """By the tz database, as an offset, by a rule of tzset(3)."""
    assert clock(one(LOST, replace(EVERYTHING, assume_timezone=zone)))[11:16] == time


def test_a_zone_that_is_none_is_refused() -> None:
    """The message names the option, the hint the list."""
    with pytest.raises(UsageError, match="--assume-timezone Mars/Base: no such time zone") as refused:
        read(LOST, replace(EVERYTHING, assume_timezone="Mars/Base"))
    assert "timedatectl list-timezones" in refused.value.hint


def test_the_hour_that_comes_twice_goes_forward() -> None:
    """At 03:00 summer time the clock goes back to 02:00: times do not."""
    stamps = ["01:59:00", "02:30:00", "02:59:00", "02:01:00", "02:40:00", "03:00:00"]
    log = "".join(f"[2024-10-27 {stamp},000: INFO/MainProcess] x\n" for stamp in stamps)
    entries, _ = read(log, replace(EVERYTHING, assume_timezone="Europe/Berlin"))
    assert [clock(entry)[11:16] for entry in entries] == ["23:59", "00:30", "00:59", "01:01", "01:40", "02:00"]


@pytest.mark.parametrize(
    ("stamps", "year", "expected"),
    [
        (["Dec 31 23:59:59", "Jan  1 00:00:01"], None, ["2025-12-31", "2026-01-01"]),
        (["Jan 14 00:00:00"], None, ["2026-01-14"]),
        (["Mar  1 00:00:00"], None, ["2025-03-01"]),
        (["Feb 29 12:00:00"], None, ["2024-02-29"]),
        (["Dec 31 23:59:59", "Jan  1 00:00:01"], 2018, ["2018-12-31", "2019-01-01"]),
        (["Mar 27 10:35:30"], 2018, ["2018-03-27"]),
    ],
)
def test_a_year_that_is_left_out_is_the_newest_possible_or_the_one_that_is_given(
    stamps: list[str], year: int | None, expected: list[str]
) -> None:
    """No line is later than the file; an assumed year is that of the first line."""
    log = "".join(f"{stamp} web1 celery[7]: x\n" for stamp in stamps)
    entries, _ = read(log, replace(IN_UTC, assume_year=year))
    assert [clock(entry)[:10] for entry in entries] == expected


def test_a_year_that_a_stamp_inside_names_holds_for_its_neighbours() -> None:
    """PID 1's lines of the same file have no year of their own."""
    entries, _ = read(f"May 23 18:28:38 web1 systemd[1]: Stopping.\nMay 23 18:28:39 web1 celery[7]: {LOST}\n")
    assert [clock(entry)[:10] for entry in entries] == ["2024-05-23", "2024-05-23"]


def test_a_stamp_cut_off_to_the_second_is_not_before_the_line_above_it() -> None:
    """Within the same second, the order of the lines counts."""
    entries, _ = read(f"May 23 18:28:39 web1 celery[7]: {LOST}\nMay 23 18:28:39 web1 celery[7]: Traceback\n")
    assert entries[0].realtime == entries[1].realtime


def test_entries_outside_the_span_that_is_read_are_left_out() -> None:
    """By the time of each line."""
    log = "".join(f"[2024-05-23 18:0{minute}:00,000: INFO/MainProcess] {minute}\n" for minute in range(5))
    since = int(datetime(2024, 5, 23, 18, 1, tzinfo=UTC).timestamp()) * 1_000_000
    question = replace(IN_UTC, read_since=since, read_until=since + 120_000_000)
    assert [(entry.message or "")[-1] for entry in read(log, question)[0]] == ["1", "2"]


def test_a_log_of_many_lines_before_the_first_stamp_is_not_held_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond some lines the file's own time is taken for them."""
    monkeypatch.setattr(text, "_MOST_KEPT", 3)
    entries, problems = read("x\n" * 6 + LOST)
    assert [clock(entry)[:4] for entry in entries] == ["2026"] * 6 + ["2024"]
    assert [problem.code for problem in problems] == ["unsupported"]


def test_a_collector_far_from_any_zone_does_not_move_other_lines() -> None:
    """Two stamps that differ by more than a day are not of two zones."""
    entries, _ = read(f"May 20 18:28:39 web1 celery[7]: {LOST}\nMay 23 18:28:40 web1 celery[7]: x\n")
    assert [clock(entry)[:19] for entry in entries] == ["2024-05-23 18:28:39", "2024-05-23 18:28:40"]


def test_stamps_of_impossible_years_are_none() -> None:
    """No log is of the year 1 or 9999, and neighbours' times do not fall off the calendar."""
    entries, _ = read(f"{LOST}\n[0001-01-01 00:00:00,000] x\n[9999-12-31 23:59:59,000] y\nMay 23 18:28:40 a b: z\n")
    assert {clock(entry)[:10] for entry in entries} == {"2024-05-23"}


def test_impossible_dates_are_no_stamps() -> None:
    """What no calendar has is passed over."""
    entries, _ = read(f"{LOST}\n[2024-13-45 18:28:39,511: INFO/MainProcess] x\n")
    assert clock(entries[1]) == "2024-05-23 18:28:39.511"


def test_a_windows_file_is_read_as_well() -> None:
    """A byte order mark, carriage returns, and bytes that are no UTF-8."""
    entries, _ = read(b"\xef\xbb\xbf" + LOST.encode() + b"\r\ncaf\xe9\r\n")
    assert [entry.message for entry in entries] == [LOST, "caf\\xe9"]


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"])), max_size=20), st.booleans())
def test_any_text_can_be_read(lines: list[str], stamped: bool) -> None:
    """No line makes the reader fail; times are never missing."""
    entries, _ = read("\n".join([*([LOST] if stamped else []), *lines]))
    assert all(entry.realtime >= 0 and entry.message for entry in entries)
