"""One thing that the doctor looked at."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

State = Literal["ok", "warn", "fail"]
STATUS: dict[State, int] = {"ok": 0, "warn": 1, "fail": 2}


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """What was looked at, how it stands, and what to type. `more`: lines that belong to it, such as sample rows."""

    name: str
    state: State
    detail: str
    fix: str | None = None
    more: tuple[str, ...] = ()


def worst(checks: Iterable[Check]) -> State:
    """The state of the worst check."""
    return max((check.state for check in checks), key=lambda state: STATUS[state], default="ok")
