"""Running a module's forward on trial, without leaving a trace."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import nn

from ....errors import TraceError

# they only recompute a weight from its parts, on parameters, or look at shapes
HARMLESS_HOOKS = (
    "torch.nn.utils.weight_norm",
    "torch.nn.utils.spectral_norm",
    "torch.export._unlift",
)


@contextmanager
def untouched(modules: list[nn.Module]) -> Iterator[None]:
    """Undo what is written to modules and random states; refuse a forward that writes.

    Attributes, the lists, dicts and sets in them, and buffers are put back.
    Parameters are only watched: copies of them could be large.
    """
    before = [_Before(m) for m in modules]
    numpy_state, python_state = np.random.get_state(), random.getstate()
    try:
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            yield
    finally:
        np.random.set_state(numpy_state)
        random.setstate(python_state)
        changed = [b.module for b in before if b.restore()]
    if changed:
        raise TraceError(f"forward writes to attributes of {type(changed[0]).__name__}")


def recomputed(module: nn.Module) -> set[str]:
    """The attributes that harmless hooks write before each forward."""
    hooks = module._forward_pre_hooks.values()
    names = [getattr(h, "name", None) for h in hooks if type(h).__module__ in HARMLESS_HOOKS]
    return {name for name in names if isinstance(name, str)}


class _Before:
    """The state of a module before."""

    def __init__(self, module: nn.Module) -> None:
        self.module = module
        self._attributes = dict(module.__dict__)
        self._containers = [
            (v, v.copy()) for v in module.__dict__.values() if isinstance(v, (list, dict, set))
        ]
        tensors = (*module._parameters.values(), *module._buffers.values())
        self._tensors = [(t, t._version) for t in tensors if t is not None]
        self._buffers = [(t, t.clone()) for t in module._buffers.values() if t is not None]

    def restore(self) -> bool:
        """Put it back; whether it was written to."""
        written = [t for t, version in self._tensors if t._version != version]
        if written:
            for t, content in self._buffers:
                t.copy_(content)
        changed = bool(written)
        for container, items in self._containers:
            if not _same(container, items):
                changed = True
                container.clear()
                (container.extend if isinstance(container, list) else container.update)(items)
        if self._rewritten():
            changed = True
            self.module.__dict__.clear()
            self.module.__dict__.update(self._attributes)
        return changed

    def _rewritten(self) -> bool:
        """Attributes that forward wrote, apart from weights recomputed by harmless hooks."""
        if isinstance(self.module, torch.jit.ScriptModule):
            return False  # its attributes are in C++, see `script.why_not`
        now, before = self.module.__dict__, self._attributes
        names = (now.keys() | before.keys()) - recomputed(self.module)
        return any(now.get(k) is not before.get(k) for k in names)


def _same(a: Any, b: Any) -> bool:
    """Whether the same objects are in the same order."""
    if len(a) != len(b):
        return False
    pairs = zip(a.items(), b.items(), strict=True) if isinstance(a, dict) else ()
    if isinstance(a, list):
        return all(x is y for x, y in zip(a, b, strict=True))
    return a == b if isinstance(a, set) else all(k == q and v is w for (k, v), (q, w) in pairs)
