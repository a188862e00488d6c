"""scikit-learn's estimators inside ``f``: one call for all slices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ...known import Known, NoRule, Rows
from . import arrays
from .substitutes import Forbidden, LateMethod
from .tracer import Tracer

if TYPE_CHECKING:
    from .stage import Stage

_COMPARED_BYTES = 1 << 20
"""Bytes up to which a fitted array is compared by its content: it may be written in place."""

_METHODS = frozenset(
    (
        "predict predict_proba predict_log_proba decision_function transform score_samples "
        "inverse_transform"
    ).split()
)


def substitute(stage: Stage, x: Any, name: str) -> Any:
    """What stands for an object of scikit-learn."""
    for part in _parts(x):
        known = type(part).__module__.partition(".")[0] == "sklearn"
        if not known or type(part).__name__ == "FunctionTransformer" or _in_place(part):
            return Forbidden(stage, x, name)
    return Estimator(stage, x, name)


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
        late = LateMethod(what, name)

        def call(x: Any) -> Any:
            x = arrays.as_array(stage.recorder, x)
            if not isinstance(x, Tracer):
                return stage._fresh(value(x))
            return stage.recorder.call(_ESTIMATOR, value, (x,), batch=((late, x), {}))

        return call


def _rule(xp: Any, _: Any, args: tuple, kwargs: dict) -> Any:
    method, x = args
    if xp is not np or x.ndim != 2:
        raise NoRule("estimators take NumPy arrays of samples")
    batch, samples = x.array.shape[:2]
    found = np.asarray(method(x.array.reshape(batch * samples, -1)))
    return Rows(found.reshape(batch, samples, *found.shape[1:]))


_ESTIMATOR = Known("scikit-learn estimator", _rule)
