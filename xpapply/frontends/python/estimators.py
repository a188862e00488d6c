"""scikit-learn's estimators inside ``f``: one call for all slices."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...known import Known, NoRule, Rows
from . import arrays
from .stage import Stage
from .substitutes import Forbidden
from .tracer import Tracer

_METHODS = frozenset(
    (
        "predict predict_proba predict_log_proba decision_function transform score_samples "
        "inverse_transform"
    ).split()
)


def substitute(stage: Stage, x: Any, name: str) -> Any:
    """What stands for an object of scikit-learn."""
    parts = [x]
    if hasattr(x, "get_params"):
        parts += [p for p in x.get_params(deep=True).values() if hasattr(p, "get_params")]
    for part in parts:
        known = type(part).__module__.partition(".")[0] == "sklearn"
        if not known or type(part).__name__ == "FunctionTransformer" or _in_place(part):
            return Forbidden(stage, x, name)
    return Estimator(stage, x, name)


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
            stage.watch.item(vars(what), name) if name in vars(what) else None
            return stage.substitute(value, f"{self._xp_name}.{name}")
        # fitting again sets new attributes
        for key in list(vars(what)):
            stage.watch.item(vars(what), key)

        def call(x: Any) -> Any:
            x = arrays.as_array(stage.recorder, x)
            if not isinstance(x, Tracer):
                return stage._fresh(value(x))
            return stage.recorder.call(_ESTIMATOR, value, (x,), batch=((value, x), {}))

        return call


def _rule(xp: Any, _: Any, args: tuple, kwargs: dict) -> Any:
    method, x = args
    if xp is not np or x.ndim != 2:
        raise NoRule("estimators take NumPy arrays of samples")
    batch, samples = x.array.shape[:2]
    found = np.asarray(method(x.array.reshape(batch * samples, -1)))
    return Rows(found.reshape(batch, samples, *found.shape[1:]))


_ESTIMATOR = Known("scikit-learn estimator", _rule)
