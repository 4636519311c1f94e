"""Import a Celery app and write its tasks' acknowledgement settings, as JSON, to a file descriptor.

This file is a program of its own: the Python that has the app runs it, which need not be ours. It needs nothing but
Celery (3.1 or later) and Python 3.6, and is never imported.
"""

import json
import os
import resource
import sys

SETTINGS = ("acks_late", "reject_on_worker_lost", "acks_on_failure_or_timeout")


def settings_of(task: object) -> "dict[str, bool]":
    """Give what a task's own class or the app's configuration say; what its Celery does not know is left out."""
    found = {name: bool(getattr(task, name)) for name in SETTINGS if hasattr(task, name)}
    # Celery 5.7 has one setting each for failures and time-outs, which fall back to the one for both.
    failure, timeout = (getattr(task, name, None) for name in ("acks_on_failure", "acks_on_timeout"))
    if failure is not None and failure == timeout:
        found["acks_on_failure_or_timeout"] = bool(failure)
    return found


def tasks_of(name: str) -> "dict[str, dict[str, bool]]":
    """Import the app as `celery -A` does, with the modules that its workers import."""
    sys.path[0] = os.getcwd()  # noqa: PTH109 -- as Celery itself; where this file lies is no place for the app's imports
    from celery.app.utils import find_app  # noqa: PLC0415

    app = find_app(name)
    app.loader.import_default_modules()
    app.finalize(auto=True)
    return {task: settings_of(app.tasks[task]) for task in sorted(app.tasks) if not task.startswith("celery.")}


def main(name: str, descriptor: int) -> None:
    """Write {"tasks": {...}}, or {"error": "..."} if the app cannot be imported."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # an app that crashes leaves no core behind
    with os.fdopen(descriptor, "w") as answer:
        try:
            said = {"tasks": tasks_of(name)}  # type: dict[str, object]
        except BaseException as error:  # noqa: BLE001 -- an app may also call sys.exit
            lines = str(error).strip().splitlines()
            said = {"error": ": ".join([type(error).__name__, *lines[:1]])}
        json.dump(said, answer)
    os._exit(0)  # whatever threads the app has started shall not keep this waiting


main(sys.argv[1], int(sys.argv[2]))
