"""The report as text: a form each for a terminal, for grep, for programs, for a wiki, for Prometheus, for a browser.

Rules of this room: everything comes from the document alone; no files, no clock, no terminal is looked at. What came
from journals and databases is made printable before any form sees it, and each form escapes for its own medium.
A form's module is imported when it is used, so that naming the forms costs nothing.
"""

import datetime as dt
from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Protocol, cast

from kill_audit.document import Document
from kill_audit.errors import UsageError
from kill_audit.render.printable import printable_document
from kill_audit.render.sentences import headline as _headline
from kill_audit.render.view import View

FORMS: Mapping[str, str] = MappingProxyType(
    {
        "table": "terminal",
        "short": "short",
        "json": "records",
        "ndjson": "records",
        "csv": "sheet",
        "md": "markdown",
        "html": "page",
        "prometheus": "prometheus",
    }
)
"""The value of `-o`, and the module of this room that writes it."""

EXACT = frozenset({"json", "ndjson"})
"""Forms for programs: they carry the document's values as they are, and escape in their own syntax."""


class _Form(Protocol):
    def render(self, document: Document, view: View) -> str: ...


def render(
    document: Document,
    form: str,
    *,
    width: int | None,
    color: bool = False,
    zone: dt.tzinfo | None = None,
    explain: bool = False,
) -> str:
    """Write the document in one of `FORMS`; the text ends with a newline.

    Args:
        document: the report.
        form: a key of `FORMS`.
        width: columns of the terminal; None where there is none (a pipe, a file): one line a finding, nothing wrapped.
        color: whether ANSI colours may be used; they never carry a meaning that no word carries.
        zone: the zone in which times are shown, None for this machine's; `json`, `ndjson`, `csv` and `prometheus`
            keep UTC.
        explain: add to the findings what they mean and how to fix them; forms for programs pass it over.

    Raises:
        UsageError: there is no such form.
    """
    if form not in FORMS:
        raise UsageError(f"there is no output format {form!r}", hint=f"use one of: {', '.join(FORMS)}")
    writer = cast("_Form", import_module(f"{__name__}.{FORMS[form]}"))
    shown = document if form in EXACT else printable_document(document)
    return writer.render(shown, View(form=form, width=width, color=color, zone=zone, explain=explain))


def headline(document: Document) -> str:
    """Say the report in one plain sentence: what was killed and how sure that is."""
    return _headline(printable_document(document))
