"""Every form of the sample documents is held whole; what a form promises beyond its look is in its own test file."""

import datetime as dt
from collections.abc import Iterator
from zoneinfo import ZoneInfo

import pytest
from golden_files import check_golden, check_none_is_left_over
from sample_documents import SAMPLES, crowd

from kill_audit.render import render

WIDTHS = {"80": 80, "200": 200, "piped": None}
TERMINAL = [(sample, width, f"{sample}.{width}.txt") for sample in SAMPLES for width in WIDTHS]
FEW = ("mixture", "hostile", "nothing-found-partial")
FORMS_HELD = {
    "short": SAMPLES,
    "md": SAMPLES,
    "csv": FEW,
    "prometheus": ("mixture", "hostile", "nothing-found", "no-run-log"),
    "json": ("mixture", "hostile"),
    "ndjson": ("mixture", "hostile"),
    "html": FEW,
}
EXPLAINED = {"table": 100, "short": None, "md": None, "html": None}


def _held() -> Iterator[tuple[str, str, str]]:
    for form, samples in FORMS_HELD.items():
        for sample in samples:
            yield sample, form, f"{sample}.{form}"


HELD = list(_held())


@pytest.mark.parametrize(("sample", "width", "name"), TERMINAL, ids=[name for _, _, name in TERMINAL])
def test_the_report_on_a_terminal(sample: str, width: str, name: str) -> None:
    """The terminal report is good at 80 columns, at 200, and through a pipe."""
    check_golden(name, render(SAMPLES[sample](), "table", width=WIDTHS[width], zone=dt.UTC))


@pytest.mark.parametrize(("sample", "form", "name"), HELD, ids=[name for _, _, name in HELD])
def test_the_other_forms(sample: str, form: str, name: str) -> None:
    """Each other form is the same as when a person looked at it."""
    check_golden(name, render(SAMPLES[sample](), form, width=None, zone=dt.UTC))


@pytest.mark.parametrize("form", EXPLAINED)
def test_the_report_with_explanations(form: str) -> None:
    """With `-x` each cause, fate, verdict and coverage problem that occurs is explained; colours only repeat words."""
    shown = render(
        SAMPLES["mixture"](),
        form,
        width=EXPLAINED[form],
        color=form == "table",
        zone=ZoneInfo("Europe/Berlin"),
        explain=True,
    )
    check_golden(f"mixture.explained.{form}", shown)


def test_no_golden_file_is_left_over() -> None:
    """Every golden file belongs to a test, so that none is out of date unseen."""
    names = [name for _, _, name in TERMINAL + HELD]
    check_none_is_left_over([*names, *(f"mixture.explained.{form}" for form in EXPLAINED)])


@pytest.mark.parametrize("width", [80, 200, None])
def test_five_thousand_kills_are_all_listed(width: int | None) -> None:
    """A bad week is listed whole: no id is left out or cut, at any width."""
    document = crowd()
    shown = render(document, "table", width=width, zone=dt.UTC)
    ids = {line.split(" ", 1)[0] for line in shown.splitlines()}
    assert {kill.id for kill in document.kills} - ids == set()
    assert [kill.task.id for kill in document.kills if f"[{kill.task.id}]" not in shown] == []
