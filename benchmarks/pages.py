"""What pages of results are made of: numbers, tables, the results that they read, and files.

Needs nothing but Python: every page can be made again from its file of results anywhere.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any


def digits(x: float | None, n: int = 3) -> str:
    """`n` significant digits, no exponent."""
    if x is None:
        return ""
    if not math.isfinite(x) or x == 0:
        return str(x)
    decimals = n - 1 - math.floor(math.log10(abs(x)))
    return f"{round(x, decimals):,.{max(0, decimals)}f}"


def milli(x: float | None) -> str:
    return "" if x is None else digits(1e3 * x)


def times(x: float | None) -> str:
    return "" if x is None else f"{digits(x)}x"


def percent(x: float | None) -> str:
    return "" if x is None else f"{100 * x:.0f} %"


def table(head: Iterable[str], rows: Iterable[Iterable[str]], full: bool = True) -> str:
    """A Markdown table: the first column is text, the others are numbers.

    Not `full`: without the columns in which no row has anything.
    """
    head, rows = list(head), [list(row) for row in rows]
    if not full:
        used = [k == 0 or any(row[k] for row in rows) for k in range(len(head))]
        head, *rows = (list(itertools.compress(line, used)) for line in (head, *rows))
    lines = [head, ["---", *("---:" for _ in head[1:])], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def machine_table(data: Mapping[str, Any]) -> str:
    found = data.get("machine", {})
    return table(["", ""], ([name, text] for name, text in found.items())).replace("---:", "---")


def page(parts: Iterable[str]) -> str:
    """What there is of them, a paragraph each."""
    return "\n\n".join(part for part in parts if part)


# --- cases and peers ------------------------------------------------------------------


class Results:
    """What was measured: ``entries[case][peer]``, of which any part may be missing."""

    def __init__(self, data: Mapping[str, Any], entries: Mapping[str, Mapping[str, Any]]) -> None:
        self.data = data
        self.entries = entries

    def number(self, case: str, peer: str, kind: str = "median") -> float | None:
        found = self.entries.get(case, {}).get(peer, {})
        return None if "skipped" in found else found.get(kind)

    def ms(self, case: str, peer: str, kind: str = "median") -> str:
        return milli(self.number(case, peer, kind))

    def error(self, case: str, peer: str) -> str:
        found = self.number(case, peer, "error")
        return "" if found is None else f"{found:.1e}"

    def ratio(self, case: str, peer: str, to: str, kind: str = "median") -> float | None:
        a, b = self.number(case, peer, kind), self.number(case, to, kind)
        return a / b if a is not None and b else None

    def skipped(self, everywhere: str) -> str:
        """What was not measured or needs a remark, and why; one line per reason."""
        why: dict[tuple[str, str], list[str]] = {}
        for case, found in self.entries.items():
            for peer, entry in found.items():
                for kind, word in (("skipped", "not measured: "), ("note", "")):
                    if kind in entry:
                        why.setdefault((peer, word + entry[kind]), []).append(case)
        return "\n".join(
            f"- {peer} ({everywhere if len(where) == len(self.entries) else ', '.join(where)}): "
            f"{text}"
            for (peer, text), where in why.items()
        )


def fresh(data: Mapping[str, Any], most: float) -> str:
    """First calls on a CPU: with an empty cache, and with what that has left."""
    rows, held = [], []
    for name, entry in data.get("fresh", {}).items():
        held.append(entry["first"] <= most)
        first = f"{milli(entry['first'])} (at most {1e3 * most:g})"
        reload = max(0.0, entry["disk"] - entry["later"])
        cells = [first if held[-1] else f"**{first}**", milli(entry["disk"])]
        rows.append([name, *cells, milli(entry["later"]), milli(reload)])
    if not rows:
        return ""
    text = (
        "Milliseconds, in a process of its own that has called something else before: the first "
        "call with an empty cache on disk, the first call of the next process, and a later call. "
        f"{sum(held)} of {len(held)} are within what is wanted."
    )
    head = ["", "first call", "first call, next process", "later", "difference of these two"]
    return f"## First calls\n\n{text}\n\n{table(head, rows)}"


# --- networks by their names ----------------------------------------------------------


def widths(name: str) -> tuple[int, ...]:
    """Of a network by its name: ``"16-32-32-1 ReLU"``."""
    return tuple(int(n) for n in name.split()[0].split("-"))


def dtype(name: str) -> str:
    """Of a network by its name: ``"16-64-64-4 ReLU float64"``."""
    return "float64" if name.endswith("float64") else "float32"


def flop(widths: Sequence[int], slices: int) -> int:
    """Of the products of linear layers alone."""
    return 2 * slices * sum(a * b for a, b in itertools.pairwise(widths))


def traffic(widths: Sequence[int], slices: int, itemsize: int = 4) -> int:
    """Bytes, if every slice is read once and every result written once."""
    return itemsize * slices * (widths[0] + widths[-1])


# --- files ----------------------------------------------------------------------------

RESULTS = Path(__file__).parent / "results"


def save(name: str, data: Any, render: Callable[[Any], str], folder: Path | None) -> None:
    """``name.json`` and what `render` makes of it, ``name.md``; nothing without a folder."""
    if folder is None:
        return
    folder.mkdir(parents=True, exist_ok=True)
    # the numbers first: a mistake in the text must not lose them
    texts = {".json": lambda: json.dumps(data, indent=1), ".md": lambda: render(data)}
    for suffix, text in texts.items():
        half = folder / f"{name}{suffix}.part"
        half.write_text(text() + "\n", encoding="utf-8")
        half.replace(folder / f"{name}{suffix}")


def load(name: str, folder: Path) -> Any:
    return json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
