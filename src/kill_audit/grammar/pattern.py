"""The one shape every pattern has, so that each carries its source, what it must match and what it must not."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Pattern:
    """One thing a program writes.

    `regex` is matched at the start of the text. `upstream`: the file that writes it, with versions where they differ.
    `make` turns a match and its context into what the grammar yields; `is_event` False: it never makes an event, and
    needs no evidence kept (task lines, of which there are millions). `samples` must match, `near_misses` must not.
    """

    name: str
    upstream: str
    regex: re.Pattern[str]
    make: Callable[..., Any]
    samples: tuple[str, ...]
    near_misses: tuple[str, ...]
    is_event: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class PatternTable:
    """Patterns, first match wins; found by the text's first word where all of a pattern's texts begin with one.

    `by_word` holds each word's patterns in the order of the table, `always` those that begin in any way.
    """

    patterns: tuple[Pattern, ...]
    by_word: dict[str, tuple[Pattern, ...]]
    always: tuple[Pattern, ...]

    def find(self, text: str) -> tuple[Pattern, re.Match[str]] | None:
        """Return the first pattern that matches `text`, and its match."""
        word = text[:24].split(" ", 1)[0]
        for pattern in self.by_word.get(word, self.always):
            match = pattern.regex.match(text)
            if match is not None:
                return pattern, match
        return None


def table(*patterns: Pattern) -> PatternTable:
    """Index patterns by the first word that their regexes begin with literally."""
    words: dict[str, list[Pattern]] = {}
    always: list[Pattern] = []
    for pattern in patterns:
        word = re.match(r"[A-Za-z']+(?= )", pattern.regex.pattern.replace("\\ ", " "))
        for known in words if word is None else ():
            words[known].append(pattern)
        if word is None:
            always.append(pattern)
        else:
            words.setdefault(word[0], list(always)).append(pattern)
    return PatternTable(
        patterns=patterns, by_word={word: tuple(found) for word, found in words.items()}, always=tuple(always)
    )
