"""Functions for vectorize that have been dearer than NumPy's loop once, or look as if they were.

Loops to a number of the element, texts and objects, what raises for some, decisions by the last
bit.
"""

from __future__ import annotations

import collections
import datetime
import decimal
import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from .scalar_functions import Entry

ROWS: list[Entry] = []


def numbers(*needs: str, **more: Any) -> Callable[[Callable], Callable]:
    """Register a builder of a call of vectorize, as those of `scalar_functions` are."""

    def register(build: Callable) -> Callable:
        ROWS.append(Entry(build.__name__, "once dearer", build, needs=needs, **more))
        return build

    return register


def _rows(rng: np.random.Generator, n: int, length: int) -> np.ndarray:
    return rng.standard_normal((n, length))


def _normal(rng: np.random.Generator, n: int) -> np.ndarray:
    return rng.standard_normal(n)


@numbers()
def collatz_of_fifty(rng, n):
    def f(k):
        count = 0
        while k != 1 and k > 0:
            k = k // 2 if k % 2 == 0 else 3 * k + 1
            count += 1
        return count

    return f, (rng.integers(0, 50, n),)


@numbers()
def word_of_sign(rng, n):
    return (lambda a: "neg" if a < 0 else "pos"), (_normal(rng, n),)


@numbers()
def root_or_zero(rng, n):
    return (lambda a: math.sqrt(a) if a > 0 else 0.0), (_normal(rng, n),)


@numbers()
def root_under_try(rng, n):
    def f(a):
        try:
            return math.sqrt(a)
        except ValueError:
            return -1.0

    return f, (_normal(rng, n),)


@numbers()
def whole_under_try(rng, n):
    def f(a):
        try:
            return int(a * 10)
        except ValueError:
            return -1

    x = _normal(rng, n)
    x[1::50] = np.nan
    return f, (x,)


@numbers()
def number_or_missing(rng, n):
    def f(text):
        try:
            return float(text)
        except ValueError:
            return math.nan

    return f, (rng.choice(np.array(["1.5", "x", "2", "-3e4"]), n),)


@numbers()
def byte_of_share(rng, n):
    return (lambda a: np.uint8(a * 255)), (rng.random(n),)


@numbers()
def cube_root(rng, n):
    return (lambda a: int(a ** (1 / 3))), (rng.integers(1, 60, n) ** 3.0,)


@numbers()
def power_and_floor(rng, n):
    return (lambda a: int(math.pow(a, 1 / 3))), (rng.integers(1, 60, n) ** 3.0,)


@numbers()
def up_after_exp_of_log(rng, n):
    return (lambda a: math.ceil(math.exp(math.log(a)))), (rng.integers(1, 400, n) + 0.0,)


@numbers()
def same_after_exp_of_log(rng, n):
    return (lambda a: math.exp(math.log(a)) == a), (rng.integers(1, 400, n) + 0.0,)


@numbers()
def branch_on_hypot(rng, n):
    f = lambda a: a if math.hypot(a, a) == a * math.sqrt(2) else -a  # noqa: E731
    return f, (rng.integers(1, 400, n) + 0.0,)


@numbers()
def logarithm_to_three(rng, n):
    return (lambda a: int(math.log(a, 3))), (3.0 ** rng.integers(1, 35, n),)


@numbers()
def circle_closed(rng, n):
    f = lambda a: 0 if np.sin(a) ** 2 + np.cos(a) ** 2 <= 1 else 100  # noqa: E731
    return f, (50 * rng.random(n),)


@numbers(otypes=[object])
def counters(rng, n):
    return (lambda a: collections.Counter("ab" if a > 0 else "aa")), (_normal(rng, n),)


@numbers(otypes=[object])
def named_tuples(rng, n):
    pair = collections.namedtuple("pair", "low high")
    return (lambda a: pair(a, -a)), (_normal(rng, n),)


@numbers()
def month_names(rng, n):
    def f(day):
        return (datetime.date(2001, 1, 1) + datetime.timedelta(int(day))).strftime("%b")

    return f, (rng.integers(0, 365, n),)


@numbers()
def cents(rng, n):
    f = lambda a: float(decimal.Decimal(str(a)).quantize(decimal.Decimal("0.01")))  # noqa: E731
    return f, (np.round(_normal(rng, n), 4),)


@numbers()
def matched_text(rng, n):
    found = re.compile(r"([a-z]+)(\d+)")
    words = np.array(["ab12", "x9", "12", "abc777"])
    return (lambda t: len(found.sub(r"\2\1", t))), (rng.choice(words, n),)


@numbers()
def upper_case(rng, n):
    return (lambda t: t.upper()), (rng.choice(np.array(["one", "two", "six"]), n),)


@numbers()
def formatted(rng, n):
    return (lambda a: f"{a:.2f}"), (_normal(rng, n),)


@numbers()
def bits_counted(rng, n):
    return (lambda k: bin(k).count("1")), (rng.integers(0, 4096, n),)


@numbers()
def digits_added(rng, n):
    def f(k):
        total = 0
        while k:
            total += k % 10
            k //= 10
        return total

    return f, (rng.integers(0, 100_000, n),)


@numbers()
def is_prime(rng, n):
    def f(k):
        if k < 2:
            return False
        return all(k % p for p in range(2, math.isqrt(int(k)) + 1))

    return f, (rng.integers(0, 400, n),)


@numbers()
def fibonacci(rng, n):
    def f(k):
        return k if k < 2 else f(k - 1) + f(k - 2)

    return f, (rng.integers(0, 8, n),)


@numbers()
def day_or_month(rng, n):
    def f(a, b, kind):
        return a * b if kind == "day" else a + b if kind == "month" else 0.0

    kinds = rng.choice(np.array(["day", "month", "year"]), n)
    return f, (_normal(rng, n), _normal(rng, n), kinds)


@numbers()
def matched_case(rng, n):
    def f(k):
        match k:
            case 0 | 1:
                return 1.0
            case 5:
                return 7.5
            case _:
                return -1.0

    return f, (rng.integers(0, 8, n),)


@numbers()
def class_in_numbers(rng, n):
    def f(a):
        class Box:
            value = a

        return Box.value * 2

    return f, (_normal(rng, n),)


@numbers()
def greatest_divisor(rng, n):
    def f(a, b):
        while b:
            a, b = b, a % b
        return a

    return f, tuple(rng.integers(1, 1000, (2, n)))


@numbers(signature="(n)->()")
def words_of_rows(rng, n):
    return (lambda v: "high" if v.mean() > 0 else "low"), (_rows(rng, n, 5),)


@numbers(signature="(n),(n)->(n)")
def swapped_rows(rng, n):
    def f(a, b):
        out = np.empty_like(a)
        for k in range(len(a)):
            out[k] = a[k] if a[k] > b[k] else b[-1 - k]
        return out

    return f, (_rows(rng, n, 5), _rows(rng, n, 5))
