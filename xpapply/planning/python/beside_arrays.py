"""Functions of CuPy's slices that get whole arrays beside them, compiled for the GPU.

What is in those arrays is read when the kernel runs: others of such shapes take the same kernel.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ... import arrays
from ...errors import add_note
from ...frontends.python.run.rows import results_at
from ...functions import advice
from ...functions.purity import has_loop
from ...loop import reference
from ...loop.arguments import Arguments, Looped
from ...loop.signature import CoreDim, Signature, core_last, resolve
from ...loop.vectorize import LoopedCall
from ..application import Application
from ..plan import Plan
from . import running
from .applied import Along
from .numbers_on_device import compiled
from .several_arrays import Several


def plan(app: Application) -> Plan | None:
    """The plan of such a function; None: it gets no such arrays, or is not compiled."""
    given = (*app.args, *app.kwargs.values())
    if not any(map(_is_read, given)) or not _is_read(app.arr):
        return None
    if any(x.device != app.arr.device for x in given if _is_read(x)):
        return None
    if not has_loop(app.f) and not Along(app.f, app.axis, app.arr, app.args, app.kwargs).is_short:
        return None  # a thread for each slice would be too few
    what = _Applied(app)
    loop, _ = compiled(what.several)
    if loop is None:
        return None
    return app.plan(
        "cupy",
        kernels=loop.kernels,
        results=None if loop.differs else loop.results[:1],
        _call=lambda x, axis: _Applied(replace(app, arr=x, axis=axis)).results(loop),
        _plans=loop.plans,
    )


def _is_read(x: Any) -> bool:
    return type(x).__name__ == "ndarray" and arrays.library(x) == "cupy" and x.ndim > 0


class _Applied:
    """Slices, each with the same further arrays."""

    def __init__(self, app: Application) -> None:
        self._app, self._looped = app, False
        operands = [core_last(app.arr, (app.axis,))]
        cores: list[tuple[CoreDim, ...]] = [(CoreDim("n"),)]

        def looped(x: Any) -> Any:
            if not _is_read(x):
                return x
            cores.append(tuple(CoreDim(f"a{len(operands)}_{d}") for d in range(x.ndim)))
            operands.append(x)
            return Looped(len(operands) - 1)

        args = (Looped(0), *map(looped, app.args))
        kwargs = {name: looped(x) for name, x in app.kwargs.items()}
        self._dims = resolve(Signature(tuple(cores), ()), [tuple(x.shape) for x in operands])
        call = LoopedCall(app.f, Arguments(args, kwargs))
        self.several = Several(call, operands, self._dims, self._loop, self._note)

    def _loop(self) -> Any:
        self._looped = True
        app = self._app
        return reference.apply(app.f, app.axis, app.arr, app.args, app.kwargs)

    def _note(self, error: BaseException, index: tuple[int, ...]) -> None:
        parts: Sequence[Any] = [*index[: self._app.axis], ":", *index[self._app.axis :]]
        add_note(error, f"raised at the slice arr[{', '.join(map(str, parts))}]")
        advice.note(error)

    def results(self, loop: Any) -> Any:
        """All of them, with their axes where that of the slices was."""
        found = running.at_once(loop, self.several)
        return found if self._looped else results_at(found, self._dims.loop, self._app.axis)
