"""Methods of NumPy's generators of random numbers, which compiled code calls in order."""

from __future__ import annotations

import functools
from types import FunctionType, MethodType
from typing import Any

import numpy as np

from .....ir.typed import Literal
from .....library import of_random
from .....runtime import generators, ziggurats
from .....runtime.generators import DISTRIBUTIONS, SHORT, Distribution
from .....runtime.registry import (
    GENERATOR,
    LEGACY,
    PYTHONS,
    generator_kind,
    method_kind,
    of_generator,
)
from .. import numbers, places
from ..calls.arguments import FALSE, TAKEN, TRUE, as_array
from ..calls.common import Call, as_float, exactly, number, python_int
from ..calls.of_numpy import dtype_of
from ..values import (
    NUMPY,
    PYTHON,
    Abstract,
    Arr,
    Inlined,
    Known,
    Lst,
    Method,
    Num,
    Record,
    Tup,
    Writes,
    integer,
)
from .draws import NONE, OURS, PLAIN, bounded, compared, is_quick, one, parameters, seeds_are_known

_LARGE = 1 << 62


def is_one(x: Abstract) -> bool:
    """Whether it is a generator."""
    return isinstance(x, Known) and bool(generator_kind(x.value))


def attribute(t: Writes, owner: Any, name: str) -> Abstract:
    """``owner.name``: of Python's generators also functions that are written in Python."""
    found = getattr(type(owner), name, None)
    if (
        generator_kind(owner) == PYTHONS
        and isinstance(found, FunctionType)
        and name not in _PYTHONS
    ):
        return Known(MethodType(found, owner))
    return Method(Known(owner), name)


def is_made(x: Abstract) -> bool:
    """Whether its state is known: made of a seed, or held in memory."""
    return isinstance(x, Record) and x.names == MADE


def of_made(
    t: Writes, made: Record, name: str, args: list[Abstract], kwargs: dict[str, Abstract]
) -> Any:
    """A method of one."""
    rng = made.values[0]
    row = (_LEGACY if len(rng.items) == 3 else _ROWS).get(name)
    if row is None:
        raise t.refuse(f"it draws random numbers by {name}{_INSTEAD.get(name, '')}")
    return row(t, [rng, *args], kwargs)


def at_place(t: Writes, holder: Any, kind: str, name: Any) -> Record:
    """A generator that is a global, or a variable of an enclosing function: others may come."""
    found = t.watch.look(holder, kind, name, of_generator)
    place, key = t.watch.place(holder, kind, name), (id(holder), kind, name)
    return Record(MADE, (t.source(found, place, key),))


MADE = ("bit_generator",)
_INSTEAD = {
    "multivariate_normal": "; write mean + factor @ rng.standard_normal(len(mean)), with "
    "factor = np.linalg.cholesky(cov) before: other numbers, of the same distribution",
}
"""Methods that are not compiled, and what is."""


def method(
    t: Writes, owner: Any, name: str, args: list[Abstract], kwargs: dict[str, Abstract]
) -> Any:
    """``owner.name(...)``."""
    row = _TABLES[generator_kind(owner)].get(name)
    if row is None:
        raise t.refuse(f"it draws random numbers by {name}{_INSTEAD.get(name, '')}")
    return row(t, [t.source(owner), *args], kwargs)


def find(f: Any) -> Call | None:
    """The row of a generator's method, or of a draw that `of_random` leaves to NumPy."""
    if kind := method_kind(f):
        if kind == PYTHONS and isinstance(f, MethodType) and f.__name__ not in _PYTHONS:
            return None  # it is written in Python
        return lambda t, args, kwargs: method(t, f.__self__, f.__name__, args, kwargs)
    return _OURS.get(f) if type(f) is FunctionType else None


# --- methods ------------------------------------------------------------------------------------


def named(
    t: Writes, names: str, args: list[Any], kwargs: dict[str, Any], defaults: dict[str, Any]
) -> list[Any]:
    """Arguments by the names of a method."""
    own = names.split()
    given = defaults | dict(zip(own, args, strict=False)) | kwargs
    if len(args) > len(own) or not given.keys() <= {*own}:
        raise t.refuse("it draws random numbers with further arguments")
    return [given.get(name, NONE) for name in own]


def _flag(t: Writes, x: Abstract, default: bool) -> bool:
    """A constant flag."""
    if places.is_none(x):
        return default
    if not isinstance(x, Num) or not isinstance(x.value, Literal):
        raise t.refuse("an option that is computed")
    return bool(x.value.value)


def _is_first_axis(x: Abstract) -> bool:
    return places.is_none(x) or x == integer(0)


def _dims(t: Writes, size: Abstract) -> list[Num] | None:
    """The lengths of what is drawn; None: one number."""
    if places.is_none(size):
        return None
    found = size.items if isinstance(size, Tup) else (size,)
    if not 1 <= len(found) <= 2:
        raise t.refuse("it draws random numbers of more than two axes, or of none")
    dims = [python_int(t, n) for n in found]
    for n in dims:
        t.mark(t.op("lt", "bool", n.value, places.ZERO), "a length below zero")
    return dims


def _several(t: Writes, rng: Tup, name: str, of: Distribution, values: list[Any], size: Any) -> Any:
    """Draw with some parameters."""
    dtype = Known(np.dtype(of.result))
    arrays = [isinstance(x, (Arr, Lst, Tup)) for x in values]
    if any(arrays):
        if not places.is_none(size):
            raise t.refuse("it draws random numbers with arrays, of a size")
        given = [
            as_array(t, x, "iuf") if whole else number(t, x)
            for x, whole in zip(values, arrays, strict=True)
        ]
        inlined: Any = _EACH[tuple(arrays)]
        return Inlined(inlined, [rng, Known(name), *given, dtype], {})
    given = [as_float(t, [number(t, x)], {}) for x in values]
    dims = _dims(t, size)
    if dims is None:
        return one(t, [rng, Known(name), Tup(tuple(given))], {})
    values = parameters(t, of, given)  # NumPy looks at them if nothing is drawn, too
    plain = PLAIN.get(name, name)
    is_own = is_quick(rng) or (len(rng.items) == 3 and name in of_random.LEGACY)
    if plain in PLAIN.values() and not is_own and ziggurats.sums_are_plain():
        tup = Tup(tuple(Num("float64", PYTHON, x) for x in values))
        inlined = of_random.several_plain if len(dims) == 1 else of_random.table_plain
        return Inlined(inlined, [rng, Known(plain), tup, *dims], {})
    inlined = of_random.several if len(dims) == 1 else of_random.table
    return Inlined(inlined, [rng, Known(name), Tup(tuple(given)), *dims, dtype], {})


_EACH = {
    (True,): of_random.each, (True, False): of_random.each_of_first,
    (False, True): of_random.each_of_second, (True, True): of_random.each_of_both,
}  # fmt: skip


def _distribution(name: str, legacy: bool = False) -> Call:
    """A method that draws by a distribution."""
    of = DISTRIBUTIONS[name]
    more = " dtype method" if name == "standard_exponential" else " dtype" if name in SHORT else ""
    more = "" if legacy else more
    names = f"{' '.join(of.names)} size{more}"
    defaults = {n: Num("float64", PYTHON, Literal(x, "float64")) for n, x in of.defaults.items()}

    def call(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Any:
        rng, *args = args
        found = named(t, names, args, kwargs, defaults)
        values, (size, *rest) = found[: len(of.names)], found[len(of.names) :]
        if any(map(places.is_none, values)):
            raise t.refuse(f"{name} without a parameter")
        if rest[1:] and rest[1] not in (NONE, Known("zig")):
            raise t.refuse("it draws random numbers by another method")
        dtype = dtype_of(t, rest[0], "float64") if rest else "float64"
        if dtype == "float32":
            return _several(t, rng, f"{name}_f", SHORT[name], values, size)
        if dtype != "float64":
            raise t.refuse(f"it draws random numbers of {dtype}")
        return _several(t, rng, name, of, values, size)

    return call


def _range(t: Writes, low: Abstract, high: Abstract, ends: bool, dtype: str) -> tuple[Num, Num]:
    """The least integer of a range, and how far the largest one is."""
    if places.is_none(high):
        low, high = integer(0), low
    first, last = (python_int(t, number(t, x)) for x in (low, high))
    if not ends:
        last = last._replace(value=t.op("sub", "int64", last.value, places.ONE))
    info = np.iinfo(dtype)
    least, most = max(int(info.min), -_LARGE), min(int(info.max), _LARGE)
    why = "integers of a range that there are not"
    t.mark(compared(t, "lt", first.value, Literal(least, "int64")), why)
    t.mark(compared(t, "gt", last.value, Literal(most, "int64")), why)
    t.mark(compared(t, "gt", first.value, last.value), why)
    return first, first._replace(value=t.op("sub", "int64", last.value, first.value))


def _integers(masked: bool, names: str, default: Any) -> Call:
    """``integers``, and ``randint``."""

    def call(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Any:
        rng, *args = args
        low, high, size, said, *rest = named(t, names, args, kwargs, {"dtype": Known(default)})
        ends = bool(rest) and _flag(t, rest[0], False)
        dtype = dtype_of(t, said, "int64")
        if numbers.kind_of(dtype) not in "iu":
            raise t.refuse(f"it draws integers of {dtype}")
        first, width = _range(t, low, high, ends, dtype)
        dims, is_masked = _dims(t, size), integer(int(masked))
        if dims is None:
            if dtype != "int64":
                raise t.refuse(f"it draws an integer of {dtype}")
            found = bounded(t, rng, first, width, masked)
            return found._replace(kind=PYTHON if said.value is int else NUMPY)
        inlined = of_random.integers if len(dims) == 1 else of_random.table_of_integers
        given = [rng, first, width, *dims, Known(np.dtype(dtype)), is_masked]
        return Inlined(inlined, given, {})

    return call


@functools.cache
def _of_choice(kind: str) -> str:
    """Whose number a choice of one from an integer is, in this NumPy."""
    rng = np.random.default_rng(0) if kind == GENERATOR else np.random.RandomState(0)
    return PYTHON if type(rng.choice(3)) is int else NUMPY


def _choice(masked: bool, names: str) -> Call:
    """``choice``."""

    def call(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Any:
        rng, *args = args
        a, size, replace, p, *rest = named(t, names, args, kwargs, {})
        inlined: Any
        again, weighs = _flag(t, replace, True), not places.is_none(p)
        if not all(map(_is_first_axis, rest[:1])) or (weighs and not again):
            raise t.refuse("it chooses along an axis, or without replacement by probabilities")
        dims, is_masked = _dims(t, size), integer(int(masked))
        n = python_int(t, a) if isinstance(a, Num) else None
        of = n if n is not None else as_array(t, a, "biufc")
        if not again or weighs:
            if (dims is None and not weighs) or (dims is not None and len(dims) > 1):
                raise t.refuse("it chooses a table by probabilities, or without replacement")
            if weighs:
                weights = as_array(t, p, "f")
                if dims is None:
                    if n is None:
                        return Inlined(of_random.element_weighed, [rng, of, weights], {})
                    unlike = t.op("ne", "bool", places.length(t, weights), n.value)
                    t.mark(unlike, "probabilities of another number of things")
                    if _of_choice(LEGACY if masked else GENERATOR) != PYTHON:
                        raise t.refuse("it chooses one, which is a number of NumPy's here")
                    return Inlined(of_random.place_weighed, [rng, weights], {})
            assert dims is not None
            if weighs:
                if n is None:
                    return Inlined(of_random.elements_weighed, [rng, of, *dims, weights], {})
                unlike = t.op("ne", "bool", places.length(t, weights), n.value)
                t.mark(unlike, "probabilities of another number of things")
                return Inlined(of_random.weighed, [rng, *dims, weights], {})
            if masked:
                inlined = of_random.elements_first if n is None else of_random.first_of
                return Inlined(inlined, [rng, of, *dims], {})
            shuffles = TRUE if _flag(t, rest[1] if rest[1:] else NONE, True) else FALSE
            inlined = of_random.elements_apart if n is None else of_random.apart
            return Inlined(inlined, [rng, of, *dims, shuffles], {})
        if n is not None:
            first, width = _range(t, integer(0), n, False, "int64")
            if dims is None:
                kind = _of_choice(LEGACY if masked else GENERATOR)
                return bounded(t, rng, first, width)._replace(kind=kind)
            inlined = of_random.integers if len(dims) == 1 else of_random.table_of_integers
            given = [rng, first, width, *dims, Known(np.dtype("int64")), is_masked]
            return Inlined(inlined, given, {})
        if dims is None:
            none = t.op("eq", "bool", places.length(t, of), places.ZERO)
            t.mark(none, "it chooses from nothing")
            return Inlined(of_random.element, [rng, of], {})
        if is_quick(rng):
            inlined = of_random.taken if len(dims) == 1 else of_random.taken_table
            return Inlined(inlined, [rng, of, *dims], {})
        inlined = of_random.chosen if len(dims) == 1 else of_random.chosen_table
        return Inlined(inlined, [rng, of, *dims, is_masked], {})

    return call


def _binomial(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """``binomial``."""
    rng, *args = args
    n, p, size = named(t, "n p size", args, kwargs, {})
    count = python_int(t, n)
    if not isinstance(p, Num):
        if not places.is_none(size):
            raise t.refuse("it draws random numbers with arrays, of a size")
        return Inlined(of_random.each_trial, [rng, count, as_array(t, p, "f")], {})
    dims, chance = _dims(t, size), as_float(t, [p], {})
    if dims is None:
        return Inlined(of_random.one_trial, [rng, count, chance], {})
    if len(dims) > 1:
        raise t.refuse("it draws a table of binomial numbers")
    return Inlined(of_random.several_trials, [rng, count, chance, *dims], {})


def _permutation(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Any:
    rng, *args = args
    x, axis = named(t, "x axis", args, kwargs, {})
    if not _is_first_axis(axis):
        raise t.refuse("a permutation along an axis")
    if isinstance(x, Num):
        n = python_int(t, x)
        t.mark(compared(t, "lt", n.value, places.ZERO), "a permutation of less than nothing")
        return Inlined(of_random.order, [rng, n], {})
    return Inlined(of_random.permuted, [rng, as_array(t, x, "biufc")], {})


def _shuffle(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Any:
    rng, *args = args
    x, axis = named(t, "x axis", args, kwargs, {})
    if not _is_first_axis(axis) or not isinstance(x, Arr):
        raise t.refuse(f"it shuffles {places.described(x)}")
    t.writes(x)
    return Inlined(of_random.shuffled, [rng, TAKEN["array"](t, x)], {})


def _spawn(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """``spawn``: which ones come depends on how many came before."""
    rng, *args = args
    (n,) = named(t, "n_children", args, kwargs, {})
    count = n.value.value if isinstance(n, Num) and isinstance(n.value, Literal) else 0
    family = t.children(rng) if seeds_are_known() else None
    if family is None:
        raise t.refuse(
            "it spawns generators of another kind than PCG64 of a SeedSequence, or of one that it "
            "makes; write np.random.default_rng([seed, k]) for the k-th generator of a seed"
        )
    if not 1 <= count <= len(_SPAWNED):
        raise t.refuse(f"it spawns a number of generators that is not 1 to {len(_SPAWNED)}")
    given = [family, t.constant(ziggurats.like()), Known(MADE)]
    return Inlined(_SPAWNED[count - 1], given, {})


_SPAWNED = (of_random.spawned, of_random.two_spawned, of_random.three_spawned)


def _reseeded(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """``np.random.seed``, and that of a ``RandomState``."""
    rng, *args = args
    (seed,) = named(t, "seed", args, kwargs, {})
    if not isinstance(seed, Num) or rng.items[-1].value != generators.MT19937:
        raise t.refuse(f"it seeds a generator by {places.described(seed)}")
    return Inlined(of_random.seeded, [rng, seed], {})


def _of_dims(name: str) -> Call:
    """``rand`` and ``randn``: the lengths are arguments."""

    def call(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Any:
        rng, *dims = args
        return _LEGACY[name](t, [rng, Tup(tuple(dims)) if dims else NONE], kwargs)

    return call


_ROWS: dict[str, Call] = {name: _distribution(name) for name in DISTRIBUTIONS} | {
    "integers": _integers(False, "low high size dtype endpoint", np.int64),
    "choice": _choice(False, "a size replace p axis shuffle"),
    "permutation": _permutation, "shuffle": _shuffle, "binomial": _binomial, "spawn": _spawn,
}  # fmt: skip
"""Methods of a ``Generator``."""
_RANDOM = _distribution("random", legacy=True)
_LEGACY: dict[str, Call] = {
    **{name: _distribution(name, legacy=True) for name in of_random.LEGACY},
    **{name: _distribution(name, legacy=True) for name, x in DISTRIBUTIONS.items() if x.is_legacy},
    **dict.fromkeys(("random", "random_sample"), _RANDOM),
    "rand": _of_dims("random"), "randn": _of_dims("standard_normal"),
    "randint": _integers(True, "low high size dtype", int),
    "choice": _choice(True, "a size replace p"), "permutation": _permutation, "shuffle": _shuffle,
    "binomial": _binomial, "seed": _reseeded,
}  # fmt: skip
"""Methods of a ``RandomState``, which are functions of ``numpy.random`` too."""


def _random(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Any:
    exactly(t, args, kwargs, 1)
    return one(t, [args[0], Known("random"), Tup(())], {})


def _random_bits(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Num:
    """``getrandbits``, of up to 32."""
    exactly(t, args, kwargs, 2)
    rng, k = args[0], python_int(t, args[1]).value
    for op, limit in (("lt", 1), ("gt", 32)):
        t.mark(compared(t, op, k, Literal(limit, "int64")), "more than 32 random bits, or none")
    most = integer((1 << 32) - 1)
    bits = bounded(t, rng, integer(0), most, False).value
    far = t.op("sub", "int64", Literal(32, "int64"), k)
    return Num("int64", PYTHON, t.op("shr", "int64", bits, far))


def _gauss(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Any:
    rng, *args = args
    one = Num("float64", PYTHON, Literal(1.0, "float64"))
    zero = Num("float64", PYTHON, Literal(0.0, "float64"))
    given = named(t, "mu sigma", args, kwargs, {"mu": zero, "sigma": one})
    return Inlined(of_random.gauss, [rng, *(as_float(t, [x], {}) for x in given)], {})


def _randrange(ends: bool) -> Call:
    """``randrange``, and ``randint``."""

    def call(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Any:
        exactly(t, args, kwargs, *((3,) if ends else (2, 3)))
        rng, *limits = args
        first, last = (python_int(t, x) for x in ([integer(0)] * (len(limits) == 1) + limits))
        first, width = _range(t, first, last, ends, "int64")
        return Inlined(of_random.from_range, [rng, first, width], {})

    return call


_PYTHONS: dict[str, Call] = {
    "random": _random, "getrandbits": _random_bits, "gauss": _gauss,
    "randrange": _randrange(False), "randint": _randrange(True),
}  # fmt: skip
"""Methods of `random.Random` that are not written in Python, or keep state."""
_TABLES = {GENERATOR: _ROWS, LEGACY: _LEGACY, PYTHONS: _PYTHONS}
_OURS = OURS | {of_random.bits: _random_bits}
