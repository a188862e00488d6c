"""Functions of rows, elements, windows and groups: pandas' own loop, and the same call at once."""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np
import pandas as pd

import xpapply

from .patched_report import ORIGINAL, PATCHED

SIZES = (10_000, 100_000, 1_000_000)
MOST = 20_000
"""Rows of which pandas' loop is timed: what it takes for more is in proportion."""
TURNS = 6
PATIENCE = 3.0
"""Seconds of calls after which they have been repeated often enough."""
GROUP = 100
"""Rows of a group, on average."""


def index(row: Any) -> Any:
    if row["height"] <= 0:
        return np.nan
    return row["weight"] / row["height"] ** 2


def label(row: Any) -> Any:
    score = row["weight"] / row["height"] ** 2
    return "high" if score > 25 else "low" if score < 18.5 else None


def written(row: Any) -> str:
    return f"{row.year}: {row.height:.2f} {row.unit}"


def parts(row: Any) -> Any:
    decade = row["year"] // 10 * 10
    return pd.Series({"decade": f"{decade}s", "weight": row["weight"], "unit": row["unit"]})


def raw_range(v: Any) -> Any:
    return v.max() - v.min()


def of_number(x: float) -> Any:
    return x * 2.2046 if x > 60 else -1.0


def spread(w: Any) -> Any:
    return w.max() - w.min()


def smoothed(w: Any) -> Any:
    x = 0.0
    for v in w:
        x = 0.9 * x + v
    return x


def weighted(g: Any) -> Any:
    return (g.height * g.weight).sum() / g.weight.sum()


def standard(x: Any) -> Any:
    return (x - x.mean()) / x.std()


def doors(rows: int) -> dict[str, Callable[[], Any]]:
    """Calls of pandas alone, but for an engine's name, by what they are called here."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "height": rng.normal(1.7, 0.1, rows),
            "weight": rng.normal(70.0, 9.0, rows),
            "year": rng.integers(1950, 2010, rows),
            "unit": rng.choice(["m", "foot"], rows),
        }
    )
    numbers, x = table[["height", "weight"]], table.weight
    seconds = x.set_axis(pd.date_range("2020", periods=rows, freq="s"))
    key = rng.integers(0, max(1, rows // GROUP), rows)
    groups, of_x = table.groupby(key), x.groupby(key)
    return {
        "DataFrame.apply, a row by names": lambda: table.apply(index, axis=1),
        "DataFrame.apply, a row's text": lambda: numbers.apply(label, axis=1),
        "DataFrame.apply, text of a row": lambda: table.apply(written, axis=1),
        "DataFrame.apply, columns of a row": lambda: table.apply(parts, axis=1),
        "DataFrame.apply, raw=True": lambda: numbers.apply(raw_range, axis=1, raw=True),
        "Series.map": lambda: x.map(of_number),
        "DataFrame.map": lambda: numbers.map(of_number),
        "rolling(30).apply": lambda: x.rolling(30).apply(spread),
        "rolling(30).apply, raw=True": lambda: x.rolling(30).apply(smoothed, raw=True),
        "rolling('30s').apply, raw=True": lambda: seconds.rolling("30s").apply(spread, raw=True),
        "expanding().apply, 1,000 rows": lambda: x[:1000].expanding().apply(spread),
        "groupby.agg": lambda: of_x.agg(spread),
        "groupby.apply": lambda: groups[["height", "weight"]].apply(weighted),
        "groupby.transform": lambda: of_x.transform(standard),
        "groupby.transform, two columns": lambda: groups[["height", "weight"]].transform(standard),
        "groupby.filter": lambda: of_x.filter(lambda x: x.mean() > 70),
        "resample.apply": lambda: seconds.resample("100s").apply(spread),
    }


def timed(name: str, rows: int, turns: int) -> dict[str, Any]:
    """CPU seconds of pandas' loop, and of the same at once, by turns; the first call is apart."""
    few = min(rows, MOST)
    part, call = doors(few)[name], doors(rows)[name]
    took: dict[str, list[float]] = {ORIGINAL: [], PATCHED: []}
    found: dict[str, Any] = {}

    def once(kind: str, call: Callable[[], Any]) -> None:
        began = time.process_time()
        found[kind] = call()
        took[kind].append(time.process_time() - began)

    def loops() -> None:
        once(ORIGINAL, part)
        while sum(took[ORIGINAL]) < 0.3 and len(took[ORIGINAL]) < 6:
            once(ORIGINAL, part)

    loops()
    with xpapply.patch() as patched:  # whose report says when a look is worth it
        for k in range(1 + turns):
            if k < 2 or sum(took[PATCHED]) < PATIENCE:
                once(PATCHED, call)
    loops()
    assert few < rows or same(found[PATCHED], found[ORIGINAL]), name
    engines = {e for row in patched.report.rows for e in row.engines}
    first, *later = took[PATCHED]
    # of `expanding` the rows are as many
    scale = 1.0 if "rows" in name else rows / few
    loop = median(took[ORIGINAL]) * scale
    return {ORIGINAL: loop, "first": first, PATCHED: median(later[-3:]), "engines": sorted(engines)}


def same(mine: Any, theirs: Any) -> bool:
    """Whether two results are one, but for rounding."""
    check = pd.testing.assert_series_equal
    if isinstance(mine, pd.DataFrame):
        check = pd.testing.assert_frame_equal
    check(mine, theirs, rtol=1e-9)
    return True
