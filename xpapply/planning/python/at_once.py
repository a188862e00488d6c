"""What runs a Python function on all slices at once, however it was made."""

from __future__ import annotations

import weakref
from typing import Any

from ...frontends.python.run.record import Record
from ...functions.cache import BoundedDict
from ...ir.avals import ShapeDtype


class AtOnce:
    """What runs a function on all slices at once, traced or compiled from its source.

    Call it as ``at_once(rows, f)``: it holds on to no function.

    Attributes
    ----------
    results : tuple of ShapeDtype
        Of the result, or of all that are kept apart.
    is_traced : bool
        Whether it is a `TracedFunction`, which is not loaded to find out.
    differs : bool
        Whether the first slice of each call says of which dtypes results are.
    keeps : bool
        Whether it keeps a large array of the user's alive.
    record : Record
        What came of its runs.
    plans : set of Plan
        Those that run it, which shall say so if the loop does from now on.
    ready : dict
        How further calls of `vectorize` run it, by how their arrays lie.
    agreed : dict
        What it gave for arrays of another library, where that was what `f` gives there.
    """

    library: Any
    results: tuple[ShapeDtype, ...]
    keeps: bool
    differs = has_run = is_traced = False

    def __init__(self) -> None:
        self.record = Record()
        self.plans: weakref.WeakSet[Any] = weakref.WeakSet()
        self.agreed, self.ready = BoundedDict(), BoundedDict()
