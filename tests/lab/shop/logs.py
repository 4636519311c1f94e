"""How the worker's lines look: Celery's own format, or one of those that apps put in its place.

`default` Celery's. `plain` the message alone. `coloured` Celery's, with its colour codes. `json` one object a line,
from a handler of the app's own (`setup_logging`: Celery then configures nothing, and the pool's own lines go out
bare).
"""

from __future__ import annotations

import json
import logging
import sys
from typing import Any

from celery import signals
from celery.utils.log import ColorFormatter


class JsonFormatter(logging.Formatter):
    """One JSON object a record, with Celery's own `data` (task id and name) where it has one."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as JSON text."""
        entry: dict[str, Any] = {
            "timestamp": self.formatTime(record),
            "levelname": record.levelname,
            "name": record.name,
            "processName": record.processName,
            "message": record.getMessage(),
        }
        if hasattr(record, "data"):
            entry["data"] = record.data
        if record.exc_info:
            entry["exc_info"] = self.formatException(record.exc_info)
        return json.dumps(entry, default=repr)


def arrange(app: Any, style: str) -> None:
    """Arrange the logging of the app's workers in the named style."""
    if style == "plain":
        app.conf.worker_log_format = "%(message)s"
        app.conf.worker_task_log_format = "%(message)s"
    elif style == "coloured":
        signals.after_setup_logger.connect(_colour, weak=False)
    elif style == "json":
        signals.setup_logging.connect(_json, weak=False)


def _colour(logger: logging.Logger, format: str, **_: object) -> None:  # noqa: A002  Celery calls it so
    # Without a terminal Celery never colours by itself: an app that wants colour puts the formatter in.
    for handler in logger.handlers:
        handler.setFormatter(ColorFormatter(format, use_color=True))


def _json(**_: object) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.INFO)
