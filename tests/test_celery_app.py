"""Acknowledgement settings of real Celery apps, imported by a child process."""

import ast
import sys
import time
from pathlib import Path

import pytest

from kill_audit import celery_app
from kill_audit.celery_app import tasks_of
from kill_audit.classify import TaskSettings
from kill_audit.errors import UsageError

SHOP = """
import sys
print("a line on stdout")
print("a line on stderr", file=sys.stderr)
from celery import Celery
app = Celery("shop", broker="memory://", include=["shop_more"])
app.conf.task_acks_late = True

@app.task
def charge(): ...

@app.task(acks_late=False, reject_on_worker_lost=True)
def mail(): ...
"""
MORE = """
from shop import app

@app.task(acks_on_failure_or_timeout=False, name="shop.more.ship")
def ship(): ...
"""


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """A folder with a Celery app in two modules."""
    (tmp_path / "shop.py").write_text(SHOP)
    (tmp_path / "shop_more.py").write_text(MORE)
    return tmp_path


@pytest.mark.parametrize("name", ["shop:app", "shop", "shop.app"])
def test_each_task_has_its_own_settings_else_the_app_s(name: str, shop: Path) -> None:
    """An app named in any of celery's ways gives all its tasks, with those of its `include`, and none of Celery's."""
    assert tasks_of(name, folder=shop) == {
        "shop.charge": TaskSettings(acks_late=True, reject_on_worker_lost=False, acks_on_failure_or_timeout=True),
        "shop.mail": TaskSettings(acks_late=False, reject_on_worker_lost=True, acks_on_failure_or_timeout=True),
        "shop.more.ship": TaskSettings(acks_late=True, reject_on_worker_lost=False, acks_on_failure_or_timeout=False),
    }


def test_nothing_that_the_app_prints_is_seen_and_it_is_not_imported_here(
    shop: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The app's own output is kept out, and its modules stay out of this process."""
    tasks_of("shop", folder=shop)
    assert capfd.readouterr() == ("", "")
    assert "shop" not in sys.modules
    assert "kill_audit.celery_app.child" not in sys.modules


def test_an_app_with_many_tasks_fits_in_the_answer(tmp_path: Path) -> None:
    """Ten thousand tasks are more than a pipe holds."""
    lines = ["from celery import Celery", "app = Celery('big', broker='memory://')", "def task(): ..."]
    lines += ["for n in range(10_000):", "    app.task(name=f'big.task.{n}')(task)"]
    (tmp_path / "big.py").write_text("\n".join(lines))
    assert len(tasks_of("big", folder=tmp_path)) == 10_000


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("raise RuntimeError('no\\nmore')", "RuntimeError: no"),
        ("import nosuch", "ModuleNotFoundError: No module named 'nosuch'"),
        ("x = (", "SyntaxError: '(' was never closed (app.py, line 1)"),
        ("import sys; sys.exit(3)", "SystemExit: 3"),
        ("import sys; sys.exit()", "SystemExit"),
        ("import os; os._exit(3)", "its process exited with status 3"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "its process died of SIGSEGV"),
        ("x = 1", "AttributeError: module 'app' has no attribute 'celery'"),
        ("raise RuntimeError('x' * 9999)", "RuntimeError: " + "x" * 286),
    ],
)
def test_an_app_that_cannot_be_imported_is_told_in_one_line(text: str, reason: str, tmp_path: Path) -> None:
    """Whatever goes wrong in the child, the error is one line, and the hint names the command that shows all of it."""
    (tmp_path / "app.py").write_text(text)
    with pytest.raises(UsageError) as caught:
        tasks_of("app", folder=tmp_path)
    assert caught.value.message == f"cannot import the Celery app app: {reason}"
    assert caught.value.hint.startswith(f"see what it says: cd {tmp_path} && {sys.executable} -m celery -A app report")


def test_an_app_that_hangs_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    """After the time-out the child and its own children are gone."""
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\nsleep 1000 &\necho $! > pid\nwait\n")
    python.chmod(0o755)
    with pytest.raises(UsageError, match=r"it takes more than 3 s"):
        tasks_of("slow", python=str(python), folder=tmp_path, timeout=3)
    grandchild = (tmp_path / "pid").read_text().strip()
    for _ in range(600):  # it has been killed, but a busy machine may not have let it die yet
        if state_of(grandchild) in "ZX":
            break
        time.sleep(0.1)
    assert state_of(grandchild) in "ZX"


def state_of(pid: str) -> str:
    """The state of a process as /proc has it, in one letter; X where there is none."""
    try:
        return Path("/proc", pid, "stat").read_text().rpartition(") ")[2][0]
    except OSError:
        return "X"


def test_a_python_that_is_not_there_is_named(tmp_path: Path) -> None:
    """The interpreter may be another one than ours, and then it may be missing."""
    with pytest.raises(UsageError) as caught:
        tasks_of("shop", python=str(tmp_path / "python"), folder=tmp_path)
    assert caught.value.message == (
        f"cannot import the Celery app shop: cannot run {tmp_path / 'python'}: No such file or directory"
    )


def test_the_child_is_a_program_for_old_pythons_too() -> None:
    """Its source compiles as Python 3.6 reads it, without a name that only newer ones have."""
    source = Path(celery_app.__file__).with_name("child.py")
    ast.parse(source.read_text(), feature_version=(3, 6))
    assert "from __future__" not in source.read_text()
