r"""`short`: one line a kill, for grep and awk, in the order of death.

    TIME HOST UNIT ID cause=… confidence=… fate=… verdict=… deploy=… ran=…s named=… task=NAME[ID]

Blanks within a field are spelt `\x20`, so that every field but the last is one word; the task, which may hold blanks,
comes last. What is unknown is `-`. Where the lines alone would mislead (no kills, evidence that is not whole, blind
deaths), a last line between dashes says so, as journalctl does.
"""

from collections.abc import Iterator

from kill_audit import texts
from kill_audit.document import Document, Kill
from kill_audit.render.sentences import headline, reference
from kill_audit.render.view import View


def render(document: Document, view: View) -> str:
    """Write one line a kill; with `view.explain` the meaning and the fix of its cause and verdict below it."""
    lines: list[str] = []
    for kill in sorted(document.kills, key=lambda kill: (kill.at, kill.id)):
        lines.append(_line(kill, view))
        if view.explain:
            lines += [f"    {remark}" for remark in _explained(kill)]
    if not document.kills or document.blind_deaths or document.coverage.verdict != "complete":
        lines.append(f"-- {headline(document)} --")
    return "\n".join(lines) + "\n"


def _line(kill: Kill, view: View) -> str:
    fields = {
        "cause": kill.cause,
        "confidence": kill.confidence,
        "fate": kill.fate,
        "verdict": f"{kill.verdict or '-'}{',accepted' if kill.accepted is not None else ''}",
        "deploy": kill.deploy,
        "ran": None if kill.ran_for_s is None else f"{kill.ran_for_s:.1f}s",
        "named": kill.task.how,
    }
    words = [view.moment(kill.at).isoformat(timespec="seconds"), kill.host, kill.unit, kill.id]
    said = " ".join(_word(word) for word in words)
    return f"{said} {' '.join(f'{key}={_word(value)}' for key, value in fields.items())} task={reference(kill.task)}"


def _word(text: str | None) -> str:
    return (text or "-").replace(" ", r"\x20")


def _explained(kill: Kill) -> Iterator[str]:
    known = texts.load()
    for of, key in ((known.causes, kill.cause), (known.fates, kill.fate), (known.verdicts, kill.verdict)):
        if key is not None and key in of:
            yield f"{key}: {of[key].means} Fix: {of[key].fix}"
    for reason in kill.reasons:
        yield f"because {reason}"
