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
        # dicts compare in C, by identity of the values first
        self._dicts = [(d, dict(d)) for m in modules for d in _dicts(m)]
        self._classes = [(weakref.ref(m), type(m)) for m in modules]
        self._tensors = [(t, _state(t)) for t in tensors]
        # a function that reads the bytes, and what it read
        readers = [r for t in tensors if (r := _reader(t)) is not None]
        self._bytes = [(read, read()) for read in readers]
        inside = [v for m in modules for k, v in m.__dict__.items() if k not in _STANDARD]
        inside += others
        # what may change inside without being replaced
        self._inside = [(v, _picture(v)) for v in inside if _is_mutable(v)]

    def __call__(self) -> bool:
        """Whether nothing has changed."""
        for t, state in self._tensors:
            if _state(t) != state:
                return False
        try:
            for now, then in self._dicts:
                if now != then:
                    return False
            for value, picture in self._inside:
                if _picture(value) != picture:
                    return False
        except (RuntimeError, ValueError):  # another tensor or array: == is not a truth value
            return False
        for ref, cls in self._classes:
            m = ref()
            if m is not None and type(m) is not cls:
                return False
        if torch.nn.modules.module._has_any_global_hook():  # type: ignore[no-untyped-call]
            return False
        return all(read() == content for read, content in self._bytes)


_STANDARD = frozenset(nn.Module().__dict__)


def _state(t: torch.Tensor) -> tuple[Any, ...]:
    return t._version, t.data_ptr(), t.requires_grad, t.shape, t.stride()


def _reader(t: torch.Tensor) -> Callable[[], bytes] | None:
    """How to read the bytes of a small tensor on the CPU."""
    if t.device.type != "cpu" or t.layout != torch.strided or t.nbytes > _COMPARED_BYTES:
        return None
    t = t.detach()
    if t.is_contiguous():
        return t.view(-1).view(torch.uint8).numpy().tobytes  # a view: reads what is there then
    if t.dtype == torch.bfloat16:
        t = t.view(torch.int16)
    return t.numpy().tobytes


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
