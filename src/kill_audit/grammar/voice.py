"""Who speaks: which program an entry can be trusted to come from, by journald's own fields alone.

Any local user can write any MESSAGE, any SYSLOG_IDENTIFIER and any field without an underscore. Only the underscore
fields are journald's (systemd.journal-fields(7)). Text files have lost them; there the line's own tag has to do, and
coverage says so.
"""

from enum import Enum

from kill_audit.entry import Origin


class Voice(Enum):
    """A program whose words are read."""

    MANAGER = "systemd"
    LOGIND = "systemd-logind"
    JOURNALD = "systemd-journald"
    COREDUMP = "systemd-coredump"
    OOM_DAEMON = "systemd-oomd"
    SUDO = "sudo"
    KERNEL = "kernel"
    SERVICE = "service"  # a unit's own process: perhaps a Celery worker
    OTHER = "other"


_IN_TEXT = {
    "systemd": Voice.MANAGER,
    "systemd-logind": Voice.LOGIND,
    "systemd-journald": Voice.JOURNALD,
    "systemd-journal": Voice.JOURNALD,
    "kernel": Voice.KERNEL,
    "sudo": Voice.SUDO,
    "systemd-oomd": Voice.OOM_DAEMON,
    "earlyoom": Voice.OOM_DAEMON,
    "systemd-coredump": Voice.COREDUMP,
}
# Where only root installs programs; a copy of sudo in somebody's home can write what it likes.
_SYSTEM_FOLDERS = ("/usr/", "/bin/", "/sbin/", "/lib/", "/lib64/", "/run/wrappers/", "/nix/store/", "/snap/")


def voice_of(origin: Origin, pid: int) -> Voice:
    """Tell who wrote an entry of this origin and `_PID`."""
    if not origin.vouched:
        return _IN_TEXT.get(origin.identifier or "", Voice.SERVICE)
    if origin.transport == "kernel":
        # Facility 0 is the kernel's; user space writes to /dev/kmsg under others, as journald itself does
        # (journald-kmsg.c names the program in the identifier, and knows its pid only then).
        own = origin.facility in (0, None) and origin.identifier in ("kernel", None) and pid == 0
        return Voice.KERNEL if own else Voice.OTHER
    if origin.transport == "driver":
        return Voice.JOURNALD
    return _privileged(origin, pid) or (Voice.SERVICE if _is_service(origin) else Voice.OTHER)


def _privileged(origin: Origin, pid: int) -> Voice | None:
    comm, root = origin.comm or "", origin.uid == 0
    exe = origin.exe if origin.exe is not None and origin.exe.startswith(_SYSTEM_FOLDERS) else ""
    if pid == 1 and (root or origin.uid is None):
        return Voice.MANAGER
    if comm == "systemd" and exe.endswith("/systemd") and (origin.unit or "").startswith(("init.scope", "user@")):
        return Voice.MANAGER
    if exe.endswith("/systemd-logind") or (comm == "systemd-logind" and root):
        return Voice.LOGIND
    if exe.endswith("/systemd-journald") or (comm == "systemd-journal" and root):
        return Voice.JOURNALD
    if exe.endswith("/systemd-coredump") or (comm == "systemd-coredum" and root):
        return Voice.COREDUMP
    if exe.endswith(("/systemd-oomd", "/earlyoom")) or (comm in ("systemd-oomd", "earlyoom") and root):
        return Voice.OOM_DAEMON
    if exe.endswith("/sudo"):
        return Voice.SUDO
    return None


def _is_service(origin: Origin) -> bool:
    """Whether this can be a worker's own line: it comes from a service or a container, or has lost its unit."""
    if origin.unit is None and origin.container is None:
        return origin.stream_id is not None  # a line that lost its unit: its stream may tell whose it is
    return origin.container is not None or not (origin.unit or "").endswith((".scope", ".slice"))
