"""gufunc signatures: which dims of each argument a function gets, and which it is looped over.

``"(n),(n)->()"`` says that `f` gets two vectors as long as each other and returns a number. The
named dims are the *core* dims, the last ones of each array; all dims before them are the *loop*
dims, which broadcast. The grammar is that of NumPy's generalized universal functions
(https://numpy.org/doc/stable/reference/c-api/generalized-ufuncs.html): a number fixes the size of
a dim, ``(3),(3)->(3)``, and a dim with a question mark may be missing, ``(m?,n),(n,p?)->(m?,p?)``.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .. import arrays
from ..errors import add_note
from ..functions.cache import remembered
from ..limits import LIMITS

_DIM = r"(?:[^\W\d]\w*|\d+)\??"
_CORE = rf"\((?:{_DIM}(?:,{_DIM})*)?\)"
_SIGNATURE = rf"({_CORE}(?:,{_CORE})*)?->({_CORE}(?:,{_CORE})*)"


@dataclass(frozen=True)
class CoreDim:
    """A core dim: its name, and whether it may be missing. A name of digits is its size."""

    name: str
    optional: bool = False

    @property
    def size(self) -> int | None:
        """A fixed length; None: any."""
        return int(self.name) if self.name.isdigit() else None

    def __str__(self) -> str:
        return self.name + "?" * self.optional


CoreDims = tuple[CoreDim, ...]


def shown(dims: CoreDims) -> str:
    """Core dims as a signature has them."""
    return f"({','.join(map(str, dims))})"


@dataclass(frozen=True)
class Signature:
    """The core dims of all arguments and results."""

    inputs: tuple[CoreDims, ...]
    outputs: tuple[CoreDims, ...]

    def __str__(self) -> str:
        both = (",".join(map(shown, side)) for side in (self.inputs, self.outputs))
        return "->".join(both)

    @staticmethod
    def parse(text: str) -> Signature:
        """The signature that `text` writes.

        Raises
        ------
        ValueError
            If it is none.

        Examples
        --------
        >>> Signature.parse("(m, n), (n) -> (m)").inputs[0]
        (CoreDim(name='m', optional=False), CoreDim(name='n', optional=False))
        """
        if not isinstance(text, str):
            raise TypeError(f"signature must be a string such as '(n),(n)->()': found {text!r}")
        return _parsed(text)

    def without(self, missing: Iterable[str]) -> Signature:
        """The signature where some dims are missing."""
        gone = set(missing)
        inputs, outputs = (
            tuple(tuple(d for d in dims if d.name not in gone) for dims in side)
            for side in (self.inputs, self.outputs)
        )
        return Signature(inputs, outputs)

    def of_arrays(self, ndims: Iterable[int]) -> Signature:
        """The signature for arrays with so many dims: without those that are missing."""
        lacking = (dims for dims, ndim in zip(self.inputs, ndims, strict=True) if ndim < len(dims))
        missing = {d.name for dims in lacking for d in dims if d.optional}
        return self.without(missing) if missing else self

    def check_count(self, count: int) -> None:
        """Raise `TypeError` where there are not as many arguments as the signature has."""
        if count != len(self.inputs):
            raise TypeError(
                f"wrong number of positional arguments: expected {len(self.inputs)}, got {count} "
                f"(signature {self})"
            )


@remembered(LIMITS.remembered)
def _parsed(text: str) -> Signature:
    found = re.fullmatch(_SIGNATURE, re.sub(r"\s+", "", text))
    if found is None:
        raise ValueError(
            f"not a valid gufunc signature: {text!r}. Give one list of core dims in "
            "parentheses per argument, '->' and one per result, as in '(m,n),(n)->(m)'"
        )
    inputs, outputs = (
        tuple(
            tuple(CoreDim(d.rstrip("?"), d.endswith("?")) for d in re.findall(_DIM, core))
            for core in re.findall(_CORE, side or "")
        )
        for side in found.groups()
    )
    dims = {d for side in (*inputs, *outputs) for d in side}
    for d in dims:
        if d.optional and CoreDim(d.name) in dims:
            raise ValueError(
                f"not a valid gufunc signature: {text!r} has the dim {d.name} with and without "
                "a question mark: it is one dim, which may be missing everywhere or nowhere"
            )
    return Signature(inputs, outputs)


@dataclass
class Sizes:
    """Lengths of core dims, and the argument that determined each."""

    known: dict[str, int] = field(default_factory=dict)
    said: dict[str, str] = field(default_factory=dict)

    def take(self, dims: CoreDims, shape: Sequence[int], who: str) -> None:
        """Note the sizes of the last dims of an array of `shape`.

        Raises
        ------
        ValueError
            If it has too few dims, or another size than an argument before it.
        """
        if len(shape) < len(dims):
            raise ValueError(
                f"{who} of shape {tuple(shape)} does not have enough dimensions for all core "
                f"dimensions {shown(dims)}"
            )
        for dim, size in zip(dims, shape[len(shape) - len(dims) :], strict=True):
            known = self.known.get(dim.name, dim.size)
            if known is not None and size != known:
                first = self.said.get(dim.name, "the signature")
                raise ValueError(
                    f"inconsistent size for core dimension {dim.name!r}: {known} by {first}, "
                    f"{size} by {who} of shape {tuple(shape)}"
                )
            self.known[dim.name] = size
            self.said.setdefault(dim.name, who)

    def shape(self, dims: CoreDims) -> tuple[int, ...]:
        """The shape of core dims whose sizes are known."""
        return tuple(self.known[d.name] for d in dims)

    def unknown(self, dims: CoreDims) -> list[str]:
        """The dims among them of which no size is known."""
        return [d.name for d in dims if d.name not in self.known]


@dataclass(frozen=True)
class Dims:
    """The dims of a call: see `resolve`.

    Attributes
    ----------
    signature : Signature
        Without the dims that are missing in this call.
    sizes : Sizes
        Of the core dims of arguments, and those of results that they tell.
    loop : tuple of int
        The loop dims, broadcast.
    """

    signature: Signature
    sizes: Sizes
    loop: tuple[int, ...]

    def copy(self) -> Dims:
        """A copy, to which sizes of results can be added."""
        return Dims(self.signature, Sizes({**self.sizes.known}, {**self.sizes.said}), self.loop)


def resolve(signature: Signature, shapes: Sequence[tuple[int, ...]]) -> Dims:
    """The sizes of all dims, for arguments of some shapes with their core dims last.

    Raises
    ------
    TypeError, ValueError
        If their number, core dims or loop dims do not fit.

    Examples
    --------
    >>> dims = resolve(Signature.parse("(m,n),(n)->(m)"), [(5, 2, 3), (3,)])
    >>> dims.loop, dims.sizes.known
    ((5,), {'m': 2, 'n': 3})
    """
    signature.check_count(len(shapes))
    signature = signature.of_arrays(map(len, shapes))
    sizes = Sizes()
    for k, (dims, shape) in enumerate(zip(signature.inputs, shapes, strict=True)):
        sizes.take(dims, shape, f"argument {k}")
    for dims in signature.outputs:
        for d in dims:
            if d.size is not None:
                sizes.known.setdefault(d.name, d.size)
    batches = [s[: len(s) - len(d)] for d, s in zip(signature.inputs, shapes, strict=True)]
    return Dims(signature, sizes, loop_of(batches, signature))


def loop_of(
    loops: Sequence[tuple[int, ...]], signature: Signature | None = None
) -> tuple[int, ...]:
    """The loop dims of each array, broadcast.

    Raises
    ------
    ValueError
        If they do not broadcast; the message tells of the core dims of `signature`.
    """
    try:
        return np.broadcast_shapes(*loops)
    except ValueError:
        which = ", ".join(f"argument {k}: {b}" for k, b in enumerate(loops))
        what = "the loop dimensions (all before the core dimensions"
        what += f"{'' if signature is None else f' of {signature}'})"
        if signature is not None and not any(signature.inputs):  # a function of numbers
            what = "the arguments"
        raise ValueError(f"{what} do not broadcast together: {which}") from None


# --- axis, axes, keepdims -----------------------------------------------------------------------


@dataclass(frozen=True)
class Places:
    """The axes of core dims in arguments and results.

    Attributes
    ----------
    inputs : tuple of tuple of int
        The axes of each argument that are its core dims, in the signature's order.
    outputs : tuple of tuple of int
        The same for results, in arrays that have all their dims.
    keepdims : bool
        Whether results keep the axes of the arguments' core dims, with length 1.
    """

    inputs: tuple[tuple[int, ...], ...]
    outputs: tuple[tuple[int, ...], ...]
    keepdims: bool = False

    def placed(self, k: int, x: Any) -> Any:
        """Result `k`, whose core dims are last, with these where they go."""
        own = self.outputs[k]
        return core_at(x[(..., *(None,) * len(own))] if self.keepdims else x, own)


def places(
    signature: Signature,
    ndims: Sequence[int],
    axis: Any = None,
    axes: Any = None,
    keepdims: bool = False,
) -> Places:
    """Resolve the keywords `axis`, `axes` and `keepdims` of a gufunc.

    `ndims`: the dims of each argument, core dims included.

    Raises
    ------
    TypeError, ValueError, numpy.exceptions.AxisError
        As gufuncs do.
    """
    signature.check_count(len(ndims))
    if axis is not None and axes is not None:
        raise TypeError("cannot specify both 'axis' and 'axes': give one of them")
    signature = signature.of_arrays(ndims)
    cores = [*map(len, signature.inputs)]
    for k, (dims, ndim) in enumerate(zip(signature.inputs, ndims, strict=True)):
        if ndim < len(dims):
            raise ValueError(
                f"argument {k} of {ndim} dims does not have enough dimensions for all core "
                f"dimensions {shown(dims)}"
            )
    if not isinstance(keepdims, (bool, np.bool_)):
        raise TypeError(f"keepdims must be True or False: found {keepdims!r}")
    if keepdims and (any(signature.outputs) or len(set(cores)) > 1):
        raise TypeError(
            "keepdims needs results without core dimensions and the same number of them in all "
            f"arguments: the signature is {signature}"
        )
    results = [cores[0] if keepdims and cores else len(d) for d in signature.outputs]
    loop = max((n - c for n, c in zip(ndims, cores, strict=True)), default=0)
    if axis is not None:
        given = _of_axis(signature, axis, results)
    elif axes is not None:
        given = _of_axes(signature, axes, cores, results, keepdims)
    else:
        given = [tuple(range(-c, 0)) for c in (*cores, *results)]
    full = [*ndims, *(loop + c for c in results)]
    found = []
    for k, (own, ndim) in enumerate(zip(given, full, strict=True)):
        try:
            normal = tuple(arrays.normalize_axis_index(a, ndim) for a in own)
        except np.exceptions.AxisError as error:
            what = f"argument {k}" if k < len(ndims) else f"result {k - len(ndims)}"
            add_note(error, f"axes {own} of {what}, which has {ndim} dims")
            raise
        if len(set(normal)) < len(normal):
            raise ValueError(f"axes {own} of operand {k} name one axis twice")
        found.append(normal)
    return Places(tuple(found[: len(ndims)]), tuple(found[len(ndims) :]), keepdims)


def _of_axis(signature: Signature, axis: Any, results: list[int]) -> list[tuple[int, ...]]:
    """Resolve `axis`: the only core dim of operands."""
    axis = _integer(axis, "axis", "for several axes, or another one per operand, give axes=")
    sides = (*signature.inputs, *signature.outputs)
    names = {d.name for dims in sides for d in dims}
    if len(names) > 1 or any(len(dims) > 1 for dims in sides):
        raise TypeError(
            f"axis= needs a signature with a single core dimension, which {signature} is not: "
            "give axes=, a list with one tuple per operand"
        )
    return [(axis,) * len(d) for d in signature.inputs] + [(axis,) * c for c in results]


def _of_axes(
    signature: Signature, axes: Any, cores: list[int], results: list[int], keepdims: bool
) -> list[tuple[int, ...]]:
    """Resolve `axes`: one entry per operand; results without core dims may be left out."""
    counts = [*cores, *results]
    if not isinstance(axes, list):
        raise TypeError(f"axes must be a list with one entry per operand: found {axes!r}")
    if len(axes) == len(cores) and not any(results):
        axes = [*axes, *[()] * len(results)]
    elif len(axes) == len(cores) and keepdims:  # the results' are where the first argument's were
        axes = [*axes, *[axes[0]] * len(results)]
    if len(axes) != len(counts):
        raise ValueError(
            f"axes has {len(axes)} entries, the signature {signature} {len(counts)} operands: "
            "give a tuple for each argument, and for each result that has core dimensions"
        )
    found = []
    for k, (entry, count) in enumerate(zip(axes, counts, strict=True)):
        own = entry if isinstance(entry, tuple) else (entry,)
        if not isinstance(entry, tuple):
            _integer(entry, f"axes entry {k}", "or a tuple of them")
        if len(own) != count:
            raise np.exceptions.AxisError(
                f"axes entry {k}, {entry!r}, should name {count} axes: operand {k} of {signature} "
                f"has {count} core dimensions"
            )
        found.append(tuple(_integer(a, f"axes entry {k}", "or a tuple of them") for a in own))
    return found


def _integer(x: Any, name: str, otherwise: str) -> int:
    try:
        if not isinstance(x, bool):
            return operator.index(x)
    except TypeError:
        pass
    raise TypeError(f"{name} must be an integer: found {x!r}; {otherwise}")


def core_last(x: Any, axes: tuple[int, ...]) -> Any:
    """A view with some axes last, in the given order."""
    rest = [a for a in range(x.ndim) if a not in axes]
    order = (*rest, *axes)
    return x if order == tuple(range(x.ndim)) else arrays.permute(x, order)


def core_at(x: Any, axes: tuple[int, ...]) -> Any:
    """The way back: the last axes of an array are moved to where `axes` says."""
    loop = x.ndim - len(axes)
    source = dict(zip(axes, range(loop, x.ndim), strict=True))
    rest = iter(range(loop))
    order = tuple(source[a] if a in source else next(rest) for a in range(x.ndim))
    return x if order == tuple(range(x.ndim)) else arrays.permute(x, order)
