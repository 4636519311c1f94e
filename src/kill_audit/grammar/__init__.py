"""From entries to what was said: the visible order of grammars, and the columns of task lines.

Rules of this room: it parses and never decides. Nearly all lines of a worker are "received" and "succeeded"; they
become rows of columns, never an object each. Everything else worth knowing becomes one event.
"""

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np
import numpy.typing as npt

from kill_audit import events
from kill_audit.entry import Batch, Origin, Question, RawMessages
from kill_audit.events import MAX_TEXT, Seen, TaskLines
from kill_audit.grammar import celery, kernel, systemd
from kill_audit.grammar.frequent import sure_lines
from kill_audit.grammar.gathered import Gathered
from kill_audit.grammar.voice import Voice, voice_of
from kill_audit.grammar.windows import REACH

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
    """Recognise a batch: its task lines as columns, and its events with their rows, both in the batch's order.

    Services' lines are looked at as bytes first; those that surely say a frequent thing, or nothing, are done with.
    """
    voices = _voices(batch, question)
    asked = voices != _NUMBERS[Voice.OTHER]
    lines = Gathered()
    found: list[tuple[int, events.Event]] = []
    for raw in (batch.raw or partial(_joined, batch))(np.flatnonzero(voices == _NUMBERS[Voice.SERVICE])):
        sure = sure_lines(raw.buffer, raw.start, raw.length)
        asked[raw.rows[sure.which]] = False
        asked[raw.rows[sure.silent]] = False
        lines.add_sure(raw.rows, sure, raw.buffer)
    for row in np.flatnonzero(asked).tolist():
        message = batch.message[row]
        if message is None:
            continue
        voice = _VOICES[voices[row]]
        if voice is Voice.SERVICE:
            _service_line(batch, row, message, lines, found)
        elif voice is not Voice.KERNEL or kernel.may_matter(message):
            event = SYSTEM[voice](_seen(batch, row, message), batch.fields[row])
            if event is not None:
                found.append((row, event))
    return lines.taken(), tuple(found)


_WORTH_JOINING = 64  # lines; fewer are asked for one by one


def _joined(batch: Batch, rows: npt.NDArray[np.int64]) -> tuple[RawMessages, ...]:
    """Put messages that a batch has as text into one buffer of bytes."""
    if len(rows) < _WORTH_JOINING:
        return ()
    messages = [batch.message[row] for row in rows.tolist()]
    there = np.array([message is not None for message in messages], np.bool_)
    texts = [message.encode("utf-8", "surrogatepass") for message in messages if message is not None]
    length = np.fromiter(map(len, texts), np.int64, len(texts))
    buffer = np.frombuffer(b"".join((*texts, bytes(REACH))), np.uint8)
    return (RawMessages(buffer=buffer, rows=rows[there], start=np.cumsum(length) - length, length=length),)


_VOICES = tuple(Voice)
_NUMBERS: Mapping[Voice, int] = {voice: number for number, voice in enumerate(_VOICES)}
_PIDS = 3  # that matter to `voice_of`: none, PID 1, any other


def _voices(batch: Batch, question: Question) -> npt.NDArray[np.int8]:
    """Tell who speaks in each row, as a place in `_VOICES`."""
    pids = np.minimum(np.asarray(batch.pid, np.int64), _PIDS - 1)
    speakers = np.asarray(batch.origin, np.int64) * _PIDS + pids
    voices = np.zeros(len(batch.origins) * _PIDS, np.int8)
    for speaker in np.unique(speakers).tolist():
        code, pid = divmod(speaker, _PIDS)
        voices[speaker] = _NUMBERS[_voice(batch.origins[code], pid, question)]
    return voices[speakers]


def _voice(origin: Origin, pid: int, question: Question) -> Voice:
    voice = voice_of(origin, pid)
    if voice is Voice.SERVICE and origin.unit is not None and not question.wants_unit(origin.unit):
        return Voice.OTHER
    return voice


def _service_line(
    batch: Batch, row: int, message: str, lines: Gathered, found: list[tuple[int, events.Event]]
) -> None:
    recognised = celery.recognise(message, lambda: _seen(batch, row, message))
    if recognised is None:
        if not batch.origins[batch.origin[row]].vouched and any(word in message for word in systemd.SUPERVISORS_WORDS):
            found.extend((row, event) for event in systemd.supervisor(_seen(batch, row, message)))
        return
    said, made = recognised
    for one in made:
        if isinstance(one, celery.TaskLine):
            lines.add(row, one, said.process)
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
