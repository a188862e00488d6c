"""Slices that lack what a function reads of them: pandas' own calls, among all others at once."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from . import applied
from .applied import Job, Own
from .labels import Refused
from .results import pair_of
from .returns import MISSING, NONE, TEXT, Made


def but_lost(
    lost: Any,
    of: Made,
    job: Job,
    run: Callable[[Job, Any], Any],
    rest: Callable[[np.ndarray], Iterable[Any]],
    truths: bool = False,
) -> Any:
    """The results for all slices; or an `Own`.

    Parameters
    ----------
    lost : array of bool or None
        Which slices lack what is read; None: none does.
    of : Made
        The function that is written anew.
    job : Job
        What pandas does.
    run : callable
        ``run(job, at)`` has the results for the slices at these places.
    rest : callable
        ``rest(at)`` goes through the results of pandas' own calls for the others.
    truths : bool
        Whether nothing else may be returned.
    """
    if lost is None or not lost.any():
        return run(job, slice(None))
    if lost.all():
        raise Refused("something that it reads is missing in each row or group")
    if of.gives != "numbers":
        raise Refused("it returns Series, and something that it reads is missing in some")
    if why := applied.why_impure(of.of(job.f)):  # the first one of these is called sooner
        raise Refused(why)
    at = np.flatnonzero(~lost)
    try:
        with warnings.catch_warnings(record=True) as seen:  # of what pandas may not come to
            warnings.simplefilter("always")
            found = run(job.of_some(at), at)
    except Exception:
        applied.warn(seen)
        raise
    if not isinstance(found, Own):
        results = [np.zeros(len(lost), x.dtype) for x in found]
        for x, y in zip(results, found, strict=True):
            x[at] = y
        found = results
        others = np.flatnonzero(lost)
        calls = iter(rest(others))
        for k in others.tolist():
            raised = False
            try:
                result = next(calls)
            except Exception:
                raised = True
            if raised:  # no more is handled, which would become the context of what the loop raises
                return Own(job.host.loop(job))  # one of the others may raise sooner
            pair = pair_of(result, of)
            if pair is None or (truths and not isinstance(result, (bool, np.bool_))):
                return Own(job.host.by_pandas(job, str(applied.NotTaken(result))))
            if pair[1] in (NONE, MISSING, TEXT) and not of.classes:
                return Own(job.host.by_pandas(job, "numbers of unknown classes go with objects"))
            results[0][k], results[1][k] = pair
    applied.warn(seen)
    return found
