"""What is to run and when, as the texts that systemd and cron read. Pure.

Sources: systemd.service(5) "Command lines", systemd.unit(5) "Specifiers", systemd.exec(5), systemd.timer(5);
crontab(5).
"""

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined

from kill_audit.schedule.failures import ScheduleError

COLLECT, MAIL = "kill-audit-collect", "kill-audit-mail"
CRON_NAME = "kill-audit"

_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_WEEKLY = re.compile(r"(?P<day>[A-Za-z]{3,9})\s+(?P<hour>[0-9]{1,2}):(?P<minute>[0-9]{2})")
_CRON_LINE = re.compile(r"(?P<minute>[0-9]{1,2}) (?P<hour>\*|[0-9]{1,2}) \* \* (?P<day>\*|[0-6]) ")
_DESCRIPTIONS = {
    COLLECT: "Keep what the journal shows of killed Celery tasks",
    MAIL: "Mail the weekly summary of killed Celery tasks",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to run.

    `weekly`: a calendar event (systemd.time(7)) for the mail. `program`: the words that start kill-audit. `collect`,
    `mail`: the options of each. `user`: for the user's own manager or crontab. `through_sendmail`: mail goes through a
    program, which may need a group of its own. `credentials`: names of secrets and the files that hold them. `minute`:
    of the hour, for cron, so that many hosts do not start at once.
    """

    weekly: str
    program: tuple[str, ...]
    collect: tuple[str, ...]
    mail: tuple[str, ...]
    user: bool = False
    through_sendmail: bool = False
    credentials: tuple[tuple[str, str], ...] = ()
    minute: int = 17


def unit_files(plan: Plan) -> Mapping[str, str]:
    """Write the services and timers, by their file names.

    Raises:
        ScheduleError: something in the plan does not fit on a line of a unit.
    """
    found = {}
    for name, options, retries in ((COLLECT, plan.collect, False), (MAIL, plan.mail, True)):
        found[f"{name}.service"] = _render(
            "service",
            plan=plan,
            description=_DESCRIPTIONS[name],
            command=exec_line((*plan.program, *options)),
            retries=retries,
            credentials=[(key, _specified(path)) for key, path in plan.credentials],
            hardens=not plan.through_sendmail,
        )
        found[f"{name}.timer"] = _render(
            "timer",
            description=_DESCRIPTIONS[name],
            calendar="hourly" if name == COLLECT else _specified(plan.weekly),
            delay="5min",
        )
    return found


def cron_text(plan: Plan, *, with_user: bool) -> str:
    """Write the lines of cron: with the user's name for /etc/cron.d, without it for a user's own crontab.

    Raises:
        ScheduleError: cron has no line for that calendar event, or something does not fit on one.
    """
    named = {"smtp-password": "KILL_AUDIT_SMTP_PASSWORD_FILE", "run-log-password": "KILL_AUDIT_RUN_LOG_PASSWORD_FILE"}
    return _render(
        "crontab",
        environment=[f"{named[name]}={_cron_value(path)}" for name, path in plan.credentials],
        minute=plan.minute,
        user="root " if with_user else "",
        collect=cron_command((*plan.program, *plan.collect)),
        weekly=cron_time(plan.weekly),
        mail=cron_command((*plan.program, *plan.mail)),
    )


def _cron_value(text: str) -> str:
    """Write a value of a variable for cron, which takes quotes off and knows no escapes (crontab(5))."""
    if '"' in text:
        raise ScheduleError(f"{text!r} cannot stand in a crontab", hint="give the file a name without quotes")
    return f'"{_one_line(text)}"'


def cron_time(weekly: str) -> str:
    """Write a weekly event as cron's five fields: `Mon 08:00` is `0 8 * * 1`.

    Raises:
        ScheduleError: it is no day with a time.
    """
    found = _WEEKLY.fullmatch(weekly.strip())
    day = found and next((place for place, name in enumerate(_DAYS, 1) if found["day"][:3].title() == name), None)
    if not found or day is None or int(found["hour"]) > 23 or int(found["minute"]) > 59:
        raise ScheduleError(
            f"--weekly {weekly!r}: cron knows a day and a time only",
            hint="write it as 'Mon 08:00', in this host's zone",
        )
    return f"{int(found['minute'])} {int(found['hour'])} * * {day % 7}"


def calendar_of(line: str) -> str | None:
    """Write the time of one of `cron_text`'s lines as a calendar event (`17 * * * *` is `*:17`); None of others."""
    found = _CRON_LINE.match(line)
    if found is None:
        return None
    time = f"{found['hour'] if found['hour'] == '*' else found['hour'].zfill(2)}:{found['minute'].zfill(2)}"
    return time if found["day"] == "*" else f"{_DAYS[int(found['day']) - 1]} {time}"


def cron_command(words: tuple[str, ...]) -> str:
    """Write a command for cron, which hands it to a shell and turns every bare `%` into a new line."""
    return shlex.join(map(_one_line, words)).replace("%", r"\%")


def exec_line(words: tuple[str, ...]) -> str:
    """Write a command for ExecStart=, where `%` begins a specifier and `$` a variable."""
    return " ".join(map(_exec_word, words))


def _exec_word(word: str) -> str:
    text = _specified(word).replace("$", "$$")
    if text and re.fullmatch(r"[A-Za-z0-9%$_@:+=,./*?~^&()<>|#!\[\]{}-]+", text):
        return text
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _specified(text: str) -> str:
    return _one_line(text).replace("%", "%%")


def _one_line(text: str) -> str:
    if not text.isprintable():
        raise ScheduleError(f"{text!r} does not fit on a line", hint="write it without line breaks and control codes")
    return text


@cache
def _environment() -> Environment:
    return Environment(
        loader=PackageLoader("kill_audit.schedule"),
        autoescape=False,  # noqa: S701 - no markup; what stands in it was quoted for its reader above
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def _render(name: str, **values: object) -> str:
    return _environment().get_template(name).render(**values)
