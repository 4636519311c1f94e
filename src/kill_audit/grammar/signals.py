"""Signal names and numbers of Linux, as systemd, Python and billiard print them."""

import signal

_NUMBERS = {name.removeprefix("SIG"): member.value for name, member in signal.Signals.__members__.items()}
_NAMES = {member.value: member.name for member in signal.Signals}


def signal_number(text: str) -> int | None:
    """Read `SIGKILL`, `KILL` or `9`; None for anything else."""
    if text.isdecimal():
        return int(text)
    return _NUMBERS.get(text.upper().removeprefix("SIG"))


def signal_name(number: int | None) -> str | None:
    """Name a signal as kill(1) does (`SIGKILL`), never as billiard's alias of the same number (`SIG_SETMASK`)."""
    return None if number is None else _NAMES.get(number, f"SIG{number}")
