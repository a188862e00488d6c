"""What the suite `gpu_methods` measured, as text: results/gpu_methods.md."""

from __future__ import annotations

from typing import Any

from . import pages
from .functions_report import geometric_mean
from .methods_report import NEAR
from .pages import digits, milli

OURS, LOOP, FIRST = "xpapply", "NumPy's loop, a slice", "first call"


def render(data: dict[str, Any]) -> str:
    """The page."""
    parts = [
        "# Methods on a GPU",
        "The methods of the suite `methods` (`benchmarks/method_*.py`), their slices in CuPy "
        "arrays, which the function fetches: `lambda v: cupy.asarray(f(v.get()))`. Beside them "
        "NumPy's loop, on one core of the host, for up to "
        f"{data['settings']['of the loop']} slices that are there already.",
        pages.machine_table(data),
        summary(data),
        table(data),
        f"Others: values that are farther than {NEAR:g} from those of the loop, relatively.",
    ]
    remarks = [f"- {n}: {e['wrong']}" for n, e in measured(data).items() if "wrong" in e]
    remarks += [
        f"- {n}: not measured: {e['skipped']}" for n, e in data["methods"].items() if "skipped" in e
    ]
    return pages.page([*parts, "\n".join(remarks)])


def measured(data: dict[str, Any]) -> dict[str, Any]:
    """What there are figures of."""
    return {n: e for n, e in data["methods"].items() if "skipped" not in e}


def launched(e: dict[str, Any]) -> bool:
    """Whether a method is one launch."""
    return "one launch" in e["engine"]


def gain(e: dict[str, Any]) -> float:
    """Times the rate of the loop."""
    return float(e[LOOP] * e["slices"] / e[OURS])


def summary(data: dict[str, Any]) -> str:
    """The sentences that stand first."""
    at_once = {n: e for n, e in measured(data).items() if launched(e)}
    if not at_once:
        return "Nothing has been measured yet."
    gains = [gain(e) for e in at_once.values()]
    return (
        f"{len(at_once)} of {len(data['methods'])} are one launch, "
        f"{geometric_mean(gains):,.0f} times as fast as the loop in the geometric mean "
        f"({min(gains):,.0f} to {max(gains):,.0f})."
    )


def table(data: dict[str, Any]) -> str:
    """The rows."""
    head = ["", "slices", f"{OURS}, ms", "slices per second", f"{LOOP}, us", "times the loop"]
    head += ["others", "first call, s", ""]
    return pages.table(head, [_row(e) for e in measured(data).values()], full=False)


def _row(e: dict[str, Any]) -> list[str]:
    others = "none, bit for bit" if e["bits"] else ""
    if "off" in e:
        others = f"{e['off']} of {e['of']}"
    return [
        e["says"],
        f"{e['slices']:,}",
        milli(e[OURS]),
        f"{e['slices'] / e[OURS]:.2g}",
        digits(1e6 * e[LOOP], 3),
        f"{gain(e):,.0f}",
        others,
        digits(e[FIRST], 2),
        "" if launched(e) else e["engine"].replace("|", "\\|"),
    ]
