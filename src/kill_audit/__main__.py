"""`python -m kill_audit`, and the `kill-audit` command."""

import os
import sys


def main() -> None:
    """Run the command line and exit with its status; an error of the program itself is 2 and shows its traceback."""
    # Nothing here is linear algebra: without numpy's threads for it, a child can be forked (see `engine`).
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from kill_audit.cli import run  # noqa: PLC0415 - so that importing this module for its name costs nothing

    try:
        status = run(sys.argv[1:])
    except Exception:  # noqa: BLE001 - Python's own status would be 1, which means findings
        sys.excepthook(*sys.exc_info())
        status = 2
    sys.exit(status)


if __name__ == "__main__":
    main()
