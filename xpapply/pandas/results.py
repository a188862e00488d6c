"""Numbers and their kinds as what pandas makes of a list of results."""

from __future__ import annotations

import numpy as np

from .returns import BOOL, FLOAT, INTEGER, NONE, OTHER, SURE, TEXT


def is_sure(values: np.ndarray, kinds: np.ndarray) -> bool:
    """Whether integers among floats are the integers that they were."""
    count = np.bincount(kinds, minlength=OTHER + 1)
    if count[OTHER]:
        return False
    integers = values if count[INTEGER] == len(values) else values[kinds == INTEGER]
    return not len(integers) or float(np.abs(integers).max()) < SURE


def elements(values: np.ndarray, kinds: np.ndarray, texts: list[str]) -> np.ndarray:
    """An array that pandas makes the same of as of a list of the results.

    Its dtype is that of the results, or object.
    """
    count = np.bincount(kinds, minlength=OTHER + 1)
    (only,) = found if len(found := np.flatnonzero(count)) == 1 else (OTHER,)
    if count[FLOAT] and count[FLOAT] + count[INTEGER] == len(values):
        return values
    if only in (INTEGER, BOOL):
        return values.astype(np.int64 if only == INTEGER else np.bool_)
    made = values.astype(object)
    for kind, of in ((INTEGER, np.int64), (BOOL, np.bool_)):
        at = kinds == kind
        made[at] = values[at].astype(of).astype(object)
    made[kinds == NONE] = None
    if count[TEXT]:
        at = kinds == TEXT
        made[at] = np.array([*texts, None], dtype=object)[values[at].astype(np.intp)]
    return made
