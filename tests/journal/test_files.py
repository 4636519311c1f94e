import gzip
import io
import os
import pickle
import socket
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from journal_entries import EVERYTHING, RECORDINGS, MakeJournal, as_nobody, forbid, journalctl, read

from kill_audit.entry import Problem
from kill_audit.errors import SourceError
from kill_audit.journal import open_sources
from kill_audit.journal.files import FileSource, ProblemSource, distinct
from kill_audit.journal.opening import JOURNAL_MAGIC, Kind

EXPORT = RECORDINGS[0].read_bytes()
MACHINE = "0123456789abcdef0123456789abcdef"


def refusal(**named: object) -> tuple[str, str]:
    """Give the message and the hint of what is refused."""
    with pytest.raises(SourceError) as refused:
        open_sources(**named)  # type: ignore[arg-type]
    return refused.value.message, refused.value.hint


def names(folder: Path, **named: object) -> list[str]:
    """Give the names of sources within a folder."""
    return [str(Path(source.name).relative_to(folder)) for source in open_sources(**named)]  # type: ignore[arg-type]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of journals as journald keeps them; their content does not matter here."""
    for name in (
        "system.journal", "archived.journal~", "notes.txt", "system.journal.gz", f"{MACHINE}/user-1000.journal",
        f"{MACHINE}/system@1.journal~", f"{MACHINE}.celery/system.journal", "remote/remote-web1.journal",
    ):  # fmt: skip
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(JOURNAL_MAGIC + bytes(300))
    return tmp_path


def test_a_folder_is_read_as_journalctl_reads_it_with_its_namespaces(folder: Path) -> None:
    """Files `*.journal` and `*.journal~` count, in the folder and in its folders of machines and namespaces."""
    assert names(folder, directories=[str(folder)]) == [
        "archived.journal~", "system.journal", f"{MACHINE}/system@1.journal~", f"{MACHINE}/user-1000.journal",
        f"{MACHINE}.celery/system.journal",
    ]  # fmt: skip


def test_a_pattern_names_all_files_that_match_it(folder: Path) -> None:
    """Globs expand, `**` too, in the order of their names; folders are no files."""
    assert names(folder, files=[f"{folder}/*.journal", f"{folder}/**/remote-*"]) == [
        "system.journal",
        "remote/remote-web1.journal",
    ]


def test_a_file_whose_name_looks_like_a_pattern_is_taken_as_it_is(tmp_path: Path) -> None:
    """A path that exists is no pattern."""
    path = tmp_path / "worker[1].log"
    path.write_text("x\n")
    assert names(tmp_path, files=[str(path)]) == ["worker[1].log"]


def test_a_file_given_twice_is_read_once(folder: Path) -> None:
    """The same file by its name, a pattern, a link and its folder is one source."""
    link = folder / "link.journal"
    link.symlink_to(folder / "system.journal")
    os.link(folder / "system.journal", folder / "hard.journal")
    path = str(folder / "system.journal")
    assert names(folder, files=[path, path, f"{folder}/syst*.journal", str(link)]) == ["system.journal"]
    assert "hard.journal" in names(folder, directories=[str(folder)])
    assert "system.journal" not in names(folder, directories=[str(folder)])


@pytest.mark.parametrize(
    ("named", "message", "hint"),
    [
        ({"files": ["{0}/no.journal"]}, "{0}/no.journal: no such file", "ls {0}"),
        ({"files": ["{0}/no/*.journal"]}, "{0}/no/*.journal: no file matches this pattern", "ls {0}"),
        ({"files": ["{0}"]}, "{0}: is a directory", "-D {0}"),
        ({"directories": ["{0}/no"]}, "{0}/no: no such directory", "ls {0}"),
        ({"directories": ["{0}/file"]}, "{0}/file: not a directory", "--file {0}/file"),
        ({"directories": ["{0}"]}, "{0}: holds no journal files (*.journal, *.journal~)", "--file '{0}/*'"),
    ],
)
def test_what_cannot_be_opened_is_refused_with_the_next_command_to_type(
    named: dict[str, list[str]], message: str, hint: str, tmp_path: Path
) -> None:
    """Each refusal is one clear line, and a hint that names a command."""
    (tmp_path / "file").write_text("x")
    filled = {option: [word.format(tmp_path) for word in words] for option, words in named.items()}
    said, advice = refusal(**filled)
    assert said == message.format(tmp_path)
    assert hint.format(tmp_path) in advice


def test_a_socket_is_refused(tmp_path: Path) -> None:
    """What can be named but not opened gives the system's own reason."""
    path = tmp_path / "socket"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        assert refusal(files=[str(path)])[0] == f"{path}: No such device or address"


def test_a_stream_is_kept_and_can_be_read_twice_by_other_processes() -> None:
    """Standard input is copied to a private file, so that children can read it."""
    (source,) = open_sources(stdin=io.BytesIO(gzip.compress(EXPORT)))
    again = pickle.loads(pickle.dumps(source))  # noqa: S301 -- it is this test's own
    assert source.name == "-"
    assert read(source) == read(again)
    assert len(read(source)[0]) > 10


def test_a_pipe_is_kept_like_standard_input(tmp_path: Path) -> None:
    """`--file <(ssh host journalctl -o export)` names a pipe, which can be read once only."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    writer = threading.Thread(target=path.write_bytes, args=(EXPORT,))
    writer.start()
    (source,) = open_sources(files=[str(path)])
    writer.join()
    assert (source.name, read(source)[1], len(read(source)[0]) > 10) == (str(path), [], True)


def test_what_was_kept_is_removed_when_the_process_ends(tmp_path: Path) -> None:
    """Nothing is left in the folder for temporary files."""
    script = (
        "import io; from kill_audit.journal import open_sources; "
        "open_sources(stdin=io.BytesIO(b'x')); import os; print(len(os.listdir(os.environ['TMPDIR'])))"
    )
    environment = {**os.environ, "TMPDIR": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", script], env=environment, check=True, capture_output=True, text=True)
    assert (done.stdout, list(tmp_path.iterdir())) == ("1\n", [])


def test_an_empty_file_is_a_source_without_entries(tmp_path: Path) -> None:
    """An empty file is a problem to tell, and not an error."""
    path = tmp_path / "empty"
    path.touch()
    (source,) = open_sources(files=[str(path)])
    assert read(source) == ([], [Problem(code="empty", detail="holds no entries")])


def test_a_file_of_another_kind_is_damage(tmp_path: Path) -> None:
    """A program, a picture or a journal file whose start is overwritten holds nothing that can be read."""
    path = tmp_path / "picture"
    path.write_bytes(b"\x89PNG\r\n\x1a\n\0\0")
    (source,) = open_sources(files=[str(path)])
    assert [problem.code for problem in read(source)[1]] == ["damaged"]


def test_a_file_that_is_gone_by_the_time_it_is_read_is_a_problem(tmp_path: Path) -> None:
    """It may be renamed or removed by journald between the look into its folder and the reading."""
    source = FileSource(name="x", path=str(tmp_path / "x"), kind=Kind.JOURNAL)
    assert [problem.code for problem in read(source)[1]] == ["damaged"]
    assert len(list(distinct([source, source]))) == 2


def test_a_file_that_may_not_be_read_is_refused_if_it_was_named_itself(readable_by_all: Path) -> None:
    """The hint names the group; among many files of a folder or a pattern it is a problem instead."""
    path = readable_by_all / "system.journal"
    path.write_bytes(JOURNAL_MAGIC + bytes(300))
    forbid(path)

    def said() -> str:
        _, hint = refusal(files=[str(path)])
        sources = [
            *open_sources(files=[f"{readable_by_all}/*.journal"]),
            *open_sources(directories=[str(readable_by_all)]),
            FileSource(name="x", path=str(path), kind=Kind.EXPORT),
        ]
        codes = [problem.code for source in sources for problem in read(source)[1]]
        return f"{hint} | {' '.join(codes)}"

    assert as_nobody(said) == (
        "run it as root, or: sudo usermod -aG systemd-journal $USER (and log in again) | "
        "no-permission no-permission no-permission"
    )


def test_a_folder_that_may_not_be_listed_is_refused(readable_by_all: Path) -> None:
    """The folder is named, and the group."""
    forbid(readable_by_all)
    answer = as_nobody(lambda: " | ".join(refusal(directories=[str(readable_by_all)])))
    readable_by_all.chmod(0o755)
    assert answer.startswith(f"{readable_by_all}: permission denied | run it as root, or: sudo usermod")


def test_a_socket_among_the_matches_of_a_pattern_is_no_file(tmp_path: Path) -> None:
    """Patterns match files only; a link to nowhere that is named itself is refused."""
    (tmp_path / "nowhere").symlink_to(tmp_path / "gone")
    assert refusal(files=[f"{tmp_path}/no*"])[0].endswith("no file matches this pattern")
    assert refusal(files=[f"{tmp_path}/nowhere"])[0] == f"{tmp_path}/nowhere: No such file or directory"


def test_a_stream_that_is_named_as_a_file_is_read_in_children_too(tmp_path: Path) -> None:
    """`--file /dev/stdin < FILE` is that file: a child has another standard input."""
    path = tmp_path / "x.export"
    path.write_bytes(EXPORT)
    with path.open("rb") as file:
        (source,) = open_sources(files=[f"/proc/self/fd/{file.fileno()}"])
    assert isinstance(source, FileSource)
    assert source.path == str(path)


@pytest.mark.parametrize(
    "text", ['{"__REALTIME_TIMESTAMP":"1","MESSAGE":"m"}\n', "[2024-05-23 18:28:39,511: INFO/M] m\n"]
)
def test_json_and_text_are_sources_like_exports(text: str, tmp_path: Path) -> None:
    """The content decides which reader reads it."""
    path = tmp_path / "file"
    path.write_text(text)
    (source,) = open_sources(files=[str(path)])
    entries, _ = read(source, replace(EVERYTHING, assume_timezone="UTC"))
    assert [(entry.message or "")[-1] for entry in entries] == ["m"]


def test_only_what_libsystemd_reads_is_fragile(folder: Path) -> None:
    """Journal files are read apart from everything else; text and exports cannot end a process."""
    (folder / "export").write_bytes(EXPORT)
    fragile = [
        (Path(source.name).name, getattr(source, "fragile", None))
        for source in open_sources(files=[f"{folder}/system.journal", f"{folder}/export"])
    ]
    assert fragile == [("system.journal", True), ("export", False)]
    assert not ProblemSource(name="x", problems=()).fragile


@pytest.mark.journal
def test_a_packed_journal_file_is_read(tmp_path: Path, make_journal: MakeJournal) -> None:
    """A `.journal` file packed by gzip is unpacked for libsystemd, and nothing of it is left."""
    journal = make_journal(EXPORT, tmp_path / "x.journal")
    packed = tmp_path / "x.journal.gz"
    packed.write_bytes(gzip.compress(journal.read_bytes()))
    (source,) = open_sources(files=[str(packed)])
    (plain,) = open_sources(files=[str(journal)])
    assert read(source) == read(plain)
    assert isinstance(source, FileSource)
    assert source.unpack_in is not None
    assert list(Path(source.unpack_in).iterdir()) == []


@pytest.mark.journal
def test_a_packed_journal_file_that_is_cut_off_says_so(tmp_path: Path, make_journal: MakeJournal) -> None:
    """The damage to the packed file is told beside what libsystemd says of the piece."""
    journal = make_journal(EXPORT, tmp_path / "x.journal")
    packed = tmp_path / "x.journal.gz"
    packed.write_bytes(gzip.compress(journal.read_bytes())[:-5000])
    (source,) = open_sources(files=[str(packed)])
    assert "the packed file is cut off" in read(source)[1][-1].detail


@pytest.mark.journal
def test_journalctl_finds_the_same_entries_in_a_folder(tmp_path: Path, make_journal: MakeJournal) -> None:
    """`-D` reads what `journalctl -D` reads."""
    make_journal(RECORDINGS[0].read_bytes(), tmp_path / "system.journal")
    make_journal(RECORDINGS[1].read_bytes(), tmp_path / MACHINE / "system.journal")
    cursors = sorted(entry.cursor for source in open_sources(directories=[str(tmp_path)]) for entry in read(source)[0])
    printed = journalctl("-D", str(tmp_path), "-o", "export").decode("utf-8", "replace")
    listed = sorted(line.removeprefix("__CURSOR=") for line in printed.splitlines() if line.startswith("__CURSOR="))
    assert cursors == listed
