"""A Celery worker's command line: what its options say, however a unit wraps it.

Options and their spellings: celery/bin/worker.py and celery/apps/multi.py (4.4 to 5.7). A command line taken from
systemctl has lost its quotes (systemd joins the words with blanks), so nothing here relies on them.
"""

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Final

_VERBS: Final = frozenset({"worker", "multi", "beat", "events", "flower", "inspect", "control", "shell", "purge"})
_SHELLS: Final = frozenset({"sh", "bash", "dash", "zsh", "ksh", "ash"})
_LONG: Final = {
    "-A": "--app",
    "-c": "--concurrency",
    "-f": "--logfile",
    "-l": "--loglevel",
    "-n": "--hostname",
    "-P": "--pool",
    "-Q": "--queues",
}
_FLAGS: Final = frozenset({"-B", "-D", "-E", "-S"})
_VARIABLE: Final = re.compile(r"\$(?:\{(?P<braced>\w+)\}|(?P<plain>\w+))")
_NODE_WORD: Final = re.compile(r"%[A-Za-z]")


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerCommand:
    """What a command line says of the workers it starts; None and () where it does not say.

    `multi`: it is `celery multi`, whose workers detach and write to log files. `log_file` as it stands, with Celery's
    own marks (`%n` the node, `%I` the process). `log_level` in capitals. `concurrency`: with --autoscale its maximum.
    """

    app: str | None = None
    queues: tuple[str, ...] = ()
    concurrency: int | None = None
    pool: str | None = None
    nodes: tuple[str, ...] = ()
    log_level: str | None = None
    log_file: str | None = None
    multi: bool = False
    detached: bool = False

    @property
    def logs_to_files(self) -> bool:
        """Whether its workers' lines go to files, so that the journal has none of them."""
        return self.detached or self.log_file not in (None, "/dev/stdout", "/dev/stderr", "-")

    @property
    def log_glob(self) -> str | None:
        """The pattern that all its log files match, for `--file`."""
        if not self.logs_to_files or self.log_file is None or "$" in self.log_file:
            return None
        return re.sub(r"\*+", "*", _NODE_WORD.sub("*", self.log_file))


@dataclass(slots=True)
class _Words:
    """A command line taken apart: the values of its options by their long names, and the words between them."""

    options: dict[str, str] = field(default_factory=dict)
    flags: set[str] = field(default_factory=set)
    words: list[str] = field(default_factory=list)


def worker_command(argv: Sequence[str], environment: Mapping[str, str] | None = None) -> WorkerCommand | None:
    """Understand a command line; None if it starts no Celery worker.

    Args:
        argv: its words, or the words of a shell's script.
        environment: what stands for `$NAME` and `${NAME}` in it.
    """
    words = _unwrapped(argv, environment or {})
    starts = (_started(words[place + 1 :]) for place in _programs(words))
    return next((command for command in starts if command is not None), None)


def _started(words: Sequence[str]) -> WorkerCommand | None:
    found = _taken_apart(words)
    verb = next((word for word in found.words if word in _VERBS), None)
    if verb == "worker":
        return _command(found, nodes=[found.options["--hostname"]] if "--hostname" in found.options else [])
    if verb == "multi":
        after = found.words[found.words.index("multi") + 1 :]
        if after[:1] and after[0] in ("start", "restart"):
            return _command(found, nodes=after[1:], multi=True)
    return None


def _unwrapped(argv: Sequence[str], environment: Mapping[str, str]) -> list[str]:
    """Take the words out of `sh -c`, with variables put in."""
    words = list(argv)
    if words and PurePosixPath(words[0]).name in _SHELLS and "-c" in words:
        words = words[words.index("-c") + 1 :]
    text = " ".join(word if len(words) == 1 or _is_plain(word) else shlex.quote(word) for word in words)
    known = _VARIABLE.sub(lambda found: environment.get(found["braced"] or found["plain"], found[0]), text)
    try:
        return shlex.split(known)
    except ValueError:  # a quotation mark that stands alone, as in a description
        return known.split()


def _is_plain(word: str) -> bool:
    """Whether a word may be split again: it holds no blank, or a variable that a shell would split."""
    return not any(char.isspace() for char in word)


def _programs(words: Sequence[str]) -> Iterator[int]:
    """Find the words after which Celery's own arguments may begin: its program, or the variable that holds it."""
    for place, word in enumerate(words):
        if PurePosixPath(word).name == "celery" or re.fullmatch(r"\$\{?CELERY\w*BIN\}?", word):
            yield place


def _taken_apart(words: Iterable[str]) -> _Words:
    found = _Words()
    rest = iter(words)
    for word in rest:
        if word in ("&&", "||", ";", "|", ">", ">>"):
            break
        if word.startswith("--"):
            name, mark, value = word.partition("=")
            found.options[name] = value if mark else _next(rest, name)
        elif word in _FLAGS:
            found.flags.add(word)
        elif word.startswith("-") and word[:2] in _LONG:
            if word[2:3] == ":":  # celery multi: `-c:w1 4` is about one node
                next(rest, None)
            else:
                found.options[_LONG[word[:2]]] = word[2:].removeprefix("=") or next(rest, "")
        elif not word.startswith("-"):
            found.words.append(word)
    return found


def _next(rest: Iterator[str], name: str) -> str:
    """Give the value of an option that stands alone; flags have none."""
    return next(rest, "") if name in {*_LONG.values(), "--autoscale", "--pidfile", "--workdir", "--broker"} else ""


def _command(found: _Words, *, nodes: Iterable[str], multi: bool = False) -> WorkerCommand:
    options = {name: value for name, value in found.options.items() if "$" not in value}
    numbers = [options.get("--autoscale", "").partition(",")[0], options.get("--concurrency", "")]
    concurrency = next((int(number) for number in numbers if number.isdecimal()), None)
    level = options.get("--loglevel")
    return WorkerCommand(
        app=options.get("--app") or None,
        queues=tuple(name for name in options.get("--queues", "").split(",") if name),
        concurrency=concurrency,
        pool=options.get("--pool") or None,
        nodes=tuple(node for node in nodes if "$" not in node and not node.isdecimal()),
        log_level=level.upper() if level else None,
        log_file=found.options.get("--logfile") or None,
        multi=multi,
        detached=multi or "-D" in found.flags or "--detach" in options,
    )
