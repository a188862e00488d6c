"""Functions of the slices of arrays in files: block by block, read and written beside computing.

What a block gives is what `xpapply.apply_along_axis` gives for it, so that engines, errors and
warnings are those of arrays in memory. So is what results are like: the graph of a function tells,
or its result for the first slice.
"""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from ... import arrays, config, frontends
from ...arrays import as_tuple, masked
from ...arrays.outputs import how_to_open
from ...backends import choice
from ...errors import InputError, UnsupportedError, add_note, warn
from ...functions import identity
from ...ir.graph import ShapeDtype
from ...limits import LIMITS
from ...loop import reference
from ...loop.vectorize import not_parameters
from ...runtime import progress
from ...storage import blocks, check, in_file, is_stored, stores, stream
from ...storage.journal import Journal
from ..application import Application
from ..plan import Plan
from . import block_results
from .on_block import OnBlock


def own_out(f: Any, kwargs: dict) -> tuple[dict, Any]:
    """The keywords of `f`, and what gets the results.

    ``out=`` belongs to `f` if that has such a parameter, as `numpy.median` has, but for what lies
    in a file: no function of a slice gets that.
    """
    out = kwargs.get("out")
    if out is None or not (in_file(out) or not_parameters(f, ("out",))):
        return kwargs, None
    return {k: x for k, x in kwargs.items() if k != "out"}, out


def applies(arr: Any, out: Any) -> bool:
    """Whether the array is read, or results are written, block by block."""
    check(arr, "arr")
    check(out, "out")
    library, stored = arrays.library(arr), is_stored(arr)
    into_file = out is not None and _is_target(out)
    if into_file and library not in (None, "numpy"):
        other = "dask.array.store, or its to_zarr" if library == "dask" else "an array of NumPy"
        raise InputError(f"out is in a file, arr {arrays.describe(arr)}: use {other}")
    device = bool(config.current().device) and library in (None, "numpy")
    if stored or device:
        if not (out is None or into_file or isinstance(out, np.ndarray)):
            check_in_memory(arr, out)  # raises
        return out is not None or device or stores.store(arr).nbytes() > LIMITS.streamed_from
    return into_file or (isinstance(out, np.ndarray) and in_file(arr))


def whole(arr: Any) -> Any:
    """An array in a file as one in memory; any other array as it is."""
    if not is_stored(arr):
        return arr
    return stores.store(arr).read(tuple(slice(0, n) for n in arr.shape))


def check_in_memory(arr: Any, out: Any) -> None:
    """Refuse what cannot take results, before they are computed."""
    like = arr if arrays.library(arr) is not None else np.empty(0)
    if arrays.library(out) is None:
        raise TypeError(f"out must be an array: found {type(out).__name__}{how_to_open(out)}")
    if arrays.library(out) != arrays.library(like) or arrays.library(out) in ("jax", "dask"):
        raise TypeError(
            f"out is {arrays.describe(out)}, arr {arrays.describe(arr)}: give an array of "
            f"{'NumPy' if like is not arr else 'the same library'}, which can be written to"
        )
    if isinstance(out, np.ndarray) and not out.flags.writeable:
        raise InputError(f"out is {arrays.describe(out)}: it is read-only")


def _is_target(out: Any) -> bool:
    """Whether results are written to `out` block by block."""
    if in_file(out):
        return True
    has = all(hasattr(out, name) for name in ("shape", "dtype", "__setitem__"))
    return has and arrays.library(out) is None


def plan(app: Application, out: Any) -> Plan:
    """Decide how a function is applied block by block.

    `out` gets the results; None: an array in memory
    does. The keywords ``dtype`` and ``shape`` say what a result is, as for dask arrays.
    """
    f, arr, axes = app.f, app.arr, app.axes
    for x, name in ((arr, "arr"), (out, "out")):
        if masked.is_masked(x):
            raise InputError(f"{name} is a masked array, and blocks have no mask: use {name}.data")
    frontend = frontends.find(f)
    choice.check_name(config.current().engine, frontend.ways)
    source = stores.store(arr)
    shape = source.shape
    if 0 in [n for a, n in enumerate(shape) if a not in axes]:
        raise ValueError(reference.EMPTY)
    one = tuple(slice(None) if a in axes else slice(0, 1) for a in range(len(shape)))
    first = source.read(_all(one, shape))  # its dtype need not be that of the file
    slice_ = ShapeDtype(tuple(shape[a] for a in axes), arrays.dtype_name(first))
    transfers = _transfers(config.current().device)
    library = "numpy" if transfers is None else "cupy"
    threads = 1 if transfers is None else transfers.threads
    start = (lambda: first) if transfers is None else (lambda: transfers.now(first))
    with config.options(progress=False, device=""):
        found = block_results.decide(app, slice_, start, library)
    slices = blocks.SlicesInBlocks(shape, axes, reference.first_place(axes), found.shape)
    each = first.nbytes + math.prod(found.shape) * found.dtype.itemsize
    if out is None:
        target = stores.store(np.empty(slices.out_shape, found.dtype))
    else:
        target = stores.store(out)
        _check(target, slices.out_shape, found.dtype)
        if stores.overlap(source, target):
            raise InputError(
                f"out is where arr is, {target.describe()}: a run that is interrupted would leave "
                "neither. Write to another array"
            )
    cut = blocks.cut(slices, source, target, each, stream.at_a_time(threads))
    now = config.current()
    options = {name: getattr(now, name) for name in now.__slots__}
    options |= {"progress": False, "device": "", "memory": 0, "resume": False}
    more, result = (app.args, found.kwargs), (found.shape, found.dtype)
    runs = block_results.Smaller(f)
    task = OnBlock(runs, app.axis, more, result, found.first, options, source.describe())
    streamed = _Streamed(f, task, source, target, cut, out, transfers)
    told = f"the first slice says what results are: {found.why}"
    return app.plan(
        "stream",
        inputs=(slice_,),
        library="numpy",
        device=config.current().device or "cpu",
        reasons=() if found.first is None else (told,),
        kernels=(streamed.said(),),
        graph=found.graph,
        results=(ShapeDtype(found.shape, found.dtype.name),),
        shapes=(shape,),
        _call=streamed,
    )


def _transfers(device: str) -> Any:
    """Transfers of blocks to a device and back; None: computed on the host."""
    if not device:
        return None
    try:
        from ...backends.cupy import transfers
    except ImportError as error:
        raise InputError(
            f"device={device!r} needs CuPy: pip install xpapply[cuda13x], or [cuda12x] ({error})"
        ) from None
    return transfers.open_device(device)


def _all(block: Any, shape: tuple[int, ...]) -> tuple[slice, ...]:
    """A block with its ends, which not every library does without."""
    return tuple(slice(*s.indices(n)[:2]) for s, n in zip(block, shape, strict=True))


def _check(target: stores.Store, shape: tuple[int, ...], dtype: np.dtype) -> None:
    """Refuse what cannot take the results, before anything is written."""
    why = target.why_read_only()
    if why:
        raise InputError(f"out is {target.describe()}: {why}")
    if target.shape != shape:
        raise InputError(f"out is {target.describe()}, the result has the shape {shape}")
    if not np.can_cast(dtype, target.dtype, "same_kind"):
        raise TypeError(
            f"out of dtype {target.dtype} cannot hold results of dtype {dtype}: give it that dtype"
        )


@dataclass(eq=False)
class _Streamed:
    """The call of a plan."""

    f: Any
    task: OnBlock
    source: stores.Store
    target: stores.Store
    cut: blocks.Cut
    out: Any
    transfers: Any

    def said(self) -> str:
        """A description of the run."""
        cut = self.cut
        reads = f", each chunk read {cut.reads:.2g} times" if cut.reads > 1.05 else ""
        beside = "read and written beside computing"
        if self.transfers is not None:
            beside = f"copied to CUDA device {self.transfers.number} and back beside computing"
        return (
            f"in {len(cut):,} blocks of {cut.lengths}, {cut.nbytes / 1e6:.3g} MB with their "
            f"results, {beside}{reads}"
        )

    def __call__(self, arr: Any, axis: Any) -> Any:
        if not (arr is self.source or arr is self.source.x) or axis != self.task.axis:
            raise InputError("this plan is for one array in a file, and for its axis")
        self._warn()
        resume = config.current().resume
        if resume and not in_file(self.target.x):
            raise InputError(
                "resume=True: there is no out= in a file, so that nothing is left of an earlier "
                "run. Give out=, a memmap or an array of zarr or h5py"
            )
        journal = self._journal(resume)
        cut = self.cut
        if journal is not None and journal.done:
            cut = blocks.Cut(cut.slices, cut.order, tuple(journal.blocks), cut.nbytes, cut.reads)
            journal.done = self._readable(cut, journal.done)
        else:
            self.target.check_room()
        work = (_Stages if self.transfers is None else _StagesOnDevice)(self, journal)
        left = [k for k in range(len(cut)) if journal is None or k not in journal.done]
        skip = set(range(len(cut))).difference(left)
        todo = ((k, block) for k, block in enumerate(cut) if k not in skip)
        finished = False
        try:
            if journal is not None:
                journal.begin()
            with progress.shown(len(cut), "blocks") as bar:
                if bar is not None:
                    bar.step(len(skip))
                stream.through(work, todo, (lambda: None) if bar is None else (lambda: bar.step(1)))
            self.target.flush()
            finished = True
        except BaseException as error:
            self._note(error, journal, len(cut))
            raise
        finally:
            if journal is not None:
                journal.close(finished)
        return self.target.x

    def _readable(self, cut: blocks.Cut, done: set[int]) -> set[int]:
        """Finished blocks that can still be read: files may have been truncated."""
        of_result = cut.slices.of_result
        return {
            k for k, block in enumerate(cut) if k in done and self.target.can_read(of_result(block))
        }

    def _warn(self) -> None:
        if self.cut.reads >= LIMITS.streamed_reads:
            warn(
                f"chunks of {self.source.describe()} are {self.source.read_unit}, and blocks of "
                f"{self.cut.lengths} do not fit them: each is read {self.cut.reads:.2g} times. "
                "Allow more memory, options(memory=...), or give out chunks that fit",
                RuntimeWarning,
            )

    def _journal(self, resume: bool) -> Journal | None:
        """The journal of finished blocks, where results go to a file."""
        if not in_file(self.target.x):
            return None
        args, kwargs = self.task.more
        function, why = None, ""
        if self.target.path is not None:
            try:
                function = identity.of(self.f, args, kwargs)
            except UnsupportedError as error:
                why = str(error)
        about = {
            "function": function,
            "arr": self.source.layout(),
            "axis": list(as_tuple(self.task.axis)),
            "out": self.target.layout(),
            "blocks": list(self.cut.lengths),
            "why": why,
        }
        return Journal(self.target, about, resume)

    def _note(self, error: BaseException, journal: Journal | None, count: int) -> None:
        """Say what there is of the result."""
        if journal is None:
            return
        text = f"out has {len(journal.done):,} of {count:,} blocks"
        if journal.path is not None:
            text += f", which {journal.path} lists: options(resume=True) computes the others"
        with suppress(AttributeError):
            add_note(error, text)


class _Stages:
    """Stages of each block: read, compute, write."""

    threads = 1

    def __init__(self, call: _Streamed, journal: Journal | None) -> None:
        self._call, self._journal = call, journal

    def read(self, block: stores.Block) -> Any:
        """Bring a block here."""
        self._call.source.ahead(block)
        return self._call.source.read(block)

    def compute(self, block: stores.Block, x: Any) -> Any:
        """The results of a block."""
        y = self._on(block, x)
        self._call.source.release(block)
        return y

    def _on(self, block: stores.Block, x: Any) -> Any:
        try:
            return self._call.task(None, x)
        except Exception as error:
            at = ", ".join(f"{s.start}:{s.stop}" for s in block)
            add_note(error, f"the block is arr[{at}]")
            raise

    def write(self, index: int, block: stores.Block, y: Any) -> None:
        """Put the results of a block where they belong."""
        place, target = self._call.cut.slices.of_result(block), self._call.target
        target.write(place, y)
        target.release(place)
        if self._journal is not None:
            target.flush()
            self._journal.note(index)


class _StagesOnDevice(_Stages):
    """The same stages with copies to a device and back."""

    def __init__(self, call: _Streamed, journal: Journal | None) -> None:
        super().__init__(call, journal)
        self._transfers = call.transfers
        self.threads = self._transfers.threads

    def read(self, block: stores.Block) -> Any:
        """Begin to copy a block to the device."""
        sent = self._transfers.send(super().read(block))
        self._call.source.release(block)
        return sent

    def compute(self, block: stores.Block, x: Any) -> Any:
        """The results of a block, as soon as it is there."""
        return self._transfers.compute(lambda sent: self._on(block, sent), x)

    def write(self, index: int, block: stores.Block, y: Any) -> None:
        """Put the results of a block where they belong, as soon as they are there."""
        super().write(index, block, self._transfers.fetch(y))
