"""`kill-audit doctor`: whether the evidence can show what it should, and what to do where it cannot."""

import os
from collections.abc import Generator, Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from kill_audit.cli.configuration import unknown_variables
from kill_audit.cli.doctor.check import STATUS, Check, worst
from kill_audit.cli.options import Reading, listing_options, reading, run_log_options, source_options, takes_stdin
from kill_audit.cli.output import in_colour, terminal_width, write
from kill_audit.cli.reading import Evidence, Scans, evidence_of
from kill_audit.errors import KillAuditError, UsageError

if TYPE_CHECKING:
    from kill_audit.config import Settings


@click.command(name="doctor", short_help="Check that kills can be found here, and say how to fix it.")
@source_options
@run_log_options
@listing_options
@click.argument("stream", required=False, metavar="[-]")
@click.pass_obj
def command(settings: "Settings", /, **asked: Any) -> int:
    """Check permissions, the journal's reach, each worker's log level, the run log and the clocks.

    Each check is ok, warn or fail, with the command that fixes it. The exit status is 0, 1 or 2 for the worst.
    """
    shared, stdin = reading(asked), takes_stdin(asked)
    from kill_audit.render.listing import Finding, render_findings
    from kill_audit.render.printable import json_text

    checks = tuple(_checks(shared, settings, stdin=stdin))
    state, target = worst(checks), asked["target"]
    if asked["form"] == "json":
        whole = {
            "format": "kill-audit/doctor",
            "version": 1,
            "state": state,
            "checks": [asdict(one) for one in checks],
        }
        text = json_text(whole)
    else:
        text = render_findings(
            _title(checks),
            [Finding(**asdict(one)) for one in checks],
            width=terminal_width(target),
            color=in_colour(asked["color"], target),
        )
    write(text, target)
    return STATUS[state]


def _title(checks: tuple[Check, ...]) -> str:
    wrong = [check for check in checks if check.state != "ok"]
    if not wrong:
        return f"All {len(checks)} checks are ok."
    failed = sum(check.state == "fail" for check in wrong)
    kinds = [f"{number} {state}" for number, state in ((failed, "fail"), (len(wrong) - failed, "warn")) if number]
    return f"{' and '.join(kinds)} of {len(checks)} checks."


def _checks(shared: Reading, settings: "Settings", *, stdin: bool) -> Iterator[Check]:
    """Give all checks in the order of the data: configuration, host, journal, units, run log, clocks."""
    from kill_audit.cli.doctor.run_log import failed

    yield _configuration(settings)
    try:
        evidence = evidence_of(shared, stdin=stdin)
    except UsageError:
        raise
    except KillAuditError as error:
        evidence = None
        yield failed("journal", error)
    live = not (shared.files or shared.directories or stdin)
    yield from _host_checks(shared, evidence, live=live)
    skew = None
    if shared.run_log is not None:
        skew = yield from _run_log_checks(shared, settings, shared.run_log)
    else:
        yield Check(
            name="run log",
            state="ok",
            detail="none given: which kills the app knows of is not looked at",
            fix="kill-audit doctor --run-log URL",
        )
    if evidence is not None:
        yield from _journal_checks(shared, evidence, skew, live=live)


def _configuration(settings: "Settings") -> Check:
    from kill_audit.cli import COMMANDS, find  # which imports this module

    commands = {name: command for name in COMMANDS if (command := find(name)) is not None}
    notes = list(settings.notes)
    for name, nearest in unknown_variables(os.environ, commands).items():
        notes.append(f"the variable {name} is no option's" + (f"; did you mean {nearest}?" if nearest else ""))
    if notes:
        return Check(name="configuration", state="warn", detail="; ".join(notes))
    files = ", ".join(map(str, settings.files))
    return Check(
        name="configuration",
        state="ok",
        detail=f"read from {files}" if files else "there is no configuration file",
        fix=None if files else "kill-audit init -w kill-audit.toml",
    )


def _host_checks(shared: Reading, evidence: Evidence | None, *, live: bool) -> Iterator[Check]:
    from kill_audit.cli.doctor import host

    fragile = any(getattr(source, "fragile", True) for source in (evidence.sources if evidence else ()))
    if fragile or live:
        yield host.reader_check(needed=fragile)
    yield host.unpackers_check()
    if not live:
        return
    yield host.groups_check()
    reach = evidence.now - evidence.question.read_since if evidence is not None else 0
    yield from host.journald_checks(shared.root, reach)


def _run_log_checks(shared: Reading, settings: "Settings", run_log: str) -> Generator[Check, None, float | None]:
    """Look at the run log and at Celery's own table; give the skew of the server's clock in seconds, if it has one."""
    from kill_audit.cli.doctor.run_log import failed, results_check, run_log_checks  # SQLAlchemy is heavy
    from kill_audit.runlog.clock import clock_skew_s

    arguments = settings.for_run_log(run_log, table=shared.run_log_table, preset=shared.run_log_preset)
    found = list(run_log_checks(run_log, arguments, shared.zone))
    yield from found
    if shared.results is not None:
        yield results_check(shared.results, settings.for_results(shared.results, table=shared.results_table))
    if found[0].state == "fail":
        return None
    try:
        return clock_skew_s(run_log, environ=os.environ)
    except KillAuditError as error:
        yield failed("clock", error)
        return None


def _journal_checks(shared: Reading, evidence: Evidence, skew: float | None, *, live: bool) -> Iterator[Check]:
    from kill_audit import classify, coverage, timeline
    from kill_audit.cli.doctor import evidence as rules
    from kill_audit.cli.doctor.look import look, lost
    from kill_audit.units import machine_id, seen_units, settings_of

    question, now = evidence.question, evidence.now
    looks = Scans(quiet=shared.quiet).run(look, [(source, question) for source in evidence.sources], lost)
    history = timeline.join([one.partial for one in looks])
    kills = classify.judge(history.deaths, classify.scene_of(history))
    seen = seen_units(history, kills, question)
    here = machine_id(shared.root)
    told = [unit for machine, _, unit in history.told.units if machine == here and unit.endswith(".service")]
    names = [*(one.unit for one in seen if one.machine == here), *filter(question.wants_unit, told)]
    known = settings_of(names, root=shared.root, user=shared.user)
    yield from rules.problem_checks(coverage.judge(history, question, now), live=live)
    yield from rules.retention_checks(looks, history.lives, question, now, shared.zone, live=live)
    yield from rules.unit_checks(seen, looks, known, question)
    yield rules.clock_check(looks, now, skew, shared.zone)
