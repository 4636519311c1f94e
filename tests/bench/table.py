"""A run log of twenty million rows in PostgreSQL: what a report asks of it, by which plans, and what that takes.

The table is made by the server itself, the same rows each time, and kept. Of its ninety days the last hold the runs of
a made-up host's journal; planted are rows still open and ids that finished more than once. A report is made twice:
with an index on the id alone, when two of its three questions must be refused with the statement that helps, and with
one on the finish time besides.
"""

import json
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from .build import CACHE, Built, build, pure, utc, words
from .measure import Cost, run
from .postgres import Heard, Server, serve

ROWS: Final = 20_000_000
ENTRIES: Final = 100_000  # of the journal beside it
MOST_MIB: Final = 300
DAYS: Final = 90
WEEK: Final = 7 * 86_400 * 1_000_000
OPEN_EVERY: Final = 400_000  # one row in so many is open, and
TWICE_EVERY: Final = 10_000  # one in so many has the id of the one before it
SCANNED: Final = 1000  # rows read from the begin of a table to see what they look like; more would be a scan
_VERSION: Final = 1  # of what is built; a new one is built anew
_PROGRAM: Final = "kill-audit"
_TABLE: Final = (
    "CREATE UNLOGGED TABLE run_log (id bigserial, task_id text NOT NULL, task_name text NOT NULL, queue text NOT NULL,"
    " worker text NOT NULL, started_at timestamptz NOT NULL, finished_at timestamptz, status text NOT NULL)"
)
_BY_TIME: Final = "CREATE INDEX run_log_finished_at ON run_log (finished_at)"
_GREETING: Final = "pg_catalog.version()"  # SQLAlchemy asks it of every server, before anybody can set a limit
_QUESTIONS: Final = (
    ("rows of the killed ids", "task_id IN ("),
    ("rows still open", "finished_at IS NULL"),
    ("finished more than once", "GROUP BY"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """One report on the table: what it took, what it says, and what the server heard of it."""

    cost: Cost
    document: dict[str, Any]
    heard: Heard

    @property
    def refusals(self) -> tuple[str, ...]:
        """The questions that were refused, in the report's words."""
        problems = (each for source in self.document["coverage"]["sources"] for each in source["problems"])
        return tuple(each["detail"] for each in problems if each["code"] == "run-log-refused")

    @property
    def found(self) -> dict[str, int]:
        """How much of what was planted the report names."""
        return {
            "kills": len(self.document["kills"]),
            "missing": self.document["totals"]["missing"],
            "duplicates": sum(one["finished"] > 1 for one in self.document["duplicates"]),
        }


def compare(rows: int) -> bool:
    """Build the table, report on it with each set of indexes, and print; False if something is not as it should be."""
    built = build(pure(ENTRIES))
    with serve(CACHE / f"table-{rows}-v{_VERSION}") as server:
        _fill(server, built, rows)
        size = server.psql(
            "SELECT pg_size_pretty(pg_table_size('run_log')), pg_size_pretty(pg_indexes_size('run_log'))"
        )
        print(f"\ntable: {rows:,} rows in PostgreSQL ({size.replace('|', ', its indexes ')}), "
              f"a journal of {built.entries:,} entries, {len(built.kills)} kills planted")  # fmt: skip
        twice = _planted_twice(server, built)
        small = _told(server, built, f"sqlite:///{built.run_log}")
        print(f"  {'with a small run log in SQLite':44}{small.cost.wall_s:6.1f} s{small.cost.peak_mib:6.0f} MiB")
        server.psql("DROP INDEX IF EXISTS run_log_finished_at")
        by_id = _told(server, built, server.url)
        good = _show("with an index on the id", by_id, small, refused=2, duplicates=0)
        server.psql(_BY_TIME, "VACUUM ANALYZE run_log")
        by_time = _told(server, built, server.url)
        good &= _show("with one on the finish time besides", by_time, small, refused=0, duplicates=twice)
    return good


def _show(name: str, told: Told, small: Told, *, refused: int, duplicates: int) -> bool:
    """Print a report's cost and plans, and what is wrong with it."""
    print(f"  {name:44}{told.cost.wall_s:6.1f} s{told.cost.peak_mib:6.0f} MiB  {told.found}")
    for detail in told.refusals:
        print(f"    refused: {detail}")
    for question, mark in _QUESTIONS:
        for plan in [plan for plan in told.heard.plans if mark in plan.statement]:
            print(f"    {question}: {plan.took_ms:,.0f} ms")
            print("\n".join(f"      {line}" for line in _lines(plan.root)))
    wanted = {**small.found, "duplicates": duplicates}
    wrong = [*_faults(told.heard), *([] if told.found == wanted else [f"{told.found}, but {wanted} were planted"])]
    if len(told.refusals) != refused:
        wrong.append(f"{len(told.refusals)} questions were refused, not {refused}")
    if told.cost.peak_mib > MOST_MIB:
        wrong.append(f"{told.cost.peak_mib:.0f} MiB, at most {MOST_MIB} wanted")
    transactions = sum(one.startswith("BEGIN") for one in told.heard.statements)
    print(f"    {len(told.heard.plans)} statements in {transactions} transactions, all of them read-only and limited")
    print("\n".join(f"    WRONG: {one}" for one in wrong), end="\n" if wrong else "", flush=True)
    return not wrong


def _faults(heard: Heard) -> Iterator[str]:
    """Find statements that read the table from its begin, and transactions that may write or take for ever."""
    for plan in heard.plans:
        if plan.rows_scanned > SCANNED:
            yield f"{plan.rows_scanned:,} rows read from the begin by {plan.statement}"
    begun = [place for place, one in enumerate(heard.statements) if one.startswith("BEGIN")]
    for place in begun:
        first, then = (*heard.statements[place : place + 2], "")[:2]
        if "READ ONLY" not in first or not ("statement_timeout" in then or _GREETING in then):
            yield f"a transaction that may write, or take for ever: {first}; {then}"


def _lines(node: dict[str, Any], depth: int = 0) -> Iterator[str]:
    """Write a plan as EXPLAIN (ANALYZE, BUFFERS) does, less what nobody looks at."""
    place = node.get("Index Name") or node.get("Relation Name")
    pages = node.get("Shared Hit Blocks", 0) + node.get("Shared Read Blocks", 0)
    step = f"{node['Node Type']} on {place}" if place else node["Node Type"]
    rows = node["Actual Rows"] * node["Actual Loops"]
    yield f"{'  ' * depth}{step}: {rows:,} rows, {pages:,} pages, cost {node['Total Cost']:,.0f}"
    for name in ("Index Cond", "Filter"):
        if name in node:
            text = node[name]
            yield f"{'  ' * depth}  {name}: {text if len(text) < 150 else f'{text[:147]}...'}"
    for child in node.get("Plans", ()):
        yield from _lines(child, depth + 1)


def _told(server: Server, built: Built, run_log: str) -> Told:
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "report.json"
        server.forget()
        window = ["-S", utc(_since(built)), "-U", utc(built.until), "--lead-in", "0s"]
        form = ["--utc", "--quiet", "--exit-zero", "-o", "json", "-w", str(target)]
        cost = run(
            [sys.executable, "-m", "kill_audit", "report", *form, *window, "--run-log", run_log, *words(built.files)],
            sample=True,
        )
        if cost.status:
            raise SystemExit(f"the report on {run_log} ended with status {cost.status}")
        return Told(cost=cost, document=json.loads(target.read_bytes()), heard=server.hear(_PROGRAM, "run_log"))


def _since(built: Built) -> int:
    """The begin of the window: a week, though the journal is of its last day."""
    return built.until - WEEK


def _planted_twice(server: Server, built: Built) -> int:
    span = f"status = 'success' AND finished_at >= '{utc(_since(built))}' AND finished_at < '{utc(built.until)}'"
    often = f"SELECT task_id FROM run_log WHERE {span} GROUP BY task_id HAVING count(*) > 1"  # noqa: S608 -- ours
    return int(server.psql(f"SELECT count(*) FROM ({often}) AS often"))  # noqa: S608


def _fill(server: Server, built: Built, rows: int) -> None:
    """Make the table, if it is not there: other hosts' runs, then this one's."""
    if server.psql("SELECT to_regclass('run_log_pkey')"):
        return
    begun = time.monotonic()
    server.psql("DROP TABLE IF EXISTS run_log", _TABLE, _others(built, rows))
    server.copy("run_log (task_id, task_name, queue, worker, started_at, finished_at, status)", _own(built))
    server.psql(
        "ALTER TABLE run_log ADD PRIMARY KEY (id)",
        "CREATE INDEX run_log_task_id ON run_log (task_id)",
        "VACUUM (ANALYZE, FREEZE) run_log",
    )
    print(f"built a table of {rows:,} rows in {time.monotonic() - begun:.0f} s", flush=True)


def _others(built: Built, rows: int) -> str:
    """Write the statement that makes the runs of other hosts, evenly over the days before the journal's end."""
    begin = built.until - DAYS * 86_400 * 1_000_000
    step = (built.until - begin) // rows
    start = f"to_timestamp({begin / 1e6:.6f}) + n * interval '{step} microseconds'"
    is_open = f"n % {OPEN_EVERY} = 0"
    number = f"CASE WHEN n % {TWICE_EVERY} = 1 THEN n - 1 ELSE n END"
    return (
        "INSERT INTO run_log (task_id, task_name, queue, worker, started_at, finished_at, status)"  # noqa: S608 -- ours
        f" SELECT md5(({number})::text)::uuid::text, 'shop.tasks.t' || n % 40, 'q' || n % 8,"
        " 'w' || n % 60 || '@other',"
        f" {start}, CASE WHEN {is_open} THEN NULL ELSE {start} + interval '1 second' * (n % 97) END,"
        f" CASE WHEN {is_open} THEN 'running' WHEN n % 50 = 3 THEN 'failed' ELSE 'success' END"
        f" FROM generate_series(1, {rows}) AS n"
    )


def _own(built: Built) -> str:
    """Write the runs of the journal's own host, which finished; those that were killed left no row."""
    cells: Sequence[Sequence[str]] = built.rows()
    return "".join(
        "\t".join((*row[:2], "celery", "w@web1", f"{row[2]}+00", f"{row[3]}+00", row[4])) + "\n" for row in cells
    )
