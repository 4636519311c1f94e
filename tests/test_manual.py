"""The manual pages and completions of packaging/: as the commands are, right for their readers, and in the wheel."""

import os
import pty
import re
import select
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import click
import pytest

from documentation import PROJECT, command_of, keys
from kill_audit.cli import COMMANDS
from manual import FOLDERS, PACKAGING, SCRIPTS, files

PAGES = {path.name: text for path, text in files().items() if path.parent.name.startswith("man")}
each_page = pytest.mark.parametrize("page", PAGES)


def program(name: str) -> str:
    """A program that reads what is made; without it CI fails, and a laptop skips."""
    found = shutil.which(name)
    if found is None:
        message = f"no {name}: `make test` installs it by apt"
        if os.environ.get("CI"):
            pytest.fail(message)
        pytest.skip(message)
    return found


def plain(page: str) -> str:
    """A page's text without macros and fonts, its escapes resolved."""
    text = re.sub(r"\\f[BIR]", "", PAGES[page])
    for escape, char in ((r"\-", "-"), (r"\(aq", "'"), (r"\(ga", "`"), (r"\&", ""), (r"\e", "\\")):
        text = text.replace(escape, char)
    return text


def test_what_is_made_is_up_to_date() -> None:
    """Every file of packaging/ is as `make docs` writes it, and none is left over."""
    made = files()
    assert {path: path.read_text(encoding="utf-8") if path.exists() else None for path in made} == dict(made)
    assert {path for folder in FOLDERS for path in (PACKAGING / folder).iterdir()} == set(made)


@each_page
def test_groff_takes_a_page_without_a_warning(page: str, tmp_path: Path) -> None:
    """Man shows each page, and groff has nothing to say about it."""
    file = tmp_path / page
    file.write_text(PAGES[page], encoding="utf-8")
    words = [program("man"), "--warnings", "-E", "UTF-8", "-l", "-Tutf8", "-Z", str(file)]
    done = subprocess.run(words, capture_output=True, text=True, check=True, env={**os.environ, "LC_ALL": "C.UTF-8"})
    assert done.stderr == ""
    assert done.stdout


@each_page
def test_mandoc_takes_a_page_without_a_warning(page: str, tmp_path: Path) -> None:
    """Nor has mandoc, but that a page has no date: it is that of the release it comes with."""
    file = tmp_path / page
    file.write_text(PAGES[page], encoding="utf-8")
    words = [program("mandoc"), "-T", "lint", "-W", "warning", str(file)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert [line for line in done.stdout.splitlines() if "missing date" not in line] == []


@pytest.mark.parametrize("verb", COMMANDS)
def test_a_verbs_page_has_all_its_options(verb: str) -> None:
    """Each option of a verb, and of its own verbs, is on its page, spelled as it is typed."""
    command = command_of(verb)
    inner = command.commands.values() if isinstance(command, click.Group) else ()
    text = plain(f"kill-audit-{verb}.1")
    for one in (command, *inner):
        for option in one.params:
            if isinstance(option, click.Option):
                assert [word for word in option.opts if not re.search(rf"(?<![\w-]){word}(?![\w-])", text)] == []


def test_the_configurations_page_has_all_keys() -> None:
    """Each key is in the section of its table."""
    text = plain("kill-audit.toml.5")
    assert [key.path for key in keys() if f"\n{key.path.rpartition('.')[2]} (" not in text and not key.is_table] == []


def test_a_wheel_brings_everything() -> None:
    """Each made file goes to where man and the shells look (man-db, bash-completion, zsh and fish)."""
    wheel = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["hatch"]["build"][
        "targets"
    ]
    shared: dict[str, str] = wheel["wheel"]["shared-data"]
    left_out = [
        path
        for path in files()
        if not {str(path.relative_to(PROJECT)), str(path.parent.relative_to(PROJECT))} & set(shared)
    ]
    assert left_out == []
    assert [source for source in shared if not (PROJECT / source).exists()] == []


# completions


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """An environment in which `kill-audit` is this package, and no shell reads anything of the machine's."""
    binary = tmp_path / "bin" / "kill-audit"
    binary.parent.mkdir()
    binary.write_text(f'#!/bin/sh\nexec {sys.executable} -m kill_audit "$@"\n', encoding="utf-8")
    binary.chmod(0o755)
    state = {name: str(tmp_path / "home") for name in ("HOME", "STATE_DIRECTORY", "XDG_CONFIG_HOME", "XDG_DATA_HOME")}
    kept = {name: value for name, value in os.environ.items() if name in {"PYTHONPATH", "LANG"}}
    return kept | state | {"PATH": f"{binary.parent}:/usr/bin:/bin", "TERM": "dumb"}


def completion(shell: str) -> Path:
    """The script of a shell."""
    return PACKAGING / "completions" / SCRIPTS[shell]


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["rep"], ["report"]),
        (["report", "--fail"], ["--fail-on"]),
        (["report", "-o", "p"], ["prometheus"]),
        (["report", "--cause", "oom"], ["oom-kernel", "oom-systemd"]),
        (["accept", "--cause", "unit"], ["unit-stop"]),
        (["schedule", "in"], ["install"]),
        (["--completion", "f"], ["fish"]),
        (["report", "--assume-timezone", "Europe/Berl"], ["Europe/Berlin"]),
        (["show", "0"], []),
    ],
)
def test_bash_completes(environment: dict[str, str], words: list[str], offered: list[str]) -> None:
    """Bash offers verbs, options, formats, causes and zones."""
    typed = ["kill-audit", *words]
    script = (
        f"source {completion('bash')}; COMP_WORDS=({' '.join(typed)}); COMP_CWORD={len(words)}; "
        '_kill_audit_completion kill-audit; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    asked = [program("bash"), "--norc", "-c", script]
    done = subprocess.run(asked, env=environment, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    assert done.stdout.split() == offered


def test_fish_completes(environment: dict[str, str]) -> None:
    """Fish offers the same, with what each is."""
    script = f"source {completion('fish')}; complete -C 'kill-audit report --verdict st'"
    asked = [program("fish"), "--no-config", "-c", script]
    done = subprocess.run(asked, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split("\t")[0].strip() == "stuck"


def test_zsh_completes(environment: dict[str, str], tmp_path: Path) -> None:
    """Zsh finds its script by name and completes at the Tab key, as at a terminal."""
    functions = tmp_path / "functions"
    functions.mkdir()
    shutil.copy(completion("zsh"), functions)
    (tmp_path / "home").mkdir()
    start = f"fpath=({functions} $fpath); autoload -Uz compinit; compinit -u -D; PS1=; print -r rea''dy\n"
    said = typed_at(
        [program("zsh"), "-f", "-i"], environment, [(start, "ready"), ("kill-audit report -o pro\t", "prometheus")]
    )
    assert "kill-audit report -o prometheus" in said


def typed_at(words: list[str], environment: dict[str, str], exchange: list[tuple[str, str]]) -> str:
    """Type at a program on a terminal of its own, each time until it has said what is awaited; what it said last."""
    terminal, end = pty.openpty()
    on_it = ["setsid", "--ctty", "--wait", *words]
    said = ""
    with subprocess.Popen(on_it, stdin=end, stdout=end, stderr=end, env=environment) as running:
        os.close(end)
        for typed, awaited in exchange:
            os.write(terminal, typed.encode())
            said = heard(terminal, awaited)
        os.close(terminal)  # the terminal hangs up, and the program with it
        running.wait()
    return said


def heard(terminal: int, awaited: str) -> str:
    """What is said on a terminal until it ends with what is awaited."""
    said = ""
    while awaited not in said:
        if not select.select([terminal], [], [], 60)[0]:
            pytest.fail(f"nothing more was said after {said!r}")
        said += os.read(terminal, 4096).decode(errors="replace")
    return said


@pytest.mark.parametrize("shell", SCRIPTS)
def test_the_command_writes_the_same_script(environment: dict[str, str], shell: str) -> None:
    """`kill-audit --completion SHELL` writes what the package brings, for who installs it elsewhere."""
    done = subprocess.run(
        ["kill-audit", "--completion", shell], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout == completion(shell).read_text(encoding="utf-8")
