"""`html`: the report as one page that needs nothing else: no network, no server, no script to be readable.

Rules of the page: whatever came from journals and databases is text (jinja2 escapes every value; the templates hold no
`|safe`), and a strict Content-Security-Policy allows only the page's own style and script, by their hashes. Colours
repeat what words and numbers say. Without the script everything can be read; with it kills can be sorted and filtered.
"""

import base64
import hashlib
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from kill_audit import texts
from kill_audit.document import Document, Kill
from kill_audit.render import figures, sentences
from kill_audit.render.chart import chart
from kill_audit.render.figures import place
from kill_audit.render.sentences import named_by, ran_for, reference
from kill_audit.render.view import Clock, View, count, span

HEAT_STEPS = 5


def render(document: Document, view: View) -> str:
    """Write the page; with `view.explain` the glossary is unfolded."""
    clock = Clock.over(document, view.zone)
    longest, rest = figures.worst_first(document)
    style, script = _asset("page.css"), _asset("page.js")
    return _environment().get_template("page.html").render(
        document=document,
        clock=clock,
        explain=view.explain,
        style=Markup(style),  # noqa: S704 - the package's own file
        script=Markup(script),  # noqa: S704 - the package's own file
        style_hash=_digest(style),
        script_hash=_digest(script),
        headline=sentences.headline(document),
        tiles=_tiles(document),
        units=sentences.units(document),
        coverage=sentences.coverage(document),
        holes=figures.holes(document),
        run_log=sentences.run_log(document.run_log),
        chart=chart(document, clock),
        heat=_heat(document),
        by_task=figures.by_task(document),
        kills=(*longest, *rest, *figures.accepted(document)),
        filters=_filters(document),
        stale=sentences.stale(document, clock),
        besides=sentences.besides(document),
        advice=[
            *map(sentences.drain, document.advice.drain),
            *sentences.unit_advice(document.advice.units),
        ],
        steps=sentences.next_steps(document, explained=True),
        glossary=sentences.explained(document),
        known=texts.load(),
    )  # fmt: skip


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("kill_audit.render"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {
        "span": span,
        "place": _place,
        "reference": reference,
        "ran_for": ran_for,
        "named_by": named_by,
    }
    environment.globals |= {"count": count, "deploy_label": _deploy_label}
    return environment


@cache
def _asset(name: str) -> str:
    return resources.files("kill_audit.render").joinpath("templates", name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    """The hash of an inline element's text, as a Content-Security-Policy writes it (CSP Level 3, section 2.3.1)."""
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode("ascii")


def _place(thing: Any) -> str:
    return place(thing.unit, thing.host) or figures.NO_UNIT


def _deploy_label(document: Document, kill: Kill) -> str:
    """The label of the kill's deploy window; empty outside any."""
    return next((deploy.label for deploy in document.deploys if deploy.id == kill.deploy), kill.deploy or "")


def _tiles(document: Document) -> list[tuple[int, str, str]]:
    """The numbers at the top: how many, of what, and how urgent (`bad`, `warn` or nothing)."""
    verdicts = [kill.verdict for kill in document.kills]
    tiles = [(len(document.kills), "killed", "")]
    if document.run_log is not None:
        tiles += [
            (verdicts.count("missing"), "no run row", "bad"),
            (verdicts.count("stuck"), "row stuck open", "bad"),
            (len(document.ghosts), "ghost rows" if len(document.ghosts) != 1 else "ghost row", "warn"),
        ]
    tiles.append(
        (len(document.blind_deaths), "blind deaths" if len(document.blind_deaths) != 1 else "blind death", "warn")
    )
    if accepted := len(figures.accepted(document)):
        tiles.append((accepted, "accepted", ""))
    return [(number, label, urgency if number else "") for number, label, urgency in tiles]


def _heat(document: Document) -> Mapping[str, Any]:
    """The table of deploy windows by unit: units in their order, and for each window its cells as (kills, step)."""
    shares = figures.by_deploy(document)
    units = list(dict.fromkeys(unit for share in shares for unit, _ in share.by_unit))
    most = max((number for share in shares for _, number in share.by_unit), default=0)
    rows = [
        (share, [(dict(share.by_unit).get(unit, 0), _step(dict(share.by_unit).get(unit, 0), most)) for unit in units])
        for share in shares
    ]
    return {"units": units, "rows": rows}


def _step(number: int, most: int) -> int:
    return 0 if number == 0 else 1 + (number * HEAT_STEPS - 1) // most if number < most else HEAT_STEPS


def _filters(document: Document) -> list[tuple[str, str, list[str]]]:
    """The choices above the kills: key, label, and what occurs."""
    labels = {deploy.id: deploy.label for deploy in document.deploys}
    choices = (
        ("cause", "Cause", {kill.cause for kill in document.kills}),
        ("verdict", "Verdict", {kill.verdict for kill in document.kills if kill.verdict is not None}),
        ("fate", "Fate", {kill.fate for kill in document.kills}),
        ("unit", "Unit", {kill.unit for kill in document.kills if kill.unit is not None}),
        ("deploy", "Deploy", {labels.get(kill.deploy, kill.deploy) for kill in document.kills if kill.deploy}),
        ("accepted", "Accepted", {"no" if kill.accepted is None else "yes" for kill in document.kills}),
    )
    return [(key, label, sorted(present)) for key, label, present in choices if len(present) > 1]
