"""Models without a graph: onnxruntime runs them, on blocks of slices."""

from __future__ import annotations

import functools
import importlib.util
import math
import os
from typing import Any

import numpy as np

from ... import arrays, config
from ...arrays.layout import boxes
from ...errors import InputError, TraceError
from ...frontends import AllAtOnce
from ...functions import samples
from ...ir.graph import Graph, ShapeDtype
from ...limits import LIMITS

ENGINE = "onnx.batch"
INSTALL = "pip install onnxruntime runs it"


def is_there() -> bool:
    """Whether onnxruntime is installed."""
    try:
        return importlib.util.find_spec("onnxruntime") is not None
    except ValueError:  # a module without a spec stands in its place
        return True


class Session:
    """A model that onnxruntime runs on batches of slices, on the CPU."""

    def __init__(self, data: bytes, dtype: str) -> None:
        self._data, self.dtype = data, dtype
        self._known: dict[tuple[int, int], Any] = {}

    def __call__(self, batch: np.ndarray) -> np.ndarray:
        """The results for a batch, as an array.

        Raises
        ------
        InputError
            What onnxruntime says of the model, or of the batch.
        """
        session = self._session()
        if self.dtype == "bfloat16":
            raise InputError("onnxruntime takes no arrays of bfloat16")
        x = np.ascontiguousarray(batch, self.dtype)
        name = session.get_inputs()[0].name
        try:
            (found,) = session.run(None, {name: x})
        except Exception as error:
            raise InputError(f"onnxruntime: {_short(error)}") from None
        if not isinstance(found, np.ndarray) or found.dtype.kind not in "biuf":
            raise InputError("onnxruntime gives no array of numbers")
        return found

    def _session(self) -> Any:
        threads = config.current().thread_count()
        key = (os.getpid(), threads)  # threads do not live on in a process that was forked
        found = self._known.get(key)
        if found is None:
            import onnxruntime

            asked = onnxruntime.SessionOptions()
            asked.intra_op_num_threads = threads
            asked.log_severity_level = 4  # what goes wrong is raised
            # threads that go on spinning would take the cores from what runs next
            asked.add_session_config_entry("session.intra_op.allow_spinning", "0")
            try:
                found = onnxruntime.InferenceSession(
                    self._data, asked, providers=["CPUExecutionProvider"]
                )
            except Exception as error:
                raise InputError(f"onnxruntime cannot load it: {_short(error)}") from None
            self._known = {key: found}
        return found

    def __reduce__(self) -> Any:
        return Session, (self._data, self.dtype)


def _short(error: Exception) -> str:
    return str(error).strip().partition("\n")[0][:300]


def on_all(
    session: Session, shape: tuple[int, ...], axis: int, arr: Any, graph: Graph | None
) -> AllAtOnce:
    """The model on all slices along an axis, which it takes in a shape; `graph`: if it has one.

    Raises
    ------
    TraceError
        Where the result for a slice is not the same beside others.
    """
    together = _tried(session, shape, axis, arr)
    block = _block(session, shape, graph)
    what = f"onnxruntime on blocks of up to {block:,} slices"
    if arrays.library(arr) != "numpy":
        what += ", on a copy on the host"
    run = functools.partial(_along, session, shape, block)
    return AllAtOnce(ENGINE, (what,), run, ShapeDtype(together.shape[1:], together.dtype.name))


def _block(session: Session, shape: tuple[int, ...], graph: Graph | None) -> int:
    """The number of slices per call."""
    if graph is None:  # what is inside is not known
        largest = 4 * ShapeDtype(shape, session.dtype).nbytes
    else:  # windows are brought together a few at a time
        which = zip(graph.nodes, graph.dependent(), strict=True)
        largest = max(n.aval.nbytes for n, of_slice in which if of_slice and n.op != "windows")
    count = max(LIMITS.onnx_fewest, min(LIMITS.onnx_most, LIMITS.onnx_block // max(1, largest)))
    return max(1, min(count, LIMITS.onnx_memory // max(1, largest)))


def _tried(session: Session, shape: tuple[int, ...], axis: int, arr: Any) -> np.ndarray:
    """The results for some slices: each must be what the slice gives alone."""
    some = [arrays.on_host(v).reshape(shape) for v in samples.ends(axis, arr)]
    try:
        alone = [one_slice(session, v) for v in some]
    except InputError:
        raise
    other = some[0].ravel()[::-1].reshape(shape)  # of numbers that the array may have
    try:
        alone.append(one_slice(session, other))
        some.append(other)
    except InputError:
        pass
    try:
        together = session(np.stack(some))
    except InputError as error:
        raise TraceError(f"a batch of {len(some)} slices does not run: {error}") from None
    shapes = {together.shape[1:], *(y.shape for y in alone)}
    if together.shape[:1] != (len(some),) or len(shapes) > 1:
        raise TraceError(f"it gives the shape {together.shape} for {len(some)} slices")
    if not samples.alike(np.stack(alone), together):
        raise TraceError("the result for a slice depends on those beside it")
    return together


def one_slice(session: Session, v: np.ndarray) -> np.ndarray:
    """The result for one slice."""
    found = session(v[None])
    if found.shape[:1] != (1,):
        raise InputError(f"the output for one slice has the shape {found.shape}, not (1, ...)")
    return np.asarray(found[0, ...])


def _along(session: Session, shape: tuple[int, ...], block: int, arr: Any, axis: int) -> Any:
    """All slices of an array."""
    x = arrays.on_host(arr)
    rows = np.moveaxis(x, axis, -1)
    batch, out = rows.shape[:-1], None
    for box in boxes(rows.shape, len(batch), block):
        some = rows[box]
        own = some.shape[:-1]
        y = session(some.reshape(math.prod(own), *shape))
        if out is None:
            out = np.empty((*batch, *y.shape[1:]), y.dtype)
        out[box[:-1]] = y.reshape((*own, *y.shape[1:]))
    assert out is not None
    core = range(len(batch), out.ndim)
    y = np.moveaxis(out, core, range(axis, axis + len(core)))
    return y if isinstance(arr, np.ndarray) else arrays.asarray(y, arr)
