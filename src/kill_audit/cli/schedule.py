"""`kill-audit schedule`: run `collect` every hour and `mail` every week, by systemd or by cron."""

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from kill_audit.cli.acceptances import place_of, shown
from kill_audit.cli.completion import files
from kill_audit.cli.keeping import span_kept
from kill_audit.cli.options import Reading, run_log_options, source_options
from kill_audit.errors import UsageError

if TYPE_CHECKING:
    from kill_audit.schedule import Plan

_SYSTEM_UNITS = Path("/etc/systemd/system")
_CRON = Path("/etc/cron.d")
_HOST_CONFIGURATION = Path("/etc/kill-audit/config.toml")
_HIDDEN = ("/home/", "/root/", "/run/user/")
"""What ProtectHome=yes hides from a service (systemd.exec(5))."""

_GIVEN = (ParameterSource.COMMANDLINE, ParameterSource.ENVIRONMENT)
_NOT_PASSED_ON = frozenset({"since", "until", "boot", "quiet", "verbose", "user"})
_PATHS = frozenset({"directories", "files", "root"})
_PLACES = frozenset({"run_log", "ledger", "smtp_ca", "accepted_file"})
_MAIL_ONLY = ("to", "sender", "due", "label", "accepted_file", "smtp", "smtp_ca", "sendmail")


_CRON_OPTION = click.option("--cron", is_flag=True, help="Lines of cron instead of systemd's timers.")
_INTO_OPTION = click.option(
    "--into",
    type=click.Path(file_okay=False),
    metavar="DIR",
    help="Put the files there and start nothing.  [default: where systemd or cron looks]",
)
_USER_OPTION = click.option("--user", is_flag=True, help="Your own manager's timers, or your own crontab.")


def _place_options(function: Callable[..., Any]) -> Callable[..., Any]:
    return _CRON_OPTION(_USER_OPTION(_INTO_OPTION(function)))


@click.group(name="schedule", short_help="Run collect and mail by a timer.")
def command() -> None:
    """Run `collect` every hour and `mail` every week, by systemd's timers or by cron.

    Files that `kill-audit schedule` did not write, or that were changed since, are neither overwritten nor removed.
    """


# -- install ------------------------------------------------------------------


@command.command(name="install", short_help="Write and start the timers.")
@_CRON_OPTION
@_INTO_OPTION
@click.option(
    "--weekly",
    default="Mon 08:00",
    show_default=True,
    metavar="WHEN",
    help="When to mail: a calendar event of systemd, such as 'Mon 08:00 Europe/Berlin'.",
)
@click.option("--to", multiple=True, metavar="ADDRESS", help="Who gets the mail. Repeatable.")
@click.option("--from", "sender", metavar="ADDRESS", help="Who writes it.  [default: kill-audit@ this host]")
@click.option("--when", "due", type=click.Choice(["always", "findings", "change"]), help="As for mail.")
@click.option("--label", metavar="NAME", help="As for mail.")
@click.option("--smtp", metavar="URL", help="The mail server, as for mail.")
@click.option("--smtp-ca", metavar="FILE", help="As for mail.", shell_complete=files)
@click.option("--sendmail", metavar="PROGRAM", help="As for mail.", shell_complete=files)
@click.option(
    "--smtp-password-file", metavar="FILE", help="Where the server's password is; only its owner may read it."
)
@click.option(
    "--run-log-password-file", metavar="FILE", help="Where the run log's password is, likewise.", shell_complete=files
)
@click.option("--accepted", "accepted_file", metavar="FILE", help="As for mail.", shell_complete=files)
@click.option("--ledger", metavar="URL|FILE", help="As for collect and mail.", shell_complete=files)
@click.option("--keep", metavar="SPAN", help="As for collect and mail.")
@click.option("--program", metavar="PATH", help="The kill-audit to run.  [default: this one]", shell_complete=files)
@source_options
@run_log_options
@click.pass_context
def install(ctx: click.Context, /, **asked: Any) -> int:
    """Write and start services and timers that run `collect` every hour and `mail` every week.

    The options of sources and of the run log given here are those of both. What a configuration says is read when
    they run: the services see /etc/kill-audit/config.toml. With --user they are timers of your own manager, and read
    your own units' journal.
    """
    from kill_audit import schedule  # jinja2 is not needed for --help

    if not (asked["to"] or "to" in _of_mail(ctx)):
        raise UsageError("nobody to mail to", hint="--to ops@example.org, or to = [...] in [mail]")
    for name, flag in (("since", "--since"), ("until", "--until"), ("boot", "--boot")):
        if asked[name] is not None:
            raise UsageError(f"{flag} is for a single run", hint="leave it out: each run knows its own window")
    if asked["keep"] is not None:
        span_kept(asked["keep"])
    upcoming = schedule.next_run(asked["weekly"])
    plan = _plan(ctx, asked)
    if asked["cron"]:
        _install_cron(plan, asked)
    else:
        _install_units(plan, asked)
    click.echo(f"next mail: {upcoming or 'as cron says'}")
    for note in _notes(ctx, asked):
        click.echo(f"note: {note}", err=True)
    return 0


def _install_units(plan: "Plan", asked: Mapping[str, Any]) -> None:
    from kill_audit import schedule

    folder = _units_folder(asked)
    for path in schedule.write(folder, schedule.unit_files(plan)):
        click.echo(f"wrote {path}")
    timers = (f"{schedule.COLLECT}.timer", f"{schedule.MAIL}.timer")
    told = ("daemon-reload", f"enable --now {' '.join(timers)}")
    user = bool(asked["user"])
    if asked["into"] is None and schedule.manager_runs(os.environ, user=user):
        for words in told:
            schedule.tell_manager(words.split(), user=user)
        click.echo(f"started {' and '.join(timers)}")
        click.echo(f"to try it now: systemctl {'--user ' if user else ''}start {schedule.MAIL}.service")
        return
    click.echo("systemd was not told. Then:")
    for words in told:
        click.echo(f"    systemctl {'--user ' if user else ''}{words}")


def _install_cron(plan: "Plan", asked: Mapping[str, Any]) -> None:
    from kill_audit import schedule

    if asked["user"] and asked["into"] is None:
        schedule.replace_crontab(schedule.with_block(schedule.crontab(), schedule.cron_text(plan, with_user=False)))
        click.echo("wrote to your crontab (crontab -l)")
        return
    folder = Path(asked["into"]) if asked["into"] is not None else _CRON
    for path in schedule.write(folder, {schedule.CRON_NAME: schedule.cron_text(plan, with_user=not asked["user"])}):
        click.echo(f"wrote {path}")


def _units_folder(asked: Mapping[str, Any]) -> Path:
    if asked["into"] is not None:
        return Path(asked["into"])
    if not asked["user"]:
        return _SYSTEM_UNITS
    config = os.environ.get("XDG_CONFIG_HOME") or str(Path.home() / ".config")
    return Path(config) / "systemd" / "user"


# -- the plan -----------------------------------------------------------------


def _plan(ctx: click.Context, asked: dict[str, Any]) -> "Plan":
    from hashlib import sha256

    from kill_audit.schedule import Plan

    hardened = not (asked["user"] or asked["cron"])
    hidden = _HIDDEN if hardened else ()
    shared = tuple(_words(ctx, asked, [*(one.name for one in fields(Reading)), "ledger", "keep"], hidden))
    shared += ("--user",) if asked["user"] else ()
    shared += tuple(word for path in _configuration(ctx, hardened=hardened)[:1] for word in ("--config", str(path)))
    mail = tuple(_words(ctx, asked, list(_MAIL_ONLY), hidden))
    if hardened and _no_way(ctx, asked):
        # sendmail needs the right to become another group, which the service gives up (NoNewPrivileges=).
        mail += ("--smtp", "smtp+insecure://localhost")
    return Plan(
        weekly=asked["weekly"],
        program=_program(asked["program"], hidden=hidden),
        collect=("collect", "--quiet", *shared),
        mail=("mail", "--quiet", *shared, *mail),
        user=asked["user"],
        through_sendmail=asked["smtp"] is None and "smtp" not in _of_mail(ctx),
        credentials=tuple(_credentials(asked)),
        minute=int(sha256(os.uname().nodename.encode()).hexdigest(), 16) % 60,
    )


def _of_mail(ctx: click.Context) -> Mapping[str, Any]:
    """What configurations say of `mail`."""
    return ctx.obj.defaults("mail") if ctx.obj is not None else {}


def _no_way(ctx: click.Context, asked: Mapping[str, Any]) -> bool:
    """Whether neither a server nor a program is named for the mail."""
    return asked["smtp"] is None and asked["sendmail"] is None and not {"smtp", "sendmail"} & set(_of_mail(ctx))


def _configuration(ctx: click.Context, *, hardened: bool) -> list[Path]:
    """The configurations that were read here, and must be named to be read by what runs later."""
    read = [path for path in getattr(ctx.obj, "files", ()) if path != _HOST_CONFIGURATION]
    return [path for path in read if not (hardened and str(path).startswith(_HIDDEN))]


def _words(ctx: click.Context, asked: Mapping[str, Any], names: list[str], hidden: tuple[str, ...]) -> Iterator[str]:
    """Write options again as they were given; what a configuration says is left to the configuration.

    Raises:
        UsageError: one names a file that the service cannot see.
    """
    options = {param.name: param for param in ctx.command.params}
    for name in names:
        if name in _NOT_PASSED_ON or name not in asked or ctx.get_parameter_source(name) not in _GIVEN:
            continue
        word, value = max(options[name].opts, key=len), asked[name]
        for one in value if isinstance(value, tuple) else (value,):
            if isinstance(one, bool):
                yield from (word,) if one else ()
            elif one is not None:
                passed_on = _passed_on(name, str(one))
                if hidden and passed_on.removeprefix("@").startswith(hidden):
                    raise UsageError(
                        f"{word} {one}: a hardened service cannot see {passed_on}",
                        hint="keep it elsewhere, such as /etc/kill-audit, or use --user",
                    )
                yield from (word, passed_on)


def _passed_on(name: str, value: str) -> str:
    """A value as it means the same from any folder."""
    if name in _PATHS or (name in _PLACES and "://" not in value and value[:1] != "@"):
        return os.path.abspath(value)  # noqa: PTH100 - a glob is no path yet
    if "://" in value:
        from kill_audit.config import refuse_secrets

        refuse_secrets([value])
    return value


def _credentials(asked: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name in ("smtp-password", "run-log-password"):
        path = asked[f"{name.replace('-', '_')}_file"]
        if path is not None:
            yield name, str(Path(path).absolute())


def _program(named: str | None, *, hidden: tuple[str, ...]) -> tuple[str, ...]:
    """The words that start kill-audit, wherever they are run.

    Raises:
        UsageError: it lies where the service cannot see it.
    """
    if named is not None:
        path = Path(named).absolute()
        if not os.access(path, os.X_OK):
            raise UsageError(f"--program {named}: there is no such program", hint=f"ls -l {path}")
        words: tuple[str, ...] = (str(path),)
        places = [str(path)]
    else:
        started = Path(sys.argv[0]).absolute()
        own = started.name == "kill-audit" and os.access(started, os.X_OK)
        words = (str(started),) if own else (sys.executable, "-m", "kill_audit")
        places = [words[0], sys.prefix, str(Path(sys.executable).resolve())]
    seen = [place for place in places if place.startswith(hidden)] if hidden else []
    if seen:
        raise UsageError(
            f"a hardened service cannot see {seen[0]}",
            hint="install it for all (pipx install --global kill-audit), name another with --program, or use --user",
        )
    return words


def _notes(ctx: click.Context, asked: Mapping[str, Any]) -> Iterator[str]:
    hardened = not (asked["user"] or asked["cron"])
    read = [path for path in getattr(ctx.obj, "files", ()) if path != _HOST_CONFIGURATION]
    named = _configuration(ctx, hardened=hardened)[:1]
    for path in read:
        if path not in named:
            yield f"what runs later does not read {path}: give what it needs in {_HOST_CONFIGURATION}"
    if (left_out := _acceptances_left_out(ctx, asked, hardened=hardened)) is not None:
        yield f"what runs later does not read {left_out}: name it with --accepted"
    if named and hardened:
        yield f"the service's user must be able to read {named[0]}"
    if hardened and _no_way(ctx, asked):
        yield "a hardened service cannot run sendmail: it mails to port 25 of this host; name another with --smtp"


def _acceptances_left_out(ctx: click.Context, asked: Mapping[str, Any], *, hardened: bool) -> str | None:
    """Name the file of accepted findings that is read here, and that the mail, run elsewhere, would not find."""
    from kill_audit.accepted_file import place

    if asked["accepted_file"] is not None or ctx.obj is None:
        return None
    here = place_of(None, ctx.obj)
    read_later = [*_configuration(ctx, hardened=hardened)[:1]]
    read_later += [path for path in ctx.obj.files if path == _HOST_CONFIGURATION]
    return shown(here) if here.exists() and place(None, read_later, Path("/")) != here else None


# -- show and remove ----------------------------------------------------------


@command.command(name="show", short_help="Show the timers, and when they run next.")
@_place_options
def show(**asked: Any) -> int:
    """Show what is installed, whose it is, and when it runs next. The exit status is 1 if nothing is."""
    from kill_audit import schedule

    found = False
    for path in _paths(asked):
        whose = schedule.whose(path)
        found = found or whose is not schedule.Whose.NOBODYS
        click.echo(f"{path}: {whose}")
        if whose is not schedule.Whose.NOBODYS:
            _show_lines(path.read_text(encoding="utf-8", errors="backslashreplace"))
    if asked["cron"] and asked["user"] and asked["into"] is None:
        block = schedule.block_of(schedule.crontab())
        found = block is not None
        click.echo(f"crontab: {'lines of kill-audit' if found else 'no line of kill-audit'}")
        _show_lines(block or "")
    return 0 if found else 1


def _show_lines(text: str) -> None:
    """Show what runs and when, out of a unit or a crontab."""
    from kill_audit import schedule

    for line in text.splitlines():
        if line.startswith("ExecStart="):
            click.echo(f"    {line.removeprefix('ExecStart=')}")
        elif line.startswith("OnCalendar="):
            calendar = line.removeprefix("OnCalendar=").replace("%%", "%")
            click.echo(f"    {calendar}, next: {_next_run(calendar)}")
        elif line[:1].isdigit():
            click.echo(f"    {line}")
            if (event := schedule.calendar_of(line)) is not None:
                click.echo(f"    {event}, next: {_next_run(event)}")


def _next_run(calendar: str) -> str:
    from kill_audit import schedule

    return schedule.next_run(calendar) or "systemd-analyze is not here to tell"


@command.command(name="remove", short_help="Stop and remove the timers.")
@_place_options
def remove(**asked: Any) -> int:
    """Stop and remove what `schedule install` wrote. The ledger and waiting mail stay."""
    from kill_audit import schedule

    if asked["cron"] and asked["user"] and asked["into"] is None:
        before = schedule.crontab()
        after = schedule.with_block(before, None)
        if after != before:
            schedule.replace_crontab(after)
        click.echo("removed from your crontab" if after != before else "there was nothing to remove")
        return 0
    paths = _paths(asked)
    schedule.refuse_others(paths)
    timers = [path.name for path in paths if path.suffix == ".timer" and path.exists()]
    told = timers and asked["into"] is None and schedule.manager_runs(os.environ, user=asked["user"])
    if told:
        schedule.tell_manager(("disable", "--now", *timers), user=asked["user"])
    gone = schedule.remove(paths)
    if told:
        schedule.tell_manager(("daemon-reload",), user=asked["user"])
    for path in gone:
        click.echo(f"removed {path}")
    if not gone:
        click.echo("there was nothing to remove")
    return 0


def _paths(asked: Mapping[str, Any]) -> list[Path]:
    from kill_audit import schedule

    if asked["cron"]:
        folder = Path(asked["into"]) if asked["into"] is not None else _CRON
        return [] if asked["user"] and asked["into"] is None else [folder / schedule.CRON_NAME]
    units = (schedule.COLLECT, schedule.MAIL)
    return [_units_folder(asked) / f"{unit}.{kind}" for unit in units for kind in ("service", "timer")]
