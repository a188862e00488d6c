"""What the suite `cpu` measured, as text: results/cpu.md."""

from __future__ import annotations

from typing import Any

from . import pages
from .pages import digits, milli

CHUNK = 8192
SLICES = 20_000
"""Of the function that cannot be lifted."""
FEW = (1, 100, 1000)

OURS = "xpapply"
OURS_NUMPY = 'xpapply, engine="numpy"'
OURS_AXIS0 = "xpapply, axis 0"
OURS_NUMPY_AXIS0 = 'xpapply, engine="numpy", axis 0'
EAGER = "torch eager"
CHUNKS = f"torch, {CHUNK}-row chunks by hand"
COMPILE = "torch.compile"
VMAP = "torch.vmap"
JAX = "JAX, jit(vmap)"
ONNX = "onnxruntime"
LOOP = "numpy.apply_along_axis"
PEERS = (
    *(OURS, OURS_AXIS0, OURS_NUMPY, OURS_NUMPY_AXIS0),
    *(CHUNKS, EAGER, COMPILE, VMAP, JAX, ONNX, LOOP),
)
TENSOR = "torch eager, on a tensor"
ARRAY = "torch eager, from and to NumPy"
SMALL = (OURS, OURS_NUMPY, TENSOR, ARRAY)
MEMORY = (OURS, OURS_NUMPY, EAGER)


def render(data: dict[str, Any]) -> str:
    """cpu.md."""
    r = pages.Results(data, data["networks"])
    rows = data["settings"]["rows"]
    found = (entry.get(OURS, {}).get("engine") for entry in r.entries.values())
    engines = sorted({engine for engine in found if engine})
    parts = [
        "# CPU",
        f"{rows:,} slices of float32 in one run of `benchmarks/cpu.py`, the methods in turns, "
        f"{data['settings']['repeats']} times each; networks with ReLU, tanh and biases. The "
        'input is (slices, inputs) and the slices lie along the last axis; "axis 0" has it as '
        "(inputs, slices). xpapply is called with a torch module and a NumPy array; torch is "
        f"loaded, so it takes the engine {' and '.join(engines)}.",
        pages.machine_table(data),
        "## xpapply against torch",
        _against(r),
        "## Time",
        "Milliseconds, median; in brackets as a multiple of xpapply's.",
        _grid(r, lambda net, peer: _multiple(r, net, peer, "median")),
        "The fastest of the repeats:",
        _grid(r, lambda net, peer: _multiple(r, net, peer, "min")),
        r.skipped("all networks"),
        "## Error",
        "Against float64, all slices: Euclidean norm of the difference over that of the truth.",
        _grid(r, r.error),
    ]
    if "limits" in data:
        copy, product = data["limits"]["copy"], data["limits"]["product"]
        lines = []
        for net in r.entries:
            least = pages.traffic(pages.widths(net), rows) / copy
            work = pages.flop(pages.widths(net), rows) / product
            if seconds := r.number(net, OURS):
                share = f"{digits(seconds / max(least, work), 2)}x"
                lines.append([net, milli(least), milli(work), milli(seconds), share])
        parts += [
            "## The least it could take",
            f"np.copyto moves {copy / 1e9:.3g} GB/s here (read and written), a large product "
            f"makes {product / 1e9:.3g} GFLOP/s. Reading each slice once and writing each result "
            "once, or the products alone (no activations, nothing but multiply-adds), at these "
            "rates, in milliseconds:",
            pages.table(["", "bytes", "products", "xpapply", "of the larger"], lines),
        ]
    if data.get("memory"):
        lines = []
        for e in data["memory"]:
            cells = [digits(e[m] / 2**20) if m in e else "" for m in ("output", *MEMORY)]
            rest = digits((e[OURS] - e["output"]) / 2**20, 2) if OURS in e else ""
            lines.append([e["network"], f"{e['rows']:,}", *cells, rest])
        parts += [
            "## Memory",
            "MiB that one call adds to the process at its peak (VmHWM, a process of its own for "
            "each number); the output is part of it.",
            pages.table(["", "slices", "output", *MEMORY, "xpapply without output"], lines),
        ]
    if data.get("small"):
        lines = [
            [name, f"{n:,}", *(digits(found.get(peer, {}).get(str(n))) for peer in SMALL)]
            for name, found in data["small"].items()
            for n in FEW
        ]
        text = "Microseconds per call, median."
        parts += ["## Small arrays", text, pages.table(["", "slices", *SMALL], lines)]
    if "plain" in data:
        o, n = data["plain"][OURS], data["plain"][LOOP]
        parts += [
            "## Functions that cannot be lifted",
            f"`apply_along_axis(len, 1, a)` over {SLICES:,} slices: xpapply "
            f"{milli(o['median'])} ms, NumPy {milli(n['median'])} ms, "
            f"{digits(o['median'] / n['median'])} times as long (the fastest of each: "
            f"{digits(o['min'] / n['min'])}). Wanted: 1.1 at most.",
        ]
    return pages.page(parts)


def _grid(r: pages.Results, cell: Any) -> str:
    """A row per peer, a column per network."""
    rows = ([peer, *(cell(net, peer) for net in r.entries)] for peer in PEERS)
    return pages.table(["", *r.entries], (row for row in rows if any(row[1:])))


def _multiple(r: pages.Results, net: str, peer: str, kind: str) -> str:
    factor = r.ratio(net, peer, OURS, kind)
    return "" if factor is None else f"{r.ms(net, peer, kind)} ({pages.times(factor)})"


def _against(r: pages.Results) -> str:
    """What is wanted, and what is."""
    rows = []
    for net in r.entries:
        cells = []
        for peer, wanted in ((EAGER, 4.0), (CHUNKS, 1.0)):
            factor, lowest = (r.ratio(net, peer, OURS, kind) for kind in ("median", "min"))
            if factor is None:
                break
            # a chunked loop that is as fast does not always come out as exactly as fast
            met = factor >= wanted * (1.0 if wanted > 1 else 0.95)
            cells.append(f"{digits(factor)} ({digits(lowest)}): {'yes' if met else 'no'}")
        else:
            rows.append([net, r.ms(net, OURS), *cells])
    head = ["", "xpapply, ms", "x faster than eager: 4?", "than chunks: level?"]
    text = "By medians, in brackets by the fastest of the repeats; within 5 % counts as level."
    return f"{pages.table(head, rows)}\n\n{text}"
