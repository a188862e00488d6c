"""Generators of random numbers that a function makes of a seed, in memory of its own."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from .....ir.typed import Literal
from .....library import of_random
from .....runtime import generators as runtime
from .....runtime import ziggurats
from .....runtime.registry import GENERATOR, generator_kind
from .. import places
from ..calls.arguments import as_array
from ..calls.common import Call, number, python_int
from ..values import NUMPY, Arr, Inlined, Known, Lst, Num, Record, Tup, Writes
from .draws import NONE, seeds_are_known
from .generators import MADE, is_made, is_one, method, named

_BITS, _SEQUENCE = ("pcg64",), ("entropy", "spawn_key")


def _of_seed(t: Writes, seed: Any, kind: tuple[str, ...]) -> Inlined:
    key: Any = Tup(())
    if isinstance(seed, Record) and seed.names == _SEQUENCE:
        seed, key = seed.values
    if t.fetches or t.element != NUMPY or not isinstance(seed, (Num, Arr, Lst, Tup)):
        raise t.refuse(f"it makes a generator of {places.described(seed)}")
    if not seeds_are_known():
        raise t.refuse("it makes a generator, which this NumPy seeds in another way")
    seed = Tup((number(t, seed),)) if isinstance(seed, Num) else seed
    given = [_integers(t, seed), _integers(t, key), t.constant(ziggurats.like()), Known(kind)]
    return Inlined(of_random.made, given, {})


def _integers(t: Writes, x: Any) -> Arr:
    if x == Tup(()):
        return t.constant(np.empty(0, np.int64), is_own=True)
    found = as_array(t, x, "biu")
    if found.type.ndim != 1 or found.type.dtype in ("uint32", "uint64"):
        raise t.refuse(f"it makes a generator of {places.described(x)}")
    return found


def _seed_sequence(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Record:
    """``np.random.SeedSequence``, which generators are made of."""
    if len(args) > 1:
        raise t.refuse("it makes a SeedSequence with further arguments")
    given = named(t, "entropy spawn_key", args, kwargs, {"spawn_key": Tup(())})
    return Record(_SEQUENCE, tuple(given))


def _default_rng(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """``np.random.default_rng``: of seeds, or of a generator, which it is then."""
    (seed,) = named(t, "seed", args, kwargs, {})
    if isinstance(seed, Record) and seed.names == _BITS:
        return Record(MADE, seed.values)
    if is_made(seed) and len(seed.values[0].items) == 2:
        return seed
    if is_one(seed) and generator_kind(seed.value) == GENERATOR:
        return seed
    return _of_seed(t, seed, MADE)


def _generator(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Record:
    """``np.random.Generator``, of bits that the function has made."""
    (bits,) = named(t, "bit_generator", args, kwargs, {})
    if not isinstance(bits, Record) or bits.names != _BITS:
        raise t.refuse(f"it makes a generator of {places.described(bits)}")
    return Record(MADE, bits.values)


def _pcg64(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Any:
    (seed,) = named(t, "seed", args, kwargs, {})
    return _of_seed(t, seed, _BITS)


def _random_state(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Any:
    (seed,) = named(t, "seed", args, kwargs, {})
    if t.fetches or t.element != NUMPY or not isinstance(seed, Num):
        raise t.refuse(f"it makes a RandomState of {places.described(seed)}")
    given = [python_int(t, number(t, seed)), t.constant(ziggurats.like(runtime.MT19937))]
    return Inlined(of_random.made_legacy, given, {})


def _seed(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """``np.random.seed``: it is a function, and no method as the others are."""
    owner = sys.modules["numpy.random"].normal.__self__  # type: ignore[attr-defined]
    return method(t, owner, "seed", args, kwargs)


_MAKERS: dict[str, Call] = {
    "default_rng": _default_rng, "Generator": _generator, "PCG64": _pcg64,
    "RandomState": _random_state, "SeedSequence": _seed_sequence, "seed": _seed,
}  # fmt: skip


def _made(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Record:
    words, kind = args
    return Record(kind.value, (Tup((words, Known(ziggurats.OWN))),))


def _state(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Record:
    return Record(MADE, (Tup((*args, Known(runtime.MT19937))),))


def _begun(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Known:
    words, like, given = args
    halves = [] if isinstance(given, Tup) else range(8)
    each = [t.op("element", "int64", given.value, Literal(k, "int64")) for k in halves]
    t.do("seed", words.value, like.value, *each)
    return NONE


_OURS: dict[Any, Call] = {
    of_random.begun: _begun, of_random.generator_of: _made,
    of_random.state_of: _state,
}  # fmt: skip
"""Rows of our own functions."""


def find(f: Any) -> Call | None:
    """The row of a call that makes a generator, or seeds NumPy's own."""
    module = sys.modules.get("numpy.random")
    if module is None:
        return None
    for name, row in _MAKERS.items():
        if f is getattr(module, name):
            return row
    return next((row for ours, row in _OURS.items() if f is ours), None)
