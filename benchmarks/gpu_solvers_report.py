"""What the suite `gpu_solvers` measured, as text: results/gpu_solvers.md."""

from __future__ import annotations

from typing import Any

from . import pages
from .functions_report import geometric_mean
from .pages import digits, milli

OURS, SCIPY, FIRST, ITSELF = "xpapply", "SciPy, a slice", "first call", "SciPy beside itself"


def render(data: dict[str, Any]) -> str:
    """The page."""
    settings = data["settings"]
    parts = [
        "# Fits and other solvers on a GPU",
        "The problems of the suite `solvers` (`benchmarks/solver_rows.py`), "
        f"{settings['slices']:,} slices of float64 in a CuPy array, which the function fetches: "
        "`lambda v: cupy.asarray(f(v.get()))`. Beside them SciPy in the loop, on one core of the "
        f"host, for {settings['of scipy']} slices that are there already.",
        pages.machine_table(data),
        table(data),
        "Others: values that are farther from SciPy's than 1e-9, relatively; or slices that are "
        "NaN elsewhere, or have another status or count. SciPy beside itself: the same for data "
        "that are one bit away.",
    ]
    remarks = [
        f"- {n}: not measured: {e['skipped']}"
        for n, e in data["functions"].items()
        if "skipped" in e
    ]
    if remarks:
        parts.append("\n".join(remarks))
    return pages.page(parts)


def table(data: dict[str, Any]) -> str:
    """The rows."""
    head = ["", f"{OURS}, ms", "slices per second", f"{SCIPY}, us", "times SciPy's loop"]
    head += ["others", ITSELF, "first call, s", ""]
    return pages.table(head, [_row(e) for e in _measured(data).values()], full=False)


def _measured(data: dict[str, Any]) -> dict[str, Any]:
    return {n: e for n, e in data["functions"].items() if "skipped" not in e}


def gain(e: dict[str, Any]) -> float:
    """Times the rate of SciPy's loop."""
    return float(e[SCIPY] * e["slices"] / e[OURS])


def mean_gain(data: dict[str, Any]) -> float:
    """The geometric mean of them."""
    return float(geometric_mean([gain(e) for e in _measured(data).values()]))


def _row(e: dict[str, Any]) -> list[str]:
    return [
        e["says"],
        milli(e[OURS]),
        f"{e['slices'] / e[OURS]:.2g}",
        digits(1e6 * e[SCIPY], 3),
        f"{gain(e):,.0f}",
        _others(e),
        _others(e[ITSELF]),
        digits(e[FIRST], 2),
        "" if e["engine"].endswith("one launch") else e["engine"].replace("|", "\\|"),
    ]


def _others(e: dict[str, Any]) -> str:
    return f"{e['off']} of {e['values']}" + (f", {e['other']} slices" if e["other"] else "")
