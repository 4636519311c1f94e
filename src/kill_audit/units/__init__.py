"""Worker units: what systemd is told about them, and what the journal shows of them.

Rules of this room: it knows systemctl, unit files and Celery's command line, and no causes. Environment variables are
looked at to understand a command line, and never kept: they hold secrets.
"""

from kill_audit.units.advice import informed
from kill_audit.units.command import WorkerCommand, worker_command
from kill_audit.units.files import configuration
from kill_audit.units.seen import SeenUnit, seen_units
from kill_audit.units.settings import UnitSettings
from kill_audit.units.systemctl import Found, machine_id, settings_of

__all__ = [
    "Found",
    "SeenUnit",
    "UnitSettings",
    "WorkerCommand",
    "configuration",
    "informed",
    "machine_id",
    "seen_units",
    "settings_of",
    "worker_command",
]
