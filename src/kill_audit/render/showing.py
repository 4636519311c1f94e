"""One kill in full, for a person who doubts it: the lines, the naming, the cause, the fate, the row."""

import datetime as dt
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import msgspec

from kill_audit import texts
from kill_audit.document import Kill, micros, timestamp
from kill_audit.render.printable import json_text, printable

_MOST_TEXT = 160
_AT_ONCE = 5_000  # µs; journald stamps the lines that it reads in one go alike


class Line(Protocol):
    """An entry near the death (see `surroundings.LogLine`)."""

    @property
    def at(self) -> int: ...  # noqa: D102 - a field of the protocol
    @property
    def cursor(self) -> str: ...  # noqa: D102
    @property
    def who(self) -> str: ...  # noqa: D102
    @property
    def pid(self) -> int: ...  # noqa: D102
    @property
    def text(self) -> str: ...  # noqa: D102


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A kill with what its document leaves out.

    `why_cause`, `why_name`, `why_fate`, `why_verdict`: the kill's reasons, by what they are reasons for. `ruled_out`:
    the causes that were looked for before and not found. `rivals`: name, id and reason of each other unfinished run.
    `command`: what shows the same lines with journalctl, "" where the evidence is no journal.
    """

    kill: Kill
    why_cause: tuple[str, ...]
    why_name: tuple[str, ...]
    why_fate: tuple[str, ...]
    why_verdict: tuple[str, ...]
    ruled_out: tuple[str, ...]
    rivals: tuple[tuple[str, str, str], ...]
    lines: Sequence[Line]
    command: str


def render_kill(shown: Shown, form: str, *, width: int | None, color: bool, zone: dt.tzinfo | None) -> str:
    """Write one kill as `text` or `json`; the text ends with a newline."""
    if form == "json":
        return _as_json(shown)
    return "\n".join(_Page(shown=shown, width=width, color=color, zone=zone).lines()) + "\n"


def _as_json(shown: Shown) -> str:
    whole = {
        "format": "kill-audit/kill",
        "version": 1,
        "kill": msgspec.to_builtins(shown.kill),
        "reasons": {
            "cause": shown.why_cause,
            "task": shown.why_name,
            "fate": shown.why_fate,
            "verdict": shown.why_verdict,
        },
        "ruled_out": shown.ruled_out,
        "rivals": [{"name": name, "id": key, "why": why} for name, key, why in shown.rivals],
        "lines": [
            {
                "at": timestamp(line.at),
                "cursor": line.cursor,
                "who": line.who,
                "pid": line.pid or None,
                "text": line.text,
            }
            for line in shown.lines
        ],
        "journalctl": shown.command,
    }
    return json_text(whole)


def _continues(line: Line, before: Line) -> bool:
    """Whether a line is a further one of a traceback or a banner: the same process, at once, and without a prefix."""
    same = (line.who, line.pid) == (before.who, before.pid) and line.at - before.at < _AT_ONCE
    return same and not line.text.startswith(("[2", "{", "worker: "))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Page:
    shown: Shown
    width: int | None
    color: bool
    zone: dt.tzinfo | None

    def lines(self) -> Iterator[str]:
        kill = self.shown.kill
        words = texts.load()
        task = f"{kill.task.name or 'an unnamed task'}[{kill.task.id}]" if kill.task.id else "a task without a name"
        yield self._head(f"Kill {kill.id}: {printable(task)}")
        yield from self._facts(kill)
        yield ""
        yield from self._accepted(kill)
        yield self._head(f"Why: {kill.cause} ({kill.confidence} confidence)")
        yield from self._wrapped(words.causes[kill.cause].means if kill.cause in words.causes else "")
        yield from self._reasons(self.shown.why_cause)
        if self.shown.ruled_out:
            titles = (words.causes[key].title if key in words.causes else key for key in self.shown.ruled_out)
            yield from self._wrapped(f"looked for before that, and not found: {', '.join(titles)}", mark="- ")
        yield ""
        yield self._head(f"What became of it: {kill.fate}")
        yield from self._wrapped(words.fates[kill.fate].means if kill.fate in words.fates else "")
        yield from self._reasons(self.shown.why_fate)
        yield from self._row(kill)
        yield ""
        yield from self._naming(kill)
        yield ""
        yield self._head(f"The lines around it ({self._zone_name(kill)}; * proves the claim)")
        yield from self._around(kill)
        yield ""
        if self.shown.command:
            yield self._head("The same with journalctl")
            yield f"  {self.shown.command}"

    def _facts(self, kill: Kill) -> Iterator[str]:
        process = f"{kill.pool_process or 'pool process'} pid {kill.child_pid}" if kill.child_pid else None
        status = kill.signal_name or (f"exit code {kill.exit_code}" if kill.exit_code is not None else None)
        facts = (
            ("died at", f"{self._at(kill.at)}" + (f", of {status}" if status else "")),
            ("worker", " ".join(filter(None, (kill.worker, kill.unit, f"on {kill.host}" if kill.host else None)))),
            (
                "process",
                ", ".join(filter(None, (process, f"main process {kill.main_pid}" if kill.main_pid else None))),
            ),
            ("host's pid", str(kill.host_pid) if kill.host_pid else ""),
            ("received", self._at(kill.received_at)),
            ("started", self._at(kill.started_at)),
            (
                "ran for",
                f"{kill.ran_for_s:g} s" + ("" if kill.started_at else " at most, from its receipt")
                if kill.ran_for_s is not None
                else "",
            ),
            ("deliveries", f"{kill.deliveries}, killed {kill.killed_times} times" if kill.killed_times > 1 else ""),
            ("deploy", kill.deploy or ""),
            ("incident", kill.incident or ""),
        )
        yield from (f"  {name:<11}{printable(value)}" for name, value in facts if value and value != "-")

    def _accepted(self, kill: Kill) -> Iterator[str]:
        if kill.accepted is not None:
            until = f", until {self._at(kill.accepted.until)}" if kill.accepted.until else ""
            yield self._head("Accepted as known")
            yield from self._wrapped(f"{kill.accepted.reason} ({kill.accepted.by}{until}; {kill.accepted.where})")
            yield ""

    def _row(self, kill: Kill) -> Iterator[str]:
        if kill.verdict is None:
            yield "  run log: no verdict" + ("" if self.shown.why_verdict else " (give a run log with --run-log)")
            yield from self._reasons(self.shown.why_verdict)
            return
        meaning = texts.load().verdicts.get(kill.verdict)
        yield from self._wrapped(f"run log: {kill.verdict}" + (f". {meaning.means}" if meaning else ""))
        yield from self._reasons(self.shown.why_verdict)
        for row in kill.rows:
            yield (
                f"    row {printable(row.key)}: {printable(row.status or '-')},"
                f" started {self._at(row.started_at)}, finished {self._at(row.finished_at)}"
            )

    def _naming(self, kill: Kill) -> Iterator[str]:
        meaning = texts.load().naming.get(kill.task.how)
        yield self._head(
            f"How it was named: {kill.task.how}"
            + (f" ({kill.task.confidence} confidence)" if kill.task.confidence else "")
        )
        yield from self._wrapped(meaning.means if meaning else "")
        yield from self._reasons(self.shown.why_name)
        if self.shown.rivals:
            yield "  other unfinished tasks of this worker at that moment:"
            for name, key, why in self.shown.rivals:
                yield from self._wrapped(f"{name}[{key}]: {why}", mark="- ")

    def _around(self, kill: Kill) -> Iterator[str]:
        proofs = {one.cursor for one in kill.evidence}
        most = max(40, self.width - 2) if self.width else None
        folded = 0
        before: Line | None = None
        for line in self.shown.lines:
            if before is not None and line.cursor not in proofs and _continues(line, before):
                folded += 1
                continue
            if folded:
                yield f"      … {folded} more line{'s' if folded > 1 else ''} of it"
            folded, before = 0, line
            text = printable(line.text)
            mark = "*" if line.cursor in proofs else " "
            shown = f"{mark} {self._clock(line.at)} {printable(line.who)}[{line.pid or '-'}]: {text}"
            cut = most if most is not None else 24 + len(line.who) + _MOST_TEXT + 40
            yield shown if len(shown) <= cut else shown[: cut - 1] + "…"
            if line.cursor in proofs:
                yield f"    {printable(line.cursor)}"
        if folded:
            yield f"      … {folded} more line{'s' if folded > 1 else ''} of it"

    def _reasons(self, reasons: tuple[str, ...]) -> Iterator[str]:
        return (line for reason in reasons for line in self._wrapped(reason, mark="- "))

    def _head(self, text: str) -> str:
        return f"\x1b[1m{text}\x1b[0m" if self.color else text

    def _wrapped(self, text: str, mark: str = "") -> Iterator[str]:
        if not text:
            return
        import textwrap  # noqa: PLC0415 - only here

        yield from textwrap.wrap(
            printable(text),
            width=self.width or 120,
            initial_indent=f"  {mark}",
            subsequent_indent="  " + " " * len(mark),
            break_long_words=False,
            break_on_hyphens=False,
        )

    def _at(self, text: str | None) -> str:
        if text is None:
            return "-"
        moment = dt.datetime.fromisoformat(text).astimezone(self.zone)
        return f"{moment:%Y-%m-%d %H:%M:%S}.{moment.microsecond // 1000:03d} {moment.tzname()}"

    def _clock(self, at: int) -> str:
        moment = dt.datetime.fromisoformat(timestamp(at)).astimezone(self.zone)
        return f"{moment:%m-%d %H:%M:%S}.{moment.microsecond // 1000:03d}"

    def _zone_name(self, kill: Kill) -> str:
        return str(dt.datetime.fromisoformat(timestamp(micros(kill.at))).astimezone(self.zone).tzname())
