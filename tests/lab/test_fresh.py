"""The two commands on the README's first page, in a Debian that has nothing but Python and make."""

import functools
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from . import cgroups
from .root import PROJECT, Layer, debian, obstacles
from .runner import fresh

pytestmark = [
    pytest.mark.lab,
    pytest.mark.skipif(os.environ.get("KILL_AUDIT_LAB") != "all", reason="takes minutes: make lab-all"),
]

NOT_COPIED = shutil.ignore_patterns(".git", ".venv", ".lab", "__pycache__", ".*_cache")
# How this host reaches the package index is its own affair: what it needs for that is handed in.
HANDED_IN = ("PIP_INDEX_URL", "http_proxy", "https_proxy", "no_proxy")
CERTIFICATES = "/opt/package-index.pem"
SETS_UP_THE_TESTS = (".venv/.services", ".venv/.lab")


@pytest.fixture(params=["bookworm", "trixie"])
def root(request: pytest.FixtureRequest) -> Iterator[Path]:
    """A fresh Debian with the project in it."""
    if obstacles():
        pytest.skip("; ".join(obstacles()))
    packages = ("ca-certificates", "make", "python3")
    make = functools.partial(debian, request.param, packages)
    with fresh(Layer(name=f"fresh-{request.param}", recipe=(request.param, *packages), make=make)) as root:
        shutil.copytree(PROJECT, root / "srv/kill-audit", ignore=NOT_COPIED)
        yield root


def test_both_commands_set_up_all_they_need(root: Path) -> None:
    """`make report` prints what the README shows; `make test` finds all it needs, and its quick part passes."""
    shown = (PROJECT / "README.md").read_text().partition("$ make report\n")[2].partition("By deploy")[0]
    report = made(root, "report")
    assert {line for line in shown.splitlines() if line not in report.splitlines()} == set()
    made(root, *SETS_UP_THE_TESTS)
    assert " passed" in made(root, "quick")


def made(root: Path, *targets: str) -> str:
    """Make targets inside, as root, and return what they said."""
    # Its packages come over this host's network; --keep-unit, --register=no: this host need not run systemd.
    enter = [
        *cgroups.within(root.parent.name),
        "systemd-nspawn",
        "--quiet",
        "--register=no",
        "--keep-unit",
        "--pipe",
        f"--directory={root}",
    ]
    enter += ["--resolv-conf=replace-host", "--chdir=/srv/kill-audit"]
    enter += [f"--setenv={name}={os.environ[name]}" for name in HANDED_IN if name in os.environ]
    if trusted := os.environ.get("PIP_CERT"):
        enter += [f"--bind-ro={trusted}:{CERTIFICATES}", f"--setenv=PIP_CERT={CERTIFICATES}"]
    done = subprocess.run(
        [*enter, "make", *targets],
        check=False,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-5000:]
    return done.stdout
