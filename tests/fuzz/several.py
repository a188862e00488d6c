"""Random functions of several numbers or slices, compiled from their source."""

from __future__ import annotations

import random

from random_functions.several_loops import OfNumbers, OfSlices

from .loops import MAY_SKIP, SLICES, Given, drawn, looked_at, report

DTYPES = "float64 float64 float64 int64 int64 bool float32 int8 uint8".split()


def case(r: random.Random) -> str | None:
    """Draw a program, compare, and shorten it where something differs."""
    if MAY_SKIP is not None:
        return None
    dtypes = r.choice(DTYPES), r.choice(DTYPES)
    whole = {*dtypes} <= {"int64", "bool", "int8", "uint8"}
    outs = r.random() < 0.3
    if r.random() < 0.5:  # elements of arrays of one axis, of which some are special
        pair = tuple(drawn(r, d, (SLICES, 1))[:, 0] for d in dtypes)
        return looked_at(OfNumbers(r, 1, whole).draw(), Given(pair[0], outs, pair[1:], True))
    n = r.choice([1, 2, 3, 5, 8, 12])
    lengths = n, r.choice([n, n, n, 1, 4])
    pair = tuple(drawn(r, d, (SLICES, k)) for d, k in zip(dtypes, lengths, strict=True))
    return looked_at(OfSlices(r, 1, whole).draw(), Given(pair[0], outs, pair[1:]))


__all__ = ["case", "report"]
