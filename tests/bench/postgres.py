"""A private PostgreSQL server that writes down the plan of every statement, with what carrying it out really took.

The plans are those of the statements as they were run (auto_explain, in Debian's package `postgresql`), not of a
second run of what somebody believes they were.
"""

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

_SPEED: Final = (
    "fsync=off",
    "full_page_writes=off",
    "synchronous_commit=off",
    "wal_level=minimal",
    "max_wal_senders=0",
    "max_wal_size=16GB",
    "maintenance_work_mem=1GB",
)
_TELL: Final = (
    "logging_collector=on",
    "log_destination=jsonlog",
    "log_statement=all",
    "session_preload_libraries=auto_explain",
    "auto_explain.log_min_duration=0",
    "auto_explain.log_analyze=on",
    "auto_explain.log_timing=off",  # of each row, which would take longer than the row
    "auto_explain.log_buffers=on",
    "auto_explain.log_format=json",
)
_PLAN: Final = " ms  plan:\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A statement that was carried out: its text, what it took, and the root of its plan (EXPLAIN, FORMAT JSON)."""

    statement: str
    took_ms: float
    root: dict[str, Any]

    @property
    def nodes(self) -> tuple[dict[str, Any], ...]:
        """All nodes of the plan, the root first."""
        found, at = [self.root], 0
        while at < len(found):
            found += found[at].get("Plans", ())
            at += 1
        return tuple(found)

    def has_read(self, table: str) -> bool:
        """Whether it read a table; what was only explained did not."""
        return "Actual Rows" in self.root and any(node.get("Relation Name") == table for node in self.nodes)

    @property
    def rows_scanned(self) -> int:
        """How many rows were read by reading a table from its begin, in each loop."""
        scans = (node for node in self.nodes if node["Node Type"] in {"Seq Scan", "Parallel Seq Scan"})
        return sum(
            (node["Actual Rows"] + node.get("Rows Removed by Filter", 0)) * node["Actual Loops"] for node in scans
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """What the server wrote down of one program: plans, and the statements beside them (BEGIN, SET, COMMIT)."""

    plans: tuple[Plan, ...]
    statements: tuple[str, ...]


class Server:
    """A running server; its superuser is `postgres`, let in without a password through the socket in its folder."""

    def __init__(self, data: Path, programs: Path, socket: Path) -> None:
        self._data = data
        self._programs = programs
        self._socket = socket

    @property
    def url(self) -> str:
        """The URL of its database."""
        return f"postgresql://postgres@/postgres?host={self._socket}"

    def psql(self, *commands: str) -> str:
        """Carry out some commands, each in a transaction of its own, and give what the last one says."""
        said = ""
        for command in commands:
            words = [str(self._programs / "psql"), "-XAtq", "-v", "ON_ERROR_STOP=1", "-h", str(self._socket)]
            done = subprocess.run(
                [*words, "-U", "postgres", "-c", command],
                check=True,
                stdout=subprocess.PIPE,
                text=True,
                env={**os.environ, "PGOPTIONS": "-c client_min_messages=warning"},
            )
            said = done.stdout.strip()
        return said

    def copy(self, table: str, lines: str) -> None:
        """Put rows into a table, in COPY's own text format."""
        words = [str(self._programs / "psql"), "-Xq", "-v", "ON_ERROR_STOP=1", "-h", str(self._socket)]
        subprocess.run(
            [*words, "-U", "postgres", "-c", f"COPY {table} FROM STDIN"], input=lines, check=True, text=True
        )

    def hear(self, program: str, table: str) -> Heard:
        """Read what was written down of a program, by the name it gives itself, and of a table."""
        told = [json.loads(line) for path in sorted((self._data / "log").glob("*.json")) for line in path.open()]
        words = [line["message"] for line in told if line.get("application_name") == program]
        plans = tuple(plan for message in words if _PLAN in message if (plan := _plan(message)).has_read(table))
        said = (message.partition(": ")[2] for message in words if message.startswith(("statement: ", "execute ")))
        return Heard(plans=plans, statements=tuple(said))

    def forget(self) -> None:
        """Begin a new log."""
        self.psql("SELECT pg_rotate_logfile()")
        for path in sorted((self._data / "log").glob("*.json")):
            os.truncate(path, 0)


def _plan(message: str) -> Plan:
    took, _, plan = message.partition(_PLAN)
    told = json.loads(plan)
    return Plan(statement=told["Query Text"], took_ms=float(took.removeprefix("duration: ")), root=told["Plan"])


@contextmanager
def serve(data: Path) -> Iterator[Server]:
    """Run a server on a data folder, which is made if it is not there, until the block is left."""
    programs = max(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name), default=None)
    if programs is None:
        raise SystemExit("PostgreSQL is not installed: apt install postgresql")
    with tempfile.TemporaryDirectory(prefix="kill-audit-bench-") as name:
        socket = Path(name)
        if os.geteuid() == 0:
            shutil.chown(socket, "postgres")
        control = [*_as_postgres(), str(programs / "pg_ctl"), "-s", "-w", "-D", str(data)]
        if not (data / "PG_VERSION").exists():
            _make(data, control)
        options = f"-k {socket} -c listen_addresses= {_settings((*_SPEED, *_TELL, 'shared_buffers=1GB'))}"
        subprocess.run([*control, "-l", f"{data}/start", "-o", options, "start"], check=True, cwd="/")
        try:
            yield Server(data, programs, socket)
        finally:
            subprocess.run([*control, "-m", "fast", "stop"], check=True, cwd="/")


def _make(data: Path, control: Sequence[str]) -> None:
    data.mkdir(parents=True)
    if os.geteuid() == 0:
        shutil.chown(data, "postgres")
    words = "--no-sync --auth=trust --username=postgres --encoding=UTF8 --locale=C"
    subprocess.run([*control, "-o", words, "init"], check=True, cwd="/", stdout=subprocess.DEVNULL)


def _as_postgres() -> list[str]:
    """The words that run a command as a user who is not root; PostgreSQL refuses to run as root."""
    return ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []


def _settings(pairs: Sequence[str]) -> str:
    return " ".join(f"-c {pair}" for pair in pairs)
