"""What a shell offers at a word: choices of an option, files, ids of kills; and the script that asks for it.

Rules of this file: it runs while a person types, so it reads nothing that takes long, and never complains.
"""

from collections.abc import Callable, Iterable
from typing import Any, Final

import click
from click import shell_completion
from click.shell_completion import CompletionItem

from kill_audit.errors import KillAuditError

SHELLS: Final = ("bash", "zsh", "fish")
VARIABLE: Final = "_KILL_AUDIT_COMPLETE"

Complete = Callable[[click.Context, click.Parameter, str], list[Any]]

_END = 2**62  # after every moment


def script(shell: str) -> str:
    """Write what a shell has to read once to complete `kill-audit`."""
    kind = shell_completion.get_completion_class(shell)
    if kind is None:
        raise ValueError(f"no completion for {shell!r}")
    words = kind(click.Command("kill-audit"), {}, "kill-audit", VARIABLE)
    return (words.source_template % words.source_vars()).strip() + "\n"


def any_of(words: Iterable[str]) -> Complete:
    """Offer those words that begin so."""
    known = tuple(words)

    def complete(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[Any]:
        return [word for word in known if word.startswith(incomplete)]

    return complete


def forms(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[Any]:
    """Offer the formats of a report."""
    from kill_audit.render import FORMS

    return [form for form in FORMS if form.startswith(incomplete)]


def causes(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[Any]:
    """Offer the causes, with what each is."""
    from kill_audit import texts

    return [
        CompletionItem(key, help=one.title) for key, one in texts.load().causes.items() if key.startswith(incomplete)
    ]


def verdicts(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[Any]:
    """Offer the verdicts, with what each is."""
    from kill_audit import texts

    return [
        CompletionItem(key, help=one.title) for key, one in texts.load().verdicts.items() if key.startswith(incomplete)
    ]


def zones(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[Any]:
    """Offer the time zones."""
    from zoneinfo import available_timezones

    return sorted(zone for zone in available_timezones() if zone.startswith(incomplete))


def files(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[Any]:
    """Let the shell offer files."""
    return [CompletionItem(incomplete, type="file")]


def folders(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[Any]:
    """Let the shell offer folders."""
    return [CompletionItem(incomplete, type="dir")]


def kill_ids(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[Any]:
    """Offer the ids of the kills that the ledger has of what the line names so far, the last first."""
    from kill_audit.cli.keeping import ledger_of  # SQLAlchemy is heavy
    from kill_audit.cli.options import reading  # it imports this file

    try:
        asked = {name: value for name, value in ctx.params.items() if value is not None}
        ledger = ledger_of(reading(asked), asked.get("ledger"))
        kills = () if ledger is None else ledger.kills(0, _END)
    except KillAuditError:
        return []
    fitting = [kill for kill in kills if kill.id.startswith(incomplete)]
    return [
        CompletionItem(kill.id, help=f"{kill.at[:10]} {kill.cause} {kill.task.name or ''}")
        for kill in sorted(fitting, key=lambda kill: kill.at, reverse=True)
    ]
