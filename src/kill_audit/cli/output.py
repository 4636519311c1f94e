"""Where a result goes, and the exit status it comes to."""

import os
import re
import sys
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

from kill_audit.errors import KillAuditError, UsageError
from kill_audit.whole_file import replace_file

if TYPE_CHECKING:
    from kill_audit.document import Document, Kill

FAIL_ON = "missing,stuck"
_COUNT = re.compile(r">\s*(\d+)")
_VERDICTS = frozenset(
    {"unsettled", "stuck", "recorded", "contradicted", "recovered", "ambiguous", "uncovered", "missing"}
)


class WriteError(KillAuditError):
    """The result cannot be written where it was asked to."""


def terminal_width(target: str | None) -> int | None:
    """Columns of the terminal that the result goes to; None where it goes to a pipe or a file."""
    if target is not None or not sys.stdout.isatty():
        return None
    import shutil

    return shutil.get_terminal_size().columns


def in_colour(choice: str, target: str | None) -> bool:
    """Whether to colour: the choice, else NO_COLOR, FORCE_COLOR or CLICOLOR_FORCE, else whether it is a terminal."""
    if choice != "auto":
        return choice == "always"
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR") or os.environ.get("CLICOLOR_FORCE", "0") not in ("", "0"):
        return True
    return target is None and sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


def write(text: str, target: str | None) -> None:
    """Write the result: to a file that is replaced only when all of it is there, or to stdout.

    Raises:
        WriteError: the file cannot be written; what was there before is still there.
    """
    if target is not None:
        put(text.encode(), target)
        return
    sys.stdout.write(text)
    sys.stdout.flush()


def put(data: bytes, target: str) -> None:
    """Replace a file as a whole, so that nobody ever reads half of it: node_exporter, a web server, a mail program.

    A link stays a link, and the file keeps its permissions. What is no file (a pipe, `/dev/stdout`) is written to.

    Raises:
        WriteError: it cannot be written; what was there before is still there.
    """
    path = Path(target).resolve()
    try:
        if path.exists() and not path.is_file():
            path.write_bytes(data)
        else:
            replace_file(path, data)
    except OSError as error:
        raise WriteError(
            f"cannot write {target}: {error.strerror}", hint="choose another place with -w FILE"
        ) from error


def exit_status(document: "Document", *, fail_on: str, exit_zero: bool) -> int:
    """Tell the exit status: 1 findings, 3 inconclusive, 0 neither (docs/exit-status.md). 1 wins over 3.

    Raises:
        UsageError: `fail_on` cannot be understood.
    """
    found = is_failing(document, fail_on)
    if exit_zero:
        return 0
    return 1 if found else 3 if inconclusive(document) else 0


def inconclusive(document: "Document") -> bool:
    """Whether "no findings" would say too much: evidence with holes, or deaths whose row cannot be looked for."""
    unjudged = document.run_log is not None and any(kill.verdict is None for kill in document.kills)
    return document.coverage.verdict != "complete" or bool(document.blind_deaths) or unjudged


def is_failing(document: "Document", fail_on: str) -> bool:
    """Whether the document has what `--fail-on` names; without a run log any kill counts as missing or stuck.

    `fail_on` is a list of `missing`, `stuck` and other verdicts, `any`, `cause=GLOB`, and `>N` (more than N kills of
    the conditions beside it, or of any). Accepted kills never fail.
    """
    kills = [kill for kill in document.kills if kill.accepted is None]
    words = [word.strip() for word in fail_on.split(",") if word.strip()]
    most = [int(match[1]) for word in words if (match := _COUNT.fullmatch(word))]
    rules = [word for word in words if not _COUNT.fullmatch(word)]
    for rule in rules:
        if rule not in _VERDICTS | {"any"} and not rule.startswith("cause="):
            raise UsageError(
                f"--fail-on {rule}: not understood",
                hint="give missing, stuck or another verdict, any, cause=GLOB, or >N, joined by commas",
            )
    if not words:
        raise UsageError("--fail-on names nothing", hint=f"the default is {FAIL_ON}")
    without_log = document.run_log is None
    failing = [kill for kill in kills if not rules or any(_meets(kill, rule, without_log) for rule in rules)]
    return len(failing) > (most[0] if most else 0)


def _meets(kill: "Kill", rule: str, without_log: bool) -> bool:
    if rule == "any":
        return True
    if rule.startswith("cause="):
        return fnmatchcase(kill.cause, rule.removeprefix("cause="))
    return kill.verdict == rule or (without_log and rule in ("missing", "stuck"))
