"""Common parts of batching rules for single functions.

Such a rule is a function with the parameters of the NumPy function after `xp` and `call`, made a
rule by `rule`. It raises `Unsupported` for arguments that are not worth a batched way.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

from ..runtime import threads
from . import Batched, NoRule, OneByOne
from .rules import Rule, batch_size, leaves, mapped


class Unsupported(Exception):
    """Arguments that are not worth a batched way: the function is called once per slice."""


def no_output(given: dict) -> None:
    """Refuse to write into an argument."""
    if given.get("out") is not None:
        raise NoRule("out=")


def is_data(name: str, x: Any, axis_name: str) -> bool:
    """Whether an argument is data, combined with that of a slice."""
    return name != axis_name and not isinstance(x, (Batched, str, type, np.dtype, tuple))


def contiguous(xp: Any) -> Callable[[Batched], Batched]:
    """Make operands C-contiguous."""
    return lambda x: x if x.array.flags.c_contiguous else Batched(xp.ascontiguousarray(x.array))


def rule(function: Callable[..., Any]) -> Rule:
    """The rule of a function with the parameters of the NumPy function after `xp` and `call`."""

    def call_rule(xp: Any, call: Any, args: tuple, kwargs: dict) -> Any:
        no_output(kwargs)
        kwargs = {k: x for k, x in kwargs.items() if k != "out"}
        try:
            return function(xp, call, *args, **kwargs)
        except Unsupported:
            return by_rows(xp, call, args, kwargs)

    return call_rule


def of_topic(topic: str, name: str) -> Rule:
    """The rule of the function `name` in the file `topic`, which is loaded at its first call."""

    found: Rule | None = None

    def call_rule(xp: Any, call: Any, args: tuple, kwargs: dict) -> Any:
        nonlocal found
        if found is None:
            module = importlib.import_module(f"{__package__}.{topic}")
            found = rule(getattr(module, name))
        return found(xp, call, args, kwargs)

    return call_rule


def by_rows(xp: Any, call: Any, args: tuple, kwargs: dict) -> Any:
    """Call the function once per slice."""
    no_output(kwargs)
    found = []
    for b in range(batch_size((args, kwargs))):
        threads.check()
        one = functools.partial(mapped, functools.partial(_slice, b))
        found.append(call(*one(args), **one(kwargs)))
    return _stack(xp, found)


def _slice(b: int, x: Batched) -> Any:
    return x.array[b]


def _stack(xp: Any, found: list[Any]) -> Any:
    first = found[0]
    if isinstance(first, (tuple, list)):
        if len({len(x) for x in found}) > 1:
            raise NoRule("results of different lengths")
        parts = [_stack(xp, list(x)) for x in zip(*found, strict=True)]
        return type(first)(*parts) if hasattr(first, "_fields") else type(first)(parts)
    arrays = [xp.asarray(x) for x in found]
    if len({(x.shape, x.dtype) for x in arrays}) > 1:
        raise NoRule("results of different shapes or dtypes")
    return OneByOne(xp.stack(arrays))


def as_rows(xp: Any, x: Any, n: int) -> Batched:
    """A constant as the same value for each of `n` slices."""
    if isinstance(x, Batched):
        return x
    x = xp.asarray(x)
    return Batched(xp.broadcast_to(x, (n, *x.shape)))


def infinite_products(xp: Any, *operands: Any) -> bool:
    """Whether products of complex infinities or NaN occur.

    BLAS computes them in another way for vectors than for matrices.
    """
    arrays = [x.array if isinstance(x, Batched) else xp.asarray(x) for x in operands]
    if xp is not np or all(x.dtype.kind != "c" for x in arrays):
        return False
    return not all(bool(np.isfinite(x).all()) for x in arrays)


def flat(x: Batched) -> Any:
    """The values of each slice in one axis."""
    return x.array.reshape(x.array.shape[0], -1)


def traced(x: Any) -> bool:
    """Whether arguments contain a `Batched`."""
    return any(True for _ in leaves(x))


def constant(*xs: Any) -> None:
    """Refuse `Batched` for what may decide on the shape of the result."""
    if traced(xs):
        raise NoRule("an argument that other functions take from the data is not constant")


def plain(*xs: Any) -> None:
    """Take `Batched` only where a rule expects them."""
    if traced(xs):
        raise Unsupported


def operand_list(x: Any) -> list[Any]:
    """The operands in a list, or in an array along its first axis."""
    if isinstance(x, Batched):
        return [Batched(x.array[:, i]) for i in range(x.shape[0])]
    return list(x)


def cache_parts(n: int, row: int) -> list[slice]:
    """Slices of `n` rows of `row` bytes that stay in the cache from one operation to the next."""
    step = max(1, 2**18 // max(row, 1))
    return [slice(i, i + step) for i in range(0, n, step)]
