"""Convolution and pooling of arrays of any library and layout."""

from __future__ import annotations

import math
from collections.abc import Sequence
from types import ModuleType
from typing import Any

import numpy as np

from . import arrays
from .errors import InputError
from .functions.cache import remembered
from .ir.builder import Builder
from .ir.graph import Graph, ShapeDtype
from .ir.tiles import windows
from .planning import engines

__all__ = ["avg_pool", "conv", "max_pool"]


def conv(
    x: Any,
    w: Any,
    bias: Any = None,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] | str = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
    layout: str = "bc01",
    flip: bool = False,
) -> Any:
    """Convolve arrays with filters, in 1-D, 2-D or 3-D.

    Parameters
    ----------
    x : array
        A NumPy, CuPy or torch array, or one of the array API standard, with the axes of `layout`.
    w : array_like, shape (N, C / groups, taps...)
        Filters, of any lengths along each axis, in this order whatever the layout is.
    bias : array_like, shape (N,), optional
        Added to each channel of the result.
    stride, dilation : int or sequence of int, optional
        Steps between windows, and between what is in them; one for each axis of places.
    padding : int, sequence of int, "valid", "same" or "full", optional
        Zeros before and after each axis of places. With "same" the result is as long as `x`: the
        middle of "full", which has every place where filter and `x` meet.
    groups : int, optional
        Channels are cut into so many groups, each with filters of its own.
    layout : str, optional
        A letter for each axis of `x`, and of the result: b for the batch, c for channels, 0, 1 and
        2 for places: "bc01" (torch), "b01c" (images), "c01b" (the layout of cuda-convnet), "bc0",
        "b012c" ... Without b there is one image.
    flip : bool, optional
        Turn the filters around: what mathematics calls a convolution (`scipy.signal.convolve`).
        By default they are not, as in torch.

    Returns
    -------
    array
        Of the library, on the device and in the layout of `x`. dtype: what `x` and `w` promote to;
        integers are computed in float64. Tensors are torch's own work, which autograd records.

    Raises
    ------
    InputError
        For a layout that does not fit, or wrong channels or sizes, with what was found.

    Notes
    -----
    NumPy's and CuPy's arrays are convolved in blocks, by products of matrices, in memory that does
    not grow with the batch.

    Examples
    --------
    >>> import numpy as np, xpapply
    >>> x = np.arange(8.0).reshape(1, 1, 8)
    >>> xpapply.conv(x, [[[1.0, 0.0, -1.0]]], layout="bc0")
    array([[[-2., -2., -2., -2., -2., -2.]]])
    >>> xpapply.conv(x, [[[1.0, 0.0, -1.0]]], padding="same", layout="bc0", flip=True)[0, 0]
    array([ 1.,  2.,  2.,  2.,  2.,  2.,  2., -6.])
    >>> images = np.ones((5, 28, 28, 3), np.float32)
    >>> xpapply.conv(images, np.ones((8, 3, 3, 5), np.float32), layout="b01c").shape
    (5, 26, 24, 8)
    """
    n = _places("conv", x, layout)
    filters = arrays.asarray(w, x) if arrays.library(w) is None else w
    if filters.ndim != n + 2:
        raise InputError(
            f"conv with layout {layout!r} takes filters (N, C, {n} lengths), "
            f"found shape {tuple(filters.shape)}"
        )
    steps, apart = windows.each(stride, n), windows.each(dilation, n)
    taps = tuple(filters.shape[2:])
    widths = windows.sides("conv", padding, taps, steps, apart, flip)
    channels = x.shape[layout.index("c")]
    if channels != filters.shape[1] * groups or filters.shape[0] % groups:
        raise InputError(
            f"conv takes {filters.shape[1] * groups} channels (filters of shape "
            f"{tuple(filters.shape)}, groups={groups}), found {channels} in shape "
            f"{tuple(x.shape)} with layout {layout!r}"
        )
    if arrays.library(x) == "torch":
        return _torch_conv(x, filters, bias, steps, widths, apart, groups, layout, flip)
    dtype = _dtype(x, filters)
    taken = np.asarray(arrays.on_host(filters)).astype(dtype)
    taken = np.flip(taken, tuple(range(2, n + 2))) if flip else taken
    if groups > 1:
        taken = taken.reshape(groups, -1, *taken.shape[1:])
    consts = [np.ascontiguousarray(taken)]
    if bias is not None:
        offsets = np.asarray(arrays.on_host(bias)).astype(dtype)
        if offsets.shape != (filters.shape[0],):
            raise InputError(f"conv with {filters.shape[0]} filters, bias of {offsets.shape}")
        consts.append(offsets.reshape(-1, *(1,) * n))
    avals = tuple(ShapeDtype(c.shape, c.dtype.name) for c in consts)
    how = ("conv", (tuple(widths), steps, apart, groups), avals)
    return _run(x, layout, dtype, how, consts)


def max_pool(
    x: Any,
    size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    ceil_mode: bool = False,
    layout: str = "bc01",
) -> Any:
    """The largest numbers in windows, in 1-D, 2-D or 3-D; NaN is larger than any.

    Parameters
    ----------
    x : array
        With the axes of `layout`.
    size, stride : int or sequence of int
        Of windows, and between them: as large as windows are, if it is not given.
    padding : int or sequence of int, optional
        How far windows reach beyond the ends, at most half of them: what is there does not count.
    dilation : int or sequence of int, optional
        Steps between what is in a window.
    ceil_mode : bool, optional
        With a last window that reaches beyond the end.
    layout : str, optional
        As for `conv`.

    Returns
    -------
    array
        Of the library, on the device, in the layout and of the dtype of `x`; integers are
        computed in float64.

    Raises
    ------
    InputError
        For a layout that does not fit, or windows that are larger than `x`.

    Examples
    --------
    >>> import numpy as np, xpapply
    >>> xpapply.max_pool(np.array([[[1.0, 5.0, 2.0, 4.0]]]), 2, 1, layout="bc0")
    array([[[5., 5., 4.]]])
    """
    n = _places("max_pool", x, layout)
    given = size, size if stride is None else stride, padding, dilation
    sizes, steps, pads, apart = (windows.each(k, n) for k in given)
    if arrays.library(x) == "torch":
        import torch

        pooled = sizes, steps, pads, apart, ceil_mode
        return _on_tensor(f"max_pool{n}d", x, layout, *pooled, torch=torch)
    how = ("max_pool", (sizes, steps, pads, apart, ceil_mode), ())
    return _run(x, layout, _dtype(x), how, ())


def avg_pool(
    x: Any,
    size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    layout: str = "bc01",
) -> Any:
    """Means of windows, in 1-D, 2-D or 3-D.

    Parameters
    ----------
    x, size, stride, padding, ceil_mode, layout
        As for `max_pool`; what is beyond the ends is 0.
    count_include_pad : bool, optional
        Whether these zeros count.

    Returns
    -------
    array
        As from `max_pool`.

    Raises
    ------
    InputError
        For a layout that does not fit, or windows that are larger than `x`.

    Examples
    --------
    >>> import numpy as np, xpapply
    >>> xpapply.avg_pool(np.array([[[1.0, 5.0, 2.0, 4.0]]]), 2, layout="bc0")
    array([[[3., 3.]]])
    """
    n = _places("avg_pool", x, layout)
    given = size, size if stride is None else stride, padding
    sizes, steps, pads = (windows.each(k, n) for k in given)
    if arrays.library(x) == "torch":
        import torch

        pooled = sizes, steps, pads, ceil_mode, count_include_pad
        return _on_tensor(f"avg_pool{n}d", x, layout, *pooled, torch=torch)
    how = ("avg_pool", (sizes, steps, pads, ceil_mode, count_include_pad), ())
    return _run(x, layout, _dtype(x), how, ())


# --- what is asked ------------------------------------------------------------------------


def _places(name: str, x: Any, layout: str) -> int:
    """The number of spatial axes of a layout, checked against `x`."""
    if arrays.library(x) is None:
        raise InputError(f"{name} takes an array, found {type(x).__name__}")
    digits = sorted(k for k in layout if k.isdigit())
    n = len(digits)
    rest = sorted(k for k in layout if not k.isdigit())
    if digits != list("012"[:n]) or not n or rest not in (["c"], ["b", "c"]):
        raise InputError(
            f"{name} with layout {layout!r}: give each axis once, b (batch), c (channels) and "
            "0, 01 or 012 (places), as in 'bc01'"
        )
    if len(layout) != x.ndim:
        raise InputError(f"{name} with layout {layout!r} of an array of shape {tuple(x.shape)}")
    return n


def _dtype(*given: Any) -> str:
    names = [arrays.dtype_name(x) for x in given]
    if any(name.startswith(("complex", "bool")) for name in names):
        raise InputError(
            f"convolution and pooling of {' and '.join(names)}: real numbers are known"
        )
    if "bfloat16" in names:
        return "bfloat16"
    found = np.result_type(*names)
    return found.name if found.kind == "f" else "float64"


# --- arrays -------------------------------------------------------------------------------


@remembered(256)
def _graph(how: tuple[Any, ...], order: str, aval: ShapeDtype, dtype: str) -> Graph:
    """The graph for one image that lies flat, with its axes in this order; without constants."""
    name, avals = how[0], how[2]
    given: Any = how[1]
    builder = Builder()
    x = builder.input(ShapeDtype((math.prod(aval.shape),), aval.dtype))
    inside = "float32" if dtype in ("float16", "bfloat16") else dtype
    if aval.dtype != inside:
        x = builder.op("cast", x, dtype=inside)
    x = builder.op("reshape", x, shape=aval.shape)
    letters = "c" + "".join(sorted(k for k in order if k.isdigit()))
    n = len(letters) - 1
    if order != letters:
        x = builder.op("permute_dims", x, axes=tuple(order.index(k) for k in letters))
    if name == "conv":
        widths, steps, apart, groups = given
        consts = [builder.const(np.empty(a.shape, inside)) for a in avals]
        x = windows.convolution(name, x, consts[0], 0, widths, steps, apart, groups)
        x = x + consts[1] if len(consts) > 1 else x
    elif name == "max_pool":
        sizes, steps, pads, apart, ceil = given
        x = windows.max_pool(name, x, 1, sizes, steps, pads, apart, ceil, n)
    else:
        sizes, steps, pads, ceil, count = given
        x = windows.avg_pool(name, x, 1, sizes, steps, pads, ceil, count, None, n)
    if order != letters:
        x = builder.op("permute_dims", x, axes=tuple(letters.index(k) for k in order))
    return builder.graph(x if inside == dtype else builder.op("cast", x, dtype=dtype))


def _run(x: Any, layout: str, dtype: str, how: tuple[Any, ...], consts: Sequence[Any]) -> Any:
    """All images of an array, through the engine that runs networks on it."""
    xp = arrays.compat(x)
    at = layout.find("b")
    order = layout.replace("b", "")
    shape = tuple(x.shape[layout.index(k)] for k in order)
    if 0 in shape:
        raise InputError(f"{how[0]} of an array of shape {tuple(x.shape)}")
    if 0 in x.shape:  # of no images: one of zeros says what a result is
        one = tuple(n or 1 for n in x.shape)
        zeros = xp.zeros(one, dtype=x.dtype, **arrays.beside(x))
        return _run(zeros, layout, dtype, how, consts)[(*(slice(None),) * at, slice(0, 0), ...)]
    graph = _graph(how, order, ShapeDtype(shape, arrays.dtype_name(x)), dtype)
    wide = "float32" if dtype in ("float16", "bfloat16") else dtype
    graph = Graph(graph.nodes, graph.outs, tuple(c.astype(wide) for c in consts) or graph.consts)
    last = at == len(order) and at > 0
    images = x if at < 0 or last else xp.moveaxis(x, at, 0)
    count = x.shape[at] if at >= 0 else 1
    flat = xp.reshape(images, (-1, count) if last else (count, -1))
    found = engines.chosen(engines.Bound(graph), flat, 0 if last else 1)(flat, 0 if last else 1)
    if at < 0:
        return found[0, ...]
    return found if last else xp.moveaxis(found, 0, at)


# --- tensors ------------------------------------------------------------------------------


def _torch_conv(
    x: Any,
    w: Any,
    bias: Any,
    steps: Sequence[int],
    widths: Sequence[tuple[int, int]],
    apart: Sequence[int],
    groups: int,
    layout: str,
    flip: bool,
) -> Any:
    import torch

    n = len(steps)
    w = _tensor(torch, w, x)
    dtype = torch.promote_types(x.dtype, w.dtype)
    dtype = dtype if dtype.is_floating_point else torch.float64
    if dtype.is_complex or torch.bool in (x.dtype, w.dtype):
        raise InputError(f"conv of {x.dtype} and {w.dtype}: real numbers are known")
    b = None if bias is None else _tensor(torch, bias, x).to(dtype)
    w = w.to(dtype)
    w = w.flip(*range(2, n + 2)) if flip else w
    pads = tuple(before for before, _ in widths)
    x = x.to(dtype)
    if any(before != after for before, after in widths):
        axes = [[0, 0] for _ in layout]
        for k, pair in enumerate(widths):
            axes[layout.index(str(k))] = list(pair)
        x = torch.nn.functional.pad(x, [k for pair in reversed(axes) for k in pair])
        pads = (0,) * n
    for k in range(n):
        places = x.shape[layout.index(str(k))] + 2 * pads[k]
        windows.count_of_windows("conv", places, w.shape[2 + k], steps[k], apart[k])
    return _on_tensor(f"conv{n}d", x, layout, w, b, steps, pads, apart, groups, torch=torch)


def _tensor(torch: ModuleType, w: Any, x: Any) -> Any:
    if isinstance(w, torch.Tensor):
        if w.device != x.device:
            raise InputError(f"conv of a tensor on {x.device} with one on {w.device}")
        return w
    return torch.as_tensor(np.array(arrays.on_host(w)), device=x.device)


def _on_tensor(name: str, x: Any, layout: str, *args: Any, torch: ModuleType) -> Any:
    """torch's own function, on a view with its axes in torch's order."""
    letters = "bc"["b" not in layout :] + "".join(sorted(k for k in layout if k.isdigit()))
    view = x.permute([layout.index(k) for k in letters])
    if not x.dtype.is_floating_point:
        view = view.to(torch.float64)
    function = getattr(torch.nn.functional, name)
    try:
        found = function(view, *args)
    except RuntimeError as error:
        if "out of memory" in str(error):
            raise
        raise InputError(f"{name} of shape {tuple(x.shape)}, layout {layout!r}: {error}") from None
    return found.permute([letters.index(k) for k in layout])
