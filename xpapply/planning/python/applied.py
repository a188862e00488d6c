"""Application of a Python function to the slices of one array along an axis, or of several."""

from __future__ import annotations

import sys
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from types import FunctionType
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from ... import arrays
from ...frontends.python.run.account import Account
from ...frontends.python.run.rows import Rows
from ...functions import samples
from ...functions.cache import cache_of
from ...limits import LIMITS
from ...loop import reference
from ...loop.arguments import Arguments, Looped
from ...loop.begun import Begun, begun
from ..application import Application, announce, why_awkward
from .unplanned import slices, trace_key

if TYPE_CHECKING:
    from .traced import TracedFunction


def layout_of(f: Any, axis: int, arr: Any, args: tuple, kwargs: dict) -> Hashable:
    """A key of layout and options; None: no shortcut for such calls."""
    if args or kwargs or type(f) is not FunctionType:
        return None
    if type(arr) is np.ndarray:
        return axis, arr.shape, arr.strides, arr.dtype, arr.flags.aligned
    if type(arr).__name__ == "ndarray" and arrays.library(arr) == "cupy":
        return axis, arr.shape, arr.strides, arr.dtype, arr.device.id
    return None


class Applied(Protocol):
    """The interface of `Along` and `Several`: a function and the slices that it gets."""

    @property
    def f(self) -> Any:
        """The function."""

    @property
    def slices(self) -> int:
        """The number of slices."""

    @property
    def key(self) -> Hashable:
        """The key of traces; None: traces are not kept."""

    @property
    def kind(self) -> Hashable:
        """The same, whatever numbers there are among the arguments."""

    @property
    def rules(self) -> str:
        """The library by whose rules `f` is compiled from its source; "": it is not read."""

    @property
    def untraced(self) -> str:
        """Why no trace runs it, which may be compiled; "": one may."""

    @property
    def is_others(self) -> bool:
        """Whether the loop is another library's, which then draws random numbers itself."""

    def why_not(self) -> str | None:
        """Why no plan can be made for such arrays."""

    def rows(self) -> Rows:
        """The slices, in the order of the loop."""

    def slice_at(self, index: tuple[int, ...]) -> Any:
        """One slice, as traces take it."""

    def begun(self) -> Begun:
        """The first calls of the loop.

        What `f` raises for the very first slice is raised as it is, for others as `Users`.
        """

    @property
    def arguments(self) -> Arguments:
        """The arguments of the function."""

    def traced(self, slice0: Any, sample: Any, begun: Begun | None, limit: float) -> TracedFunction:
        """`f` traced on a slice, in so many CPU seconds.

        Raises `TraceError` with the reason why it cannot be.
        """

    def for_batches(self, said: BaseException | str) -> Applied | None:
        """The same with `f` for batches of one, if its error asked for them."""

    def run(self, traced: TracedFunction, account: Account | None = None) -> Any:
        """All slices at once."""

    def loop(self, known: Sequence[Any] = ()) -> Any:
        """The plain loop; `known`: the results for the first slices."""

    def note(self, error: Exception, index: tuple[int, ...]) -> None:
        """Say at which slice an exception was raised."""

    def why_other(self, found: Any, first: Any) -> str | None:
        """Why results, the first of which is known, are none that were promised; None: they are."""

    def announce(self, why: str) -> None:
        """Warn that the loop runs."""


@dataclass(slots=True, eq=False)
class Along(Application):
    """A Python function on the slices of an array along one axis."""

    is_others = False

    @property
    def slices(self) -> int:
        """The number of slices."""
        return slices(self.axis, self.arr)

    @property
    def key(self) -> Hashable:
        """The key of traces; None: traces are not kept."""
        return trace_key(cache_of(self.f)[1], self.axis, self.arr, self.args, self.kwargs)

    @property
    def kind(self) -> Hashable:
        """The same, whatever numbers there are among the arguments."""
        method = cache_of(self.f)[1]
        return trace_key(method, self.axis, self.arr, self.args, self.kwargs, kinds=True)

    @property
    def untraced(self) -> str:
        """Slices are as long, and whether results are texts is not known."""
        return ""

    @property
    def is_short(self) -> bool:
        """Whether slices are short and many enough for one GPU thread each."""
        if self.rules != "cupy" or self.slices < LIMITS.device_slices:
            return False
        return bool(self.arr.shape[self.axis] <= LIMITS.device_numbers)

    @property
    def rules(self) -> str:
        """The library by whose rules `f` is compiled from its source; "": it is not read."""
        if type(self) is Along and arrays.library(self.arr) == "cupy":
            return "cupy"
        return "numpy" * isinstance(self.arr, np.ndarray)

    def why_not(self) -> str | None:
        """Why no plan can be made for such an array."""
        return _why_not(self.arr)

    def rows(self) -> Rows:
        """The slices, in the order of the loop."""
        return Rows(plain(self.arr), self.axis)

    def slice_at(self, index: tuple[int, ...]) -> Any:
        """One slice."""
        return plain(self.arr)[(*index[: self.axis], slice(None), *index[self.axis :])]

    def begun(self) -> Begun:
        """The first calls of the loop."""
        return begun(self.f, self.axis, self.arr, self.args, self.kwargs, self.around)

    @property
    def around(self) -> float:
        """Seconds of a turn of NumPy's loop beside the call."""
        return LIMITS.loop_turn

    @property
    def arguments(self) -> Arguments:
        """The arguments of the function."""
        return Arguments((Looped(0), *self.args), self.kwargs)

    def traced(self, slice0: Any, sample: Any, begun: Begun | None, limit: float) -> TracedFunction:
        """`f` traced on a slice."""
        from .traced import TracedFunction  # compiled, it is not traced

        how = {"around": self.around, "limit": limit}
        return TracedFunction(self.f, self.arguments, slice0, sample, begun, **how)

    def for_batches(self, said: BaseException | str) -> Along | None:
        """The same with `f` for batches of one, if its error asked for them."""
        batched = samples.wanted_for(self.f, said, self._ends, self.args, self.kwargs)
        return None if batched is None else replace(self, f=batched)

    def _ends(self) -> tuple[Any, Any]:
        return samples.ends(self.axis, self.arr)

    def run(self, traced: Any, account: Account | None = None) -> Any:
        """All slices at once."""
        return traced(self.rows(), self.f, account)

    def loop(self, known: Sequence[Any] = ()) -> Any:
        """The plain loop; `known`: the results for the first slices."""
        return reference.apply(self.f, self.axis, self.arr, self.args, self.kwargs, known)

    def note(self, error: Exception, index: tuple[int, ...]) -> None:
        """Say at which slice an exception was raised."""
        reference.note(error, index, self.axis)

    def why_other(self, found: Any, first: Any) -> str | None:
        """None: nothing is promised of results."""
        return None

    def announce(self, why: str) -> None:
        """Tell the user that the loop runs."""
        announce(self.f, self.slices, why, self.arr)


@dataclass(slots=True, eq=False)
class OnHost(Along):
    """An array of another library whose memory NumPy reads: `arr` is the view."""

    is_others = True
    own: Any
    """The array itself, which the loop runs on and the result belongs to."""

    @property
    def around(self) -> float:
        """Seconds of a turn of the loop beside the call: not NumPy's."""
        return 0.0

    def run(self, traced: Any, account: Account | None = None) -> Any:
        """All slices at once."""
        return arrays.asarray(traced(self.rows(), self.f, account), self.own)

    def loop(self, known: Sequence[Any] = ()) -> Any:
        """The plain loop; what is known of the first slices is NumPy's."""
        return reference.apply(self.f, self.axis, self.own, self.args, self.kwargs)


def _why_not(arr: Any) -> str | None:
    """Why no plan can be made for such an array."""
    if type(arr) is np.memmap:
        return None if arr.ndim > 1 and arr.size else "the slices are empty"
    library = arrays.library(arr)
    if library == "torch" and arr.requires_grad and sys.modules["torch"].is_grad_enabled():
        return "autograd records this call; under torch.no_grad() it runs at once"
    if library in ("numpy", "cupy"):
        if arr.dtype.kind not in "biufc":
            return f"slices of dtype {arr.dtype}; pass numbers, such as arr.astype(float)"
    if 0 in arr.shape or arr.ndim < 2:
        return "the slices are empty" if arr.ndim > 1 else "there is one slice only"
    return why_awkward(arr)


def plain(x: Any) -> Any:
    """The numbers of a memory-mapped array; anything else as it is."""
    return x.view(np.ndarray) if type(x) is np.memmap else x
