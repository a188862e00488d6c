"""Random functions whose runs are given up in the middle: the loop gives what is left.

A run that costs more than the loop leaves its slices to the loop. On a fast machine that seldom
happens, so here it happens after a number of calls that is drawn.
"""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import random_functions

import xpapply
from xpapply.frontends.python.run import account
from xpapply.limits import LIMITS

from .alike import differ, outcome, short


@contextmanager
def overdrawn(after: int) -> Iterator[None]:
    """Plans as long as they need, and runs that are given up after so many calls."""

    def is_overdrawn(self: account.Account) -> bool:
        asked = self.__dict__.setdefault("asked", itertools.count())
        self.is_spent = next(asked) >= after
        return self.is_spent

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LIMITS, "first_call", 600.0)
        patch.setattr(LIMITS, "lent", 1200.0)
        patch.setattr(account.Account, "is_overdrawn", property(is_overdrawn))
        yield


def _shape(r: random.Random, length: int) -> tuple[int, ...]:
    """Of a slice with so many elements, along one axis or several."""
    shapes = [(length,), (1, length), (length, 1)]
    shapes += [(k, length // k) for k in range(2, length) if length % k == 0]
    return r.choice(shapes)


def _of_one(r: random.Random) -> str | None:
    length, dtype = r.choice([1, 2, 4, 6, 8]), r.choice(random_functions.DTYPES)
    function = random_functions.Function.draw(r, length, dtype, r.choice(random_functions.THEMES))
    shape, made = _shape(r, length), function.make
    x, axis = random_functions.slices(r, length, dtype)
    x = np.moveaxis(x, axis, -1)
    if len(shape) == 1:
        functions, axes = [made(), made()], axis
        x = np.moveaxis(x, -1, axis)
        want = outcome(np.apply_along_axis, functions[0], x.copy(order="K"), axis)
    else:
        functions = [_flattened(made()) for _ in range(2)]
        x, axes = x.reshape(*x.shape[:-1], *shape), (-2, -1)
        want = outcome(_each, functions[0], x.copy(order="K"))
    after = r.choice([0, 1, 2, 3, 5, 9, 30])
    with overdrawn(after):
        for turn in range(2):
            got = outcome(xpapply.apply_along_axis, functions[1], x.copy(order="K"), axes)
            if differ(want, got, function.inexact):
                told = f"{function.source}\n{dtype}{x.shape}, {axes}, after {after}, turn {turn}"
                return f"{told}\nwant {short(want)}\ngot  {short(got)}"
    return None


def _flattened(f: Any) -> Any:
    def flattened(v: Any) -> Any:
        return f(v.reshape(-1))

    return flattened


def _each(f: Any, axis: int, x: np.ndarray) -> np.ndarray:
    """The loop over slices along the two last axes."""
    batch, y = x.shape[:-2], None
    for i in np.ndindex(*batch):
        one = np.asanyarray(f(x[i]))
        if y is None:
            y = np.empty((*batch, *one.shape), one.dtype)
        y[*i, ...] = one
    return y


def _of_several(r: random.Random) -> str | None:
    function = random_functions.FunctionOfSeveral.draw(r, r.choice(random_functions.THEMES))
    rng, count = np.random.default_rng(r.randrange(2**32)), 17 + r.randrange(44)
    inputs = re.findall(r"\((.*?)\)", function.signature.partition("->")[0])
    arrays = []
    for dims, dtype in zip(inputs, function.dtypes, strict=True):
        sizes = [function.sizes[n] for n in re.findall(r"\w+", dims)]
        arrays.append(
            random_functions._numbers(rng, [count, *sizes], np.dtype(dtype), r.randrange(4))
        )

    def run(make: Any, f: Any, _: Any) -> Any:
        return make(f, signature=function.signature)(*arrays)

    made = [function.make(), function.make()]
    want = outcome(lambda f, axis, x: run(np.vectorize, f, x), made[0], None)
    after = r.choice([0, 1, 2, 3, 5, 9, 30])
    with overdrawn(after):
        for turn in range(2):
            got = outcome(lambda f, axis, x: run(xpapply.vectorize, f, x), made[1], None)
            pairs = zip(want, got, strict=False) if isinstance(want, tuple) else [(want, got)]
            if type(want) is not type(got) or any(differ(a, b, function.inexact) for a, b in pairs):
                told = f"{function.source}\n{function.signature}, after {after}, turn {turn}"
                return f"{told}\nwant {want}\ngot  {got}"
    return None


def case(r: random.Random) -> str | None:
    return r.choice([_of_one, _of_one, _of_several])(r)
