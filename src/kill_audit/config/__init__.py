"""The configuration: TOML files in their order, typed, with every mistake of all of them told at once.

Rules of this room: it knows what a configuration may say, and no command and no database. An environment variable or a
flag goes before every file; that is the command line's part.
"""

from kill_audit.config.files import has_secret, refuse_secrets
from kill_audit.config.mistakes import CheckOption, Mistake, OptionsOf, mistakes_of
from kill_audit.config.settings import Settings, TaskRules, load
from kill_audit.config.shape import DeployMark, Ledger, Mail, Results, RunLog, Schedule

__all__ = [
    "CheckOption",
    "DeployMark",
    "Ledger",
    "Mail",
    "Mistake",
    "OptionsOf",
    "Results",
    "RunLog",
    "Schedule",
    "Settings",
    "TaskRules",
    "has_secret",
    "load",
    "mistakes_of",
    "refuse_secrets",
]
