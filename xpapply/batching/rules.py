"""The batching rules that serve many functions: elementwise, along an axis, stacked."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from . import Batched, BatchingRule, NoRule

Rule = Callable[..., Any]

SINGLY = ", slice by slice"
"""A mark in a row's name: slices are called one by one within one call of it."""


def leaves(tree: Any, kind: Any = Batched) -> Iterator[Any]:
    """Everything of a class in arguments."""
    found: list[Any] = []
    _collect((tree,), kind, found)
    return iter(found)


def _collect(trees: Iterable[Any], kind: Any, found: list[Any]) -> None:
    for x in trees:
        if isinstance(x, kind):
            found.append(x)
        elif isinstance(x, (tuple, list)):
            _collect(x, kind, found)
        elif isinstance(x, dict):
            _collect(x.values(), kind, found)


def mapped(function: Callable[[Any], Any], tree: Any, kind: Any = Batched) -> Any:
    """Arguments with everything of a class replaced."""
    if isinstance(tree, kind):
        return function(tree)
    if type(tree) is tuple or isinstance(tree, list):
        found = [mapped(function, x, kind) for x in tree]
        return tuple(found) if type(tree) is tuple else found
    if isinstance(tree, tuple):
        parts = [mapped(function, x, kind) for x in tree]
        return type(tree)(*parts) if hasattr(tree, "_fields") else tuple(parts)
    if isinstance(tree, dict):
        return {k: mapped(function, x, kind) for k, x in tree.items()}
    return tree


def results(found: Any) -> Any:
    """The results of a call on all slices, as `Batched`."""
    if isinstance(found, tuple) and hasattr(found, "_fields"):
        return type(found)(*map(results, found))
    if isinstance(found, (tuple, list)):
        return type(found)(map(results, found))
    return Batched(found)


def batch_size(tree: Any) -> int:
    """The number of slices."""
    return int(next(iter(leaves(tree))).array.shape[0])


def aligned(x: Batched, ndim: int) -> Any:
    """The array of `x` with axes of length 1 after the batch axis, for values of `ndim` axes."""
    if x.ndim >= ndim:
        return x.array
    return x.array.reshape(x.array.shape[0], *(1,) * (ndim - x.ndim), *x.shape)


def _ndim(x: Any) -> int:
    if type(x) in _SCALARS:
        return 0
    return x.ndim if isinstance(x, (Batched, np.ndarray)) else np.ndim(x) if not _text(x) else 0


_SCALARS = frozenset((int, float, bool, complex))


def _text(x: Any) -> bool:
    return x is None or isinstance(x, (str, type, np.dtype))


def elementwise(xp: Any, call: Any, args: tuple, kwargs: dict) -> Any:
    """The function itself, with the operands' axes lined up after the batch axis."""
    ndim = max(map(_ndim, (*args, *kwargs.values())), default=0)
    line_up = functools.partial(aligned, ndim=ndim)
    given, named = mapped(line_up, args), mapped(line_up, kwargs) if kwargs else kwargs
    if xp is not np:
        given = tuple(_moved(xp, x) for x in given)
        named = {k: _moved(xp, x) for k, x in named.items()}
    return results(call(*given, **named))


def _moved(xp: Any, x: Any) -> Any:
    """A constant array where the slices are."""
    return xp.asarray(x) if isinstance(x, np.ndarray) else x


@functools.lru_cache(maxsize=1024)
def signature(call: Any) -> inspect.Signature:
    """The signature of a function."""
    return inspect.signature(call)


class OnDevice:
    """A function of CuPy, which gets constants that are on the host where the slices are."""

    def __init__(self, xp: Any, call: Any) -> None:
        self._xp, self.__wrapped__ = xp, call
        self.__name__ = getattr(call, "__name__", type(call).__name__)
        self.__module__ = getattr(call, "__module__", type(call).__module__)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        asarray = self._xp.asarray
        return self.__wrapped__(
            *mapped(asarray, args, np.ndarray), **mapped(asarray, kwargs, np.ndarray)
        )

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__wrapped__, name)


on_device = functools.lru_cache(maxsize=1024)(OnDevice)
"""The cached wrapper of a function, whose signature is inspected once."""


def bound(call: Any, args: tuple, kwargs: dict) -> dict[str, Any]:
    """Arguments by parameter name, without defaults."""
    names = _bound_names(call, len(args), tuple(kwargs))
    return {name: args[at] if isinstance(at, int) else kwargs[at] for name, at in names}


@functools.lru_cache(maxsize=4096)
def _bound_names(
    call: Any, count: int, keywords: tuple[str, ...]
) -> tuple[tuple[str, int | str], ...]:
    """Parameters of so many positional arguments and such keywords."""
    named = dict(zip(keywords, keywords, strict=True))
    try:
        given = signature(call).bind(*range(count), **named)
    except ValueError:  # a ufunc of CuPy has none
        return (*((f"*{k}", k) for k in range(count)), *named.items())
    found = dict(given.arguments)
    for name, p in signature(call).parameters.items():
        if p.kind is p.VAR_KEYWORD:
            found |= found.pop(name, {})
        elif p.kind is p.VAR_POSITIONAL and name in found:
            raise NoRule(f"{call.__name__} with several positional arguments")
    return tuple(found.items())


def shifted(axis: Any, ndim: int) -> Any:
    """An axis of a slice as the axis of a batch."""
    if isinstance(axis, tuple):
        return tuple(shifted(a, ndim) for a in axis)
    axis = int(axis)
    if not -ndim <= axis < ndim:
        raise NoRule(f"axis {axis} is out of bounds for {ndim} axes")
    return axis if axis < 0 else axis + 1


def along(default: Any = None, *, axis_name: str = "axis", reduces: bool = True) -> Rule:
    """The function itself, along the axis after the batch axis.

    `default` is the function's own default; None means all axes. All `Batched` must have the same
    number of axes. `reduces`: for axis=None, whether flattening the value first is the same.
    """

    def rule(xp: Any, call: Any, args: tuple, kwargs: dict) -> Any:
        given = bound(call, args, kwargs)
        axis = given.get(axis_name, default)
        ndims = {x.ndim for x in leaves(given)}
        ndim = max(ndims)
        if ndim == 0 or len(ndims) > 1:
            raise NoRule(f"operands of {sorted(ndims)} axes")
        if axis is None and ndim > 1:
            if given.get("keepdims") or not reduces:
                raise NoRule("axis=None of a value with several axes")
            given = {k: mapped(_flat, x) for k, x in given.items()}
            axis, ndim = -1, 1
        axis = -1 if axis is None else axis
        given = {k: mapped(lambda x: x.array, x) for k, x in given.items()}
        given[axis_name] = shifted(axis, ndim)
        return results(_call(call, given))

    return rule


def _flat(x: Batched) -> Batched:
    return Batched(x.array.reshape(x.array.shape[0], -1))


def _call(call: Any, given: dict[str, Any]) -> Any:
    """Call by name, with positional-only parameters in their places."""
    parameters = signature(call).parameters
    first = [
        given.pop(n) for n, p in parameters.items() if p.kind is p.POSITIONAL_ONLY and n in given
    ]
    return call(*first, **given)


def stacked(xp: Any, call: Any, args: tuple, kwargs: dict) -> Any:
    """A function that takes stacks of matrices by itself: leading axes are batch axes."""
    return results(call(*mapped(lambda x: x.array, args), **mapped(lambda x: x.array, kwargs)))


def table(
    package: str, kind: str, rule: Rule, names: str, *, exact: bool = True
) -> list[BatchingRule]:
    """Rules of functions that share one rule."""
    fresh = kind == "elementwise"
    return [BatchingRule(f"{package}.{n}", rule, kind, exact, fresh) for n in names.split()]


# --- universal functions ------------------------------------------------------------------

_ufuncs: dict[tuple[int, str], tuple[Any, BatchingRule]] = {}


def ufunc_row(ufunc: Any, method: str = "__call__") -> BatchingRule:
    """The row of any `numpy.ufunc`: every one without a signature is elementwise."""
    found = _ufuncs.get((id(ufunc), method))
    if found is not None and found[0] is ufunc:
        return found[1]
    name = _ufunc_name(ufunc)
    if method == "__call__":
        own: Rule = elementwise
    else:
        own = functools.partial(_ufunc_method, method)
    rule = own
    if "." not in name:  # of no library that has it for other arrays

        def rule(xp: Any, call: Any, args: tuple, kwargs: dict) -> Any:
            if xp is not np:
                raise NoRule(f"{name} takes NumPy arrays only")
            return own(xp, ufunc, args, kwargs)

    called = method == "__call__"
    kind = "elementwise" if called else "axis"
    row = BatchingRule(name, rule, kind, True, called, method="" if called else method)
    _ufuncs[id(ufunc), method] = (ufunc, row)
    return row


def _ufunc_name(ufunc: Any) -> str:
    name = str(ufunc.__name__)
    for package in ("numpy", "scipy.special"):
        if getattr(sys.modules.get(package), name, None) is ufunc:
            return f"{package}.{name}"
    return name


def _ufunc_method(method: str, xp: Any, call: Any, args: tuple, kwargs: dict) -> Any:
    """``reduce``, ``accumulate``, ``outer`` of a ufunc."""
    x, *rest = args
    if method == "outer":
        y = rest[0]
        if not isinstance(x, Batched):
            x = np.asarray(x)
            return Batched(call(x.reshape(*x.shape, *(1,) * y.ndim), aligned(y, x.ndim + y.ndim)))
        tail = y.ndim if isinstance(y, Batched) else np.ndim(y)
        left = x.array.reshape(*x.array.shape, *(1,) * tail)
        return Batched(call(left, aligned(y, x.ndim + tail) if isinstance(y, Batched) else y))
    if not isinstance(x, Batched) or any(True for _ in leaves(rest)):
        raise NoRule(f"{method} with these operands")
    where = kwargs.get("where", True)
    if isinstance(where, Batched):
        kwargs = kwargs | {"where": where.array}
    axis = kwargs.pop("axis", 0) if "axis" in kwargs else (rest.pop(0) if rest else 0)
    if rest:
        raise NoRule(f"{method} with positional arguments after axis")
    if axis is None:
        x, axis = (x, 0) if x.ndim == 1 else (_flat(x), 0)
        if kwargs.get("keepdims"):
            raise NoRule("keepdims over all axes")
    given = {k: v.array if isinstance(v, Batched) else v for k, v in kwargs.items()}
    return Batched(getattr(call, method)(x.array, axis=shifted(axis, x.ndim), **given))
