"""SciPy's functions that select values of the slice: peaks, extrema, clipped values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ....batching import Batched, resolve
from ....batching.rules import bound
from ....batching.selections import CLIPPED, PEAKS
from ..trace.recorder import Recorder
from ..trace.stand_ins import tracers, values
from ..trace.tracer import Tracer
from . import ragged


def _vector(recorder: Recorder, x: Any, name: str) -> Tracer:
    if not isinstance(x, Tracer) or x.ref is None or np.ndim(x.value) != 1:
        raise recorder.refuse(f"{name} of something that is not a slice")
    return x


def _find_peaks(recorder: Recorder, function: Any, args: tuple, kwargs: dict) -> Any:
    named = bound(function, args, kwargs)
    x = _vector(recorder, named.pop("x"), "find_peaks")
    real = recorder.real(lambda: function(*values(args), **values(kwargs)))
    peaks, properties = real
    mask = np.zeros(x.value.shape, bool)
    mask[peaks] = True
    wide = {k: np.zeros(mask.shape, p.dtype) for k, p in properties.items()}
    for name, p in properties.items():
        wide[name][peaks] = p
    found = recorder.call(
        PEAKS,
        lambda *_: (mask, *wide.values()),
        (x, named),
        batch=((function, x, named, tuple(properties)), {}),
    )
    of = {k: ragged.selected(f, found[0]) for k, f in zip(wide, found[1:], strict=True)}
    return ragged.positions(found[0]), of


def _sigmaclip(recorder: Recorder, function: Any, args: tuple, kwargs: dict) -> Any:
    given = {"low": 4.0, "high": 4.0} | bound(function, args, kwargs)
    x = _vector(recorder, given["a"], "sigmaclip")
    if any(True for _ in tracers((given["low"], given["high"]))) or not x.size:
        raise recorder.refuse("sigmaclip with limits that depend on the slice")
    real = recorder.real(lambda: function(*values(args), **values(kwargs)))
    limits = given["low"], given["high"]
    left = CLIPPED.rule(np, None, (Batched(x.value[None]), *limits), {})[0].array[0]
    mask, lower, upper = recorder.call(
        CLIPPED,
        lambda *_: (left, np.asarray(real.lower)[()], np.asarray(real.upper)[()]),
        (x,),
        batch=((x, *limits), {}),
    )
    return type(real)(ragged.selected(x, mask), lower, upper)


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "scipy.signal.find_peaks": _find_peaks,
    "scipy.stats.sigmaclip": _sigmaclip,
}


def call(recorder: Recorder, function: Any, args: tuple, kwargs: dict) -> Any:
    """A call of one of them; NotImplemented if it is none."""
    for name, own in _FUNCTIONS.items():
        if name.endswith("." + function.__name__) and resolve(name) is function:
            return own(recorder, function, args, kwargs)
    return NotImplemented
