"""The constants of a model on a device."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import cupy
import numpy as np

from ...lowering.program import Program


class Weights:
    """The constants of one model state on one device, in every form that a kernel wants."""

    def __init__(self, consts: Sequence[np.ndarray]) -> None:
        self.consts = consts
        self._packed: dict[Any, Any] = {}
        self._values: dict[Any, list[Any]] = {}
        self._arrays: dict[int, Any] = {}
        self._fit: dict[str, bool] = {}

    @functools.cached_property
    def finite(self) -> bool:
        """Whether all weights are finite: splitting is wrong for others."""
        return all(np.isfinite(c).all() for c in self.consts)

    def fit(self, dtype: str) -> bool:
        """Whether all matrices are representable in a dtype of 16 bits."""
        found = self._fit.get(dtype)
        if found is None:
            found = self._fit[dtype] = all(_fits(c, dtype) for c in self.consts if c.ndim > 1)
        return found

    def packed(self, run: Any, text: Any) -> Any:
        """Weights in the order of a kernel, shared by all accesses with the same packing."""
        key = (run, text.packing)
        found = self._packed.get(key)
        if found is None:
            found = self._packed[key] = _uploaded(text.pack(self.consts))
        return found

    def values(self, name: Any, program: Program) -> list[Any]:
        """Weights in the form of a program's steps."""
        if name not in self._values:
            self._values[name] = program.bind(self.consts)
            cupy.cuda.get_current_stream().synchronize()
        return self._values[name]

    def const(self, k: int) -> Any:
        if k not in self._arrays:
            self._arrays[k] = _uploaded(np.ascontiguousarray(self.consts[k]))
        return self._arrays[k]


def _fits(a: np.ndarray, dtype: str) -> bool:
    a = np.ascontiguousarray(a, np.float32)
    if dtype == "bfloat16":  # the upper half of float32
        return not (a.view(np.uint32) & 0xFFFF).any()
    with np.errstate(over="ignore"):
        return bool((a.astype(dtype) == a).all())


def _uploaded(a: np.ndarray) -> Any:
    """A constant on the device, there for all streams: they share it from now on."""
    found = cupy.asarray(a)
    cupy.cuda.get_current_stream().synchronize()
    return found
