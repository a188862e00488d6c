"""``v[mask]`` in ``f``: the number of values becomes a decision only where it is used."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....batching import BatchingRule, find, lapack, of_masks, ragged, syntax
from ....batching.rules import bound, ufunc_row
from ....errors import TraceError
from ....limits import LIMITS
from ..trace import native
from ..trace.recorder import Recorder
from ..trace.stand_ins import Counted, refs, replaced, tracers, values
from ..trace.tracer import Tracer
from ..trace.tree import Call, Ref, same

REDUCTIONS = frozenset(
    f"numpy.{n}"
    for n in (
        "sum mean std var max min amax amin prod median any all ptp nansum nanmean nanstd "
        "nanvar nanmax nanmin nanmedian percentile quantile nanpercentile nanquantile "
        "count_nonzero argmax argmin average"
    ).split()
)


_OF_SEVERAL = of_masks.TOGETHER | {"numpy.interp", "numpy.linalg.lstsq"}


_FULL_RANK = 1e8
"""The condition number below which least squares never truncate, whatever the cutoff."""


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
        """Whether the number of values is known."""
        return self._even is not None

    def is_of(self, key: tuple[Any, ...]) -> bool:
        """Whether `key` is a mask alone that selects as many, in every slice."""
        if self.settled or len(key) != 1 or not isinstance(key[0], Tracer):
            return False
        return same_value(self.mask, key[0])

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


class SelectedRows(Tracer, Counted):
    """``x[mask]`` of a matrix that is the same for all slices, or that transposed.

    Whoever asks for its `ref` needs to know how many rows there are. `matrix`: None, once `f` has
    written into it.
    """

    __slots__ = ("_even", "is_turned", "is_twin", "mask", "matrix")
    _even: Any
    matrix: Any

    def __init__(self, matrix: np.ndarray, mask: Tracer, is_turned: bool = False) -> None:
        real = matrix[mask.value]
        self.is_twin = False
        super().__init__(mask.recorder, real.T if is_turned else real, None)
        self.matrix, self.mask, self.is_turned = matrix, mask, is_turned

    @property  # type: ignore[override]
    def ref(self) -> Any:
        if self._even is None:
            n, real = int(self.mask.value.sum()), self.matrix[self.mask.value]
            self.recorder.ask(self.length(), n)
            given = (self.recorder.constant(self.matrix), self.mask)
            even = self.recorder.call(
                syntax.COMPRESS, lambda *_: real, given, batch=((*given, n), {}), check=False
            )
            self._even = (even.T if self.is_turned else even).ref
        return self._even

    @ref.setter
    def ref(self, ref: Any) -> None:
        if ref is not None and self.is_twin:
            raise self.recorder.refuse("it writes into rows of a mask that it transposes")
        self._even, self.matrix = ref, None

    def __setattr__(self, name: str, item: Any) -> None:
        object.__setattr__(self, name, item)

    def length(self) -> Any:
        n = int(self.mask.value.sum())
        return self.recorder.call(syntax.COUNT, lambda _: n, (self.mask,), check=False)

    def turned(self) -> SelectedRows:
        """The transposed matrix."""
        found = SelectedRows(self.matrix, self.mask, not self.is_turned)
        self.is_twin = found.is_twin = True
        return found

    def __len__(self) -> int:
        return len(self.value) if self.is_turned or self.ref is not None else 0


def rows_of(x: Any, mask: Tracer) -> SelectedRows | None:
    """``x[mask]`` of a matrix, if it is one that goes together with values of the mask."""
    if isinstance(x, Tracer) and x.unset is not None:
        return None
    matrix = x.value if isinstance(x, Tracer) and x.ref is None else x
    if type(matrix) is not np.ndarray or matrix.ndim != 2 or matrix.dtype != np.float64:
        return None
    if mask.recorder.library != "numpy" or matrix.shape[:1] != mask.value.shape:
        return None
    n, k = matrix.shape
    if not 0 < k <= LIMITS.mask_columns or k >= n or not np.isfinite(matrix).all():
        return None
    if not np.linalg.cond(matrix) < _FULL_RANK:
        return None
    return SelectedRows(matrix.copy(), Tracer(mask.recorder, mask.value, mask.ref))


def product(recorder: Recorder, a: Any, b: Any) -> Any:
    """``x[mask].T @ y[mask]``; NotImplemented of anything else."""
    if not isinstance(a, SelectedRows) or not a.is_turned or a.matrix is None:
        return NotImplemented
    if _is_as_made(b) and same_value(a.mask, b.mask):
        operands: tuple[Any, ...] = a.matrix, b.matrix, a.mask, _roots(a)
    elif _is_beside(a, b) and b.value.dtype == np.float64:
        operands = a.matrix, b.flat, a.mask, _roots(a)
    else:
        return NotImplemented
    real = a.value @ b.value
    return recorder.call(of_masks.PRODUCT, lambda *_: real, operands)


def _roots(a: SelectedRows) -> Tracer:
    """What products and solutions of the rows of a mask have in common, which is found once."""
    from ....batching.numpy.least_squares import roots_of_rows

    recorder, given = a.mask.recorder, (a.matrix, a.mask)
    real = roots_of_rows(a.matrix, a.mask.value[None])[0]
    calls = (step for step in recorder.steps if isinstance(step, Call))
    for number, step in enumerate(calls, 1):
        if step.row is of_masks.ROOTS and same(step.args, refs(given)):
            return Tracer(recorder, real, Ref(number))
    return recorder.call(of_masks.ROOTS, lambda *_: real, given, check=False)


def _is_as_made(x: Any) -> bool:
    """Whether it is rows as selected: not transposed, not written to."""
    return isinstance(x, SelectedRows) and not x.is_turned and x.matrix is not None


def _is_beside(rows: SelectedRows, x: Any) -> bool:
    """Whether values are selected by the mask of some rows."""
    return isinstance(x, Selected) and not x.settled and same_value(x.mask, rows.mask)


def _least_squares(recorder: Recorder, bound: dict[str, Any], real: Any) -> Any:
    """`numpy.linalg.lstsq` of rows and values of one mask."""
    a, b, rcond = bound["a"], bound["b"], bound.get("rcond")
    if not _is_as_made(a) or not _is_beside(a, b) or isinstance(rcond, Tracer):
        return NotImplemented
    if rcond is not None and not -1 <= rcond < 1e-12:
        return NotImplemented
    if b.value.dtype.kind not in "fiu" or b.value.dtype == np.float16 or not _is_finite(b):
        return NotImplemented
    x, *rest, sizes = real
    roots = _roots(a)
    operands = a.matrix, b.flat, a.mask, roots, rcond
    first = recorder.call(of_masks.SOLUTION, lambda *_: x, operands)
    rest = recorder.call(of_masks.REST, lambda *_: tuple(rest), (*operands, first), check=False)
    given = a.matrix, a.mask, roots
    return (first, *rest, recorder.call(of_masks.SIZES, lambda *_: sizes, given, check=False))


def positions(mask: Tracer) -> Selected:
    """``numpy.flatnonzero(mask)``."""
    found = selected(np.arange(len(mask.value)), mask)
    object.__setattr__(found, "places", True)
    return found


def element(x: Selected, key: Any) -> Any:
    """``x[key]`` for one number; NotImplemented where the number of values has to be known."""
    if x.settled or x.recorder.library != "numpy" or type(key) not in (int, np.intp):
        return NotImplemented
    if not -len(x.value) <= key < len(x.value):
        return NotImplemented  # the path of those with as few values raises it
    real = x.value[key]
    return x.recorder.call(
        of_masks.ELEMENT, lambda _: real, (x.flat,), batch=((x.flat, int(key)), {})
    )


def same_mask(a: Selected, b: Selected) -> bool:
    """Whether two have the same number of values in every slice."""
    return same_value(a.mask, b.mask)


def same_value(a: Tracer, b: Tracer) -> bool:
    """Whether two are the same in every slice: the result of one call, or of the same call."""
    if a.ref is None or b.ref is None:
        return False
    return a.ref == b.ref or a.recorder.alike(a.ref, b.ref)


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
    if row is None or not args:
        return NotImplemented
    if row.name in _OF_SEVERAL:
        return _of_several(recorder, function, row, args, kwargs)
    if row.name not in REDUCTIONS:
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


def _of_several(
    recorder: Recorder, function: Any, row: BatchingRule, args: tuple, kwargs: dict
) -> Any:
    """A function of several values of one mask; NotImplemented if they are not all of one."""
    found = list(tracers((args, kwargs)))
    mine = [x for x in found if isinstance(x, Selected)]
    if not mine or recorder.library != "numpy" or any(x.settled for x in mine):
        return NotImplemented
    try:
        real = function(*values(args), **values(kwargs))
    except Exception:
        return NotImplemented  # the path of those with as many values raises it
    if row.name == "numpy.linalg.lstsq":
        return _least_squares(recorder, bound(function, args, kwargs), real)
    if row.name == "numpy.dot" and not kwargs and isinstance(args[0], SelectedRows):
        return product(recorder, *args)
    if row.name == "numpy.interp":
        return _interp(recorder, bound(function, args, kwargs), real)
    if len(mine) < len(found) or not all(same_mask(mine[0], x) for x in mine):
        return NotImplemented
    if lapack.may_not_end(row.name, args, kwargs):
        for x in mine:
            if not _is_finite(x):
                why = f"{row.name} of NaN or infinity, which LAPACK may never return from"
                recorder.raised(ValueError(why), decided=True)
                raise TraceError(why)
    flat, named = (replaced(lambda x: x.flat, given) for given in (args, kwargs))
    return recorder.call(
        of_masks.FUNCTION,
        lambda *_: real,
        (flat, named),
        batch=((row, flat, named), {}),
    )


def _is_finite(x: Selected) -> bool:
    if x.value.dtype.kind not in "fc":
        return True
    real = np.isfinite(x.value).all()
    return bool(x.recorder.call(of_masks.ALL_FINITE, lambda _: real, (x.flat,)))


def _interp(recorder: Recorder, given: dict[str, Any], real: Any) -> Any:
    """`numpy.interp` between places and values of one mask, of anything."""
    x, places, fp = (given.pop(name) for name in ("x", "xp", "fp"))
    pair = isinstance(places, Selected) and isinstance(fp, Selected) and same_mask(places, fp)
    left, right = given.pop("left", None), given.pop("right", None)
    if not pair or any(x is not None for x in given.values()) or np.ndim(left) or np.ndim(right):
        return NotImplemented
    if any(True for _ in tracers((left, right))) or np.ndim(values(x)) != 1:
        return NotImplemented
    if not isinstance(real, np.ndarray) or real.dtype != np.float64:
        return NotImplemented
    operands = x.flat if isinstance(x, Selected) else x, places.flat, fp.flat, left, right
    found = recorder.call(
        of_masks.INTERP, lambda *_: real, operands, batch=(operands, {}), check=False
    )
    if not isinstance(x, Selected):
        return found
    return Selected(Flat(recorder, found.value, found.ref), x.mask)
