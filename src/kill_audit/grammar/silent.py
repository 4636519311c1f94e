"""Which texts surely say nothing that any grammar of a service's lines reads: no record of Celery's, no supervisor's.

The definition is `celery.record` with its patterns, and `systemd.supervisor`. A text is left to them if it begins as
something does that they know, or has such a beginning behind what may end a log prefix.
"""

from typing import Final

import numpy as np

from kill_audit.grammar.systemd import SUPERVISORS_WORDS
from kill_audit.grammar.windows import Buffer, Bytes, Flags, Ints, begin_with, kept, word

_WIDTHS: Final = (64, 128, 208)  # a log prefix has at most 200 characters (see `celery.record`)

RECORD_BEGINNINGS: Final = (
    b"Task", b"Rece", b"Got ", b"Argu", b"Soft", b"Hard", b"Term", b"Disc", b"Coul", b"Proc", b"Time", b"chil",
    b"work", b"Rest", b"Requ", b"Init", b"Erro", b"Unre", b"cons",
)  # fmt: skip
"""What the texts of Celery's records begin with. (A node's name, which may begin in any way, has an @ in it.)"""

OWN_LOGGERS: Final = (b"cele", b"bill", b"komb", b"mult")
"""What the names of Celery's loggers begin with; one may stand between the default prefix and a record."""

_LINE_BEGINNINGS: Final = (
    *RECORD_BEGINNINGS, b"cele", b"Work", b"DEBU", b"INFO", b"WARN", b"ERRO", b"CRIT", b"----", b" ---",
)  # fmt: skip
_FIRST_BYTES: Final = b"{>\t\x1b"
_KEY_WIDTH: Final = 16  # of a logfmt line's first key, with its `=`
_READY: Final = b" ready."


def are_silent(text: Buffer, at: Ints, length: Ints) -> Flags:
    """Tell of each text whether it surely says nothing; `REACH` bytes must follow on each in the buffer."""
    silent = np.zeros(len(at), np.bool_)
    shorter = 0
    for width in _WIDTHS:
        chosen = np.flatnonzero((length > shorter) & ((length <= width) | (width == _WIDTHS[-1])))
        silent[chosen] = _are_silent(text, at[chosen], length[chosen], width)
        shorter = width
    silent |= length == 0
    return silent


def _are_silent(text: Buffer, at: Ints, length: Ints, width: int) -> Flags:
    words = kept(text.window(at, width), np.minimum(length, width))
    window = words.view(np.uint8)
    last = text.words(at + length - 8) >> np.uint64(8)
    loud: Flags = (length >= len(_READY)) & (last == word(_READY))
    loud |= begin_with(words[:, 0], _LINE_BEGINNINGS)
    for byte in _FIRST_BYTES:
        loud |= window[:, 0] == byte
    loud |= (window == 0x1B).any(axis=1)
    loud |= (window[:, 0] == ord("[")) & _is_digit(window[:, 1])
    loud |= (length > width) & (window >= 0x80).any(axis=1)  # then 200 characters may be more bytes than these
    blank = np.flatnonzero((window[:, 0] == ord(" ")) | (window[:, 0] == ord("-")) | (window[:, 0] == ord("*")))
    loud[blank] |= _draw_a_banner(window[blank])
    numbered = np.flatnonzero(_is_digit(window[:, 0]))
    heads = window[numbered, :64].copy().view("S64").reshape(-1)
    for beginning in SUPERVISORS_WORDS:
        loud[numbered] |= np.strings.find(heads, beginning.encode()) >= 0
    loud |= (window[:, :_KEY_WIDTH] == ord("=")).any(axis=1)  # logfmt, perhaps
    row, place = np.nonzero(_boundaries(window))
    loud[row[begin_with(text.words(at[row] + place + 2), RECORD_BEGINNINGS)]] = True
    row, place = np.nonzero(_words_and_colons(window[numbered]))  # only behind a stamp may a record stand unmarked
    loud[numbered[row[begin_with(text.words(at[numbered[row]] + place + 1), RECORD_BEGINNINGS)]]] = True
    silent: Flags = ~loud
    return silent


def _boundaries(window: Bytes) -> Flags:
    """Tell where a byte stands that may end a log prefix, with a blank behind it."""
    ends = window == ord("]")
    for byte in b")>|:-":
        ends |= window == byte
    found: Flags = ends[:, :-1] & (window[:, 1:] == ord(" "))
    return found


def _words_and_colons(window: Bytes) -> Flags:
    """Tell where a blank or a colon stands."""
    found: Flags = (window[:, :-1] == ord(" ")) | (window[:, :-1] == ord(":"))
    return found


def _is_digit(column: Bytes) -> Flags:
    digit: Flags = column - np.uint8(ord("0")) <= 9
    return digit


def _draw_a_banner(window: Bytes) -> Flags:
    """Tell which texts go on, after stars, dashes and blanks, with a dot (`.> concurrency:`)."""
    drawn = (window == ord(" ")) | (window == ord("-")) | (window == ord("*"))
    first = (~drawn).argmax(axis=1)
    dotted = window[np.arange(len(window)), first] == ord(".")
    banner: Flags = dotted | drawn.all(axis=1)
    return banner
