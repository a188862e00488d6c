"""One call of a `vectorize`: its keywords, and the way to the results."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np

from .. import arrays, config, frontends
from ..arrays import as_tuple
from ..arrays.selection import first, nth, nth_of, spread
from ..errors import InputError, TraceError
from ..ir.graph import ShapeDtype
from ..limits import LIMITS
from ..loop.arguments import Looped
from ..loop.own_vectorize import Place, note
from ..loop.signature import Dims, Places, Signature, core_last, places, resolve
from ..loop.vectorize import LoopedCall, OnError, dtype_of, filler, of_numbers, of_slices
from .outs import Outs, check_device
from .portable import InputSpec, PortableFunction, kind_of

GUFUNC = ("axis", "axes", "keepdims", "out", "where", "fill", "dtype")
"""Keywords of a call that say how it is looped, unless `f` has parameters of these names."""


class VectorizedCall:
    """One call of a vectorized function.

    Parameters
    ----------
    call : LoopedCall
        The function and its arguments.
    signature : Signature or None
        None: `f` is a function of numbers.
    operands : list
        The arguments that are looped over.
    otypes : str or list of dtypes, or None
        As of `vectorize`.
    cache : bool
        As of `vectorize`.
    on_error : OnError
        What to do where `f` raises, and what stands where nothing is computed.
    axis, axes, keepdims, out, where, fill, dtype
        What the call says.
    """

    def __init__(
        self,
        call: LoopedCall,
        signature: Signature | None,
        operands: list[Any],
        otypes: Any,
        cache: bool,
        on_error: OnError,
        axis: Any = None,
        axes: Any = None,
        keepdims: bool = False,
        out: Any = None,
        where: Any = None,
        fill: Any = None,
        dtype: Any = None,
    ) -> None:
        self._otypes, self._cache, self._network = otypes, cache, None
        self._sent = call.f if isinstance(call.f, PortableFunction) else None
        network = frontends.is_network(call.f) and not frontends.is_compiled(call.f)
        network = network and self._sent is None
        if signature is not None and network:
            self._network = call.f
            frontend, several = frontends.find(call.f), len(signature.outputs) > 1
            of_slice = frontend.several_of_slice if several else frontend.slice_function
            call = replace(call, f=of_slice(call.f))
        self._call = call
        beside = any(arrays.library(x) not in (None, "numpy") for x in operands)
        self._operands = [_operand(x, beside) for x in operands]
        self._scalars = [isinstance(x, np.generic) for x in operands]  # f gets them as they are
        arrays.get_array_module(*self._operands)  # raises for arrays of different libraries
        self._like = next((x for x in self._operands if arrays.library(x) != "numpy"), None)
        self._check_devices()
        self._no_network = "networks run at once on the slices of one array"
        """Why the loop runs one."""
        self._keeps = fill is None and out is not None
        """Whether `out` keeps its values where nothing is computed."""
        self._on_error = on_error if fill is None else replace(on_error, fill=fill)
        self._dtype = dtype
        self._places: Places | None = None
        self._numbers = signature is None
        if self._numbers and self._like is not None:  # f gets numbers, and may use that library
            self._call = replace(call, arguments=replace(call.arguments, on_host=True))
        self.loops_for = ""
        """Why the loop runs, if the caller knows."""
        self.looped: float = 0
        """The largest number of elements for which the loop runs again."""
        self.in_loop = 0.0
        """Seconds of the loop."""
        self.budget: Any = None
        """The budget of the loop that runs in place of a way that was given up."""
        self.ready: Any = None
        """The prepared run for arrays of the same layout, without further arguments."""
        if signature is None:
            if axis is not None or axes is not None or keepdims:
                raise TypeError(
                    "axis, axes and keepdims are for core dimensions: give vectorize a "
                    "signature, such as signature='(n)->()'"
                )
            signature = Signature(((),) * len(operands), ((),))
        elif axis is not None or axes is not None or keepdims:
            ndims = [x.ndim for x in self._operands]
            self._places = places(signature, ndims, axis, axes, keepdims)
            moved = zip(self._operands, self._places.inputs, strict=True)
            self._operands = [core_last(x, own) for x, own in moved]
        self._dims = resolve(signature, [tuple(x.shape) for x in self._operands])
        self._mask = None if where is None else self._booleans(where)
        targets = None if out is None else as_tuple(out)
        self._outs = Outs(targets, self._places, self._dims, self._numbers, self._like)

    # --- devices ----------------------------------------------------------------------------

    def _check_devices(self) -> None:
        """Refuse arrays on several devices; numbers go to where the arrays are."""
        if self._like is None:
            return
        own = [k for k, x in enumerate(self._operands) if arrays.library(x) != "numpy"]
        first = next((k for k in own if self._operands[k].ndim), own[0])
        self._like = like = self._operands[first]
        for k in own:
            x = self._operands[k]
            if arrays.device(x) == arrays.device(like):
                continue
            if x.ndim:
                raise InputError(
                    f"argument {first} is {arrays.describe(like)}, argument {k} is "
                    f"{arrays.describe(x)}: bring them to one device first"
                )
            self._operands[k] = arrays.asarray(x, like)

    # --- facts ------------------------------------------------------------------------------

    @property
    def operands(self) -> list[Any]:
        """The arrays that are looped over, their core dims last."""
        return self._operands

    @property
    def leaves(self) -> Any:
        """The function that takes results apart."""
        return self._call.arguments.leaves

    @property
    def slices(self) -> int:
        """The number of slices."""
        return math.prod(self._dims.loop)

    @property
    def kind(self) -> InputSpec | None:
        """The input spec of a graph of the function; None: such calls have none."""
        if self._numbers:
            return None
        cores = map(self._dims.sizes.shape, self._dims.signature.inputs)
        slices = zip(cores, map(arrays.dtype_name, self._operands), strict=True)
        return kind_of(self._call.arguments, tuple(ShapeDtype(*s) for s in slices))

    def results(self) -> Any:
        """The results of the call."""
        outs = self._outs
        if self._mask is not None and self._keeps and not arrays.compat(self._like).any(self._mask):
            return outs.as_given
        if self._mask is None:
            found = self._looped(self._operands, self._dims, _same)
        else:
            found = self._of_some(self._mask)
        several = isinstance(found, tuple)
        parts = outs.filled(as_tuple(found), several, self._mask if self._keeps else None)
        return tuple(parts) if several else parts[0]

    # --- the loop, or what runs instead ---------------------------------------------------------

    def plan(self, call: Callable[..., Any]) -> Any:
        """The plan of `call` with these arguments."""
        from .python.several_arrays import Several, plan

        shapes = [tuple(x.shape) for x in self._operands]
        if (mask := self._mask) is None:
            operands, dims, place = self._operands, self._dims, _same
        else:
            operands = [x[mask] for x in self._views()]
            dims, place = self._dims_of(operands), partial(nth, mask)
        along = self._along(operands, dims)
        elsewhere = self._numbers and self._like is not None
        if elsewhere:
            there, why = self._there(operands, dims, place)
            if there is not None:
                return plan(there[0], shapes, self._out_shape, call, None, there[1])
            operands = self._from_device(operands)
        what = self._applied(operands, dims, place)
        compiled = self._compiler(*what)
        words = None if compiled is None else compiled[2]
        found = plan(Several(*what), shapes, self._out_shape, call, words)
        if along is not None:
            of_it = along.network
            found.engine, found.kernels, found.reasons = of_it.engine, of_it.kernels, of_it.reasons
        if self._sent is not None and not self._numbers:
            found = self._sent.plan(found, self.kind, self._out_shape)
        if elsewhere:
            found.library = str(arrays.library(self._like))
            found.device = str(arrays.device(self._like))
            found.kernels = (*found.kernels, "on a copy on the host")
            found.reasons = (*found.reasons, *(f"not on the GPU: {w}" for w in [why] if w))
        if self._network is not None:
            found.name = frontends.name_of(self._network)
        return found

    def _out_shape(self, k: int, core: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of a result that has these core dims for each slice."""
        whole = np.broadcast_to(np.zeros(()), (*self._dims.loop, *core))
        return self._outs.placed(k, whole).shape  # type: ignore[no-any-return]

    def _looped(self, operands: list[Any], dims: Dims, place: Place) -> Any:
        """The results for all slices: one, or a tuple of them."""
        if not operands:
            if self._mask is not None:
                raise ValueError("where= is for arguments that are looped over: there are none")
            return self._call() if self._numbers else self._by_loop(operands, dims, place)
        if self._numbers and any(arrays.library(x) != "numpy" for x in operands):
            there, _ = self._there(operands, dims, place)
            if there is None:
                return self._on_the_host(operands, dims, place)
            from .python import numbers_on_device

            found, self.ready = numbers_on_device.run(*there)
            return found
        if self._sent is not None and 0 not in dims.loop:
            return self._of_network(self._sent.results(self.kind, operands), dims)
        along = self._along(operands, dims)
        if along is not None:
            network, leaves = along.network, self._call.arguments.leaves
            if not network.vectorized:
                _announce(
                    self._network, network.slices or 0, "; ".join(network.reasons), operands[0]
                )
            if leaves is not None and along.container is not None:
                leaves.of(along.container)
            return self._of_network(along.results(), dims)
        given = self._applied(operands, dims, place)
        if self._network is not None and math.prod(dims.loop) >= LIMITS.several_slices:
            _announce(self._network, math.prod(dims.loop), self._no_network, operands[0])
        found = self._compiled(*given)
        if found is not None:
            return found if given[0].arguments.results else found[0]
        found, self.ready, self.looped, self.budget = _at_once(
            *given, again=self._dtype is not None
        )
        return found

    def _there(self, operands: list[Any], dims: Dims, place: Place) -> tuple[Any, str]:
        """The run of a function of numbers on the arrays' device, or None and the reason."""
        if arrays.library(self._like) != "cupy":
            return None, ""
        if any(self._scalars) or any(x.dtype.kind not in "biufc" for x in operands):
            return None, "f gets more than Python's numbers"
        operands = [arrays.asarray(x, self._like) for x in operands]
        if why := self._why_loop(operands, dims):
            return None, why
        from .python import numbers_on_device

        arguments = replace(self._call.arguments, numbers=True, exactly=True)
        call, given = replace(self._call, arguments=arguments), (operands, dims, place)
        how = partial(self._on_the_host, *given), partial(self._dtypes, *given)
        return numbers_on_device.found(call, operands, dims, *how, lambda e, at: note(e, place(at)))

    def _from_device(self, operands: list[Any]) -> list[Any]:
        """The arrays on the host; numbers of Python's stand in arrays, which give them back."""
        each = zip(map(arrays.on_host, operands), self._scalars, strict=True)
        return [x if own else np.asarray(x) for x, own in each]

    def _on_the_host(self, operands: list[Any], dims: Dims, place: Place) -> Any:
        """The results of a function of Python's numbers, which are made of NumPy's arrays."""
        found = self._looped(self._from_device(operands), dims, place)
        self.ready = None  # which takes NumPy's arrays
        parts = tuple(arrays.asarray(x, self._like) for x in as_tuple(found))
        return parts if isinstance(found, tuple) else parts[0]

    def _applied(self, operands: list[Any], dims: Dims, place: Place) -> tuple[Any, ...]:
        """Arguments for `Several`; the last one is a reason for the loop that needs no look at
        `f`."""
        note_at = lambda e, at: note(e, place(at))  # noqa: E731
        numbers, otypes = self._numbers, self._otypes
        results = len(dims.signature.outputs)
        several = results > 1
        why = self._why_loop(operands, dims)
        if why:
            arguments = replace(self._call.arguments, numbers=numbers)
            by_loop = partial(self._by_loop, operands, dims, place)
            return replace(self._call, arguments=arguments), operands, dims, by_loop, note_at, why
        if numbers:
            otypes, several = self._dtypes(operands, dims, place)
            results = len(otypes)
            dims = replace(dims, signature=Signature(dims.signature.inputs, ((),) * results))
        elif self._dtype is not None:
            otypes = [self._dtype] * results
        by_loop = partial(self._by_loop, operands, dims, place, otypes)
        if several and results == 1:
            why = "f returns a tuple of one"
        dtypes = None if otypes is None else tuple(np.dtype(d) for d in otypes)
        how = replace(
            self._call.arguments,
            numbers=numbers,
            results=results if several else 0,
            dtypes=dtypes,
            exactly=True,
        )
        call = replace(self._call, arguments=how)
        return call, operands, dims, by_loop, note_at, why

    def _along(self, operands: list[Any], dims: Dims) -> Any:
        """The run of a network on all slices of one array; None: the loop."""
        arguments = self._call.arguments
        inputs = dims.signature.inputs
        if self._network is None or not any(inputs):
            return None
        count, places = len(inputs), tuple(map(Looped, range(len(inputs))))
        if self._on_error.how != "raise" or 0 in dims.loop or arguments.args[:count] != places:
            return None
        from .flat_slices import of_network

        more = arguments.args[count:], arguments.kwargs
        try:
            return of_network(self._network, operands, dims, *more)
        except TraceError as error:
            self._no_network = str(error)
            return None

    def _of_network(self, found: Any, dims: Dims) -> Any:
        """Check the results of a network against the signature."""
        outputs = dims.signature.outputs
        parts = as_tuple(found)
        if len(parts) != len(outputs):
            raise ValueError(
                f"f returned {len(parts)} results, but the signature {dims.signature} has "
                f"{len(outputs)}"
            )
        given = [self._dtype] * len(parts) if self._dtype is not None else self._otypes
        dtypes = given or [None] * len(parts)
        each = zip(parts, outputs, dtypes, strict=True)
        parts = tuple(self._promised(k, y, core, d, dims) for k, (y, core, d) in enumerate(each))
        return parts if len(parts) > 1 else parts[0]

    def _promised(self, k: int, y: Any, core: Any, dtype: Any, dims: Dims) -> Any:
        """Check one result."""
        loop = len(dims.loop)
        dims.sizes.take(core, tuple(y.shape)[loop:], f"result {k}")
        if y.ndim != loop + len(core):
            raise ValueError(
                f"result {k} of f has the shape {tuple(y.shape)[loop:]}: the signature is "
                f"{dims.signature}"
            )
        if dtype is None:
            return y
        xp = arrays.compat(y)
        return xp.astype(y, dtype_of(xp, dtype), copy=False)

    def _why_loop(self, operands: list[Any], dims: Dims) -> str:
        """Why the loop runs, whatever `f` is; "" if it may not."""
        if self.loops_for:
            return self.loops_for
        if not operands:
            return "nothing is looped over"
        if self._on_error.how != "raise":
            return f"on_error={self._on_error.how!r} is for calls of f"
        if math.prod(dims.loop) < LIMITS.several_slices:
            return "a single slice takes less time in the loop"
        if self._network is not None:
            return self._no_network
        if self._sent is not None:
            return self._sent.missing
        if self._numbers and self._cache:
            return "cache=True counts the calls of f"
        kinds = [(t.__module__.partition(".")[0], t.__name__) for t in map(type, operands)]
        other = [k for k in kinds if k not in (("numpy", "ndarray"), ("cupy", "ndarray"))]
        if self._numbers and other:
            return f"Python's numbers are made of NumPy's arrays, not of {other[0][1]}"
        return ""

    def _compiler(
        self, call: LoopedCall, operands: list[Any], dims: Dims, *more: Any
    ) -> tuple[Any, list[Any], str] | None:
        """The run of a function that the user has compiled (numba), its views, and its description.

        None: the interpreter runs it.
        """
        *_, why = more
        f = call.f
        if why or not frontends.is_compiled(f) or config.current().engine == "loop":
            return None
        cores = map(dims.sizes.shape, dims.signature.inputs)
        views = [
            arrays.broadcast_to(x, dims.loop + core)
            for x, core in zip(operands, cores, strict=True)
        ]
        arguments = replace(self._call.arguments, numbers=self._numbers)
        try:
            run, words = frontends.find(f).looped(f, arguments, views, dims.loop, dims.signature)
        except TraceError:
            return None
        return run, views, words

    def _compiled(
        self, call: LoopedCall, operands: list[Any], dims: Dims, *more: Any
    ) -> tuple[Any, ...] | None:
        """The results of a function that the user has compiled; None: the interpreter runs it."""
        made = self._compiler(call, operands, dims, *more)
        if made is None:
            return None
        (run, views, _), (_, note_at, _), dtypes = made, more, call.arguments.dtypes
        try:
            found = run(views, note_at)
        except TraceError:
            return None
        for k, (x, core) in enumerate(zip(found, dims.signature.outputs, strict=True)):
            dims.sizes.take(core, x.shape[len(dims.loop) :], f"result {k} of the first call")
        if dtypes is None:
            return found  # type: ignore[no-any-return]
        for x, d in zip(found, dtypes, strict=True):
            # Python's integers are checked one by one
            if not np.can_cast(x.dtype, d, "same_kind" if x.dtype.kind in "fc" else "safe"):
                return None
        return tuple(x.astype(d, copy=False) for x, d in zip(found, dtypes, strict=True))

    def _by_loop(self, *given: Any, f: Any = None) -> Any:
        """The plain loop, whose seconds are counted; `f`: what it calls, if it is another one."""
        began = perf_counter()
        call = self._call if f is None else replace(self._call, f=f)
        found = self._in_loop(call, *given)
        self.in_loop += perf_counter() - began
        return found

    def _in_loop(
        self, call: LoopedCall, operands: list[Any], dims: Dims, place: Place, otypes: Any = None
    ) -> Any:
        if otypes is None and self._dtype is not None and not self._numbers:
            otypes = [self._dtype] * len(dims.signature.outputs)
        otypes = self._otypes if otypes is None else otypes
        if self._numbers:
            if self._dtype is not None and operands:
                otypes, _ = self._dtypes(operands, dims, place)
            return of_numbers(call, operands, otypes, self._cache, self._on_error, place)
        found = of_slices(call, operands, dims, otypes, self._on_error, place)
        return found[0] if len(found) == 1 else found

    def _dtypes(self, operands: list[Any], dims: Dims, place: Place) -> tuple[Any, bool]:
        """The dtypes of results, and whether these are a tuple: as NumPy has it, by a call."""
        if self._otypes is not None and self._dtype is None:
            return self._otypes, len(self._otypes) > 1
        if 0 in dims.loop and self._dtype is not None:
            return [self._dtype], False
        if 0 in dims.loop:
            raise ValueError("cannot call `vectorize` on size 0 inputs unless `otypes` is set")
        try:
            found = self._call(*map(first, operands))
        except Exception as error:
            note(error, place((0,) * len(dims.loop)))
            raise
        several = isinstance(found, tuple)
        parts = found if several else (found,)
        if self._dtype is not None:
            return [self._dtype] * len(parts), several
        return "".join(np.asarray(x).dtype.char for x in parts), several

    # --- where ------------------------------------------------------------------------------

    def _booleans(self, where: Any) -> Any:
        """`where`, of the loop dims, which it may broadcast."""
        xp = arrays.compat(self._like)
        mask = where if arrays.library(where) else np.asarray(where)
        if arrays.library(mask) != "numpy":
            check_device(mask, self._like, "where")
        mask = mask if self._like is None else arrays.asarray(mask, self._like)
        if arrays.dtype_name(mask) != "bool":
            raise TypeError(f"where must be booleans: found {arrays.describe(mask)}. Use mask != 0")
        try:
            loop = np.broadcast_shapes(self._dims.loop, tuple(mask.shape))
        except ValueError:
            raise InputError(
                f"where has shape {tuple(mask.shape)}, which does not broadcast with the loop "
                f"dimensions {self._dims.loop}: it says for which slices f is called"
            ) from None
        self._dims = replace(self._dims, loop=loop)
        return xp.broadcast_to(mask, loop)

    def _views(self) -> list[Any]:
        """The arrays with all loop dims."""
        cores = map(self._dims.sizes.shape, self._dims.signature.inputs)
        return [
            arrays.broadcast_to(x, self._dims.loop + core, subok=True)
            for x, core in zip(self._operands, cores, strict=True)
        ]

    def _dims_of(self, chosen: list[Any]) -> Dims:
        """Resolve the dims of chosen slices along one loop dim."""
        some = resolve(self._dims.signature, [tuple(x.shape) for x in chosen])
        some.sizes.known.update(self._dims.sizes.known)
        return some

    def _of_some(self, mask: Any) -> Any:
        """The results for the slices that `where` chooses; the others are not computed."""
        xp, views = arrays.compat(self._like), self._views()
        untold = self._otypes is None and self._dtype is None
        if untold and math.prod(mask.shape) and not xp.any(mask):
            raise ValueError(
                "where chooses no slice, so that no call of f tells the dtype of the results: "
                "give otypes, or dtype="
            )
        # where all of a block fail, nothing tells what their results would be
        in_blocks = mask.ndim and self._on_error.how == "raise"
        if in_blocks and all(type(x) in (np.ndarray, np.memmap) for x in views):
            nbytes = sum(math.prod(x.shape[mask.ndim :]) * x.itemsize for x in views)
            most = max(1, LIMITS.where_block // max(1, nbytes))
            if np.count_nonzero(mask) > most:
                return self._block_by_block(views, np.flatnonzero(mask), most)
        found = self._of_chosen([x[mask] for x in views], partial(nth, mask))
        parts = [spread(x, mask, self._fill_of(x)) for x in as_tuple(found)]
        return tuple(parts) if isinstance(found, tuple) else parts[0]

    def _fill_of(self, found: Any) -> Any:
        """The fill value."""
        return 0 if self._keeps else filler(self._on_error.fill, found.dtype)

    def _of_chosen(self, chosen: list[Any], place: Place) -> Any:
        """The results for slices along one loop dim; `place`: where they are among all."""
        some = self._dims_of(chosen)
        found = self._looped(chosen, some, place)
        self._dims.sizes.known.update(some.sizes.known)
        return found

    def _block_by_block(self, views: list[Any], chosen: np.ndarray, most: int) -> Any:
        """Run chosen slices in blocks of at most `most`, gathered one by one."""
        loop = self._dims.loop
        full: list[Any] = []
        several = False
        for start in range(0, len(chosen), most):
            at = np.unravel_index(chosen[start : start + most], loop)
            found = self._of_chosen([x[at] for x in views], partial(nth_of, at))
            several, parts = isinstance(found, tuple), as_tuple(found)
            if not full:
                full = [np.empty_like(x, shape=(*loop, *x.shape[1:])) for x in parts]
                for x in full:
                    x[...] = self._fill_of(x)
                if self._numbers and self._otypes is None:  # no further call tells them
                    self._otypes = [x.dtype for x in parts]
            for x, y in zip(full, parts, strict=True):
                x[at] = y  # the first results fix the dtype, as in the loop
        return tuple(full) if several else full[0]


def _same(index: tuple[int, ...]) -> tuple[int, ...]:
    return index


def _operand(x: Any, beside: bool) -> Any:
    """Convert an operand to an array. `beside`: numbers stand beside arrays of another library."""
    if arrays.library(x) is not None:
        return x
    return np.asanyarray(x)[()] if beside else np.asanyarray(x)


def _announce(*given: Any) -> None:
    from .application import announce

    announce(*given)


def _at_once(*given: Any, again: bool) -> tuple[Any, Any, float, Any]:
    """All slices, what runs such calls again, and up to how many elements the loop runs in them.

    The last is the budget of loops that run instead of something else.
    The tracer is loaded for the first call that may need it. `again`: whether the loop calls the
    function once more, to learn of what dtype its results are.
    """
    call, operands, dims, by_loop, _, why = given
    if why:
        count = math.prod(dims.loop)
        return by_loop(), None, math.inf if count >= LIMITS.several_slices else count, None
    from .python import unplanned

    found, first, quick = None, None, None
    if not again:
        found, first, quick = unplanned.of_several(call, operands, dims, by_loop)
    if found is not None:
        return found, None, 0 if quick is None else math.prod(dims.loop), quick
    from .python.several_arrays import Several, run

    what = Several(*given)
    what.first = first
    return run(what), what.ready, what.looped, what.budget
