"""Tasks for the blocks of dask's arrays, and what has to be true of the blocks first."""

from __future__ import annotations

import functools
import itertools
import math
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import dask
import dask.array as da
import numpy as np
from dask.array.utils import meta_from_array
from dask.base import is_dask_collection, normalize_token
from dask.delayed import delayed

from ... import arrays, config
from ...errors import InputError, warn
from ...ir.graph import Graph


def check(arr: Any) -> None:
    """Refuse arrays whose blocks nothing here runs on."""
    if hasattr(arr, "expr"):
        raise InputError(
            "this dask array is one of query planning, with which dask.array cannot do all yet "
            "that is needed here. Set DASK_ARRAY__QUERY_PLANNING=False, or dask.config.set({"
            "'array.query-planning': False}) before dask.array is imported"
        )
    if arrays.library(arr._meta) not in ("numpy", "cupy"):
        kind = type(arr._meta)
        raise InputError(
            f"the blocks of this dask array are {kind.__module__}.{kind.__qualname__}, not arrays "
            "of NumPy or CuPy: make them such with arr.map_blocks(...) first"
        )


def token_of_graph(graph: Graph) -> Any:
    """The token of a graph for dask, with all constants.

    dask takes the text of what `__dask_tokenize__` gives, and that of a large array leaves out
    most of it.
    """
    return normalize_token((repr(graph), graph.consts))


def lazy(x: Any) -> Any:
    """`x` as an array of dask, in one chunk if it is none yet."""
    if arrays.library(x) != "dask":
        x = np.asanyarray(x) if arrays.library(x) is None else x
        x = da.from_array(x, chunks=-1, asarray=False)
    check(x)
    return x


def whole(arr: Any, axes: Sequence[int]) -> Any:
    """`arr` with one chunk along each of `axes`, which a slice needs; else as it is.

    That reads and copies all of it when it is computed, which ``options(rechunk=...)`` may want
    to be told of, or not to happen.
    """
    cut = [a for a in axes if arr.numblocks[a] > 1]
    if not cut:
        return arr
    how = config.current().rechunk
    if how == "raise":
        raise InputError(
            f"{_cut(cut)} consists of multiple chunks {tuple(arr.chunks[a] for a in cut)}. To fix, "
            f"rechunk into a single chunk along this dimension, arr.rechunk("
            f"{dict.fromkeys(cut, -1)}), or allow it by options(rechunk='silent'), but beware "
            "that this may increase memory usage significantly."
        )
    found = arr.rechunk(dict.fromkeys(cut, -1))
    # below the size that dask itself gives a chunk there is next to nothing to tell of
    a_chunk = dask.utils.parse_bytes(dask.config.get("array.chunk-size"))
    most = max(a_chunk, _of_chunk(arr))
    if _of_chunk(found) > most:  # cut elsewhere, for a chunk to fit where one did before
        elsewhere = {a: "auto" for a in range(arr.ndim) if a not in axes}
        found = arr.rechunk(dict.fromkeys(axes, -1) | elsewhere, block_size_limit=most)
    if how == "warn" and not arr.nbytes <= a_chunk:
        warn(
            f"{_cut(cut)} of a dask array consists of {_times(arr, cut)} chunks, and a slice needs "
            f"one: all {_size(arr.nbytes)} are copied to other chunks first, of up to "
            f"{_size(_of_chunk(found))} each. Store or read the "
            "array with one chunk there if you can; options(rechunk='silent') hides this "
            "warning, options(rechunk='raise') refuses.",
            da.PerformanceWarning,
        )
    return found


def _of_chunk(arr: Any) -> float:
    """The bytes of its largest chunk."""
    return math.prod(arr.chunksize) * arr.dtype.itemsize


def _cut(axes: Sequence[int]) -> str:
    return f"axis {axes[0]}" if len(axes) == 1 else f"axes {', '.join(map(str, axes))}"


def _times(arr: Any, axes: Sequence[int]) -> str:
    return " x ".join(str(arr.numblocks[a]) for a in axes)


def _size(n: float) -> str:
    return "bytes, nobody knows how many," if math.isnan(n) else dask.utils.format_bytes(int(n))


def first_slice(arr: Any, axes: Sequence[int]) -> Any:
    """The first slice along `axes`, as an array with all dims of `arr`; None if there is none.

    No more than a block is computed, but for blocks that turn out to be empty.
    """
    batch = [a for a in range(arr.ndim) if a not in axes]
    one = tuple(slice(None) if a in axes else slice(0, 1) for a in range(arr.ndim))
    if not any(math.isnan(arr.shape[a]) for a in batch):
        return arr[one].compute()
    places = [[slice(None)] if a in axes else range(arr.numblocks[a]) for a in range(arr.ndim)]
    for at in itertools.product(*places):
        block = arr.blocks[at].compute()
        if all(block.shape[a] for a in batch):
            return block[one]
    return None


def mapped(
    task: Callable[..., Any],
    operands: Sequence[tuple[Any, Sequence[int]]],
    out: Sequence[int],
    sizes: Mapping[int, float],
    dtype: Any,
    name: str,
    more: Any = None,
    pieces: dict[int, int] | None = None,
    tuples: bool = False,
) -> Any:
    """An array whose blocks are ``task(more, *blocks)``.

    dask makes one task of this and of what makes its blocks, where the result has all dims of the
    operands: so those that it lacks stand for its own, if it has as many.

    Parameters
    ----------
    task : callable
        One object in the graph, which each process gets once.
    operands : sequence of (array, labels)
        The arrays, with a label for each of their dims.
    out : sequence of int
        The labels of the result's dims. Other labels must be of dims with one chunk.
    sizes : mapping
        The lengths of dims that no operand has; NaN where blocks will tell.
    dtype : numpy.dtype
        Of the result.
    name : str
        What the tasks are called.
    more : object
        Arguments that are computed whole where they hold arrays of dask; else tasks get None.
    pieces : dict of int, optional
        How long each block of the result is along some dims, which may have several chunks.
    tuples : bool, optional
        Whether blocks are tuples, of which `part` takes one.
    """
    given = [x for pair in operands for x in pair]
    lacking = [] if tuples else sorted({d for _, own in operands for d in own} - {*out})
    own = [d for d in out if d in sizes]
    instead = dict(zip(own, lacking, strict=False)) if len(own) >= len(lacking) else {}
    labels = tuple(instead.get(d, d) for d in out)
    lengths = {a: sizes[d] for d, a in instead.items()}
    lazy = any(map(is_dask_collection, _leaves(more)))
    return da.blockwise(
        _call,
        labels,
        delayed(task, pure=True),
        None,
        delayed(more) if lazy else None,
        None,
        *given,
        new_axes={d: n for d, n in sizes.items() if d not in instead},
        adjust_chunks={**(pieces or {}), **lengths},
        align_arrays=pieces is None,
        dtype=dtype,
        meta=_meta(operands[0][0], len(labels), dtype),
        token=name,
    )


def _meta(x: Any, ndim: int, dtype: Any) -> Any:
    """The meta of blocks for dask; real results of complex numbers lose nothing here."""
    like = x._meta
    if like.dtype.kind == "c" and np.dtype(dtype).kind != "c":
        like = like.real
    return meta_from_array(like, ndim=ndim, dtype=dtype)


def looped(
    task: Callable[..., Any],
    operands: Sequence[Any],
    cores: Sequence[int],
    results: Sequence[tuple[tuple[int, ...], Any]],
    name: str,
) -> list[Any]:
    """The results of a task for the slices of several arrays, which broadcast.

    Parameters
    ----------
    task : callable
        ``task(more, *blocks)`` returns the result, or a tuple of several.
    operands : sequence of array
        Arrays of dask, with one chunk along their core dims, which are the last.
    cores : sequence of int
        How many core dims each has.
    results : sequence of (shape, dtype)
        Of a slice.
    name : str
        What the tasks are called.
    """
    ndim = max(x.ndim - core for x, core in zip(operands, cores, strict=True))
    loop, labels, given = tuple(range(ndim)), ndim, []
    for x, core in zip(operands, cores, strict=True):
        given.append((x, [*loop[ndim - (x.ndim - core) :], *range(labels, labels + core)]))
        labels += core
    outs = [({labels + k: n for k, n in enumerate(shape)}, dtype) for shape, dtype in results]
    if len(outs) == 1:
        new, dtype = outs[0]
        return [mapped(task, given, (*loop, *new), new, dtype, name)]
    every = mapped(task, given, loop, {}, outs[0][1], name, tuples=True)
    return [part(every, k, new, dtype) for k, (new, dtype) in enumerate(outs)]


def part(every: Any, k: int, sizes: dict[int, int], dtype: Any) -> Any:
    """Result `k` of tasks that return several; `sizes`: of the dims that it has of its own."""
    labels = tuple(range(every.ndim))
    return da.blockwise(
        operator.itemgetter(k),
        (*labels, *sizes),
        every,
        labels,
        new_axes=sizes,
        dtype=dtype,
        meta=meta_from_array(every._meta, ndim=every.ndim + len(sizes), dtype=dtype),
        token=f"{every.name.rpartition('-')[0]}-{k}",
    )


def aligned(given: Sequence[tuple[Any, Sequence[int]]]) -> tuple[dict[int, Any], list[Any]]:
    """The chunks that dims have in common, by their labels, and the arrays cut so."""
    labels = [own for _, own in given]
    chunks, found = da.core.unify_chunks(*(x for pair in given for x in pair))
    return chunks, [*zip(found, labels, strict=True)]


def starts(chunks: Sequence[int]) -> Any:
    """The start of each chunk, one number per chunk."""
    found = np.concatenate([[0], np.cumsum(chunks)[:-1]]).astype(np.int64)
    return da.from_array(found, chunks=1)


def merged(task: Callable[..., Any], pieces: Any, axes: tuple[int, ...], name: str) -> Any:
    """The blocks of `pieces`, of length 1 along `axes`, as one there, by the branches of a tree.

    ``task(blocks)`` makes one of several, which may be anything.
    """
    merge = functools.partial(_merged, task)
    return da.reduction(
        pieces,
        chunk=_as_it_is,
        combine=merge,
        aggregate=merge,
        axis=axes,
        keepdims=True,
        concatenate=False,
        dtype=pieces.dtype,
        meta=pieces._meta,
        name=name,
    )


def _as_it_is(x: Any, axis: Any, keepdims: bool) -> Any:
    return x


def _merged(task: Callable[..., Any], parts: Any, axis: Any, keepdims: bool) -> Any:
    return task(_flat(parts))


def _flat(parts: Any) -> list[Any]:
    """Nested lists as one, in C order."""
    if not isinstance(parts, list):
        return [parts]
    return [x for part in parts for x in _flat(part)]


def _leaves(x: Any) -> Iterator[Any]:
    if isinstance(x, dict):
        x = tuple(x.values())
    if isinstance(x, (tuple, list)):
        for part in x:
            yield from _leaves(part)
    else:
        yield x


def _call(task: Callable[..., Any], more: Any, *blocks: Any) -> Any:
    return task(more, *map(_only, blocks))


def _only(block: Any) -> Any:
    """The one block along dims that the result has not: dask gives lists of them."""
    while isinstance(block, list):
        (block,) = block
    return block


def own_options() -> dict[str, Any]:
    """The options in force now, for tasks: dask has threads, and processes, of its own.

    Each of its threads runs a task, so that no task starts others unless it was asked for.
    """
    now = config.current()
    found = {name: getattr(now, name) for name in now.__slots__}
    engine = "" if now.engine == "dask" else now.engine
    return found | {"engine": engine, "threads": now.threads or 1, "workers": 1, "progress": False}


def kind(arr: Any) -> str:
    """A description of the blocks."""
    library = {"numpy": "NumPy", "cupy": "CuPy"}.get(str(arrays.library(arr._meta)), "")
    return f"{library} array"


def device(arr: Any) -> str:
    """The device of the blocks, in a word."""
    return "cpu" if arrays.library(arr._meta) == "numpy" else "cuda"
