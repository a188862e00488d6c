"""The plan of a run on a file: blocks, engine, estimated time."""

from __future__ import annotations

import math
import re
import time
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np

from .. import apply_along_axis, config, explain, options
from ..limits import LIMITS
from ..planning.plan import Plan
from ..storage.stores import Store
from .telling import in_options


class Unwritten(Store):
    """An output that is not there, to see how it would be cut."""

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype, unit: Any) -> None:
        self.x: Any = self
        self.shape, self._dtype = shape, dtype
        self.read_unit = self.write_unit = unit or (1,) * len(shape)
        self.order = tuple(range(len(shape)))

    @property
    def dtype(self) -> np.dtype:
        """The dtype of the output."""
        return self._dtype

    def why_read_only(self) -> str:
        """ "": it is new."""
        return ""


def of_block(f: Any, axis: Any, source: Store, whole: Plan) -> tuple[Plan, np.ndarray]:
    """The plan of the first block of a file's plan, and that block."""
    cut: Any = whole._call.cut  # type: ignore[union-attr]
    x = source.read(next(iter(cut)))
    device = config.current().device
    if not device:
        return explain(f, axis, x), x
    import cupy

    with cupy.cuda.Device(int(device.partition(":")[2] or 0)), options(device=""):
        return explain(f, axis, cupy.asarray(x)), x


def engine(plan: Plan) -> str:
    """A description of the engine."""
    where = "" if plan.device == "cpu" else f" on {plan.device}"
    return in_options(f"{plan.engine}{where}: {'; '.join(plan.kernels) or 'one call per slice'}")


def said(f: Any, axis: Any, source: Store, whole: Plan, name: str) -> str:
    """The plan for all of a file, and how long it takes."""
    one, x = of_block(f, axis, source, whole)
    share = (whole.slices or 0) / max(1, one.slices or 0)
    plan = replace(
        one,
        results=whole.results,
        shapes=whole.shapes,
        axis=whole.axis,
        floor=None if one.floor is None else one.floor * share,
        expected=None if one.expected is None else one.expected * share,
    )
    lines = str(plan).splitlines()
    lines[0] = re.sub(r" slices of a .*? array ", lambda _: f" slices of {name} ", lines[0])
    lines.insert(
        2, "blocks   " + whole.kernels[0].removeprefix("in ").replace(" blocks of", " of", 1)
    )
    lines.append(f"time     {_time(f, axis, x, math.prod(_batch(whole)))}")
    return in_options("\n".join(lines))


def _batch(plan: Plan) -> list[int]:
    axes = plan.axis if isinstance(plan.axis, tuple) else (plan.axis,)
    return [n for a, n in enumerate(plan.arr_shape or ()) if a not in axes]


def _time(f: Any, axis: Any, x: np.ndarray, total: int) -> str:
    """Estimate the time of all slices from a sample that is long enough."""
    axes = axis if isinstance(axis, tuple) else (axis,)
    order = (*(a for a in range(x.ndim) if a not in axes), *axes)
    core = tuple(x.shape[a] for a in axes)
    rows = x.transpose(order).reshape(-1, *core)
    along: Any = tuple(range(1, rows.ndim)) if rows.ndim > 2 else 1
    count = 1
    with options(fallback="silent", progress=False, resume=False):
        try:
            while True:
                begin = time.perf_counter()
                apply_along_axis(f, along, rows[:count])
                took = time.perf_counter() - begin
                if took > LIMITS.cli_measured:
                    break
                if count == len(rows):  # what was made for the first call is there now
                    begin = time.perf_counter()
                    apply_along_axis(f, along, rows)
                    took = min(took, time.perf_counter() - begin)
                    break
                count = min(len(rows), count * LIMITS.cli_more)
        except Exception as error:
            return f"not measured: {type(error).__name__}: {error}"
    seconds = _duration(took / count * total)
    return (
        f"about {seconds} for all of them, from {count:,} slices; reading and writing files comes "
        "on top"
    )


def _duration(seconds: float) -> str:
    units = ((3600, "h"), (60, "min"), (1, "s"), (1e-3, "ms"), (1e-6, "us"))
    size, unit = next((u for u in units if seconds >= u[0]), units[-1])
    number = seconds / size
    return f"{number:.2g} {unit}" if number < 99.5 else f"{number:,.0f} {unit}"


def ran(f: Any, axis: Any, source: Store, whole: Plan) -> str:
    """A description of the engine that ran; "" if unknown."""
    with suppress(Exception), options(fallback="silent", resume=False):
        return engine(of_block(f, axis, source, whole)[0])
    return ""
