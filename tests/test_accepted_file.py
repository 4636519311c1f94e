"""The file of accepted findings: where it lies, what may stand in it, and what is written into it."""

import datetime as dt
import tomllib
from dataclasses import replace
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kill_audit.acceptance import Acceptance, Seen
from kill_audit.accepted_file import NAME, AcceptedFileError, Change, place, put, read, remove
from kill_audit.accepted_file.blocks import blocks

BERLIN = ZoneInfo("Europe/Berlin")
JANUARY = 1_798_758_000_000_000  # 2027-01-01 00:00 in Berlin, in microseconds
DIED = 1_796_040_278_767_399  # 2026-11-30 12:04:38.767399 UTC
ONE = Acceptance(where="", reason="refunded by hand", id="6190967735", until=JANUARY)
RULE = Acceptance(where="", reason="a demo", causes=("oom-*", "crash"), tasks=("demo.*",), units=("celery@a.service",))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file that is not there yet."""
    return tmp_path / NAME


def written(file: Path, one: Acceptance, *comments: str) -> Change:
    """Put an entry into the file, in Berlin."""
    return put(file, one, comments, shown="a.toml", zone=BERLIN)


def entries(file: Path) -> list[Acceptance]:
    """The entries of the file without their lines, as they are read in Berlin."""
    return [replace(one, where="") for one in read(file, shown="a.toml", zone=BERLIN)]


def refusal(file: Path, text: str) -> str:
    """What is said of a text."""
    file.write_text(text, encoding="utf-8")
    with pytest.raises(AcceptedFileError) as refused:
        read(file, shown="a.toml", zone=dt.UTC)
    assert refused.value.hint
    return refused.value.message


# where it lies


def test_it_lies_beside_the_configuration_or_here(tmp_path: Path) -> None:
    """The named one goes first, then the first that is there, beside the configurations in their order, then here."""
    mine, host, here = (tmp_path / name for name in ("mine", "host", "here"))
    for folder in (mine, host, here):
        folder.mkdir()
    configurations = [mine / "config.toml", host / "config.toml"]
    assert place("~/x.toml", configurations, here) == Path("~/x.toml").expanduser()
    assert place("x.toml", configurations, here) == here / "x.toml"
    assert place(None, configurations, here) == mine / NAME
    assert place(None, (), here) == here / NAME
    (here / NAME).touch()
    assert place(None, configurations, here) == here / NAME
    (host / NAME).touch()
    assert place(None, configurations, here) == host / NAME


# what is written


def test_what_is_written_is_what_is_read(file: Path) -> None:
    """Entries come back as they were put, in their order, each with the line of its header."""
    seen = replace(ONE, seen=Seen(at=DIED, host="web1", unit="celery@a.service"))
    assert [written(file, one, "a comment") for one in (seen, RULE)] == [Change.NEW, Change.NEW]
    assert entries(file) == [seen, RULE]
    lines = file.read_text(encoding="utf-8").splitlines()
    assert [one.where for one in read(file, shown="a.toml", zone=BERLIN)] == [
        f"a.toml:{number}" for number, line in enumerate(lines, start=1) if line == "[[accepted]]"
    ]


def test_an_entry_is_easy_to_review(file: Path) -> None:
    """An entry begins with what it is about in comments; its day is a day, and what it was seen of is in one line."""
    seen = Seen(at=DIED, host="web1", unit="celery@a.service")
    written(file, replace(ONE, seen=seen), "shop.tasks.charge[42]", "accepted 2026-12-01 by jane")
    head, entry = file.read_text(encoding="utf-8").split("\n\n")
    assert {line[:2] for line in head.splitlines()} == {"# "}
    assert entry == (
        "[[accepted]]\n"
        "# shop.tasks.charge[42]\n"
        "# accepted 2026-12-01 by jane\n"
        'id = "6190967735"\n'
        'reason = "refunded by hand"\n'
        "until = 2027-01-01\n"
        'seen = {at = 2026-11-30T12:04:38.767399Z, host = "web1", unit = "celery@a.service"}\n'
    )


@given(
    reason=st.text(min_size=1).map(str.strip).filter(bool),
    glob=st.text(min_size=1),
    until=st.integers(0, 2**50).map(lambda second: second * 1_000_000 % 200_000_000_000_000_000),
)
def test_any_text_comes_back(tmp_path_factory: pytest.TempPathFactory, reason: str, glob: str, until: int) -> None:
    """Whatever the reason, the glob and the moment, what is read is what was put."""
    file = tmp_path_factory.mktemp("any") / NAME
    one = Acceptance(where="", reason=reason, tasks=(glob,), until=until)
    written(file, one)
    assert entries(file) == [one]


def test_the_same_entry_is_changed_and_not_written_twice(file: Path) -> None:
    """An entry that accepts the same gets the new reason and day; comments, order and everything around it stay."""
    text = (
        "# ours\n\n[[accepted]] # why?\n# asked by the shop\nreason = 'old'   # see OPS-1\nid = \"6190967735\"\n\n"
        "# the next one\n[[accepted]]\ntask = 'demo.*'\nreason = 'a demo'\n"
    )
    file.write_text(text, encoding="utf-8")
    assert written(file, ONE, "not written") is Change.CHANGED
    changed = text.replace("'old'", '"refunded by hand"').replace('35"\n', '35"\nuntil = 2027-01-01\n')
    assert file.read_text(encoding="utf-8") == changed
    assert written(file, ONE) is Change.SAME
    assert file.read_text(encoding="utf-8") == changed
    assert written(file, replace(ONE, until=None)) is Change.CHANGED
    assert file.read_text(encoding="utf-8") == changed.replace("until = 2027-01-01\n", "")


def test_what_is_removed_takes_nothing_else_along(file: Path) -> None:
    """An entry goes with its own comments; those above the next one stay; what is not there is not removed."""
    file.write_text(
        "# ours\n\n[[accepted]]\n# mine\nid = \"6190967735\"\nreason = 'x'\n# mine too\n\n"
        "# the next one\n[[accepted]]\ntask = 'demo.*'\nreason = 'a demo'\n",
        encoding="utf-8",
    )
    assert remove(file, ONE, shown="a.toml", zone=BERLIN)
    assert file.read_text(encoding="utf-8") == (
        "# ours\n\n# the next one\n[[accepted]]\ntask = 'demo.*'\nreason = 'a demo'\n"
    )
    assert not remove(file, ONE, shown="a.toml", zone=BERLIN)


def test_permissions_and_links_stay(file: Path, tmp_path: Path) -> None:
    """The file keeps its mode, and a link to it stays a link."""
    link = tmp_path / "link.toml"
    link.symlink_to(file)
    written(file, ONE)
    file.chmod(0o640)
    written(link, RULE)
    assert link.is_symlink()
    assert len(entries(file)) == 2
    assert file.stat().st_mode & 0o777 == 0o640
    assert sorted(path.name for path in tmp_path.iterdir()) == [NAME, "link.toml"]


def test_a_file_that_cannot_be_written_stays(tmp_path: Path) -> None:
    """A folder that is not there is one line with a hint."""
    with pytest.raises(AcceptedFileError, match=r"cannot write a\.toml") as refused:
        written(tmp_path / "none" / NAME, ONE)
    assert "--accepted" in refused.value.hint


def test_nothing_is_written_into_a_file_with_mistakes(file: Path) -> None:
    """A file that cannot be understood is left as it is."""
    text = "[[accepted]]\nid = 3\n"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(AcceptedFileError):
        written(file, ONE)
    assert file.read_text(encoding="utf-8") == text


# what may stand in it


@pytest.mark.parametrize(
    ("given", "until"),
    [
        ("2027-01-01", JANUARY),
        ('"2027-01-01"', JANUARY),
        ("2027-01-01 12:00:00", JANUARY + 12 * 3_600_000_000),
        ("2026-12-31T23:00:00Z", JANUARY),
        ("2027-01-01T01:00:00+02:00", JANUARY),
    ],
)
def test_days_are_of_the_zone(file: Path, given: str, until: int) -> None:
    """A day begins in the zone of whoever reads; a time with an offset is that time; quotes do no harm."""
    file.write_text(f"[[accepted]]\ntask = '*'\nreason = 'x'\nuntil = {given}\n", encoding="utf-8")
    assert [one.until for one in entries(file)] == [until]


def test_hand_written_entries_are_read(file: Path) -> None:
    """Any order, quotes, lists over several lines, text over several lines, tabs, comments and CRLF are fine."""
    file.write_bytes(
        b"# \xc3\xa4\r\n[[accepted]]\r\n\treason = '''\r\n[[accepted]]\r\nis text'''\r\n"
        b"task = [\r\n  'a.*', # one\r\n  \"b\",\r\n]\r\n\r\n   [[accepted]]\r\n'cause'='crash'\r\nreason='x'"
    )
    first, second = read(file, shown="a.toml", zone=dt.UTC)
    assert (first.tasks, first.reason) == (("a.*", "b"), "[[accepted]]\nis text")
    assert (second.causes, second.where) == (("crash",), "a.toml:11")


def test_an_empty_file_accepts_nothing(file: Path) -> None:
    """No text, or comments alone, are no mistake."""
    for text in ("", "\n", "# nothing yet\n"):
        file.write_text(text, encoding="utf-8")
        assert entries(file) == []


def test_every_mistake_is_told_at_once(file: Path) -> None:
    """Each mistake of a file is a line with the file, the line, the key, and what is meant, in the file's order."""
    said = refusal(
        file,
        "x = 1\n"
        "[[accepted]]\nid = 6190967735\nreason = ' '\nuntl = 2027-01-01\n"
        "[[acepted]]\nid = '6190967735'\n"
        "[accepted.seen]\nat = 1\n"
        "[[accepted]]\ncause = 'oomkernel'\nunit = []\ntask = 3\nuntil = 2026-13-01\n"
        "[[accepted]]\ncause = 'oomkernel'\nunit = []\ntask = 3\nuntil = 'soon'\nreason = 'x'\n"
        "[[accepted]]\nid = '6190967735'\ncause = 'crash'\nseen = { at = 3 }\nreason = 'x'\n"
        "[[accepted]]\nseen = { at = 2026-11-30T12:00:00Z, hots = 'a' }\nreason = 'x'\n"
        "[[accepted]]\nid = '6190967735'\nreason = 'x'\n"
        "[[accepted]]\nid = '6190967735'\nreason = 'y'\n"
        '[[accepted]]\nid = "6190967736\n',
    )
    head, *lines = said.splitlines()
    assert head == f"a.toml has {len(lines)} mistakes"
    assert [line.strip() for line in lines] == [
        "a.toml:1: x stands before the first [[accepted]]",
        "a.toml:3: id: must be the whole id of a kill, in quotes, as `kill-audit report` shows it",
        "a.toml:4: reason: must be text in quotes, and say something",
        "a.toml:5: untl: there is no such key; did you mean until?",
        "a.toml:6: there is no such table; an entry begins with [[accepted]], and has none",
        "a.toml:8: there is no such table; an entry begins with [[accepted]], and has none",
        "a.toml:14: this is no TOML: Expected newline or end of document after a statement",
        "a.toml:16: cause: there is no cause 'oomkernel'; did you mean oom-kernel?",
        "a.toml:17: unit: must be text in quotes, or a list of texts",
        "a.toml:18: task: must be text in quotes, or a list of texts",
        "a.toml:19: until: must be a date, as in 2027-01-31, or a date with a time",
        "a.toml:23: cause: an id names one kill, and nothing stands beside",
        "a.toml:24: seen: at must be a date, as in 2027-01-31, or a date with a time",
        "a.toml:26: the entry says nothing that it accepts: id, or cause, task or unit",
        "a.toml:27: seen: there is no such key as hots; did you mean host?",
        "a.toml:27: seen: is where the kill of an id was seen, and there is no id",
        "a.toml:32: id 6190967735: accepted in line 29 already",
        "a.toml:36: this is no TOML: Illegal character '\\n'",
    ]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[[accepted]]\nid = '6190967735'\n", "a.toml:1: the entry has no reason"),
        ("[[accepted]]\ncause = 'zzz'\nreason = 'x'\n", "docs/causes.md lists them"),
        ("[[accepted]]\nreason = '''x\n[[accepted]]\n", "a.toml:3: this is no TOML: Expected"),
        ("[[accepted]]\nid = '6190967735'\nreason = 'x'\nuntil = 2027-01-01\nuntil = 2027-01-02\n", "a.toml:5: "),
        ("[[accepted]]\ntask = '*'\nreason = 'x'\nuntil = 1960-01-01\n", "a.toml:4: until: must be a date"),
        ("[[accepted]]\ntask = '*'\nreason = 'x'\nuntil = 12:00:00\n", "a.toml:4: until: must be a date"),
    ],
)
def test_a_mistake_has_its_line(file: Path, text: str, says: str) -> None:
    """Each is told with the line on which it is."""
    assert says in refusal(file, text)


def test_what_is_no_text_is_refused(file: Path) -> None:
    """Bytes that are no UTF-8, a folder, and a file that was named and is not there are one line each."""
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(AcceptedFileError, match="no text in UTF-8"):
        entries(file)
    with pytest.raises(AcceptedFileError, match="directory"):
        entries(file.parent)
    with pytest.raises(AcceptedFileError, match="No such file"):
        entries(file.parent / "none.toml")


@given(st.text(st.sampled_from("[]'\"#=\n\r\\a 1{},\u2028")))
def test_the_blocks_of_a_text_are_the_text(text: str) -> None:
    """Whatever the text, it is cut without loss, its lines are counted right, and no reader fails otherwise."""
    cut = list(blocks(text))
    assert "".join(one.text for one in cut) == text
    assert [one.line for one in cut] == [
        1 + "".join(before.text for before in cut[:number]).count("\n") for number in range(len(cut))
    ]
    assert all("".join(one.parts()) == one.text for one in cut)
    for one in cut:
        try:
            one.parsed()
        except tomllib.TOMLDecodeError:
            continue
