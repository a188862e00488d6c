"""The functions of the suite `never_slower`, each as one call by NumPy's loop and by xpapply.

    python -m benchmarks.never_slower_rows     # lists them

The ways to call apply_along_axis and vectorize of `idioms.py` and `scalar_functions.py`, the
programs of `programs.py`, what has been dearer than the loop once (`dear_functions.py`,
`dear_numbers.py`), what is compiled from its source (`dear_compiled.py`, `solver_rows.py`), and
random functions as the tests draw them.
"""

from __future__ import annotations

import math
import random
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import xpapply

from . import (
    dear_compiled,
    dear_functions,
    dear_numbers,
    idioms,
    loop_rows,
    programs,
    scalar_functions,
    solver_rows,
)

RANDOM = 100
"""Random functions, of which `OF_SEVERAL` take slices of several arrays."""
OF_SEVERAL = 30
DRAWN = 300
"""Different slices of a random function: more of them are these again."""


@dataclass(frozen=True)
class Case:
    """A function that is new, its arrays, and the two calls that are compared."""

    f: Callable[..., Any]
    loop: Callable[..., Any]
    ours: Callable[..., Any]
    explain: Callable[..., Any]
    arrays: tuple[Any, ...]
    slices: int


@dataclass(frozen=True)
class Row:
    """A function of the suite.

    Attributes
    ----------
    name, group : str
        The name is the function's alone.
    make : callable ``make(n)``
        A new `Case` with about `n` slices; exactly so many if they are at most `FEW`.
    numbers : bool
        Whether it is one of numbers, for vectorize.
    """

    name: str
    group: str
    make: Callable[[int], Case]
    numbers: bool = False


FEW = 100


def along(found: idioms.Idiom, n: int) -> Case:
    """A call of apply_along_axis."""
    f, axis, arr, args, kwargs = found.make(np.random.default_rng(0), max(n, FEW))
    if n <= FEW:
        first = axis % arr.ndim == 0
        arr = np.moveaxis(arr, axis, -1).reshape(-1, arr.shape[axis])[:n].copy()
        arr, axis = (arr.T, 0) if first else (arr, 1)
    looped = found.loop(f) if found.loop else f
    return Case(
        f,
        lambda x: np.apply_along_axis(looped, axis, x, *args, **kwargs),
        lambda x: xpapply.apply_along_axis(f, axis, x, *args, **kwargs),
        lambda x: xpapply.explain(f, axis, x, *args, **kwargs),
        (arr,),
        arr.size // arr.shape[axis],
    )


def vectorized(found: scalar_functions.Entry, n: int) -> Case:
    """A call of an object that vectorize has made; one slice is a number of NumPy."""
    f, arrays = found.build(np.random.default_rng(0), max(n, FEW))
    if n <= FEW:
        one = n == 1 and found.signature is None
        arrays = tuple((x[0] if one else x[:n]) if np.ndim(x) else x for x in arrays)
    how = {"signature": found.signature} | ({"otypes": found.otypes} if found.otypes else {})
    return of_vectorize(f, arrays, n, **how)


def of_vectorize(f: Callable[..., Any], arrays: tuple[Any, ...], n: int, **how: Any) -> Case:
    ours = xpapply.vectorize(f, **how)
    return Case(f, np.vectorize(f, **how), ours, ours.explain, arrays, n)


def solved(found: loop_rows.Row, n: int) -> Case:
    """A call over a function that solves something."""
    arrays = found.data(np.random.default_rng(0), n)
    if found.signature is not None:
        arrays = tuple(x[0] for x in arrays) if n == 1 and not found.signature else arrays
        return of_vectorize(found.f, arrays, n, signature=found.signature or None)
    return Case(
        found.f,
        lambda x: np.apply_along_axis(found.f, 1, x),
        lambda x: xpapply.apply_along_axis(found.f, 1, x),
        lambda x: xpapply.explain(found.f, 1, x),
        arrays,
        n,
    )


# --- random functions -----------------------------------------------------------------


def random_rows(seed: int, count: int) -> Iterator[Row]:
    """Functions whose loops raise nothing, the first of them of one array."""
    tests = str(Path(__file__).parents[1] / "tests")
    sys.path.insert(0, tests)
    try:
        import random_functions
    finally:
        sys.path.remove(tests)
    several = count * OF_SEVERAL // RANDOM
    r = random.Random(f"never slower: {seed}")
    for make, many in ((_of_one, count - several), (_of_several, several)):
        k = 0
        while k < many:
            case = make(random_functions, r)
            if _runs(case):
                k += 1
                yield Row(f"random_{seed}_{make.__name__[4:]}_{k}", "random", case)


def _of_one(drawn: Any, r: random.Random) -> Callable[[int], Case]:
    length, dtype = r.choice((2, 3, 5, 8, 16)), r.choice(drawn.DTYPES)
    function = drawn.Function.draw(r, length, dtype, r.choice(drawn.THEMES))
    rng = np.random.default_rng(r.randrange(2**32))
    given = drawn._numbers(rng, [DRAWN, length], np.dtype(dtype), r.randrange(3))

    def case(n: int) -> Case:
        f = function.make()
        return Case(
            f,
            lambda x: np.apply_along_axis(f, 1, x),
            lambda x: xpapply.apply_along_axis(f, 1, x),
            lambda x: xpapply.explain(f, 1, x),
            (np.resize(given, (n, length)),),
            n,
        )

    return case


def _of_several(drawn: Any, r: random.Random) -> Callable[[int], Case]:
    function = drawn.FunctionOfSeveral.draw(r, r.choice(("everything", "arithmetic", "branches")))
    rng = np.random.default_rng(r.randrange(2**32))
    cores = function.signature.split("->")[0][1:-1].split("),(")
    sizes = [[function.sizes[d] for d in core.split(",") if d] for core in cores]
    given = [
        drawn._numbers(rng, [DRAWN, *shape], np.dtype(dtype), 1)
        for shape, dtype in zip(sizes, function.dtypes, strict=True)
    ]

    def case(n: int) -> Case:
        arrays = tuple(np.resize(x, (n, *x.shape[1:])) for x in given)
        return of_vectorize(function.make(), arrays, n, signature=function.signature)

    return case


def _runs(make: Callable[[int], Case]) -> bool:
    case = make(DRAWN)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            case.loop(*case.arrays)
        except Exception:
            return False
    return True


# --- all ------------------------------------------------------------------------------


def rows(seed: int, drawn: int = RANDOM) -> list[Row]:
    """The functions in the order in which they are measured."""
    found = [Row(i.name, "apply_along_axis", partial(along, i)) for i in idioms.IDIOMS]
    found += [_row(e, "vectorize") for e in scalar_functions.ENTRIES]
    dear = [*dear_functions.ROWS, *dear_numbers.ROWS]
    found += [_row(e, "programs") for e in programs.ROWS]
    found += [_row(e, "once dearer") for e in dear]
    found += [_row(e, dear_compiled.GROUP) for e in dear_compiled.ROWS]
    found += [
        Row(f"{r.name} (solved)", dear_compiled.GROUP, partial(solved, r), r.signature == "")
        for r in solver_rows.ROWS
    ]
    return [*found, *random_rows(seed, drawn)]


def _row(found: idioms.Idiom | scalar_functions.Entry, group: str) -> Row:
    if isinstance(found, idioms.Idiom):
        return Row(found.name, group, partial(along, found))
    name = f"{found.name} (numbers)" if group == "vectorize" else found.name
    return Row(name, group, partial(vectorized, found), found.signature is None)


def main() -> None:
    found = rows(1)
    for group in dict.fromkeys(row.group for row in found):
        names = [row.name for row in found if row.group == group]
        print(f"{group}: {len(names)}\n  {', '.join(names)}")
    print(f"{len(found)} in all, {math.fsum(row.numbers for row in found):.0f} of numbers")


if __name__ == "__main__":
    main()
