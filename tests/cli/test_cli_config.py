"""Options from the environment and from configuration files, through the whole command line."""

from pathlib import Path

import click
import pytest

from command_line import Command, scene
from kill_audit.cli import COMMANDS, find
from kill_audit.cli.configuration import configured, options_of, variables


def here(text: str, name: str = "kill-audit.toml") -> None:
    """Write a configuration into the working directory."""
    Path(name).write_text(text)


def words_of(name: str) -> list[tuple[tuple[str, ...], click.Option]]:
    """Every option of a command, with the names that lead to it."""
    command = find(name)
    assert command is not None
    commands: dict[tuple[str, ...], click.Command] = {(name,): command}
    if isinstance(command, click.Group):
        commands = {(name, inner): one for inner, one in command.commands.items()}
    return [
        (path, option)
        for path, one in commands.items()
        for option in one.params
        if isinstance(option, click.Option) and option.expose_value
    ]


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_option_of_every_command_has_a_variable_and_a_key(name: str) -> None:
    """`--run-log-table` of report is KILL_AUDIT_REPORT_RUN_LOG_TABLE, KILL_AUDIT_RUN_LOG_TABLE, and a TOML key."""
    command = find(name)
    assert command is not None
    keys = options_of(command)
    for path, option in words_of(name):
        long = max(option.opts, key=len)
        assert long.startswith("--")
        assert variables(path, option)[-1] == "KILL_AUDIT_" + long[2:].replace("-", "_").upper()
        assert keys[long[2:]].opts == option.opts
    made = configured(name, command, find)
    assert [param.name for param in made.params if param.name == "config"] == ["config"]
    assert "config" not in [param.name for param in command.params]


def test_the_order_is_flag_then_variable_then_file(kill_audit: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """The strongest that says anything counts: the flag, the command's variable, the common one, the file."""
    here('output = "json"\n')
    report = ("report", *scene("drain"))
    assert kill_audit(*report).out.startswith("{")
    monkeypatch.setenv("KILL_AUDIT_OUTPUT", "csv")
    assert kill_audit(*report).out.startswith("id,")
    monkeypatch.setenv("KILL_AUDIT_REPORT_OUTPUT", "md")
    assert kill_audit(*report).out.startswith("#")
    assert kill_audit(*report, "-o", "short").out.startswith("-- 0 kills")
    monkeypatch.setenv("KILL_AUDIT_REPORT_OUTPUT", "")
    assert kill_audit(*report).out.startswith("id,")


def test_config_may_stand_before_or_after_the_command(kill_audit: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """`--config F report` and `report --config F` are the same, and KILL_AUDIT_CONFIG is weaker."""
    here('output = "json"\n', "a.toml")
    here('output = "csv"\n', "b.toml")
    words = scene("drain")
    assert kill_audit("report", "--config", "a.toml", *words).out.startswith("{")
    assert kill_audit("--config", "a.toml", "report", *words).out.startswith("{")
    monkeypatch.setenv("KILL_AUDIT_CONFIG", "b.toml")
    assert kill_audit("report", *words).out.startswith("id,")
    assert kill_audit("report", "--config", "a.toml", *words).out.startswith("{")


def test_lists_of_a_file_are_lists_of_the_command(kill_audit: Command) -> None:
    """`units` takes a list or one text, and an option that repeats may be named as on the command line."""
    words = scene("deploy")
    for text in ('units = ["celery@b"]', 'units = "celery@b"', '[commands.units]\nunit = "celery@b"'):
        here(text)
        units = kill_audit("units", "-o", "json", *words).json["units"]
        assert [one["unit"] for one in units] == ["celery@b.service"]


def test_sources_of_the_command_line_stand_for_those_of_the_file(kill_audit: Command) -> None:
    """A configured --root is no reason to refuse --file: who names a source means that one alone."""
    here('root = "/nowhere"\nnamespace = "x"\n')
    assert kill_audit("units", *scene("deploy")).status == 0
    here(f"files = ['{scene('deploy')[-1]}']\n")
    assert kill_audit("units", *scene("deploy")[:-2]).status == 0
    assert "no such file" in kill_audit("units", *scene("deploy")[:-2], "--file", "gone").err


def test_settings_of_tasks_reach_the_fates(kill_audit: Command) -> None:
    """`[tasks."NAME"]` decides what becomes of a run that the journal alone leaves open."""
    words = ("report", *scene("main_sigkill"), "-o", "json", "-q")
    before = [kill["fate"] for kill in kill_audit(*words).json["kills"]]
    assert before.count("unknown") > 0
    here('[tasks."*"]\nacks_late = false\n')
    after = [kill["fate"] for kill in kill_audit(*words).json["kills"]]
    assert after == ["lost" if fate == "unknown" else fate for fate in before]


def test_all_mistakes_come_at_once_with_those_of_commands(kill_audit: Command) -> None:
    """A file's mistakes, also in tables of other commands, are told before anything is read; the status is 2."""
    here('unit = "x"\n[commands.show]\ncolour = "never"\ncolor = "blue"\n[commands.units]\nquiet = [1]\n')
    said = kill_audit("report", "--file", "gone")
    top = Path.cwd() / "kill-audit.toml"
    assert (said.status, said.out) == (2, "")
    assert said.err.splitlines() == [
        "kill-audit: the configuration has 4 mistakes",
        f"  {top}: unit: there is no such key; did you mean units?",
        f"  {top}: commands.show.colour: there is no such key; did you mean color?",
        f"  {top}: commands.show.color: 'blue' is not one of 'auto', 'always', 'never'",
        f"  {top}: commands.units.quiet: must be a single value, as for --quiet",
        "hint: `kill-audit init -w FILE` writes one with every table explained",
    ]


def test_a_password_on_the_command_line_is_refused(kill_audit: Command) -> None:
    """It stands in the process list; the message does not repeat it."""
    said = kill_audit("report", "--run-log", "postgresql://app:hunter2@db/app")
    assert said.status == 2
    assert said.err.startswith("kill-audit: --run-log has a password in it")
    assert "hunter2" not in said.err


def test_a_password_that_everybody_can_read_is_warned_about_on_stderr(kill_audit: Command) -> None:
    """The command goes on; its output is not touched."""
    here('[run-log]\nurl = "postgresql://app:hunter2@db/app"\n')
    Path("kill-audit.toml").chmod(0o644)
    said = kill_audit("units", "-o", "json", *scene("deploy"))
    assert (said.status, len(said.json["units"])) == (0, 2)
    assert said.err.startswith(f"kill-audit: warning: {Path.cwd()}/kill-audit.toml holds a password")


def test_help_reads_no_configuration(kill_audit: Command) -> None:
    """`--help` answers also where the configuration is broken."""
    here("= broken")
    assert kill_audit("report", "--help").status == 0
    assert kill_audit("report").status == 2
