"""What the suite `sklearn` measured, as text: results/sklearn_cpu.md and sklearn_gpu.md."""

from __future__ import annotations

from typing import Any

from . import pages
from .pages import digits, milli

OURS, OWN, OWN_IN_THREADS = "xpapply", "own method", "own method, n_jobs"


def render(data: dict[str, Any]) -> str:
    """The page."""
    settings = data["settings"]
    found = {n: e for n, e in data["cases"].items() if "skipped" not in e}
    what = (
        f"`benchmarks/sklearn.py`: {settings['rows']:,} slices of {settings['features']} numbers "
        "in float64, fewer where the table says so, by `xpapply.apply_along_axis(method, -1, x)`. "
        "*Own method* is the same method of the estimator, of all rows at once, on the host; "
        "*n_jobs* the same in as many threads as there are CPUs, where it has such. The least "
        "of some calls."
    )
    head = ["", "rows", *(f"{n}, ms" for n in (OURS, OWN, OWN_IN_THREADS)), "times", "wanted", ""]
    rows = []
    for name, e in found.items():
        seconds = e["seconds"]
        rate = seconds[OWN] / seconds[OURS]
        wanted = e["wanted"]
        short = wanted is not None and rate < wanted
        times = f"**{digits(rate)}**" if short else digits(rate)
        cells = [milli(seconds.get(n)) for n in (OURS, OWN, OWN_IN_THREADS)]
        end = ["" if wanted is None else f"{wanted:g}", "wrong results" if e["wrong"] else ""]
        rows.append([name, f"{e['rows']:,}", *cells, times, *end])
    parts = [
        "# Estimators of scikit-learn",
        what,
        pages.machine_table(data),
        pages.table(head, rows, full=False),
        "## What ran",
        "\n".join(f"- {name}: {e['engine']}" for name, e in found.items()),
    ]
    missing = {n: e["skipped"] for n, e in data["cases"].items() if "skipped" in e}
    if missing:
        parts += ["## Not measured", "\n".join(f"- {n}: {why}" for n, why in missing.items())]
    return pages.page(parts)
