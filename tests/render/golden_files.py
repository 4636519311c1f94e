"""Golden files: whole outputs that were looked at by a person, and are compared to the last character."""

import os
from collections.abc import Collection
from pathlib import Path

import pytest

HERE = Path(__file__).parent
GOLDEN = HERE / "golden"
ACTUAL = HERE.parent / "actual" / "render"
BLESSING = os.environ.get("KILL_AUDIT_BLESS") == "1"


def check_golden(name: str, actual: str) -> None:
    """Compare a text with the file of that name in golden/; `make bless` (KILL_AUDIT_BLESS=1) rewrites the file.

    A text that differs is saved under tests/actual/render/ for `diff` and for looking at.
    """
    expected = GOLDEN / name
    if BLESSING:
        _write(expected, actual)
    elif not expected.exists() or expected.read_bytes().decode() != actual:
        _write(ACTUAL / name, actual)
        pytest.fail(
            f"differs from {expected}; the text is in {ACTUAL / name}; `make bless` takes it over", pytrace=False
        )


def check_none_is_left_over(names: Collection[str]) -> None:
    """Refuse golden files that no test compares with; `make bless` removes them."""
    left_over = sorted({path.name for path in GOLDEN.iterdir()} - set(names)) if GOLDEN.exists() else []
    if BLESSING:
        for name in left_over:
            (GOLDEN / name).unlink()
    else:
        assert left_over == []


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8", newline="")
