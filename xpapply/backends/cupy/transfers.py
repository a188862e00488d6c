"""Blocks of host arrays on a device and back, by copies that run beside kernels.

Only memory that is pinned is copied without the host's help, so that a block goes through a buffer
of such memory, which is what further threads of the host are for. Nothing waits but who writes
results: an event says when a block is there, and another one when its results are.
"""

from __future__ import annotations

import threading
from typing import Any, NamedTuple

import cupy
import numpy as np

from ...config import cpus
from ...errors import InputError
from ...limits import LIMITS


class Sent(NamedTuple):
    """An array on its way to the device, and what has to live until it is there."""

    x: Any
    there: Any
    buffer: Any


class Computed(NamedTuple):
    """Results that the device may still be at, and what it reads."""

    y: Any
    there: Any
    sent: Sent


class Transfers:
    """Transfers to a device and back.

    Parameters
    ----------
    number : int
        Which device.
    """

    def __init__(self, number: int) -> None:
        self.number, self.threads = number, max(1, min(LIMITS.transfer_threads, cpus() // 2))
        self._local = threading.local()

    def _stream(self) -> Any:
        """The stream of this thread: the copies of several threads run side by side."""
        found = getattr(self._local, "stream", None)
        if found is None:
            found = self._local.stream = cupy.cuda.Stream(non_blocking=True)
        return found

    def send(self, x: np.ndarray) -> Sent:
        """Begin to copy an array there."""
        with cupy.cuda.Device(self.number):
            stream = self._stream()
            dtype = x.dtype.newbyteorder("=")
            buffer = _pinned(x.shape, dtype)
            np.copyto(buffer, x)
            with stream:
                there = cupy.empty(x.shape, dtype)
                there.set(buffer, stream=stream)
                return Sent(there, stream.record(), buffer)

    def now(self, x: np.ndarray) -> Any:
        """The array there, for who goes on with it on the current stream."""
        with cupy.cuda.Device(self.number):
            return cupy.asarray(x)

    def compute(self, run: Any, sent: Sent) -> Computed:
        """Results on the current stream, as soon as the array is there."""
        with cupy.cuda.Device(self.number):
            stream = cupy.cuda.get_current_stream()
            stream.wait_event(sent.there)
            y = cupy.ascontiguousarray(run(sent.x))
            return Computed(y, stream.record(), sent)

    def fetch(self, computed: Computed) -> np.ndarray:
        """The results on the host; they stay until this thread fetches the next ones."""
        with cupy.cuda.Device(self.number):
            stream, y = self._stream(), computed.y
            buffer = _pinned(y.shape, y.dtype)
            stream.wait_event(computed.there)
            y.get(stream=stream, out=buffer)
            stream.synchronize()
            return buffer


def open_device(name: str) -> Transfers:
    """Copies to and from the device of ``options(device=...)``."""
    number = int(name.partition(":")[2] or 0)
    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        raise InputError(f"device={name!r}: CUDA finds no device here ({error})") from None
    if number >= count:
        there = f"are {count} devices, 'cuda:0' is the first" if count > 1 else "is one, 'cuda:0'"
        raise InputError(f"device={name!r}: there {there}")
    return Transfers(number)


def _pinned(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """An array in memory that the device can read and write by itself, from CuPy's pool."""
    count = int(np.prod(shape, dtype=object))
    memory = cupy.cuda.alloc_pinned_memory(max(1, count * dtype.itemsize))
    return np.frombuffer(memory, dtype, count).reshape(shape)
