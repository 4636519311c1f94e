import pytest
from hypothesis import given
from hypothesis import strategies as st
from journal_entries import EVERYTHING, Entry, rows

from kill_audit.entry import DETAIL_FIELDS, Origin
from kill_audit.journal.columns import Columns, decode, details_of, number


def entry(**fields: str) -> Entry:
    """Give an entry of these fields as a row."""
    columns = Columns(EVERYTHING)
    columns.add_entry(1, 2, "c", fields)
    (found,) = rows(columns.take())
    return found


def test_every_field_that_tells_who_wrote_an_entry_has_its_place() -> None:
    """One origin with all fields set."""
    assert entry(
        _HOSTNAME="web1", _MACHINE_ID="m", _BOOT_ID="b", _SYSTEMD_UNIT="celery.service", _SYSTEMD_INVOCATION_ID="i",
        _TRANSPORT="stdout", SYSLOG_IDENTIFIER="celery", SYSLOG_FACILITY="3", _EXE="/usr/bin/python3", _COMM="celery",
        _UID="998", _STREAM_ID="s", _SYSTEMD_CGROUP="/system.slice/celery.service", _NAMESPACE="n", _PID="7",
    ) == Entry(
        realtime=1, monotonic=2, pid=7, message=None, cursor="c", fields={},
        origin=Origin(
            host="web1", machine_id="m", boot_id="b", unit="celery.service", invocation_id="i", transport="stdout",
            identifier="celery", facility=3, exe="/usr/bin/python3", comm="celery", uid=998, stream_id="s",
            cgroup="/system.slice/celery.service", namespace="n", container=None, vouched=True,
        ),
    )  # fmt: skip


def test_a_user_s_service_is_its_unit_and_not_the_user_s_manager() -> None:
    """`_SYSTEMD_UNIT` of a user's service is user@UID.service, for all of them."""
    assert (
        entry(_SYSTEMD_UNIT="user@1000.service", _SYSTEMD_USER_UNIT="celery.service").origin.unit == "celery.service"
    )
    assert entry(_SYSTEMD_UNIT="user@1000.service", _SYSTEMD_USER_UNIT="init.scope").origin.unit == "user@1000.service"


@pytest.mark.parametrize(
    "writer",
    [
        {"_EXE": "/usr/bin/dockerd", "_COMM": "dockerd"},
        {"_EXE": "/usr/bin/conmon"},
        {"_SYSTEMD_UNIT": "docker.service"},
        {"_SYSTEMD_UNIT": "libpod-conmon-1234.scope", "_COMM": "conmon"},
        {"_COMM": "dockerd", "_UID": "0"},
    ],
)
def test_a_container_stands_for_the_unit_of_its_lines(writer: dict[str, str]) -> None:
    """Docker's and podman's journald drivers name the container; the pid is the runtime's and tells nothing."""
    found = entry(CONTAINER_NAME="worker_1", CONTAINER_ID="12ab", CONTAINER_ID_FULL="12ab34", _PID="900", **writer)
    assert (found.origin.unit, found.origin.container, found.pid) == ("worker_1", "12ab34", 0)


@pytest.mark.parametrize(
    "writer",
    [
        {"_EXE": "/usr/bin/python3", "_COMM": "dockerd"},
        {"_COMM": "dockerd", "_UID": "1000"},
        {"_EXE": "dockerd (deleted)", "_UID": "1000"},
        {"_SYSTEMD_UNIT": "celery.service"},
    ],
)
def test_anybody_else_who_claims_to_be_a_container_is_not_believed(writer: dict[str, str]) -> None:
    """Fields without an underscore are the sender's own, and a process may call itself anything."""
    found = entry(CONTAINER_NAME="worker_1", CONTAINER_ID_FULL="12ab34", _PID="900", **writer)
    assert (found.origin.unit, found.origin.container, found.pid) == (writer.get("_SYSTEMD_UNIT"), None, 900)


def test_a_worker_s_ordinary_line_has_no_details() -> None:
    """The command line, priority and function's name are kept only where a grammar asks for them."""
    bulky = {"_CMDLINE": "celery worker", "PRIORITY": "6", "CODE_FUNC": "f"}
    assert details_of(bulky) == {}
    assert details_of({**bulky, "JOB_ID": "1"}) == {"JOB_ID": "1"}
    assert details_of({**bulky, "MESSAGE_ID": "m"}) == {**bulky, "MESSAGE_ID": "m"}
    assert details_of({**bulky, "_LINE_BREAK": "eof"}) == {**bulky, "_LINE_BREAK": "eof"}


def test_other_fields_are_left_out() -> None:
    """Only `DETAIL_FIELDS` are kept."""
    fields = dict.fromkeys(DETAIL_FIELDS, "x")
    assert details_of({**fields, "TID": "1", "_HOSTNAME": "h"}) == fields


def test_entries_share_the_origins_of_their_batch_only() -> None:
    """A batch's origins are its own, each once, and the next batch begins anew."""
    columns = Columns(EVERYTHING)
    for unit in ("a", "b", "a"):
        columns.add_entry(1, 0, "", {"_SYSTEMD_UNIT": unit})
    first = columns.take()
    columns.add_entry(1, 0, "", {"_SYSTEMD_UNIT": "b"})
    second = columns.take()
    assert ([one.unit for one in first.origins], tuple(first.origin)) == (["a", "b"], (0, 1, 0))
    assert ([one.unit for one in second.origins], tuple(second.origin)) == (["b"], (0,))


@pytest.mark.parametrize(
    ("text", "value"), [("0", 0), ("17", 17), (None, None), ("", None), ("-1", None), ("1_0", None), ("\u0661", None)]
)
def test_a_number_is_decimal_digits_and_nothing_else(text: str | None, value: int | None) -> None:
    """What Python would take beyond that is no number of journald's."""
    assert number(text) == value


@given(st.binary())
def test_any_bytes_can_be_decoded_and_valid_text_is_unchanged(raw: bytes) -> None:
    """Decoding never fails, and is the identity on UTF-8."""
    text = decode(raw)
    try:
        assert text == raw.decode("utf-8")
    except UnicodeDecodeError:
        assert "\\x" in text
