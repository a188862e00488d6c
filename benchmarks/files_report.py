"""What the suite `files` measured, as text: results/files_cpu.md and files_gpu.md."""

from __future__ import annotations

from typing import Any

from . import pages
from .pages import digits

OURS, LOOP, IN_MEMORY = "xpapply", "loop over blocks", "in memory"
WHOLE, BY_HAND = "whole process", "by hand: read all, call, write all"
ARR_GET = "cupy.asarray and .get()"
FLOORS = (IN_MEMORY, "codec", ARR_GET)
WANTED = 0.8


def render(data: dict[str, Any]) -> str:
    """The page."""
    settings = data["settings"]
    found = {n: e for n, e in data["cases"].items() if "skipped" not in e}
    on_gpu = any(ARR_GET in e["seconds"] for e in found.values())
    size = f"`benchmarks/files.py`, {settings['gigabytes']:g} GB"
    if on_gpu:
        what = (
            f"{size} of the host that are computed on a GPU (`options(device='cuda')`), beside "
            "copying them there and the results back (`cupy.asarray(x)`, `.get()`), alone and with "
            "the network in between."
        )
    else:
        what = (
            f"{size} of a memory map, a twentieth of it of zarr, {settings['memory']} for blocks, "
            "computed into other files. *In memory* is the same call on an array in memory; "
            "*codec* reads and writes the same chunks and computes nothing; *loop over "
            "blocks* is what one writes by hand: read, compute, write, one after the other."
        )
    if any(WHOLE in e["seconds"] for e in found.values()):
        what += (
            " A tenth of it is the volume of the command line, `xpapply run`: the seconds are "
            "those that it says, from making the output to renaming it, and those of the *whole "
            "process*, Python's start and imports among them; *resident* is the most memory of "
            f"that process. Beside it, *{BY_HAND}*, in a process of its own."
        )
    parts = [
        "# Arrays on a GPU and back" if on_gpu else "# Arrays larger than memory",
        what,
        pages.machine_table(data),
        "## In short",
        "\n".join(_short(name, e) for name, e in found.items()),
        "## Seconds",
    ]
    names = list(dict.fromkeys(n for e in found.values() for n in e["seconds"]))
    head = ["", *names, f"{OURS}, GB/s", "resident, MB"]
    rows = [
        [
            name,
            *(digits(e["seconds"].get(n)) for n in names),
            digits(e["bytes"] / e["seconds"][OURS] / 1e9),
            digits(e["resident"] / 1e6) if "resident" in e else "",
        ]
        for name, e in found.items()
    ]
    parts.append(pages.table(head, rows, full=False))
    missing = {n: e["skipped"] for n, e in data["cases"].items() if "skipped" in e}
    if missing:
        parts += ["## Not measured", "\n".join(f"- {n}: {why}" for n, why in missing.items())]
    return pages.page(parts)


def _short(name: str, e: dict[str, Any]) -> str:
    seconds = e["seconds"]
    floor = max((n for n in FLOORS if n in seconds), key=seconds.__getitem__)
    rate = seconds[floor] / seconds[OURS]
    text = f"{digits(rate)} times the rate of {floor!r}"
    text = text if rate >= WANTED else f"**{text}** ({WANTED} wanted)"
    if "resident" in e:
        text += f", {digits(e['resident'] / 1e6)} MB resident (500 wanted)"
    wrong = " **Wrong results.**" if e["wrong"] else ""
    return f"- {name}: {text}.{wrong}"
