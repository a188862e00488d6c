"""What the suite `onnx` measured, as text: results/onnx_cpu.md and onnx_gpu.md."""

from __future__ import annotations

from typing import Any

from . import pages
from .pages import digits, milli

OURS, RUNTIME, TORCH = "xpapply", "onnxruntime", "torch"
WANTED = {"cpu": 1.2, "gpu": 5.0}
PEER = {"cpu": RUNTIME, "gpu": TORCH}
"""What the ratio is of: this runs on the same device."""
WRONG = 1e-3
"""An error, relative to the largest result, that no rounding explains."""
_ABOUT = {
    "cpu": "on NumPy arrays of float32, beside onnxruntime on batches of the size that takes the "
    "least time. Milliseconds, median. The ratio is onnxruntime's time over xpapply's: above 1 "
    "xpapply is faster, 1.2 is wanted.",
    "gpu": "on CuPy arrays of float32, beside the network that the file was made of, by torch on a "
    "CUDA tensor of all slices, with TF32 off. Milliseconds, median of calls that follow each "
    "other. The ratio is torch's time over xpapply's: above 1 xpapply is faster, 5 is wanted. "
    "onnxruntime has batches of the size that takes the least time, in NumPy's arrays, on what its "
    "build has.",
}


def render(data: dict[str, Any]) -> str:
    """The page."""
    found = {n: e for n, e in data["models"].items() if "skipped" not in e}
    device = "gpu" if "GPU" in data["machine"] else "cpu"
    parts = [
        "# Models in ONNX files",
        f"`apply_along_axis` of models in ONNX files (`benchmarks/onnx.py`) {_ABOUT[device]}",
        pages.machine_table(data),
    ]
    more = [TORCH, "provider"] if device == "gpu" else []
    head = ["", "slices", "of shape", OURS, "engine", RUNTIME, "its batch", *more, "ratio"]
    rows = [
        [
            name,
            f"{e['slices']:,}",
            " x ".join(map(str, e["shape"])),
            milli(e["seconds"][OURS]),
            e["engine"],
            milli(e["seconds"][e["best"]]),
            e["best"].rpartition(" ")[2],
            *([_torch(e), e["provider"].removesuffix("ExecutionProvider")] if more else []),
            _ratio(e, device),
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


def _torch(entry: dict[str, Any]) -> str:
    return milli(entry["seconds"][TORCH]) if TORCH in entry["seconds"] else ""


def _ratio(entry: dict[str, Any], device: str) -> str:
    """Times as fast as the peer, bold where that is less than wanted."""
    peer = entry["best"] if device == "cpu" else TORCH
    if peer not in entry["seconds"]:
        return ""
    ratio = entry["seconds"][peer] / entry["seconds"][OURS]
    return digits(ratio) if ratio >= WANTED[device] else f"**{digits(ratio)}**"
