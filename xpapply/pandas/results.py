"""Numbers and their kinds as what pandas makes of a list of results."""

from __future__ import annotations

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
)

NOT_SURE = "it returns integers beyond 2**53, or numbers of several classes"


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
