"""The clock of the database's server, against this host's."""

import os
import time
from collections.abc import Mapping

import sqlalchemy as sa

from kill_audit.database import Database
from kill_audit.runlog.opening import open_place


def clock_skew_s(
    url_or_path: str, *, purpose: str = "run-log", environ: Mapping[str, str] = os.environ
) -> float | None:
    """Say by how many seconds the server's clock is ahead of this host's; None for a file, which has no clock.

    Args:
        url_or_path: as for `open_run_log`.
        purpose: `run-log` or `results`.
        environ: the environment, where passwords may be.

    Raises:
        RunLogError: it cannot be reached.
    """
    place = open_place(url_or_path, purpose=purpose, environ=environ)
    if not isinstance(place, Database) or place.kind == "sqlite":
        return None
    # The moment of the question, not of the transaction's start (PostgreSQL manual, "Current Date/Time").
    now = (
        sa.extract("epoch", sa.func.clock_timestamp())
        if place.kind == "postgresql"
        else sa.func.unix_timestamp(sa.func.now(6))
    )

    def ask(connection: sa.Connection) -> float:
        before = time.time()
        told = float(connection.execute(sa.select(now)).scalar_one())
        return told - (before + time.time()) / 2

    return place.run(ask)
