"""``v[mask]`` in ``f``: how many values there are is asked only if somebody needs to know."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...batching import find, ragged, syntax
from ...batching.rules import ufunc_row
from . import native
from .recorder import Recorder
from .tracer import Counted, Tracer, tracers

REDUCTIONS = frozenset(
    f"numpy.{n}"
    for n in (
        "sum mean std var max min amax amin prod median any all ptp nansum nanmean nanstd "
        "nanvar nanmax nanmin nanmedian percentile quantile nanpercentile nanquantile "
        "count_nonzero argmax argmin average"
    ).split()
)


class Flat(Tracer):
    """The values of a mask, as `known.ragged.Ragged`."""

    __slots__ = ()


class Selected(Tracer, Counted):
    """The values of a mask. Whoever asks for its `ref` needs to know how many there are."""

    __slots__ = ("_even", "flat", "mask", "places")

    def __init__(self, flat: Flat, mask: Tracer) -> None:
        object.__setattr__(self, "flat", flat)
        object.__setattr__(self, "mask", mask)
        object.__setattr__(self, "places", False)  # whether they are where the mask is true
        super().__init__(flat.recorder, flat.value, None)

    @property  # type: ignore[override]
    def ref(self) -> Any:
        if self._even is None:
            n = len(self.value)
            self.recorder.ask(self.length(), n)
            even = self.recorder.call(
                ragged.EVEN,
                lambda v: v.copy(),
                (self.flat,),
                batch=((self.flat, n), {}),
                check=False,
            )
            object.__setattr__(self, "_even", even.ref)
        return self._even

    @ref.setter
    def ref(self, ref: Any) -> None:
        object.__setattr__(self, "_even", ref)

    def __setattr__(self, name: str, item: Any) -> None:
        object.__setattr__(self, name, item)

    @property
    def settled(self) -> bool:
        """Whether the number of values is known already."""
        return self._even is not None

    def length(self) -> Any:
        n = len(self.value)
        return self.recorder.call(syntax.COUNT, lambda _: n, (self.mask,), check=False)

    def __len__(self) -> int:
        return len(self.value) if self.ref is not None else 0


def selected(x: Any, mask: Tracer) -> Selected:
    """``x[mask]``, both of one axis."""
    recorder = mask.recorder
    value = (x.value if isinstance(x, Tracer) else x)[mask.value]
    step = recorder.call(ragged.SELECT, lambda *_: value.copy(), (x, mask), check=False)
    # as the mask is now: f may write into it later
    fixed = Tracer(recorder, mask.value, mask.ref)
    return Selected(Flat(recorder, step.value, step.ref), fixed)


def positions(mask: Tracer) -> Selected:
    """``numpy.flatnonzero(mask)``."""
    found = selected(np.arange(len(mask.value)), mask)
    object.__setattr__(found, "places", True)
    return found


def same_mask(a: Selected, b: Selected) -> bool:
    """Whether two have the same number of values in every slice."""
    return a.mask.ref is not None and a.mask.ref == b.mask.ref


def elementwise(recorder: Recorder, ufunc: Any, inputs: tuple) -> Any:
    """A ufunc, as long as the others are numbers; NotImplemented if they are not."""
    mine = [x for x in inputs if isinstance(x, Selected)]
    if not mine or any(x.settled for x in mine) or ufunc.nout != 1:
        return NotImplemented
    if not all(same_mask(mine[0], x) for x in mine):
        return NotImplemented
    others = [x for x in inputs if not isinstance(x, Selected)]
    if any(np.ndim(x.value if isinstance(x, Tracer) else x) for x in others):
        return NotImplemented
    row = ufunc_row(ufunc)
    if "." not in row.name or ufunc is np.power:
        return NotImplemented
    given = tuple(x.flat if isinstance(x, Selected) else x for x in inputs)
    step = recorder.call(
        ragged.ELEMENTWISE,
        lambda *a: ufunc(*a),
        given,
        batch=((row, list(given)), {}),
        check=False,
    )
    return Selected(Flat(recorder, step.value, step.ref), mine[0].mask)


def reduce(recorder: Recorder, function: Any, args: tuple, kwargs: dict) -> Any:
    """A reduction to one number; NotImplemented if it is none."""
    row = find(function)
    if row is None or row.name not in REDUCTIONS or not args:
        return NotImplemented
    x, *rest = args
    if not isinstance(x, Selected) or x.settled:
        return NotImplemented
    if any(True for _ in tracers((rest, kwargs))) or kwargs.get("keepdims") or "out" in kwargs:
        return NotImplemented
    device = native.own(recorder, function, row)
    try:
        if device is None:
            real = function(x.value, *rest, **kwargs)
        else:
            real = native.call(recorder, device, (x.flat, *rest), kwargs)
    except Exception:
        return NotImplemented  # the path of those with as many values raises it
    if np.ndim(real) or not isinstance(real, (np.generic, np.ndarray)):
        return NotImplemented
    dtype = np.asarray(real).dtype
    return recorder.call(
        ragged.REDUCE,
        lambda *_: real,
        (x.flat,),
        batch=((row, (), x.flat, tuple(rest), kwargs, dtype), {}),
    )
