"""Repeated calls of a module on arrays of the same layout, in one batch, without checks.

A batch of a few slices takes some tens of microseconds. Finding out how it runs takes as long.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from .... import arrays, config
from ....arrays import streams
from ....errors import TraceError
from ....limits import LIMITS
from ....runtime import threads
from ..model import numpy_dtype
from .captured import Captured, can_capture
from .recorded import recorded


class RepeatedModule:
    """``repeated(arr)``: results for arrays of the same layout; None where checks are due.

    Parameters
    ----------
    run : callable
        The results ``(B, *result)`` of rows of slices ``(B, M)``, by one batch.
    arr : array
        One of the arrays.
    axes : tuple of int or None
        The axes of arrays in the order of rows: the slices' last. None: they have it.
    rows : tuple of int
        The shape of all rows.
    dtype : torch.dtype
        Of the slices that the module takes.
    outward : callable
        Puts the batch dims of results in the place of their own.
    alive : int
        Bytes that a call has alive.
    pure : bool
        `run` does nothing but what its tensors show, so that a CUDA graph, or a straight line
        of torch's operations, can stand for it.
    """

    def __init__(
        self,
        run: Callable[[torch.Tensor], torch.Tensor],
        arr: Any,
        axes: tuple[int, ...] | None,
        rows: tuple[int, int],
        dtype: torch.dtype,
        outward: Callable[[Any], Any],
        alive: int,
        pure: bool,
    ) -> None:
        self._run, self._axes, self._rows, self._outward = run, axes, rows, outward
        self._dtype, self._options = dtype, config.current()
        self.library = str(arrays.library(arr))
        self._call: Callable[[Any], Any] = getattr(self, f"_{self.library}")
        self._captured: Captured | None = None
        self._line: Callable[[torch.Tensor], torch.Tensor] | None = None
        self._left = (
            LIMITS.calls_before_capture if pure and self._may_be_captured(arr, alive) else -1
        )

    def _may_be_captured(self, arr: Any, alive: int) -> bool:
        if alive > LIMITS.captured:
            return False
        return self.library in ("numpy", "cupy") or (
            arr.device.type == "cuda" and not arr.requires_grad
        )

    def __call__(self, arr: Any) -> Any:
        """The results for all slices."""
        if config.current() is not self._options or threads.torch_is_lost:
            return None
        return self._call(arr)

    def _numpy(self, arr: np.ndarray) -> Any:
        flags = arr.flags
        if not (flags.writeable and flags.aligned):
            return None
        with torch.inference_mode():
            x = torch.from_numpy(arr)
            y = self._line(x) if self._line is not None else self._on_the_host(x)
            return self._outward(self._own(y, x)).numpy()

    def _on_the_host(self, x: torch.Tensor) -> torch.Tensor:
        if self._left > 0:
            self._left -= 1
            if self._left == 0:
                with contextlib.suppress(TraceError):
                    self._line = recorded(lambda x: self._run(self._as_rows(x)), x)
        return self._run(self._as_rows(x))

    def _torch(self, arr: torch.Tensor) -> Any:
        if self._left >= 0:
            found = self._by_graph(arr)
            if found is not None:
                return self._outward(found)
        y = self._run(self._as_rows(arr))
        return self._outward(y if y.requires_grad else self._own(y, arr))

    def _cupy(self, arr: Any) -> Any:
        if self._left >= 0:
            found = self._by_graph(arr)
            if found is not None:
                return self._outward(found)
        import cupy

        with streams.of_cupy(arr.device.id), torch.inference_mode():
            x = torch.utils.dlpack.from_dlpack(arr)
            return cupy.from_dlpack(self._outward(self._own(self._run(self._as_rows(x)), x)))

    def _as_rows(self, x: torch.Tensor) -> torch.Tensor:
        return self._rows_of(x if self._axes is None else x.permute(self._axes))

    def _rows_of(self, x: torch.Tensor) -> torch.Tensor:
        if x.ndim != 2:
            x = x.reshape(self._rows)
        return x if x.dtype == self._dtype else x.to(self._dtype)

    def _own(self, y: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        """The result in memory of its own."""
        if self.library != "torch":
            y = numpy_dtype(y)
        return y if may_be_given(y, x) else y.clone(memory_format=torch.contiguous_format)

    # --- CUDA graphs ----------------------------------------------------------------------

    def _by_graph(self, arr: Any) -> Any:
        """The results ``(B, *result)`` by a CUDA graph, or None where there is none for this call.

        After some calls it is made, of the device's work in one of them.
        """
        if self._captured is not None:
            return self._captured(arr)
        self._left -= 1
        if self._left == 0:
            self._left = -1
            if can_capture():
                self._captured = self._capture(arr)
                self._left = 0 if self._captured is not None else -1
        return None

    def _capture(self, arr: Any) -> Captured | None:
        of_torch = self.library == "torch"
        shape = tuple(arr.shape if self._axes is None else (arr.shape[a] for a in self._axes))

        def run(x: torch.Tensor) -> torch.Tensor:
            y = self._run(self._rows_of(x))
            return y if of_torch else numpy_dtype(y)

        try:
            with torch.no_grad():
                return Captured(run, arr, self._axes, shape)
        except Exception:  # it cannot be captured, for whatever reason: it runs as before
            torch.cuda.synchronize()
            return None


def may_be_given(y: torch.Tensor, rows: torch.Tensor) -> bool:
    """Whether a result has memory of its own, enough to save a copy."""
    nbytes = y.nbytes
    if nbytes < LIMITS.given_away:
        return False
    return y.untyped_storage().nbytes() == nbytes and not shares(y, rows)


def shares(x: torch.Tensor, y: torch.Tensor) -> bool:
    """Whether tensors share memory."""
    return x.untyped_storage().data_ptr() == y.untyped_storage().data_ptr()
