"""A summary as plain text that a phone shows without breaking its lines, whole without the HTML and the picture."""

import textwrap
from collections.abc import Iterator, Sequence

from kill_audit.mail.content import Bar, Content, Number, lost, spark
from kill_audit.render.figures import Share

WIDTH = 72


def text(content: Content) -> str:
    """Write the plain part; it ends with a newline."""
    blocks = [_wrapped(content.headline), content.period]
    if not content.quiet:
        blocks += [
            *_block("", _numbers(content.numbers, content.before)),
            *_block("WORST FIRST" if content.worst else "", _worst(content)),
            *_block("BY CAUSE", _shares(content.causes, content.before)),
            *_block("BY TASK", _shares(content.tasks, content.before)),
            *_block("BY DEPLOY", map(_bullet, content.deploys)),
            *_block("BESIDES", map(_bullet, content.remarks)),
        ]
    blocks += _block("WEEK BY WEEK", _weeks(content.bars))
    if not content.quiet:
        blocks += [
            *_block("COVERAGE", map(_bullet, content.coverage)),
            *_block("WHAT WOULD HAVE HELPED", map(_bullet, content.advice)),
            *_block("WHAT TO DO NEXT", (f"  {command}\n      {why}" for command, why in content.steps)),
        ]
    blocks += _block("NOTES", map(_bullet, content.notes))
    return "\n\n".join(blocks) + "\n"


def _block(title: str, lines: Iterator[str] | Sequence[str]) -> list[str]:
    body = "\n".join(lines)
    if not body:
        return []
    return [f"{title}\n{body}" if title else body]


def _wrapped(sentence: str) -> str:
    return textwrap.fill(sentence, WIDTH, break_long_words=False, break_on_hyphens=False)


def _bullet(sentence: str) -> str:
    return textwrap.fill(
        sentence,
        WIDTH,
        initial_indent="- ",
        subsequent_indent="  ",
        break_long_words=False,
        break_on_hyphens=False,
    )


def _numbers(numbers: Sequence[Number], before: str) -> Iterator[str]:
    for number in numbers:
        compared = "" if number.before is None else f"  ({number.before:,} {before})"
        yield f"{number.now:>7,}  {number.label}{compared}"


def _worst(content: Content) -> Iterator[str]:
    for place, item in enumerate(content.worst, start=1):
        yield f"{place}. {item.task}"
        yield f"   ran {item.ran}; {item.what}"
        yield f"   {item.when}, {item.where}"
        yield f"   id {item.id}"
    if content.more:
        yield content.more


def _shares(shares: Sequence[Share], before: str) -> Iterator[str]:
    for share in shares:
        compared = "" if share.before is None else f"  ({share.before:,} {before})"
        work = "" if share.lost_s is None else f"  {lost(share)} lost"
        yield f"{share.kills:>7,}  {share.key}{compared}{work}"


def _weeks(bars: Sequence[Bar]) -> Iterator[str]:
    if not bars:
        return
    yield f"  {spark([bar.kills for bar in bars])}  oldest first"
    told = []
    for bar in bars:
        number = "?" if bar.kills is None else f"{bar.kills:,}"
        told.append(f"{bar.label} {number}{'' if bar.whole else '*'}")
    yield textwrap.fill(", ".join(told), WIDTH, initial_indent="  ", subsequent_indent="  ")
    if not all(bar.whole for bar in bars):
        yield "  * not every day of it is covered; ? nothing of it was read"
