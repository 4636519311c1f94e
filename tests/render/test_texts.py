"""The package's texts: complete, plain, and cheap to load."""

import subprocess
import sys
from collections.abc import Mapping
from typing import get_args

import pytest

from kill_audit import document, texts

CAUSES = (
    "host-reboot", "watchdog", "oom-kernel", "oom-systemd", "hard-time-limit", "manual-signal", "cold-shutdown",
    "stop-timeout", "crash", "exit", "unit-stop", "unknown",
)  # fmt: skip
FATES = ("redelivered", "requeued", "retried", "revoked", "lost", "pending", "unknown")
VERDICTS = ("unsettled", "stuck", "recorded", "contradicted", "recovered", "ambiguous", "uncovered", "missing")
FINDINGS = ("blind-death", "ghost", "duplicate", "stale-acceptance")
KINDS = ("causes", "fates", "verdicts", "findings", "coverage", "naming")


def kind(name: str) -> Mapping[str, texts.Text]:
    """The texts of one kind."""
    found: Mapping[str, texts.Text] = getattr(texts.load(), name)
    return found


@pytest.mark.parametrize(
    ("name", "keys"),
    [
        ("causes", CAUSES),
        ("fates", FATES),
        ("verdicts", VERDICTS),
        ("findings", FINDINGS),
        ("naming", get_args(document.How)),
    ],
)
def test_every_key_has_a_text_in_the_order_of_the_rules(name: str, keys: tuple[str, ...]) -> None:
    """Each cause, fate, verdict, finding and way of naming has a text, in the order in which the rules are tried."""
    assert set(kind(name)) == set(keys)
    if name != "naming":
        assert tuple(kind(name)) == keys


@pytest.mark.parametrize("name", KINDS)
def test_texts_are_whole_sentences_on_one_line(name: str) -> None:
    """Each text is one printable line that ends as a sentence; titles are a few words without a full stop."""
    for key, text in kind(name).items():
        assert key == text.key
        assert 1 <= len(text.title.split()) <= 7
        assert not text.title.endswith(".")
        for sentence in (text.means, text.shown_by, text.fix):
            assert sentence.isprintable()
            assert sentence.endswith((".", '."'))
            assert sentence.count("`") % 2 == 0


def test_naming_the_forms_loads_no_library_for_them() -> None:
    """`--help` can list the forms without loading what any of them needs."""
    code = "import sys, kill_audit.render; print(*{'rich', 'jinja2', 'pandas', 'sqlalchemy'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
