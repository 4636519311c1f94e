"""README.md and docs/: made from the package as it is, complete, and true where they show commands."""

import ast
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from markdown_it import MarkdownIt
from markdown_it.token import Token

import documentation
from documentation import PROJECT, command_of, filled, pages
from kill_audit import texts
from kill_audit.cli import COMMANDS, run
from kill_audit.errors import KillAuditError

TEXTS = (*pages(), *sorted((PROJECT / "sample_journals").rglob("*.md")), PROJECT / "CHANGELOG.md")
SOURCES = tuple(sorted((PROJECT / "src").rglob("*.py")))

each_text = pytest.mark.parametrize("page", [pytest.param(page, id=str(page.relative_to(PROJECT))) for page in TEXTS])


def tokens(page: Path) -> Iterator[Token]:
    """Every token of a page, those inside of lines too."""
    for token in MarkdownIt().enable("table").parse(page.read_text(encoding="utf-8")):
        yield token
        yield from token.children or ()


def anchors(page: Path) -> set[str]:
    """The anchors that a page's headings have where Markdown is shown."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", [pytest.param(page, id=page.name) for page in pages()])
def test_what_is_made_from_the_package_is_up_to_date(page: Path) -> None:
    """The parts that are made from options, texts, the Schema and the samples are as `make docs` writes them."""
    text = page.read_text(encoding="utf-8")
    assert text == filled(text), "run `make docs`"


@pytest.mark.parametrize("kind", ["causes", "fates", "verdicts", "findings", "coverage", "naming"])
def test_every_word_of_a_report_has_a_section(kind: str) -> None:
    """Each cause, fate, verdict, finding, coverage problem and way of naming has a section, in the rules' order."""
    page = (PROJECT / "docs" / f"{kind}.md").read_text(encoding="utf-8")
    assert re.findall(r"^## (.+)$", page, re.MULTILINE) == list(getattr(texts.load(), kind))


def test_every_coverage_problem_of_the_code_has_a_text() -> None:
    """No part of the package reports a coverage problem under a code that nobody explained."""
    codes = {
        keyword.value.value
        for source in SOURCES
        for call in ast.walk(ast.parse(source.read_bytes()))
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "Problem"
        for keyword in call.keywords
        if keyword.arg == "code" and isinstance(keyword.value, ast.Constant)
    }
    assert codes
    assert codes - set(texts.load().coverage) == set()


@pytest.mark.parametrize("verb", COMMANDS)
def test_every_verb_has_a_page_with_all_its_options(verb: str) -> None:
    """Each verb has a page in docs/, and each of its options, long and short, is on it."""
    page = (PROJECT / "docs" / f"{verb}.md").read_text(encoding="utf-8")
    documented = set(
        re.findall(
            r"(?<![\w-])--?[a-z][a-z-]*", " ".join(re.findall(r"^\| `(.+?)` \|", page, re.MULTILINE)), re.IGNORECASE
        )
    )
    command = command_of(verb)
    inner = command.commands.values() if isinstance(command, click.Group) else ()
    parameters = [parameter for one in (command, *inner) for parameter in one.params]
    options = {word for parameter in parameters if isinstance(parameter, click.Option) for word in parameter.opts}
    assert options - documented == set()


def exit_statuses() -> list[tuple[int, str]]:
    """The rows of docs/exit-status.md: each status with its example."""
    page = (PROJECT / "docs" / "exit-status.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d+) \|.*\| (?:`(kill-audit .*)`)? ?\|$", page, re.MULTILINE)
    return [(int(status), example) for status, example in rows]


@pytest.mark.parametrize(("status", "example"), [row for row in exit_statuses() if row[1]])
def test_an_exit_status_is_what_its_example_ends_with(
    status: int, example: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The example of each exit status really ends with it."""
    monkeypatch.chdir(PROJECT)
    assert run(shlex.split(example)[1:]) == status


def test_every_exit_status_is_documented() -> None:
    """The statuses that the code returns are those of docs/exit-status.md, and README.md has the first four."""
    returned = {KillAuditError.exit_status, *(kind.exit_status for kind in KillAuditError.__subclasses__())}
    for name in ("__init__", "output"):
        tree = ast.parse((PROJECT / "src" / "kill_audit" / "cli" / f"{name}.py").read_bytes())
        functions = [
            node
            for node in ast.walk(tree)
            if isinstance(node, ast.FunctionDef) and node.name in {"run", "exit_status"}
        ]
        for node in [node for function in functions for node in ast.walk(function) if isinstance(node, ast.Return)]:
            returned |= {
                value.value
                for value in ast.walk(node)
                if isinstance(value, ast.Constant) and isinstance(value.value, int)
            }
    assert {status for status, _ in exit_statuses()} == returned
    readme = re.findall(r"^\| (\d) \|", (PROJECT / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert readme == ["0", "1", "2", "3"]


@each_text
def test_links_lead_somewhere(page: Path) -> None:
    """Each link to a file of the project leads to a file that exists, and to a heading that it has."""
    broken = []
    for token in tokens(page):
        target = str(token.attrGet("href") or token.attrGet("src") or "")
        if not target or re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        file = (page.parent / name).resolve() if name else page
        if not file.exists() or (anchor and anchor not in anchors(file)):
            broken.append(target)
    assert broken == []


@each_text
def test_paths_that_are_named_exist(page: Path) -> None:
    """A path of the project that a text names is there."""
    text = page.read_text(encoding="utf-8")
    named = re.findall(r"(?<![\w/.~-])(?:docs|src|tests|sample_journals|packaging)/[\w./*-]*\w", text)
    assert [name for name in named if not list(PROJECT.glob(name))] == []


def test_pages_that_the_code_names_exist() -> None:
    """A page of docs/ that a docstring, a hint or a comment names is there."""
    named = {
        name for source in SOURCES for name in re.findall(r"docs/[a-z-]+\.md", source.read_text(encoding="utf-8"))
    }
    assert {name for name in named if not (PROJECT / name).exists()} == set()


def shown_commands(page: Path) -> Iterator[list[str]]:
    """The words of each kill-audit command that a block of code on a page shows."""
    for token in tokens(page):
        if token.type not in {"fence", "code_block"} or not token.content:
            continue
        for line in token.content.replace("\\\n", " ").splitlines():
            match = re.search(r"(?:^|\| |\$ )kill-audit (?P<words>.*)", line.split("   #")[0].split("  # ")[0])
            if match and (words := shlex.split(match["words"])):
                yield words


@each_text
def test_commands_that_are_shown_can_be_typed(page: Path) -> None:
    """Every kill-audit command in a block of code has a verb that exists and options that the verb takes."""
    for verb, *words in shown_commands(page):
        command_of(verb).make_context(verb, words)


def test_only_known_parts_are_made() -> None:
    """A page that asks for a part that does not exist is refused, not left empty."""
    with pytest.raises(ValueError, match="no part named 'options nothing at all'"):
        documentation.made("options nothing at all")
