"""Random functions of a slice on thousands of slices alike, among which a few are others.

What is frozen while the first slices are looked at is right for nearly all of them: only a rare
slice shows it.
"""

from __future__ import annotations

import random
import warnings

import numpy as np
import random_functions

import xpapply

LENGTHS = (1, 2, 3, 5, 8)


def _array(r: random.Random, length: int, dtype: str) -> np.ndarray:
    rng = np.random.default_rng(r.randrange(2**32))
    kind = r.randrange(2, 4) if dtype[0] == "f" else r.choice([0, 1, 3])
    draw = lambda n: random_functions._numbers(rng, [n, length], np.dtype(dtype), kind)  # noqa: E731
    x = np.tile(draw(r.choice([1, 1, 2])), (3000, 1))
    rare = draw(r.randrange(1, 4))
    x[rng.integers(20, len(x), len(rare))] = rare
    return x


def outcome(apply, f, x, axis=-1):
    """A result, or the exception in words."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            return apply(f, axis, x)
        except Exception as error:
            return f"{type(error).__name__}: {error}"


def differ(want, got, inexact: bool) -> bool:
    """Whether two outcomes are not the same."""
    if isinstance(want, str) or isinstance(got, str):
        return not (isinstance(want, str) and isinstance(got, str) and want == got)
    if want.shape != got.shape or want.dtype != got.dtype:
        return True
    if inexact and want.dtype.kind in "fc":
        single = want.dtype.itemsize <= 4
        return not np.allclose(want, got, rtol=1e-3 if single else 1e-7, equal_nan=True)
    if want.dtype.hasobject:  # NaN among them, and of which types they are
        return [*map(repr, want.flat)] != [*map(repr, got.flat)]
    return not np.array_equal(want, got, equal_nan=want.dtype.kind in "fc")


def short(x) -> str:
    """An outcome on a few lines."""
    text = x if isinstance(x, str) else f"{x.dtype}{x.shape} {x}"
    return text if len(text) < 500 else f"{text[:400]} ..."


def case(r: random.Random) -> str | None:
    length, dtype = r.choice(LENGTHS), r.choice(random_functions.DTYPES)
    function = random_functions.Function.draw(r, length, dtype, r.choice(random_functions.THEMES))
    x = _array(r, length, dtype)
    want = outcome(np.apply_along_axis, function.make(), x.copy())  # which f may write into
    got = outcome(xpapply.apply_along_axis, function.make(), x.copy())
    if differ(want, got, function.inexact):
        return f"{function.source}\n{dtype}, {length}\nwant {want}\ngot  {got}"
    return None
