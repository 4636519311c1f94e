"""The booted machine that the lab's tests share."""

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from .root import AUDIT_VENV, PROJECT, obstacles
from .runner import laboratory
from .stage import Stage


@pytest.fixture(scope="session")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """A booted machine with kill-audit installed from its wheel."""
    if obstacles():
        reason = "the kill lab can't run here: " + "; ".join(obstacles())
        (pytest.fail if os.environ.get("CI") else pytest.skip)(reason)
    wheels = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(wheels), str(PROJECT)]
    subprocess.run(build, check=True)
    [wheel] = wheels.glob("kill_audit-*.whl")
    with laboratory() as stage:
        (stage.container.root / "opt" / wheel.name).write_bytes(wheel.read_bytes())
        stage.run(f"{AUDIT_VENV}/bin/pip", "install", "--quiet", "--no-index", "--no-deps", f"/opt/{wheel.name}")
        yield stage
