"""scikit-learn's estimators, and those made after them, inside ``f``: one call for all slices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ....batching import Batched, BatchingRule, NoRule
from ....errors import TraceError
from ....functions.estimators import METHODS, PACKAGES, look, package, parts, why_singly
from ... import find
from ..trace import arrays
from ..trace.stand_ins import tracers, values
from ..trace.tracer import Tracer
from .proxies import Forbidden, LateMethod, real_arguments

if TYPE_CHECKING:
    from .stage import Stage


def substitute(stage: Stage, x: Any, name: str) -> Any:
    """The substitute of an object of these packages."""
    known = all(package(part) in PACKAGES for part in parts(x))
    return Estimator(stage, x, name) if known else Forbidden(stage, x, name)


class Estimator(Forbidden):
    """An estimator: its methods take one sample per row, so batches of slices as well."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        what, stage = self.__xpapply_real__, self._xp_stage
        if name.startswith("__") or (name not in METHODS and not name.endswith("_")):
            return super().__getattr__(name)
        value = getattr(what, name)
        if name.endswith("_"):
            if name in vars(what):
                stage.watch.look(what, "entry", name)
            return stage.substitute(value, f"{self._xp_name}.{name}")
        if why := why_singly(what, name):
            raise stage.recorder.refuse(f"{self._xp_name}.{name}: {why}")
        look(stage.watch, what)
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

            row = None if any(further) else _formula(stage, value, given[0])
            if row is not None:
                run = _Formula(value.__self__, name)
                run.row = row
                return stage.recorder.call(_FORMULA, one, tuple(given), batch=((run, given[0]), {}))
            batch = (late, given[0], *further)
            return stage.recorder.call(_ESTIMATOR, one, tuple(given), batch=(batch, {}))

        return call


_MISSING: Any = object()


def _formula(stage: Stage, method: Any, x: Tracer) -> BatchingRule | None:
    """The rule that runs the graph of a method, if it has one; of NumPy arrays, as real calls."""
    made = stage.calls.made(method.__self__)  # which lives no longer than this run
    known = not made and find(method).checks
    if not known or x.ndim != 2 or stage.recorder.library != "numpy":
        return None
    try:
        return stage.calls.network(method, x.value.shape[-1:], x.dtype)
    except TraceError:
        return None


class _Formula(LateMethod):
    """The run of a method's graph, equal to another one of the same method."""

    row: BatchingRule


def _by_formula(xp: Any, _: Any, given: tuple, __: dict) -> Any:
    run, x = given
    return run.row.rule(xp, None, (x,), {})


_FORMULA = BatchingRule("formula of a scikit-learn estimator", _by_formula)


def _rule(xp: Any, _: Any, given: tuple, __: dict) -> Any:
    method, x, args, kwargs = given
    if type(x.array) is not np.ndarray or x.ndim != 2:
        raise NoRule("a slice of one axis goes into a method that takes samples in rows")
    batch, samples = x.array.shape[:2]
    return _by_slice(method(x.array.reshape(batch * samples, -1), *args, **kwargs), batch, samples)


def _by_slice(found: Any, batch: int, samples: int) -> Any:
    """Split the results of a method for all samples by slice."""
    if isinstance(found, tuple):
        return tuple(_by_slice(y, batch, samples) for y in found)
    y = np.asarray(found)
    if not y.ndim or len(y) != batch * samples:
        raise NoRule(f"a result of shape {y.shape} for {batch * samples} samples")
    return Batched(y.reshape(batch, samples, *y.shape[1:]))


_ESTIMATOR = BatchingRule("scikit-learn estimator", _rule)
