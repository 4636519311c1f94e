"""Time kill-audit beside the programs that people use instead, on journals with planted kills.

usage: python -m tests.bench [N=1000000] [ROUNDS=3] [SETS=pure,mixed,regular,window,streams,table] [ONLY=word,word]
           [ROWS=20000000]

Journals are built once and kept (KILL_AUDIT_BENCH, else /var/tmp/kill-audit-bench). In each round every program runs
once, in turn; times are medians, and ratios are medians of the rounds' ratios. The regular and the stream set have a
fifth of the entries; `window` asks for the last tenth of the pure set, beside all its files and beside its own alone.
ONLY names the programs to run, by the words of the table. The set `table` is a report on a PostgreSQL table of ROWS
rows, with the plans of its questions; its making takes minutes, and it is kept too.
"""

import json
import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Final

from . import table
from .build import STREAMS, UNITS, Built, build, mixed, pure, stream_of, utc, words
from .measure import Cost, run

_WORD: Final = "WorkerLostError"
_LOOP: Final = """
import re, sys
from systemd._reader import _Reader
reader, found = _Reader(0, files=sys.argv[1:]), 0
lost = re.compile("Task (.+?) (?:received|succeeded)|WorkerLostError")
while reader._next():
    message = reader._get("MESSAGE")
    reader._get_realtime()
    found += lost.search(message.decode("utf-8", "replace")) is not None
print(found)
"""
_GREP: Final = 'grep -c "$0" "$@" | cat'


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A contestant: how it is called on a journal."""

    name: str
    command: Callable[[Built], list[str]]
    ours: bool = False
    sets: tuple[str, ...] = ("pure", "mixed", "regular")


def _report(built: Built, *more: str, files: Sequence[Path] | None = None, since: int | None = None) -> list[str]:
    begin, end = utc(built.recipe.since if since is None else since), utc(built.until)
    return [
        sys.executable, "-m", "kill_audit", "report", "--utc", "--quiet", "--exit-zero", "-S", begin, "-U", end,
        "--lead-in", "0s", "--run-log", f"sqlite:///{built.run_log}", "-o", "json", "-w", _target(), *more,
        *words(built.files if files is None else files),
    ]  # fmt: skip


def _last_tenth(built: Built, *, alone: bool) -> list[str]:
    since = built.until - (built.until - built.recipe.since) // 10
    files = [path for path in built.files if not alone or _last_entry(path) >= since]
    return _report(built, "--no-cache", files=files, since=since)


def _printed(built: Built, *, form: str) -> list[str]:
    return ["journalctl", "--quiet", "--no-pager", "--all", "-o", form, *words(built.files)]


def _of_stream(built: Built, *, form: str) -> list[str]:
    return _report(built, "--no-cache", files=[stream_of(built, form)])


def _last_entry(path: Path) -> int:
    """Read from a journal file's header when its last entry was written (docs/JOURNAL_FILE_FORMAT.md of systemd)."""
    with path.open("rb") as file:
        file.seek(192)
        return int.from_bytes(file.read(8), "little")


def _target() -> str:
    return str(Path(tempfile.gettempdir()) / f"kill-audit-bench-{os.getpid()}.json")


_UNIT: Final = ("-u", "celery@*")
_CAT: Final = ("journalctl", "--quiet", "--no-pager", "-o", "cat", "--grep", _WORD)
PROGRAMS: Final = (
    Program(name="kill-audit", command=lambda built: _report(built, "--no-cache"), ours=True),
    Program(name="kill-audit -u", command=lambda built: _report(built, "--no-cache", *_UNIT), ours=True),
    Program(name="kill-audit again", command=_report, ours=True),
    Program(name="journalctl -u --grep", command=lambda built: [*_CAT, *_UNIT, *words(built.files)]),
    Program(name="journalctl --grep", command=lambda built: [*_CAT, *words(built.files)]),
    Program(
        name="journalctl -o json",
        command=lambda built: ["journalctl", "--quiet", "--no-pager", "-o", "json", *words(built.files)],
    ),
    Program(name="systemd-python loop", command=lambda built: [sys.executable, "-c", _LOOP, *map(str, built.files)]),
    Program(name="grep -c", command=lambda built: ["sh", "-c", _GREP, _WORD, *map(str, built.files)]),
    Program(name="behind older files", command=partial(_last_tenth, alone=False), sets=("window",)),
    Program(name="alone", command=partial(_last_tenth, alone=True), sets=("window",)),
    *(
        program
        for form in STREAMS
        for program in (
            Program(name=f"journalctl {form}", command=partial(_printed, form=form), sets=("streams",)),
            Program(name=f"kill-audit {form}", command=partial(_of_stream, form=form), sets=("streams",), ours=True),
        )
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """An upper bound for the wall time of a program of ours, as a ratio to another's."""

    ours: str
    other: str
    most: float


TARGETS: Final = {
    "pure": (
        Target(ours="kill-audit", other="journalctl -u --grep", most=0.15),
        Target(ours="kill-audit", other="journalctl --grep", most=0.75),
        Target(ours="kill-audit", other="grep -c", most=4.0),
        Target(ours="kill-audit again", other="kill-audit", most=0.2),
    ),
    "mixed": (
        Target(ours="kill-audit -u", other="journalctl -u --grep", most=0.30),
        Target(ours="kill-audit", other="journalctl --grep", most=0.45),
    ),
    "regular": (),
    "window": (Target(ours="behind older files", other="alone", most=1.2),),
    "streams": tuple(Target(ours=f"kill-audit {form}", other=f"journalctl {form}", most=1.0) for form in STREAMS),
}
_MOST_MIB: Final = 300


def main(arguments: Sequence[str]) -> int:
    """Build, run, print, compare; give 1 if a target is missed or a kill is not found as planted."""
    sets = "pure,mixed,regular,window,streams,table"
    options = {"N": "1000000", "ROUNDS": "3", "SETS": sets, "ONLY": "", "ROWS": str(table.ROWS)}
    for word in arguments:
        name, equals, value = word.partition("=")
        if name not in options or not equals:
            print(__doc__, file=sys.stderr)
            return 2
        options[name] = value
    entries, rounds = int(options["N"]), int(options["ROUNDS"])
    few = entries // 5
    recipes = {
        "pure": pure(entries), "mixed": mixed(entries), "regular": pure(few, compact=False), "window": pure(entries),
        "streams": pure(few),
    }  # fmt: skip
    only = options["ONLY"].split(",") if options["ONLY"] else [program.name for program in PROGRAMS]
    good = True
    for name in options["SETS"].split(","):
        if name == "table":
            good &= table.compare(int(options["ROWS"]))
        else:
            programs = [program for program in PROGRAMS if program.name in only and name in program.sets]
            good &= _compare(name, build(recipes[name]), programs, rounds)
    return 0 if good else 1


def _compare(name: str, built: Built, programs: Sequence[Program], rounds: int) -> bool:
    costs: dict[str, list[Cost]] = {program.name: [] for program in programs}
    good = True
    if "kill-audit again" in costs:  # what was read once, before any time counts
        run(_report(built))
    for _ in range(rounds):
        for program in programs:
            cost = run(program.command(built), sample=program.ours)
            costs[program.name].append(cost)
            if program.ours:
                good &= _is_right(program.name, cost, built)
    _print_table(name, built, costs)
    for target in TARGETS[name]:
        if target.ours in costs and target.other in costs:
            ratio = _ratio(costs, target.ours, target.other, "wall_s")
            good &= ratio <= target.most
            verdict = "met" if ratio <= target.most else "MISSED"
            print(f"  {target.ours} / {target.other}: {ratio:.3f}, at most {target.most} wanted: {verdict}")
    for program in programs:
        if program.ours:
            peak = max(cost.peak_mib for cost in costs[program.name])
            good &= peak <= _MOST_MIB
            print(f"  {program.name}: its largest process held {peak:.0f} MiB, at most {_MOST_MIB} wanted")
    return good


def _is_right(name: str, cost: Cost, built: Built) -> bool:
    """Compare the kills of a report with those planted: unit, task, cause and verdict."""
    if cost.status != 0:
        print(f"  {name} ended with status {cost.status}")
        return False
    kills = json.loads(Path(_target()).read_bytes())["kills"]
    found = sorted((kill["unit"], kill["task"]["id"] or "", kill["cause"], kill["verdict"]) for kill in kills)
    planted = sorted((kill.unit, kill.task_id, kill.cause, "missing") for kill in built.kills)
    if found != planted:
        lost, extra = set(planted) - set(found), set(found) - set(planted)
        print(f"  {name}: {len(found)} kills, {len(planted)} planted; {len(lost)} not found, {len(extra)} others")
        for one in (*sorted(lost)[:3], *sorted(extra)[:3]):
            print(f"    {'not found' if one in lost else 'other'}: {' '.join(map(str, one))}")
    return found == planted


def _print_table(name: str, built: Built, costs: dict[str, list[Cost]]) -> None:
    others = [other for other in ("journalctl -u --grep", "journalctl --grep", "grep -c") if other in costs]
    print(f"\n{name}: {built.entries:,} entries of which {built.recipe.celery:.0%} are {UNITS} workers', "
          f"{len(built.files)} files, {built.size / 1e6:,.0f} MB, {len(built.kills)} kills planted")  # fmt: skip
    print(f"  {'':22}{'wall s':>8}{'CPU s':>8}{'CPU/wall':>9}{'entries/s':>11}{'MiB':>6}"
          + "".join(f"   wall, CPU / {other}" for other in others))  # fmt: skip
    for program, runs in costs.items():
        wall, cpu = median(cost.wall_s for cost in runs), median(cost.cpu_s for cost in runs)
        peak = f"{max(cost.peak_mib for cost in runs):.0f}" if runs[0].peaks else ""
        line = f"  {program:22}{wall:8.2f}{cpu:8.2f}{cpu / wall:9.2f}{built.entries / wall:11,.0f}{peak:>6}"
        for other in others:
            ratios = (_ratio(costs, program, other, what) for what in ("wall_s", "cpu_s"))
            line += f"{'{:.3f}, {:.3f}'.format(*ratios):>{15 + len(other)}}"
        print(line, flush=True)


def _ratio(costs: dict[str, list[Cost]], one: str, other: str, what: str) -> float:
    pairs = zip(costs[one], costs[other], strict=True)
    return float(median(getattr(first, what) / getattr(second, what) for first, second in pairs))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
