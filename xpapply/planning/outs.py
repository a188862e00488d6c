"""Results of a call of `vectorize`: their core dims, and arrays given as `out=`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import arrays
from ..arrays.outputs import check_array, check_casts, check_count, write_into
from ..errors import InputError
from ..loop.signature import Dims, Places, core_at, core_last


class Outs:
    """The places of results, and the arrays that get them.

    Parameters
    ----------
    targets : tuple of arrays or None, or None
        ``out=`` of the call: for each result an array, or None.
    places : Places or None
        Where core dims stand in results; None: last.
    dims : Dims
        Loop and core dims.
    numbers : bool
        Whether it is a function of numbers, which alone tells how many results it has.
    like : array or None
        What says the library and the device; None: NumPy's.

    Raises
    ------
    InputError, TypeError
        If a target cannot take its result.
    """

    def __init__(
        self,
        targets: tuple[Any, ...] | None,
        places: Places | None,
        dims: Dims,
        numbers: bool,
        like: Any,
    ) -> None:
        self._targets, self._places, self._dims = targets, places, dims
        self._numbers, self._like = numbers, like
        self._check()

    def _check(self) -> None:
        """Refuse what results cannot be written to, before `f` is called."""
        targets, dims = self._targets, self._dims
        if targets is None:
            return
        outputs = dims.signature.outputs
        if self._numbers:  # only f tells how many results it has
            outputs = ((),) * len(targets)
        check_count(targets, len(outputs))
        for k, (target, core) in enumerate(zip(targets, outputs, strict=True)):
            if target is None:
                continue
            name = "out" if len(outputs) == 1 else f"out[{k}]"
            check_array(target, self._like, name)
            check_device(target, self._like, name)
            if isinstance(target, np.ndarray) and not target.flags.writeable:
                raise InputError(f"{name}={arrays.describe(target)} is read-only")
            if dims.sizes.unknown(core):
                continue
            own = target if self._places is None else core_last(target, self._places.outputs[k])
            shape = (*dims.loop, *(() if self._numbers else self._core(k)))
            if tuple(own.shape) != shape:
                wanted = shape if self._places is None else f"{shape} (core dims last)"
                raise InputError(f"{name} has shape {tuple(target.shape)}, the result {wanted}")

    def _core(self, k: int) -> tuple[int, ...]:
        """The core dims of a result, as they are returned."""
        if self._places is not None and self._places.keepdims:
            return (1,) * len(self._places.outputs[k])
        return self._dims.sizes.shape(self._dims.signature.outputs[k])

    @property
    def as_given(self) -> Any:
        """``out`` as the call gave it."""
        targets = self._targets or (None,)
        return targets if len(targets) > 1 else targets[0]

    def filled(self, found: Sequence[Any], several: bool, mask: Any) -> list[Any]:
        """The results as the call returns them, in the targets where there are some.

        `mask`: the slices that were computed, where what is in the targets stays elsewhere.
        """
        parts = [self.placed(k, x) for k, x in enumerate(found)]
        if self._targets is None:
            return parts
        check_count(self._targets, len(parts))
        names = [f"out[{k}]" if several else "out" for k in range(len(parts))]
        return [
            x if target is None else self._written(k, target, x, names[k], mask)
            for k, (target, x) in enumerate(zip(self._targets, parts, strict=True))
        ]

    def placed(self, k: int, x: Any) -> Any:
        """A result with its core dims where `axis` and `axes` want them."""
        return x if self._places is None else self._places.placed(k, x)

    def _written(self, k: int, target: Any, x: Any, name: str, mask: Any) -> Any:
        """`target`, with a result in it, or in those of its slices that a mask chooses."""
        if mask is not None:
            mask = mask[(..., *(None,) * (x.ndim - mask.ndim))]
            if self._places is not None:
                mask = core_at(mask, self._places.outputs[k])
            if isinstance(x, np.ndarray):
                x = np.where(mask, x, target) if x.dtype == target.dtype else x
                if x.dtype != target.dtype:
                    check_casts(x, target, "out")
                    np.copyto(target, x, casting="same_kind", where=mask)
                    return target
            else:
                xp = arrays.compat(x)
                x = xp.where(mask, xp.astype(x, target.dtype, copy=False), target)
        write_into(target, x, name)
        return target


def check_device(x: Any, like: Any, name: str) -> None:
    """Refuse an array that is not where the arguments are."""
    if like is not None and arrays.device(x) != arrays.device(like):
        raise InputError(
            f"{name} is {arrays.describe(x)}, the arguments are on "
            f"{arrays.device(like)}: give an array that is there"
        )
