"""The patterns themselves: what each says of itself holds, and no table knows another program's words."""

import importlib
import pkgutil
from collections.abc import Iterator

import pytest

from builders import MANAGER, Journal, recognised
from kill_audit import grammar
from kill_audit.events import LogsToFile
from kill_audit.grammar.pattern import Pattern, PatternTable


def tables() -> Iterator[tuple[str, PatternTable]]:
    """Every table of patterns of the grammars, each once, with its module's name and its own."""
    seen: set[int] = set()
    for module in pkgutil.iter_modules(grammar.__path__):
        values = vars(importlib.import_module(f"{grammar.__name__}.{module.name}"))
        for name, value in sorted(values.items(), reverse=True):  # public names before those with an underscore
            if isinstance(value, PatternTable) and id(value) not in seen:
                seen.add(id(value))
                yield f"{module.name}.{name}", value


TABLES = dict(tables())


def every() -> Iterator[tuple[str, Pattern]]:
    """Every pattern with the name of its table."""
    for name, table in TABLES.items():
        for pattern in table.patterns:
            yield name, pattern


PATTERNS = [pytest.param(TABLES[table], pattern, id=f"{table}:{pattern.name}") for table, pattern in every()]
SAMPLES = [
    pytest.param(TABLES[table], pattern, sample, id=f"{table}:{pattern.name}:{place}")
    for table, pattern in every()
    for place, sample in enumerate(pattern.samples)
]
NEAR_MISSES = [
    pytest.param(TABLES[table], pattern, miss, id=f"{table}:{pattern.name}:{place}")
    for table, pattern in every()
    for place, miss in enumerate(pattern.near_misses)
]


@pytest.mark.parametrize(("table", "pattern", "sample"), SAMPLES)
def test_sample_first(table: PatternTable, pattern: Pattern, sample: str) -> None:
    """A pattern's sample is matched by no earlier pattern of its table."""
    found = table.find(sample)
    assert found is not None
    assert found[0].name == pattern.name


@pytest.mark.parametrize(("table", "pattern", "miss"), NEAR_MISSES)
def test_near_miss(table: PatternTable, pattern: Pattern, miss: str) -> None:
    """A pattern's near miss is not taken for what the pattern is about."""
    found = table.find(miss)
    assert pattern.regex.match(miss) is None
    assert found is None or found[0].name != pattern.name


@pytest.mark.parametrize(("table", "pattern"), PATTERNS)
def test_documented(table: PatternTable, pattern: Pattern) -> None:
    """Each pattern names the upstream file that writes it, and has a sample and a near miss."""
    assert [one.name for one in table.patterns].count(pattern.name) == 1
    assert pattern.upstream
    assert pattern.samples
    assert pattern.near_misses


@pytest.mark.parametrize(("table", "pattern"), PATTERNS)
def test_index(table: PatternTable, pattern: Pattern) -> None:
    """The index by first words finds what trying every pattern in order finds."""
    for text in (*pattern.samples, *pattern.near_misses):
        in_order = next((one for one in table.patterns if one.regex.match(text)), None)
        found = table.find(text)
        assert (found[0] if found else None) == in_order


OTHERS = {
    "gunicorn-timeout": "[2026-11-30 12:00:00 +0000] [17] [CRITICAL] WORKER TIMEOUT (pid:31)",
    "gunicorn-killed": "[2026-11-30 12:00:00 +0000] [17] [ERROR] Worker (pid:31) was sent SIGKILL! Out of memory?",
    "gunicorn-exit": "[2026-11-30 12:00:00 +0000] [31] [INFO] Worker exiting (pid: 31)",
    "gunicorn-signal": "[2026-11-30 12:00:00 +0000] [17] [WARNING] Worker with pid 31 was terminated due to signal 15",
    "uwsgi-died": "DAMN ! worker 2 (pid: 31) died, killed by signal 9 :( trying respawn ...",
    "uwsgi-harakiri": "Mon Nov 30 12:00:00 2026 - *** HARAKIRI ON WORKER 2 (pid: 31, try: 1) ***",
    "rq-work-horse": "12:00:00 Work-horse terminated unexpectedly; waitpid returned 9 (signal 9); ",
    "rq-warm": "12:00:00 Worker rq:worker:1: Warm shut down requested",
    "sidekiq": "2026-11-30T12:00:00.000Z pid=31 tid=1 INFO: Shutting down",
    "airflow": "[2026-11-30, 12:00:00 UTC] {local_task_job.py:221} INFO - Task exited with return code -9",
    "postgres": "LOG:  server process (PID 31) was terminated by signal 9: Killed",
    "nginx": "2026/11/30 12:00:00 [alert] 17#17: worker process 31 exited on signal 9",
    "docker": 'level=info msg="Container failed to exit within 10s of signal 15 - using the force"',
    "dramatiq": "[2026-11-30 12:00:00,000] [PID 31] [MainThread] [dramatiq.MainProcess] [INFO] Shutting down",
    "huey": "[2026-11-30 12:00:00,000] INFO:huey.consumer:MainThread:Received SIGTERM",
    "django": "System check identified no issues (0 silenced).",
    "html": "> Stopping by Woods on a Snowy Evening",
}


@pytest.mark.parametrize("text", OTHERS.values(), ids=OTHERS.keys())
def test_other_programs(text: str) -> None:
    """A service's line of another program is nothing of Celery's, whatever it says of workers and signals."""
    journal = Journal()
    assert recognised(journal.chatter(text, unit="web.service")) == ()


@pytest.mark.parametrize(
    ("table", "pattern", "sample"), [param for param in SAMPLES if str(param.id).startswith(("systemd", "kernel"))]
)
def test_quoted_by_a_service(table: PatternTable, pattern: Pattern, sample: str) -> None:
    """The words of PID 1 and of the kernel are nothing when a service writes them."""
    del table, pattern
    journal = Journal()
    assert recognised(journal.chatter(sample, unit="web.service")) == ()


@pytest.mark.parametrize(
    ("table", "pattern", "sample"), [param for param in SAMPLES if str(param.id).startswith("celery")]
)
def test_quoted_by_the_system(table: PatternTable, pattern: Pattern, sample: str) -> None:
    """Celery's words are nothing when PID 1 or the kernel writes them."""
    del table, pattern
    journal = Journal()
    assert recognised(journal.write(sample, MANAGER, pid=1), journal.kernel(sample)) == ()


def test_tables() -> None:
    """Celery's records and bare lines, the service manager's records and the kernel's lines have tables."""
    assert {name.split(".")[0] for name in TABLES} >= {"celery", "systemd", "kernel"}
    assert sum(len(table.patterns) for table in TABLES.values()) > 40


def test_multi_quote() -> None:
    """Quoted mail that begins like `celery multi`'s chatter is recognised as that only with its very words."""
    journal = Journal()
    spoken = recognised(journal.chatter("> Stopping nodes...", unit="celery.service"))
    assert [type(one) for one in spoken] == [LogsToFile]
