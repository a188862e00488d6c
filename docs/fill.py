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
from benchmarks import (
    gpu_report,
    gpu_solvers_report,
    methods_report,
    readme,
    slices_report,
    solvers_report,
)
from benchmarks import overview as overview_page
from xpapply import batching
from xpapply.ir.ops import OPS, Kind, Op

ROOT = Path(__file__).parents[1]
BENCHMARKS = ROOT / "benchmarks"
RESULTS = BENCHMARKS / "results"
GPU = RESULTS / "gpu.json"
SOLVERS = RESULTS / "solvers.json"
METHODS = RESULTS / "methods.json"
SLICES = {"GPU": RESULTS / "slices_gpu.json", "CPU": RESULTS / "slices_cpu.json"}
MARKER = re.compile(r"<!-- fill: (\w+)(?: (\w+))? -->")

EMPTY = re.compile(r"(^```python\n(?:(?!^```).)*?)\n+```", re.S | re.M)
"""Code with the empty lines at its end that doctest wants."""

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


TASKS = {
    "Statistics": (
        "numpy: average bincount corrcoef count_nonzero cov histogram histogram_bin_edges max amax "
        "amin mean median min nanmax nanmean nanmedian nanmin nanpercentile nanquantile nanstd "
        "nansum nanvar nanprod percentile prod ptp quantile std sum var",
        "scipy.stats",
        "xpapply.special",
    ),
    "Series: sums, differences, filters, windows": (
        "numpy: convolve correlate cumprod cumsum cumulative_prod cumulative_sum diff ediff1d "
        "gradient nancumprod nancumsum trapezoid unwrap",
        "numpy.lib.stride_tricks",
        "scipy.signal: coherence convolve convolve2d correlate correlate2d decimate detrend "
        "envelope fftconvolve filtfilt hilbert lfilter medfilt medfilt2d oaconvolve resample "
        "resample_poly savgol_filter sosfilt sosfiltfilt upfirdn sepfir2d order_filter wiener "
        "deconvolve",
        "scipy.integrate",
    ),
    "Patches: filters of images and volumes, morphology": ("scipy.ndimage", "cupyx.scipy.ndimage"),
    "Fits and interpolation": (
        "numpy: interp polyadd polyder polyfit polyint polysub polyval vander roots",
        "numpy.polynomial.polynomial",
        "numpy.polynomial.chebyshev",
        "numpy.polynomial.legendre",
        "numpy.polynomial.hermite",
        "numpy.polynomial.hermite_e",
        "numpy.polynomial.laguerre",
        "numpy.linalg: lstsq",
        "cupy.linalg: lstsq",
        "scipy.linalg: lstsq",
        "scipy.interpolate",
    ),
    "Spectra": ("numpy.fft", "scipy.fft", "scipy.fftpack", "scipy.signal", "cupyx.scipy.signal"),
    "Linear algebra and distances": (
        "numpy: cross dot einsum inner kron outer tensordot trace vdot vecdot",
        "numpy.linalg",
        "scipy.linalg",
        "scipy.spatial.distance",
    ),
    "Sorting, searching, masks": (
        "numpy: all allclose any argmax argmin argpartition argsort array_equal array_equiv choose "
        "clip compress digitize extract isclose isin lexsort nanargmax nanargmin nan_to_num "
        "partition piecewise searchsorted select sort take take_along_axis where",
    ),
    "Numbers: rounding, angles, special functions": (
        "numpy: angle around fix i0 imag iscomplex isneginf isposinf isreal real round sinc",
        "scipy.special",
    ),
    "Shapes: stack, split, pad, repeat, reshape": ("numpy",),
}
"""What people want to do, and the functions for it: a module, or some names of one. A function
belongs to the first task that has it."""


def functions() -> str:
    """The rows of `xpapply.batching`, by what they are for; what goes slice by slice apart."""
    tasks: dict[str, dict[str, list[str]]] = {task: {} for task in TASKS}
    rows: dict[str, list[str]] = {}
    for row in batching.rows():
        module, _, name = row.name.rpartition(".")
        where = rows if row.kind == "rows" else tasks[_task(module, name)]
        where.setdefault(module, []).append(name)
    parts = [f"### {task}\n\n{_listed(found)}" for task, found in tasks.items() if found]
    slow = (
        "### Called slice by slice\n\n"
        "The library has no form of these for many slices, so they are called once per slice. What "
        f"stands around them in `f` still runs for all slices at once.\n\n{_listed(rows)}"
    )
    return "\n\n".join([*parts, slow])


def _task(module: str, name: str) -> str:
    for task, modules in TASKS.items():
        for entry in modules:
            of, _, names = entry.partition(": ")
            if of == module and (not names or name in names.split()):
                return task
    raise KeyError(f"{module}.{name} is of no task: add it to TASKS in docs/fill.py")


def _listed(found: dict[str, list[str]]) -> str:
    return "\n".join(
        f"- `{module}`: " + ", ".join(f"`{name}`" for name in sorted(names))
        for module, names in found.items()
    )


def overview() -> str:
    """All suites at a glance."""
    return f"```{{raw}} html\n{overview_page.picture()}\n```\n\n{overview_page.table()}"


def result(name: str) -> str:
    """The page of a suite, as `python -m benchmarks` wrote it."""
    return (RESULTS / f"{name}.md").read_text(encoding="utf-8")


def speed() -> str:
    """The report of networks on a GPU, with plots."""
    if not GPU.exists():
        return "*No measurements have been recorded yet.*"
    return gpu_report.page(json.loads(GPU.read_text(encoding="utf-8")))


def gpu_fits() -> str:
    """The solvers on a GPU."""
    found = json.loads((RESULTS / "gpu_solvers.json").read_text(encoding="utf-8"))
    return gpu_solvers_report.table(found)


def solvers() -> str:
    """Fits and others beside SciPy in NumPy's loop."""
    return solvers_report.short(json.loads(SOLVERS.read_text(encoding="utf-8")))


def methods() -> str:
    """All methods at a glance."""
    if not METHODS.exists():
        return "*No measurements have been recorded yet.*"
    return methods_report.short(json.loads(METHODS.read_text(encoding="utf-8")))


def method(name: str) -> str:
    """What was measured of a method."""
    if not METHODS.exists():
        return ""
    return methods_report.said(json.loads(METHODS.read_text(encoding="utf-8")), name)


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


def sentence() -> str:
    """What it is, as in the README."""
    return readme.sentence().replace("benchmarks/results/", "measured/")


def before_after() -> str:
    """Four lines, as in the README."""
    return readme.before_after()


def time() -> str:
    """The picture of the README, for light and dark pages."""
    pictures = [
        f"```{{image}} _static/time-{kind}.svg\n:class: only-{kind}\n:alt: {readme.words()}\n```"
        for kind in ("light", "dark")
    ]
    return "\n\n".join([*pictures, readme.caption()])


FILLS = {
    f.__name__: f
    for f in (
        *(ops, functions, overview, result, speed, logsumexp, solvers, gpu_fits, testing),
        *(methods, method),
        *(sentence, before_after, time),
    )
}


def fill(app: Sphinx, docname: str, source: list[str]) -> None:
    """Put the texts in the place of their markers."""
    found = {name for name, _ in MARKER.findall(source[0])}
    if found & {"overview", "result", "sentence", "before_after", "time"}:
        for path in (*RESULTS.glob("*.md"), *RESULTS.glob("*.json"), *BENCHMARKS.glob("*.py")):
            app.env.note_dependency(str(path))
    if "solvers" in found:
        for path in (SOLVERS, BENCHMARKS / "solvers_report.py", BENCHMARKS / "pages.py"):
            app.env.note_dependency(str(path))
    if found & {"methods", "method"}:
        for path in (METHODS, BENCHMARKS / "methods_report.py", BENCHMARKS / "pages.py"):
            app.env.note_dependency(str(path))
    if "speed" in found:
        for path in (GPU, BENCHMARKS / "gpu_report.py", BENCHMARKS / "pages.py"):
            app.env.note_dependency(str(path))
    if "logsumexp" in found:
        for path in (*SLICES.values(), BENCHMARKS / "slices_report.py", BENCHMARKS / "pages.py"):
            app.env.note_dependency(str(path))
    text = MARKER.sub(lambda match: FILLS[match[1]](*filter(None, [match[2]])), source[0])
    source[0] = EMPTY.sub(r"\1\n```", text)
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
