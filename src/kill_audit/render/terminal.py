"""`table`: the report for a person at three in the morning: the answer first, then proof, then what to type next.

On a terminal (`view.width`) kills stand in one line each where that fits and in a few lines each where it does not;
ids are never cut or broken by us. Without a terminal (`width` None) every finding is one line, so that grep and awk
work. No colour carries a meaning that no word carries.
"""

import io
from collections.abc import Callable, Iterable, Sequence

from rich.cells import cell_len
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from kill_audit import texts
from kill_audit.document import Document, Kill
from kill_audit.render import figures, sentences
from kill_audit.render.figures import place
from kill_audit.render.sentences import named_by, ran_for, reference
from kill_audit.render.view import Clock, View, count, span

UNWRAPPED = 1_000_000  # columns of an output that is no terminal
TASKS_SHOWN = 15  # on a terminal; the rest is one line
VERDICT_STYLES = {"missing": "bold red", "stuck": "bold yellow", "contradicted": "bold yellow"}
ALIGNED_RIGHT = frozenset({"kills", "no row", "stuck", "work lost", "before"})


def render(document: Document, view: View) -> str:
    """Write the report as text for a terminal of `view.width` columns, or for a pipe."""
    buffer = io.StringIO()
    console = Console(
        file=buffer,
        width=view.width or UNWRAPPED,
        height=100,
        force_terminal=view.color,
        color_system="standard" if view.color else None,
        no_color=not view.color,
        highlight=False,
        markup=False,
        emoji=False,
        _environ={},
    )
    page = _Page(document=document, view=view, console=console, clock=Clock.over(document, view.zone))
    for section in SECTIONS:
        section(page)
    return "\n".join(line.rstrip() for line in buffer.getvalue().splitlines()).strip("\n") + "\n"


class _Page:
    """The document on its way to one console."""

    __slots__ = ("clock", "console", "document", "view")

    def __init__(self, *, document: Document, view: View, console: Console, clock: Clock) -> None:
        self.document = document
        self.view = view
        self.console = console
        self.clock = clock

    @property
    def faint(self) -> str:
        """The style of what is there for reference."""
        return "dim" if self.view.color else ""

    def heading(self, title: str) -> None:
        """Open a section."""
        self.console.print()
        self.console.print(Text(title, style="bold"))

    def line(self, text: Text | str) -> None:
        """Print one line that is never broken by us, so that ids stay whole for copying."""
        self.console.print(text, soft_wrap=True)

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[Text | str]]) -> None:
        """Print a table without rules; numbers stand to the right."""
        table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style=self.faint)
        for column in columns:
            right = column in ALIGNED_RIGHT
            table.add_column(column, justify="right" if right else "left", no_wrap=right, overflow="fold")
        for row in rows:
            table.add_row(*(cell if isinstance(cell, Text) else Text(cell) for cell in row))
        self.console.print(table)

    def finding(self, head: Text | str, *more: str) -> None:
        """Print a finding: on a terminal its head and below it what more there is, else all in one line."""
        if self.view.width is None:
            self.line(Text("; ").join([head if isinstance(head, Text) else Text(head), *map(Text, more)]))
            return
        self.line(head)
        for part in more:
            self.indented(Text(part))

    def indented(self, text: Text) -> None:
        """Print words two columns in, broken at blanks and never within an id."""
        longest = max(map(cell_len, text.plain.split()), default=0)
        if longest + 2 > self.console.width or cell_len(text.plain) + 2 <= self.console.width:
            self.line(Text("  ").append_text(text))
        else:
            self.console.print(Padding(text, (0, 0, 0, 2), expand=False))

    def notes(self, lines: Iterable[tuple[str, str]]) -> None:
        """Print text with a hanging indent behind a word each."""
        grid = Table.grid(padding=(0, 2, 0, 0))
        grid.add_column(no_wrap=True)
        grid.add_column(overflow="fold")
        for word, text in lines:
            grid.add_row(Text(word, style=self.faint), Text(text))
        self.console.print(grid)


def _head(page: _Page) -> None:
    document = page.document
    page.console.print(Text(sentences.headline(document), style=_headline_style(document)))
    page.console.print()
    lines = [
        (
            "Window",
            f"{page.clock.at(document.window.since)} to {page.clock.at(document.window.until)} {page.clock.name}",
        )
    ]
    lines.append(("Units", sentences.units(document)))
    lines.append(("Coverage", sentences.coverage(document)))
    lines += [("", _hole(page, hole)) for hole in figures.holes(document)]
    lines.append(("Run log", sentences.run_log(document.run_log)))
    if document.totals.by_verdict:
        lines.append(
            ("Verdicts", ", ".join(f"{number:,} {verdict}" for verdict, number in document.totals.by_verdict.items()))
        )
    page.notes(lines)


def _headline_style(document: Document) -> str:
    kills = [kill for kill in document.kills if kill.accepted is None]
    verdicts = {kill.verdict for kill in kills}
    if verdicts & set(figures.UNSETTLED_ROWS):
        return "bold red"
    if kills or document.blind_deaths or document.coverage.verdict != "complete":
        return "bold yellow"
    return "bold green"


def _hole(page: _Page, hole: figures.Hole) -> str:
    problem = hole.problem
    known = texts.load().coverage.get(problem.code)
    title = f"{known.title} ({problem.code})" if known else problem.code
    when = ""
    if problem.since or problem.until:
        when = f", {page.clock.at(problem.since)} to {page.clock.at(problem.until)}"
    where = f"{sentences.a_few(hole.places)}: " if hole.places else ""
    return f"! {where}{title}: {problem.detail}{when}"


def _causes(page: _Page) -> None:
    shares = figures.by_cause(page.document)
    if shares:
        titles = texts.load().causes
        page.heading("By cause")
        _shares(page, shares, "cause", lambda key: (titles[key].title if key in titles else "",), ("what it is",))


def _tasks(page: _Page) -> None:
    shares = figures.by_task(page.document)
    if not shares:
        return
    page.heading("By task")
    shown = shares if page.view.width is None else shares[:TASKS_SHOWN]
    _shares(page, shown, "task", lambda _: (), ())
    if rest := shares[len(shown) :]:
        kills = sum(share.kills for share in rest)
        page.line(f"and {count(len(rest), 'more task')} with {count(kills, 'kill')} (-o json lists all)")


def _shares(
    page: _Page,
    shares: Sequence[figures.Share],
    key: str,
    more: Callable[[str], tuple[str, ...]],
    more_columns: tuple[str, ...],
) -> None:
    reconciled = page.document.run_log is not None
    compared = any(share.before is not None for share in shares)
    columns = [key, *more_columns, "kills", *(("no row", "stuck") if reconciled else ()), "work lost"]
    rows = []
    for share in shares:
        row = [share.key, *more(share.key), f"{share.kills:,}"]
        row += [f"{share.missing:,}", f"{share.stuck:,}"] if reconciled else []
        row.append(span(share.lost_s))
        rows.append(row + ([f"{share.before or 0:,}"] if compared else []))
    page.table([*columns, *(["before"] if compared else [])], rows)


def _deploys(page: _Page) -> None:
    shares = figures.by_deploy(page.document)
    if not page.document.deploys:
        return
    page.heading("By deploy window and unit")
    rows = []
    for share in shares:
        deploy = share.deploy
        name, since = (deploy.label, page.clock.at(deploy.since)) if deploy else ("outside any deploy", "")
        for at, (unit, number) in enumerate(share.by_unit or (("-", 0),)):
            first = at == 0 or page.view.width is None
            rows.append([name if first else "", since if first else "", unit, f"{number:,}"])
    page.table(["deploy", page.clock.heading("since"), "unit", "kills"], rows)


def _incidents(page: _Page) -> None:
    incidents = [incident for incident in page.document.incidents if incident.kills > 1]
    if not incidents:
        return
    page.heading("Incidents (several deaths of one event)")
    for one in incidents:
        culprit = f", culprit {one.culprit}" if one.culprit is not None else ""
        head = f"{one.id}  {page.clock.at(one.since)}  {one.cause}, {count(one.kills, 'kill')}{culprit}"
        page.finding(head, sentences.a_few(one.units))


def _kills(page: _Page) -> None:
    longest, rest = figures.worst_first(page.document)
    what = " with no run row or a row stuck open" if page.document.run_log is not None else ""
    if longest:
        page.heading(f"The longest runs{what} ({count(len(longest), 'kill')})")
        _list(page, longest)
    if rest:
        page.heading(f"{'All other kills' if longest else 'Kills'} by time ({count(len(rest), 'kill')})")
        _list(page, rest)
    if known := figures.accepted(page.document):
        page.heading(f"Accepted as known ({count(len(known), 'kill')})")
        _list(page, known)


def _list(page: _Page, kills: Sequence[Kill]) -> None:
    """List kills in one line each where that fits, else in three: numbers and words, task, place and proof."""
    lines = [_cells(page, kill) for kill in kills]
    tasks = [reference(kill.task) for kill in kills]
    names = ["id", page.clock.heading("died at"), "ran for", "cause", "verdict", "fate", "named by", "unit"]
    widths = _widths(names, lines)
    whole = sum(widths) + 2 * len(widths) + max(map(cell_len, tasks))
    if page.view.width is None or whole <= page.view.width:
        page.line(_aligned(names, widths, "task", page.faint))
        for kill, cells, task in zip(kills, lines, tasks, strict=True):
            line = _aligned(cells, widths, task)
            remarks = _remarks(page, kill)
            page.finding(_emphasised(line, kill), *remarks)
        return
    names, widths = names[:STACKED], _widths(names[:STACKED], [_bare(page, kill) for kill in kills])
    page.line(_aligned(names, widths, "", page.faint))
    for kill, task in zip(kills, tasks, strict=True):
        page.line(_emphasised(_aligned(_bare(page, kill), widths, ""), kill))
        _stacked(page, kill, task)


STACKED = 5  # the columns that a stacked kill has in its first line; they fit in 80


def _cells(page: _Page, kill: Kill) -> tuple[str, ...]:
    return (
        *_bare(page, kill)[:3],
        f"{kill.cause}, {kill.confidence}",
        kill.verdict or "-",
        kill.fate,
        named_by(kill.task),
        place(kill.unit, kill.host) or figures.NO_UNIT,
    )


def _bare(page: _Page, kill: Kill) -> tuple[str, ...]:
    return (kill.id, page.clock.at(kill.at), ran_for(kill), kill.cause, kill.verdict or "-")


def _widths(names: Sequence[str], lines: Sequence[Sequence[str]]) -> list[int]:
    return [max(map(cell_len, column)) for column in zip(names, *lines, strict=True)]


def _aligned(cells: Sequence[str], widths: Sequence[int], last: str, style: str = "") -> Text:
    padded = (cell + " " * (width - cell_len(cell) + 2) for cell, width in zip(cells, widths, strict=True))
    return Text("".join(padded) + last, style=style)


def _emphasised(line: Text, kill: Kill) -> Text:
    line.stylize("bold", 0, len(kill.id))
    if kill.accepted is None and (style := VERDICT_STYLES.get(kill.verdict or "")):
        start = line.plain.index(kill.cause) + len(kill.cause)
        at = line.plain.index(kill.verdict or "", start)
        line.stylize(style, at, at + len(kill.verdict or ""))
    return line


def _stacked(page: _Page, kill: Kill, task: str) -> None:
    width = page.view.width or UNWRAPPED
    if cell_len(task) + 2 <= width or kill.task.id is None:
        page.line(f"  {task}")
    else:
        page.line(f"  {kill.task.name or figures.NO_NAME}")
        page.line(f"  [{kill.task.id}]")
    where = place(kill.unit, kill.host) or figures.NO_UNIT
    proof = f"{where}; fate {kill.fate}; cause {kill.confidence}; named by {named_by(kill.task)}"
    page.indented(Text(proof, style=page.faint))
    for remark in _remarks(page, kill):
        page.indented(Text(remark))


def _remarks(page: _Page, kill: Kill) -> list[str]:
    remarks = [f"may be {reference(candidate)} ({candidate.how})" for candidate in kill.task.candidates]
    if kill.accepted is not None:
        remarks.append(sentences.accepted(kill.accepted, page.clock))
    if page.view.explain:
        remarks += [f"because {reason}" for reason in kill.reasons]
    return remarks


def _blind(page: _Page) -> None:
    if not page.document.blind_deaths:
        return
    page.heading("Blind deaths (a worker died; what it was running cannot be known)")
    for death in page.document.blind_deaths:
        most = "an unknown number of tasks" if death.max_tasks is None else f"at most {count(death.max_tasks, 'task')}"
        signal = "" if death.signal is None else f", signal {death.signal}"
        pid = "" if death.main_pid is None else f", pid {death.main_pid}"
        where = place(death.unit, death.host) or figures.NO_UNIT
        page.finding(f"{page.clock.at(death.at)}  {where}{pid}{signal}", f"{death.cause}, {most}", death.why)


def _ghosts(page: _Page) -> None:
    if not page.document.ghosts:
        return
    page.heading("Ghosts (rows still open although their process is dead)")
    for ghost in page.document.ghosts:
        started = page.clock.at(ghost.started_at) if ghost.started_at else "at an unknown time"
        page.finding(f"row {ghost.key}  started {started}", reference(ghost.task), *ghost.reasons)


def _duplicates(page: _Page) -> None:
    if not page.document.duplicates:
        return
    page.heading("Duplicates (tasks that finished more than once)")
    for one in page.document.duplicates:
        finished, delivered = count(one.finished, "time"), count(one.deliveries, "time")
        page.finding(f"finished {finished}, delivered {delivered}", reference(one.task))


def _stale(page: _Page) -> None:
    if said := sentences.stale(page.document, page.clock):
        page.heading("Out of date in the file of accepted findings")
        page.notes(("-", line) for line in said)


def _besides(page: _Page) -> None:
    said = sentences.besides(page.document)
    if said:
        page.heading("Not counted")
        page.notes(("", line) for line in said)


def _advice(page: _Page) -> None:
    advice = page.document.advice
    if not advice.drain and not advice.units:
        return
    page.heading("What would have saved them")
    lines = [*map(sentences.drain, advice.drain), *sentences.unit_advice(advice.units)]
    page.notes(("-", line) for line in lines)


def _explained(page: _Page) -> None:
    if not page.view.explain:
        return
    for title, present in sentences.explained(page.document):
        page.heading(f"{title}: what they mean, and what to do")
        for text in present:
            page.line(Text(f"{text.key}: {text.title}", style="bold"))
            page.notes((("  means", text.means), ("  shown by", text.shown_by), ("  fix", text.fix)))


def _next(page: _Page) -> None:
    steps = sentences.next_steps(page.document, explained=page.view.explain)
    if steps:
        page.heading("Next")
        page.notes((step.command, step.why) for step in steps)


SECTIONS: tuple[Callable[[_Page], None], ...] = (
    _head,
    _causes,
    _deploys,
    _tasks,
    _incidents,
    _kills,
    _blind,
    _ghosts,
    _duplicates,
    _stale,
    _besides,
    _advice,
    _explained,
    _next,
)
