"""Words in, one call, an exit status out.

Rules of this room: no rules, no SQL, no colours of its own; one file a command, imported when it is called. Data goes
to stdout, progress and errors to stderr.
"""

import os
import sys
from collections.abc import Sequence

import click

from kill_audit import __version__
from kill_audit.cli.completion import SHELLS, files, script
from kill_audit.cli.configuration import configured
from kill_audit.errors import KillAuditError

COMMANDS = {
    "report": "kill_audit.cli.report",
    "show": "kill_audit.cli.show",
    "accept": "kill_audit.cli.accept",
    "collect": "kill_audit.cli.collect",
    "mail": "kill_audit.cli.mail",
    "schedule": "kill_audit.cli.schedule",
    "deploys": "kill_audit.cli.deploys",
    "units": "kill_audit.cli.units",
    "doctor": "kill_audit.cli.doctor",
    "init": "kill_audit.cli.init",
}
"""The verbs, and the module whose `command` answers each."""

SUMMARIES = {
    "report": "Report the killed task runs of a window.",
    "show": "Show everything about one kill.",
    "accept": "Accept findings as known, so that they fail no report.",
    "collect": "Keep findings in the ledger, before the journal loses them.",
    "mail": "Mail the summary of the last week.",
    "schedule": "Run collect and mail by a timer.",
    "deploys": "List the deploy windows, and what each killed.",
    "units": "List the units that are Celery workers.",
    "doctor": "Check that kills can be found here, and say how to fix it.",
    "init": "Write a commented kill-audit.toml from what is found here.",
}
"""What the list of the verbs says of each: the command's own short help, here without its module."""


class _Commands(click.Group):
    """Loads a command's module only when it is named, so that `--help` stays quick."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        del ctx
        command = find(cmd_name)
        return None if command is None else configured(cmd_name, command, find)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl(list(SUMMARIES.items()))


def find(name: str) -> click.Command | None:
    """Give a command as its module wrote it."""
    if name not in COMMANDS:
        return None
    from importlib import import_module

    command: click.Command = import_module(COMMANDS[name]).command
    return command


def _completion(ctx: click.Context, _option: click.Parameter, shell: str | None) -> None:
    """Write the script instead of anything else."""
    if shell is not None and not ctx.resilient_parsing:
        click.echo(script(shell), nl=False)
        ctx.exit()


@click.group(
    cls=_Commands,
    context_settings={
        "help_option_names": ["-h", "--help"],
        "auto_envvar_prefix": "KILL_AUDIT",
        "max_content_width": 100,
    },
)
@click.version_option(__version__, "-V", "--version", message="kill-audit %(version)s")
@click.option("--config", metavar="FILE", help="Read this configuration before the others.", shell_complete=files)
@click.option("--debug", is_flag=True, help="Show a traceback instead of one line when something fails.")
@click.option(
    "--completion",
    type=click.Choice(SHELLS),
    is_eager=True,
    expose_value=False,
    callback=_completion,
    help='Write what makes a shell complete words: eval "$(kill-audit --completion bash)".',
)
def commands(config: str | None, debug: bool) -> None:
    """Find every Celery task run that was killed, and what became of it, from the systemd journal.

    kill-audit reads worker journals, names the task of each killed run, proves what killed it, and reconciles it with
    the app's own run log. It only reads: it never acknowledges, retries, kills or edits anything.
    """
    del config, debug


def run(words: Sequence[str]) -> int:
    """Run a command line; return its exit status (see docs/exit-status.md)."""
    debug = "--debug" in words
    try:
        if any("://" in word for word in words):
            from kill_audit.config import refuse_secrets

            refuse_secrets(words)
        status = commands.main(args=list(words), prog_name="kill-audit", standalone_mode=False)
    except click.exceptions.Exit as stopped:
        return stopped.exit_code
    except click.ClickException as error:
        error.show()
        return 2
    except click.Abort:
        click.echo("kill-audit: interrupted", err=True)
        return 130
    except KillAuditError as error:
        if debug:
            raise
        click.echo(f"kill-audit: {error.message}", err=True)
        if error.hint:
            click.echo(f"hint: {error.hint}", err=True)
        return error.exit_status
    except BrokenPipeError:
        # The reader of our output has gone (`kill-audit report | head`): there is nobody to tell.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    return int(status or 0)
