"""NumPy's methods that draw random numbers, for the compiler: one number after the other.

`one`, `below`, `within`, `fill`, `bits` and `trials` call NumPy's own functions, so what they draw
has its bits.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..runtime.generators import INTERVAL, MERSENNE, Source, drawn
from ..runtime.ziggurats import started


def one(rng: Any, of: str, given: tuple[Any, ...]) -> Any:
    """A number that is drawn by a method."""
    return getattr(rng[0] if type(rng) is tuple else rng, of)(*given)


def below(rng: Any, i: int) -> Any:
    """An integer from 0 to `i`, as shuffles draw it."""
    return drawn(INTERVAL, "int64", (Source(rng).words, i), ("array", "int64"))


def within(rng: Any, low: int, width: int) -> Any:
    """An integer from `low` to ``low + width``, as ``rng.integers`` draws it."""
    return int(rng.integers(low, low + width, endpoint=True))


def fill(rng: Any, low: int, width: int, n: int, is_masked: int, out: Any) -> None:
    """Draw `n` integers from `low` to ``low + width`` into an array."""
    out.reshape(-1)[:] = rng.integers(low, low + width, n, out.dtype, endpoint=True)


def numbers(rng: Any, of: str, out: Any) -> None:
    """Draw by a method without parameters into an array."""
    out.reshape(-1)[:] = getattr(rng[0] if type(rng) is tuple else rng, of)(out.size)


def exchanges(rng: Any, at: Any) -> None:
    """The exchanges of a shuffle, from the last element to the second."""
    for k in range(len(at) - 1):
        i = len(at) - 1 - k
        at[i] = below(rng, i)


# --- numbers ------------------------------------------------------------------------------------


def several(rng: Any, of: str, given: Any, n: int, dtype: Any) -> Any:
    """So many numbers."""
    out = np.empty(n, dtype)
    for k in range(n):
        out[k] = one(rng, of, given)
    return out


def several_plain(rng: Any, of: str, given: Any, n: int) -> Any:
    """Several numbers of a scaled and shifted distribution."""
    out = np.empty(n)
    numbers(rng, of, out)
    if len(given) == 1:
        for k in range(n):
            out[k] = given[0] * out[k]
    elif len(given) == 2:
        for k in range(n):
            out[k] = given[0] + given[1] * out[k]
    return out


def table_plain(rng: Any, of: str, given: Any, m: int, n: int) -> Any:
    """Rows of those."""
    return several_plain(rng, of, given, m * n).reshape(m, n)


def table(rng: Any, of: str, given: Any, m: int, n: int, dtype: Any) -> Any:
    """Rows of so many numbers."""
    out = np.empty((m, n), dtype)
    for i in range(m):
        for k in range(n):
            out[i, k] = one(rng, of, given)
    return out


def each(rng: Any, of: str, a: Any, dtype: Any) -> Any:
    """A number for each of an array."""
    out = np.empty(len(a), dtype)
    for k in range(len(a)):
        out[k] = one(rng, of, (a[k],))
    return out


def each_of_first(rng: Any, of: str, a: Any, b: Any, dtype: Any) -> Any:
    """A number for each of an array, with another number."""
    out = np.empty(len(a), dtype)
    for k in range(len(a)):
        out[k] = one(rng, of, (a[k], b))
    return out


def each_of_second(rng: Any, of: str, a: Any, b: Any, dtype: Any) -> Any:
    """A number for each of an array, which comes second."""
    out = np.empty(len(b), dtype)
    for k in range(len(b)):
        out[k] = one(rng, of, (a, b[k]))
    return out


def each_of_both(rng: Any, of: str, a: Any, b: Any, dtype: Any) -> Any:
    """A number for each of two arrays."""
    if len(a) != len(b):
        raise ValueError
    out = np.empty(len(a), dtype)
    for k in range(len(a)):
        out[k] = one(rng, of, (a[k], b[k]))
    return out


def trials(rng: Any, n: int, p: float, kept: Any) -> int:
    """``rng.binomial(n, p)``; `kept`: where NumPy keeps what it knows of `n` and `p`."""
    return int((rng[0] if type(rng) is tuple else rng).binomial(n, p))


def one_trial(rng: Any, n: int, p: float) -> int:
    """One binomial number."""
    return trials(rng, n, p, np.zeros(64, np.int64))


def several_trials(rng: Any, n: int, p: float, count: int) -> Any:
    """``rng.binomial(n, p, count)``."""
    kept = np.zeros(64, np.int64)
    out = np.empty(count, np.int64)
    for k in range(count):
        out[k] = trials(rng, n, p, kept)
    return out


def each_trial(rng: Any, n: int, p: Any) -> Any:
    """``rng.binomial(n, p)`` of an array."""
    kept = np.zeros(64, np.int64)
    out = np.empty(len(p), np.int64)
    for k in range(len(p)):
        kept[0] = 0
        out[k] = trials(rng, n, p[k], kept)
    return out


# --- integers -----------------------------------------------------------------------------------


def integers(rng: Any, low: int, width: int, n: int, dtype: Any, is_masked: int) -> Any:
    """So many integers from `low` to ``low + width``."""
    out = np.empty(n, dtype)
    fill(rng, low, width, n, is_masked, out)
    return out


def table_of_integers(
    rng: Any, low: int, width: int, m: int, n: int, dtype: Any, is_masked: int
) -> Any:
    """Rows of so many integers."""
    out = np.empty((m, n), dtype)
    fill(rng, low, width, m * n, is_masked, out)
    return out


def filled(rng: Any, low: int, width: int, out: Any) -> None:
    """`fill`, one after the other."""
    for k in range(len(out)):
        out[k] = within(rng, low, width)


def rows_filled(rng: Any, low: int, width: int, out: Any) -> None:
    """Fill rows with integers of a range."""
    for i in range(out.shape[0]):
        for k in range(out.shape[1]):
            out[i, k] = within(rng, low, width)


# --- elements -----------------------------------------------------------------------------------


def chosen(rng: Any, a: Any, n: int, is_masked: int) -> Any:
    """``rng.choice(a, n)``."""
    if len(a) == 0:
        raise ValueError
    at = np.empty(n, np.int64)
    fill(rng, 0, len(a) - 1, n, is_masked, at)
    out = np.empty(n, a.dtype)
    for k in range(n):
        out[k] = a[at[k]]
    return out


def chosen_table(rng: Any, a: Any, m: int, n: int, is_masked: int) -> Any:
    """``rng.choice(a, (m, n))``."""
    if len(a) == 0:
        raise ValueError
    at = np.empty(m * n, np.int64)
    fill(rng, 0, len(a) - 1, m * n, is_masked, at)
    out = np.empty((m, n), a.dtype)
    for i in range(m):
        for k in range(n):
            out[i, k] = a[at[i * n + k]]
    return out


def taken(rng: Any, a: Any, n: int) -> Any:
    """``rng.choice(a, n)``, one after the other."""
    last = len(a) - 1
    if last < 0:
        raise ValueError
    out = np.empty(n, a.dtype)
    for k in range(n):
        out[k] = a[within(rng, 0, last)]
    return out


def taken_table(rng: Any, a: Any, m: int, n: int) -> Any:
    """``rng.choice(a, (m, n))``, one after the other."""
    last = len(a) - 1
    if last < 0:
        raise ValueError
    out = np.empty((m, n), a.dtype)
    for i in range(m):
        for k in range(n):
            out[i, k] = a[within(rng, 0, last)]
    return out


def element(rng: Any, a: Any) -> Any:
    """``rng.choice(a)``."""
    return a[within(rng, 0, len(a) - 1)]


def elements_of(a: Any, at: Any) -> Any:
    """``a[at]`` of places that are there."""
    out = np.empty(len(at), a.dtype)
    for k in range(len(at)):
        out[k] = a[at[k]]
    return out


def apart(rng: Any, n: int, k: int, shuffles: bool) -> Any:
    """Places that differ: ``rng.choice(n, k, replace=False)``.

    Of many some are shuffled to the end; else each is drawn from one more, and is the new one
    itself where it is there already. Source: J. Bentley and B. Floyd, A sample of brilliance,
    Communications of the ACM 30 (9), 1987.
    """
    if k > n:
        raise ValueError
    out = np.empty(k, np.int64)
    if n > 10000 and k > n // (50 if shuffles else 20):
        every = np.empty(n, np.int64)
        for i in range(n):
            every[i] = i
        _exchanged(rng, every, n - k if n > k else 1)
        for i in range(k):
            out[i] = every[n - k + i]
        return out
    for i in range(k):
        last = n - k + i
        x = within(rng, 0, last)
        for j in range(i):
            if out[j] == x:
                x = last
                break
        out[i] = x
    if shuffles:
        _exchanged(rng, out, 1)
    return out


def elements_apart(rng: Any, a: Any, k: int, shuffles: bool) -> Any:
    """``rng.choice(a, k, replace=False)``."""
    return elements_of(a, apart(rng, len(a), k, shuffles))


def _exchanged(rng: Any, x: Any, first: int) -> None:
    """Exchange elements with those up to there, from the last one to the `first`."""
    n = len(x)
    for k in range(n - first):
        i = n - 1 - k
        j = within(rng, 0, i)
        kept = x[j]
        x[j] = x[i]
        x[i] = kept


def first_of(rng: Any, n: int, k: int) -> Any:
    """``np.random.choice(n, k, replace=False)``."""
    if k > n:
        raise ValueError
    return order(rng, n)[:k]


def elements_first(rng: Any, a: Any, k: int) -> Any:
    """``np.random.choice(a, k, replace=False)``."""
    return elements_of(a, first_of(rng, len(a), k))


def elements_weighed(rng: Any, a: Any, n: int, p: Any) -> Any:
    """``rng.choice(a, n, p=p)``."""
    if len(a) != len(p):
        raise ValueError
    return elements_of(a, weighed(rng, n, p))


def element_weighed(rng: Any, a: Any, p: Any) -> Any:
    """``rng.choice(a, p=p)``."""
    if len(a) != len(p):
        raise ValueError
    return a[weighed(rng, 1, p)[0]]


def place_weighed(rng: Any, p: Any) -> int:
    """``rng.choice(len(p), p=p)``."""
    return int(weighed(rng, 1, p)[0])


def weighed(rng: Any, n: int, p: Any) -> Any:
    """Places, each with its probability: ``rng.choice(len(p), n, p=p)``."""
    total = 0.0
    for x in p:
        if not x >= 0.0:
            raise ValueError
        total += x
    if not abs(total - 1.0) < 1e-9:
        raise ValueError
    ends = np.add.accumulate(p)
    ends = ends / ends[len(p) - 1]
    out = np.empty(n, np.int64)
    for k in range(n):
        x = one(rng, "random", ())
        low = 0
        high = len(p)
        while low < high:  # the first place after it
            middle = (low + high) // 2
            if x < ends[middle]:
                high = middle
            else:
                low = middle + 1
        out[k] = low
    return out


def shuffled(rng: Any, x: Any) -> None:
    """``rng.shuffle(x)``: the last one is exchanged with one of all, then the one before it."""
    n = len(x)
    at = np.empty(n, np.int64)
    exchanges(rng, at)
    for k in range(n - 1):
        i = n - 1 - k
        j = at[i]
        kept = x[j]
        x[j] = x[i]
        x[i] = kept


def permuted(rng: Any, x: Any) -> Any:
    """``rng.permutation(x)``."""
    out = x.copy()
    shuffled(rng, out)
    return out


def order(rng: Any, n: int) -> Any:
    """``rng.permutation(n)``."""
    out = np.empty(n, np.int64)
    for k in range(n):
        out[k] = k
    shuffled(rng, out)
    return out


# --- generators of seeds ------------------------------------------------------------------------

_MASK = 0xFFFFFFFF


def begun(words: Any, like: Any, given: Any) -> None:
    """Make a PCG64 in an array, of what it is seeded with."""
    started(words, like, [int(x) for x in given])


def _times(x: int, y: int) -> int:
    """The lower 32 bits of a product of 32-bit numbers, without overflow."""
    return (x * (y & 0xFFFF) + (((x * (y >> 16)) & 0xFFFF) << 16)) & _MASK


def generator(seeds: Any, key: Any, like: Any) -> Any:
    """``np.random.default_rng(np.random.SeedSequence(seeds, spawn_key=key))``: a PCG64's words."""
    words = np.zeros(2 * len(seeds) + 2 * len(key) + 4, np.int64)
    n = _written(words, 0, seeds)
    return _grown(words, _written(words, max(n, 4), key), like)


def _written(words: Any, n: int, seeds: Any) -> int:
    """Write numbers as such of 32 bits, from place `n` on: where they end."""
    for x in seeds:
        if x < 0:
            raise ValueError
        words[n] = x & _MASK
        n += 1
        if x > _MASK:
            words[n] = x >> 32
            n += 1
    return n


def _grown(seeds: Any, n: int, like: Any) -> Any:
    """A PCG64 of some numbers of 32 bits, at least four.

    Source: M. E. O'Neill, Developing a seed_seq alternative, 2015: four numbers of 32 bits are
    made of the seed, each of which depends on all of its bits, and eight of these.
    """
    pool = [0, 0, 0, 0]
    by = 0x43B0D7E5
    for k in range(4):
        x = int(seeds[k]) ^ by
        by = _times(by, 0x931E8875)
        x = _times(x, by)
        pool[k] = x ^ (x >> 16)
    for k in range(n):
        for j in range(4):
            if j != k:
                x = (pool[k] if k < 4 else int(seeds[k])) ^ by
                by = _times(by, 0x931E8875)
                x = _times(x, by)
                x ^= x >> 16
                y = (_times(pool[j], 0xCA01F9DD) - _times(x, 0x4973F715)) & _MASK
                pool[j] = y ^ (y >> 16)
    given = np.empty(8, np.int64)
    by = 0x8B51F9DD
    for k in range(8):
        x = pool[k % 4] ^ by
        by = _times(by, 0x58F38DED)
        x = _times(x, by)
        given[k] = x ^ (x >> 16)
    words = np.empty(12, np.uint64)
    begun(words, like, given)
    return words


def generator_of(words: Any, kind: Any) -> Any:
    """A generator with such words: compiled it is no object."""
    raise NotImplementedError


def made(seeds: Any, key: Any, like: Any, kind: Any) -> Any:
    """A generator, or bits that one may be made of."""
    return generator_of(generator(seeds, key, like), kind)


def _child(family: Any, like: Any, kind: Any) -> Any:
    """The next generator that one spawns."""
    count, n, m = family[0], family[1], family[2]
    family[0] = count + 1
    key = np.empty(m + 1, np.int64)
    for k in range(m):
        key[k] = family[3 + n + k]
    key[m] = count
    return made(family[3 : 3 + n], key, like, kind)


def spawned(family: Any, like: Any, kind: Any) -> Any:
    """``rng.spawn(1)``."""
    return (_child(family, like, kind),)


def two_spawned(family: Any, like: Any, kind: Any) -> Any:
    """``rng.spawn(2)``."""
    return _child(family, like, kind), _child(family, like, kind)


def three_spawned(family: Any, like: Any, kind: Any) -> Any:
    """``rng.spawn(3)``."""
    return _child(family, like, kind), _child(family, like, kind), _child(family, like, kind)


def state_of(words: Any, kept: Any) -> Any:
    """A ``RandomState`` with such words and a kept normal number: compiled it is no object."""
    raise NotImplementedError


def mersenne(words: Any, seed: int) -> None:
    """Seed an MT19937 anew."""
    drawn(MERSENNE, "", (words, seed), ("array", "int64"))


def made_legacy(seed: int, like: Any) -> Any:
    """``np.random.RandomState(seed)``."""
    words = np.empty(320, np.uint64)
    begun(words, like, ())
    mersenne(words, seed)
    return state_of(words, np.zeros(2))


def seeded(rng: Any, seed: int) -> None:
    """``np.random.seed(seed)``."""
    mersenne(rng[0], seed)
    rng[1][0] = 0.0
    rng[1][1] = 0.0


# --- legacy methods -----------------------------------------------------------------------------


def normal(rng: Any, loc: float, scale: float) -> float:
    """``np.random.normal(loc, scale)``, by the polar method: every other one is kept.

    Source: G. Marsaglia and T. A. Bray, A convenient method for generating normal variables, SIAM
    Review 6, 1964.
    """
    kept = rng[1]
    if kept[0] != 0.0:
        x = float(kept[1])
        kept[0] = 0.0
        kept[1] = 0.0
        return loc + scale * x
    while True:
        a = 2.0 * one(rng, "random", ()) - 1.0
        b = 2.0 * one(rng, "random", ()) - 1.0
        square = a * a + b * b
        if 0.0 < square < 1.0:
            break
    far = math.sqrt(-2.0 * math.log(square) / square)
    kept[0] = 1.0
    kept[1] = far * a
    return loc + scale * (far * b)


def standard_normal(rng: Any) -> float:
    """``np.random.standard_normal()``."""
    return normal(rng, 0.0, 1.0)


def standard_exponential(rng: Any) -> float:
    """``np.random.standard_exponential()``."""
    return -math.log(1.0 - one(rng, "random", ()))


def exponential(rng: Any, scale: float) -> float:
    """``np.random.exponential(scale)``."""
    return scale * standard_exponential(rng)


def gauss(rng: Any, mu: float, sigma: float) -> float:
    """``random.gauss(mu, sigma)``, which gives two numbers of two: one is kept."""
    kept = rng[1]
    if kept[0] != 0.0:
        z = float(kept[1])
        kept[0] = 0.0
        kept[1] = 0.0
    else:
        angle = one(rng, "random", ()) * math.tau
        far = math.sqrt(-2.0 * math.log(1.0 - one(rng, "random", ())))
        z = math.cos(angle) * far
        kept[0] = 1.0
        kept[1] = math.sin(angle) * far
    return mu + z * sigma


def bits(rng: Any, k: int) -> int:
    """``random.getrandbits(k)``."""
    return int(rng.getrandbits(k))


def from_range(rng: Any, low: int, width: int) -> int:
    """``random.randint(low, low + width)``: so many bits as it has are drawn until they fit."""
    n = width + 1
    k = n.bit_length()
    x = bits(rng, k)
    while x >= n:
        x = bits(rng, k)
    return low + x


LEGACY: dict[str, Callable[..., float]] = {
    "normal": normal, "standard_normal": standard_normal, "exponential": exponential,
    "standard_exponential": standard_exponential,
}  # fmt: skip
"""Methods that are written here, by name."""


@functools.cache
def legacy_is_known() -> bool:
    """Whether this NumPy draws with these steps."""
    a, b = np.random.RandomState(7), (np.random.RandomState(7), np.zeros(2))
    given: dict[Any, tuple[float, ...]] = {normal: (0.3, 1.7), exponential: (1.7,)}
    for f in list(LEGACY.values()) * 75:
        if getattr(a, f.__name__)(*given.get(f, ())) != f(b, *given.get(f, ())):
            return False
    return True
