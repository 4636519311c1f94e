"""The shortcut for frequent lines: "received", "succeeded", what pool processes say, and what is no worker's at all.

The patterns of `celery` are the definition. This looks at the bytes of thousands of lines at once, and says of a line
either surely what the patterns would say, or nothing: then they are asked. It knows Celery's default log format
(celery/app/defaults.py: worker_log_format, worker_task_log_format) and task ids that are UUIDs in their usual form.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Final

import numpy as np
import numpy.typing as npt

from kill_audit.events import Line
from kill_audit.grammar.celery import is_child
from kill_audit.grammar.ids import ID_BYTES, are_uuids, hashes_of
from kill_audit.grammar.silent import OWN_LOGGERS, RECORD_BEGINNINGS, are_silent
from kill_audit.grammar.windows import (
    KEEP_8,
    REACH,
    WINDOW,
    Buffer,
    Bytes,
    Distinct,
    Flags,
    Ints,
    Words,
    begin_with,
    hashed,
    kept,
    word,
)

_BLOCK: Final = 8192  # lines looked at together, so that their windows stay in the processor's cache
_ID: Final = 36


@dataclass(frozen=True, slots=True)
class Sure:
    """Lines of which it is sure what they say, in columns like those of `events.TaskLines`.

    `which`: places among the lines that were asked about, in any order. `id_at`: where the 36 bytes of the id begin in
    the buffer (0 for HEARD lines); `id_hash`: the id's hash (see `ids`; 0 for HEARD lines). `name`, `process`: places
    in `names` and `processes`; -1 for a HEARD line's name. `silent`: places of lines of which it is sure that they say
    nothing, neither of a task nor of anything else.
    """

    which: Ints
    kind: npt.NDArray[np.int8]
    id_at: Ints
    id_hash: Words
    name: npt.NDArray[np.int32]
    process: npt.NDArray[np.int32]
    number: npt.NDArray[np.float64]
    names: Sequence[str]
    processes: Sequence[str]
    silent: Ints


def sure_lines(buffer: Bytes, start: Ints, length: Ints) -> Sure:
    """Say which lines are surely frequent ones, and what they say.

    Args:
        buffer: the bytes that hold the lines.
        start: where each line begins in it.
        length: how many bytes each has.
    """
    text = Buffer(buffer)
    names, processes = Distinct(text, _name_of), Distinct(text, _process_of)
    found, silent = [_Found.nothing()], [np.empty(0, np.int64)]
    inside = np.flatnonzero(start + length + REACH <= len(buffer))
    for begin in range(0, len(inside), _BLOCK):
        block = inside[begin : begin + _BLOCK]
        stamped, lines = _prefixed(text, block, start[block], length[block], processes)
        task = text.words(lines.at) & KEEP_8[len(_TASK)] == word(_TASK)
        found += _of_tasks(text, lines.only(task), names)
        others = lines.only(~task)
        of_child = np.array([is_child(name) for name in processes.words], np.bool_)[others.process]
        found += _of_children(text, others.only(of_child), names)
        mains = others.only(~of_child)
        silent.append(mains.which[_say_nothing_else(text, mains)])
        bare = block[~stamped]
        silent.append(bare[are_silent(text, start[bare], length[bare])])
    whole = _Found.joined(found)
    return Sure(
        which=whole.which,
        kind=whole.kind,
        id_at=whole.id_at,
        id_hash=whole.id_hash,
        name=whole.name,
        process=whole.process,
        number=whole.number,
        names=names.words,
        processes=processes.words,
        silent=np.concatenate(silent),
    )


_NAME: Final = re.compile(rb"[A-Za-z_][\w.-]*")
_LEVEL_PROCESS: Final = re.compile(rb"[A-Z]+/([\w-]+)")


def _name_of(raw: bytes) -> str | None:
    """Give a task's name, if it is one of the usual form."""
    return raw.decode("ascii") if _NAME.fullmatch(raw) else None


def _process_of(raw: bytes) -> str | None:
    """Give the process of `LEVEL/process`."""
    match = _LEVEL_PROCESS.fullmatch(raw)
    return None if match is None else match[1].decode("ascii")


# -- a line's parts ---------------------------------------------------------

_STAMP: Final = b"[0000-00-00 00:00:00,000"  # 0: any digit
_STAMP_END: Final = word(b": ")
_TEXT_AT: Final = len(_STAMP) + 2


def _stamp_words() -> Iterable[tuple[int, int, int]]:
    """Give for each word of a stamp the mask of fixed bits, their values, and the mask of digits' high halves."""
    for begin in range(0, len(_STAMP), 8):
        text = _STAMP[begin : begin + 8]
        digits = bytes(0xF0 if byte == 0x30 else 0 for byte in text)
        fixed = bytes(0xF0 if byte == 0x30 else 0xFF for byte in text)
        yield word(fixed), word(text), word(digits)


_STAMP_WORDS: Final = tuple(_stamp_words())
_SIXES: Final = np.uint64(0x0606_0606_0606_0606)


def _are_stamped(window: Bytes) -> Flags:
    """Tell of each line's first bytes whether they are `[YYYY-MM-DD hh:mm:ss,mmm: `."""
    words = window.view(np.uint64)
    good: Flags = words[:, 3] & np.uint64(0xFFFF) == _STAMP_END
    for place, (fixed, values, digits) in enumerate(_STAMP_WORDS):
        word = words[:, place]
        good &= word & np.uint64(fixed) == values
        good &= (word + _SIXES) & np.uint64(digits) == values & digits  # no digit is above 9
    return good


@dataclass(slots=True)
class _Lines:
    """Lines with the default prefix: their places, their processes, and where their texts begin and end."""

    which: Ints
    process: npt.NDArray[np.int32]
    at: Ints
    end: Ints

    def only(self, chosen: Flags | Ints) -> "_Lines":
        return _Lines(self.which[chosen], self.process[chosen], self.at[chosen], self.end[chosen])


def _prefixed(text: Buffer, which: Ints, start: Ints, length: Ints, processes: Distinct) -> tuple[Flags, _Lines]:
    """Tell which lines begin with a stamp, and find those with the whole default prefix, `[stamp: LEVEL/process] `."""
    window = text.window(start, WINDOW)
    stamped = _are_stamped(window) & (length > _TEXT_AT)
    good = np.flatnonzero(stamped)
    window, begin = window[good], start[good]
    close = (window[:, _TEXT_AT:] == ord("]")).argmax(axis=1) + _TEXT_AT
    whole = (close > _TEXT_AT) & (close + 2 <= length[good]) & (text.data[begin + close + 1] == ord(" "))
    hashes = hashed(np.ascontiguousarray(window[:, 24:]), close - 24)
    process = processes.codes(hashes, begin + _TEXT_AT, close - _TEXT_AT)
    lines = _Lines(which[good], process, begin + close + 2, begin + length[good])
    return stamped, lines.only(whole & (process >= 0))


# -- what a line says -------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Found:
    """Lines that are sure, in columns."""

    which: Ints
    kind: npt.NDArray[np.int8]
    id_at: Ints
    id_hash: Words
    name: npt.NDArray[np.int32]
    process: npt.NDArray[np.int32]
    number: npt.NDArray[np.float64]

    @classmethod
    def of(
        cls, text: Buffer, kind: Line, lines: _Lines, name: "_Names", number: npt.NDArray[np.float64] | None = None
    ) -> "_Found":
        """Keep the lines whose id is a UUID and whose name is sure."""
        window = text.window(name.id_at, ID_BYTES)
        good = np.flatnonzero(are_uuids(window) & (name.code >= 0))
        return cls(
            which=lines.which[good],
            kind=np.full(len(good), kind, np.int8),
            id_at=name.id_at[good],
            id_hash=hashes_of(window[good]),
            name=name.code[good],
            process=lines.process[good],
            number=np.zeros(len(good)) if number is None else number[good],
        )

    @classmethod
    def heard(cls, lines: _Lines) -> "_Found":
        """Keep lines that show only that their process lives."""
        size = len(lines.which)
        return cls(
            which=lines.which,
            kind=np.full(size, Line.HEARD, np.int8),
            id_at=np.zeros(size, np.int64),
            id_hash=np.zeros(size, np.uint64),
            name=np.full(size, -1, np.int32),
            process=lines.process,
            number=np.zeros(size),
        )

    @classmethod
    def joined(cls, parts: Sequence["_Found"]) -> "_Found":
        """Put lines together."""
        return cls(*(np.concatenate([getattr(part, one.name) for part in parts]) for one in fields(cls)))

    @classmethod
    def nothing(cls) -> "_Found":
        """Give no lines."""
        return cls(
            which=np.empty(0, np.int64),
            kind=np.empty(0, np.int8),
            id_at=np.empty(0, np.int64),
            id_hash=np.empty(0, np.uint64),
            name=np.empty(0, np.int32),
            process=np.empty(0, np.int32),
            number=np.empty(0),
        )


@dataclass(frozen=True, slots=True)
class _Names:
    """What `NAME[ID]` says: the name's number, and where the id begins."""

    code: npt.NDArray[np.int32]
    id_at: Ints

    def only(self, chosen: Flags) -> "_Names":
        return _Names(self.code[chosen], self.id_at[chosen])


def _of_tasks(text: Buffer, lines: _Lines, names: Distinct) -> Iterable[_Found]:
    """Find what lines say that begin with `Task NAME[ID]`."""
    received = _end_with(text, lines, _RECEIVED)
    yield _received(text, lines.only(received), names)
    lines, name, after = _named(text, lines.only(~received), len(_TASK), names)
    for ending, make in ((_SUCCEEDED, _succeeded), (_RAISED, _raised), (_RETRIED, _retried)):
        ours = _go_on_with(text, after, ending)
        yield make(text, lines.only(ours), name.only(ours), after[ours] + len(ending))


def _of_children(text: Buffer, lines: _Lines, names: Distinct) -> Iterable[_Found]:
    """Find what pool processes say: a line that names its task in the default way, or anything else."""
    own, name, after = _named(text, lines, 0, names)
    spoke = _go_on_with(text, after, _SPOKE)
    yield _Found.of(text, Line.SPOKE, own.only(spoke), name.only(spoke))
    yield _Found.heard(lines.only(_say_nothing_else(text, lines)))


_TASK: Final = b"Task "
_RECEIVED: Final = b"] received"
_SUCCEEDED: Final = b"] succeeded in "
_RAISED: Final = b"] raised unexpected: "
_RETRIED: Final = b"] retry: Retry in "
_SPOKE: Final = b"]: "


def _end_with(text: Buffer, lines: _Lines, ending: bytes) -> Flags:
    """Tell which lines end with a text of 9 to 16 bytes."""
    rest = 16 - len(ending)
    last: Flags = text.words(lines.end - 8) == word(ending[-8:])
    last &= text.words(lines.end - 16) >> np.uint64(8 * rest) == word(ending[:-8])
    return last & (lines.end - lines.at > len(_TASK) + _ID + len(ending) + 2)


def _go_on_with(text: Buffer, at: Ints, words: bytes) -> Flags:
    """Tell where a text lies."""
    good = np.ones(len(at), np.bool_)
    for begin in range(0, len(words), 8):
        piece = words[begin : begin + 8]
        good &= text.words(at + begin) & KEEP_8[len(piece)] == word(piece)
    return good


def _received(text: Buffer, lines: _Lines, names: Distinct) -> _Found:
    """`Task NAME[ID] received`: the id stands at a fixed distance from the line's end."""
    id_at = lines.end - len(_RECEIVED) - _ID
    at = lines.at + len(_TASK)
    size = id_at - 1 - at
    good = np.flatnonzero((text.data[id_at - 1] == ord("[")) & (size <= WINDOW))
    lines, id_at, at, size = lines.only(good), id_at[good], at[good], size[good]
    code = names.codes(hashed(text.window(at, WINDOW), size), at, size)
    return _Found.of(text, Line.RECEIVED, lines, _Names(code, id_at))


def _named(text: Buffer, lines: _Lines, skip: int, names: Distinct) -> tuple[_Lines, _Names, Ints]:
    """Find the lines that go on, after `skip` bytes, with `NAME[` and room for an ID; also where the ID must end."""
    at = lines.at + skip
    window = text.window(at, WINDOW)
    size = (window == ord("[")).argmax(axis=1)
    good = np.flatnonzero((size > 0) & (at + size + 1 + _ID < lines.end))
    code = names.codes(hashed(window[good], size[good]), at[good], size[good])
    id_at = (at + size + 1)[good]
    return lines.only(good), _Names(code, id_at), id_at + _ID


def _succeeded(text: Buffer, lines: _Lines, name: _Names, after: Ints) -> _Found:
    """`Task NAME[ID] succeeded in SECONDSs: RESULT`."""
    number, stop = _seconds(text, after, lines.end)
    good = (number >= 0) & ((stop + 1 == lines.end) | (text.data[stop + 1] == ord(":")))
    return _Found.of(text, Line.SUCCEEDED, lines.only(good), name.only(good), number[good])


def _raised(text: Buffer, lines: _Lines, name: _Names, after: Ints) -> _Found:
    """`Task NAME[ID] raised unexpected: EXCEPTION`, but for the exceptions that tell of a kill."""
    window = kept(text.window(after, WINDOW), np.clip(lines.end - after, 0, WINDOW)).view(np.uint8)
    called = (window == ord("(")).any(axis=1) | (lines.end - after < WINDOW)  # then its whole name is in the window
    good = called & ~_mention(window, (b"WorkerLostError", b"Terminated")) & (after <= lines.end)
    return _Found.of(text, Line.RAISED, lines.only(good), name.only(good))


def _retried(text: Buffer, lines: _Lines, name: _Names, after: Ints) -> _Found:
    """`Task NAME[ID] retry: Retry in SECONDSs: EXCEPTION`, but for the exception that tells of a kill."""
    number, stop = _seconds(text, after, lines.end)
    window = kept(text.window(stop, WINDOW), np.clip(lines.end - stop, 0, WINDOW)).view(np.uint8)
    good = (number >= 0) & ~_mention(window, (b"WorkerLostError",))
    good &= (stop + 1 == lines.end) | (window[:, 1] == ord(":"))
    return _Found.of(text, Line.RETRIED, lines.only(good), name.only(good), number[good])


def _mention(window: Bytes, words: Iterable[bytes]) -> Flags:
    """Tell in which rows of a window one of some words stands."""
    texts = window.view(f"S{window.shape[1]}").reshape(-1)
    found = np.zeros(len(texts), np.bool_)
    for one in words:
        found |= np.strings.find(texts, one) >= 0
    return found


def _say_nothing_else(text: Buffer, lines: _Lines) -> Flags:
    """Tell which texts behind a prefix are no record of Celery's and no JSON, and name no task before a colon."""
    words = kept(text.window(lines.at, WINDOW), np.minimum(lines.end - lines.at, WINDOW))
    window = words.view(np.uint8)
    good = ~begin_with(words[:, 0], (*RECORD_BEGINNINGS, *OWN_LOGGERS)) & (window[:, 0] != ord("{"))
    good &= ~((window == ord("@")) | (window == 0x1B)).any(axis=1)
    bracket, colon = window == ord("["), (window == ord(":")) | (window == ord("]"))
    opens, closes = bracket.any(axis=1), colon.any(axis=1)
    whole = lines.end - lines.at <= WINDOW
    unnamed = np.where(closes, ~opens | (colon.argmax(axis=1) < bracket.argmax(axis=1)), whole & ~opens)
    sure: Flags = good & unnamed & (whole | (window == ord(" ")).any(axis=1))
    return sure


# -- numbers ------------------------------------------------------------------

_WIDEST: Final = 32  # bytes of a number at most, with its point
_MOST_PLACES: Final = 24
_PLACES: Final = np.arange(_WIDEST)
_TENS: Final = 10 ** np.arange(9, dtype=np.uint64)
_LONG_TENS: Final = np.array([np.longdouble(10) ** place for place in range(_MOST_PLACES + 1)])
_X87: Final = np.finfo(np.longdouble).nmant == 63


def _seconds(text: Buffer, at: Ints, end: Ints) -> tuple[npt.NDArray[np.float64], Ints]:
    """Read decimal numbers that an `s` ends, and give where it stands; -1 where there is not surely one."""
    window = text.window(at, _WIDEST)
    pointed, stop = window == ord("."), (window == ord("s")).argmax(axis=1)
    point = np.where(pointed.any(axis=1), pointed.argmax(axis=1), stop)
    digits = (window - np.uint8(ord("0")) <= 9) & (stop[:, None] > _PLACES)
    good = (digits.sum(axis=1) == stop - (point < stop)) & (point > 0) & (point <= 8) & (at + stop < end)
    good &= (point != stop - 1) & (stop - point - 1 <= _MOST_PLACES)
    point, places = np.where(good, point, 1), np.where(good, np.maximum(stop - point - 1, 0), 0)
    value = _decimal(text.words(at), point)
    for begin in range(0, _MOST_PLACES, 8):
        size = np.clip(places - begin, 0, 8)
        good &= (value + 1.0) * _TENS[size] < 1 << 63  # so that all its digits fit into 64 bits
        value = value * _TENS[size] + _decimal(text.words(at + point + 1 + begin), size)
    seconds, sure = _quotients(value, places)
    return np.where(good & sure, seconds, -1.0), at + stop


def _quotients(value: Words, places: Ints) -> tuple[npt.NDArray[np.float64], Flags]:
    """Divide integers by powers of ten, and tell where the result is surely the nearest number of 64 bits.

    It is rounded twice, to the 64 bits of mantissa that x87 registers have and then to 53. That is not as good as once
    only where the first result lies just between two of the second kind.
    """
    if not _X87:
        texts = [f"{number}e-{place}" for number, place in zip(value.tolist(), places.tolist(), strict=True)]
        return np.array(texts, dtype=np.float64), np.ones(len(value), np.bool_)
    wide = value.astype(np.longdouble) / _LONG_TENS[places]
    mantissa = wide.view(np.uint64).reshape(-1, 2)[:, 0]
    return wide.astype(np.float64), mantissa & np.uint64(0x7FF) != 0x400


def _decimal(words: Words, size: Ints) -> Words:
    """Read the first up to 8 bytes of words as decimal digits: pairs, then fours, then all at once."""
    value = np.where(size > 0, words << (64 - 8 * np.maximum(size, 1)).astype(np.uint64), np.uint64(0))
    value &= np.uint64(0x0F0F_0F0F_0F0F_0F0F)
    value = value * np.uint64(10 << 8 | 1) >> np.uint64(8) & np.uint64(0x00FF_00FF_00FF_00FF)
    value = value * np.uint64(100 << 16 | 1) >> np.uint64(16) & np.uint64(0x0000_FFFF_0000_FFFF)
    return value * np.uint64(10000 << 32 | 1) >> np.uint64(32)
