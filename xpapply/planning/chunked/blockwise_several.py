"""`vectorize` on arrays of dask: the same call on corresponding blocks, when they are computed.

The loop dims are cut as the arrays are, and meet as in all of dask's arithmetic; core dims need one
chunk each.
"""

from __future__ import annotations

import copy
import math
import uuid
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from ... import arrays, config, frontends
from ...arrays import as_tuple
from ...errors import InputError, TraceError, UnsupportedError, add_note
from ...ir.graph import ShapeDtype
from ...loop.arguments import Looped
from ...loop.results import Leaves
from ...loop.signature import CoreDims, Signature, core_last, places, resolve
from ...loop.vectorize import LoopedCall
from ..plan import Plan
from .blockwise import FIRST, snapshot


class Blockwise:
    """One call of a vectorized function on arrays of dask.

    Parameters
    ----------
    vectorized : xpapply.vectorize
        What is called.
    call : LoopedCall
        Its function and arguments.
    operands : list
        The arguments that are looped over, one of them of dask.
    how : dict
        The keywords of the call that say how it is looped.
    """

    def __init__(
        self, vectorized: Any, call: LoopedCall, operands: Sequence[Any], how: dict[str, Any]
    ) -> None:
        from ...backends.dask import blocks

        how = {name: x for name, x in how.items() if x is not None}
        if "out" in how:
            raise InputError("out= of dask arrays, which nothing is written to: leave it away")
        self._vectorized, self._given = vectorized, call
        signature: Signature | None = vectorized._core
        self._numbers = signature is None
        of_numbers = Signature(((),) * len(operands), ((),))
        signature = of_numbers if signature is None else signature
        lazy = [blocks.lazy(x) for x in operands]
        where = [blocks.lazy(how.pop("where"))] if "where" in how else []
        self._places = None
        named = {k: how.pop(k) for k in ("axis", "axes", "keepdims") if k in how}
        if named and not (self._numbers and named == {"keepdims": False}):
            if self._numbers:
                raise TypeError("axis, axes and keepdims are for core dimensions")
            self._places = places(signature, [x.ndim for x in lazy], **named)
            moved = zip(lazy, self._places.inputs, strict=True)
            lazy = [core_last(x, own) for x, own in moved]
        self._how, self._masked = how, bool(where)
        signature.check_count(len(lazy))
        inputs = signature.of_arrays([x.ndim for x in lazy]).inputs
        shapes = [_sizes(x, inputs[k], k) for k, x in enumerate(lazy)]
        dims = resolve(signature, shapes)
        signature = dims.signature
        inner = [*signature.inputs, *((),) * len(where)]
        self._operands = [
            blocks.whole(x, range(x.ndim - len(core), x.ndim))
            for x, core in zip([*lazy, *where], inner, strict=True)
        ]
        self._shapes = [tuple(x.shape) for x in lazy]
        self._signature, self._cores = signature, [*map(len, inner)]
        self._ndim = max(
            [x.ndim - core for x, core in zip(self._operands, self._cores, strict=True)]
        )
        self._leaves = Leaves(len(signature.outputs))
        self.kernels: tuple[str, ...] = ()
        self.results = self._results(dims.sizes)

    # --- what results are like ----------------------------------------------------------------

    def _results(self, sizes: Any) -> list[tuple[tuple[int, ...], np.dtype]]:
        """Shape and dtype of each result of a slice."""
        outputs = self._signature.outputs
        dtypes = self._dtypes()
        if dtypes is not None and self._numbers:
            return [((), d) for d in dtypes]
        if dtypes is not None and not any(map(sizes.unknown, outputs)):
            return [(sizes.shape(o), d) for o, d in zip(outputs, dtypes, strict=True)]
        found = None if self._numbers else self._lifted()
        if found is None:
            told = self._first()
            self.kernels = (FIRST,)
        else:
            told = [(x.shape, np.dtype(x.dtype)) for x in found]
        if not self._numbers:
            for k, (core, (shape, _)) in enumerate(zip(outputs, told, strict=True)):
                sizes.take(core, shape, f"result {k}")
                _check_dims(k, core, shape, self._signature)
        if dtypes is not None:
            told = [(shape, d) for (shape, _), d in zip(told, dtypes, strict=True)]
        return told

    def _dtypes(self) -> list[np.dtype] | None:
        """The dtypes that the caller gives."""
        if "dtype" in self._how:
            count = 1 if self._numbers else len(self._signature.outputs)
            return [np.dtype(self._how["dtype"])] * count
        if self._vectorized.otypes is None:
            return None
        return [*map(np.dtype, self._vectorized.otypes)]

    def _lifted(self) -> list[ShapeDtype] | None:
        """Results by the function's graph; None: it has none."""
        f, arguments = self._given.f, self._given.arguments
        avals = tuple(self._slices())
        plain = arguments.args == tuple(Looped(k) for k in range(len(avals)))
        frontend = frontends.find(f)
        if not plain or arguments.kwargs or any(x.dtype.kind not in "biufc" for x in self._inputs):
            return None
        results = len(self._signature.outputs)
        try:
            if frontends.is_python(f):
                apart = replace(arguments, results=results if results > 1 else 0)
                graph = frontend.lift_several(f, avals, apart)
            elif len(avals) == 1 and frontends.is_network(f):
                graph = frontend.lift(f, avals[0], (), {})
            else:
                return None
        except (TraceError, UnsupportedError):
            return None
        except Exception:
            if frontends.is_network(f):
                raise
            return None
        found = [graph.nodes[o].aval for o in graph.outs]
        return found if len(found) == results else None

    def _first(self) -> list[tuple[tuple[int, ...], np.dtype]]:
        """Results by a call for the first slice."""
        from ...backends.dask import blocks

        if self._masked:
            raise InputError("where= of dask arrays: give otypes, or dtype=, of the results")
        first = []
        for x, core in zip(self._inputs, self._cores, strict=False):
            one = blocks.first_slice(x, range(x.ndim - core, x.ndim))
            if one is None or (not one.size and 0 in one.shape[: x.ndim - core]):
                raise ValueError("cannot call `vectorize` on size 0 inputs unless `otypes` is set")
            first.append(one)
        call = replace(self._given, f=self._vectorized)
        with config.options(fallback="silent"):
            found = as_tuple(self._leaves.of(call(*first)))
        return [(tuple(np.shape(y))[self._ndim :], y.dtype) for y in found]

    # --- the call -------------------------------------------------------------------------------

    @property
    def _inputs(self) -> list[Any]:
        return self._operands[: len(self._shapes)]

    def _slices(self) -> list[ShapeDtype]:
        return [
            ShapeDtype(tuple(x.shape[x.ndim - core :]), arrays.dtype_name(x))
            for x, core in zip(self._inputs, self._cores, strict=False)
        ]

    def __call__(self) -> Any:
        """The results: one, or several."""
        from ...backends.dask import blocks

        fixed = copy.copy(self._vectorized)
        if not self._numbers:
            fixed._expect(self._given.arguments, tuple(self._slices()))
        # NumPy's loop of elements asks for characters, by which texts are as long as they are;
        # that of slices has the dtype of its first result, with lengths, units and fields
        dtypes = [d for _, d in self.results]
        fixed.otypes = "".join(d.char for d in dtypes) if self._numbers else dtypes
        if frontends.is_network(fixed.pyfunc):
            fixed.pyfunc = snapshot(fixed.pyfunc)
        options = blocks.own_options()
        given = replace(self._given, f=fixed)  # the function goes once, as it is now
        task = OnBlocks(fixed, given, self._how, self.results, self._masked, self._ndim, options)
        name = f"vectorized-{frontends.name_of(fixed.pyfunc).rpartition('.')[2].strip('<>')}"
        found = blocks.looped(task, self._operands, self._cores, self.results, name)
        parts = found
        if self._places is not None:
            parts = [self._places.placed(k, y) for k, y in enumerate(found)]
        return self._leaves.put_back(tuple(parts) if len(parts) > 1 else parts[0])

    def plan(self, call: Any) -> Plan:
        """The plan of `call` with these arguments."""
        from ...backends.dask import blocks

        found = self()
        outs = found if isinstance(found, tuple) else (found,)
        if not all(hasattr(y, "numblocks") for y in outs):  # a container
            outs = ()
        tasks = math.prod(outs[0].numblocks) if outs else 0
        like = self._operands[0]
        kernel = f"chunk by chunk when they are computed, each as a {blocks.kind(like)}"
        loops = [x.shape[: x.ndim - c] for x, c in zip(self._operands, self._cores, strict=True)]
        unknown = any(math.isnan(n) for loop in loops for n in loop)
        return Plan(
            name=frontends.name_of(self._vectorized.pyfunc),
            engine="dask",
            inputs=tuple(self._slices()),
            library="dask",
            device=blocks.device(like),
            kernels=(f"{kernel}: {tasks}" if tasks else kernel, *self.kernels),
            shapes=tuple(self._shapes),
            signature=self._vectorized.signature or "",
            count=None if unknown else math.prod(np.broadcast_shapes(*loops)),
            results=tuple(ShapeDtype(shape, dtype.name) for shape, dtype in self.results),
            out_shapes=tuple(tuple(y.shape) for y in outs) or None,
            _call=call,
        )


def _sizes(x: Any, core: CoreDims, k: int) -> tuple[int, ...]:
    """A shape with 1 for loop dims of unknown length, which goes with all others."""
    loop = x.ndim - len(core)
    for dim, n in zip(core, x.shape[max(0, loop) :], strict=False):  # too few: see `resolve`
        if math.isnan(n):
            raise InputError(
                f"how long argument {k} is along the core dim {dim.name!r} is unknown: call "
                "compute_chunk_sizes() of the dask array first"
            )
    return tuple(1 if math.isnan(n) else n for n in x.shape)


def _check_dims(k: int, core: CoreDims, shape: tuple[int, ...], signature: Signature) -> None:
    if len(core) != len(shape):
        raise ValueError(f"result {k} of f has the shape {shape}: the signature is {signature}")


class OnBlocks:
    """The task of corresponding blocks."""

    def __init__(
        self,
        vectorized: Any,
        given: LoopedCall,
        how: dict[str, Any],
        results: list[tuple[tuple[int, ...], np.dtype]],
        masked: bool,
        ndim: int,
        options: dict[str, Any],
    ) -> None:
        self._vectorized, self._given, self._how = vectorized, given, how
        self._results, self._masked, self._ndim = results, masked, ndim
        self._options = options

    def __dask_tokenize__(self) -> Any:
        from dask.base import normalize_token

        own, given = self._vectorized, self._given.arguments
        f = uuid.uuid4().hex if frontends.is_network(own.pyfunc) else own.pyfunc
        own_said = (own.signature, own.otypes, sorted(map(str, own.excluded)), own.cache)
        said = (*own_said, own._on_error, own._fill, given.args, given.kwargs)
        more = (self._how, self._results, self._masked, self._options)
        return normalize_token(("xpapply.vectorize", f, *said, *more))

    def __call__(self, more: Any, *blocks: Any) -> Any:
        """The results for all slices of some blocks."""
        how = dict(self._how)
        if self._masked:
            blocks, how["where"] = blocks[:-1], blocks[-1]
        loop = np.broadcast_shapes(*self._loops(blocks, how))
        like = blocks[0]
        if 0 in loop:
            xp = arrays.compat(like)
            made = [xp.empty((*loop, *shape), dtype=dtype) for shape, dtype in self._results]
            return tuple(made) if len(made) > 1 else made[0]
        call = replace(self._given, f=partial(self._vectorized, **how))
        try:
            with config.options(**self._options):
                found = as_tuple(Leaves(len(self._results)).of(call(*blocks)))
        except Exception as error:
            add_note(error, "the arguments are blocks of dask arrays")
            raise
        if len(found) != len(self._results):
            raise ValueError(f"f returned {len(found)} results: expected {len(self._results)}")
        several = zip(found, self._results, strict=True)
        made = [self._checked(k, y, loop, *want) for k, (y, want) in enumerate(several)]
        return tuple(made) if len(made) > 1 else made[0]

    def _loops(self, blocks: Sequence[Any], how: dict[str, Any]) -> list[tuple[int, ...]]:
        inputs = self._vectorized._core
        if inputs is None:
            found = [x.shape for x in blocks]
        else:
            signature = inputs.of_arrays([x.ndim for x in blocks])
            cores = [*map(len, signature.inputs)]
            found = [x.shape[: x.ndim - c] for x, c in zip(blocks, cores, strict=True)]
        return [*found, *([how["where"].shape] if self._masked else [])]

    def _checked(
        self, k: int, y: Any, loop: tuple[int, ...], shape: tuple[int, ...], dtype: np.dtype
    ) -> Any:
        """A result in the shape and dtype that the array of dask has."""
        if y.dtype.kind in "US" and y.dtype != dtype:
            if y.dtype.itemsize > dtype.itemsize or y.dtype.kind != dtype.kind:
                raise ValueError(
                    f"result {k} has texts longer than the first one, {dtype}: give otypes='O'"
                )
        if tuple(y.shape) != (*loop, *shape):
            raise ValueError(
                f"result {k} of f has the shape {tuple(y.shape)[len(loop) :]}, where {shape} was "
                "expected: it must be one shape"
            )
        y = y if hasattr(y, "ndim") and arrays.library(y) != "numpy" else np.asanyarray(y)
        return y if y.dtype == dtype else y.astype(dtype)
