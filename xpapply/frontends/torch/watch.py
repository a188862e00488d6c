"""Noticing that a module has changed since it was lifted, in a few microseconds."""

from __future__ import annotations

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

    def __init__(self, modules: list[nn.Module], tensors: list[torch.Tensor]) -> None:
        # dicts compare in C, by identity of the values first
        self._dicts = [(d, dict(d)) for m in modules for d in _dicts(m)]
        self._tensors = [(t, t._version, t.data_ptr(), t.requires_grad) for t in tensors]
        self._bytes: list[tuple[np.ndarray, bytes]] = []
        for t in tensors:
            plain = t.device.type == "cpu" and t.layout == torch.strided and t.is_contiguous()
            if plain and t.nbytes <= _COMPARED_BYTES:
                view = t.detach().view(-1).view(torch.uint8).numpy()
                self._bytes.append((view, view.tobytes()))

    def __call__(self) -> bool:
        """Whether nothing has changed."""
        for t, version, pointer, recorded in self._tensors:
            if t._version != version or t.data_ptr() != pointer or t.requires_grad != recorded:
                return False
        try:
            for now, then in self._dicts:
                if now != then:
                    return False
        except (RuntimeError, ValueError):  # another tensor or array: == is not a truth value
            return False
        return all(view.tobytes() == content for view, content in self._bytes)


def _dicts(m: nn.Module) -> list[dict[str, Any]]:
    """Where a module keeps what its forward can see."""
    found = [m.__dict__, m._parameters, m._buffers, m._modules]
    return [*found, m._forward_hooks, m._forward_pre_hooks]  # type: ignore[list-item]
