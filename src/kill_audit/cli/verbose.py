"""`-v`: where the options' values come from, and what is read and how; on stderr, before the reading begins."""

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from kill_audit import when
from kill_audit.cli.configuration import keys_of
from kill_audit.cli.reading import Evidence
from kill_audit.render.printable import printable

if TYPE_CHECKING:
    from kill_audit.cli.options import Reading
    from kill_audit.config import Settings


def tell(asked: "Reading", evidence: Evidence) -> None:
    """Say on stderr what is about to be read."""
    context = click.get_current_context()
    for line in (*_origins(context), *_window(asked, evidence), *_sources(evidence)):
        click.echo(f"kill-audit: {line}", err=True)


def _origins(context: click.Context) -> Iterator[str]:
    """Name the configuration files, and each option that the command line did not set itself."""
    settings: Settings | None = context.obj
    yield from (f"configuration: {path}" for path in (settings.files if settings is not None else ()))
    for option in context.command.params:
        if not isinstance(option, click.Option) or option.name is None:
            continue
        match context.get_parameter_source(option.name):
            case ParameterSource.ENVIRONMENT:
                origin = next((name for name in option.envvar or () if name in os.environ), "the environment")
            case ParameterSource.DEFAULT_MAP if settings is not None:
                files = (settings.origin(str(context.info_name), key) for key in keys_of(option))
                origin = str(next((path for path in files if path is not None), "a configuration file"))
            case _:
                continue
        yield f"{_shown(max(option.opts, key=len), context.params.get(option.name))} (from {origin})"


def _shown(name: str, value: Any) -> str:
    """Write an option and its value, but for passwords."""
    from kill_audit.config import has_secret

    if isinstance(value, bool):
        return name if value else f"no {name}"
    if has_secret(value):
        return f"{name} (not shown, as it holds a password)"
    return f"{name} {' '.join(map(str, value)) if isinstance(value, list | tuple) else value}"


def _window(asked: "Reading", evidence: Evidence) -> Iterator[str]:
    question = evidence.question
    since, until, read_since = (
        when.describe(moment, asked.zone) for moment in (question.since, question.until, question.read_since)
    )
    yield f"deaths from {since} to {until}, by entries from {read_since} on (--lead-in {asked.lead_in})"
    yield "units: " + (", ".join(question.units) or "those whose own lines are a Celery worker's")


def _sources(evidence: Evidence) -> Iterator[str]:
    """Say of each source what it holds and what reads it."""
    for source in evidence.sources:
        described = getattr(source, "described", None)
        yield printable(f"reads {source.name}: {'as it is' if described is None else described()}")
