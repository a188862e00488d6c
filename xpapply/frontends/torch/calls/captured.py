"""A batch of a module as a CUDA graph: one launch for all that its layers launch.

A small batch waits for the host, which launches one layer after the other. A graph has written
down what they launch, on memory that stays: the array is copied in, and the results out.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import torch

from .... import arrays
from ..autocast import autocast_dtypes


def can_capture() -> bool:
    """Whether torch's current state has no influence that a CUDA graph would miss."""
    return not autocast_dtypes()


def _precision() -> tuple[Any, ...]:
    """The settings that choose torch's kernels, which a graph has fixed."""
    cuda, cudnn = torch.backends.cuda, torch.backends.cudnn
    return (
        cuda.matmul.allow_tf32,
        cuda.matmul.allow_fp16_reduced_precision_reduction,
        cudnn.allow_tf32,
        cudnn.enabled,
        torch.are_deterministic_algorithms_enabled(),
    )


class Captured:
    """``captured(arr)``: the results ``(B, *result)`` for arrays that lie like one; or None.

    None where another stream, another device or other settings are at work now, or another thread.

    Parameters
    ----------
    run : callable
        What is captured: from a tensor of `shape` to the results.
    arr : array
        A CuPy array or CUDA tensor.
    axes : tuple of int or None
        Its axes in the order of `shape`; None: they have it.
    shape : tuple of int
        The shape of the tensor.

    Raises
    ------
    RuntimeError
        For what cannot be captured: that waits for the device, or copies from the host.
    """

    def __init__(
        self,
        run: Callable[[torch.Tensor], torch.Tensor],
        arr: Any,
        axes: tuple[int, ...] | None,
        shape: tuple[int, ...],
    ) -> None:
        self._axes, self._lock = axes, threading.Lock()
        self._settings = _precision()
        self._of_cupy = arrays.library(arr) == "cupy"
        # as a tensor, and as an array of its own library
        self._device = int(arr.device.id if self._of_cupy else arr.device.index)
        dtype = torch.utils.dlpack.from_dlpack(arr).dtype if self._of_cupy else arr.dtype
        given = torch.zeros(shape, dtype=dtype, device=f"cuda:{self._device}")
        now = torch.cuda.current_stream(self._device)
        self._stream = now.cuda_stream
        cuda: Any = torch.cuda
        side = cuda.Stream(self._device)
        side.wait_stream(now)
        with torch.cuda.stream(side):
            for _ in range(2):  # libraries choose their kernels, and make their workspaces
                run(given)
        now.wait_stream(side)
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph, stream=side, capture_error_mode="thread_local"):
            found = run(given)
        self._memory = given, found
        if self._of_cupy:
            import cupy

            self._views: Any = cupy.from_dlpack(given), cupy.from_dlpack(found)
        else:
            self._views = self._memory

    def __call__(self, arr: Any) -> Any:
        """Copy in, launch, copy out."""
        if torch.cuda.current_device() != self._device or _precision() != self._settings:
            return None
        if torch.cuda.current_stream(self._device).cuda_stream != self._stream:
            return None
        x = arr if self._axes is None else arrays.permute(arr, self._axes)
        if not self._lock.acquire(blocking=False):
            return None
        try:
            given, found = self._views
            if self._of_cupy:
                return self._through_cupy(given, x, found)
            given.copy_(x)
            self._graph.replay()
            return found.clone(memory_format=torch.contiguous_format)
        finally:
            self._lock.release()

    def _through_cupy(self, given: Any, x: Any, found: Any) -> Any:
        import cupy

        if cupy.cuda.get_current_stream().ptr != self._stream:
            return None
        if cupy.cuda.runtime.getDevice() != self._device:
            return None
        cupy.copyto(given, x)
        self._graph.replay()
        return found.copy()
