"""Numbers and their kinds as what pandas makes of a list of results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from .returns import (
    BOOL,
    FLOAT,
    INTEGER,
    KINDS,
    MISSING,
    NONE,
    NUMPYS,
    OTHER,
    SINGLE,
    SURE,
    TEXT,
    Made,
)

NOT_SURE = "it returns integers beyond 2**53, or numbers of several classes"
OF_MANY_KINDS = "the elements of a Series that it returns are of many kinds"


def is_sure(values: np.ndarray, kinds: np.ndarray, single: bool = False) -> bool:
    """Whether integers among floats are the integers that they were; `single`: float32 may be."""
    kinds = kinds % NUMPYS
    count = np.bincount(kinds, minlength=OTHER + 1)
    if count[OTHER] or (count[SINGLE] and not single):
        return False
    integers = values if count[INTEGER] == len(values) else values[kinds == INTEGER]
    return not len(integers) or float(np.abs(integers).max()) < SURE


def elements(values: np.ndarray, kinds: np.ndarray, texts: list[str]) -> np.ndarray:
    """An array that pandas makes the same of as of a list of the results.

    Its dtype is that of the results, or object.
    """
    own, kinds = kinds, kinds % NUMPYS
    count = np.bincount(kinds, minlength=OTHER + 1)
    for kind, dtype in ((INTEGER, np.int64), (BOOL, np.bool_), (SINGLE, np.float32)):
        if count[kind] == len(values) > 0:
            return values.astype(dtype)
    if count[[FLOAT, SINGLE, INTEGER]].sum() == len(values) > 0:
        return values
    made = values.astype(object)
    for kind, of in ((INTEGER, np.int64), (BOOL, np.bool_)):
        at = kinds == kind
        made[at] = values[at].astype(of).astype(object)
    classes = [(kind | NUMPYS, of) for kind, of in enumerate(KINDS)]
    for kind, numpys in (*classes, (SINGLE, np.float32)):
        at = np.flatnonzero(own == kind)
        if at.size:
            made[at] = [*values[at].astype(numpys)]  # a list: an array's would become Python's
    made[kinds == NONE], made[kinds == MISSING] = None, pd.NA
    if count[TEXT]:
        at = kinds == TEXT
        made[at] = np.array([*texts, None], dtype=object)[values[at].astype(np.intp)]
    return made


def rows_of(pairs: list[tuple[np.ndarray, np.ndarray]], texts: list[str]) -> np.ndarray | None:
    """The values of Series that are results, a row for each; None: their dtypes differ."""
    kinds = np.stack([kind for _, kind in pairs], 1) % NUMPYS
    numbers = (kinds == FLOAT) | (kinds == INTEGER)
    if numbers.all():
        dtype = np.int64 if (kinds == INTEGER).all() else np.float64
        return np.stack([value for value, _ in pairs], 1).astype(dtype, copy=False)
    of_texts = kinds == TEXT
    if (of_texts.any(1) & ~of_texts.all(1)).all():
        return np.stack([elements(*pair, texts).astype(object) for pair in pairs], 1)
    return None


_CLASSES = dict(zip((float, int, bool), range(3), strict=True)) | dict(
    zip(KINDS, range(NUMPYS, NUMPYS + 3), strict=True)
)
"""Kinds of numbers by their classes."""


def pair_of(result: Any, of: Made) -> tuple[Any, int] | None:
    """What a function that is written anew returns for the user's result; None: nothing."""
    if result is None or result is pd.NA:
        return 0.0, MISSING if result is pd.NA else NONE
    kind = _CLASSES.get(type(result))
    if kind is not None:
        return result, kind if of.classes else kind % NUMPYS
    if type(result) is np.float32:
        return result, SINGLE  # its dtype is compared
    if type(result) is str and result in of.texts:
        return float(of.texts.index(result)), TEXT
    return None


def pairs_of(result: Any, of: Made, again: Callable[[], Any]) -> Any:
    """The pairs that became a Series, or a list, whose elements have one dtype."""
    if not isinstance(result, (pd.Series, list, tuple)) or tuple(index_of(result)) != of.names:
        return None
    found = again()
    for x, number, kind in zip(pd.Series(result).tolist(), found[::2], found[1::2], strict=True):
        pair = pair_of(x, of)
        if pair is None or not np.allclose(float(pair[0]), float(number), equal_nan=True):
            return None
        if (kind in (TEXT, NONE)) != (pair[1] in (TEXT, NONE)):
            return None
    return found


def index_of(result: Any) -> pd.Index:
    """The labels of a Series, or of a list that becomes one."""
    return result.index if isinstance(result, pd.Series) else pd.RangeIndex(len(result))
