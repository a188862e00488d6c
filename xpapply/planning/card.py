"""A plan in a notebook: a card of HTML with the colours of the page."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

_CARD = (
    "border:1px solid color-mix(in srgb, currentColor 25%, transparent);border-radius:8px;"
    "padding:10px 14px;max-width:52em;font-family:system-ui,sans-serif;font-size:13px;"
    "line-height:1.45"
)
_DIM = "opacity:.65"
_NAME = "text-align:left;vertical-align:top;font-weight:normal;padding:1px 14px 1px 0;" + _DIM
_BAR = "display:inline-block;height:.7em;border-radius:2px;background:currentColor;opacity:.45"


def html(
    name: str, lines: Sequence[tuple[str, str]], compared: Sequence[tuple[str, float]] = ()
) -> str:
    """The card: the lines of the plan, bars for what was measured, what was refused on demand.

    Parameters
    ----------
    name : str
        The function.
    lines : sequence of (str, str)
        As they are printed.
    compared : sequence of (str, float)
        Engines, and seconds per slice.
    """
    known = dict(lines)
    engine, _, what = known.get("engine", "").partition(": ")
    rows = [("engine", f"<b>{escape(engine)}</b> {escape(what)}")]
    rows += [
        (k, escape(text)) for k, text in lines if k not in ("engine", "refused", "fallback", "took")
    ]
    if compared:
        rows.append(("took", _bars(compared)))
    reasons = [part for part in known.get("refused", "").split("; ") if part]
    if reasons:
        items = "".join(f"<li>{escape(part)}</li>" for part in reasons)
        told = f"{len(reasons)} reason{'s' * (len(reasons) > 1)}"
        rows.append(
            (
                "refused",
                f"<details><summary>{told}</summary><ul style='margin:0'>{items}</ul></details>",
            )
        )
    body = "".join(
        f"<tr><th style='{_NAME}'>{k}</th><td style='text-align:left'>{v}</td></tr>"
        for k, v in rows
    )
    return (
        f"<div style='{_CARD}'><div style='font-size:15px;margin-bottom:4px'><b>{escape(name)}</b>"
        f"</div><table style='border:0;margin:0'>{body}</table></div>"
    )


def _bars(compared: Sequence[tuple[str, float]]) -> str:
    """A bar for each engine, as long as it took, up to a length; the time beside it."""
    fastest = min(seconds for _, seconds in compared) or 1e-12
    found = []
    for name, seconds in compared:
        times = seconds / fastest
        width = min(16.0, max(0.1, times))
        more = "" if times <= 16 else " ..."
        found.append(
            f"<div><span style='display:inline-block;width:9em'>{escape(name)}</span>"
            f"<span style='{_BAR};width:{width:.2f}em'></span>{more} {seconds * 1e6:.3g} us per "
            f"slice, {times:.3g}x</div>"
        )
    return "".join(found)
