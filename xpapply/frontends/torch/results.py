"""Results of modules: one tensor, or several in tuples, lists and dicts."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import torch
from torch.utils._pytree import TreeSpec, tree_flatten, tree_leaves, tree_map, tree_unflatten

from ...errors import TraceError

_PLAIN = (type(None), bool, int, float, complex, str, type)
"""Types of plain values beside tensors, equal for every slice."""
_ROUNDED = 0.6
"""Results that rounding explains are this power of a dtype's eps apart at most, on CPUs: 7e-5 for
float32. Some modules take the axis of a batch for that of channels, which changes little."""
_TF32 = 2.0**-8
"""The relative difference of float32 results whose products are rounded to TF32."""


class Parts(tuple[torch.Tensor, ...]):
    """The tensors that a module returns: of one slice, or of many, with the slices' axis first."""

    def map(self, function: Callable[[torch.Tensor], torch.Tensor]) -> Parts:
        """A function of each."""
        return Parts(map(function, self))

    @staticmethod
    def joined(several: Iterable[Parts], join: Callable[[list[torch.Tensor]], Any]) -> Parts:
        """Each part of all of them as one."""
        return Parts(join(list(parts)) for parts in zip(*several, strict=True))


class Structure:
    """The structure of a module's result: places of tensors, and all other values."""

    def __init__(self, found: Any) -> None:
        self._records = any(map(_is_record, tree_leaves(found)))
        leaves, self._spec = tree_flatten(_opened(found) if self._records else found)
        self._others = [None if isinstance(x, torch.Tensor) else (x,) for x in leaves]
        plain = all(isinstance(x, (torch.Tensor, *_PLAIN)) for x in leaves)
        self.known = plain and None in self._others
        """Whether it holds only tensors, one at least, and plain values."""

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Structure) or not _same_spec(self._spec, other._spec):
            return False
        kinds, others = (
            [x for x in s._others if x and isinstance(x[0], type)] for s in (self, other)
        )
        return kinds == others and repr(self._others) == repr(other._others)

    def __hash__(self) -> int:
        return hash(repr(self._spec))

    def parts(self, found: Any) -> Parts:
        """The tensors of something of this structure."""
        leaves, spec = tree_flatten(_opened(found) if self._records else found)
        alike = _same_spec(spec, self._spec) and all(
            isinstance(x, torch.Tensor) if other is None else _same_plain(x, other[0])
            for x, other in zip(leaves, self._others, strict=True)
        )
        if not alike:
            raise TraceError("for many slices it returns something else than for one")
        return Parts(x for x in leaves if isinstance(x, torch.Tensor))

    def filled(self, parts: Sequence[Any] | None = None) -> Any:
        """The structure with other parts in place of its tensors; None: without parts."""
        left = iter([None] * len(self._others) if parts is None else parts)
        leaves = [next(left) if other is None else other[0] for other in self._others]
        filled = tree_unflatten(leaves, self._spec)
        return _closed(filled) if self._records else filled


def _is_record(x: Any) -> bool:
    """Whether it is a dataclass instance with its fields alone."""
    if not dataclasses.is_dataclass(x) or isinstance(x, type) or not hasattr(x, "__dict__"):
        return False
    return vars(x).keys() == {f.name for f in dataclasses.fields(x)}


class _Record(NamedTuple):
    """An object of a dataclass, which torch does not look into."""

    kind: type
    values: tuple[Any, ...]


def _opened(found: Any) -> Any:
    """Replace dataclass instances by records."""

    def opened(x: Any) -> Any:
        if not _is_record(x):
            return x
        return _Record(type(x), tuple(_opened(getattr(x, f.name)) for f in dataclasses.fields(x)))

    return tree_map(opened, found)


def _closed(found: Any) -> Any:
    """The other way round."""

    def closed(x: Any) -> Any:
        if not isinstance(x, _Record):
            return x
        made: Any = object.__new__(x.kind)  # as a copy is made
        for f, y in zip(dataclasses.fields(x.kind), x.values, strict=True):
            object.__setattr__(made, f.name, _closed(y))
        return made

    return tree_map(closed, found, is_leaf=lambda x: isinstance(x, _Record))


def _same_spec(a: TreeSpec, b: TreeSpec) -> bool:
    return a.num_leaves == b.num_leaves and a == b


def _same_plain(a: Any, b: Any) -> bool:
    return type(a) is type(b) and (a == b or (a != a and b != b))


def stacked(found: Any, axis: int) -> Any:
    """Results, with a tuple or list among them as one: the states of an LSTM."""

    def is_one(x: Any) -> bool:
        return x is not found and type(x) in (tuple, list)

    try:
        return tree_map(
            lambda x: torch.stack([*x], axis) if is_one(x) else x, found, is_leaf=is_one
        )
    except (TypeError, RuntimeError):
        raise TraceError("one of its results is a tuple of things of several shapes") from None


def by_slice(x: Any, n: int, shape: tuple[int, ...]) -> torch.Tensor:
    """A result for a batch of `n` in the shapes that slices give alone, the batch axis first.

    Where these have an axis of length 1, that of batches may be there (LSTM: after the layers).
    """
    if not isinstance(x, torch.Tensor):
        raise TraceError(f"a batch gives {type(x).__name__}")
    if x.numel() != n * math.prod(shape):
        found, wanted = tuple(x.shape), (n, *shape)
        raise TraceError(
            f"a batch of {n} gives shape {found}, a slice alone {shape}: it must be {wanted}"
        )
    for k in range(1, min(len(shape), x.ndim)):
        if shape[k] == 1 and tuple(x.shape) == (*shape[:k], n, *shape[k + 1 :]):
            return x.movedim(k, 0).reshape(n, *shape)
    return x.reshape(n, *shape)


def compare(got: Parts, alone: Sequence[Parts]) -> None:
    """Raise where results of a batch are further from those of slices than rounding explains."""
    for k, parts in enumerate(alone):
        for batch, want in zip(got, parts, strict=True):
            same = len(batch) == len(alone) and batch[k].shape == want.shape
            if not same or batch.dtype != want.dtype or not are_close(batch[k], want):
                raise TraceError("many slices at once and one slice alone give different results")


def are_close(g: torch.Tensor, w: torch.Tensor) -> bool:
    """Whether two results are equal up to rounding."""
    if not w.is_floating_point():
        return torch.equal(g, w)
    on_gpu = w.device.type == "cuda"  # cuDNN has other convolutions for other batches
    tolerance = torch.finfo(w.dtype).eps ** (0.5 if on_gpu else _ROUNDED)
    if on_gpu and w.dtype == torch.float32:
        rounded = torch.backends.cudnn.allow_tf32 or torch.backends.cuda.matmul.allow_tf32
        tolerance = _TF32 if rounded else tolerance
    g, w = g.double(), w.double()
    finite = w[torch.isfinite(w)].abs()
    scale = max(1.0, float(finite.max())) if finite.numel() else 1.0
    return torch.allclose(g, w, rtol=tolerance, atol=tolerance * scale, equal_nan=True)
