"""What the suite `onnx` measured, as text: results/onnx.md."""

from __future__ import annotations

from typing import Any

from . import pages
from .pages import digits, milli

OURS, RUNTIME = "xpapply", "onnxruntime"
WANTED = 1.2
WRONG = 1e-3
"""An error, relative to the largest result, that no rounding explains."""


def render(data: dict[str, Any]) -> str:
    """The page."""
    found = {n: e for n, e in data["models"].items() if "skipped" not in e}
    parts = [
        "# Models in ONNX files",
        "`apply_along_axis` of models in ONNX files (`benchmarks/onnx.py`) on NumPy arrays of "
        "float32, beside onnxruntime on batches of the size that takes the least time. "
        "Milliseconds, median. The ratio is onnxruntime's time over xpapply's: above 1 xpapply is "
        f"faster, {WANTED} is wanted.",
        pages.machine_table(data),
    ]
    head = ["", "slices", "of shape", OURS, "engine", RUNTIME, "its batch", "ratio"]
    rows = [
        [
            name,
            f"{e['slices']:,}",
            " x ".join(map(str, e["shape"])),
            milli(e["seconds"][OURS]),
            e["engine"],
            milli(e["seconds"][e["best"]]),
            e["best"].rpartition(" ")[2],
            digits(e["ratio"]) if e["ratio"] >= WANTED else f"**{digits(e['ratio'])}**",
        ]
        for name, e in found.items()
    ]
    if rows:
        parts.append(pages.table(head, rows))
    wrong = [f"{n} ({e['error']:.1e})" for n, e in found.items() if not e["error"] < WRONG]
    parts.append(f"**Wrong results: {', '.join(wrong)}.**" if wrong else "All results agree.")
    missing = {n: e["skipped"] for n, e in data["models"].items() if "skipped" in e}
    if missing:
        parts += ["## Not measured", "\n".join(f"- {n}: {why}" for n, why in missing.items())]
    return pages.page(parts)
