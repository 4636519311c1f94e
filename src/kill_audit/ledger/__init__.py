"""What was found, kept: so that kills, coverage and trends outlive what journald throws away.

A ledger holds a book for each thing that is watched (`Scope`). `kill-audit collect` records a document in it every
hour; `Ledger.supplement` gives a report what the journal has lost since, `previous` and `weeks` what it is compared
with. Rules of this room: it keeps and counts; what is a kill, and why, is decided elsewhere. In it, lowest first:
`spans` and `weeks` (numbers), `evidence` (what a document reaches over), `kept` and `merge` (what a document changes),
`supplement`, `tables` and `place` (SQL), `book` (all of it together).
"""

from kill_audit.ledger.book import Ledger, Recorded, Scope, open_ledger
from kill_audit.ledger.evidence import Hole, covered, holes
from kill_audit.ledger.failures import LedgerError
from kill_audit.ledger.place import state_directory, usual_place
from kill_audit.ledger.weeks import Week, covered_days, last_week

__all__ = [
    "Hole",
    "Ledger",
    "LedgerError",
    "Recorded",
    "Scope",
    "Week",
    "covered",
    "covered_days",
    "holes",
    "last_week",
    "open_ledger",
    "state_directory",
    "usual_place",
]
