"""Rows of SciPy.

Most functions take an axis. What an axis call does with a NaN or with a constant
slice is not always what the call on that slice does (a method is chosen, an empty
slice warned about, an LAPACK matrix scaled by looking at the whole array), so that
rules run such *odd* slices one by one and all others at once. What has no such form
runs slice by slice, within one call of the batch.
"""

from __future__ import annotations

import functools
import sys
from collections import namedtuple
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import threads
from . import Known, NoRule, OneByOne, Rows, interpolators
from .numpy_own import moves
from .rules import _ndim, batch_size, bound, elementwise, leaves, mapped, shifted, signature, table

Rule = Callable[..., Any]
Build = Callable[[Sequence[Any]], Any]

# ------------------------------------------------------------------ results


@functools.lru_cache
def result_type(name: str, fields: tuple[str, ...]) -> Any:
    """A namedtuple with room for further attributes: what SciPy's results are, holding Rows.

    SciPy's own classes check their fields and have methods that compute with them.
    """
    return type(name, (namedtuple(name, fields),), {})  # type: ignore[misc]


def taken_apart(found: Any) -> tuple[list[Any], Build]:
    """The values in a result, and what makes a result of other values."""
    if not isinstance(found, (tuple, list)):
        return [found], lambda values: values[0]
    parts = [taken_apart(x) for x in found]
    extras = {k: x for k, x in getattr(found, "__dict__", {}).items() if not k.startswith("_")}
    make: Any = type(found)
    if fields := getattr(found, "_fields", None):
        make = lambda items: result_type(type(found).__name__, tuple(fields))(*items)  # noqa: E731
    counts = [len(values) for values, _ in parts]

    def build(values: Sequence[Any]) -> Any:
        rest = iter(values)
        made = make(
            [b([next(rest) for _ in range(n)]) for (_, b), n in zip(parts, counts, strict=True)]
        )
        for name in extras:
            setattr(made, name, next(rest))
        return made

    return [v for values, _ in parts for v in values] + list(extras.values()), build


def as_rows(found: Any, n: int, plain: Sequence[int] = ()) -> Any:
    """What a call on all slices returned, `plain` values and numbers as they are."""
    values, build = taken_apart(found)
    return build([_row(v, n, i in plain) for i, v in enumerate(values)])


def _row(value: Any, n: int, plain: bool = False) -> Any:
    if plain or value is None or isinstance(value, str) or np.ndim(value) == 0:
        return value
    if value.shape[0] != n or value.dtype == object:
        raise NoRule(f"the result has the shape {value.shape} for {n} slices")
    return Rows(value)


def combined(results: Sequence[Any], function: Callable[..., Any]) -> Any:
    """Results of the same structure as one, each value a `function` of theirs."""
    parts = [taken_apart(x) for x in results]
    if len({len(values) for values, _ in parts}) > 1:
        raise NoRule("slices have results of different structure")
    return parts[0][1]([function(*v) for v in zip(*(values for values, _ in parts), strict=True)])


def _stacked(*column: Any) -> Any:
    if all(v is None for v in column) or (isinstance(column[0], str) and len({*column}) == 1):
        return column[0]
    arrays = [np.asarray(v) for v in column]
    if len({(a.shape, a.dtype) for a in arrays}) > 1 or arrays[0].dtype == object:
        raise NoRule("slices have results of different shapes or dtypes")
    return Rows(np.stack(arrays))


def _one_by_one(*column: Any) -> Any:
    found = _stacked(*column)
    return OneByOne(found.array) if isinstance(found, Rows) else found


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
        if name in ("output", "indices", "distances") and isinstance(x, (np.ndarray, Rows)):
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
    odd: Callable[[Any, Any], Any] | None,
    plain: Sequence[int] = (),
) -> Any:
    """`run` on the `arrays` of the slices that are not odd, the call itself on each odd one.

    Odd slices are often all the same, the background of an image: those are run once.
    """
    n = arrays[0].shape[0]
    mask = None
    if odd is not None and xp is np:  # CuPy's functions do not look at what the values are
        mask = functools.reduce(lambda a, b: a | b, (odd(xp, a) for a in arrays))
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
        return combined([ones], lambda x: Rows(x.array[where]) if isinstance(x, Rows) else x)
    even = np.flatnonzero(~mask)
    same = {id(a): a[even] for a in arrays}  # f(x, x) stays that
    most = as_rows(run(*(same[id(a)] for a in arrays)), len(even), plain)

    def merge(a: Any, b: Any) -> Any:
        if isinstance(b, Rows):
            a = a.array if isinstance(a, Rows) else np.broadcast_to(a, (len(even), *b.shape))
            if a.shape[1:] != b.shape or a.dtype != b.dtype:
                raise NoRule("odd slices have results of different shapes or dtypes")
            both = np.empty((n, *b.shape), b.dtype)
            both[even] = a
            both[mask] = b.array[where[mask]]
            return Rows(both)
        return b

    return combined([most, ones], merge)


def repeated(xp: Any, x: Any, n: int) -> Any:
    """The array of an argument, with a batch axis."""
    return x.array if isinstance(x, Rows) else xp.broadcast_to(xp.asarray(x), (n, *np.shape(x)))


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
) -> Rule:
    """The function itself along an axis of the batch.

    `data` names the parameters that have the axis, of which those that do not depend on the
    slice are repeated; `odd` are slices that run one by one; slices of fewer than `least`
    values do too. `plain` are results that are the same for all slices, `callbacks` parameters
    that may be a function of the user's.
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
        operands = {k: x for k, x in operands.items() if isinstance(x, Rows) or np.ndim(x) > 0}
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
        own = {id(x.array): Rows(xp.ascontiguousarray(x.array)) for x in leaves(operands)}
        arrays = [
            repeated(xp, own[id(x.array)] if isinstance(x, Rows) else x, n)
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

        return split(xp, call, args, kwargs, run, arrays, odd, plain)

    return rule


def _usual(x: Any) -> bool:
    """Whether an argument is an array and nothing more, such as a masked one."""
    return isinstance(x, (Rows, list, tuple)) or type(x).__name__ == "ndarray"


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


# ---------------------------------------------------------------------------- stats


def statistic(data: str, default: int | None, *, least: int = 1, odd: Any = None) -> Rule:
    """A function of scipy.stats along an axis."""
    rule = axis_call(data, default, least=least, odd=odd or flat)

    def of_version(xp: Any, call: Any, args: tuple, kwargs: dict) -> Any:
        given = [x.dtype for x in leaves((args, kwargs))]
        if xp is np and older() and any(dtype != np.float64 for dtype in given):
            return by_rows(xp, call, args, kwargs)
        if any(dtype.kind == "c" for dtype in given):  # SciPy does not support it: rounding decides
            return by_rows(xp, call, args, kwargs)
        return rule(xp, call, args, kwargs)

    return of_version


def trimmed(default: int | None) -> Rule:
    """Statistics within limits, which raise for a slice that has no values there."""

    def rule(xp: Any, call: Any, args: tuple, kwargs: dict) -> Any:
        limits = bound(call, args, kwargs).get("limits")
        if limits is None or any(leaves([limits])):
            return statistic("a", default)(xp, call, args, kwargs)
        low, high = (
            end if k is None else k for k, end in zip(limits, (-np.inf, np.inf), strict=True)
        )

        def outside(xp: Any, a: Any) -> Any:
            return flat(xp, a) | ~((a > low) & (a < high)).any(axis=_behind(a))

        return statistic("a", default, odd=outside)(xp, call, args, kwargs)

    return rule


def mode(xp: Any, call: Any, args: tuple, kwargs: dict) -> Any:
    """Along an axis."""
    if xp is np and older():
        return by_rows(xp, call, args, kwargs)
    return statistic("a", 0)(xp, call, args, kwargs)


def older() -> bool:
    """Whether SciPy's dtypes along an axis may be others than those of slices: scalars promoted."""
    version = sys.modules["scipy"].__version__.split(".")
    return tuple(map(int, version[:2])) < (1, 17)


def student_p(t: Any, dof: int, alternative: str) -> Any:
    """The p-value of a statistic with Student's distribution."""
    stdtr = sys.modules["scipy.special"].stdtr
    if alternative == "two-sided":
        return 2 * stdtr(dof, -abs(t))
    return stdtr(dof, t if alternative == "less" else -t)


def two_samples(xp: Any, call: Any, args: tuple, kwargs: dict, names: str, more: str) -> Any:
    """Two samples of 1-D values as arrays of all slices, None if a rule should not try."""
    given = bound(call, args, kwargs)
    samples: list[Any] = [given.get(k) for k in names.split()]
    others = set(given) - {*names.split(), *more.split()}
    if xp is not np or others or not all(map(_usual, samples)):
        return None
    if given.get("alternative", "two-sided") not in ("two-sided", "less", "greater"):
        return None
    n = batch_size((args, kwargs))
    arrays = [repeated(np, s, n) for s in samples]
    if any(a.ndim != 2 or a.dtype.kind not in "fiu" for a in arrays):
        return None
    if arrays[0].shape != arrays[1].shape or arrays[0].shape[1] < 3:
        return None
    return arrays, given.get("alternative", "two-sided")


def linregress(xp: Any, call: Any, args: tuple, kwargs: dict) -> Any:
    """SciPy's formulas on all slices."""
    found = two_samples(xp, call, args, kwargs, "x y", "alternative")
    if found is None:
        return by_rows(xp, call, args, kwargs)
    arrays, alternative = found
    if arrays[0].dtype != arrays[1].dtype and older():
        return by_rows(xp, call, args, kwargs)  # means in the precision of each

    def run(x: Any, y: Any) -> Any:
        n = x.shape[1]
        if x.dtype != y.dtype:
            x, y = (a.astype(np.result_type(x, y)) for a in (x, y))
        xmean, ymean = x.mean(-1), y.mean(-1)
        dx, dy = (a - a.mean(-1, keepdims=True, dtype=float) for a in (x, y))
        ssxm, ssxym, ssym = (np.vecdot(a, b) * (1 / n) for a, b in ((dx, dx), (dx, dy), (dy, dy)))
        r = np.clip(ssxym / np.sqrt(ssxm * ssym), -1.0, 1.0)
        slope = ssxym / ssxm
        t = r * np.sqrt((n - 2) / ((1.0 - r + 1e-20) * (1.0 + r + 1e-20)))
        stderr = np.sqrt((1 - r**2) * ssym / ssxm / (n - 2))
        result = result_type(
            "LinregressResult", ("slope", "intercept", "rvalue", "pvalue", "stderr")
        )
        made = result(slope, ymean - slope * xmean, r, student_p(t, n - 2, alternative), stderr)
        made.intercept_stderr = stderr * np.sqrt(ssxm + xmean**2)
        return made

    return split(xp, call, args, kwargs, run, arrays, _flat_or_extreme)


def _flat_or_extreme(xp: Any, a: Any) -> Any:
    return flat(xp, a) | extreme(xp, a)


def spearmanr(xp: Any, call: Any, args: tuple, kwargs: dict) -> Any:
    """SciPy's formulas on all slices."""
    found = two_samples(xp, call, args, kwargs, "a b", "alternative nan_policy")
    if found is None:
        return by_rows(xp, call, args, kwargs)
    arrays, alternative = found
    rankdata = sys.modules["scipy.stats"].rankdata

    def run(a: Any, b: Any) -> Any:
        n = a.shape[1]
        # SciPy stacks the two first
        dtype = np.result_type(a, b)
        da, db = (rankdata(x.astype(dtype), axis=-1) for x in (a, b))
        da, db = (x - x.mean(-1, keepdims=True) for x in (da, db))
        aa, ab, bb = (np.vecdot(x, y) * (1 / (n - 1)) for x, y in ((da, da), (da, db), (db, db)))
        r = np.clip(ab / np.sqrt(bb) / np.sqrt(aa), -1.0, 1.0)
        with np.errstate(divide="ignore"):
            t = r * np.sqrt(((n - 2) / ((r + 1.0) * (1.0 - r))).clip(0))
        made = result_type("SignificanceResult", ("statistic", "pvalue"))(
            r, student_p(t, n - 2, alternative)
        )
        made.correlation = r
        return made

    return split(xp, call, args, kwargs, run, arrays, flat)


# --------------------------------------------------------------------------- signal


def recursive(taps: str, *, sections: bool) -> Rule:
    """Along an axis. The state `zi` has the axis too, and the `sections` first if there are any."""

    def rule(xp: Any, call: Any, args: tuple, kwargs: dict) -> Any:
        given = bound(call, args, kwargs)
        x, zi = given["x"], given.pop("zi", None)
        if any(leaves([given[k] for k in taps.split()])) or not isinstance(x, Rows) or x.ndim == 0:
            return by_rows(xp, call, args, kwargs)
        n = x.array.shape[0]
        given |= {"x": x.array, "axis": shifted(given.get("axis", -1), x.ndim)}
        if zi is None:
            return as_rows(call(**given), n)
        zi = repeated(xp, zi, n)
        y, zf = call(**given, zi=xp.moveaxis(zi, 0, 1) if sections else zi)
        return Rows(y), Rows(xp.moveaxis(zf, 1, 0) if sections else zf)

    return rule


def medfilt(xp: Any, call: Any, args: tuple, kwargs: dict) -> Any:
    """The N-D function with a window of one slice."""
    given = bound(call, args, kwargs)
    x, size = given["volume"], given.get("kernel_size")
    if not isinstance(x, Rows) or x.ndim == 0 or any(leaves([size])):
        return by_rows(xp, call, args, kwargs)
    size = 3 if size is None else size
    sizes = (
        [1, *np.broadcast_to(size, x.ndim)] if np.ndim(size) == 0 else [1, *given["kernel_size"]]
    )
    return split(xp, call, args, kwargs, lambda a: call(a, sizes), [x.array], ambiguous)


def convolve(xp: Any, call: Any, args: tuple, kwargs: dict) -> Any:
    """convolve and correlate of a 1-D slice with what is the same for all: a kernel of one row."""
    given = bound(call, args, kwargs)
    x, kernel = given["in1"], given["in2"]
    mode, method = given.get("mode", "full"), given.get("method", "auto")
    if not (isinstance(x, Rows) and x.ndim == 1 and np.ndim(kernel) == 1) or any(leaves([kernel])):
        return by_rows(xp, call, args, kwargs)
    kernel = xp.asarray(kernel)
    if kernel.size > x.shape[0] or kernel.size == 0:
        return by_rows(xp, call, args, kwargs)
    integers = {x.dtype.kind, kernel.dtype.kind} & {*"iu"}
    odd = None
    if method == "auto":
        choose = sibling(call, "choose_conv_method")
        asked = [0]
        if integers:  # it depends on the largest value, which must be a number
            odd = not_finite
            fine = xp.flatnonzero(~odd(xp, x.array))
            size = abs(x.array[fine]).max(-1)
            asked = [int(fine[size.argmin()]), int(fine[size.argmax()])] if fine.size else []
        methods = {choose(x.array[b], kernel, mode) for b in set(asked)}
        if len(methods) != 1:
            return by_rows(xp, call, args, kwargs)
        (method,) = methods
    if method == "fft" or "c" in (x.dtype.kind, kernel.dtype.kind):
        odd = not_finite  # an FFT warns of NaN; complex infinities have products of their own
    run = functools.partial(call, in2=kernel[None], mode=mode, method=method)
    return split(xp, call, args, kwargs, run, [x.array], odd)


def fft_convolve(xp: Any, call: Any, args: tuple, kwargs: dict) -> Any:
    """Along the axes of a slice."""
    given = bound(call, args, kwargs)
    pair = [given.pop("in1"), given.pop("in2")]
    ndims = {_ndim(x) for x in pair}
    if len(ndims) > 1 or ndims == {0}:
        return by_rows(xp, call, args, kwargs)
    (ndim,) = ndims
    axes = given.pop("axes", None)
    axes = tuple(range(ndim)) if axes is None else tuple(np.atleast_1d(axes).tolist())
    n = batch_size(pair)
    first = repeated(xp, pair[0], n)
    second = pair[1].array if isinstance(pair[1], Rows) else xp.asarray(pair[1])[None]
    return as_rows(call(first, second, axes=shifted(axes, ndim), **given), n)


# -------------------------------------------------------------------------- ndimage

PREFIX: dict[str, Any] = {"origin": 0, "sigma": 0, "order": 0, "radius": 0, "mode": "reflect"}
KERNELS = ("footprint", "structure", "weights", "mask")


def filter_n(data_default: str | None = None, *, odd: Any = None, footprints: bool = True) -> Rule:
    """An N-D filter with a window of one slice: size (1, n).

    `data_default` is what gives the default window: "size" or "structure".
    """

    def rule(xp: Any, call: Any, args: tuple, kwargs: dict) -> Any:
        given = bound(call, args, kwargs)
        checked((), given)
        x = given.pop("input")
        ndim = x.ndim if isinstance(x, Rows) else 0
        if ndim == 0 or any(leaves(given)) or given.get("axes") is not None:
            return by_rows(xp, call, args, kwargs)
        if xp is np and not footprints and given.get("footprint") is not None:
            return by_rows(xp, call, args, kwargs)
        if data_default == "size":
            given.setdefault("size", 3)
        if data_default == "structure" and given.get("structure") is None:
            generate = sys.modules["scipy.ndimage"].generate_binary_structure
            given["structure"] = generate(ndim, 1)
        for name, first in (PREFIX | {"size": 1}).items():
            value = given.get(name)
            if value is None or isinstance(value, str):
                continue
            values = [value] * ndim if np.ndim(value) == 0 else list(value)
            if len(values) != ndim:
                return by_rows(xp, call, args, kwargs)
            given[name] = [first, *values]
        for name in KERNELS:
            if given.get(name) is not None:
                kernel = xp.asarray(given[name])[None]
                given[name] = kernel.repeat(len(x.array), axis=0) if name == "mask" else kernel
        return split(xp, call, args, kwargs, lambda a: call(a, **given), [x.array], odd)

    return rule


def derivative(smooth: Sequence[float]) -> Rule:
    """Sobel's and Prewitt's filters: differences along one axis, smoothed along the others."""

    def rule(xp: Any, call: Any, args: tuple, kwargs: dict) -> Any:
        given = bound(call, args, kwargs)
        checked((), given)
        x, axis = given.pop("input"), given.pop("axis", -1)
        mode = given.get("mode", "reflect")
        if not isinstance(x, Rows) or any(leaves(given)) or not isinstance(mode, str):
            return by_rows(xp, call, args, kwargs)
        axis = shifted(axis, x.ndim) % (x.ndim + 1)
        correlate1d = sibling(call, "correlate1d")
        a = correlate1d(x.array, xp.asarray([-1, 0, 1]), axis, **given)
        for other in range(1, x.ndim + 1):
            if other != axis:
                a = correlate1d(a, xp.asarray(smooth), other, **given | {"output": a.dtype})
        return Rows(a)

    return rule


def sibling(call: Any, name: str) -> Any:
    """Another function of the public module of `call`."""
    module = call.__module__.rpartition("._")[0]
    return getattr(sys.modules[module], name)


def of_axes(xp: Any, call: Any, args: tuple, kwargs: dict) -> Any:
    """An N-D filter that sums over axes: it is told which."""
    given = bound(call, args, kwargs)
    checked((), given)
    x = given.pop("input")
    if not isinstance(x, Rows) or any(leaves(given)) or "axes" not in signature(call).parameters:
        return by_rows(xp, call, args, kwargs)
    axes = given.pop("axes", None)
    axes = tuple(range(x.ndim)) if axes is None else tuple(np.atleast_1d(axes).tolist())
    found = call(x.array, axes=shifted(axes, x.ndim), **given)
    return as_rows(found, x.array.shape[0])


def label(xp: Any, call: Any, args: tuple, kwargs: dict) -> Any:
    """All slices in one image, in which they do not touch; each is counted from 1 again."""
    given = bound(call, args, kwargs)
    x = given.get("input")
    if not isinstance(x, Rows) or x.ndim == 0 or set(given) - {"input", "structure"}:
        return by_rows(xp, call, args, kwargs)
    if any(leaves(given.get("structure"))) or 0 in x.array.shape or x.dtype.kind == "c":
        return by_rows(xp, call, args, kwargs)
    structure = given.get("structure")
    if structure is None:
        structure = sibling(call, "generate_binary_structure")(x.ndim, 1)
    apart = xp.zeros((3,) * (x.ndim + 1), bool)
    apart[1] = xp.asarray(structure)
    found, _ = call(x.array, apart)
    # labels go up from slice to slice, and a slice without any has none
    flat = found.reshape(len(found), -1)
    top = flat.max(axis=1)
    below = xp.zeros_like(top)
    below[1:] = _running_max(xp, top)[:-1]
    counts = xp.where(top > 0, top - below, 0)
    numbers = xp.where(flat > 0, flat - below[:, None], 0).astype(found.dtype)
    return Rows(numbers.reshape(found.shape)), Rows(counts.astype(np.intp))


def _running_max(xp: Any, x: Any) -> Any:
    """The largest value up to each place, of values that go up except for zeros."""
    return np.maximum.accumulate(x) if xp is np else xp.asarray(np.maximum.accumulate(x.get()))


def spline_filter(xp: Any, call: Any, args: tuple, kwargs: dict) -> Any:
    """Along one axis of a slice after the other."""
    given = bound(call, args, kwargs)
    checked((), given)
    x = given.pop("input")
    if not isinstance(x, Rows) or x.ndim == 0 or given.get("order", 3) in (0, 1):
        return by_rows(xp, call, args, kwargs)
    if any(leaves(given)) or set(given) - {"order", "mode"}:
        return by_rows(xp, call, args, kwargs)
    once, array = sibling(call, "spline_filter1d"), x.array
    for axis in range(1, array.ndim):
        array = once(array, axis=axis, output=np.float64, **given)
    return Rows(array)


# ----------------------------------------------- integrals, linalg, distances, special


def simpson(xp: Any, call: Any, args: tuple, kwargs: dict) -> Any:
    """Along the axis; of an even number of float32 values, a slice's result is in float64."""
    given = leaves((args, kwargs))
    if any(x.dtype.char not in "dD" and x.dtype.kind in "fc" for x in given):
        return by_rows(xp, call, args, kwargs)
    return axis_call("y x")(xp, call, args, kwargs)


def istft(xp: Any, call: Any, args: tuple, kwargs: dict) -> Any:
    """Along two axes, which are counted from the end."""
    given = bound(call, args, kwargs)
    if given.get("time_axis", -1) >= 0 or given.get("freq_axis", -2) >= 0:
        return by_rows(xp, call, args, kwargs)
    _, x = axis_call("Zxx", axis_name="time_axis", plain=(0,))(xp, call, args, kwargs)
    return call_on(call, args, kwargs, 0)[0], x  # SciPy's times are those of the first axis


def nrm2(a: Any) -> Any:
    """The norms of vectors as BLAS returns them: a double of the vector's precision."""
    wide = a.astype(np.float64) if a.dtype.kind in "fiu" else a.astype(np.complex128)
    found = np.sqrt(np.vecdot(wide, wide).real)
    return found.astype(np.float32).astype(np.float64) if a.dtype.char in "fF" else found


def norm(xp: Any, call: Any, args: tuple, kwargs: dict) -> Any:
    """Of vectors along the axis."""
    given = bound(call, args, kwargs)
    a = given.get("a")
    if not isinstance(a, Rows) or a.ndim != 1 or len(list(leaves(given))) > 1:
        return by_rows(xp, call, args, kwargs)
    if set(given) == {"a"} and xp is np and a.dtype.char in "fdFDilq":
        return split(xp, call, args, kwargs, nrm2, [a.array], extreme)
    axis = given.get("axis")
    given["axis"] = -1 if axis is None else shifted(axis, 1)

    def run(a: Any) -> Any:
        return call(**given | {"a": a})

    return split(xp, call, args, kwargs, run, [a.array], extreme)


def lstsq(xp: Any, call: Any, args: tuple, kwargs: dict) -> Any:
    """A matrix that is the same for all slices, with one right-hand side per slice."""
    given = bound(call, args, kwargs)
    checked((), given)
    a, b = given.pop("a"), given.pop("b")
    if any(leaves([a, given])) or b.ndim != 1 or xp is not np or b.shape[0] == 0:
        return by_rows(xp, call, args, kwargs)

    def run(b: Any) -> Any:
        x, residues, rank, s = call(a, b.T, **given)
        if residues is not None and np.shape(residues) != b.shape[:1]:
            residues = np.repeat(np.asarray(residues)[None], b.shape[0], axis=0)
        return x.T, residues, rank, s

    return split(xp, call, args, kwargs, run, [b.array], extreme, plain=(2, 3))


def elementwise_inexact(xp: Any, call: Any, args: tuple, kwargs: dict) -> Any:
    """Elementwise unless exact=True, which returns Python's integers."""
    if bound(call, args, kwargs).get("exact"):
        return by_rows(xp, call, args, kwargs)
    return elementwise(xp, call, args, kwargs)


def distance(formula: Callable[[Any, Any], Any], odd: Any = not_finite, kinds: str = "fiu") -> Rule:
    """SciPy's formula of two vectors on all slices."""

    def rule(xp: Any, call: Any, args: tuple, kwargs: dict) -> Any:
        given = bound(call, args, kwargs)
        pair = [given.pop("u"), given.pop("v")]
        if xp is not np or (given.pop("w", None) is not None) or given:
            return by_rows(xp, call, args, kwargs)
        n = batch_size(pair)
        u, v = (repeated(np, x, n) for x in pair)
        kind = {u.dtype.kind, v.dtype.kind} <= {*kinds} and {u.dtype.char, v.dtype.char}
        if u.ndim != 2 or u.shape != v.shape or u.shape[1] == 0 or not kind or "e" in kind:
            return by_rows(xp, call, args, kwargs)
        return split(xp, call, args, kwargs, formula, [u, v], odd)

    return rule


def minkowski(xp: Any, call: Any, args: tuple, kwargs: dict) -> Any:
    """A norm of the difference; euclidean is that of p=2."""
    given = bound(call, args, kwargs)
    u, v, p = given.get("u"), given.get("v"), given.get("p", 2)
    if (
        xp is not np
        or given.get("w") is not None
        or not all(_ndim(x) == 1 for x in (u, v))
        or not isinstance(p, (int, float))
        or p <= 0
    ):
        return by_rows(xp, call, args, kwargs)
    u, v = (x.array if isinstance(x, Rows) else np.asarray(x) for x in (u, v))
    if u.shape[-1] != v.shape[-1] or not {u.dtype.char, v.dtype.char} <= {*"fdilIL"}:
        return by_rows(xp, call, args, kwargs)

    def run(difference: Any) -> Any:
        if p != 2:
            return np.linalg.norm(difference, ord=p, axis=-1)
        return nrm2(difference)

    return split(xp, call, args, kwargs, run, [u - v], extreme)


def _correlation(u: Any, v: Any) -> Any:
    return _cosine(u - u.mean(-1, keepdims=True), v - v.mean(-1, keepdims=True))


def _cosine(u: Any, v: Any) -> Any:
    uv = np.vecdot(u, v)
    return np.clip(1.0 - uv / np.sqrt(np.vecdot(u, u) * np.vecdot(v, v)), 0.0, 2.0)


def _sqeuclidean(u: Any, v: Any) -> Any:
    u, v = (x if x.dtype.kind == "f" else x.astype(np.float64) for x in (u, v))
    return np.vecdot(u - v, u - v)


def _braycurtis(u: Any, v: Any) -> Any:
    v = v.astype(np.float64)
    return abs(u - v).sum(-1) / abs(u + v).sum(-1)


def _canberra(u: Any, v: Any) -> Any:
    v = v.astype(np.float64)
    with np.errstate(invalid="ignore"):
        return np.nansum(abs(u - v) / (abs(u) + abs(v)), axis=-1)


def columns(data: str) -> Rule:
    """A system that is the same for all slices, with their right-hand sides as columns."""

    def rule(xp: Any, call: Any, args: tuple, kwargs: dict) -> Any:
        given = bound(call, args, kwargs)
        checked((), given)
        x = given.pop(data)
        if not isinstance(x, Rows) or x.ndim != 1 or x.shape[0] == 0 or any(leaves(given)):
            return by_rows(xp, call, args, kwargs)
        return Rows(xp.ascontiguousarray(call(**given | {data: x.array.T}).T))

    return rule


def structured(data: str) -> Rule:
    """Matrices that have each value in several places."""
    move = moves(data)

    def rule(xp: Any, call: Any, args: tuple, kwargs: dict) -> Any:
        given = list(leaves((args, kwargs)))
        if any(x.ndim != 1 or x.dtype.kind == "c" for x in given):  # some of them conjugated
            return by_rows(xp, call, args, kwargs)
        return move(xp, call, args, kwargs)

    return rule


# ---------------------------------------------------------------------------- rows


def _rows_of(package: str, rule: Rule, names: str, how: str = "axis") -> list[Known]:
    return table(package, how, rule, names, exact=False)


def _each(package: str, names: str) -> list[Known]:
    return table(package, "rows", by_rows, names, exact=True)


_STATS, _SIGNAL, _FFT = "scipy.stats", "scipy.signal", "scipy.fft"
_NDIMAGE, _INTEGRATE, _LINALG = "scipy.ndimage", "scipy.integrate", "scipy.linalg"
_DISTANCE, _SPECIAL = "scipy.spatial.distance", "scipy.special"

ROWS: list[Known] = [
    # descriptive statistics
    *_rows_of(_STATS, statistic("a", 0), "zscore gzscore skew kurtosis sem "
              "trim_mean tmin tmax variation moment describe gstd"),
    *_rows_of(_STATS, trimmed(0), "tvar tstd tsem"),
    *_rows_of(_STATS, trimmed(None), "tmean"),
    *_rows_of(_STATS, mode, "mode"),
    *_rows_of(_STATS, statistic("a", None, odd=with_nan), "rankdata"),
    *_rows_of(_STATS, statistic("a weights", 0), "hmean gmean pmean"),
    *_rows_of(_STATS, statistic("scores compare", 0), "zmap"),
    *_rows_of(_STATS, statistic("pk qk", 0), "entropy"),
    *_rows_of(_STATS, statistic("values", 0), "differential_entropy"),
    *_rows_of(_STATS, statistic("x", None), "iqr"),
    *_rows_of(_STATS, statistic("x", 0), "median_abs_deviation"),
    *_rows_of(_STATS, statistic("samples", None), "circmean circvar circstd"),
    *_rows_of(_STATS, statistic("data", None), "kstat kstatvar"),
    *_each(_STATS, "percentileofscore scoreatpercentile cumfreq relfreq trimboth trim1 expectile"),
    # tests: of few values they warn, and differently along an axis
    *_rows_of(_STATS, statistic("a", 0, least=10), "normaltest skewtest kurtosistest"),
    *_rows_of(_STATS, statistic("x", None, least=10), "jarque_bera"),
    *_rows_of(_STATS, statistic("a", 0, least=4), "ttest_1samp"),
    *_rows_of(_STATS, statistic("a b", 0, least=4), "ttest_ind ttest_rel"),
    *_rows_of(_STATS, statistic("*samples", 0, least=4), "f_oneway"),
    *_rows_of(_STATS, statistic("x y", 0, least=4), "pearsonr"),
    *_rows_of(_STATS, linregress, "linregress", "own"),
    *_rows_of(_STATS, spearmanr, "spearmanr", "own"),
    *_each(_STATS, "shapiro wilcoxon mannwhitneyu kruskal ks_2samp kendalltau theilslopes "
           "siegelslopes ranksums brunnermunzel levene bartlett fligner ansari mood "
           "friedmanchisquare chisquare power_divergence kstest ks_1samp anderson weightedtau "
           "pointbiserialr energy_distance wasserstein_distance"),
    # special functions that are no ufuncs
    *_rows_of(_SPECIAL, axis_call("a b", None), "logsumexp"),
    *_rows_of(_SPECIAL, axis_call("x", None), "softmax log_softmax"),
    *_rows_of(_SPECIAL, elementwise_inexact, "comb perm factorial factorial2", "elementwise"),
    # signals
    *_rows_of(_SIGNAL, axis_call("x", odd=extreme), "savgol_filter"),  # LAPACK fits the ends
    *_rows_of(_SIGNAL, axis_call("x"), "filtfilt sosfiltfilt hilbert decimate upfirdn czt "
              "zoom_fft"),
    *_rows_of(_SIGNAL, axis_call("x", 0, plain=(1,)), "resample resample_poly"),
    *_rows_of(_SIGNAL, axis_call("data", odd=extreme), "detrend"),
    *_rows_of(_SIGNAL, recursive("b a", sections=False), "lfilter"),
    *_rows_of(_SIGNAL, recursive("sos", sections=True), "sosfilt"),
    *_rows_of(_SIGNAL, istft, "istft"),
    *_rows_of(_SIGNAL, medfilt, "medfilt", "own"),
    *_rows_of(_SIGNAL, convolve, "convolve correlate", "own"),
    *_rows_of(_SIGNAL, fft_convolve, "fftconvolve oaconvolve"),
    *_rows_of(_SIGNAL, axis_call("x", plain=(0,), callbacks="detrend"), "periodogram welch"),
    *_rows_of(_SIGNAL, axis_call("x y", plain=(0,), callbacks="detrend"), "csd coherence"),
    *_rows_of(_SIGNAL, axis_call("x", plain=(0, 1), callbacks="detrend"), "spectrogram stft"),
    *_each(_SIGNAL, "wiener deconvolve lfilter_zi sosfilt_zi lombscargle order_filter "
           "envelope"),
    # transforms
    *_rows_of("scipy.fftpack", axis_call("x"), "fft ifft rfft irfft dct idct dst idst"),
    *_rows_of("scipy.fftpack", fft_n, "fft2 ifft2 fftn ifftn"),
    *_rows_of(_FFT, axis_call("x"), "fft ifft rfft irfft hfft ihfft dct idct dst idst"),
    *_rows_of(_FFT, fft_n, "fft2 ifft2 rfft2 irfft2 hfft2 ihfft2 fftn ifftn rfftn irfftn hfftn "
              "ihfftn dctn idctn dstn idstn fftshift ifftshift"),
    *_each(_FFT, "fht ifht"),
    # images
    *_rows_of(_NDIMAGE, axis_call("input"), "gaussian_filter1d uniform_filter1d minimum_filter1d "
              "maximum_filter1d correlate1d convolve1d spline_filter1d"),
    *_rows_of(_NDIMAGE, filter_n(), "gaussian_filter convolve correlate minimum_filter "
              "maximum_filter grey_erosion grey_dilation grey_opening grey_closing white_tophat "
              "black_tophat morphological_gradient morphological_laplace", "own"),
    *_rows_of(_NDIMAGE, filter_n("size"), "uniform_filter", "own"),
    *_rows_of(_NDIMAGE, filter_n(odd=ambiguous, footprints=False), "median_filter rank_filter "
              "percentile_filter", "own"),
    *_rows_of(_NDIMAGE, filter_n("structure"), "binary_erosion binary_dilation binary_opening "
              "binary_closing binary_propagation binary_fill_holes", "own"),
    *_rows_of(_NDIMAGE, derivative([1, 2, 1]), "sobel", "own"),
    *_rows_of(_NDIMAGE, derivative([1, 1, 1]), "prewitt", "own"),
    *_rows_of(_NDIMAGE, of_axes, "laplace gaussian_laplace", "own"),
    *_each(_NDIMAGE, "gaussian_gradient_magnitude zoom shift map_coordinates affine_transform "
           "distance_transform_edt distance_transform_cdt "
           "distance_transform_bf center_of_mass sum sum_labels mean median variance "
           "standard_deviation minimum maximum minimum_position maximum_position extrema "
           "histogram fourier_gaussian fourier_uniform fourier_shift binary_hit_or_miss"),
    *_rows_of(_NDIMAGE, spline_filter, "spline_filter"),
    *_rows_of(_NDIMAGE, label, "label", "own"),
    # integrals
    *_rows_of(_INTEGRATE, axis_call("y x"), "trapezoid cumulative_trapezoid "
              "cumulative_simpson"),
    *_rows_of(_INTEGRATE, axis_call("y"), "romb"),
    *_rows_of(_INTEGRATE, simpson, "simpson"),
    # matrices
    *_rows_of(_LINALG, norm, "norm", "own"),
    *_rows_of(_LINALG, lstsq, "lstsq", "own"),
    *_rows_of(_LINALG, columns("b"), "solve_triangular lu_solve cho_solve", "own"),
    *_rows_of(_LINALG, structured("c r"), "toeplitz hankel", "moves"),
    *_rows_of(_LINALG, structured("c"), "circulant", "moves"),
    *_each(_LINALG, "det inv solve eig eigvals eigh eigvalsh svd svdvals pinv pinvh expm logm "
           "sqrtm qr cholesky solve_toeplitz matmul_toeplitz solve_banded solveh_banded "
           "solve_circulant lu lu_factor polar schur"),
    # distances
    *_rows_of(_DISTANCE, minkowski, "euclidean minkowski", "own"),
    *_rows_of(_DISTANCE, distance(_sqeuclidean, extreme), "sqeuclidean", "own"),
    *_rows_of(_DISTANCE, distance(lambda u, v: abs(u - v).sum(-1)), "cityblock", "own"),
    *_rows_of(_DISTANCE, distance(lambda u, v: abs(u - v).max(-1)), "chebyshev", "own"),
    *_rows_of(_DISTANCE, distance(lambda u, v: (u != v).mean(-1)), "hamming", "own"),
    *_rows_of(_DISTANCE, distance(_cosine, flat, "f"), "cosine", "own"),
    *_rows_of(_DISTANCE, distance(_correlation, flat), "correlation", "own"),
    *_rows_of(_DISTANCE, distance(_braycurtis), "braycurtis", "own"),
    *_rows_of(_DISTANCE, distance(_canberra), "canberra", "own"),
    *_rows_of(_DISTANCE, statistic("p q", 0), "jensenshannon"),
    *_each(_DISTANCE, "jaccard dice yule rogerstanimoto russellrao sokalsneath mahalanobis "
           "seuclidean pdist cdist squareform"),
    *interpolators.ROWS,
]  # fmt: skip
