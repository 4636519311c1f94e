"""Journal files and run logs for the benchmark, made once and kept in a folder named for what they are made of.

Entries are written in Journal Export Format and stored by systemd-journal-remote, the writer that journald shares its
code with, in files of about 100 MB. The same parameters always give the same entries.
"""

import heapq
import json
import os
import random
import shutil
import sqlite3
import subprocess
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Final

from .journald import Entry, Host
from .neighbours import neighbours
from .workers import SECOND, Incident, Kill, Row, Worker, Workload

CACHE: Final = Path(os.environ.get("KILL_AUDIT_BENCH", "/var/tmp/kill-audit-bench"))
UNITS: Final = 14
PER_FILE: Final = 180_000  # entries: some 100 MB in compact layout, as journald rotates at 128 MB at most
_VERSION: Final = 2  # of what is built; a new one is built anew
_DAY: Final = 86_400 * SECOND
_END: Final = 1_795_392_000 * SECOND  # 2026-11-23 00:00 UTC
_ENTRIES_A_DAY: Final = 1_000_000 / 7
_ARCHIVED: Final = b"\2"  # the header's state, at offset 16 (systemd's docs/JOURNAL_FILE_FORMAT.md)
_REMOTE: Final = shutil.which("systemd-journal-remote", path="/usr/lib/systemd:/lib/systemd:/usr/bin")
_TASK_LINES: Final = 2.37  # entries that one task makes, with its share of tracebacks


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """What a journal is made of.

    `celery`: the workers' share of the entries. `boots`: how often the host was started; each but the last ends in a
    power failure. `compact`: systemd's layout since 252, else the regular one. `long`: the share of long texts.
    """

    name: str
    entries: int
    celery: float = 1.0
    boots: int = 1
    long: float = 0.0
    compact: bool = True
    seed: str = "kill-audit"

    @property
    def days(self) -> float:
        """How many days the journal spans."""
        return self.entries / _ENTRIES_A_DAY

    @property
    def since(self) -> int:
        """Its first moment."""
        return _END - int(self.days * _DAY)

    @property
    def folder(self) -> Path:
        """Where it is kept."""
        layout = "compact" if self.compact else "regular"
        return CACHE / f"{self.name}-{self.entries}-{layout}-v{_VERSION}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """A journal that is there: its files in order, the run log, and what was planted."""

    recipe: Recipe
    files: tuple[Path, ...]
    run_log: Path
    entries: int
    kills: tuple[Kill, ...]

    @property
    def until(self) -> int:
        """The moment behind its last entry."""
        return _END

    def rows(self) -> list[tuple[str, ...]]:
        """Read the run log: id, name, start and finish in UTC without saying so, status."""
        with closing(sqlite3.connect(self.run_log)) as database:
            return database.execute(
                "SELECT task_id, task_name, started_at, finished_at, status FROM run_log ORDER BY id"
            ).fetchall()

    @property
    def size(self) -> int:
        """Bytes of the files, as they lie on the disk."""
        return sum(path.stat().st_blocks * 512 for path in self.files)


def pure(entries: int, *, compact: bool = True) -> Recipe:
    """A host whose journal holds little else than Celery's lines."""
    return Recipe(name="pure", entries=entries, compact=compact)


def mixed(entries: int) -> Recipe:
    """A host where Celery is a tenth of the lines, with long and binary ones, over several boots."""
    return Recipe(name="mixed", entries=entries, celery=0.1, boots=5, long=0.1)


def build(recipe: Recipe) -> Built:
    """Give the journal of a recipe; make it if it is not there."""
    folder = recipe.folder
    if not (folder / "truth.json").exists():
        if _REMOTE is None:
            raise SystemExit("systemd-journal-remote is not installed: apt install systemd-journal-remote")
        shutil.rmtree(folder, ignore_errors=True)
        (folder / "journal").mkdir(parents=True)
        _make(recipe)
    truth = json.loads((folder / "truth.json").read_bytes())
    return Built(
        recipe=recipe,
        files=tuple(sorted((folder / "journal").iterdir())),
        run_log=folder / "run_log.sqlite3",
        entries=truth["entries"],
        kills=tuple(Kill(**kill) for kill in truth["kills"]),
    )


STREAMS: Final = ("export", "json")


def stream_of(built: Built, form: str) -> Path:
    """Give what `journalctl -o FORM` prints of a journal, printed once."""
    path = built.recipe.folder / f"stream.{form}"
    if not path.exists():
        command = ["journalctl", "--quiet", "--no-pager", "--all", "-o", form, *words(built.files)]
        with path.with_suffix(".new").open("wb") as file:
            subprocess.run(command, stdout=file, check=True)
        path.with_suffix(".new").rename(path)
    return path


def _make(recipe: Recipe) -> None:
    begun = time.monotonic()
    host = Host("web1", recipe.seed, _boots(recipe))
    workers = _workers(recipe, host)
    streams = [worker.lines() for worker in workers]
    if recipe.celery < 1:
        per_second = recipe.entries * (1 - recipe.celery) / (recipe.days * 86_400)
        streams.append(neighbours(host, recipe.seed, per_second, recipe.long, (recipe.since, _END)))
    entries = heapq.merge(*streams, key=lambda entry: entry.at)
    written = _store(host, entries, recipe)
    _keep_rows((row for worker in workers for row in worker.rows), recipe.folder / "run_log.sqlite3")
    kills = sorted(kill for worker in workers for kill in worker.kills)
    truth = {"recipe": asdict(recipe), "entries": written, "kills": [kill._asdict() for kill in kills]}
    (recipe.folder / "truth.json").write_text(json.dumps(truth, indent=1) + "\n", encoding="utf-8")
    print(f"built {recipe.folder.name}: {written:,} entries in {time.monotonic() - begun:.0f} s", flush=True)


def _boots(recipe: Recipe) -> list[int]:
    step = (_END - recipe.since) // recipe.boots
    return [recipe.since + place * step for place in range(recipe.boots)]


def _workers(recipe: Recipe, host: Host) -> list[Worker]:
    span = (recipe.since, _END)
    seconds = recipe.days * 86_400
    workload = Workload(
        every_s=_TASK_LINES * UNITS * seconds / (recipe.entries * recipe.celery), long_results=recipe.long
    )
    return [Worker(host, number, recipe.seed, workload, span, _plan(recipe, host, number)) for number in range(UNITS)]


def _plan(recipe: Recipe, host: Host, number: int) -> list[Incident]:
    """Plan what befalls a worker: a deploy on every other day, its own OOM kills between, power failures."""
    dice = random.Random(f"{recipe.seed} plan {number}")  # noqa: S311 -- it plays dice
    deploys = max(1, round(recipe.days / 2))
    step = (_END - recipe.since) // deploys
    plan = [Incident(recipe.since + int((place + 0.6) * step), "deploy", 2) for place in range(deploys)]
    plan += [Incident(recipe.since + int((place + dice.uniform(0.1, 0.4)) * step), "oom") for place in range(deploys)]
    failures = [Incident(boot.since - 40 * SECOND, "power", int(number < 3)) for boot in host.boots[1:]]
    near = [one for one in plan if any(abs(one.at - failure.at) < 1800 * SECOND for failure in failures)]
    return sorted([one for one in plan if one not in near] + failures)


def _store(host: Host, entries: Iterator[Entry], recipe: Recipe) -> int:
    """Write entries into journal files, two at a time; give their number."""
    written = 0
    with ThreadPoolExecutor(2) as pool, tempfile.TemporaryDirectory(dir=recipe.folder) as scratch:
        jobs: list[Future[None]] = []
        for place in range(10**6):
            chunk = list(islice(entries, PER_FILE))
            if not chunk:
                break
            written += len(chunk)
            stream = Path(scratch) / f"{place:04}.export"
            with stream.open("wb") as file:
                file.writelines(map(host.export, chunk))
            target = recipe.folder / "journal" / f"system@{place:04}.journal"
            jobs.append(pool.submit(_one_file, stream, target, compact=recipe.compact))
            if place > 2:
                jobs[place - 3].result()
        for job in jobs:
            job.result()
    return written


def _one_file(stream: Path, target: Path, *, compact: bool) -> None:
    environment = os.environ | {"SYSTEMD_JOURNAL_COMPACT": "1" if compact else "0"}
    with stream.open("rb") as source:
        subprocess.run(
            [str(_REMOTE), f"--output={target}", "-"], stdin=source, env=environment, check=True, capture_output=True
        )
    with target.open("rb+") as file:
        file.seek(16)
        file.write(_ARCHIVED)
    stream.unlink()


def _keep_rows(rows: Iterable[Row], path: Path) -> None:
    with closing(sqlite3.connect(path)) as database, database:
        database.execute(
            "CREATE TABLE run_log (id INTEGER PRIMARY KEY, task_id TEXT NOT NULL, task_name TEXT NOT NULL,"
            " started_at DATETIME NOT NULL, finished_at DATETIME, status TEXT NOT NULL)"
        )
        database.executemany(
            "INSERT INTO run_log (task_id, task_name, started_at, finished_at, status) VALUES (?, ?, ?, ?, ?)",
            (
                (row.task_id, row.task_name, _utc(row.started_at), _utc(row.finished_at), row.status)
                for row in sorted(rows, key=lambda row: row.finished_at)
            ),
        )
        database.execute("CREATE INDEX run_log_task_id ON run_log (task_id)")


def _utc(at: int) -> str:
    second, rest = divmod(at, SECOND)
    return f"{time.strftime('%Y-%m-%d %H:%M:%S', time.gmtime(second))}.{rest:06}"


def utc(at: int) -> str:
    """Write a moment as kill-audit and PostgreSQL read it."""
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(at // SECOND))


def words(files: Sequence[Path]) -> list[str]:
    """The words that name files to journalctl and to kill-audit."""
    return [f"--file={path}" for path in files]
