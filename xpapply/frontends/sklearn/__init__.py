"""Estimators of scikit-learn: methods that take samples in rows, as functions of a slice.

``est.predict`` as a function of a slice ``(M,)`` gives ``est.predict(v.reshape(1, -1))[0]``. An
estimator itself stands for the first of `predict`, `transform` and `score_samples` that it has.

- `rows.py`: one sample of what a method gives
- `batch.py`: a method of blocks of slices
- `graphs.py`: the graph of a method, compared with it, and what has to be looked at around it
- `writer.py`, `linear.py`, `models.py`, `composed.py`: the formulas that graphs are written with
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import MethodType
from typing import Any

from ...functions.cache import cache_of
from ...functions.estimators import MAIN, METHODS, look, package
from ...functions.guards import Guards
from .. import FlatFunction, Frontend
from . import batch, graphs
from .batch import estimator_and_name
from .rows import of_one_sample


def _main(x: Any) -> str | None:
    fits = callable(getattr(x, "fit", None)) and _takes_rows(x)
    return next((name for name in MAIN if hasattr(x, name)), None) if fits else None


def _takes_rows(x: Any) -> bool:
    """Whether an estimator wants arrays (samples, features), not labels or texts."""
    known = cache_of(x)[0].batched
    if "rows" not in known:
        known["rows"] = _says_so(x)
    return bool(known["rows"])


def _says_so(x: Any) -> bool:
    if type(x).__name__ == "FunctionTransformer":  # what its function takes
        return False
    try:
        if not hasattr(x, "__sklearn_tags__"):  # before version 1.6
            return "2darray" in x._get_tags()["X_types"]
        tags = x.__sklearn_tags__().input_tags
        return bool(tags.two_d_array and not tags.one_d_array)
    except Exception:  # of estimators that were made of what is none
        return False


class SklearnFrontend(Frontend):
    """Methods of estimators, and estimators that stand for one."""

    ways = ("sklearn.batch",)
    waits = True
    lift = staticmethod(graphs.lift)
    checked = staticmethod(graphs.checked)
    vectorized = staticmethod(batch.vectorized)

    def serves(self, f: Any) -> bool:
        """Whether `f` is a method that takes samples in rows, or an estimator that has one."""
        while isinstance(f, functools.partial):
            f = f.func
        if not isinstance(f, MethodType):
            return not callable(f) and package(f) == "sklearn" and _main(f) is not None
        of, name = f.__self__, f.__func__.__name__
        return package(of) == "sklearn" and name in METHODS and _takes_rows(of)

    def as_function(self, f: Any) -> Any:
        """The method that an estimator stands for, where a function is wanted."""
        return getattr(f, str(_main(f)))

    def watch(self, f: Any, args: tuple, kwargs: dict, sources: tuple = ()) -> Callable[[], bool]:
        """A check that it was not fitted again."""
        guards = Guards()
        look(guards, estimator_and_name(f)[0])
        return guards

    def slice_function(self, f: Any) -> Callable[..., Any]:
        """The method on a batch of one."""
        return of_one_sample(f if callable(f) else self.as_function(f))

    def flattened(self, f: Any, shape: tuple[int, ...], dtype: str) -> FlatFunction:
        """A sample is flat anyway."""
        return FlatFunction(f)


FRONTEND = SklearnFrontend()
