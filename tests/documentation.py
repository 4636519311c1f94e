"""Fills in the parts of README.md and docs/ that are made from the package (`make docs`).

A part stands between `<!-- made: NAME -->` and `<!-- end -->`; what is outside is written by people. Nothing else
knows where a part's text comes from, so a change of an option, a text or the Schema only needs `make docs`.
"""

import datetime as dt
import re
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from msgspec import inspect

from kill_audit import document, texts
from kill_audit.cli import COMMANDS, commands, run
from kill_audit.cli.configuration import options_of
from kill_audit.config.shape import Configuration
from kill_audit.render import render
from samples import report_words

PROJECT = Path(__file__).parents[1]
MADE = re.compile(r"(<!-- made: (?P<name>[a-z0-9 -]+) -->\n).*?(<!-- end -->)", re.DOTALL)
MARKUP = re.compile(r"[\\<]|(?<!\w)[*_]|[*_](?!\w)")
CUT = "[...]"
COLUMNS = 100
GROUP = click.Context(commands, **commands.context_settings)


def pages() -> tuple[Path, ...]:
    """The README and every page of docs/."""
    return (PROJECT / "README.md", *sorted((PROJECT / "docs").glob("*.md")))


def filled(text: str) -> str:
    """The text of a page with each of its parts made anew."""
    return MADE.sub(lambda part: f"{part[1]}{made(part['name'])}{part[3]}", text)


def made(name: str) -> str:
    """The part of that name; it ends with a newline."""
    match name.split():
        case ["sample-report"]:
            return sample_report()
        case ["glossary"]:
            return glossary()
        case ["verbs"]:
            return verbs()
        case ["about", verb]:
            return about(verb)
        case ["options", verb]:
            return options(verb)
        case ["schema"]:
            return schema()
        case ["configuration"]:
            return configuration()
        case [("causes" | "fates" | "verdicts" | "findings" | "coverage" | "naming") as kind]:
            return sections(kind)
        case _:
            raise ValueError(f"there is no part named {name!r}")


# The sample report, as a terminal of 100 columns shows it


def sample_report() -> str:
    """What `make report` prints: the parts of a summary whole, the first kills, and `[...]` for each cut."""
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "report.json"
        words = [word.replace("sample_journals", f"{PROJECT}/sample_journals") for word in report_words()]
        if status := run([*words, "--quiet", "-o", "json", "-w", str(target)]):
            raise RuntimeError(f"the sample report ended with status {status}")
        read = document.decode(target.read_bytes())
    shown = render(read, "table", width=COLUMNS, zone=dt.UTC)
    return "```console\n$ make report\n" + "\n".join(_shortened(shown.rstrip("\n").split("\n\n"))) + "\n```\n"


def _shortened(parts: Iterable[str]) -> Iterator[str]:
    cut = False
    for number, part in enumerate(parts):
        lines = part.splitlines()
        whole = number < 2 or lines[0].startswith(("By cause", "By deploy"))
        kept = lines if whole else lines[:5] if lines[0].startswith("The longest runs") else []
        if kept:
            yield from ("", *kept) if number else kept
        if len(kept) < len(lines) and (kept or not cut):
            yield from (CUT,) if kept else ("", CUT)
        cut = len(kept) < len(lines)


# Words and what they mean


def _kind(name: str) -> Mapping[str, texts.Text]:
    found: Mapping[str, texts.Text] = getattr(texts.load(), name)
    return found


def glossary() -> str:
    """One table of every cause, fate and verdict, each with a link to its section."""
    rows = ["| | word | in short |", "| --- | --- | --- |"]
    for kind, page in (("causes", "cause"), ("fates", "fate"), ("verdicts", "verdict")):
        for first, (key, text) in enumerate(_kind(kind).items()):
            rows.append(f"| {'' if first else page} | [`{key}`](docs/{kind}.md#{key}) | {_cell(text.means)} |")
    return "\n".join(rows) + "\n"


def sections(kind: str) -> str:
    """One section for each key: what it means, what shows it, what to do."""
    return "\n".join(
        f"## {key}\n\n**{_plain(text.title)}.** {_plain(text.means)}\n\n"
        f"*Shown by:* {_plain(text.shown_by)}\n\n*What to do:* {_plain(text.fix)}\n"
        for key, text in _kind(kind).items()
    )


# The command line


def command_of(verb: str) -> click.Command:
    """The command that answers a verb, with the options that every verb has."""
    command = commands.get_command(GROUP, verb)
    if command is None:
        raise ValueError(f"there is no verb {verb!r}")
    return command


def verbs() -> str:
    """A table of the verbs, each with a link to its page."""
    rows = ["| verb | |", "| --- | --- |"]
    rows += [
        f"| [`{verb}`](docs/{verb}.md) | {_cell(command_of(verb).get_short_help_str(200))} |" for verb in COMMANDS
    ]
    return "\n".join(rows) + "\n"


def about(verb: str) -> str:
    """What a verb's `--help` says of it."""
    return _paragraphs(command_of(verb).help)


def _paragraphs(text: str | None) -> str:
    return "\n\n".join(_plain(" ".join(part.split())) for part in (text or "").split("\n\n")) + "\n"


def options(verb: str) -> str:
    """A table of a verb's options, as its `--help` describes them, and a section for each of its own verbs."""
    command = command_of(verb)
    context = click.Context(command, info_name=verb, parent=GROUP)
    inner = command.commands if isinstance(command, click.Group) else {}
    sections = (
        f"\n### {name}\n\n{_paragraphs(one.help)}\n{_options(one, click.Context(one, info_name=name, parent=context))}"
        for name, one in inner.items()
    )
    return _options(command, context) + "".join(sections)


def _options(command: click.Command, context: click.Context) -> str:
    rows = ["| option | |", "| --- | --- |"]
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context) if isinstance(parameter, click.Option) else None
        if record is not None:
            rows.append(f"| `{record[0].replace('|', chr(92) + '|')}` | {_cell(record[1])} |")
    return "\n".join(rows) + "\n"


# The configuration


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """A key of a configuration file: its path, what it takes, and what it says. A table takes keys of its own."""

    path: str
    takes: str
    says: str
    is_table: bool


def keys() -> tuple[Key, ...]:
    """Every key that a configuration file may have, in the order of its shape: first the options, then the tables."""
    found = tuple(_keys(inspect.type_info(Configuration), ""))
    tables = {key.path for key in found if key.is_table}
    return tuple(sorted(found, key=lambda key: any(key.path.startswith(table) for table in tables)))


def _keys(kind: inspect.Type, path: str) -> Iterator[Key]:
    if not isinstance(kind, inspect.StructType):
        return
    known = texts.configuration()
    for field in kind.fields:
        here = f"{path}.{field.encode_name}" if path else field.encode_name
        says = known.get(here) or _help(here)
        match field.type:
            case inspect.StructType() as inner:
                yield Key(path=here, takes="a table", says=says, is_table=True)
                yield from _keys(inner, here)
            case inspect.VarTupleType(item_type=inspect.StructType() as inner):
                yield Key(path=here, takes="a list of tables", says=says, is_table=True)
                yield from _keys(inner, f"{here}[]")
            case inspect.DictType(value_type=inner):
                yield Key(path=here, takes="tables by their names", says=says, is_table=True)
                yield from _keys(inner, f"{here}.*")
            case other:
                yield Key(path=here, takes=_takes(other), says=says, is_table=False)


def _takes(kind: inspect.Type) -> str:
    match kind:
        case inspect.Metadata(extra={"form": form}):
            return str(form)
        case inspect.Metadata(type=inner):
            return _takes(inner)
        case inspect.UnionType(types=choices):
            kinds = [one for one in choices if not isinstance(one, inspect.NoneType)]
            several = any(isinstance(one, inspect.VarTupleType) for one in kinds)
            return _takes(kinds[0]) + (", or a list of them" if several else "")
        case inspect.LiteralType(values=values):
            return " or ".join(f'"{value}"' for value in sorted(map(str, values)))
        case inspect.BoolType():
            return "true or false"
        case inspect.IntType():
            return "a number"
        case _:
            return "text"


def _help(path: str) -> str:
    """What the option says whose value a key gives: of a table that is named like a command, else of the first."""
    table, _, name = path.rpartition(".")
    for verb in [table] if table in COMMANDS else COMMANDS:
        option = options_of(command_of(verb)).get(name)
        if option is not None and option.help:
            return f"{option.help.removesuffix(' Repeatable.')} (`{max(option.opts, key=len)}`)"
    raise ValueError(f"nothing says what {path} is: texts/configuration.toml")


def header(key: Key) -> str:
    """The header of a table, as a configuration file writes it."""
    if key.takes == "a list of tables":
        return f"[[{key.path}]]"
    name = {"tasks": '."NAME"', "commands": ".NAME"}.get(key.path, "")
    return f"[{key.path}{name}]"


def configuration() -> str:
    """A table of the keys that are options, and a section with one for each table of a configuration file."""
    parts: list[str] = []
    for number, key in enumerate(keys()):
        if key.is_table:
            parts.append(f"\n## {header(key)}\n\n{_plain(key.says)}\n")
            continue
        if number == 0 or parts[-1].startswith("\n## "):
            parts.append(f"{'' if number == 0 else chr(10)}| key | takes | |\n| --- | --- | --- |\n")
        parts.append(f"| `{key.path.rpartition('.')[2]}` | {_cell(key.takes)} | {_cell(key.says)} |\n")
    return "".join(parts)


# The Schema


def schema() -> str:
    """A section for each object of the report, with a table of its keys."""
    definitions: dict[str, Any] = document.schema()["$defs"]
    return "\n".join(
        f"## {name}\n\n{_plain(body['description'])}\n\n| key | value |\n| --- | --- |\n"
        + "".join(f"| `{key}` | {_type(value)} |\n" for key, value in body["properties"].items())
        for name, body in definitions.items()
    )


def _type(value: Mapping[str, Any]) -> str:
    match value:
        case {"$ref": str(reference)}:
            name = reference.rpartition("/")[2]
            return f"[{name}](#{name.lower()})"
        case {"anyOf": choices}:
            return " or ".join(_type(choice) for choice in choices)
        case {"enum": words}:
            return ", ".join("null" if word is None else f"`{word}`" for word in words)
        case {"type": "array", "items": item}:
            return f"list of {_type(item)}"
        case {"type": "object", "additionalProperties": dict(item)} if item:
            return f"object of {_type(item)}"
        case {"type": str(name)}:
            return name
        case _:
            return "anything"


def _plain(text: str) -> str:
    """A text with what Markdown would take for markup escaped, outside of code."""
    spans = re.split(r"(`[^`]*`)", text)
    return "".join(span if span.startswith("`") else MARKUP.sub(r"\\\g<0>", span) for span in spans)


def _cell(text: str) -> str:
    return _plain(" ".join(text.split())).replace("|", "\\|")


def main() -> None:
    """Write every page whose parts have changed, and a page for a verb that has none."""
    for verb in COMMANDS:
        page = PROJECT / "docs" / f"{verb}.md"
        if not page.exists():
            parts = [f"<!-- made: {part} {verb} -->\n<!-- end -->\n" for part in ("about", "options")]
            page.write_text(f"# kill-audit {verb}\n\n{parts[0]}\n## Options\n\n{parts[1]}", encoding="utf-8")
    for page in pages():
        text = page.read_text(encoding="utf-8")
        if (new := filled(text)) != text:
            page.write_text(new, encoding="utf-8")
            sys.stdout.write(f"{page.relative_to(PROJECT)}\n")


if __name__ == "__main__":
    main()
