"""Writes the manual pages and the completions of packaging/ (`make docs`), from the commands, docs/ and the package.

A page of section 1 for the program and one for each verb: what `--help` says, the prose of the verb's page in docs/,
and its options; and a page of section 5 for the configuration. They are in man(7), which groff and mandoc read.
"""

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from inspect import cleandoc
from pathlib import Path

import click
from markdown_it import MarkdownIt
from markdown_it.token import Token

from documentation import GROUP, MADE, PROJECT, command_of, header, keys
from kill_audit import __version__, texts
from kill_audit.cli import COMMANDS, commands
from kill_audit.cli.completion import SHELLS, script

PACKAGING = PROJECT / "packaging"
SCRIPTS = {"bash": "kill-audit.bash", "zsh": "_kill-audit", "fish": "kill-audit.fish"}
FOLDERS = ("man1", "man5", "completions")


def files() -> Mapping[Path, str]:
    """Every file of packaging/ that is made, with its text."""
    pages = {PACKAGING / "man1" / f"kill-audit-{verb}.1": verb_page(verb) for verb in COMMANDS}
    pages[PACKAGING / "man1" / "kill-audit.1"] = program_page()
    pages[PACKAGING / "man5" / "kill-audit.toml.5"] = configuration_page()
    return pages | {PACKAGING / "completions" / SCRIPTS[shell]: script(shell) for shell in SHELLS}


# Pages


def program_page() -> str:
    """kill-audit(1): the verbs, the options that stand before them, and the words of a report."""
    context = click.Context(commands, info_name="kill-audit", **commands.context_settings)
    verbs = ((f"kill-audit-{verb}(1)", command_of(verb).get_short_help_str(200)) for verb in COMMANDS)
    exits = (PROJECT / "docs" / "exit-status.md").read_text(encoding="utf-8").partition("\n")[2]
    return _page(
        "kill-audit",
        1,
        [
            *_named("kill-audit", "find every Celery task run that was killed"),
            ".SH SYNOPSIS",
            _synopsis("kill-audit", ["[OPTION]...", "VERB", "[ARGUMENT]..."]),
            ".SH DESCRIPTION",
            *_markdown(cleandoc(commands.help or "")),
            ".SH VERBS",
            *_listed(verbs),
            ".SH OPTIONS",
            *_options(commands, context),
            *_words("CAUSES", texts.load().causes),
            *_words("FATES", texts.load().fates),
            *_words("VERDICTS", texts.load().verdicts),
            *_words("OTHER FINDINGS", texts.load().findings),
            ".SH EXIT STATUS",
            *_markdown(exits, columns=2),
            *_see_also(
                "kill-audit.toml(5)",
                "journalctl(1)",
                "systemd.time(7)",
                *(f"kill-audit-{verb}(1)" for verb in COMMANDS),
            ),
        ],
    )


def verb_page(verb: str) -> str:
    """The page of a verb."""
    command = command_of(verb)
    context = click.Context(command, info_name=verb, parent=GROUP)
    prose = (PROJECT / "docs" / f"{verb}.md").read_text(encoding="utf-8")
    prose = MADE.sub(lambda part: cleandoc(command.help or "") if part["name"].startswith("about ") else "", prose)
    prose = prose.partition("\n")[2].replace("\n## Options\n", "\n")
    short = command.get_short_help_str(200).removesuffix(".")
    return _page(
        f"kill-audit-{verb}",
        1,
        [
            *_named(f"kill-audit-{verb}", short[0].lower() + short[1:]),
            ".SH SYNOPSIS",
            _synopsis(f"kill-audit {verb}", command.collect_usage_pieces(context)),
            ".SH DESCRIPTION",
            *_markdown(prose),
            *_option_sections(command, context),
            *_see_also(
                "kill-audit(1)", "kill-audit.toml(5)", *(f"kill-audit-{one}(1)" for one in COMMANDS if one != verb)
            ),
        ],
    )


def configuration_page() -> str:
    """kill-audit.toml(5): where configuration files lie, and every key."""
    prose = MADE.sub("", (PROJECT / "docs" / "configuration.md").read_text(encoding="utf-8")).partition("\n")[2]
    lines = [*_named("kill-audit.toml", "configuration of kill-audit"), ".SH DESCRIPTION", *_markdown(prose)]
    for key in keys():
        if key.is_table:
            lines += [f".SS {_quoted(header(key))}", *_markdown(key.says)]
        else:
            lines += [".TP", f"{_bold(key.path.rpartition('.')[2])} ({_text(key.takes)})", *_markdown(key.says, ".PP")]
    return _page("kill-audit.toml", 5, [*lines, *_see_also("kill-audit(1)", "kill-audit-init(1)")])


# Parts of a page


def _page(name: str, section: int, lines: Sequence[str]) -> str:
    head = [
        '.\\" Made by `make docs` of what the commands and docs/ say: change those.',
        f'.TH {name.upper()} {section} "" "kill-audit {__version__}" "kill-audit"',
        ".nh",  # a word that is broken is no command to copy
    ]
    return "\n".join([*head, *_tidy(lines)]) + "\n"


def _tidy(lines: Sequence[str]) -> Iterator[str]:
    """Leave out a paragraph's beginning where a heading, an item or the end makes one anyway."""
    for line, after in zip(lines, [*lines[1:], ".SH"], strict=True):
        if line != ".PP" or not after.startswith((".SH", ".SS", ".PP", ".TP")):
            yield line


def _named(name: str, what: str) -> list[str]:
    return [".SH NAME", f"{_text(name)} \\- {_text(what)}"]


def _synopsis(name: str, pieces: Sequence[str]) -> str:
    return f"{_bold(name)} {' '.join(map(_text, pieces))}"


def _see_also(*pages: str) -> list[str]:
    found = (re.sub(r"(.+)\((\d)\)", lambda page: f"{_bold(page[1])}({page[2]})", page) for page in pages)
    return [".SH SEE ALSO", ",\n".join(found)]


def _listed(items: Iterator[tuple[str, str]]) -> Iterator[str]:
    for word, what in items:
        yield from (".TP", _bold(word), *_markdown(what, ".PP"))


def _words(title: str, known: Mapping[str, texts.Text]) -> Iterator[str]:
    yield f".SH {title}"
    for key, text in known.items():
        yield from (".TP", f"{_bold(key)}: {_text(text.title)}", *_markdown(text.means, ".PP"))
        yield from (".IP", *_markdown(f"*What to do:* {text.fix}", ".PP"))


def _option_sections(command: click.Command, context: click.Context) -> Iterator[str]:
    """The options of a verb, those of each of its own verbs first."""
    if isinstance(command, click.Group):
        for name, inner in command.commands.items():
            below = click.Context(inner, info_name=name, parent=context)
            yield f".SH {_quoted(f'{name.upper()}: {inner.get_short_help_str(200)}')}"
            yield _synopsis(f"kill-audit {command.name} {name}", inner.collect_usage_pieces(below))
            yield from (".PP", *_markdown(cleandoc(inner.help or "")), *_options(inner, below))
    yield from (".SH OPTIONS", *_options(command, context))


def _options(command: click.Command, context: click.Context) -> Iterator[str]:
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context) if isinstance(parameter, click.Option) else None
        if record is not None:
            words = re.sub(r"(?<![\w-])--?\w[\w-]*", lambda word: _bold(word[0]), record[0].replace("\\", ""))
            yield from (".TP", words.replace("...", "\\&..."), *_markdown(" ".join(record[1].split()), ".PP"))


# Markdown


def _markdown(text: str, between: str = ".PP", columns: int = 9) -> Iterator[str]:
    """Write Markdown in man(7), with `between` between paragraphs, and tables of that many columns."""
    return _Writer(between, columns).lines(MarkdownIt().enable("table").parse(text))


class _Writer:
    """Writes token by token. `fresh`: a heading, an item or a block of code has begun a paragraph already."""

    def __init__(self, between: str, columns: int) -> None:
        self.between = between
        self.columns = columns
        self.fresh = True
        self.heads = False
        self.cells: list[str] = []

    def lines(self, tokens: Sequence[Token]) -> Iterator[str]:
        """Write the tokens that mean something here; headings of tables do not."""
        for token in tokens:
            write = getattr(self, token.type, None)
            if write is not None:
                yield from write(token)

    def paragraph_open(self, token: Token) -> Iterator[str]:
        if not token.hidden and not self.fresh:
            yield self.between

    def heading_open(self, _token: Token) -> Iterator[str]:
        yield ".SS"

    def heading_close(self, _token: Token) -> Iterator[str]:
        self.fresh = True
        yield from ()

    def thead_open(self, _token: Token) -> Iterator[str]:
        self.heads = True
        yield from ()

    def thead_close(self, _token: Token) -> Iterator[str]:
        self.heads = False
        yield from ()

    def tbody_open(self, _token: Token) -> Iterator[str]:
        self.cells = []
        yield from ()

    def td_open(self, _token: Token) -> Iterator[str]:
        self.cells.append("")
        yield from ()

    def inline(self, token: Token) -> Iterator[str]:
        if self.cells:
            self.cells[-1] = _inline(token)
        elif not self.heads:
            yield _inline(token)
            self.fresh = False

    def tr_close(self, _token: Token) -> Iterator[str]:
        if self.cells:
            yield from (".TP", self.cells[0], ": ".join(filter(None, self.cells[1 : self.columns])))
            self.cells = []

    def fence(self, token: Token) -> Iterator[str]:
        yield from (".PP", ".RS 4", ".nf", *(_guarded(_text(line)) for line in token.content.splitlines()))
        yield from (".fi", ".RE", ".PP")
        self.fresh = True

    code_block = fence

    def list_item_open(self, _token: Token) -> Iterator[str]:
        yield ".IP \\(bu 2"
        self.fresh = True

    def table_close(self, _token: Token) -> Iterator[str]:
        yield ".PP"
        self.fresh = True

    bullet_list_close = table_close


def _inline(token: Token) -> str:
    parts: list[str] = []
    for child in token.children or ():
        match child.type:
            case "text":
                parts.append(_text(child.content))
            case "code_inline":
                parts.append(_bold(child.content))
            case "softbreak" | "hardbreak":
                parts.append("\n")
            case "em_open" | "strong_open":
                parts.append("\\fI" if child.type == "em_open" else "\\fB")
            case "em_close" | "strong_close":
                parts.append("\\fR")
            case _:
                pass  # a link to another page of docs/ is its words alone
    return "\n".join(map(_guarded, "".join(parts).split("\n")))


# Characters (groff_char(7), man(7))


def _text(text: str) -> str:
    return (
        text.replace("\\", "\\e")
        .replace("-", "\\-")
        .replace("'", "\\(aq")
        .replace("`", "\\(ga")
        .replace("^", "\\(ha")
        .replace("~", "\\(ti")
    )


def _bold(text: str) -> str:
    return f"\\fB{_text(text)}\\fR"


def _quoted(text: str) -> str:
    return '"{}"'.format(_text(text).replace('"', "\\(dq"))


def _guarded(line: str) -> str:
    """Keep a line that begins like a request from being one."""
    return f"\\&{line}" if line.startswith((".", "'")) else line


def main() -> None:
    """Write every file that has changed, and remove pages that are made no more."""
    made = files()
    for path in {old for folder in FOLDERS for old in (PACKAGING / folder).glob("*")} - set(made):
        path.unlink()
    for path, text in made.items():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            sys.stdout.write(f"{path.relative_to(PROJECT)}\n")


if __name__ == "__main__":
    main()
