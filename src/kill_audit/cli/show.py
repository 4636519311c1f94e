"""`kill-audit show ID`: everything about one kill, so that a person who doubts it can be convinced."""

import shlex
from typing import TYPE_CHECKING, Any

import click

from kill_audit.cli.acceptances import acceptances_of, accepted_option
from kill_audit.cli.completion import any_of, kill_ids
from kill_audit.cli.options import Reading, color_option, reading, run_log_options, source_options, write_option
from kill_audit.cli.output import in_colour, terminal_width, write
from kill_audit.cli.reading import Evidence, Scans, evidence_of, findings_of
from kill_audit.errors import UsageError

if TYPE_CHECKING:
    from kill_audit.document import Kill

BEFORE = 30_000_000
AFTER = 15_000_000


@click.command(name="show", short_help="Show everything about one kill.")
@source_options
@run_log_options
@click.option(
    "-o",
    "--output",
    "form",
    default="text",
    show_default=True,
    metavar="FORMAT",
    help="text or json.",
    shell_complete=any_of(["text", "json"]),
)
@write_option
@color_option
@accepted_option
@click.argument("key", metavar="ID", shell_complete=kill_ids)
@click.pass_obj
def command(settings: Any, /, **asked: Any) -> int:
    """Show the lines around one kill, how its task was named, how its cause was decided, and what became of it.

    ID is a kill's id in `kill-audit report`, or its first characters.
    """
    shared = reading(asked)
    if asked["form"] not in ("text", "json"):
        raise UsageError(f"-o {asked['form']}: no such format", hint="formats: text, json")
    import msgspec

    from kill_audit.acceptance import accepted_by
    from kill_audit.classify import ruled_out
    from kill_audit.render.showing import Shown, render_kill
    from kill_audit.report import kill_named
    from kill_audit.timeline.naming import rivals

    acceptances = acceptances_of(asked["accepted_file"], settings, shared.zone)
    evidence = evidence_of(shared)
    found = findings_of(shared, evidence, settings=settings)
    kill, known = kill_named(found, asked["key"])
    kill = msgspec.structs.replace(kill, accepted=accepted_by(kill, acceptances, now=evidence.now))
    death = known.death
    killed = {id(other.run) for other in found.history.deaths if other is not death and other.run is not None}
    again = {task_id for task_id, receipts in found.history.receipts.items() if len(receipts) > 1}
    named, fated = len(known.ruling.reasons), len(known.ruling.reasons) + len(death.name.reasons)
    shown = Shown(
        kill=kill,
        why_cause=kill.reasons[:named],
        why_name=kill.reasons[named:fated],
        why_fate=kill.reasons[fated : fated + 1],
        why_verdict=kill.reasons[fated + 1 :],
        ruled_out=ruled_out(known.ruling.cause),
        rivals=tuple(
            (one.run.task_name, one.run.task_id, one.why)
            for one in rivals(death.life, death.run, death.at, killed, again)
        ),
        lines=_lines(shared, evidence, kill, known.at, death.life.group),
        command=_journalctl(shared, kill, known.at),
    )
    target = asked["target"]
    text = render_kill(
        shown,
        asked["form"],
        width=terminal_width(target),
        color=in_colour(asked["color"], target),
        zone=shared.zone,
    )
    write(text, target)
    return 0


def _lines(shared: Reading, evidence: Evidence, kill: "Kill", at: int, group: Any) -> tuple[Any, ...]:
    """Read the lines around the death again, from every source, in order of time."""
    from kill_audit.surroundings import Place, lines_around

    place = Place(
        machine=group.machine,
        boot=group.boot,
        unit=group.unit,
        task_id=kill.task.id,
        since=at - BEFORE,
        until=at + AFTER,
    )
    items = [(source, evidence.question, place) for source in evidence.sources]
    found = Scans(quiet=shared.quiet).run(lines_around, items, lambda _name, _reason: ())
    return tuple(sorted((line for lines in found for line in lines), key=lambda line: (line.at, line.cursor)))


def _journalctl(shared: Reading, kill: "Kill", at: int) -> str:
    """The command of journalctl that shows the same lines (journalctl(1), matches joined by `+`)."""
    if any(not path.endswith((".journal", ".journal~")) for path in shared.files):
        return ""
    words = ["journalctl", "-o", "short-precise", "--utc"]
    words += [f"--file={path}" for path in shared.files] + [f"--directory={path}" for path in shared.directories]
    words += [f"--root={shared.root}"] if shared.root else []
    words += [f"--since={_utc(at - BEFORE)}", f"--until={_utc(at + AFTER)}"]
    if kill.unit:
        words += [f"_SYSTEMD_UNIT={kill.unit}", "+", "_PID=1", f"UNIT={kill.unit}", "+", "_TRANSPORT=kernel"]
    return shlex.join(words)


def _utc(at: int) -> str:
    from kill_audit.document import timestamp

    return timestamp(at)[:19].replace("T", " ") + " UTC"
