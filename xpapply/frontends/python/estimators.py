"""scikit-learn's estimators, and those made after them, inside ``f``: one call for all slices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ...batching import Batched, BatchingRule, NoRule
from . import arrays
from .proxies import Forbidden, LateMethod, real_arguments
from .tracer import Tracer, tracers, values

if TYPE_CHECKING:
    from .sandbox import Stage

PACKAGES = frozenset(("sklearn", "lightgbm", "xgboost", "catboost"))
"""Root packages of estimators whose methods take each sample by itself."""

_COMPARED_BYTES = 1 << 20
"""Bytes up to which a fitted array is compared by its content: it may be written in place."""

_METHODS = frozenset(
    (
        "predict predict_proba predict_log_proba decision_function transform score_samples "
        "inverse_transform apply kneighbors"
    ).split()
)


def substitute(stage: Stage, x: Any, name: str) -> Any:
    """What stands for an object of these packages."""
    for part in _parts(x):
        known = type(part).__module__.partition(".")[0] in PACKAGES
        if not known or type(part).__name__ == "FunctionTransformer" or _in_place(part):
            return Forbidden(stage, x, name)
    return Estimator(stage, x, name)


def is_method(f: Any) -> bool:
    """Whether `f` is a method of an estimator, which is called and not traced."""
    of = type(getattr(f, "__self__", None))
    return of.__module__.partition(".")[0] in PACKAGES


def _parts(x: Any) -> list[Any]:
    """An estimator and those in it."""
    if not hasattr(x, "get_params"):
        return [x]
    return [x, *(p for p in x.get_params(deep=True).values() if hasattr(p, "get_params"))]


def _in_place(x: Any) -> bool:
    return getattr(x, "copy", True) is False


class Estimator(Forbidden):
    """An estimator: its methods take one sample per row, so batches of slices as well."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        what, stage = self.__xpapply_real__, self._xp_stage
        if name.startswith("__") or (name not in _METHODS and not name.endswith("_")):
            return super().__getattr__(name)
        value = getattr(what, name)
        if name.endswith("_"):
            if name in vars(what):
                stage.watch.look(what, "entry", name)
            return stage.substitute(value, f"{self._xp_name}.{name}")
        for part in _parts(what):
            # fitting again sets new attributes
            stage.watch.names(part)
            for key, found in list(vars(part).items()):
                stage.watch.look(part, "entry", key)
                if type(found) is np.ndarray and found.nbytes <= _COMPARED_BYTES:
                    stage.watch.array(found)
        late = LateMethod(what, name, keep=stage.calls.made(what))

        def call(x: Any = _MISSING, /, *args: Any, **kwargs: Any) -> Any:
            if x is _MISSING and "X" in kwargs:
                x = kwargs.pop("X")
            if any(t.ref is not None for t in tracers((args, kwargs))):
                what = f"{self._xp_name}.{name}"
                raise stage.recorder.refuse(f"arguments of {what} that depend on the slice")
            further = values(real_arguments((args, kwargs)))
            given = [] if x is _MISSING else [arrays.as_array(stage.recorder, x)]
            if not given or not isinstance(given[0], Tracer):
                return stage.calls.constant(value(*given, *further[0], **further[1]))

            def one(v: Any) -> Any:
                return value(v, *further[0], **further[1])

            batch = (late, given[0], *further)
            return stage.recorder.call(_ESTIMATOR, one, tuple(given), batch=(batch, {}))

        return call


_MISSING: Any = object()


def _rule(xp: Any, _: Any, given: tuple, __: dict) -> Any:
    method, x, args, kwargs = given
    if type(x.array) is not np.ndarray or x.ndim != 2:
        raise NoRule("estimators take NumPy arrays of samples")
    batch, samples = x.array.shape[:2]
    return _by_slice(method(x.array.reshape(batch * samples, -1), *args, **kwargs), batch, samples)


def _by_slice(found: Any, batch: int, samples: int) -> Any:
    """What a method gave for the samples of all slices, slice by slice."""
    if isinstance(found, tuple):
        return tuple(_by_slice(y, batch, samples) for y in found)
    y = np.asarray(found)
    if not y.ndim or len(y) != batch * samples:
        raise NoRule(f"a result of shape {y.shape} for {batch * samples} samples")
    return Batched(y.reshape(batch, samples, *y.shape[1:]))


_ESTIMATOR = BatchingRule("scikit-learn estimator", _rule)
