"""The settings of one run: all configurations together, as one frozen value that the command line hands on."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from fnmatch import fnmatchcase
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import msgspec

from kill_audit import when
from kill_audit.classify import TaskSettings
from kill_audit.config import files
from kill_audit.config.mistakes import OptionsOf, mistakes_of, no_options
from kill_audit.config.shape import Configuration, DeployMark, Ledger, Mail, Results, RunLog, Schedule, Task, several
from kill_audit.entry import Micros
from kill_audit.errors import UsageError

_MASTERS: Final = ("run-log", "results", "ledger")  # tables whose other keys are about their `url`
_TABLES: Final = frozenset({*_MASTERS, "deploy-marks", "tasks", "mail", "schedule", "commands"})
_TOPICS: Final[Mapping[str, type[msgspec.Struct]]] = MappingProxyType({"mail": Mail, "schedule": Schedule})
_FOR_REPORT: Final = frozenset({"output"})  # other commands have formats of their own
_OWN_WINDOW: Final = _FOR_REPORT | {"since", "until"}  # the last week, and since the last run
_NOT_FOR: Final[Mapping[str, frozenset[str]]] = MappingProxyType(
    {"report": frozenset(), "mail": _OWN_WINDOW, "collect": _OWN_WINDOW}
)


class TaskRules(Mapping[str, TaskSettings]):
    """Acknowledgement settings by task name. A name may be a glob; what a name leaves open, the globs that fit say."""

    def __init__(self, given: Mapping[str, Task] = MappingProxyType({})) -> None:
        self._given = {name: TaskSettings(**msgspec.structs.asdict(task)) for name, task in given.items()}
        self._globs = tuple(name for name in self._given if any(mark in name for mark in "*?["))

    def __getitem__(self, name: str) -> TaskSettings:
        fitting = [self._given[glob] for glob in self._globs if glob != name and fnmatchcase(name, glob)]
        found = [self._given[name], *fitting] if name in self._given else fitting
        if not found:
            raise KeyError(name)
        return TaskSettings(
            **{
                one.name: next(
                    (said for said in (getattr(rule, one.name) for rule in found) if said is not None), None
                )
                for one in fields(TaskSettings)
            }
        )

    def __iter__(self) -> Iterator[str]:
        return iter(self._given)

    def __len__(self) -> int:
        return len(self._given)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What the configuration files say.

    `files`: those that were read, the strongest first. `notes`: sentences about files that were passed over or that
    hold secrets others can read. `options`: values of options by the option's name, for every command that has it;
    `commands`: those for one command; `origins`: the file that gave a value, by `OPTION` or `COMMAND.OPTION`.
    `settle`, `tolerance` and `deploy_gap` are microseconds, None where not given.
    """

    files: tuple[Path, ...] = ()
    notes: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    commands: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    origins: Mapping[str, Path] = field(default_factory=dict)
    settle: Micros | None = None
    tolerance: Micros | None = None
    deploy_gap: Micros | None = None
    run_log: RunLog = field(default_factory=RunLog)
    results: Results = field(default_factory=Results)
    deploy_marks: tuple[DeployMark, ...] = ()
    tasks: Mapping[str, TaskSettings] = field(default_factory=TaskRules)
    mail: Mail = field(default_factory=Mail)
    schedule: Schedule = field(default_factory=Schedule)
    ledger: Ledger = field(default_factory=Ledger)

    def defaults(self, command: str) -> dict[str, Any]:
        """Give the values of a command's options by their names, where the files say any."""
        others = _NOT_FOR.get(command, _FOR_REPORT)
        shared = {key: value for key, value in self.options.items() if key not in others}
        return {**shared, **self.commands.get(command, {})}

    def origin(self, command: str, option: str) -> Path | None:
        """Give the file that says the value of a command's option; None if no file does."""
        return self.origins.get(f"{command}.{option}", self.origins.get(option))

    def for_run_log(self, url: str, *, table: str | None = None, preset: str | None = None) -> dict[str, Any]:
        """Give the keyword arguments of `runlog.open_run_log` and `runlog.explain` for the run log at `url`.

        What `[run-log]` says of tables and columns is about the run log that it names: it does not hold for another
        one. `table` and `preset`, if given, go before it.
        """
        known = self.run_log if self.run_log.url in {None, url} else RunLog()
        columns = {name: column for name, column in msgspec.structs.asdict(known.columns).items() if column}
        states = {name: several(words) for name, words in msgspec.structs.asdict(known.states).items() if words}
        return {
            "table": table or (known.table if preset is None else None),
            "query": None if table or preset else known.query,
            "preset": preset or known.preset,
            "columns": columns or None,
            "states": states or None,
            "time_zone": known.time_zone,
        }

    def for_results(self, url: str, *, table: str | None = None) -> dict[str, Any]:
        """Give the keyword arguments of `runlog.open_results` for the result table at `url`."""
        known = self.results if self.results.url in {None, url} else Results()
        return {"table": table or known.table, "time_zone": known.time_zone}


def load(
    named: str | None = None,
    *,
    environ: Mapping[str, str],
    folder: Path,
    options: OptionsOf = no_options,
    host: Path = files.HOST,
) -> Settings:
    """Read all configuration files there are.

    Args:
        named: the file that `--config` names; it goes before the others.
        environ: the environment, for KILL_AUDIT_CONFIG.
        folder: the working directory, with `kill-audit.toml` or `pyproject.toml`.
        options: the options of each command (see `mistakes.OptionsOf`).
        host: the host's own file.

    Raises:
        UsageError: a file has mistakes; the message has a line for each of them.
    """
    given, notes, wrong = _read_all(files.places(named, environ, folder, host=host), options)
    if wrong:
        count = "a mistake" if len(wrong) == 1 else f"{len(wrong)} mistakes"
        lines = "\n".join(f"  {line}" for line in wrong)
        raise UsageError(
            f"the configuration has {count}\n{lines}",
            hint="`kill-audit init -w FILE` writes one with every table explained",
        )
    notes += [
        f"{one.path} holds a password, and everybody on this host can read it: chmod o-r {one.path}"
        for one in given
        if one.open_secret
    ]
    merged: Mapping[str, Any] = {}
    for one in reversed(given):
        merged = _over(merged, files.with_whole_paths(one))
    return _settings(merged, given, notes=tuple(notes))


def _read_all(places: Sequence[files.Place], options: OptionsOf) -> tuple[list[files.Given], list[str], list[str]]:
    """Read the places: what they give, notes, and the mistakes in words."""
    given: list[files.Given] = []
    notes: list[str] = []
    wrong: list[str] = []
    seen: set[Path] = set()
    for place in places:
        if place.path.resolve() in seen:
            continue
        seen.add(place.path.resolve())
        try:
            found = files.read(place)
        except UsageError as error:
            wrong.append(error.message)
            continue
        if isinstance(found, str):
            notes.append(found)
        elif found is not None:
            given.append(found)
            wrong += [
                f"{found.path}: {one.key}: {one.what}" if one.key else f"{found.path}: {one.what}"
                for one in mistakes_of(found.raw, options)
            ]
    return given, notes, wrong


def _over(weaker: Mapping[str, Any], stronger: Mapping[str, Any]) -> dict[str, Any]:
    """Lay one configuration over another: tables key by key, lists and values as a whole.

    A table that names another database than the weaker one starts afresh: what was said of the other one's columns
    does not hold for this one.
    """
    whole = dict(weaker)
    for key, value in stronger.items():
        known = whole.get(key)
        if (
            isinstance(value, Mapping)
            and isinstance(known, Mapping)
            and not (key in _MASTERS and _differ(value, known))
        ):
            whole[key] = _over(known, value)
        else:
            whole[key] = value
    return whole


def _differ(table: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two tables name different databases."""
    return "url" in table and "url" in other and table["url"] != other["url"]


def _origins(given: Sequence[files.Given]) -> dict[str, Path]:
    """Find the strongest file for each option, and for each option of a command's own table."""
    found: dict[str, Path] = {}
    for one in given:
        tables = {name: one.raw.get(name, {}) for name in _TOPICS} | dict(one.raw.get("commands", {}))
        keys = [*one.raw, *(f"{name}.{key}" for name, table in tables.items() for key in table)]
        for key in keys:
            found.setdefault(key, one.path)
    return found


def _settings(merged: Mapping[str, Any], given: Sequence[files.Given], *, notes: tuple[str, ...]) -> Settings:
    commands = {name: dict(given) for name, given in merged.get("commands", {}).items()}
    typed: dict[str, Any] = {}
    for name, shape in _TOPICS.items():
        table = merged.get(name, {})
        typed[name] = {key: value for key, value in table.items() if key in _keys(shape)}
        if table:
            commands[name] = {**table, **commands.get(name, {})}
    whole = msgspec.convert({**merged, **typed}, Configuration)
    options = {key: value for key, value in merged.items() if key not in _TABLES}
    options |= {name: merged[name]["url"] for name in _MASTERS if "url" in merged.get(name, {})}
    options |= {"keep": whole.ledger.keep} if whole.ledger.keep is not None else {}
    return Settings(
        files=tuple(one.path for one in given),
        notes=notes,
        options=MappingProxyType(options),
        commands=MappingProxyType(commands),
        origins=MappingProxyType(_origins(given)),
        settle=_span(whole.settle),
        tolerance=_span(whole.tolerance),
        deploy_gap=_span(whole.deploy_gap),
        run_log=whole.run_log,
        results=whole.results,
        deploy_marks=whole.deploy_marks,
        tasks=TaskRules(whole.tasks),
        mail=whole.mail,
        schedule=whole.schedule,
        ledger=whole.ledger,
    )


def _keys(shape: type[msgspec.Struct]) -> frozenset[str]:
    return frozenset(one.encode_name for one in msgspec.structs.fields(shape))


def _span(text: str | None) -> Micros | None:
    return None if text is None else when.span(text)
