import os
from pathlib import Path

import pytest
from journal_entries import EVERYTHING, RECORDINGS, MakeJournal, as_nobody, forbid, read

from kill_audit.entry import Problem
from kill_audit.errors import SourceError
from kill_audit.journal import host, open_host
from kill_audit.journal.opening import JOURNAL_MAGIC

OWN, OTHER = "0123456789abcdef0123456789abcdef", "f" * 32
VAR, RUN = "var/log/journal", "run/log/journal"
UID = os.getuid()


def put(top: Path, *names: str) -> Path:
    """Lay out the files of a journal; their content does not matter here."""
    for name in names:
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).write_bytes(JOURNAL_MAGIC + bytes(300))
    return top


@pytest.fixture
def this_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file system that is taken for this host's."""
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/machine-id").write_text(f"{OWN}\n")
    monkeypatch.setattr(host, "_THIS_HOST", str(tmp_path))
    return put(
        tmp_path, f"{VAR}/{OWN}/system.journal", f"{VAR}/{OWN}/system@a.journal~", f"{VAR}/{OWN}/user-{UID}.journal",
        f"{VAR}/{OWN}/user-{UID}@1-2.journal", f"{VAR}/{OWN}/user-99999.journal", f"{VAR}/{OWN}/README",
        f"{VAR}/{OWN}.celery/system.journal", f"{VAR}/{OWN}.other/system.journal", f"{VAR}/{OTHER}/system.journal",
        f"{VAR}/remote/remote-web1.journal", f"{RUN}/{OWN}/system.journal",
    )  # fmt: skip


def found(top: Path, **asked: object) -> list[str]:
    """Give the names of a host's sources."""
    sources = open_host(**asked)  # type: ignore[arg-type]
    return sorted(str(Path(source.name).relative_to(top)) for source in sources)


SYSTEM = [
    f"{VAR}/{OWN}/system.journal", f"{VAR}/{OWN}/system@a.journal~", f"{VAR}/{OWN}/user-99999.journal",
    f"{VAR}/{OWN}/user-{UID}.journal", f"{VAR}/{OWN}/user-{UID}@1-2.journal",
]  # fmt: skip
CELERY, SPARE = f"{VAR}/{OWN}.celery/system.journal", f"{VAR}/{OWN}.other/system.journal"
VOLATILE = f"{RUN}/{OWN}/system.journal"


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({}, [*SYSTEM, CELERY, SPARE, VOLATILE]),
        ({"namespace": "*"}, [*SYSTEM, CELERY, SPARE, VOLATILE]),
        ({"namespace": "celery"}, [*SYSTEM, CELERY, VOLATILE]),
        ({"namespace": "+celery"}, [*SYSTEM, CELERY, VOLATILE]),
        ({"user": True}, [f"{VAR}/{OWN}/user-{UID}.journal", f"{VAR}/{OWN}/user-{UID}@1-2.journal"]),
        (
            {"merge": True},
            [*SYSTEM, CELERY, SPARE, f"{VAR}/{OTHER}/system.journal", f"{VAR}/remote/remote-web1.journal", VOLATILE],
        ),
    ],
)
def test_a_host_s_journal_is_made_of_the_files_of_its_machine(
    this_host: Path, asked: dict[str, object], expected: list[str]
) -> None:
    """Persistent and volatile files, namespaces, one user's own, or all machines', as the options ask."""
    assert found(this_host, **asked) == sorted(expected)


@pytest.mark.usefixtures("this_host")
def test_a_mounted_file_system_is_read_whatever_machine_it_is_of(tmp_path: Path) -> None:
    """`--root` reads every machine's folder there: its machine is not this one."""
    top = put(tmp_path / "mounted", f"{VAR}/{OTHER}/system.journal", f"{RUN}/{OTHER}/system.journal")
    assert found(top, root=str(top)) == [f"{RUN}/{OTHER}/system.journal", f"{VAR}/{OTHER}/system.journal"]


def test_without_a_machine_id_every_machine_s_folder_is_this_host_s(this_host: Path) -> None:
    """A container may have none."""
    (this_host / "etc/machine-id").unlink()
    assert f"{VAR}/{OTHER}/system.journal" in found(this_host)


def test_a_journal_that_is_kept_in_memory_only_is_told(tmp_path: Path) -> None:
    """Nothing from before the last boot can be there: the problem is `volatile`."""
    put(tmp_path, f"{RUN}/{OTHER}/system.journal")
    *_, last = open_host(root=str(tmp_path))
    (problem,) = list(last.batches(EVERYTHING))
    assert isinstance(problem, Problem)
    assert (last.name, problem.code, "mkdir /var/log/journal" in problem.detail) == (
        f"{tmp_path}/{RUN}", "volatile", True
    )  # fmt: skip


def test_a_host_without_a_journal_is_an_error(tmp_path: Path) -> None:
    """The message names both places, the hint asks for journald."""
    with pytest.raises(SourceError, match="there is no journal in") as refused:
        open_host(root=str(tmp_path))
    assert "journalctl -n 1" in refused.value.hint


def test_a_user_without_a_journal_of_their_own_is_told_where_their_lines_are(tmp_path: Path) -> None:
    """Only ordinary users' lines are split off, and only where journald keeps them on disk."""
    put(tmp_path, f"{VAR}/{OTHER}/system.journal")
    with pytest.raises(SourceError, match=f"there is no journal of user {UID}") as refused:
        open_host(root=str(tmp_path), user=True)
    assert "without --user" in refused.value.hint


def test_whoever_may_read_nothing_is_refused_with_the_group_to_join(readable_by_all: Path) -> None:
    """A view of nothing would be that of a healthy, empty host."""
    top = put(readable_by_all, f"{VAR}/{OWN}/system.journal", f"{VAR}/{OWN}/user-1.journal")
    forbid(*(top / VAR / OWN).iterdir())

    def said() -> str:
        try:
            return str(open_host(root=str(top)))
        except SourceError as error:
            return f"{error.message} | {error.hint}"

    assert as_nobody(said) == (
        "this user may not read any file of this host's journal | run it as root, or: "
        "sudo usermod -aG systemd-journal $USER (and log in again)"
    )


def test_whoever_may_read_a_part_is_told_what_is_hidden(readable_by_all: Path) -> None:
    """The files that this user may read are read; how many more there are is a problem that names the group."""
    top = put(readable_by_all, f"{VAR}/{OWN}/system.journal", f"{VAR}/{OWN}/user-1.journal", f"{VAR}/{OWN}/a.journal~")
    forbid(top / VAR / OWN / "system.journal", top / VAR / OWN / "a.journal~")

    def said() -> str:
        own, hidden = open_host(root=str(top))
        (problem,) = list(hidden.batches(EVERYTHING))
        assert isinstance(problem, Problem)
        return f"{Path(own.name).name} | {Path(hidden.name).name} | {problem.code} | {problem.detail}"

    assert as_nobody(said) == (
        f"user-1.journal | {OWN} | no-permission | 2 of its 3 journal files may not be read by this user, who is not "
        "in the group systemd-journal: what is left can look like a healthy, empty host"
    )


@pytest.mark.parametrize("place", [VAR, f"{VAR}/{OWN}"])
def test_a_folder_that_may_not_be_listed_is_hidden_too(readable_by_all: Path, place: str) -> None:
    """It counts as one file that may not be read."""
    top = put(readable_by_all, f"{VAR}/{OWN}/system.journal", f"{RUN}/{OWN}/system.journal")
    forbid(top / place)
    codes = as_nobody(lambda: " ".join(_codes(top)))
    (top / place).chmod(0o755)
    assert codes == "no-permission"


def _codes(top: Path) -> list[str]:
    sources = open_host(root=str(top))
    return [
        found.code
        for source in sources
        if not getattr(source, "fragile", True)
        for found in source.batches(EVERYTHING)
        if isinstance(found, Problem)
    ]


@pytest.mark.journal
def test_the_entries_of_a_host_are_those_of_its_files(tmp_path: Path, make_journal: MakeJournal) -> None:
    """A file of the machine and one of a namespace are read, each by itself."""
    make_journal(RECORDINGS[0].read_bytes(), tmp_path / VAR / OWN / "system.journal")
    make_journal(RECORDINGS[1].read_bytes(), tmp_path / VAR / f"{OWN}.celery" / "system.journal")
    counts = [len(read(source)[0]) for source in open_host(root=str(tmp_path))]
    assert counts == [path.read_bytes().count(b"__CURSOR=") for path in RECORDINGS[:2]]
