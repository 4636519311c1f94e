"""`md`: the report for a wiki, an issue or a chat, in GitHub-flavoured Markdown.

Whatever came from journals and databases stands in code spans, where neither HTML nor links nor mentions nor tables
begin (CommonMark 0.31, section 6.1).
"""

import re
from collections.abc import Iterable, Iterator, Sequence

from kill_audit import texts
from kill_audit.document import Document, Kill
from kill_audit.render import figures, sentences
from kill_audit.render.figures import place
from kill_audit.render.sentences import named_by, ran_for, reference
from kill_audit.render.view import Clock, View, span


def render(document: Document, view: View) -> str:
    """Write the report as Markdown; with `view.explain` what each cause, fate and verdict means and how to fix it."""
    clock = Clock.over(document, view.zone)
    blocks = [
        f"# {sentences.headline(document)}",
        *_facts(document, clock),
        *_shares("cause", figures.by_cause(document), document),
        *_deploys(document, clock),
        *_shares("task", figures.by_task(document), document),
        *_incidents(document, clock),
        *_kills(document, clock),
        *_blind(document, clock),
        *_ghosts(document, clock),
        *_duplicates(document),
        *_stale(document, clock),
        *_besides(document),
        *_advice(document),
        *(_explained(document) if view.explain else ()),
        *_next(document, view),
    ]
    return "\n\n".join(blocks) + "\n"


def code(text: str) -> str:
    """Write text as a code span that nothing in it can end; `-` for none."""
    if not text:
        return "-"
    fence = "`" * (max(map(len, re.findall("`+", text)), default=0) + 1)
    inner = f" {text} " if text.startswith(("`", " ")) or text.endswith(("`", " ")) else text
    return f"{fence}{inner}{fence}"


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    r"""A table; a column whose name ends in `:` stands to the right.

    A pipe within a cell is spelt `\x7c`: parsers disagree on whether a backslash before it always escapes it.
    """
    names = [name.removesuffix(":") for name in columns]
    rule = ["---:" if name.endswith(":") else "---" for name in columns]
    cells = ([cell.replace("|", r"\x7c") for cell in row] for row in rows)
    return "\n".join(f"| {' | '.join(row)} |" for row in (names, rule, *cells))


def _facts(document: Document, clock: Clock) -> Iterator[str]:
    since, until = clock.at(document.window.since), clock.at(document.window.until)
    lines = [
        f"- **Window:** {since} to {until} {clock.name}",
        f"- **Units:** {code(sentences.units(document))}",
        f"- **Coverage:** {sentences.coverage(document)}",
    ]
    known = texts.load().coverage
    for hole in figures.holes(document):
        title = known[hole.problem.code].title if hole.problem.code in known else "a problem"
        where = ", ".join(map(code, hole.places))
        lines.append(f"  - {title} ({code(hole.problem.code)}): {code(hole.problem.detail)} ({where})")
    if document.run_log is None:
        lines.append(f"- **Run log:** {sentences.run_log(None)}")
    else:
        lines.append(f"- **Run log:** {code(sentences.run_log(document.run_log))}")
    yield "\n".join(lines)


def _shares(key: str, shares: Sequence[figures.Share], document: Document) -> Iterator[str]:
    if not shares:
        return
    reconciled = document.run_log is not None
    compared = any(share.before is not None for share in shares)
    columns = [key, "kills:", *(("no row:", "stuck:") if reconciled else ()), "work lost:"]
    rows = []
    for share in shares:
        row = [code(share.key), f"{share.kills:,}"]
        row += [f"{share.missing:,}", f"{share.stuck:,}"] if reconciled else []
        rows.append([*row, span(share.lost_s), *([f"{share.before or 0:,}"] if compared else [])])
    yield f"## By {key}"
    yield _table([*columns, *(["before:"] if compared else [])], rows)


def _deploys(document: Document, clock: Clock) -> Iterator[str]:
    if not document.deploys:
        return
    yield "## By deploy window and unit"
    rows = []
    for share in figures.by_deploy(document):
        name = code(share.deploy.label) if share.deploy else "outside any deploy"
        since = clock.at(share.deploy.since) if share.deploy else ""
        rows += [[name, since, code(unit), f"{number:,}"] for unit, number in share.by_unit or (("", 0),)]
    yield _table(["deploy", clock.heading("since"), "unit", "kills:"], rows)


def _incidents(document: Document, clock: Clock) -> Iterator[str]:
    incidents = [incident for incident in document.incidents if incident.kills > 1]
    if incidents:
        yield "## Incidents"
        rows = (
            [
                code(one.id),
                clock.at(one.since),
                code(one.cause),
                f"{one.kills:,}",
                code(one.culprit or ""),
                ", ".join(map(code, one.units)),
            ]
            for one in incidents
        )
        yield _table(["incident", clock.heading("since"), "cause", "kills:", "culprit", "units"], rows)


def _kills(document: Document, clock: Clock) -> Iterator[str]:
    longest, rest = figures.worst_first(document)
    what = " with no run row or a row stuck open" if document.run_log is not None else ""
    groups = (
        (f"The longest runs{what}", longest),
        ("All other kills" if longest else "Kills", rest),
        ("Accepted as known", figures.accepted(document)),
    )
    for title, kills in groups:
        if kills:
            columns = [
                "id",
                clock.heading("died at"),
                "ran for:",
                "cause",
                "fate",
                "verdict",
                "unit",
                "task",
                "named by",
            ]
            yield f"## {title}"
            yield _table(columns, (_kill(kill, clock) for kill in kills))


def _kill(kill: Kill, clock: Clock) -> list[str]:
    task = code(reference(kill.task))
    if kill.task.candidates:
        task += " may be " + ", ".join(code(reference(candidate)) for candidate in kill.task.candidates)
    verdict = kill.verdict or "-"
    if kill.accepted is not None:
        verdict += f", {code(sentences.accepted(kill.accepted, clock))}"
    return [
        code(kill.id),
        clock.at(kill.at),
        ran_for(kill),
        f"{code(kill.cause)} ({kill.confidence})",
        code(kill.fate),
        verdict,
        code(place(kill.unit, kill.host)),
        task,
        named_by(kill.task),
    ]


def _blind(document: Document, clock: Clock) -> Iterator[str]:
    if document.blind_deaths:
        yield "## Blind deaths"
        rows = (
            [
                clock.at(one.at),
                code(place(one.unit, one.host)),
                code(one.cause),
                "unknown" if one.max_tasks is None else f"{one.max_tasks:,}",
                code(one.why),
            ]
            for one in document.blind_deaths
        )
        yield _table([clock.heading("died at"), "unit", "cause", "at most tasks:", "why its tasks are unknown"], rows)


def _ghosts(document: Document, clock: Clock) -> Iterator[str]:
    if document.ghosts:
        yield "## Ghosts: rows still open although their process is dead"
        rows = (
            [code(one.key), clock.at(one.started_at), code(reference(one.task)), code("; ".join(one.reasons))]
            for one in document.ghosts
        )
        yield _table(["row", clock.heading("started"), "task", "why"], rows)


def _duplicates(document: Document) -> Iterator[str]:
    if document.duplicates:
        yield "## Duplicates: tasks that finished more than once"
        rows = ([code(reference(one.task)), f"{one.finished:,}", f"{one.deliveries:,}"] for one in document.duplicates)
        yield _table(["task", "finished:", "delivered:"], rows)


def _stale(document: Document, clock: Clock) -> Iterator[str]:
    if said := sentences.stale(document, clock):
        yield "## Out of date in the file of accepted findings"
        yield "\n".join(f"- {code(line)}" for line in said)


def _besides(document: Document) -> Iterator[str]:
    if said := sentences.besides(document):
        yield "## Not counted"
        yield "\n".join(f"- {line}" for line in said)


def _advice(document: Document) -> Iterator[str]:
    lines = [
        *(sentences.drain(advice) for advice in document.advice.drain),
        *sentences.unit_advice(document.advice.units),
    ]
    if lines:
        yield "## What would have saved them"
        yield "\n".join(f"- {code(line)}" for line in lines)


def _explained(document: Document) -> Iterator[str]:
    for title, present in sentences.explained(document):
        yield f"## {title}: what they mean, and what to do"
        yield _table(
            ["", "what it means", "what to do"], ([_word(one), prose(one.means), prose(one.fix)] for one in present)
        )


def _word(text: texts.Text) -> str:
    return f"{code(text.key)} {text.title}"


def prose(text: str) -> str:
    """Our own texts are plain; they use backticks as Markdown does, and what else would be markup is escaped."""
    parts = re.split("(`[^`]*`)", text)
    return "".join(part if part.startswith("`") else re.sub(r"([\\*_\[\]<>])", r"\\\1", part) for part in parts)


def _next(document: Document, view: View) -> Iterator[str]:
    steps = sentences.next_steps(document, explained=view.explain)
    if steps:
        yield "## Next"
        yield "\n".join(f"- `{step.command}`: {step.why}" for step in steps)
