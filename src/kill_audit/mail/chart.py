"""The picture of the weeks: a PNG, because mail programs show neither SVG nor data URIs.

Rules of this file: matplotlib is an extra (`kill-audit[mail]`) and is imported when a picture is drawn; without it
there is none, and the text's own line has to do. Nothing is said by colour alone: every bar carries its number.
"""

import io
from collections.abc import Sequence

from kill_audit.mail.content import Bar

WIDTH, HEIGHT, DPI = 4.0, 1.9, 280  # inches and dots per inch: sharp at 560 CSS pixels, legible at 320
INK, GREY, RED, PALE = "#1f2328", "#8c959f", "#b42318", "#e6e9ed"


def chart(bars: Sequence[Bar]) -> bytes | None:
    """Draw the weeks as bars, those without a proper row in the run log apart; None without matplotlib."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415 - heavy, and an extra
        from matplotlib.figure import Figure  # noqa: PLC0415
    except ImportError:
        return None
    figure = Figure(figsize=(WIDTH, HEIGHT), dpi=DPI, facecolor="white", layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    places = range(len(bars))
    known = [bar.kills or 0 for bar in bars]
    bad = [bar.unrecorded or 0 for bar in bars]
    most = max([*known, 1])
    axes.bar(places, bad, color=RED, width=0.62)
    axes.bar(places, [all_ - some for all_, some in zip(known, bad, strict=True)], bottom=bad, color=GREY, width=0.62)
    for place, bar in enumerate(bars):
        if not bar.whole:
            axes.axvspan(place - 0.45, place + 0.45, facecolor="none", edgecolor=PALE, hatch="////", zorder=0)
        text = "?" if bar.kills is None else f"{bar.kills:,}" if bar.whole else f"≥{bar.kills:,}"
        weight = "bold" if place == len(bars) - 1 else "normal"
        axes.text(
            place, known[place] + most * 0.03, text, ha="center", va="bottom", fontsize=9, color=INK, weight=weight
        )
    axes.set_xticks(list(places), [bar.label for bar in bars], fontsize=9, color=INK)
    axes.set_ylim(0, most * 1.22)
    axes.set_yticks([])
    axes.tick_params(length=0)
    for side in ("left", "top", "right"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(GREY)
    image = io.BytesIO()
    figure.savefig(image, format="png", metadata={"Software": None})
    return image.getvalue()


def legend(bars: Sequence[Bar]) -> str:
    """Say what the picture's marks mean, as far as it has any."""
    said = ["Red: no run row, or one stuck open."] if any(bar.unrecorded for bar in bars) else []
    if not all(bar.whole for bar in bars):
        said.append("Hatched, ≥: not every day of that week is covered.")
    if any(bar.kills is None for bar in bars):
        said.append("?: nothing of it was read.")
    return " ".join(said)


def described(bars: Sequence[Bar]) -> str:
    """Say the picture in words, for who does not see it."""
    return f"Killed runs per week, oldest first: {', '.join(map(_described, bars))}"


def _described(bar: Bar) -> str:
    if bar.kills is None:
        return f"{bar.label} not read"
    return f"{bar.label} {'' if bar.whole else 'at least '}{bar.kills:,}"
