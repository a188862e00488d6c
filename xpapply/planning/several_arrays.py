"""Python functions of several arrays: whether they run on all slices at once."""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .. import arrays, config, error_state, frontends, loop, workers
from ..cache import arguments, cache_of
from ..core_dims import CoreDim, Dims, Signature, core_last, resolve
from ..errors import TraceError, UnsupportedError, add_note
from ..frontends.python.block import Block
from ..frontends.python.executor import SECONDS_PER_CALL
from ..frontends.python.in_blocks import InBlocks, Raises
from ..frontends.python.kernel_of_paths import results_at
from ..frontends.python.rows import RowsOfSeveral
from ..frontends.python.runner import PER_RUN, Traced
from ..frontends.python.tracing import Tracing, why_impure
from ..ir.graph import ShapeDtype
from ..looped_arguments import Arguments, Looped
from ..looped_call import LoopedCall, note
from . import engines, python_functions
from .fallback import announce
from .one_kernel import OneKernel
from .plan import Plan


class TracedSeveral:
    """A function of slices of several arrays whose calls were written down.

    Attributes are those of `xpapply.frontends.python.runner.Traced` that plans ask for.
    """

    def __init__(self, f: Any, arguments: Arguments, slice0: Any, sample: Any) -> None:
        self.library = library = str(arrays.library(slice0[0]))
        tracing = Tracing(arguments, library, engines.AnyLibrary)
        self.unchanged: Callable[[Any], bool] = tracing.watch
        self.blocks = InBlocks(f, arguments, slice0, sample, tracing, library)
        self.keeps = tracing.keeps
        if tracing.scratch:
            raise TraceError("it sets attributes")
        self.tree = self.blocks.tree
        self.refused = self.why = ""
        self.given_up = self.slow = 0
        self.plans: weakref.WeakSet[Any] = weakref.WeakSet()

    @property
    def seconds(self) -> float:
        """What a call of `f` takes."""
        return self.blocks.seconds

    @property
    def overhead(self) -> float:
        """Seconds that a run takes, however few slices there are."""
        return PER_RUN + SECONDS_PER_CALL * len(self.tree.calls)


@dataclass
class Several:
    """What `vectorize` applies a function to.

    Attributes
    ----------
    call : LoopedCall
        The function and its arguments.
    operands : list of arrays
        With their core dims last.
    dims : Dims
        Core and loop dims.
    by_loop : callable
        The plain loop.
    place : callable
        Notes at which slice `f` raised.
    why_not : str
        Why nothing but the loop runs, where that is known.
    """

    call: LoopedCall
    operands: list[Any]
    dims: Dims
    by_loop: Callable[[], Any]
    place: Callable[[Exception, tuple[int, ...]], None] = note
    why_not: str = ""

    @property
    def f(self) -> Any:
        """The function."""
        return self.call.f

    @property
    def slices(self) -> int:
        """How many there are."""
        return math.prod(self.dims.loop)

    @property
    def key(self) -> Hashable:
        """What the function's traces are remembered by; None: they are not."""
        known = self.call.arguments
        constants = arguments(*known.constants())
        if constants is None:
            return None
        cores = map(self.dims.sizes.shape, self.dims.signature.inputs)
        kinds = [
            (core, _dtype(x), arrays.library(x))
            for core, x in zip(cores, self.operands, strict=True)
        ]
        method = cache_of(self.f)[1]
        promised = bool(self.dims.signature.outputs)
        return (
            method,
            promised,
            known.places(),
            constants,
            known.numbers,
            known.results,
            known.dtypes,
            *kinds,
        )

    def rows(self) -> RowsOfSeveral:
        """The slices, in the order of the loop."""
        loop, sizes = self.dims.loop, self.dims.sizes
        cores = map(sizes.shape, self.dims.signature.inputs)
        views = [
            arrays.broadcast_to(x, loop + core)
            for x, core in zip(self.operands, cores, strict=True)
        ]
        return RowsOfSeveral(views, loop)

    def slice_at(self, index: tuple[int, ...]) -> Any:
        """One of them, as traces take it."""
        return self.rows()[index]

    def traced(self, slice0: Any, sample: Any) -> TracedSeveral | Traced:
        """`f` traced on a slice."""
        return TracedSeveral(self.f, self.call.arguments, slice0, sample)

    def run(self, traced: Any) -> Any:
        """All slices at once."""
        found = traced.blocks(self.rows(), self.f)
        return found.arrays if isinstance(found, Block) else found

    def loop(self, first: Any = None) -> Any:
        """The plain loop."""
        return self.by_loop()

    def note(self, error: Exception, index: tuple[int, ...]) -> None:
        """Say at which slice an exception was raised."""
        self.place(error, index)


class Packed(Several):
    """Numbers of arrays of one dtype, as slices of one array that has these along its first axis.

    So all that runs for slices of one array runs for them: kernels above all.
    """

    @property
    def key(self) -> Hashable:
        """What the function's traces are remembered by; None: they are not."""
        known = self.call.arguments
        constants = arguments(*known.constants())
        if constants is None:
            return None
        kind = self.operands[0].dtype.name, len(self.operands)
        method = cache_of(self.f)[1]
        return (method, "packed", known.places(), constants, known.results, known.dtypes, *kind)

    @property
    def arr(self) -> np.ndarray:
        """The array of slices."""
        if not hasattr(self, "_arr"):
            self._arr = _packed([arrays.broadcast_to(x, self.dims.loop) for x in self.operands])
        return self._arr

    def slice_at(self, index: tuple[int, ...]) -> Any:
        """One of them."""
        at: Any = (slice(None), *index)
        return self.arr[at]

    def traced(self, slice0: Any, sample: Any) -> TracedSeveral | Traced:
        """`f` traced on a slice."""
        known = self.call.arguments
        alone = known.dtypes and known.dtypes[:1]
        arguments = replace(known, packed=True, results=0, dtypes=alone)
        return Traced(self.f, arguments, slice0, sample, engines, None, OneKernel)

    def run(self, traced: Any) -> Any:
        """All slices at once."""
        found = traced(self.arr, 0, self.f)
        return tuple(found) if self.call.arguments.results else found


def _packed(views: list[np.ndarray]) -> np.ndarray:
    """Arrays of one shape and dtype as one; nothing is copied where they lie alike."""
    first = views[0]
    if len(views) == 1:
        return first[None]
    apart = views[-1].ctypes.data - first.ctypes.data
    alike = len(views) == 2 and views[1].strides == first.strides and apart % first.itemsize == 0
    if alike:
        # the views hold on to both arrays' memory while this one is used
        shape, strides = (2, *first.shape), (apart, *first.strides)
        return np.lib.stride_tricks.as_strided(first, shape, strides, writeable=False)
    return np.stack(views)


def for_numbers(*given: Any) -> Several:
    """What applies a function of numbers: all in one array where they are of one dtype."""
    what = Several(*given)
    dtypes = {x.dtype for x in what.operands}
    results = {*(what.call.arguments.dtypes or ())}
    plain = all(type(x) is np.ndarray and x.dtype.isnative for x in what.operands)
    if plain and len(dtypes) == 1 and len(results) == 1 and what.slices:
        return Packed(*given)
    return what


def _dtype(x: Any) -> str:
    """The dtype as a key, with a foreign byte order."""
    foreign = not getattr(x.dtype, "isnative", True)
    return x.dtype.str if foreign else arrays.dtype_name(x)  # type: ignore[no-any-return]


def decide(what: Several) -> tuple[Any, str, bool]:
    """How `f` runs: what runs it on all slices at once, or why the loop does.

    The last value says whether that is because the loop takes less time: nobody need hear of it.
    """
    now = config.current()
    if now.engine == "loop":
        return None, "the loop was asked for", True
    why = _why_not(what)
    found: TracedSeveral | Traced | str | None = None
    known, key = cache_of(what.f)[0], None if why else what.key
    if why is None:
        found = None if key is None else known.traced.get(key)
        if isinstance(found, (TracedSeveral, Traced)) and not found.unchanged(what.f):
            found = None
        if found is None:
            found = _trace(what)
            if key is not None:
                known.traced[key] = found
        why = found if isinstance(found, str) else found.refused or None
    if why is not None:
        if now.engine:
            raise UnsupportedError(
                f"engine {now.engine!r} cannot run {frontends.name_of(what.f)}: {why}"
            )
        return None, why, False
    assert isinstance(found, (TracedSeveral, Traced))
    if now.engine not in ("", found.library) and not isinstance(found, Traced):
        raise UnsupportedError(
            f"engine {now.engine!r} cannot run {frontends.name_of(what.f)}: it takes slices of "
            "one array along one axis"
        )
    if not now.engine and found.library == "numpy":
        few = what.slices <= python_functions._FEW
        if few or what.slices * found.seconds < found.overhead:
            return None, f"{what.slices:,} slices take less time in the loop", True
    return found, "", False


def run(what: Several) -> Any:
    """The results for all slices: one array, or a tuple of them."""
    found, why, quick = decide(what)
    if found is not None:
        return python_functions.at_once(found, what)
    if not quick:
        announce(what.f, what.slices, why)
    return what.loop()


def _why_not(what: Several) -> str | None:
    """Why no plan can be made for such arrays."""
    if what.why_not:
        return what.why_not
    if not what.operands:
        return "nothing is looped over"
    for x in what.operands:
        library = arrays.library(x)
        if library not in ("numpy", "cupy", "torch"):
            return f"several arrays of {library} run in the loop"
        if library == "numpy" and type(x) not in (np.ndarray, np.memmap) and not np.isscalar(x):
            return f"{type(x).__name__} is a subclass of ndarray with a meaning of its own"
        if library != "torch" and (x.dtype.kind not in "biufc" or x.dtype.itemsize > 16):
            return f"elements of dtype {x.dtype}"
        if library != "torch" and x.dtype.kind == "f" and x.dtype.itemsize > 8:
            return f"elements of dtype {x.dtype}"
        if library == "torch" and x.requires_grad:
            return "autograd records this call; under torch.no_grad() it runs at once"
    dtypes = what.call.arguments.dtypes
    if dtypes is not None and (library != "numpy" or any(d.kind not in "biufc" for d in dtypes)):
        return f"results of dtypes {', '.join(map(str, dtypes))}"
    if 0 in what.dims.loop or any(0 in x.shape for x in what.operands):
        return "the slices are empty"
    return error_state.why_per_slice()


def _trace(what: Several) -> TracedSeveral | Traced | str:
    """How `f` runs on all slices at once, or why it does not."""
    why = why_impure(what.f)
    if why:
        return why
    shape = what.dims.loop
    first = (0,) * len(shape)
    places = [first, tuple(n // 2 for n in shape), tuple(n - 1 for n in shape)]
    slice0 = what.slice_at(first)
    for k, at in enumerate(places):
        sample = slice0 if at == first else what.slice_at(at)
        try:
            found = what.traced(slice0, sample)
        except Raises as error:
            if k == len(places) - 1:
                return str(error)
        except TraceError as error:
            return str(error)
        except Exception as error:
            return f"it raises {type(error).__name__}: {error}"
        else:
            return _why_other_results(found, what) or found
    raise AssertionError


def _why_other_results(found: TracedSeveral | Traced, what: Several) -> str | None:
    """Why the results are none that the signature promises: the loop says it as NumPy does."""
    signature, count = what.dims.signature, what.call.arguments.results
    if not signature.outputs:  # which promises nothing
        return None
    if isinstance(found, Traced):
        wanted = (count,) if count else ()
        shape = found.result_aval.shape
        return None if shape == wanted else f"a result has shape {shape}"
    sizes = dict(what.dims.sizes.known)
    for core, x in zip(
        signature.outputs, found.blocks.result if count else (found.blocks.result,), strict=True
    ):
        if len(core) != x.ndim:
            return f"a result has shape {x.shape}"
        if any(sizes.setdefault(d.name, n) != n for d, n in zip(core, x.shape, strict=True)):
            return f"a result has shape {x.shape}"
    return None


class AlongAxes:
    """`f` applied to the slices along several axes, which it gets in their order.

    The results stand where the first of the axes was.
    """

    def __init__(self, f: Any, axes: tuple[int, ...], arr: Any, args: tuple, kwargs: dict) -> None:
        why = ""
        if not frontends.is_python(f):
            kind = "functions of numba" if frontends.is_compiled(f) else "networks"
            f = frontends.find(f).slice_function(f)
            why = f"{kind} run at once along one axis; slices with several are looped over"
        self._f, self._axes, self._arr, self._more = f, axes, arr, (args, kwargs)
        self._looped = False
        rest = [n for a, n in enumerate(arr.shape) if a not in axes]
        if 0 in rest:
            raise ValueError(loop.EMPTY)
        moved = core_last(arr, axes)
        names = tuple(CoreDim(f"d{k}") for k in range(len(axes)))
        dims = resolve(Signature((names,), ()), [tuple(moved.shape)])
        call = LoopedCall(f, Arguments((Looped(0), *args), kwargs))
        self._what = Several(call, [moved], dims, self._loop, self._note, why)

    def _note(self, error: BaseException, index: tuple[int, ...]) -> None:
        inner = iter(index)
        parts = [":" if a in self._axes else str(next(inner)) for a in range(self._arr.ndim)]
        add_note(error, f"raised at the slice arr[{', '.join(parts)}]")

    def _loop(self) -> Any:
        self._looped = True
        return loop.along(self._f, self._axes, self._arr, *self._more, self._note)

    def results(self) -> Any:
        """All of them."""
        found = run(self._what)
        if self._looped:
            return found
        batch = self._arr.ndim - len(self._axes)
        return results_at(found, batch, loop.first_place(self._axes))

    def plan(self, name: str) -> Plan:
        """What would run; `name`: what the function is called."""
        found, why, _ = decide(self._what)
        library, given = str(arrays.library(self._arr)), self._more
        result = None if found is None else found.blocks.result
        runs, also = "", ""
        if found is None:
            runs, also = workers.in_words(self._f, self._what.call.arguments, [self._arr])
        else:
            runs = found.tree.in_words()
        return Plan(
            name=name,
            engine="loop" if found is None else library,
            slice=ShapeDtype(
                tuple(self._arr.shape[a] for a in self._axes), arrays.dtype_name(self._arr)
            ),
            library=library,
            device=str(arrays.device(self._arr)),
            reasons=(*filter(None, (why, also)),),
            kernels=(runs,) * bool(runs),
            result=None if result is None else ShapeDtype(result.shape, result.dtype.name),
            arr_shape=tuple(self._arr.shape),
            axis=self._axes,
            _call=lambda x, axes: AlongAxes(self._f, axes, x, *given).results(),  # type: ignore[arg-type]
        )
