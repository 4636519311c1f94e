"""`kill-audit init`: a configuration to begin with, from what is found here."""

import difflib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kill_audit.cli.completion import files
from kill_audit.cli.options import Reading, reading, run_log_options, source_options
from kill_audit.cli.output import WriteError, write
from kill_audit.cli.reading import evidence_of, findings_of
from kill_audit.errors import KillAuditError, UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kill_audit.classify import TaskSettings
    from kill_audit.config import Settings
    from kill_audit.runlog import Explanation
    from kill_audit.units import Found, SeenUnit

TARGET = "kill-audit.toml"


@click.command(name="init", short_help="Write a commented kill-audit.toml from what is found here.")
@source_options
@run_log_options
@click.option(
    "--app", metavar="MODULE:APP", help="Add the acknowledgement settings of this Celery app's tasks (as celery -A)."
)
@click.option(
    "--python",
    metavar="FILE",
    help="The Python that has the app.  [default: the one that runs this]",
    shell_complete=files,
)
@click.option(
    "-w", "--write", "target", default=TARGET, show_default=True, metavar="FILE", help="Write to FILE; - is stdout."
)
@click.pass_obj
def command(settings: "Settings", /, **asked: Any) -> int:
    """Write a commented configuration: the worker units of the window, the run log's layout, the tasks' settings.

    A file that is there already is never touched: the difference is printed instead, and the exit status is 1.
    """
    from kill_audit.cli.init.text import compose

    shared = reading(asked)
    tasks = _tasks(asked["app"], asked["python"])
    explained = _run_log(shared, settings)
    seen, known, why_not = _units(shared)
    place = None if shared.run_log is None else _from(asked["target"], shared.run_log)
    text = compose(seen=seen, known=known, why_not=why_not, run_log=place, explained=explained, tasks=tasks)
    return _put(text, asked["target"])


def _from(target: str, place: str) -> str:
    """Write a relative path in full where the configuration goes to another folder, from which it will be taken."""
    is_path = "://" not in place and not place.startswith(("@", "~"))
    return str(Path(place).absolute()) if is_path and Path(target).parent != Path() else place


def _tasks(app: str | None, python: str | None) -> "Mapping[str, TaskSettings] | None":
    if app is None:
        if python is not None:
            raise UsageError("--python names the Python of an app", hint="name the app too: --app MODULE:APP")
        return None
    from kill_audit.celery_app import tasks_of

    return tasks_of(app, python=python) if python is not None else tasks_of(app)


def _run_log(shared: Reading, settings: "Settings") -> "Explanation | None":
    if shared.run_log is None:
        return None
    from kill_audit.runlog import explain  # SQLAlchemy is heavy

    given = settings.for_run_log(shared.run_log, table=shared.run_log_table, preset=shared.run_log_preset)
    return explain(shared.run_log, **given)


def _units(shared: Reading) -> "tuple[tuple[SeenUnit, ...], Found, str | None]":
    """Find the worker units; a journal that cannot be read leaves a note in the file, and is no reason to give up."""
    from dataclasses import replace

    from kill_audit.units import Found, machine_id, seen_units, settings_of

    try:
        found = findings_of(replace(shared, run_log=None, results=None), evidence_of(shared))
    except UsageError:
        raise
    except KillAuditError as error:
        return (), Found(), error.message
    seen = seen_units(found.history, found.kills, found.question)
    here = machine_id(shared.root)
    names = [one.unit for one in seen if one.machine == here]
    return seen, settings_of(names, root=shared.root, user=shared.user), None


def _put(text: str, target: str) -> int:
    """Write the text where nothing is yet; else print how it differs from what is there."""
    if target == "-":
        write(text, None)
        return 0
    path = Path(target)
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        return _differ(text, path)
    except OSError as error:
        raise WriteError(
            f"cannot write {target}: {error.strerror}", hint="choose another place with -w FILE"
        ) from error
    click.echo(f"kill-audit: wrote {target}; look it over, then: kill-audit doctor", err=True)
    return 0


def _differ(text: str, path: Path) -> int:
    try:
        there = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise WriteError(f"{path} is there, and cannot be read", hint="choose another place with -w FILE") from error
    if there == text:
        click.echo(f"kill-audit: {path} says just this already", err=True)
        return 0
    lines = difflib.unified_diff(there.splitlines(), text.splitlines(), str(path), "what is found here", lineterm="")
    write("".join(f"{line}\n" for line in lines), None)
    click.echo(f"kill-audit: {path} is there already and stays as it is; -w FILE writes elsewhere", err=True)
    return 1
