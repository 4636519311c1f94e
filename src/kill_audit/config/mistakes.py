"""Find every mistake of a configuration file, not only the first: unknown keys, wrong types, texts of a wrong form.

msgspec stops at the first thing that it cannot convert, so its types are walked here instead; what passes, it takes.
"""

import difflib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC
from functools import cache
from typing import Any, cast
from zoneinfo import ZoneInfo

import msgspec
from msgspec import inspect

from kill_audit import when
from kill_audit.config.shape import Configuration, DeployMark, Form, RunLog
from kill_audit.errors import UsageError
from kill_audit.reconcile import Verdict

CheckOption = Callable[[Any], str | None]
"""Says what is wrong with an option's value; None if it is right."""

OptionsOf = Callable[[str], Mapping[str, CheckOption] | None]
"""Gives the options of a command by its name, None for one that does not exist."""

TOPICS = frozenset({"mail", "schedule"})
"""Tables at the top that also take any option of the command of their name."""

_LATE = 4_000_000_000_000_000  # a moment after every date that a configuration may name; only the form is looked at


@dataclass(frozen=True, slots=True, kw_only=True)
class Mistake:
    """Something wrong in a file: at which key (`run-log.columns`), and what."""

    key: str
    what: str


def no_options(_command: str) -> Mapping[str, CheckOption] | None:
    """Know no commands; for whoever reads a configuration without a command line."""
    return None


def mistakes_of(raw: Mapping[str, Any], options: OptionsOf = no_options) -> tuple[Mistake, ...]:
    """Find all mistakes in the content of a file, in its order.

    Args:
        raw: what the TOML says, as plain values.
        options: the options of each command, for `[commands.NAME]` and the tables named like a command.
    """
    return tuple(_table(raw, _kind(Configuration), "", options))


# -- walking ------------------------------------------------------------------


@cache
def _kind(struct: type[msgspec.Struct]) -> inspect.StructType:
    return cast("inspect.StructType", inspect.type_info(struct))


def _table(raw: Any, kind: inspect.StructType, path: str, options: OptionsOf) -> Iterator[Mistake]:
    if not isinstance(raw, Mapping):
        yield Mistake(key=path, what=f"must be a table, [{path}], and is {_shown(raw)}")
        return
    fields = {field.encode_name: field for field in kind.fields}
    more = options(path) or {} if path in TOPICS else {}
    for key, value in raw.items():
        here = _joined(path, key)
        if key in fields and here == "commands":
            yield from _commands(value, options)
        elif key in fields:
            yield from _value(value, fields[key].type, here, options)
        elif key in more:
            yield from _option(value, more[key], here)
        else:
            yield Mistake(key=here, what=_unknown(key, (*fields, *more), path))
    for rule in _RULES.get(kind.cls, ()):
        yield from (Mistake(key=path, what=what) for what in rule(raw))


def _value(value: Any, kind: inspect.Type, path: str, options: OptionsOf) -> Iterator[Mistake]:
    match kind:
        case inspect.Metadata(type=inner, extra=extra):
            found = list(_value(value, inner, path, options))
            yield from found
            if not found and extra is not None and (what := _wrong_form(value, extra["form"])):
                yield Mistake(key=path, what=what)
        case inspect.UnionType(types=kinds):
            yield from _value(value, _fitting(value, kinds), path, options)
        case inspect.StructType():
            yield from _table(value, kind, path, options)
        case inspect.DictType() | inspect.VarTupleType():
            yield from _many(value, kind, path, options)
        case _:
            if what := _wrong_scalar(value, kind):
                yield Mistake(key=path, what=what)


def _many(
    value: Any, kind: inspect.DictType | inspect.VarTupleType, path: str, options: OptionsOf
) -> Iterator[Mistake]:
    match kind, value:
        case inspect.DictType(value_type=inner), Mapping():
            for key, one in value.items():
                yield from _value(one, inner, _joined(path, key), options)
        case inspect.VarTupleType(item_type=inner), list():
            for place, one in enumerate(value, start=1):
                yield from _value(one, inner, f"{path}[{place}]", options)
        case inspect.DictType(), _:
            yield Mistake(key=path, what=f"must be a table, [{path}], and is {_shown(value)}")
        case _:
            yield Mistake(key=path, what=f"must be a list, and is {_shown(value)}")


def _fitting(value: Any, kinds: Sequence[inspect.Type]) -> inspect.Type:
    """Choose the alternative that a value was meant for: a list for a list, else the first."""
    kinds = [kind for kind in kinds if not isinstance(kind, inspect.NoneType)]
    wanted = [kind for kind in kinds if isinstance(value, list) == isinstance(kind, inspect.VarTupleType)]
    return (wanted or kinds)[0]


def _commands(raw: Any, options: OptionsOf) -> Iterator[Mistake]:
    if not isinstance(raw, Mapping):
        yield Mistake(key="commands", what="must hold tables, as in [commands.report]")
        return
    for command, given in raw.items():
        path, known = _joined("commands", command), options(command)
        if known is None:
            yield Mistake(key=path, what=f"there is no command {command!r}; `kill-audit --help` lists them")
        elif not isinstance(given, Mapping):
            yield Mistake(key=path, what=f"must be a table, [{path}], and is {_shown(given)}")
        else:
            for key, value in given.items():
                here = _joined(path, key)
                if key in known:
                    yield from _option(value, known[key], here)
                else:
                    yield Mistake(key=here, what=_unknown(key, tuple(known), path))


def _option(value: Any, check: CheckOption, path: str) -> Iterator[Mistake]:
    what = check(value)
    if what is not None:
        yield Mistake(key=path, what=what)


def _joined(path: str, key: str) -> str:
    """Write the path of a key as TOML would: quoted where it must be."""
    written = key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else f'"{key}"'
    return f"{path}.{written}" if path else written


# -- single values ------------------------------------------------------------


def _wrong_scalar(value: Any, kind: inspect.Type) -> str | None:
    match kind:
        case inspect.StrType():
            return None if isinstance(value, str) else f"must be text in quotes, and is {_shown(value)}"
        case inspect.BoolType():
            return None if isinstance(value, bool) else f"must be true or false, and is {_shown(value)}"
        case inspect.IntType(ge=least, le=most):
            if not isinstance(value, int) or isinstance(value, bool):
                return f"must be a whole number, and is {_shown(value)}"
            return None if (least or 0) <= value <= (most or value) else f"must be from {least} to {most}"
        case inspect.LiteralType(values=values):
            if value in values and isinstance(value, str):
                return None
            return f"must be one of {', '.join(map(str, values))}{_nearest(str(value), map(str, values))}"
        case _:
            return None


def _wrong_form(value: str, form: Form) -> str | None:
    try:
        match form:
            case Form.SPAN:
                when.span(value)
            case Form.MOMENT:
                when.moment(value, now=_LATE, zone=UTC)
            case Form.FAIL_ON:
                return _wrong_fail_on(value)
            case Form.ZONE:
                return None if _is_zone(value) else f"there is no time zone {value!r}; timedatectl list-timezones"
            case Form.MATCH:
                if re.fullmatch(r"_{0,2}[A-Z][A-Z0-9_]*=.*", value, re.DOTALL) is None:
                    return f"{value!r} is no journal match; write FIELD=VALUE, as in SYSLOG_IDENTIFIER=deploy"
            case Form.PATH | Form.PLACE:
                return None if value else "is empty"
    except UsageError as error:
        return error.message
    return None


def _is_zone(name: str) -> bool:
    try:
        ZoneInfo(name)
    except (OSError, ValueError, KeyError):  # no file of a zone; a folder of zones; not a name at all
        return False
    return True


def _wrong_fail_on(value: str) -> str | None:
    """Judge the words of `--fail-on`, which the command line explains."""
    words = [word.strip() for word in value.split(",")]
    for word in words:
        if not (word in {*Verdict, "any"} or word.startswith("cause=") or re.fullmatch(r">\s*\d+", word)):
            return f"{word!r} is none of any, cause=GLOB, >N, {', '.join(Verdict)}{_nearest(word, Verdict)}"
    return None


def _shown(value: Any) -> str:
    """Name the kind of a TOML value."""
    match value:
        case bool():
            return "true or false"
        case int() | float():
            return "a number"
        case str():
            return "text"
        case list():
            return "a list"
        case Mapping():
            return "a table"
        case _:
            return "a date or a time"


# -- unknown keys -------------------------------------------------------------


def _unknown(key: str, known: Sequence[str], path: str) -> str:
    return f"there is no such key{_nearest(key, known) or _elsewhere(key, path)}"


def _nearest(word: str, known: Any) -> str:
    found = difflib.get_close_matches(word.lower().replace("_", "-"), known, n=1)
    found = found or difflib.get_close_matches(word, known, n=1)
    return f"; did you mean {found[0]}?" if found else ""


def _elsewhere(key: str, path: str) -> str:
    """Name the key of that very name in another table."""
    whole = _kind(Configuration)
    tables = {"": whole} | {f.encode_name: f.type for f in whole.fields if isinstance(f.type, inspect.StructType)}
    for name, table in tables.items():
        if name != path and key in {field.encode_name for field in table.fields}:
            return f"; did you mean {_joined(name, key)}?"
    return ""


# -- rules of whole tables ----------------------------------------------------


def _one_mark(raw: Mapping[str, Any]) -> Iterator[str]:
    given = [key for key in ("match", "unit", "file") if key in raw]
    if len(given) != 1:
        yield f"needs exactly one of match, unit and file, and has {' and '.join(given) or 'none'}"


def _one_table(raw: Mapping[str, Any]) -> Iterator[str]:
    if "table" in raw and "query" in raw:
        yield "has both table and query; a query names its tables itself"


_RULES: Mapping[type, Sequence[Callable[[Mapping[str, Any]], Iterator[str]]]] = {
    DeployMark: (_one_mark,),
    RunLog: (_one_table,),
}
