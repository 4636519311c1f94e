"""Numbers and orders that several forms show: worst first, by cause, by unit and deploy, by task.

All are derived from the document's lists, so that a filtered document adds up.
"""

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass

from kill_audit.document import CoverageProblem, Deploy, Document, Kill

LONGEST = 10  # how many of the longest runs stand first
UNSETTLED_ROWS = ("missing", "stuck")  # the verdicts that somebody has to act on

NO_UNIT = "(no unit)"
NO_NAME = "(not named)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """One line of a table of kills: how many, of them without a row, of them with a row stuck open.

    `lost_s`: seconds of work lost, None where no run's length is known. `before`: kills in the period before.
    """

    key: str
    kills: int
    missing: int
    stuck: int
    lost_s: float | None
    before: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeployShare:
    """The kills of one deploy window by unit, most first; `deploy` is None for those outside any window."""

    deploy: Deploy | None
    by_unit: tuple[tuple[str, int], ...]

    @property
    def kills(self) -> int:
        """The kills of all units together."""
        return sum(number for _, number in self.by_unit)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hole:
    """A coverage problem once, with every place (`UNIT on HOST`) that has it."""

    problem: CoverageProblem
    places: tuple[str, ...]


def worst_first(document: Document) -> tuple[tuple[Kill, ...], tuple[Kill, ...]]:
    """Split the kills: the ten longest that somebody has to act on, and all others by time.

    Without a run log every kill may be one to act on. Accepted kills are in neither: see `accepted`.
    """
    kills = [kill for kill in document.kills if kill.accepted is None]
    urgent = [kill for kill in kills if document.run_log is None or kill.verdict in UNSETTLED_ROWS]
    longest = tuple(sorted(urgent, key=lambda kill: (-(kill.ran_for_s or 0.0), kill.at, kill.id))[:LONGEST])
    first = {kill.id for kill in longest}
    rest = sorted((kill for kill in kills if kill.id not in first), key=lambda kill: (kill.at, kill.id))
    return longest, tuple(rest)


def accepted(document: Document) -> tuple[Kill, ...]:
    """The kills that are accepted as known, by time."""
    kills = (kill for kill in document.kills if kill.accepted is not None)
    return tuple(sorted(kills, key=lambda kill: (kill.at, kill.id)))


def by_cause(document: Document) -> tuple[Share, ...]:
    """The kills by cause, most first; a cause that only the period before had stands there with 0."""
    before = document.previous.by_cause if document.previous else None
    return _shares(document.kills, [kill.cause for kill in document.kills], before)


def by_task(document: Document, *, compared: bool = False) -> tuple[Share, ...]:
    """The kills by task name, most first; `compared` with the period before, also those that only that one had."""
    before = None
    if compared and document.previous:
        before = {name or NO_NAME: number for name, number in document.previous.by_task.items()}
    return _shares(document.kills, [kill.task.name or NO_NAME for kill in document.kills], before)


def by_deploy(document: Document) -> tuple[DeployShare, ...]:
    """The kills by deploy window and unit, windows by time; those outside any window come last, if there are any."""
    counts = Counter((kill.deploy, kill.unit or NO_UNIT) for kill in document.kills)
    windows: list[Deploy | None] = [*sorted(document.deploys, key=lambda deploy: (deploy.since, deploy.id))]
    known = {deploy.id for deploy in document.deploys}
    shares = [_deploy_share(window, counts, {window.id} if window else set()) for window in windows]
    outside = _deploy_share(None, counts, {deploy for deploy, _ in counts if deploy not in known})
    return (*shares, outside) if outside.by_unit else tuple(shares)


def deploys_with_kills(document: Document) -> tuple[int, int]:
    """How many kills lie in deploy windows, and in how many windows."""
    windows = [kill.deploy for kill in document.kills if kill.deploy is not None]
    return len(windows), len(set(windows))


def holes(document: Document) -> tuple[Hole, ...]:
    """The coverage problems, each once, in the order of the document."""
    places: dict[tuple[str, str, str | None, str | None], tuple[CoverageProblem, dict[str, None]]] = {}
    for source in document.coverage.sources:
        where = place(source.unit, source.host) or source.source
        for problem in source.problems:
            key = (problem.code, problem.detail, problem.since, problem.until)
            places.setdefault(key, (problem, {}))[1][where] = None
    return tuple(Hole(problem=problem, places=tuple(where)) for problem, where in places.values())


def place(unit: str | None, host: str | None) -> str:
    """Name where something happened: `celery@a.service on web1`."""
    return f"{unit} on {host}" if unit and host else unit or host or ""


def _shares(kills: tuple[Kill, ...], keys: list[str], before: dict[str, int] | None) -> tuple[Share, ...]:
    rows: dict[str, list[Kill]] = {key: [] for key in before or ()}
    for kill, key in zip(kills, keys, strict=True):
        rows.setdefault(key, []).append(kill)
    shares = (_share(key, of, None if before is None else before.get(key, 0)) for key, of in rows.items())
    return tuple(sorted(shares, key=lambda share: (-share.kills, -(share.before or 0), share.key)))


def _share(key: str, kills: list[Kill], before: int | None) -> Share:
    verdicts = Counter(kill.verdict for kill in kills)
    lengths = [kill.ran_for_s for kill in kills if kill.ran_for_s is not None]
    return Share(
        key=key,
        kills=len(kills),
        missing=verdicts["missing"],
        stuck=verdicts["stuck"],
        lost_s=sum(lengths) if lengths else None,
        before=before,
    )


def _deploy_share(
    window: Deploy | None,
    counts: Counter[tuple[str | None, str]],
    ids: Collection[str | None],
) -> DeployShare:
    units: Counter[str] = Counter()
    for (deploy, unit), number in counts.items():
        if deploy in ids:
            units[unit] += number
    ordered = sorted(units.items(), key=lambda item: (-item[1], item[0]))
    return DeployShare(deploy=window, by_unit=tuple(ordered))
