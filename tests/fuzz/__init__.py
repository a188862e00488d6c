"""Random programs against the plain loop: one generator per file, run for as long as one likes.

    python tests/fuzz frozen --seed 1 --cases 100000
    python tests/fuzz frozen --seed 1 --case 4711    # one case again

A generator is a module of this folder with ``case(r)``, which draws one program and its arrays with
the `random.Random` that it gets, runs it here and in the plain loop, and returns None, or a text
that says what differed and holds the program. Case `i` of a seed is the same whatever ran before.
The suite runs a few cases of each (`test_fuzz.py`).
"""

from __future__ import annotations

import importlib
import pkgutil
import random
import traceback
from collections.abc import Iterable, Iterator


def names() -> list[str]:
    """All generators."""
    found = (module.name for module in pkgutil.iter_modules(__path__))
    return [name for name in found if name != "__main__" and not name.startswith("test_")]


def finds(name: str, seed: int, cases: Iterable[int]) -> Iterator[tuple[int, str]]:
    """The cases whose results differ from the loop's, each with what was found."""
    case = importlib.import_module(f"{__name__}.{name}").case
    for i in cases:
        r = random.Random(f"{name}:{seed}:{i}")
        try:
            found = case(r)
        except Exception:  # of the generator, or of the package where the loop gave a result
            found = traceback.format_exc()
        if found is not None:
            yield i, found
