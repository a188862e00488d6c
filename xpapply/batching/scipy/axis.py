"""Functions of SciPy along an axis: odd slices one by one, all others at once.

What an axis call does with a NaN or with a constant slice is not always what the call on that
slice does (a method is chosen, an empty slice warned about, an LAPACK matrix scaled by looking
at the whole array), so rules run such *odd* slices one by one and all others at once.
"""

from __future__ import annotations

import functools
from collections import namedtuple
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...runtime import threads
from .. import Batched, NoRule, OneByOne
from ..rules import _ndim, batch_size, bound, leaves, mapped, shifted, signature

Rule = Callable[..., Any]
Parts = dict[tuple[Any, ...], Any]
Build = Callable[[Parts], Any]

# ------------------------------------------------------------------ results


@functools.lru_cache
def result_type(name: str, fields: tuple[str, ...]) -> Any:
    """A namedtuple with room for further attributes: what SciPy's results are, holding Batched.

    SciPy's own classes check their fields and have methods that compute with them.
    """
    return type(name, (namedtuple(name, fields),), {"__getattr__": _missing})  # type: ignore[misc]


def _missing(result: Any, name: str) -> Any:
    if name.startswith("_"):
        raise AttributeError(name)
    raise NoRule(f"the attribute {name} of {type(result).__name__}")


def taken_apart(found: Any) -> tuple[Parts, Build]:
    """The values in a result by where they stand, and what makes a result of other values.

    Attributes beside the fields have their names: a result can be made without them.
    """
    if not isinstance(found, (tuple, list)):
        return {(): found}, lambda values: values[()]
    apart = {k: taken_apart(x) for k, x in enumerate(found)}
    extras = {k: x for k, x in getattr(found, "__dict__", {}).items() if not k.startswith("_")}
    make: Any = type(found)
    if fields := getattr(found, "_fields", None):
        make = lambda items: result_type(type(found).__name__, tuple(fields))(*items)  # noqa: E731

    def build(values: Parts) -> Any:
        own: dict[Any, Parts] = {k: {} for k in apart}
        for (first, *rest), x in values.items():
            own.setdefault(first, {})[tuple(rest)] = x
        made = make([b(own[k]) for k, (_, b) in apart.items()])
        for name in extras:
            if name in own:
                setattr(made, name, own[name][()])
        return made

    values = {(k, *at): x for k, (parts, _) in apart.items() for at, x in parts.items()}
    return values | {(name,): x for name, x in extras.items()}, build


def as_rows(found: Any, n: int, plain: Sequence[int] = ()) -> Any:
    """The results of a call on all slices, `plain` values and numbers unchanged."""
    values, build = taken_apart(found)
    return build({at: _row(v, n, i in plain) for i, (at, v) in enumerate(values.items())})


def _row(value: Any, n: int, plain: bool = False) -> Any:
    if plain or value is None or isinstance(value, str) or np.ndim(value) == 0:
        return value
    if value.shape[0] != n or value.dtype == object:
        raise NoRule(f"the result has the shape {value.shape} for {n} slices")
    return Batched(value)


def combined(results: Sequence[Any], function: Callable[..., Any]) -> Any:
    """Results of the same structure as one, each value a `function` of theirs.

    An attribute beside the fields is left out where it cannot be one.
    """
    apart = [taken_apart(x) for x in results]
    parts, build = [values for values, _ in apart], apart[0][1]
    if len({frozenset(filter(_is_field, values)) for values in parts}) > 1:
        raise NoRule("slices have results of different structure")
    made = {}
    for at in parts[0]:
        try:
            if all(at in values for values in parts):
                made[at] = function(*(values[at] for values in parts))
        except NoRule:
            if _is_field(at):
                raise
    return build(made)


def _is_field(at: tuple[Any, ...]) -> bool:
    return not any(isinstance(k, str) for k in at)


def _stacked(*column: Any) -> Any:
    if all(v is None for v in column) or (isinstance(column[0], str) and len({*column}) == 1):
        return column[0]
    arrays = [np.asarray(v) for v in column]
    if len({(a.shape, a.dtype) for a in arrays}) > 1 or arrays[0].dtype == object:
        raise NoRule("slices have results of different shapes or dtypes")
    return Batched(np.stack(arrays))


def _one_by_one(*column: Any) -> Any:
    found = _stacked(*column)
    return OneByOne(found.array) if isinstance(found, Batched) else found


# ------------------------------------------------------- slice by slice, and odd slices


def call_on(call: Any, args: tuple, kwargs: dict, b: Any) -> Any:
    """The call that ``f`` makes for slice `b`."""
    pick = lambda x: x.array[b]  # noqa: E731
    return call(*mapped(pick, args), **mapped(pick, kwargs))


def checked(args: tuple, kwargs: dict) -> None:
    """Refuse arguments that are written to."""
    for name, x in kwargs.items():
        if (name.startswith("overwrite") and x is not False) or (name == "out" and x is not None):
            raise NoRule(f"{name}=")
        if name in ("output", "indices", "distances") and isinstance(x, (np.ndarray, Batched)):
            raise NoRule(f"{name}=")
    if batch_size((args, kwargs)) == 0:
        raise NoRule("no slices")


def by_rows(xp: Any, call: Any, args: tuple, kwargs: dict) -> Any:
    """The function itself for one slice after the other."""
    if xp is not np:
        raise NoRule("slice by slice, which is for NumPy")
    try:
        checked(args, bound(call, args, kwargs))
    except (NoRule, TypeError, ValueError):
        checked(args, kwargs)
    found = []
    for b in range(batch_size((args, kwargs))):
        threads.check()
        found.append(call_on(call, args, kwargs, b))
    return combined(found, _one_by_one)


def split(
    xp: Any,
    call: Any,
    args: tuple,
    kwargs: dict,
    run: Callable[..., Any],
    arrays: Sequence[Any],
    odd: Callable[..., Any] | None,
    plain: Sequence[int] = (),
    together: Callable[..., Any] | None = None,
) -> Any:
    """`run` on the `arrays` of the slices that are not odd, the call itself on each odd one.

    Odd slices are often all the same, the background of an image: those are run once. `together`:
    which slices are odd for what all their arrays have.
    """
    n = arrays[0].shape[0]
    mask = None
    if odd is not None and xp is np:  # CuPy's functions do not look at what the values are
        mask = functools.reduce(lambda a, b: a | b, (odd(xp, a) for a in arrays))
        if together is not None and not mask.all():
            mask |= together(*arrays)
    if mask is None or not mask.any():
        return as_rows(run(*arrays), n, plain)
    seen: dict[tuple[bytes, ...], int] = {}
    single: list[Any] = []
    where = np.zeros(n, np.intp)
    rows = list(leaves((args, kwargs)))
    for b in np.flatnonzero(mask):
        key = tuple(x.array[b].tobytes() for x in rows)
        if key not in seen:
            seen[key] = len(single)
            single.append(call_on(call, args, kwargs, b))
        where[b] = seen[key]
    ones = combined(single, _stacked)
    if mask.all():
        return combined([ones], lambda x: Batched(x.array[where]) if isinstance(x, Batched) else x)
    even = np.flatnonzero(~mask)
    same = {id(a): a[even] for a in arrays}  # f(x, x) stays that
    most = as_rows(run(*(same[id(a)] for a in arrays)), len(even), plain)

    def merge(a: Any, b: Any) -> Any:
        if isinstance(b, Batched):
            a = a.array if isinstance(a, Batched) else np.broadcast_to(a, (len(even), *b.shape))
            if a.shape[1:] != b.shape or a.dtype != b.dtype:
                raise NoRule("odd slices have results of different shapes or dtypes")
            both = np.empty((n, *b.shape), b.dtype)
            both[even] = a
            both[mask] = b.array[where[mask]]
            return Batched(both)
        return b

    return combined([most, ones], merge)


def repeated(xp: Any, x: Any, n: int) -> Any:
    """The array of an argument, with a batch axis."""
    return x.array if isinstance(x, Batched) else xp.broadcast_to(xp.asarray(x), (n, *np.shape(x)))


def _behind(a: Any) -> tuple[int, ...]:
    return tuple(range(1, a.ndim))


def with_nan(xp: Any, a: Any) -> Any:
    """Slices that have a NaN."""
    if a.dtype.kind not in "fc":
        return xp.zeros(a.shape[0], bool)
    return xp.isnan(a).any(axis=_behind(a))


def not_finite(xp: Any, a: Any) -> Any:
    """Slices that have a NaN or an infinity."""
    if a.dtype.kind not in "fc":
        return xp.zeros(a.shape[0], bool)
    return ~xp.isfinite(a).all(axis=_behind(a))


def flat(xp: Any, a: Any) -> Any:
    """Slices that are constant or not finite."""
    axes = _behind(a)
    return (a.min(axis=axes) == a.max(axis=axes)) | not_finite(xp, a)


def ambiguous(xp: Any, a: Any) -> Any:
    """Slices with what filters of one axis and of several order in other ways.

    That is NaN, two zeros of different signs, and integers that are no floats.
    """
    if a.dtype.kind == "f":
        return with_nan(xp, a) | ((a == 0) & xp.signbit(a)).any(axis=_behind(a))
    if a.dtype.kind in "iu" and a.dtype.itemsize == 8:
        beyond = a > 2**53 if a.dtype.kind == "u" else (a > 2**53) | (a < -(2**53))
        return beyond.any(axis=_behind(a))
    return with_nan(xp, a)


def extreme(xp: Any, a: Any) -> Any:
    """Slices whose squares overflow or vanish, where LAPACK and BLAS rescale."""
    if a.dtype.kind not in "fc":
        return xp.zeros(a.shape[0], bool)
    big = abs(a).max(axis=_behind(a)).astype(np.float64)
    tiny, huge = (1e-18, 1e18) if a.dtype.itemsize <= 4 else (1e-140, 1e140)
    return ~((big < huge) & ((big > tiny) | (big == 0)))


# --------------------------------------------------------------------- along an axis


def axis_call(
    data: str,
    default: int | None = -1,
    *,
    axis_name: str = "axis",
    odd: Callable[[Any, Any], Any] | None = None,
    least: int = 1,
    plain: Sequence[int] = (),
    callbacks: str = "",
    together: Callable[..., Any] | None = None,
) -> Rule:
    """The function itself along an axis of the batch.

    `data` names the parameters that have the axis, of which those that do not depend on the
    slice are repeated; `odd` are slices that run one by one; slices of fewer than `least`
    values do too. `plain` are results that are the same for all slices, `callbacks` parameters
    that may be a function of the user's. `together`: as in `split`.
    """
    names = data.split()

    def rule(xp: Any, call: Any, args: tuple, kwargs: dict) -> Any:
        if axis_name not in signature(call).parameters:
            return by_rows(xp, call, args, kwargs)
        if names[0].startswith("*"):
            given = dict(kwargs) | {f"*{i}": x for i, x in enumerate(args)}
            operands = {k: x for k, x in given.items() if k.startswith("*")}
        else:
            given = bound(call, args, kwargs)
            operands = {k: given[k] for k in names if given.get(k) is not None}
        checked((), given)
        others = {k: x for k, x in given.items() if k not in operands}
        if any(callable(others.get(name)) for name in callbacks.split()):
            raise NoRule(f"{callbacks}= is a function")
        # a number next to slices is one for all: any library broadcasts it
        operands = {k: x for k, x in operands.items() if isinstance(x, Batched) or np.ndim(x) > 0}
        others |= {k: x for k, x in given.items() if k not in operands}
        ndims = {_ndim(x) for x in operands.values()}
        axis = given.get(axis_name, default)
        if any(leaves(others)) or len(ndims) != 1 or not all(map(_usual, operands.values())):
            return by_rows(xp, call, args, kwargs)
        (ndim,) = ndims
        if axis is None and ndim > 1:
            return by_rows(xp, call, args, kwargs)
        axis = shifted(-1 if axis is None else axis, ndim)
        n = batch_size((args, kwargs))
        # sums in the order of a slice; f(x, x) stays that, some functions ask whether it `is`
        own = {id(x.array): Batched(xp.ascontiguousarray(x.array)) for x in leaves(operands)}
        arrays = [
            repeated(xp, own[id(x.array)] if isinstance(x, Batched) else x, n)
            for x in operands.values()
        ]
        if any(min(a.shape[1:]) < least for a in arrays):
            return by_rows(xp, call, args, kwargs)
        others[axis_name] = axis

        def run(*arrays: Any) -> Any:
            operand = dict(zip(operands, arrays, strict=True))
            first = [x for k, x in operand.items() if k.startswith("*")]
            named = {k: x for k, x in operand.items() if not k.startswith("*")}
            return _named(call, first, named | others)

        return split(xp, call, args, kwargs, run, arrays, odd, plain, together)

    return rule


def _usual(x: Any) -> bool:
    """Whether an argument is a plain array, not a masked one or the like."""
    return isinstance(x, (Batched, list, tuple)) or type(x).__name__ == "ndarray"


def _named(call: Any, first: list[Any], given: dict[str, Any]) -> Any:
    positional = [k for k, p in signature(call).parameters.items() if p.kind is p.POSITIONAL_ONLY]
    return call(*first, *(given.pop(k) for k in positional if k in given), **given)


def fft_n(xp: Any, call: Any, args: tuple, kwargs: dict) -> Any:
    """Transforms and shifts over several axes; None is all those of a slice."""
    given = bound(call, args, kwargs)
    checked((), given)
    (x,) = leaves(given)
    s = given.get("s", given.get("shape"))
    axes = given.get("axes", _default(call, "axes"))
    if axes is None:
        axes = range(-(x.ndim if s is None else np.size(s)), 0)
    given["axes"] = shifted(tuple(np.atleast_1d(axes).tolist()), x.ndim)
    return as_rows(call(**mapped(lambda x: x.array, given)), batch_size(given))


def _default(call: Any, name: str) -> Any:
    return signature(call).parameters[name].default
