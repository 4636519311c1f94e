"""Tell the report's advice what the units' settings are now."""

from collections.abc import Mapping

import msgspec

from kill_audit.document import Advice, UnitAdvice
from kill_audit.units.settings import UnitSettings


def informed(advice: Advice, known: Mapping[str, UnitSettings]) -> Advice:
    """Fill in the present values (`now`), and leave out what is as it should be by now.

    Args:
        advice: of the report.
        known: settings by unit, of the host that the report is about.
    """
    units = (_informed(one, known.get(one.unit)) for one in advice.units)
    return msgspec.structs.replace(advice, units=tuple(one for one in units if one is not None))


def _informed(advice: UnitAdvice, settings: UnitSettings | None) -> UnitAdvice | None:
    if settings is None:
        return advice
    now = {
        "KillMode": settings.kill_mode,
        "TimeoutStopSec": settings.timeout_stop,
        "OOMPolicy": settings.oom_policy,
    }.get(advice.setting)
    if now is None:
        return advice
    return None if now == advice.better else msgspec.structs.replace(advice, now=now)
