"""The configuration files there are: found, read, and their paths made whole.

Order, the strongest first: the file that `--config` or KILL_AUDIT_CONFIG names, `./kill-audit.toml`,
`[tool.kill-audit]` of `./pyproject.toml`, the user's (XDG Base Directory Specification), the host's.
"""

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import platformdirs
from msgspec import inspect

from kill_audit.config.shape import Configuration, Form
from kill_audit.errors import UsageError

VARIABLE: Final = "KILL_AUDIT_CONFIG"
HERE: Final = "kill-audit.toml"
HOST: Final = Path("/etc/kill-audit/config.toml")
_PYPROJECT: Final = "pyproject.toml"
_SHORT: Final = frozenset({"run-log", "results", "ledger"})  # `run-log = "URL"` is `[run-log] url = "URL"`
_PATH_OPTIONS: Final = frozenset({"files", "directories", "root", "write", "python", "accepted"})
# A password may hold what it should not (`/`), while HOST:PORT/ is none.
_PASSWORD: Final = re.compile(
    r"[A-Za-z][\w+.-]*://(?:[^\s/?#@:]*:(?![0-9]+/)[^\s@]+@|\S*[?&](?:password|passwd|secret|token)=)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A place where a configuration may be. `named`: the user named it, so that it must be there."""

    path: Path
    named: bool = False

    @property
    def is_project(self) -> bool:
        """Whether it is the file of a Python project, of which one table is ours."""
        return not self.named and self.path.name == _PYPROJECT


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """What one file gives: plain values, paths made whole. `open_secret`: it holds a secret that others can read."""

    path: Path
    raw: Mapping[str, Any]
    open_secret: bool


def places(named: str | None, environ: Mapping[str, str], folder: Path, *, host: Path = HOST) -> tuple[Place, ...]:
    """List where configurations may be, the strongest first.

    Args:
        named: the value of `--config`; None for the environment's.
        environ: the environment.
        folder: the working directory.
        host: the host's own file.
    """
    named = named or environ.get(VARIABLE) or None
    try:
        user = [Place(path=platformdirs.user_config_path("kill-audit", appauthor=False) / "config.toml")]
    except RuntimeError:  # a user without a home, as with systemd's DynamicUser=
        user = []
    return (
        *([Place(path=folder / Path(named).expanduser(), named=True)] if named else []),
        Place(path=folder / HERE),
        Place(path=folder / _PYPROJECT),
        *user,
        Place(path=host),
    )


def read(place: Place) -> Given | str | None:
    """Read a place: what it gives, a note on why it was passed over, or None if there is nothing of ours.

    Raises:
        UsageError: the file that the user named cannot be read, or a file is no TOML.
    """
    try:
        with place.path.open("rb") as file:
            text, mode = file.read(), place.path.stat().st_mode
    except OSError as error:
        if place.named:
            raise UsageError(
                f"{place.path}: {error.strerror}", hint="`kill-audit init` writes a configuration to begin with"
            ) from error
        return (
            f"{place.path}: {error.strerror}; the configuration there is not used" if _is_there(place.path) else None
        )
    if place.is_project and b"kill-audit" not in text:
        return None
    try:
        raw: Any = tomllib.loads(text.decode("utf-8-sig"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"{place.path}: this is no TOML: {error}") from error
    if place.is_project:
        raw = raw.get("tool", {}).get("kill-audit")
        if raw is None:
            return None
    return Given(path=place.path, raw=_lengthened(raw), open_secret=bool(mode & 0o004) and has_secret(raw))


def _is_there(path: Path) -> bool:
    """Whether there is a file, as far as this user may know."""
    try:
        path.stat()
    except OSError:
        return False
    return True


def has_secret(value: Any) -> bool:
    """Whether a text, or any in a list or table, is a URL with a password in it."""
    match value:
        case str():
            return _PASSWORD.match(value) is not None
        case Mapping():
            return any(map(has_secret, value.values()))
        case list() | tuple():
            return any(map(has_secret, value))
        case _:
            return False


def refuse_secrets(words: Sequence[str]) -> None:
    """Refuse a command line that holds a secret: everybody on the host can read it (ps, /proc/PID/cmdline).

    Raises:
        UsageError: a word is a URL with a password in it.
    """
    option = "the command line"
    for word in words:
        name, mark, value = word.partition("=")
        is_joined = bool(mark) and name.startswith("--")
        if has_secret(word) or (is_joined and has_secret(value)):
            raise UsageError(
                f"{name if is_joined else option} has a password in it, which everybody on this host can read there",
                hint="leave the password out and set KILL_AUDIT_RUN_LOG_PASSWORD, or name a file that only you can "
                "read, with the whole URL in it, as @FILE",
            )
        option = word if word.startswith("-") else "the command line"


def _lengthened(raw: Any) -> Any:
    """Write short forms out."""
    if not isinstance(raw, Mapping):
        return raw
    return {key: {"url": value} if key in _SHORT and isinstance(value, str) else value for key, value in raw.items()}


# -- paths --------------------------------------------------------------------


def with_whole_paths(given: Given) -> Mapping[str, Any]:
    """Take relative paths from the folder of the file that names them; call for what has no mistakes."""
    kind = inspect.type_info(Configuration)
    whole = dict(_whole_fields(given.raw, kind, given.path.parent))
    if "commands" in whole:
        whole["commands"] = {
            command: {
                key: _whole(value, Form.PATH, given.path.parent) if key in _PATH_OPTIONS else value
                for key, value in options.items()
            }
            for command, options in whole["commands"].items()
        }
    return whole


def _whole_fields(raw: Mapping[str, Any], kind: inspect.Type, folder: Path) -> Iterator[tuple[str, Any]]:
    fields = {field.encode_name: field.type for field in getattr(kind, "fields", ())}
    for key, value in raw.items():
        yield key, _whole_value(value, fields[key], folder) if key in fields else value


def _whole_value(value: Any, kind: inspect.Type, folder: Path) -> Any:
    match kind, value:
        case inspect.Metadata(extra={"form": Form() as form}), str():
            return _whole(value, form, folder)
        case inspect.UnionType(types=kinds), list():
            lists = [one for one in kinds if isinstance(one, inspect.VarTupleType)]
            return _whole_value(value, lists[0], folder) if lists else value
        case inspect.UnionType(types=kinds), str():
            texts = [one for one in kinds if isinstance(one, inspect.Metadata)]
            return _whole_value(value, texts[0], folder) if texts else value
        case inspect.VarTupleType(item_type=inner), list():
            return [_whole_value(one, inner, folder) for one in value]
        case inspect.StructType(), Mapping():
            return dict(_whole_fields(value, kind, folder))
        case _:
            return value


def _whole(value: Any, form: Form, folder: Path) -> Any:
    if isinstance(value, list):
        return [_whole(one, form, folder) for one in value]
    if not isinstance(value, str) or form not in {Form.PATH, Form.PLACE} or value == "-":
        return value
    if form is Form.PLACE and "://" in value:
        return value
    at, path = ("@", value[1:]) if form is Form.PLACE and value.startswith("@") else ("", value)
    return f"{at}{folder / Path(path).expanduser()}"
