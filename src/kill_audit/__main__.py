"""`python -m kill_audit`, and the `kill-audit` command."""

import os
import sys


def main() -> None:
    """Run the command line and exit with its status."""
    # Nothing here is linear algebra: without numpy's threads for it, a child can be forked (see `engine`).
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from kill_audit.cli import run  # noqa: PLC0415 - so that importing this module for its name costs nothing

    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
