"""Timers for `collect` and `mail`: systemd units with hardening, or lines for cron.

In this room: `plan` (the texts, pure), `own` (files that this program wrote, and no others), `programs` (systemctl,
systemd-analyze, crontab). Rules of this room: what it did not write it neither overwrites nor removes.
"""

from kill_audit.schedule.failures import ScheduleError
from kill_audit.schedule.own import Whose, block_of, refuse_others, remove, whose, with_block, write
from kill_audit.schedule.plan import COLLECT, CRON_NAME, MAIL, Plan, calendar_of, cron_text, unit_files
from kill_audit.schedule.programs import crontab, manager_runs, next_run, replace_crontab, tell_manager

__all__ = [
    "COLLECT",
    "CRON_NAME",
    "MAIL",
    "Plan",
    "ScheduleError",
    "Whose",
    "block_of",
    "calendar_of",
    "cron_text",
    "crontab",
    "manager_runs",
    "next_run",
    "refuse_others",
    "remove",
    "replace_crontab",
    "tell_manager",
    "unit_files",
    "whose",
    "with_block",
    "write",
]
