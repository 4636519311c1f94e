"""The text of a new configuration: what was found, what it means, and everything else commented out."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from kill_audit.classify import TaskSettings
from kill_audit.render.printable import printable

if TYPE_CHECKING:
    from kill_audit.runlog import Explanation
    from kill_audit.units import Found, SeenUnit

HEAD = """\
# The configuration of kill-audit, written by `kill-audit init`. A flag or a KILL_AUDIT_* variable goes before it.
# It is also read as [tool.kill-audit] of pyproject.toml, from $XDG_CONFIG_HOME/kill-audit/config.toml, and from
# /etc/kill-audit/config.toml. What is commented out shows the default, or an example.
"""

READING = """\
# The window (deaths from then on), how much before it is read so that tasks received long before are named, how old a
# death must be before its row is called missing, how far apart two stops of one deploy may lie.
# since = "7d"
# lead-in = "7d"
# settle = "2min"
# deploy-gap = "2min"

# What makes the exit status of `kill-audit report` 1: verdicts, any, cause=GLOB, >N.
# fail-on = "missing,stuck"
# output = "table"

# Findings that are accepted as known, written by `kill-audit accept` and reviewed like code; they fail no report.
# accepted = "kill-audit.accepted.toml"
"""

NO_RUN_LOG = """\
# The app's run log: with it a report says which kills the app knows of. `kill-audit doctor --run-log URL` shows how a
# table is read. A password stays out of this file: KILL_AUDIT_RUN_LOG_PASSWORD, .pgpass, or url = "@FILE".
# [run-log]
# url = "postgresql://USER@HOST/DATABASE"
# table = "task_runs"
"""

RESULTS = """\
# Celery's own result table, as further evidence of which task was killed.
# [results]
# url = "postgresql://USER@HOST/DATABASE"
"""

MARKS = """\
# What labels a deploy besides its time: a journal match, the unit that runs it, or a file of marks (CSV or JSON).
# [[deploy-marks]]
# match = "SYSLOG_IDENTIFIER=deploy"
"""

NO_TASKS = """\
# Acknowledgement settings decide what becomes of a killed task; the journal does not show them. `kill-audit init --app
# MODULE:APP` takes them from the app itself. A name may be a glob.
# [tasks."shop.tasks.charge"]
# acks_late = true
# reject_on_worker_lost = true
# acks_on_failure_or_timeout = true
# safe_to_rerun = false
"""

TASKS = """\
# Acknowledgement settings of each task, from the app itself. `safe_to_rerun = true` is for you to say, of a task that
# does no harm when it runs twice.
"""

REST = """\
# The weekly summary, and where reports are kept for it.
# [mail]
# to = ["ops@example.org"]
# from = "kill-audit@example.org"
# when = "always"
# [schedule]
# weekly = "Mon 08:00"
# [ledger]
# url = "sqlite:////var/lib/kill-audit/ledger.sqlite3"
# keep = "2y"

# Any option of one command alone:
# [commands.report]
# output = "html"
# write = "/srv/www/kills.html"
"""


def compose(
    *,
    seen: Sequence["SeenUnit"],
    known: "Found",
    why_not: str | None,
    run_log: str | None,
    explained: "Explanation | None",
    tasks: Mapping[str, TaskSettings] | None,
) -> str:
    """Write the configuration.

    Args:
        seen: the worker units that were found.
        known: what systemd is told about them.
        why_not: why no unit could be looked for.
        run_log: the run log's URL or path, as it was named.
        explained: how it is read.
        tasks: acknowledgement settings by task, if an app was named.
    """
    parts = [HEAD, _units(seen, known, why_not), READING]
    parts.append(NO_RUN_LOG if run_log is None or explained is None else _run_log(run_log, explained))
    parts += [RESULTS, MARKS, NO_TASKS if tasks is None else _tasks(tasks), REST]
    return "\n".join(parts)


def _units(seen: Sequence["SeenUnit"], known: "Found", why_not: str | None) -> str:
    lines = ["# The units to audit. Without this, every unit whose own lines are a Celery worker's."]
    if not seen:
        reason = f": {_plain(why_not)}" if why_not else " in the window"
        return "\n".join([*lines, f"# None was found{reason}.", '# units = ["celery@*"]']) + "\n"
    lines.append("# Found:")
    for one in seen:
        pool = " ".join([*one.pools, *([] if one.concurrency is None else [str(one.concurrency)])])
        facts = ", ".join(filter(None, [*one.nodes, *(f"Celery {version}" for version in one.versions), pool]))
        lines.append(f"#   {_plain(one.unit)} on {_plain(one.host)}: {_plain(facts) or 'its lines are in log files'}")
    lines.append(f"units = [{', '.join(map(_quoted, _patterns(one.unit for one in seen)))}]")
    commands = [command for one in seen if one.unit in known.settings for command in known.settings[one.unit].commands]
    apps = dict.fromkeys(command.app for command in commands if command.app)
    lines += [f"# kill-audit init --app {_plain(app)}    adds the settings of that app's tasks" for app in apps]
    files = dict.fromkeys(file for one in known.settings.values() for file in one.log_files)
    if files:
        lines.append("# Workers that write to files instead of the journal; times there carry no zone.")
        lines.append(f"# files = [{', '.join(map(_quoted, files))}]")
        lines.append('# assume-timezone = "UTC"')
    return "\n".join(lines) + "\n"


def _patterns(units: Iterable[str]) -> Iterator[str]:
    """Name units, and those of one template by a pattern, so that a new instance is audited too."""
    names = dict.fromkeys(units)
    templates = [f"{name.partition('@')[0]}@*.{name.rpartition('.')[2]}" if "@" in name else name for name in names]
    yield from dict.fromkeys(
        template if templates.count(template) > 1 else name for name, template in zip(names, templates, strict=True)
    )


def _run_log(run_log: str, explained: "Explanation") -> str:
    head, _, rest = explained.toml.partition("\n")
    lines = ["# The app's run log, as `kill-audit doctor` shows it."]
    lines += [f"# {_plain(lack.code)}: {_plain(lack.detail)}: {_plain(lack.hint)}" for lack in explained.lacks]
    bare = _without_password(run_log)
    if bare != run_log:
        lines.append('# The password stays out of this file: KILL_AUDIT_RUN_LOG_PASSWORD, .pgpass, or url = "@FILE".')
    return "\n".join([*lines, head, f"url = {_quoted(bare)}", rest])


def _without_password(url: str) -> str:
    bare = re.sub(r"(://[^/@:]*):[^@]*@", r"\1@", url)
    return re.sub(r"(?<=[?&])(?:password|passwd|secret|token)=[^&]*&?", "", bare).rstrip("?&")


def _tasks(tasks: Mapping[str, TaskSettings]) -> str:
    lines = [TASKS]
    for name, settings in tasks.items():
        lines.append(f"[tasks.{_quoted(name)}]")
        for key in ("acks_late", "reject_on_worker_lost", "acks_on_failure_or_timeout"):
            value = getattr(settings, key)
            if value is not None:
                lines.append(f"{key} = {str(value).lower()}")
        lines.append("")
    return "\n".join(lines)


def _quoted(text: str) -> str:
    """Write a TOML basic string: JSON's escapes are a part of TOML's, which wants DEL escaped too (toml.io)."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _plain(text: str | None) -> str:
    """Make text from elsewhere fit for one line of a comment."""
    return printable(text or "")
