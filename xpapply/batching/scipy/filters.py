"""Rules of `scipy.signal` and `scipy.ndimage`."""

from __future__ import annotations

import functools
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import Batched, in_namespace
from ..function_rules import cache_parts
from ..rules import _ndim, batch_size, bound, leaves, shifted, signature
from .axis import (
    Rule,
    ambiguous,
    as_rows,
    axis_call,
    by_rows,
    call_on,
    checked,
    not_finite,
    repeated,
    split,
)

PREFIX: dict[str, Any] = {"origin": 0, "sigma": 0, "order": 0, "radius": 0, "mode": "reflect"}

# --------------------------------------------------------------------------- signal


def recursive(taps: str, *, sections: bool) -> Rule:
    """Along an axis. The state `zi` has the axis too, and the `sections` first if there are any."""

    def rule(xp: Any, call: Any, args: tuple, kwargs: dict) -> Any:
        given = bound(call, args, kwargs)
        x, zi = given["x"], given.pop("zi", None)
        if (
            any(leaves([given[k] for k in taps.split()]))
            or not isinstance(x, Batched)
            or x.ndim == 0
        ):
            return by_rows(xp, call, args, kwargs)
        n = x.array.shape[0]
        given |= {"x": x.array, "axis": shifted(given.get("axis", -1), x.ndim)}
        if zi is None:
            return as_rows(call(**given), n)
        zi = repeated(xp, zi, n)
        y, zf = call(**given, zi=xp.moveaxis(zi, 0, 1) if sections else zi)
        return Batched(y), Batched(xp.moveaxis(zf, 1, 0) if sections else zf)

    return rule


def medfilt(xp: Any, call: Any, args: tuple, kwargs: dict) -> Any:
    """The N-D function with a window of one slice; medfilt2d is that of two axes."""
    given = bound(call, args, kwargs)
    x, size = given.get("volume", given.get("input")), given.get("kernel_size")
    if not isinstance(x, Batched) or x.ndim == 0 or any(leaves([size])):
        return by_rows(xp, call, args, kwargs)
    if "input" in given:
        if x.ndim != 2 or xp is not np:
            return by_rows(xp, call, args, kwargs)
        filtered = sibling(call, "medfilt")
    else:
        filtered = call
    size = 3 if size is None else size
    sizes = (
        [1, *np.broadcast_to(size, x.ndim)] if np.ndim(size) == 0 else [1, *given["kernel_size"]]
    )
    if "input" in given and any(
        k > n or k % 2 == 0 for k, n in zip(sizes[1:], x.shape, strict=True)
    ):
        return by_rows(xp, call, args, kwargs)  # of which the other function warns
    return split(xp, call, args, kwargs, lambda a: filtered(a, sizes), [x.array], ambiguous)


def convolve(xp: Any, call: Any, args: tuple, kwargs: dict) -> Any:
    """convolve and correlate of a slice with what is the same for all: a kernel of one slice."""
    given = bound(call, args, kwargs)
    x, kernel = given["in1"], given["in2"]
    mode, method = given.get("mode", "full"), given.get("method", "auto")
    if not isinstance(x, Batched) or x.ndim == 0 or any(leaves([kernel])):
        return by_rows(xp, call, args, kwargs)
    kernel = xp.asarray(kernel)
    if not _fits(kernel, x.shape):
        return by_rows(xp, call, args, kwargs)
    integers = {x.dtype.kind, kernel.dtype.kind} & {*"iu"}
    odd = None
    if method == "auto":
        choose = sibling(call, "choose_conv_method")
        asked = [0]
        if integers:  # it depends on the largest value, which must be a number
            odd = not_finite
            fine = xp.flatnonzero(~odd(xp, x.array))
            size = abs(x.array[fine]).max(axis=tuple(range(1, x.ndim + 1)))
            asked = [int(fine[size.argmin()]), int(fine[size.argmax()])] if fine.size else []
        methods = {choose(x.array[b], kernel, mode) for b in set(asked)}
        if len(methods) != 1:
            return by_rows(xp, call, args, kwargs)
        (method,) = methods
    if method == "fft" or "c" in (x.dtype.kind, kernel.dtype.kind):
        odd = not_finite  # an FFT warns of NaN; complex infinities have products of their own
    array = x.array
    if method == "direct":  # SciPy casts memory that nothing was written to, which may warn
        array = array.astype(np.result_type(array, kernel), copy=False)
    run = functools.partial(call, in2=kernel[None], mode=mode, method=method)
    return split(xp, call, args, kwargs, run, [array], odd)


def _fits(kernel: Any, shape: tuple[int, ...]) -> bool:
    """Whether a kernel has as many axes as a slice, none longer, and any element."""
    return kernel.ndim == len(shape) and all(
        0 < k <= n for k, n in zip(kernel.shape, shape, strict=True)
    )


MANY_TAPS = 49
"""The number of taps up to which sums of shifted slices beat SciPy's loops."""


@np.errstate(all="ignore")  # as SciPy's loops, which tell of nothing
def _shifted_sums(x: Any, kernel: Any, turned: bool) -> Any:
    """The full convolution of images ``(B, H, W)`` with one kernel; `turned`: the correlation.

    In SciPy's order, which begins with the first number of the kernel as it is given.
    """
    taps = list(np.ndenumerate(np.flip(kernel) if turned else kernel))
    height, width = x.shape[1:]
    shape = tuple(n + k - 1 for n, k in zip((height, width), kernel.shape, strict=True))
    found = np.zeros((len(x), *shape), np.result_type(x, kernel))
    for part in cache_parts(len(x), 2 * found[0].nbytes):
        images = x[part].astype(found.dtype, copy=False)
        into = found[part]
        for (i, j), tap in taps[::-1] if turned else taps:
            into[:, i : i + height, j : j + width] += images * found.dtype.type(tap)
    return found


def convolve2d(xp: Any, call: Any, args: tuple, kwargs: dict) -> Any:
    """A sum over the kernel, or of a large one the function itself, on one tall image.

    In that the slices are apart by the zeros that are around each of them anyway.
    """
    given = bound(call, args, kwargs)
    x, kernel, mode = given["in1"], given["in2"], given.get("mode", "full")
    if not isinstance(x, Batched) or any(leaves([kernel])) or xp is not np or x.ndim != 2:
        return by_rows(xp, call, args, kwargs)
    kernel = np.asarray(kernel)
    if set(given) - {"in1", "in2", "mode"} or mode not in ("full", "same", "valid"):
        return by_rows(xp, call, args, kwargs)
    if not _fits(kernel, x.shape):
        return by_rows(xp, call, args, kwargs)
    height, width = x.shape
    more = [k - 1 for k in kernel.shape]
    turned = call.__name__ == "correlate2d"
    if {x.dtype.char, kernel.dtype.char} <= {*"fd"} and kernel.size <= MANY_TAPS:
        found = _shifted_sums(x.array, kernel, turned)
    else:
        tall = np.zeros((len(x.array), height + more[0], width), x.dtype)
        tall[:, :height] = x.array
        found = call(tall.reshape(-1, width), kernel, "full")[: len(tall) * tall.shape[1]]
        found = found.reshape(*tall.shape[:2], width + more[1])
    if mode == "full":
        return Batched(found)
    if mode == "same":
        # a kernel of an even length is moved by turning it
        starts, sizes = [(m + turned) // 2 for m in more], [height, width]
    else:
        starts, sizes = more, [height - more[0], width - more[1]]
    rows, columns = (slice(a, a + k) for a, k in zip(starts, sizes, strict=True))
    return Batched(np.ascontiguousarray(found[:, rows, columns]))


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
    second = pair[1].array if isinstance(pair[1], Batched) else xp.asarray(pair[1])[None]
    return as_rows(call(first, second, axes=shifted(axes, ndim), **given), n)


# -------------------------------------------------------------------------- ndimage

KERNELS = ("footprint", "structure", "weights", "mask")


def filter_n(data_default: str | None = None, *, odd: Any = None, footprints: bool = True) -> Rule:
    """An N-D filter with a window of one slice: size (1, n).

    `data_default` is what gives the default window: "size" or "structure".
    """

    def rule(xp: Any, call: Any, args: tuple, kwargs: dict) -> Any:
        given = bound(call, args, kwargs)
        checked((), given)
        x = given.pop("input")
        ndim = x.ndim if isinstance(x, Batched) else 0
        if ndim == 0 or any(leaves(given)) or given.get("axes") is not None:
            return by_rows(xp, call, args, kwargs)
        if xp is np and not footprints and given.get("footprint") is not None:
            return by_rows(xp, call, args, kwargs)
        if data_default == "size":
            given.setdefault("size", 3)
        if data_default == "structure" and given.get("structure") is None:
            generate = in_namespace(xp, "scipy.ndimage.generate_binary_structure")
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


def hit_or_miss(xp: Any, call: Any, args: tuple, kwargs: dict) -> Any:
    """Two structures with a window of one slice."""
    given = bound(call, args, kwargs)
    checked((), given)
    x = given.pop("input")
    ndim = x.ndim if isinstance(x, Batched) else 0
    parameters = {"structure1", "structure2", "origin1", "origin2"}
    if ndim == 0 or any(leaves(given)) or given.keys() - parameters:
        return by_rows(xp, call, args, kwargs)
    if given.get("structure1") is None:
        given["structure1"] = sibling(call, "generate_binary_structure")(ndim, 1)
    for name, value in given.items():
        if value is None:
            continue
        if name.startswith("structure"):
            given[name] = xp.asarray(value)[None]
        else:
            given[name] = [0, *([value] * ndim if np.ndim(value) == 0 else value)]
    return Batched(call(x.array, **given))


def derivative(smooth: Sequence[float]) -> Rule:
    """Sobel's and Prewitt's filters: differences along one axis, smoothed along the others."""

    def rule(xp: Any, call: Any, args: tuple, kwargs: dict) -> Any:
        given = bound(call, args, kwargs)
        checked((), given)
        x, axis = given.pop("input"), given.pop("axis", -1)
        mode = given.get("mode", "reflect")
        if not isinstance(x, Batched) or any(leaves(given)) or not isinstance(mode, str):
            return by_rows(xp, call, args, kwargs)
        axis = shifted(axis, x.ndim) % (x.ndim + 1)
        correlate1d = sibling(call, "correlate1d")
        a = correlate1d(x.array, xp.asarray([-1, 0, 1]), axis, **given)
        for other in range(1, x.ndim + 1):
            if other != axis:
                a = correlate1d(a, xp.asarray(smooth), other, **given | {"output": a.dtype})
        return Batched(a)

    return rule


def sibling(call: Any, name: str) -> Any:
    """Another function of the public module of `call`."""
    module = call.__module__.rpartition("._")[0]
    return getattr(sys.modules[module], name)


def of_axes(xp: Any, call: Any, args: tuple, kwargs: dict) -> Any:
    """An N-D filter that sums over axes, which are passed explicitly."""
    given = bound(call, args, kwargs)
    checked((), given)
    x = given.pop("input")
    if not isinstance(x, Batched) or any(leaves(given)) or "axes" not in signature(call).parameters:
        return by_rows(xp, call, args, kwargs)
    axes = given.pop("axes", None)
    axes = tuple(range(x.ndim)) if axes is None else tuple(np.atleast_1d(axes).tolist())
    found = call(x.array, axes=shifted(axes, x.ndim), **given)
    return as_rows(found, x.array.shape[0])


def label(xp: Any, call: Any, args: tuple, kwargs: dict) -> Any:
    """All slices in one image, in which they do not touch; each is counted from 1 again."""
    given = bound(call, args, kwargs)
    x = given.get("input")
    if not isinstance(x, Batched) or x.ndim == 0 or set(given) - {"input", "structure"}:
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
    return Batched(numbers.reshape(found.shape)), Batched(counts.astype(np.intp))


def center_of_mass(xp: Any, call: Any, args: tuple, kwargs: dict) -> Any:
    """Of slices with one axis: of more, sums are in the order in which a slice lies."""
    given = bound(call, args, kwargs)
    x = given.get("input")
    if xp is not np or set(given) - {"input"} or not isinstance(x, Batched) or x.ndim != 1:
        return by_rows(xp, call, args, kwargs)
    if x.array.shape[1] == 0 or not (x.dtype.kind in "iu" or x.dtype == np.float64):
        return by_rows(xp, call, args, kwargs)

    def run(a: Any) -> Any:
        return ((a * np.arange(float(a.shape[1]))).sum(-1) / a.sum(-1),)

    def without_mass(xp: Any, a: Any) -> Any:
        return ~np.isfinite(a).all(-1) | (a.sum(-1) == 0)

    return split(xp, call, args, kwargs, run, [np.ascontiguousarray(x.array)], without_mass)


def _running_max(xp: Any, x: Any) -> Any:
    """The largest value up to each place, of values that go up except for zeros."""
    return np.maximum.accumulate(x) if xp is np else xp.asarray(np.maximum.accumulate(x.get()))


def spline_filter(xp: Any, call: Any, args: tuple, kwargs: dict) -> Any:
    """Along one axis of a slice after the other."""
    given = bound(call, args, kwargs)
    checked((), given)
    x = given.pop("input")
    if not isinstance(x, Batched) or x.ndim == 0 or given.get("order", 3) in (0, 1):
        return by_rows(xp, call, args, kwargs)
    if any(leaves(given)) or set(given) - {"order", "mode"}:
        return by_rows(xp, call, args, kwargs)
    once, array = sibling(call, "spline_filter1d"), x.array
    for axis in range(1, array.ndim):
        array = once(array, axis=axis, output=np.float64, **given)
    return Batched(array)


def istft(xp: Any, call: Any, args: tuple, kwargs: dict) -> Any:
    """Along two axes, which are counted from the end."""
    given = bound(call, args, kwargs)
    if given.get("time_axis", -1) >= 0 or given.get("freq_axis", -2) >= 0:
        return by_rows(xp, call, args, kwargs)
    _, x = axis_call("Zxx", axis_name="time_axis", plain=(0,))(xp, call, args, kwargs)
    return call_on(call, args, kwargs, 0)[0], x  # SciPy's times are those of the first axis
