"""From entries to what was said: the visible order of grammars, and the columns of task lines.

Rules of this room: it parses and never decides. Nearly all lines of a worker are "received" and "succeeded"; they
become rows of columns, never an object each. Everything else worth knowing becomes one event.
"""

from collections.abc import Callable, Mapping

from kill_audit import events
from kill_audit.entry import Batch, Origin, Question
from kill_audit.events import MAX_TEXT, Seen, TaskLines
from kill_audit.grammar import celery, kernel, systemd
from kill_audit.grammar.voice import Voice, voice_of

SYSTEM: Mapping[Voice, Callable[[Seen, Mapping[str, str]], events.Event | None]] = {
    Voice.MANAGER: systemd.manager,
    Voice.LOGIND: systemd.logind,
    Voice.JOURNALD: systemd.journald,
    Voice.COREDUMP: systemd.coredump,
    Voice.OOM_DAEMON: systemd.oom_daemon,
    Voice.SUDO: systemd.sudo,
    Voice.KERNEL: lambda seen, _fields: kernel.kernel(seen),
}
"""Which grammar reads whose words. Celery's reads a service's own lines."""


def recognise(batch: Batch, question: Question) -> tuple[TaskLines, tuple[tuple[int, events.Event], ...]]:
    """Recognise a batch: its task lines as columns, and its events with their rows, both in the batch's order."""
    columns: tuple[list[int], list[int], list[str], list[str], list[str], list[float]] = ([], [], [], [], [], [])
    found: list[tuple[int, events.Event]] = []
    voices: dict[tuple[int, bool], Voice] = {}
    for row, message in enumerate(batch.message):
        if message is None:
            continue
        code, pid = batch.origin[row], batch.pid[row]
        voice = voices.get((code, pid == 1))
        if voice is None:
            voice = voices[code, pid == 1] = _voice(batch.origins[code], pid, question)
        if voice is Voice.SERVICE:
            _service_line(batch, row, message, columns, found)
        elif voice is not Voice.OTHER:
            event = SYSTEM[voice](_seen(batch, row, message), batch.fields[row])
            if event is not None:
                found.append((row, event))
    rows, kinds, ids, names, processes, numbers = columns
    lines = TaskLines(row=rows, kind=kinds, task_id=ids, task_name=names, process=processes, number=numbers)
    return lines, tuple(found)


def _voice(origin: Origin, pid: int, question: Question) -> Voice:
    voice = voice_of(origin, pid)
    if voice is Voice.SERVICE and origin.unit is not None and not question.wants_unit(origin.unit):
        return Voice.OTHER
    return voice


def _service_line(
    batch: Batch,
    row: int,
    message: str,
    columns: tuple[list[int], list[int], list[str], list[str], list[str], list[float]],
    found: list[tuple[int, events.Event]],
) -> None:
    recognised = celery.recognise(message, lambda: _seen(batch, row, message))
    if recognised is None:
        exited = systemd.supervisor(_seen(batch, row, message)) if "exited: " in message else None
        if exited is not None:
            found.append((row, exited))
        return
    said, made = recognised
    for one in made:
        if isinstance(one, celery.TaskLine):
            rows, kinds, ids, names, processes, numbers = columns
            rows.append(row)
            kinds.append(int(one.kind))
            ids.append(one.task_id)
            names.append(one.task_name)
            processes.append(said.process)
            numbers.append(one.number)
        else:
            found.append((row, one))


def _seen(batch: Batch, row: int, message: str) -> Seen:
    fields = batch.fields[row]
    source = fields.get("_SOURCE_MONOTONIC_TIMESTAMP", "")
    return Seen(
        at=batch.realtime[row],
        monotonic=int(source) if source.isdecimal() else batch.monotonic[row],
        cursor=batch.cursor[row],
        text=message[:MAX_TEXT],
        pid=batch.pid[row],
        origin=batch.origins[batch.origin[row]],
    )
