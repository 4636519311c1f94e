"""Values of options from elsewhere than the command line: KILL_AUDIT_* variables and configuration files.

Precedence, the strongest first: the command line, `KILL_AUDIT_<COMMAND>_<OPTION>`, `KILL_AUDIT_<OPTION>`, the files
(see `config`), the option's default. A command gets what the files say besides as `kill_audit.config.Settings` by
`click.pass_obj`.
"""

import copy
import difflib
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from kill_audit.cli.completion import files

if TYPE_CHECKING:
    from kill_audit.config import CheckOption, OptionsOf, Settings

_SOURCES: Mapping[str, Any] = MappingProxyType(
    {"files": (), "directories": (), "root": None, "merge": False, "namespace": None, "user": False, "stream": None}
)
_BY_USER = (ParameterSource.COMMANDLINE, ParameterSource.ENVIRONMENT)

Find = Callable[[str], click.Command | None]
"""Gives a command by its name."""


def configured(name: str, command: click.Command, find: Find) -> click.Command:
    """Give a command whose options also come from the environment and from configuration files, and `--config`.

    Args:
        name: what the command is called.
        command: the command as it was written; it is not changed.
        find: gives the other commands, whose tables a configuration may hold too.
    """
    made = _named(command, (name,))
    made.callback = _without_overruled(made.callback)

    def read(ctx: click.Context, _option: click.Parameter, value: str | None) -> None:
        if not ctx.resilient_parsing:
            settings = _settings(value or ctx.find_root().params.get("config"), find)
            ctx.obj = settings
            ctx.default_map = _default_map(made, settings.defaults(name))

    made.params.append(
        click.Option(
            ["--config"],
            metavar="FILE",
            help="Read this configuration before the others.",
            is_eager=True,
            expose_value=False,
            callback=read,
            shell_complete=files,
        )
    )
    return made


def _without_overruled(function: Callable[..., Any] | None) -> Callable[..., Any]:
    """Let sources that the user names on the command line stand for all those of the files, not beside them."""

    def called(*args: Any, **asked: Any) -> Any:
        source = click.get_current_context().get_parameter_source
        if any(source(name) in _BY_USER for name in _SOURCES if name in asked):
            asked |= {
                name: nothing
                for name, nothing in _SOURCES.items()
                if name in asked and source(name) is ParameterSource.DEFAULT_MAP
            }
        return function(*args, **asked) if function is not None else None

    return called


def variables(path: Iterable[str], option: click.Option) -> list[str]:
    """List the environment variables of an option, the strongest first; `path` are the names of its command."""
    word = _long(option).replace("-", "_").upper()
    prefixes = ["KILL_AUDIT", *(name.replace("-", "_").upper() for name in path)]
    return ["_".join((*prefixes[:count], word)) for count in range(len(prefixes), 0, -1)]


def unknown_variables(environ: Iterable[str], commands: Mapping[str, click.Command]) -> dict[str, str | None]:
    """Find variables that look like an option's and are none, each with the nearest one that is (None: there is none).

    Args:
        environ: the names of all variables.
        commands: the commands by their names.
    """
    known = {"KILL_AUDIT_CONFIG", "KILL_AUDIT_DEBUG"}
    for name, command in commands.items():
        inner = command.commands if isinstance(command, click.Group) else {}
        for path, one in (((name,), command), *(((name, key), each) for key, each in inner.items())):
            options = (param for param in one.params if isinstance(param, click.Option))
            known.update(variable for option in options for variable in variables(path, option))
    asked = (name for name in environ if name.startswith("KILL_AUDIT_"))
    found = (name for name in asked if name not in known and not name.endswith(("_PASSWORD", "_PASSWORD_FILE")))
    return {name: next(iter(difflib.get_close_matches(name, known, n=1)), None) for name in found}


def options_of(command: click.Command) -> dict[str, click.Option]:
    """Give a command's options by the keys that a configuration has for them; a group's are those of its commands."""
    if isinstance(command, click.Group):
        return {key: option for one in command.commands.values() for key, option in options_of(one).items()}
    found: dict[str, click.Option] = {}
    for option in command.params:
        if isinstance(option, click.Option) and option.expose_value and option.name:
            found |= dict.fromkeys(keys_of(option), option)
    return found


def keys_of(option: click.Option) -> tuple[str, ...]:
    """Give the keys that a configuration may have for an option: its long name, and `units` beside `unit`."""
    plural = (option.name.replace("_", "-"),) if option.multiple and option.name else ()
    return (_long(option), *plural)


def _long(option: click.Option) -> str:
    return max(option.opts, key=len).lstrip("-")


def _named(command: click.Command, path: tuple[str, ...]) -> click.Command:
    """Copy a command, with names of environment variables for its options."""
    made = copy.copy(command)
    made.params = [copy.copy(param) for param in command.params]
    for param in made.params:
        if isinstance(param, click.Option):
            param.envvar, param.allow_from_autoenv = variables(path, param), False
    if isinstance(made, click.Group):
        made.commands = {name: _named(one, (*path, name)) for name, one in made.commands.items()}
    return made


def _settings(named: str | None, find: Find) -> "Settings":
    from kill_audit.config import load

    settings = load(named, environ=os.environ, folder=Path.cwd(), options=_checks(find))
    for note in settings.notes:
        click.echo(f"kill-audit: warning: {note}", err=True)
    return settings


def _default_map(command: click.Command, values: Mapping[str, Any]) -> dict[str, Any]:
    """Put values by their keys in the shape that click wants: by parameter, nested for a group's commands."""
    if isinstance(command, click.Group):
        return {name: _default_map(one, values) for name, one in command.commands.items()}
    return {
        option.name: _as_given(option, values[key])
        for key, option in options_of(command).items()
        if key in values and option.name
    }


def _as_given(option: click.Option, value: Any) -> Any:
    return [value] if option.multiple and not isinstance(value, list) else value


# -- the values of a command's own table --------------------------------------


def _checks(find: Find) -> "OptionsOf":
    def options(name: str) -> "Mapping[str, CheckOption] | None":
        command = find(name)
        return None if command is None else {key: _check(option) for key, option in options_of(command).items()}

    return options


def _check(option: click.Option) -> "CheckOption":
    def check(value: Any) -> str | None:
        if isinstance(value, Mapping) or (isinstance(value, list) and not option.multiple):
            return f"must be a single value, as for {max(option.opts, key=len)}"
        try:
            option.type_cast_value(click.Context(click.Command("")), _as_given(option, value))
        except click.BadParameter as error:
            return error.message.rstrip(".")
        return None

    return check
