"""The acknowledgement settings of a real Celery app, which a child process imports.

Rules of this room: the app is never imported here. What it prints is kept out, it may take only so long, and whatever
it does to its process, one line says so.
"""

import json
import os
import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from kill_audit.classify import TaskSettings
from kill_audit.errors import UsageError

TIMEOUT_S: Final = 60.0
_CHILD: Final = Path(__file__).with_name("child.py")


def tasks_of(
    app: str, *, python: str = sys.executable, folder: Path | None = None, timeout: float = TIMEOUT_S
) -> Mapping[str, TaskSettings]:
    """Give the acknowledgement settings of an app's tasks by their names; `safe_to_rerun` is for people to say.

    Args:
        app: as for `celery -A`: a module, a package, or `module:attribute`.
        python: the interpreter that has the app and Celery.
        folder: the working directory, from which the app can be imported; None for this one.
        timeout: seconds that the import may take.

    Raises:
        UsageError: the interpreter is missing, or the app cannot be imported, hangs or ends its process.
    """
    where = folder or Path.cwd()
    words = f"cd {shlex.quote(str(where))} && {shlex.quote(python)} -m celery -A {shlex.quote(app)} report"
    hint = f"see what it says: {words} (--python names another interpreter)"
    said = _ask([python, str(_CHILD), app], where, timeout)
    if isinstance(said, str):
        raise UsageError(f"cannot import the Celery app {app}: {said}", hint=hint)
    return {name: TaskSettings(**settings) for name, settings in said.items()}


def _ask(words: list[str], folder: Path, timeout: float) -> dict[str, dict[str, bool]] | str:
    """Run the child; give the settings by task that it writes, or what went wrong."""
    with tempfile.TemporaryFile() as answer:
        try:
            child = subprocess.Popen(  # noqa: S603 -- a list of words, no shell
                [*words, str(answer.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd=folder,
                pass_fds=[answer.fileno()],
                start_new_session=True,
            )
        except OSError as error:
            return f"cannot run {words[0]}: {error.strerror}"
        try:
            status = child.wait(timeout)
        except subprocess.TimeoutExpired:
            return f"it takes more than {timeout:g} s"
        finally:
            _end(child)
        answer.seek(0)
        text = answer.read()
    try:
        said: dict[str, Any] = json.loads(text)
    except ValueError:
        return _ending(status)
    tasks: dict[str, dict[str, bool]] | None = said.get("tasks")
    return str(said.get("error"))[:300] if tasks is None else tasks


def _end(child: "subprocess.Popen[bytes]") -> None:
    """End a child that still runs, with all that it has started."""
    if child.poll() is None:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()


def _ending(status: int) -> str:
    if status >= 0:
        return f"its process exited with status {status}"
    try:
        return f"its process died of {signal.Signals(-status).name}"
    except ValueError:
        return f"its process died of signal {-status}"
