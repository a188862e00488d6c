"""Draws that library pages leave to NumPy: functions for one number, or an array."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .....ir.typed import Array, Literal
from .....ir.typed.function import Value
from .....library import of_random
from .....runtime import generators, ziggurats
from .....runtime.generators import DISTRIBUTIONS, SHORT, Distribution
from .. import numbers, places
from ..calls.common import Call, as_float, python_int
from ..values import NUMPY, PYTHON, Inlined, Known, Num, Tup, Writes

NONE = Known(None)


def _function(t: Writes, rng: Tup, function: str, result: str, *args: Value) -> int:
    """The number of a function of NumPy's that draws."""
    if not generators.is_known(function):
        raise t.refuse("it draws random numbers, which this NumPy draws in another way")
    types = ("array" if isinstance(a.type, Array) else str(a.type) for a in args)
    return t.external("draws", function, rng.items[-1].value, result, "array", *types)


def _call(t: Writes, rng: Tup, function: str, result: str, *args: Value) -> Value:
    """A number that such a function draws."""
    what = _function(t, rng, function, result, *args)
    return t.op("draw", result, rng.items[0].value, *args, what=what)


def one(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """A number that is drawn by a method."""
    rng, name, given = args
    if len(rng.items) == 3 and name.value in of_random.LEGACY:
        if not of_random.legacy_is_known():
            raise t.refuse("it draws random numbers, which this NumPy draws in another way")
        for x, may_be in zip(given.items, DISTRIBUTIONS[name.value].may_be, strict=True):
            t.mark(_is_odd(t, may_be, x.value), "a number that is drawn in no such way")
        return Inlined(of_random.LEGACY[name.value], [rng, *given.items], {})
    of = SHORT[name.value[:-2]] if name.value.endswith("_f") else DISTRIBUTIONS[name.value]
    values = parameters(t, of, given.items)
    plain = PLAIN.get(name.value)
    if plain is not None and ziggurats.sums_are_plain():
        found = _call(t, rng, DISTRIBUTIONS[plain].function, of.result)
        found = t.op("mul", "float64", values[-1], found)
        if len(values) == 2:
            found = t.op("add", "float64", values[0], found)
        return Num("float64", PYTHON, found)
    found = _call(t, rng, of.function, of.result, *values)
    if of.result == "float32":
        found = numbers.cast(t, found, "float64")
    return Num(str(found.type), PYTHON, found)


def parameters(t: Writes, of: Distribution, given: Sequence[Any]) -> list[Value]:
    """Parameters of a function of NumPy, if NumPy accepts them."""
    values: list[Value] = []
    for x, may_be in zip(given, of.may_be, strict=True):
        value = as_float(t, [x], {}).value
        if may_be == "end":  # it gets how far that is
            value = t.op("sub", "float64", value, values[0])
        t.mark(_is_odd(t, may_be, value), "a number that is drawn in no such way")
        values.append(numbers.cast(t, value, of.type))
    return values


PLAIN = {"normal": "standard_normal", "uniform": "random", "exponential": "standard_exponential"}
"""The base distributions of scaled and shifted ones."""


def _is_odd(t: Writes, may_be: str, x: Value) -> Value:
    """Whether NumPy raises for a parameter; also true for some others."""
    if isinstance(x, Literal):
        return Literal(not _MAY_BE[may_be](x.value), "bool")
    if may_be == "any":
        return t.op("not", "bool", numbers.is_finite(t, x))
    zero, least = Literal(0.0, "float64"), t.op("ge", "bool", x, Literal(0.0, "float64"))
    if may_be in ("positive", "chance"):
        least = t.op("gt", "bool", x, zero)
    if may_be in ("end", "size"):  # NumPy raises for -0.0
        one = Literal(1.0, "float64")
        least = t.op("gt", "bool", t.op("copysign", "float64", one, x), zero)
    most = {"chance": 1.0, "rate": 1e18}.get(may_be, float(np.finfo(float).max))
    fine = t.op("and", "bool", least, t.op("le", "bool", x, Literal(most, "float64")))
    return t.op("not", "bool", fine)


_MAY_BE: dict[str, Callable[[float], bool]] = {
    "any": np.isfinite, "end": lambda x: 0 <= x < np.inf and not np.signbit(x),
    "size": lambda x: 0 <= x < np.inf and not np.signbit(x),
    "positive": lambda x: 0 < x < np.inf, "chance": lambda x: 0 < x <= 1,
    "rate": lambda x: 0 <= x <= 1e18,
}  # fmt: skip


def _below(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Num:
    rng, i = args
    return Num("int64", PYTHON, _call(t, rng, generators.INTERVAL, "int64", places.as_index(t, i)))


def is_quick(rng: Tup) -> bool:
    """Whether a generator's steps are compiled, so that few draws need a call."""
    if rng.items[-1].value not in (ziggurats.PCG64, ziggurats.OWN) or len(rng.items) == 3:
        return False
    return ziggurats.steps_are_known() and generators.is_known(generators.BOUNDED)


def _within(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Num:
    rng, low, width = args
    return bounded(t, rng, low, width)._replace(kind=PYTHON)


def _fill(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Any:
    rng, low, width, n, is_masked, out = args
    if out.type.dtype == "int64" and is_quick(rng):
        inlined = of_random.filled if out.type.ndim == 1 else of_random.rows_filled
        return Inlined(inlined, [rng, low, width, out], {})
    size = 8 * np.dtype(out.type.dtype).itemsize
    function = f"random_bounded_uint{size}_fill"
    given = [*(places.as_index(t, x) for x in (low, width, n, is_masked)), out.value]
    t.do("draw", rng.items[0].value, *given, what=_function(t, rng, function, "", *given))
    return NONE


def _numbers(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Known:
    rng, name, out = args
    n, function = places.length(t, out), f"{DISTRIBUTIONS[name.value].function}_fill"
    t.do(
        "draw", rng.items[0].value, n, out.value, what=_function(t, rng, function, "", n, out.value)
    )
    return NONE


def seeded(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Known:
    """An MT19937 is seeded anew."""
    words, seed = args
    seed = python_int(t, seed).value
    why = "a seed below zero, or of more than 32 bits"
    t.mark(compared(t, "lt", seed, places.ZERO), why)
    t.mark(compared(t, "gt", seed, Literal((1 << 32) - 1, "int64")), why)
    if not generators.is_known(generators.MERSENNE):
        raise t.refuse("it seeds a generator, which this NumPy seeds in another way")
    what = t.external("draws", generators.MERSENNE, generators.MT19937, "", "array", "int64")
    t.do("draw", words.value, seed, what=what)
    return NONE


def _exchanges(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Any:
    rng, at = args
    kind = rng.items[-1].value
    if kind == generators.MT19937:
        is_known = generators.is_known(generators.MERSENNE)
    else:
        is_known = kind in (ziggurats.PCG64, ziggurats.OWN) and ziggurats.steps_are_known()
    if not is_known:
        return Inlined(of_random.exchanges, args, kwargs)
    n = places.length(t, at)
    t.mark(compared(t, "gt", n, Literal(1 << 32, "int64")), "a shuffle of so many")
    what = _function(t, rng, generators.EXCHANGES, "", n, at.value)
    t.do("draw", rng.items[0].value, n, at.value, what=what)
    return NONE


def compared(t: Writes, op: str, a: Value, b: Value) -> Value:
    """Whether a number is less than another one (`op`: "lt"), or more ("gt")."""
    if isinstance(a, Literal) and isinstance(b, Literal):
        return Literal(a.value < b.value if op == "lt" else a.value > b.value, "bool")
    return t.op(op, "bool", a, b)


def bounded(t: Writes, rng: Tup, first: Num, width: Num, masked: bool | None = None) -> Num:
    """Draw one integer of a range."""
    masked = len(rng.items) == 3 if masked is None else masked  # as legacy methods do it
    mask = _mask(t, width.value) if masked else places.ZERO
    given = first.value, width.value, mask, Literal(int(masked), "int64")
    return Num("int64", NUMPY, _call(t, rng, generators.BOUNDED, "int64", *given))


def _mask(t: Writes, x: Value) -> Value:
    """The least number of the form ``2**k - 1`` that is not less."""
    for far in (1, 2, 4, 8, 16, 32):
        x = t.op("or", "int64", x, t.op("shr", "int64", x, Literal(far, "int64")))
    return x


def _trials(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Num:
    rng, n, p, kept = args
    zero, one = (Literal(x, "float64") for x in (0.0, 1.0))
    x = as_float(t, [p], {}).value
    fine = t.op("and", "bool", t.op("ge", "bool", x, zero), t.op("le", "bool", x, one))
    t.mark(t.op("not", "bool", fine), "a chance that there is not")
    t.mark(compared(t, "lt", n.value, places.ZERO), "less than no trials")
    given = x, n.value, kept.value
    return Num("int64", PYTHON, _call(t, rng, generators.TRIALS, "int64", *given))


OURS: dict[Any, Call] = {
    of_random.one: one, of_random.below: _below, of_random.within: _within,
    of_random.fill: _fill, of_random.trials: _trials, of_random.numbers: _numbers,
    of_random.exchanges: _exchanges, of_random.mersenne: seeded,
}  # fmt: skip
"""Rows of our own functions."""


@functools.cache
def seeds_are_known() -> bool:
    """Whether this NumPy seeds with these steps."""
    if not ziggurats.steps_are_known():
        return False
    several = [12345, 0, 1 << 33, 5, 7, (1 << 63) - 1]
    for seeds, key in [([x], []) for x in several] + [(several[:n], several[n:]) for n in range(7)]:
        words, state = (
            of_random.generator(seeds, key, ziggurats.like()),
            np.random.SeedSequence(seeds, spawn_key=key),
        )
        found = np.random.PCG64(state).state["state"]
        mine = [int(x) for x in words[8:]]
        if [mine[0] | mine[1] << 64, mine[2] | mine[3] << 64] != [found["state"], found["inc"]]:
            return False
    return True
