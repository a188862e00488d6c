"""Facts of estimators of scikit-learn and compatible packages.

They are recognised by the package of their class: none is imported.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..limits import LIMITS

if TYPE_CHECKING:
    from .guards import Guards

PACKAGES = frozenset(("sklearn", "lightgbm", "xgboost", "catboost"))
"""Root packages of estimators whose methods take each sample by itself."""

MAIN = ("predict", "transform", "score_samples")
"""Methods with a result for each sample, the likeliest first."""

METHODS = frozenset(
    (
        *MAIN,
        *("predict_proba", "predict_log_proba", "decision_function", "inverse_transform"),
        *("apply", "kneighbors"),
    )
)
"""Methods that take one sample per row and have no side effects."""


_SOLVES_TOGETHER = frozenset(("NMF", "MiniBatchNMF"))
"""Their iterations end when the error of all samples together is small."""


def package(x: Any) -> str:
    """The root package of the class of an object."""
    return type(x).__module__.partition(".")[0]


def is_method(f: Any) -> bool:
    """Whether `f` is a method of an estimator, which is called and not traced."""
    return package(getattr(f, "__self__", None)) in PACKAGES


def parts(x: Any) -> list[Any]:
    """An estimator and those that it was made of."""
    if not hasattr(x, "get_params"):
        return [x]
    found = x.get_params(deep=True).values()
    return [x, *(p for p in found if hasattr(p, "get_params") and not isinstance(p, type))]


def why_singly(x: Any, name: str) -> str:
    """Why a method has to take each sample in a call of its own; "" where it need not."""
    for part in parts(x):
        what = type(part).__name__
        if package(part) not in PACKAGES:
            return f"{what} is not of scikit-learn: its samples may depend on each other"
        if what == "FunctionTransformer" and not _of_elements(part):
            return "the function of a FunctionTransformer may mix samples"
        if getattr(part, "copy", True) is False:
            return f"{what} writes to its input (copy=False)"
        if what in _SOLVES_TOGETHER and name == "transform":
            return f"{what} solves for all samples together"
        if _draws(part, what, name):
            return f"{what}.{name} draws random numbers"
    return ""


def _of_elements(transformer: Any) -> bool:
    """Whether the functions of a FunctionTransformer are ufuncs of NumPy, or none."""
    given = (transformer.func, transformer.inverse_func)
    return all(f is None or isinstance(f, np.ufunc) for f in given)


def _draws(part: Any, what: str, name: str) -> bool:
    if what == "DummyClassifier":
        return part.strategy in ("stratified", "uniform")
    if what == "IterativeImputer":
        return bool(part.sample_posterior)
    return (what, name) == ("BernoulliRBM", "score_samples")


def _numbers_of_trees(found: Any) -> list[np.ndarray]:
    """The values and thresholds of a tree of scikit-learn, or of a forest's list of them."""
    if isinstance(found, np.ndarray) and found.dtype.hasobject:
        found = found.ravel().tolist()
    trees: list[Any] = [getattr(x, "tree_", x) for x in (found if type(found) is list else [found])]
    trees = [x for x in trees if type(x).__module__ == "sklearn.tree._tree"]
    return [np.asarray(n) for x in trees if hasattr(x, "threshold") for n in (x.value, x.threshold)]


def look(guards: Guards, x: Any) -> None:
    """Notice when an estimator is fitted again, or what it has learned is written to."""
    left, seen = parts(x), set()
    trees: list[np.ndarray] = []
    while left:
        part = left.pop()
        if id(part) in seen or not hasattr(part, "__dict__"):
            continue
        seen.add(id(part))
        # fitting again sets new attributes
        guards.names(part)
        for key, found in list(vars(part).items()):
            guards.look(part, "entry", key)
            several = type(found) in (list, tuple) and len(found) <= LIMITS.fitted_arrays
            for one in found if several else (found,):
                if type(one) is np.ndarray and one.nbytes <= LIMITS.fitted_bytes:
                    guards.array(one)
            if hasattr(found, "get_params") and not isinstance(found, type):
                left.append(found)  # fitted ones, which are no parameters
            trees += _numbers_of_trees(found)
    if trees and sum(x.nbytes for x in trees) <= LIMITS.fitted_trees:
        memory = [x.reshape(-1).view(np.uint8).data for x in trees if x.flags.c_contiguous]
        content = b"".join(memory)
        guards.add(lambda: b"".join(memory) == content)


class BatchOfOne:
    """`func`, a method that takes samples in rows, as a function of a slice.

    `row`: the slice is one sample whatever its axes, as of an estimator that is given itself. Its
    result is then `func(v.reshape(1, -1))[0]`, where texts keep the dtype of all classes.
    """

    says = "called with batches of one slice: it wants 2-D data"

    def __init__(self, func: Any, row: bool = False) -> None:
        self.func, self.row = func, row

    def of(self, func: Any) -> BatchOfOne:
        """The batch of one of another function."""
        return BatchOfOne(func, self.row)

    def __call__(self, v: Any, *args: Any, **kwargs: Any) -> Any:
        """The result for one slice."""
        if self.row:
            # `vectorize` without a signature gives elements, which Python's numbers may be
            one = v.reshape(1, -1) if hasattr(v, "reshape") else np.reshape(v, (1, -1))
            found = self.func(one, *args, **kwargs)
            texts = getattr(getattr(found, "dtype", None), "kind", "") in ("U", "S")
            return found[0, ...] if texts else found[0]
        found = self.func(v[None], *args, **kwargs)
        return tuple(y[0] for y in found) if isinstance(found, tuple) else found[0]
