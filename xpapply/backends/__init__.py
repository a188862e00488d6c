"""Backends, one file per array library, and their contract.

`Backend` is the contract, with defaults for all that a library need not have.
"""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from .. import config

if TYPE_CHECKING:
    from ..arrays.layout import Layout
    from ..codegen.cost import Estimate
    from ..ir.graph import Graph
    from ..runtime.budget import Budget


class Later(NamedTuple):
    """A budget of calls until something is compiled, and the cost of one."""

    budget: Budget
    cost: float


@dataclass(frozen=True, slots=True)
class Borrower:
    """Another library's backend that works on an array's memory, without a copy.

    Attributes
    ----------
    engine : str
        Its name.
    view : callable or None
        ``view(x)`` is an array with the layout of the one that was asked about, as the other
        library has it. None: it takes them as they are.
    context : callable or None
        ``context(x)`` is a context manager for the work on `x`: its device and stream.
    """

    engine: str
    view: Callable[[Any], Any] | None
    context: Callable[[Any], AbstractContextManager[Any]] | None = None


def compiled() -> tuple[Borrower, ...]:
    """The kernels that are compiled for this CPU: the first borrower of what lies in its memory.

    None without llvmlite, unless they are asked for: then they say what is missing.
    """
    if _llvmlite_is_installed() or config.current().engine == "cpu":
        return (Borrower("cpu", None),)
    return ()


@functools.cache
def _llvmlite_is_installed() -> bool:
    return importlib.util.find_spec("llvmlite") is not None


class Run(Protocol):
    """A graph on arrays that lie alike: all is decided but their addresses.

    Attributes
    ----------
    kernels : tuple of str
        As `Lowered` has them.
    """

    @property
    def kernels(self) -> tuple[str, ...]: ...

    def __call__(self, arrays: Sequence[Any], outs: Sequence[Any]) -> object:
        """Fill `outs`, memory for the results.

        It must not copy what it reads, nor wait for the device.
        """


class Lowered:
    """A graph, compiled: what `Backend.lower` returns.

    A graph of one array and one result that knows the length of its slices runs by `__call__`, or
    by `prepared`; others run by `on`.

    Attributes
    ----------
    graph : Graph
        What is computed.
    kernels : tuple of str
        A line for each thing that it calls or launches, for `explain`.
    """

    graph: Graph
    kernels: tuple[str, ...] = ()

    def bind(self, consts: tuple[Any, ...], like: Any) -> Any:
        """The constants as this wants them, on the device of `like`.

        Called once per state of the model and device, and kept. Lowered graphs of all precisions
        share it.
        """
        return consts

    def __call__(self, x: Any, at: int, bound: Any, out: Any) -> Any:
        """Run on all slices of `x`, into `out`.

        Both have their axes in memory order (slowest first, wherever the strides allow), the
        slices along axis `at` of `x`, the results along the axes that start at `at` in `out`. `x`
        may be strided, read-only, and of any dtype that the graph's input has. Extra memory has a
        fixed size: `xpapply.arrays.layout.boxes` cuts the batch axes into blocks.
        """
        raise NotImplementedError

    def prepared(
        self, x: Any, at: int, bound: Any, out: Any
    ) -> Callable[[Any, Any], object] | None:
        """``call(x, out)`` for arrays that lie like these, or None: `__call__` is as quick.

        Made once for a layout, so that repeated calls of few slices decide nothing again.
        """

    def on(self, layout: Layout, like: Any) -> Run:
        """Prepare a run for arguments of a layout, on the device of `like`.

        The first of them are those that the graph has inputs for, and what `bind` gave follows. A
        number among them is passed by value. ``UnsupportedError`` leaves them to the next engine.
        """
        raise NotImplementedError

    def faster_than_layers(self, x: Any, consts: tuple[Any, ...], at: int | None = None) -> bool:
        """Whether a network with convolutions is faster here than in its own library.

        The parameters are those of `estimate`. False where that is not known.
        """
        return False

    def estimate(self, x: Any, consts: tuple[Any, ...], at: int | None = None) -> Estimate | None:
        """The estimate of a call with arrays like `x`.

        None where the device and the size of the array make no difference. `consts` are those of
        the model at hand, which may rule a way out; `x` and `at` are what `__call__` would get, or
        `at` is None: the elements of a slice lie side by side. It must agree with what `__call__`
        does, and launch nothing.
        """

    def fair_sample(self) -> int:
        """Slices that take their share of the time that many take.

        By so many it is measured what runs a network with convolutions faster: this, or the
        network's own library. 0: that is not measured, as on devices, which need far more.
        """
        return 0

    def slower_than_half(self, x: Any, consts: tuple[Any, ...], at: int | None = None) -> bool:
        """Whether the library's own operations in 16 bits are faster than float32 here."""
        return False


class Backend:
    """Runs graphs on the arrays of one library, which must be arrays that can be written to.

    A file of `xpapply.backends`, or a module that an entry point names, has an instance as its
    ``BACKEND``. A subclass needs a `name`, `empty` and `lower`.

    Attributes
    ----------
    name : str
        The name of the engine, as `Plan.engine` shows it: the root package of the arrays' class.
    """

    name: str

    # --- graphs -----------------------------------------------------------------------

    def why_not(self, graph: Graph, given: Sequence[Any]) -> str | None:
        """The reason why it cannot run the graph on arrays such as `given`, or None.

        `given` are the arguments that are not numbers. A refusal goes to `Plan.reasons` and the
        next engine is tried, `array_api` in the end: the definition. What is refused here are
        graphs that `Lowered.__call__` cannot run. A subclass whose results have no `Lowered.on`
        asks ``super().why_not`` before it looks at a graph.
        """
        if graph.any_length:
            return "it has no functions of slices"
        return "it has no graphs of several arrays or results" if graph.is_several else None

    def later(self, graph: Graph, x: Any, at: int) -> Later | None:
        """The budget after which a graph refused for few slices is worth a kernel; None: never.

        `x` and `at` are what `Lowered.__call__` would get.
        """

    def lower(self, graph: Graph, precision: str = "highest") -> Lowered:
        """A graph that it does not refuse, compiled, in the precision of ``options(precision=)``.

        Called once per structure, so it must not look at ``graph.consts``: graphs that differ in
        their constants are equal. Functions of slices are always in the highest precision.
        """
        raise NotImplementedError

    def empty(self, shape: tuple[int, ...], dtype: str, like: Any) -> Any:
        """Memory for results, on the device of `like`. `dtype` is a name."""
        raise NotImplementedError

    def result_dtype(self, dtype: str) -> str:
        """The dtype of results that a graph has in `dtype`, which the library may not have."""
        return dtype

    def limits(self, like: Any) -> tuple[float, float] | None:
        """Bytes and operations per second of the device at best, where that is known.

        They make the `floor` line of `explain`, where there is no estimate.
        """

    def counts(self, x: Any, weights: Any, axes: tuple[int, ...], bins: int) -> Any:
        """Count each number in a slice, or sum weights: ``(batch..., bins)``.

        None: `array_api` counts.
        """

    # --- the memory of arrays ---------------------------------------------------------

    slices_engines: tuple[str, ...] = ()
    """Other engines for functions of slices on this library's arrays, to be tried first."""

    def borrowers(self, x: Any, dtype: str) -> Sequence[Borrower]:
        """The other backends that run networks on arrays laid out like `x` faster, best first.

        Asked once for all arrays with the class, shape, strides, dtype and device of `x`, and for
        the memory from `empty`; `dtype` is that of the results.
        """
        return ()

    def lends_to(self, engine: str, x: Any, dtype: str) -> Borrower | None:
        """The one of `borrowers` that is named `engine`."""
        return next((b for b in self.borrowers(x, dtype) if b.engine == engine), None)

    def slices_borrower(self, arrays: Sequence[Any]) -> Borrower | str | None:
        """The borrower that runs functions of slices on these arrays.

        None: this one itself. A text says why none may (autograd records the call), and
        `array_api` runs.
        """

    def on_borrowed(self) -> Backend:
        """The backend for networks on another library's memory, which may have further dtypes."""
        return self

    def way(self, name: str) -> Backend | None:
        """The backend of a single way, which is an engine with a name of its own.

        None for a name that is no way of this backend. It is for those who ask for it by
        ``options(engine=...)``: nothing else chooses it.
        """

    def written(self, x: Any) -> None:
        """Called after an array of the user's, an ``out=``, was written to."""

    def is_wrapped(self, x: Any) -> bool:
        """Whether an array is abstract, inside a transform of its library."""
        return False
