"""What the words of a status column mean.

Rules of this file: a word is compared without regard to case, spaces, hyphens and underscores at its ends or between
its parts. A word that nobody explained is OTHER, and is remembered, so that it can be named to the user.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from kill_audit.errors import RunLogError
from kill_audit.reconcile import State

USUAL_WORDS: Final[Mapping[State, tuple[str, ...]]] = {
    State.OPEN: ("running", "started", "pending", "in_progress", "processing", "received", "queued"),
    State.DONE: ("success", "succeeded", "successful", "completed", "complete", "done", "finished", "ok"),
    State.FAILED: ("failed", "failure", "error", "errored", "crashed", "timeout", "timed_out"),
    State.REVOKED: ("revoked", "cancelled", "canceled", "aborted"),
    State.RETRY: ("retry", "retrying"),
}


def plain(word: str) -> str:
    """Bring a status word to the form in which words are compared.

    >>> plain(" In-Progress ")
    'in_progress'
    """
    return "_".join(word.casefold().replace("-", " ").replace("_", " ").split())


class StatusWords:
    """Status words and their states: the usual ones, and on top of them the user's.

    Args:
        given: by the name of a state (`open`, `done`, `failed`, `revoked`, `retry`, `other`), the words for it.

    Raises:
        RunLogError: a name in `given` is no state.
    """

    def __init__(self, given: Mapping[str, Sequence[str]] | None = None) -> None:
        self._states = {plain(word): state for state, words in USUAL_WORDS.items() for word in words}
        self._unknown: dict[str, None] = {}
        for name, words in (given or {}).items():
            if name not in tuple(State):
                raise RunLogError(
                    f"{name!r} is no state of a run", hint=f"give words for one of {', '.join(sorted(State))}"
                )
            self._states.update({plain(word): State(name) for word in words})

    def meaning(self, state: State) -> tuple[str, ...]:
        """Give the words for a state in all spellings that programs use, and the empty word if it may mean it."""
        plain_words = [word for word, meant in self._states.items() if meant is state]
        spaced = [word.replace("_", between) for word in plain_words for between in ("_", "-", " ", "")]
        cased = [form for word in spaced for form in (word, word.upper(), word.capitalize(), word.title())]
        return tuple(dict.fromkeys((*cased, *([""] if state in {State.OPEN, State.DONE} else []))))

    @property
    def unknown(self) -> tuple[str, ...]:
        """The words met so far that nobody explained, as they were written, in the order they were met."""
        return tuple(self._unknown)

    def state(self, word: str | None, *, finished: bool) -> State:
        """Say what a status means. Without any, a row is open until it has a finish time."""
        if word is None or not (form := plain(word)):
            return State.DONE if finished else State.OPEN
        state = self._states.get(form)
        if state is None:
            self._unknown[word] = None
            return State.OTHER
        return state

    def which_mean(self, state: State, words: Iterable[str]) -> tuple[str, ...]:
        """Give those of some words that mean a state; a blank one may mean that a run is open, or done."""
        blank = state if state in {State.OPEN, State.DONE} else None
        return tuple(word for word in words if (self._states.get(form) if (form := plain(word)) else blank) is state)
