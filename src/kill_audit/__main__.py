"""`python -m kill_audit`, and the `kill-audit` command."""

import sys


def main() -> None:
    """Run the command line and exit with its status."""
    from kill_audit.cli import run  # noqa: PLC0415 - so that importing this module for its name costs nothing

    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
