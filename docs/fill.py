"""What the pages take from elsewhere: both tables, what was measured, the testing module.

A page holds a marker such as ``<!-- fill: ops -->``; what stands there in the
built page is made when the docs are built.
"""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.pycode import ModuleAnalyzer
from sphinx.util import logging

import xpapply
from benchmarks import gpu_report, slices_report
from xpapply import batching
from xpapply.ir.ops import OPS, Kind, Op

ROOT = Path(__file__).parents[1]
BENCHMARKS = ROOT / "benchmarks"
RESULTS = BENCHMARKS / "results"
GPU = RESULTS / "gpu.json"
SLICES = {"GPU": RESULTS / "slices_gpu.json", "CPU": RESULTS / "slices_cpu.json"}
PICTURE = Path(__file__).parent / "_static" / "denoised.png"
MARKER = re.compile(r"<!-- fill: (\w+) -->")

KINDS = {
    Kind.LEAF: "What a graph starts from.",
    Kind.ELEMENTWISE: (
        "Shapes broadcast as in NumPy. Batching adds a singleton axis to constants. Neighbouring "
        "elementwise ops may share one kernel."
    ),
    Kind.REDUCTION: (
        "Attributes `axis` (a tuple) and `keepdims`. Axes count from the front and the batch axis "
        "is the last one, so batching changes nothing."
    ),
    Kind.CONTRACTION: "Attribute `subscripts`. Batching adds a letter to the batched operands.",
    Kind.LAYOUT: "Elements move, nothing is computed.",
    Kind.TREES: "Nodes are constants, so batching leaves them as they are. Attribute `depth`.",
    Kind.COMPOSITE: (
        "Defined by other ops: no backend has to know them, though one that does keeps them "
        "whole. Parameters have the names and defaults that they have in `torch.nn.functional`."
    ),
}


def ops() -> str:
    """The table, one section per kind."""
    return "\n\n".join(_section(kind, text) for kind, text in KINDS.items())


def _section(kind: Kind, text: str) -> str:
    rows = [row for row in OPS.values() if row.kind is kind]
    columns = {
        "op": lambda row: f"`{row.name}`",
        "meaning": lambda row: _plain(row.doc),
        "parameters": _parameters,
        "also called": lambda row: ", ".join(
            f"`{name}`" for name in (*filter(None, [row.api]), *row.torch)
        ),
        "C++": lambda row: f"`{row.c}`" if row.c else "",
        "LLVM": lambda row: f"`{getattr(row.llvm, '__name__', row.llvm)}`" if row.llvm else "",
        "tested in": lambda row: (
            "" if row.domain == Op.__dataclass_fields__["domain"].default else f"{row.domain}"
        ),
    }
    used = {name: cell for name, cell in columns.items() if any(cell(row) for row in rows)}
    lines = [f"## {kind.value.capitalize()}", "", text, "", "```{list-table}", ":header-rows: 1"]
    lines += ["", _row(used)]
    lines += [_row([cell(row) for cell in used.values()]) for row in rows]
    return "\n".join([*lines, "```"])


def _row(cells) -> str:
    first, *rest = cells
    return "\n".join([f"* - {first}", *(f"  - {cell}" for cell in rest)])


def _plain(text: str) -> str:
    return re.sub(r"([*_|<\[`])", r"\\\1", text)


def _parameters(row: Op) -> str:
    return ", ".join(
        f"`{p.name}`" if p.default is p.empty else f"`{p.name}={p.default!r}`"
        for p in row.parameters.values()
    )


HOW = {
    "elementwise": "element by element: one call for all slices",
    "axis": "along an axis of the values: one call for all slices",
    "stacked": "stacks of matrices: one call for all slices",
    "products": "one product for all slices",
    "moves": "elements only move: tried out once, then moved for all slices",
    "shape": "depends on the shape or the dtype only: asked once",
    "own": "a rule of its own for all slices",
    "rows": "called slice by slice, the rest of `f` is not",
}
"""What the words in `BatchingRule.kind` say, in the order of the table."""


def functions() -> str:
    """The rows of `xpapply.batching`: a line per module and kind."""
    groups: dict[tuple[str, str], list[str]] = {}
    for row in batching.rows():
        module, _, name = row.name.rpartition(".")
        groups.setdefault((module, row.kind), []).append(name)
    modules = dict.fromkeys(module for module, _ in groups)
    order = {how: k for k, how in enumerate(HOW)}
    lines = ["```{list-table}", ":header-rows: 1", ":widths: 15 25 60", ""]
    lines.append(_row(["module", "how", "functions"]))
    for module in modules:
        kinds = sorted(
            (how for m, how in groups if m == module), key=lambda how: order.get(how, 99)
        )
        for how in kinds:
            names = ", ".join(f"`{name}`" for name in sorted(groups[module, how]))
            lines.append(_row([f"`{module}`", HOW.get(how, how), names]))
    return "\n".join([*lines, "```"])


def results() -> str:
    """The measured tables, their headings one level deeper; `speed` shows those of the GPU."""
    files = sorted(path for path in RESULTS.glob("*.md") if path.stem != "gpu")
    if not files:
        return "*No measurements have been recorded yet.*"
    return "\n\n".join(_deeper(path.read_text(encoding="utf-8")) for path in files)


def speed() -> str:
    """The report of networks on a GPU, with plots."""
    if not GPU.exists():
        return "*No measurements have been recorded yet.*"
    return gpu_report.page(json.loads(GPU.read_text(encoding="utf-8")))


def logsumexp() -> str:
    """logsumexp in several ways, on a GPU and on a CPU."""
    parts = []
    for device, file in SLICES.items():
        if file.exists():
            data = json.loads(file.read_text(encoding="utf-8"))
            parts.append(slices_report.logsumexp(data))
        else:
            parts.append(f"*No measurements on a {device} have been recorded yet.*")
    return "\n\n".join(parts)


def _deeper(text: str) -> str:
    lines, code = [], False
    for line in text.splitlines():
        code ^= line.lstrip().startswith("```")
        lines.append(f"#{line}" if line.startswith("#") and not code else line)
    return "\n".join(lines)


def testing() -> str:
    """The public helpers for tests, if this checkout has them."""
    if importlib.util.find_spec("xpapply.testing") is None:
        return "*This checkout has no `xpapply.testing`.*"
    lines = [".. automodule:: xpapply.testing", "   :members:", ""]
    for room in ("error_analysis", "strategies"):  # autodoc sees no constants of other files
        source = ModuleAnalyzer.for_module(f"xpapply.testing.{room}")
        source.analyze()
        for (_, name), text in source.attr_docs.items():
            lines += [f".. py:data:: xpapply.testing.{name}", "", f"   {' '.join(text)}", ""]
    return "\n".join(["```{eval-rst}", *lines, "```"])


def picture() -> str:
    """The picture that opens the docs, once it has been made."""
    if not PICTURE.exists():
        return ""
    return (
        "```{image} _static/denoised.png\n"
        ":alt: one slice of a volume, as measured and as the network restores it\n```"
    )


FILLS = {f.__name__: f for f in (ops, functions, results, speed, logsumexp, testing, picture)}


def fill(app: Sphinx, docname: str, source: list[str]) -> None:
    """Put the texts in the place of their markers."""
    found = MARKER.findall(source[0])
    if "results" in found:
        for path in RESULTS.glob("*.md"):
            app.env.note_dependency(str(path))
    if "speed" in found:
        for path in (GPU, BENCHMARKS / "gpu_report.py", BENCHMARKS / "pages.py"):
            app.env.note_dependency(str(path))
    if "logsumexp" in found:
        for path in (*SLICES.values(), BENCHMARKS / "slices_report.py", BENCHMARKS / "pages.py"):
            app.env.note_dependency(str(path))
    source[0] = MARKER.sub(lambda match: FILLS[match[1]](), source[0])
    if docname == "api":
        names = [f"special.{n}" for n in xpapply.special.__all__ if n.islower()]
        names += xpapply.__all__
        missing = [n for n in names if not re.search(rf"xpapply\.{n}\b", source[0])]
        if missing:
            logging.getLogger(__name__).warning("public, but not on the page: %s", missing)


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.connect("source-read", fill)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
