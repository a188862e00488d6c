"""Noticing that a module has changed since it was lifted, in a few microseconds."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import nn

_COMPARED_BYTES = 1 << 20


class Watch:
    """``unchanged()``: whether modules and tensors are as they were.

    Tensors are held, so no address or identity can come to name another one.
    Small tensors on the CPU are compared by their bytes too: ``t.data.mul_(2)``
    and writes through a NumPy view do not count as a new version in torch.
    """

    def __init__(
        self, modules: list[nn.Module], tensors: list[torch.Tensor], others: list[Any]
    ) -> None:
        self._modules = [weakref.ref(m) for m in modules]
        self._classes = [type(m) for m in modules]
        self._tensors = [(t, *_state(t)) for t in tensors]
        # lists of dicts compare in C, by identity of the values first; most are empty
        dicts = [d for m in modules for d in _dicts(m)]
        self._empty = [d for d in dicts if not d]
        self._dicts = [d for d in dicts if d]
        self._contents = [dict(d) for d in self._dicts]
        small = _small(tensors)
        self._bytes = _together([t for t in small if t.is_contiguous()])
        self._readers = [_reader(t) for t in small if not t.is_contiguous()]
        self._read = [read() for read in self._readers]
        inside = [v for m in modules for k, v in m.__dict__.items() if k not in _STANDARD]
        inside += others
        # what may change inside without being replaced
        self._inside = [(v, _picture(v)) for v in inside if _is_mutable(v)]

    def __call__(self) -> bool:
        """Whether nothing has changed."""
        # written out, for this is most of what a repeated call waits for
        for t, version, address, requires_grad, shape, strides in self._tensors:
            if (
                t._version != version
                or t.data_ptr() != address
                or t.requires_grad is not requires_grad
                or t.shape != shape
                or t.stride() != strides
            ):
                return False
        try:
            if any(self._empty) or self._dicts != self._contents:
                return False
            for value, picture in self._inside:
                if _picture(value) != picture:
                    return False
        except (RuntimeError, ValueError):  # another tensor or array: == is not a truth value
            return False
        if [type(ref()) for ref in self._modules] != self._classes:
            return False
        if torch.nn.modules.module._has_any_global_hook():  # type: ignore[no-untyped-call]
            return False
        for memory, content in self._bytes:
            if b"".join(memory) != content:
                return False
        return [read() for read in self._readers] == self._read


_STANDARD = frozenset(nn.Module().__dict__)


def _state(t: torch.Tensor) -> tuple[Any, ...]:
    return t._version, t.data_ptr(), t.requires_grad, t.shape, t.stride()


def _small(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
    """Those on the CPU with few bytes, as tensors of their own on the same memory."""
    return [
        t.detach()
        for t in tensors
        if t.device.type == "cpu" and t.layout == torch.strided and t.nbytes <= _COMPARED_BYTES
    ]


def _together(tensors: list[torch.Tensor]) -> list[tuple[list[memoryview], bytes]]:
    """The memory of contiguous tensors, and its bytes now, in groups that are read at once."""
    groups: list[list[memoryview]] = []
    room = 0
    for t in tensors:
        if not groups or t.nbytes > room:
            groups.append([])
            room = _COMPARED_BYTES
        groups[-1].append(t.view(-1).view(torch.uint8).numpy().data)
        room -= t.nbytes
    return [(group, b"".join(group)) for group in groups]


def _reader(t: torch.Tensor) -> Callable[[], bytes]:
    """How to read the bytes of any tensor on the CPU."""
    return (t.view(torch.int16) if t.dtype == torch.bfloat16 else t).numpy().tobytes


def _is_mutable(value: Any) -> bool:
    plain = (bool, int, float, complex, str, bytes, type(None), type, torch.Tensor, nn.Module)
    return not isinstance(value, (*plain, torch.dtype, torch.device)) and not callable(value)


def _picture(value: Any, depth: int = 3) -> Any:
    """A value that compares equal while nothing inside has changed."""
    if isinstance(value, np.ndarray):
        return value.shape, value.dtype.str, value.tobytes()
    if depth == 0 or not _is_mutable(value):
        return value if isinstance(value, (int, float, complex, str, bytes)) else id(value)
    if isinstance(value, dict):
        return tuple((k, _picture(v, depth - 1)) for k, v in value.items())
    if isinstance(value, (list, tuple, set, frozenset)):
        return type(value), tuple(_picture(v, depth - 1) for v in value)
    inside = getattr(value, "__dict__", None)
    return id(value), None if inside is None else _picture(inside, depth - 1)


def _dicts(m: nn.Module) -> list[dict[str, Any]]:
    """Where a module keeps what its forward can see."""
    found = [m.__dict__, m._parameters, m._buffers, m._modules]
    return [*found, m._forward_hooks, m._forward_pre_hooks]  # type: ignore[list-item]
