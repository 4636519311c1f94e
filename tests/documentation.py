"""Fills in the parts of README.md and docs/ that are made from the package (`make docs`).

A part stands between `<!-- made: NAME -->` and `<!-- end -->`; what is outside is written by people. Nothing else
knows where a part's text comes from, so a change of an option, a text or the Schema only needs `make docs`.
"""

import datetime as dt
import re
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from kill_audit import document, texts
from kill_audit.cli import COMMANDS, commands, run
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
    return "\n\n".join(_plain(" ".join(part.split())) for part in (command_of(verb).help or "").split("\n\n")) + "\n"


def options(verb: str) -> str:
    """A table of a verb's options, as its `--help` describes them."""
    command = command_of(verb)
    context = click.Context(command, info_name=verb, parent=GROUP)
    rows = ["| option | |", "| --- | --- |"]
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context) if isinstance(parameter, click.Option) else None
        if record is not None:
            rows.append(f"| `{record[0].replace('|', chr(92) + '|')}` | {_cell(record[1])} |")
    return "\n".join(rows) + "\n"


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
