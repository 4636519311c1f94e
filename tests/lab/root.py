"""The Debian that the lab boots: made once in layers, kept between runs, never written to again (a boot adds its own).

It holds systemd, Redis, RabbitMQ, PostgreSQL, one virtual environment for each Celery, and one with all that
kill-audit needs besides itself.
"""

import hashlib
import inspect
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import textwrap
import time
import tomllib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from . import cgroups
from .errors import LabError
from .locks import locked

HERE = Path(__file__).parent
PROJECT = HERE.parents[1]
LOCKED = PROJECT / "requirements.lock"
SUITE = "bookworm"
PACKAGES = (
    "ca-certificates",
    "dbus",
    "libpam-systemd",
    "postgresql",
    "procps",
    "python3",
    "python3-systemd",  # so that nothing has to be compiled for the reader of the live journal
    "python3-venv",
    "rabbitmq-server",
    "redis-server",
    "sudo",
    "systemd",
    "systemd-sysv",
)
# Work that Debian does by itself and that has no place in a recording.
MASKED = (
    "apt-daily-upgrade.timer",
    "apt-daily.timer",
    "dpkg-db-backup.timer",
    "e2scrub_all.timer",
    "pg_basebackup@15-main.timer",
    "pg_compresswal@15-main.timer",
    "pg_dump@15-main.timer",
    "pg_receivewal@15-main.service",
    "systemd-firstboot.service",
    "systemd-networkd.service",
    "systemd-networkd.socket",
)
# Started by the scenarios that want it.
DISABLED = ("rabbitmq-server.service",)
PREPARE = """
set -eu
useradd --system --create-home --home-dir /srv/shop --shell /bin/sh shop
useradd --create-home --shell /bin/sh ops
useradd --create-home --shell /bin/sh --groups systemd-journal auditor
pg_ctlcluster 15 main start
for role in shop ops auditor root; do runuser -u postgres -- createuser "$role"; done
runuser -u postgres -- createdb --owner shop shop
runuser -u postgres -- psql -q -d shop -c 'grant shop to ops; grant pg_read_all_data to auditor, root'
pg_ctlcluster 15 main stop
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Celery:
    """One Celery that the lab can run, with the Python (in the root) that runs it."""

    version: str
    python: str

    @property
    def requirements(self) -> Path:
        """The exact distributions of its virtual environment; none is resolved by pip."""
        return HERE / "requirements" / f"celery-{self.version}.txt"

    @property
    def venv(self) -> str:
        """Its folder in the root."""
        return f"/opt/celery-{self.version}"


CELERIES = (
    Celery(version="5.7", python="3.11"),
    Celery(version="5.2", python="3.11"),
    Celery(version="4.4", python="3.8"),
)
AUDIT_VENV = "/opt/kill-audit"


def obstacles() -> list[str]:
    """Say why the lab can't run on this machine; empty if it can."""
    found = []
    if os.geteuid() != 0:
        found.append("it needs root")
    tools = {"mmdebstrap": "mmdebstrap", "systemd-nspawn": "systemd-container", "nsenter": "util-linux"}
    missing = sorted(package for tool, package in tools.items() if not shutil.which(tool))
    if missing:
        found.append(f"it needs: apt-get install {' '.join(missing)}")
    if not found:
        found += _mount_obstacles()
    return found


def _mount_obstacles() -> list[str]:
    """Try what a container needs: a file system on top of another, where the lab keeps its files."""
    if not Path("/dev/kmsg").exists():
        return ["there is no /dev/kmsg"]
    cache().mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache(), prefix="trial-") as folder:
        lower, upper = Path(folder, "lower"), Path(folder, "upper")
        lower.mkdir()
        try:
            with overlaid(Path(folder, "root"), lower, upper=upper):
                return []
        except LabError as error:
            return [str(error)]


def cache() -> Path:
    """Return the folder that the lab keeps between runs."""
    return Path(os.environ.get("KILL_AUDIT_LAB_CACHE", "/var/tmp/kill-audit-lab"))  # noqa: S108  kept, and only root's


def pythons() -> dict[str, Path | None]:
    """Return where each Python of the lab comes from: Debian's own (None), or a pyenv of this machine, copied in."""
    found: dict[str, Path | None] = {"3.11": None}
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    for folder in sorted(pyenv.glob("3.8.*")):
        found["3.8"] = folder
    return found


def available() -> tuple[Celery, ...]:
    """Return the Celeries that this machine has a Python for."""
    return tuple(celery for celery in CELERIES if celery.python in pythons())


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """A folder that is made once of its recipe. `make` fills it."""

    name: str
    recipe: Sequence[str]
    make: Callable[[Path], None]

    @property
    def folder(self) -> Path:
        """Where it is kept: another recipe has another folder."""
        digest = hashlib.sha256("\0".join(self.recipe).encode()).hexdigest()
        return cache() / f"{self.name}-{digest[:12]}"

    @contextmanager
    def kept(self) -> Iterator[Path]:
        """Return the folder, which stays as it is meanwhile. Made first if missing, which takes minutes."""
        lock = cache() / f"{self.name}.lock"
        while True:
            # Another lab, of another recipe, may have put its own in the place between the two locks.
            with locked(lock, shared=True):
                if self.folder.exists():
                    yield self.folder
                    return
            with locked(lock):
                self._build()

    def _build(self) -> None:
        """Make it, unless it is there, in the place of the one of an earlier recipe."""
        if self.folder.exists():
            return
        for old in cache().glob(f"{self.name}-*"):
            shutil.rmtree(old)
        building = cache() / f"building-{self.name}"
        shutil.rmtree(building, ignore_errors=True)
        building.mkdir()
        self.make(building)
        building.rename(self.folder)


def machine() -> tuple[Layer, Layer]:
    """Return what the lab boots: a Debian with all else, and above it what kill-audit needs."""
    pins = [celery.requirements.read_text() for celery in available()]
    recipe = (*PACKAGES, *MASKED, *DISABLED, PREPARE, *pins, *BUILDERS)
    base = Layer(name=f"root-{SUITE}", recipe=recipe, make=_build)
    wanted = _audit_requirements()

    def add_audit(layer: Path) -> None:
        with overlaid(layer.with_suffix(".root"), base.folder, upper=layer) as root:
            _install(root, AUDIT_VENV, "3.11", wanted, f"--constraint={LOCKED}")

    return base, Layer(name="kill-audit", recipe=(base.folder.name, *wanted, LOCKED.read_text()), make=add_audit)


@contextmanager
def overlaid(folder: Path, *lower: Path, upper: Path) -> Iterator[Path]:
    """Mount a root of layers in a folder, with `upper` taking all changes, and take it apart again."""
    work = upper.with_suffix(".work")
    unmount(folder)  # of a lab that was killed
    for made in (folder, upper, work):
        made.mkdir(parents=True, exist_ok=True)
    options = f"lowerdir={':'.join(map(str, lower))},upperdir={upper},workdir={work}"
    _call("mount", "-t", "overlay", "overlay", "-o", options, str(folder))
    try:
        yield folder
    finally:
        unmount(folder)
        shutil.rmtree(work)
        folder.rmdir()


def unmount(folder: Path) -> None:
    """Unmount a folder, once nothing is left in it: the kernel may still be taking dead processes' mounts apart."""
    for _ in range(300):
        if (
            not folder.is_mount()
            or subprocess.run(["umount", str(folder)], check=False, capture_output=True).returncode == 0
        ):
            return
        time.sleep(0.1)
    raise LabError(f"{folder} stays in use")


def debian(suite: str, packages: Sequence[str], root: Path) -> None:
    """Make a Debian of its smallest kind with these packages."""
    _call("mmdebstrap", "--quiet", "--variant=minbase", f"--include={','.join(packages)}", suite, str(root))


def _build(root: Path) -> None:
    debian(SUITE, PACKAGES, root)
    (root / "etc/hostname").write_text("web1\n")
    (root / "var/log/journal").mkdir(exist_ok=True)
    for unit in MASKED:
        (root / "etc/systemd/system" / unit).symlink_to("/dev/null")
    for unit in DISABLED:
        (root / "etc/systemd/system/multi-user.target.wants" / unit).unlink()
    (root / "etc/sudoers.d/ops").write_text("ops ALL=(ALL) NOPASSWD: ALL\n")
    # A broker that loses no message when the plug is pulled, and databases that need no network.
    with (root / "etc/redis/redis.conf").open("a") as redis:
        redis.write("appendonly yes\n")
    with (root / "etc/postgresql/15/main/postgresql.conf").open("a") as postgres:
        postgres.write("listen_addresses = ''\nfsync = off\n")
    _inside(root, "sh", "-c", PREPARE)
    for celery in available():
        _install(root, celery.venv, celery.python, _pins(celery), "--no-deps")


def _pins(celery: Celery) -> list[str]:
    """Return the distributions of a requirements file, comments apart."""
    lines = (line.partition("#")[0].strip() for line in celery.requirements.read_text().splitlines())
    return [line for line in lines if line]


def _audit_requirements() -> list[str]:
    """Return what kill-audit needs, with PostgreSQL and pictures in mails, and the mail server of the tests.

    Debian's own python3-systemd stands for systemd-python.
    """
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    wanted = [*project["dependencies"], *extras["postgres"], *extras["mail"], "aiosmtpd"]
    return sorted(requirement for requirement in wanted if not requirement.startswith("systemd-python"))


def _install(root: Path, venv: str, python: str, requirements: Sequence[str], *how: str) -> None:
    """Make a virtual environment in the root from wheels that a pip outside fetches: the root has no network."""
    wheels = root / "wheels"
    wheels.mkdir()
    source = pythons()[python]
    if source is None:
        pip, interpreter = sys.executable, "python3"
    else:
        pip, interpreter = _copy_python(root, source, python)
    machine = platform.machine()
    tags = [f"--platform=manylinux_{glibc}_{machine}" for glibc in ("2_28", "2_17")]
    tags += [f"--platform=manylinux2014_{machine}", f"--python-version={python}"]
    fetch = [pip, "-m", "pip", "download", "--quiet", "--only-binary=:all:", f"--dest={wheels}"]
    _call(*fetch, *tags, *how, *requirements)
    options = ["--system-site-packages"] if venv == AUDIT_VENV else []
    _inside(root, interpreter, "-m", "venv", *options, venv)
    names = [str(Path("/wheels") / wheel.name) for wheel in wheels.iterdir()]
    _inside(root, f"{venv}/bin/pip", "install", "--quiet", "--no-index", "--no-deps", *names)
    shutil.rmtree(wheels)


def _copy_python(root: Path, source: Path, python: str) -> tuple[str, str]:
    """Copy a Python of this machine into the root; return what runs its pip here, and what runs it in the root."""
    # Same path as outside: a Python knows the folder it was built for.
    unwanted = shutil.ignore_patterns("test", "*.a")
    shutil.copytree(source, root / source.relative_to("/"), symlinks=True, ignore=unwanted)
    for folder in source.parents[:-1]:
        (root / folder.relative_to("/")).chmod(0o755)
    # The pip that came with it: Celery 4.4 names a requirement in a way that pip refuses from 24.1 on.
    bundled = cache() / f"pip-{python}"
    interpreter = str(source / "bin" / f"python{python}")
    _call(interpreter, "-m", "venv", "--clear", str(bundled))
    return str(bundled / "bin/python"), interpreter


def _inside(root: Path, *command: str) -> None:
    """Run a command in the root without booting it."""
    # --keep-unit and --register=no: this machine need not run systemd itself.
    enter = ("systemd-nspawn", "--quiet", "--register=no", "--keep-unit", "--pipe", "--private-network")
    name = f"kill-audit-lab-{os.getpid()}"
    try:
        _call(*cgroups.within(name), *enter, f"--directory={root}", *command)
    finally:
        cgroups.remove(name)


def _call(*command: str) -> None:
    done = subprocess.run(command, check=False, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode:
        told = textwrap.indent((done.stderr or done.stdout).strip()[-2000:], "    ")
        raise LabError(f"{' '.join(command)[:200]} failed ({done.returncode}):\n{told}")


# How a root is made belongs to its recipe: a change of these makes a new one.
BUILDERS = tuple(inspect.getsource(builder) for builder in (_build, _install, _copy_python))
