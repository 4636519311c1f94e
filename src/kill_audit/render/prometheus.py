"""`prometheus`: gauges in the text exposition format, for node_exporter's textfile collector.

The format is https://prometheus.io/docs/instrumenting/exposition_formats/ (text, version 0.0.4). All are gauges: each
report tells of a window, and the next one may tell of fewer. Samples carry no time stamps, which the textfile
collector refuses. A number that was not looked for (missing rows without a run log) is absent, never 0.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import get_args

from kill_audit.document import Coverage, Document, micros
from kill_audit.render.figures import UNSETTLED_ROWS, deploys_with_kills, holes
from kill_audit.render.view import View

Labels = Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Gauge:
    """One metric: what it says in a sentence, and its samples."""

    name: str
    help: str
    samples: tuple[tuple[Labels, float], ...]


def render(document: Document, view: View) -> str:  # noqa: ARG001 - metrics are the same for every view
    """Write every gauge with its HELP and TYPE lines."""
    lines: list[str] = []
    for gauge in gauges(document):
        lines += [f"# HELP {gauge.name} {gauge.help}", f"# TYPE {gauge.name} gauge"]
        lines += [_sample(gauge.name, labels, value) for labels, value in gauge.samples]
    return "\n".join(lines) + "\n"


def gauges(document: Document) -> Iterator[Gauge]:
    """Tell the document's numbers: first what an alert asks for, then the same broken down, then the evidence."""
    yield _one("kills", "Task runs killed in the window.", len(document.kills))
    if document.run_log is not None:
        yield _one("kills_missing", "Killed task runs without a row in the run log.", _verdicts(document)["missing"])
        yield _one("kills_stuck", "Killed task runs whose row is still open.", _verdicts(document)["stuck"])
    accepted = sum(kill.accepted is not None for kill in document.kills)
    yield _one("kills_accepted", "Killed task runs that were accepted as known.", accepted)
    yield _one("kills_failing", "Killed task runs to act on, as --fail-on takes them by default.", _failing(document))
    stale = sum(one.stale is not None for one in document.acceptances)
    yield _one("acceptances_stale", "Entries for accepted findings that are out of date.", stale)
    yield _one("kills_in_deploys", "Killed task runs within deploy windows.", deploys_with_kills(document)[0])
    yield _one("blind_deaths", "Worker deaths whose tasks cannot be known.", len(document.blind_deaths))
    yield _one("idle_deaths", "Pool processes that died with no task on them.", len(document.idle_deaths))
    yield _one("ghosts", "Open rows whose process is dead and that no kill claims.", len(document.ghosts))
    yield _one("duplicates", "Task ids that finished more than once.", len(document.duplicates))
    yield _one("deploys", "Deploy windows.", len(document.deploys))
    yield from _broken_down(document)
    yield from _evidence(document)


def _broken_down(document: Document) -> Iterator[Gauge]:
    units = Counter(
        (kill.host or "", kill.unit or "", kill.cause, kill.verdict or "", kill.fate) for kill in document.kills
    )
    names = ("host", "unit", "cause", "verdict", "fate")
    labelled = ((dict(zip(names, key, strict=True)), number) for key, number in sorted(units.items()))
    yield _many("unit_kills", "Task runs killed, by host, unit, cause, verdict and fate.", labelled)
    tasks = Counter(kill.task.name or "" for kill in document.kills)
    by_task = (({"task": name}, number) for name, number in sorted(tasks.items()))
    yield _many("task_kills", "Task runs killed, by task; the empty name stands for those not named.", by_task)


def _evidence(document: Document) -> Iterator[Gauge]:
    states = get_args(Coverage.__annotations__["verdict"])
    covered = (({"verdict": state}, int(document.coverage.verdict == state)) for state in states)
    yield _many("coverage", "How much of the window the evidence covers: 1 for the state that holds.", covered)
    codes = Counter(hole.problem.code for hole in holes(document))
    problems = (({"code": code}, number) for code, number in sorted(codes.items()))
    yield _many("coverage_problems", "Reasons why the evidence is not whole, by code.", problems)
    yield _one("entries", "Journal entries that the evidence holds.", document.coverage.entries)
    for name, what, text in (
        ("window_since", "Start of the window", document.window.since),
        ("window_until", "End of the window", document.window.until),
        ("generated", "When the report was made", document.generated_at),
    ):
        seconds = micros(text) / 1_000_000
        yield _one(f"{name}_timestamp_seconds", f"{what}, in seconds since the epoch.", seconds)
    info = {"version": document.tool.version}
    yield _many("info", "The program that made the report; always 1.", [(info, 1)])


def _failing(document: Document) -> int:
    return sum(
        kill.accepted is None and (document.run_log is None or kill.verdict in UNSETTLED_ROWS)
        for kill in document.kills
    )


def _verdicts(document: Document) -> Counter[str | None]:
    return Counter(kill.verdict for kill in document.kills)


def _one(name: str, text: str, value: float) -> Gauge:
    return _many(name, text, [({}, value)])


def _many(name: str, text: str, samples: Iterable[tuple[Labels, float]]) -> Gauge:
    return Gauge(name=f"kill_audit_{name}", help=text, samples=tuple(samples))


def _sample(name: str, labels: Labels, value: float) -> str:
    inside = ",".join(f'{key}="{_label(text)}"' for key, text in labels.items())
    return f"{name}{{{inside}}} {value!r}" if inside else f"{name} {value!r}"


def _label(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
