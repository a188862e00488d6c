"""Strategies for Hypothesis that draw arrays and networks."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..ir.ops import OPS, Op
from ..mlp import MLP

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy


def _activations() -> tuple[str, ...]:
    """Activations of the op table, by their names in ``torch.nn``."""
    return (*filter(None, (row.activation for row in OPS.values())), "GELU-tanh", "Identity")


def _mlp_activations() -> tuple[str, ...]:
    """Activations without weights, by their names in the table."""
    drawn = [row for row in OPS.values() if row.activation]

    def takes_more(row: Op) -> bool:
        return any(p.default is p.empty for p in row.parameters.values() if p.name != "axis")

    return (*(row.name for row in drawn if not takes_more(row)), "identity")


ACTIVATIONS = _activations()
"""The activations that `networks` draws from, by their names in ``torch.nn``."""
MLP_ACTIVATIONS = _mlp_activations()
"""The activations that `mlps` draws from."""
ORDERS = ("C", "F", "steps", "negative", "broadcast", "transposed")
"""The memory layouts that `arrays` draws from."""
DTYPES = ("float32", "float64", "float16", "uint8", "int64", "bool")
"""The dtypes that `arrays` draws from."""


def _strategies() -> Any:
    """hypothesis.strategies, or an error that says what to install."""
    try:
        from hypothesis import strategies
    except ImportError:
        raise ImportError(
            "the strategies of xpapply.testing need Hypothesis: pip install hypothesis"
        ) from None
    return strategies


@functools.cache
def _composite() -> Callable[[Callable[[Any], Any]], Any]:
    """The strategy of what a function draws; Hypothesis reads the source of each composite."""

    def drawn(draw: Any, f: Callable[[Any], Any]) -> Any:
        return f(draw)

    return _strategies().composite(drawn)  # type: ignore[no-any-return]


def axes(ndim: int) -> SearchStrategy[int]:
    """Axes of an array with `ndim` dims, negative ones included.

    Parameters
    ----------
    ndim : int
        The number of dims, at least 1.

    Returns
    -------
    SearchStrategy of int

    Raises
    ------
    ImportError
        Without Hypothesis.

    Examples
    --------
    >>> from hypothesis import given
    >>> @given(axes(3))
    ... def test(axis):
    ...     assert -3 <= axis < 3
    >>> test()
    """
    found: SearchStrategy[int] = _strategies().integers(-ndim, ndim - 1)
    return found


def arrays(
    length: int | None = None,
    axis: int = -1,
    *,
    ndim: int | None = None,
    max_side: int = 5,
    dtypes: Sequence[str] = DTYPES,
    orders: Sequence[str] = ORDERS,
    exponents: tuple[int, int] = (-2, 2),
    special: bool = False,
) -> SearchStrategy[np.ndarray]:
    """NumPy arrays of many shapes, dtypes and memory layouts.

    Parameters
    ----------
    length : int, optional
        Length of `axis`; 1 to `max_side` where it is not given.
    axis : int, optional
        The axis that has that length.
    ndim : int, optional
        Number of dims; 1 to 4 where it is not given (but enough for `axis`).
    max_side : int, optional
        Greatest length of the other axes.
    dtypes : sequence of str, optional
        Names of dtypes.
    orders : sequence of str, optional
        Memory layouts: "C", "F", "steps" (every second or third element), "negative"
        (negative strides), "broadcast" (stride 0), "transposed" (axes in random order).
    exponents : (int, int), optional
        Range of the powers of ten that floating-point values are scaled by.
    special : bool, optional
        Put NaN, infinities, -0.0 and subnormal numbers among floating-point values.

    Returns
    -------
    SearchStrategy of ndarray

    Raises
    ------
    ImportError
        Without Hypothesis.

    Examples
    --------
    >>> from hypothesis import given
    >>> @given(arrays(7, axis=0, dtypes=["float32"]))
    ... def test(arr):
    ...     assert arr.shape[0] == 7 and arr.dtype == "float32"
    >>> test()
    """
    st = _strategies()
    least = axis + 1 if axis >= 0 else -axis

    def draw_array(draw: Any) -> np.ndarray:
        n = ndim if ndim is not None else draw(st.integers(least, max(4, least)))
        shape = draw(st.lists(st.integers(1, max_side), min_size=n, max_size=n))
        if length is not None:
            shape[axis] = length
        dtype = np.dtype(draw(st.sampled_from(list(dtypes))))
        order = draw(st.sampled_from(list(orders)))
        scale = 10.0 ** draw(st.integers(*exponents))
        rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
        return _layout(order, shape, rng, lambda s: _values(rng, s, dtype, scale, special))

    found: SearchStrategy[np.ndarray] = _composite()(draw_array)
    return found


def _values(
    rng: np.random.Generator, shape: Sequence[int], dtype: np.dtype, scale: float, special: bool
) -> np.ndarray:
    if dtype.kind == "b":
        return rng.random(shape) < 0.5
    if dtype.kind in "iu":
        low = 0 if dtype.kind == "u" else -100
        return rng.integers(low, 100, shape).astype(dtype)
    with np.errstate(over="ignore"):
        x = (rng.standard_normal(shape) * scale).astype(dtype)
    if special:
        odd = (np.nan, np.inf, -np.inf, -0.0, 0.0, float(np.finfo(dtype).smallest_subnormal))
        some = rng.random(shape) < 0.1
        x[some] = rng.choice(np.array(odd, dtype), int(some.sum()))
    return x


def _layout(
    order: str, shape: list[int], rng: np.random.Generator, fill: Callable[[list[int]], np.ndarray]
) -> np.ndarray:
    """An array of this shape, with its memory laid out as `order` says."""
    if order == "F":
        return np.asfortranarray(fill(shape))
    if order == "steps":
        steps = [int(k) for k in rng.integers(1, 4, len(shape))]
        whole = fill([n * k for n, k in zip(shape, steps, strict=True)])
        return whole[tuple(slice(None, None, k) for k in steps)]
    if order == "negative":
        signs = [int(k) for k in rng.choice([-1, 1], len(shape))]
        signs[int(rng.integers(len(shape)))] = -1
        return fill(shape)[tuple(slice(None, None, k) for k in signs)]
    if order == "broadcast":
        flat = [1 if rng.random() < 0.5 else n for n in shape]
        return np.broadcast_to(fill(flat), shape)
    if order == "transposed":
        to = [int(a) for a in rng.permutation(len(shape))]
        return fill([shape[a] for a in to]).transpose(np.argsort(to))
    return fill(shape)


def networks(
    features: int,
    *,
    max_depth: int = 5,
    max_width: int = 40,
    activations: Sequence[str] | None = None,
    dtype: str = "float32",
    labels: bool = False,
) -> SearchStrategy[Any]:
    """Random ``torch.nn.Module`` networks in eval mode, for slices of `features` values.

    Layers: Linear with and without bias, all of `activations` with random
    arguments, BatchNorm1d with random running statistics, LayerNorm, Dropout,
    nested Sequentials, skip connections, and concatenations of an input with
    what a layer makes of it.

    Parameters
    ----------
    features : int
        Length of the slices.
    max_depth : int, optional
        Most Linear layers in a row.
    max_width : int, optional
        Most features between layers.
    activations : sequence of str, optional
        Names from `~xpapply.testing.ACTIVATIONS`; all of them if they are not given.
    dtype : str, optional
        dtype of the parameters.
    labels : bool, optional
        Let some end with ``argmax(-1)`` or ``argmin(-1)``.

    Returns
    -------
    SearchStrategy of torch.nn.Module

    Raises
    ------
    ImportError
        Without Hypothesis or torch.

    Examples
    --------
    >>> import numpy as np
    >>> from hypothesis import given, settings
    >>> from xpapply.testing import assert_parity
    >>> @settings(max_examples=5, deadline=None)
    ... @given(networks(3))
    ... def test(net):
    ...     assert_parity(net, -1, np.ones((2, 3), np.float32))
    >>> test()
    """
    import torch

    st = _strategies()
    skip, concatenation, label, _ = _torch_modules()
    names = _activations() if activations is None else activations

    def draw_network(draw: Any) -> Any:
        generator = torch.Generator().manual_seed(draw(st.integers(0, 2**32 - 1)))
        layers: list[Any] = []
        width = features
        for _ in range(draw(st.integers(1, max_depth))):
            made, width = _block(draw, st, width, max_width, names, skip, concatenation)
            layers += made
        if draw(st.booleans()):
            layers = [torch.nn.Sequential(*layers[:2]), *layers[2:]]
        if labels and draw(st.integers(0, 3)) == 0:
            layers.append(label(draw(st.sampled_from(["argmax", "argmin"])), draw(st.booleans())))
        net = torch.nn.Sequential(*layers).to(getattr(torch, dtype)).eval()
        _randomize(net, generator)
        return net

    found: SearchStrategy[Any] = _composite()(draw_network)
    return found


def _block(
    draw: Any, st: Any, width: int, most: int, activations: Sequence[str], *wrappers: Any
) -> tuple[list[Any], int]:
    """Draw a Linear layer with layers around it, and the width after it."""
    from torch import nn

    name = draw(st.sampled_from(list(activations)))
    wrapped = draw(st.sampled_from(["", "", "", "skip", "concat"]))
    new = width if wrapped == "skip" else draw(st.integers(1, most))
    layers: list[Any] = [nn.Linear(width, new, bias=draw(st.booleans()))]
    norm = draw(st.sampled_from(["", "", "BatchNorm1d", "LayerNorm", "Dropout"]))
    if norm == "BatchNorm1d":
        layers.append(nn.BatchNorm1d(new, affine=draw(st.booleans())))
    elif norm == "LayerNorm":
        layers.append(nn.LayerNorm(new, elementwise_affine=draw(st.booleans())))
    elif norm == "Dropout":
        layers.append(nn.Dropout(0.5))
    layers.append(activation(name, draw(st.sampled_from([0.25, 0.5, 1.0, 2.0])), new))
    if not wrapped:
        return layers, new
    inner = nn.Sequential(*layers)
    if wrapped == "skip":
        return [wrappers[0](inner)], new
    return [wrappers[1](inner)], width + new


def activation(name: str, number: float = 1.0, width: int = 1) -> Any:
    """The activation module `name`, with `number` as its argument where it takes one.

    Parameters
    ----------
    name : str
        A name of `~xpapply.testing.ACTIVATIONS`.
    number : float, optional
        Slope, alpha, beta or bound.
    width : int, optional
        Features that it will get (a PReLU may have a slope for each).

    Returns
    -------
    torch.nn.Module

    Examples
    --------
    >>> activation("ELU", 0.5)
    ELU(alpha=0.5)
    """
    from torch import nn

    special: dict[str, Callable[[], Any]] = {
        "LeakyReLU": lambda: nn.LeakyReLU(number / 10),
        "PReLU": lambda: nn.PReLU(width if number < 1 else 1),
        "ELU": lambda: nn.ELU(number),
        "CELU": lambda: nn.CELU(number),
        "GELU-tanh": lambda: nn.GELU(approximate="tanh"),
        "Softplus": lambda: nn.Softplus(beta=number),
        "Hardtanh": lambda: nn.Hardtanh(-number, 2 * number),
        "Softmax": lambda: nn.Softmax(dim=-1),
        "LogSoftmax": lambda: nn.LogSoftmax(dim=-1),
    }
    if name in special:
        return special[name]()
    function = _torch_modules()[3]
    return getattr(nn, name)() if hasattr(nn, name) else function(name)


@functools.cache
def _torch_modules() -> tuple[Any, Any, Any, Any]:
    """The modules that join a layer with its input, that find a position, and of one function.

    Made here so that torch is imported late.
    """
    import torch

    class Skip(torch.nn.Module):
        def __init__(self, inner: Any) -> None:
            super().__init__()
            self.inner = inner

        def forward(self, x: Any) -> Any:
            return x + self.inner(x)

    class Concatenation(Skip):
        def forward(self, x: Any) -> Any:
            return torch.cat([x, self.inner(x)], dim=-1)

    class Label(torch.nn.Module):
        def __init__(self, name: str, keepdim: bool) -> None:
            super().__init__()
            self.name, self.keepdim = name, keepdim

        def forward(self, x: Any) -> Any:
            return getattr(torch, self.name)(x, -1, self.keepdim)

    class Function(torch.nn.Module):
        def __init__(self, name: str) -> None:
            super().__init__()
            self.name = name

        def forward(self, x: Any) -> Any:
            return getattr(torch, self.name)(x)

    return Skip, Concatenation, Label, Function


def _randomize(net: Any, generator: Any) -> None:
    """Random weights and running statistics, of a size that keeps values in range."""
    import torch

    with torch.no_grad():
        for name, t in [*net.named_parameters(), *net.named_buffers()]:
            if not t.is_floating_point():
                continue
            random = torch.randn(t.shape, generator=generator, dtype=torch.float64)
            if name.endswith("running_var"):
                random = random.abs() + 0.1
            elif t.ndim == 2:
                random = random * math.sqrt(2 / t.shape[1])
            t.copy_(random)


def mlps(
    features: int,
    *,
    max_depth: int = 4,
    max_width: int = 40,
    activations: Sequence[str] | None = None,
    dtypes: Sequence[str] = ("float32", "float64"),
) -> SearchStrategy[MLP]:
    """Random `xpapply.MLP` networks for slices of `features` values.

    Parameters
    ----------
    features : int
        Length of the slices.
    max_depth : int, optional
        Most layers.
    max_width : int, optional
        Most features between layers.
    activations : sequence of str, optional
        Names from `~xpapply.testing.MLP_ACTIVATIONS`; all of them if they are not given.
    dtypes : sequence of str, optional
        dtypes of the weights.

    Returns
    -------
    SearchStrategy of MLP

    Raises
    ------
    ImportError
        Without Hypothesis.

    Examples
    --------
    >>> import numpy as np
    >>> from hypothesis import given, settings
    >>> from xpapply.testing import assert_parity
    >>> @settings(max_examples=5, deadline=None)
    ... @given(mlps(3))
    ... def test(net):
    ...     assert_parity(net, -1, np.ones((2, 3), np.float32))
    >>> test()
    """
    st = _strategies()
    known = _mlp_activations() if activations is None else activations

    def draw_mlp(draw: Any) -> MLP:
        depth = draw(st.integers(1, max_depth))
        widths = draw(st.lists(st.integers(1, max_width), min_size=depth, max_size=depth))
        names = draw(st.lists(st.sampled_from(list(known)), min_size=depth, max_size=depth))
        biased = draw(st.lists(st.booleans(), min_size=depth, max_size=depth))
        dtype = draw(st.sampled_from(list(dtypes)))
        rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
        weights, biases, before = [], [], features
        for n, b in zip(widths, biased, strict=True):
            w = rng.standard_normal((n, before)) * math.sqrt(2 / before)
            weights.append(w.astype(dtype))
            biases.append(rng.standard_normal(n).astype(dtype) if b else None)
            before = n
        return MLP(weights, biases, names[:-1], names[-1])

    found: SearchStrategy[MLP] = _composite()(draw_mlp)
    return found
