"""CuPy and torch on one stream of a device: neither waits for the other, nor overtakes it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any


def shared(library: str | None) -> AbstractContextManager[Any]:
    """CuPy's current stream for torch too, where slices are CuPy's and `f` may call torch."""
    torch = sys.modules.get("torch")
    if library != "cupy" or torch is None or torch.version.cuda is None:
        return nullcontext()
    import cupy

    own = 0  # both begin with the default stream
    if torch.cuda.is_initialized():
        own = torch.cuda.current_stream(cupy.cuda.runtime.getDevice()).cuda_stream
    return nullcontext() if cupy.cuda.get_current_stream().ptr == own else of_cupy()


def of_cupy(device: int | None = None) -> AbstractContextManager[Any]:
    """Make CuPy's current stream torch's, so that work stays in order without a synchronization."""
    import cupy
    import torch

    current = cupy.cuda.runtime.getDevice()
    number = current if device is None else device
    cuda: Any = torch.cuda
    if current == number and cuda.is_initialized() and cuda.current_device() == number:
        # most often there is nothing to switch
        if cuda.current_stream(number).cuda_stream == cupy.cuda.get_current_stream().ptr:
            return nullcontext()
    return _switched(number)


@contextmanager
def _switched(number: int) -> Iterator[None]:
    import cupy
    import torch

    with cupy.cuda.Device(number):
        pointer = cupy.cuda.get_current_stream().ptr
        with torch.cuda.device(number):
            if torch.cuda.current_stream().cuda_stream == pointer:
                yield
                return
            external: Any = torch.cuda.ExternalStream
            stream: Any = torch.cuda.default_stream(number)
            if pointer > 1:  # 0 and 1 are the default stream
                stream = external(pointer, device=number)
            with torch.cuda.stream(stream):
                yield
