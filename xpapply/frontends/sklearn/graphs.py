"""Graphs of methods of estimators, and what has to be looked at around them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from ... import arrays
from ...backends import array_api
from ...errors import TraceError
from ...functions.estimators import why_singly
from ...ir.graph import Graph, ShapeDtype
from ...ir.rewrite import compact
from ...limits import LIMITS
from ...runtime.error_state import let_pass
from .. import Checked
from . import composed, linear, models, trees  # noqa: F401  # which fill the table
from .batch import alive, along, estimator_and_name
from .rows import back, result_of
from .writer import ChosenValue, FormulaWriter, Takes


def written(f: Any, aval: ShapeDtype, args: tuple, kwargs: dict) -> tuple[FormulaWriter, Any]:
    """The builder, and the value or the choice that a method gives."""
    if args or kwargs or isinstance(f, functools.partial):
        raise TraceError("formulas are known of methods without further arguments")
    if not aval.dtype.startswith(("float", "int", "uint", "bool")) or 0 in aval.shape:
        raise TraceError(f"no formula takes slices {aval}")
    estimator, name = estimator_and_name(f)
    if why := why_singly(estimator, name):
        raise TraceError(why)
    b = FormulaWriter()
    try:
        found = b.of(estimator, name, b.input(aval))
    except TraceError:
        raise
    except Exception as error:  # not fitted, or to another number of features
        let_pass(error)
        raise TraceError(f"its formula raises {type(error).__name__}: {error}") from None
    return b, found


def lift(f: Any, aval: ShapeDtype, args: tuple, kwargs: dict) -> Graph:
    """The graph of a method, for one sample; labels are numbers."""
    b, found = written(f, aval, args, kwargs)
    graph = b.graph(_as_numbers(b, found))
    _compare(f, graph, aval)
    return graph


def _as_numbers(b: FormulaWriter, found: Any) -> Any:
    """The result as numbers; labels are looked up in the graph."""
    if not isinstance(found, ChosenValue):
        return found
    labels, index = found.labels, found.index
    if labels.dtype.kind not in "biuf":
        raise TraceError(
            f"labels of dtype {labels.dtype}: a graph has numbers. Take predict_proba or "
            "decision_function, and look up their argmax in classes_"
        )
    wide = labels.astype(np.int64) if labels.dtype.kind == "b" else labels
    several = len(index.shape)
    index = b.op("reshape", index, shape=(*index.shape, 1)) if several else index
    chosen = index == b.array(np.arange(len(labels)), index.aval.dtype)
    each = b.where(chosen, b.array(wide, wide.dtype.name), wide.dtype.type(0))
    return b.cast(b.total(each, several), labels.dtype.name)


def checked(f: Any, aval: ShapeDtype, args: tuple, kwargs: dict) -> Checked:
    """Build the graph of numbers, or of label positions, with -1 where one is uncertain."""
    b, found = written(f, aval, args, kwargs)
    labels, value = None, found
    fine = functools.reduce(lambda x, y: x & y, (x == x for x in b.odd)) if b.odd else None
    if isinstance(found, ChosenValue):
        labels, value = found.labels, found.index
        for sure in (found.sure, fine):
            value = value if sure is None else b.where(sure, value, value.dtype.type(-1))
        value = b.cast(value, labels.dtype.name if _are_places(labels) else "int64")
        if b.shows and found.sure is not None and len(labels) > 1:
            b.takes = Takes(nan=True, infinite=True)  # such samples are asked of the method
    elif fine is not None:
        value = b.where(fine, value, value.dtype.type(np.nan))
    graph = b.graph(value)
    result = graph.result if labels is None else graph.result._replace(dtype=labels.dtype.name)
    _compare(f, graph, aval, labels)
    shown = None
    if labels is None or labels.dtype.kind in "biuf":
        shown = graph if labels is None else compact(b.graph(_as_numbers(b, found)))
    around = functools.partial(_Around, alive(f), labels, b.takes, fine is not None)
    return Checked(graph, around, result, shown)


def _are_places(labels: np.ndarray) -> bool:
    """Whether labels are 0, 1, 2 ... of a dtype with -1, so that no look-up is needed."""
    return labels.dtype.name in ("int32", "int64") and np.array_equal(
        labels, np.arange(len(labels))
    )


def _compare(f: Any, graph: Graph, aval: ShapeDtype, labels: np.ndarray | None = None) -> None:
    """Refuse a formula that is not what this version of scikit-learn computes."""
    rng = np.random.default_rng(0)
    rows = (
        rng.normal(size=(LIMITS.formula_probes, *aval.shape))
        * np.logspace(-1, 1, LIMITS.formula_probes)[:, None]
    )
    with np.errstate(all="ignore"):
        rows = np.abs(rows).astype(aval.dtype) if aval.dtype[0] in "ub" else rows.astype(aval.dtype)
        try:
            want = result_of(f(rows), LIMITS.formula_probes)
        except TraceError:
            raise
        except Exception as error:
            let_pass(error)
            text = str(error).strip().partition("\n")[0]
            raise TraceError(f"it raises {type(error).__name__}: {text}") from None
        lowered = array_api.BACKEND.lower(graph)
        got = np.asarray(lowered(rows, 1, lowered.bind(graph.consts, rows)))
    if labels is not None:
        sure = got >= 0
        same = want.dtype == labels.dtype and np.array_equal(labels[got[sure]], want[sure])
    else:
        alike = got.shape == want.shape and got.dtype == want.dtype
        rel = {"float64": 1e-6, "float32": 1e-3}.get(want.dtype.name, 2e-2)
        exact = np.array_equal(got, want)
        same = alike and (exact or np.allclose(got, want, rel, rel * 1e-2, equal_nan=True))
    if not same:
        raise TraceError(
            f"its formula gives {got.dtype}{list(got.shape[1:])} where this version of "
            f"scikit-learn gives {want.dtype}{list(want.shape[1:])}, or other numbers"
        )


class _Around:
    """The run of a method's graph where that equals the method."""

    def __init__(
        self,
        alive: Callable[[], Any],
        labels: np.ndarray | None,
        takes: Takes,
        odd: bool,
        run: Callable[[Any, int], Any],
    ) -> None:
        self._alive, self._labels, self._takes, self._run = alive, labels, takes, run
        self._are_places = labels is not None and _are_places(labels)
        self._odd = odd
        """Whether NaN in a result shows that the method may refuse the sample."""

    def __call__(self, arr: Any, axis: int) -> Any:
        """The result for all slices along an axis."""
        if not _taken(arr, self._takes):  # some estimators take it, and most refuse
            return along(self._alive, (), {}, arr, axis)
        found = self._run(arr, axis)
        if self._labels is not None:
            return self._looked_up(arr, axis, found)
        return self._asked(arr, axis, found, found != found) if self._odd else found

    def _looked_up(self, arr: Any, axis: int, found: Any) -> Any:
        """The labels at their places; those that rounding could decide from the method itself."""
        xp, labels = arrays.compat(found), self._labels
        assert labels is not None
        if self._are_places:
            if not found.size or int(xp.min(found)) >= 0:
                return found
            return self._asked(arr, axis, found, found < 0)
        unsure = found < 0
        if isinstance(found, np.ndarray):
            # of one slice alone, too, with the dtype of the classes; -1 is looked up again
            result = labels.take(found, mode="wrap") if found.ndim else labels[found, ...]
        else:
            back(labels, found)  # raises for what the library has not
            flat = xp.reshape(xp.where(unsure, 0, found), (-1,))
            own = arrays.asarray(labels, found)
            result = xp.reshape(xp.take(own, flat, axis=0), tuple(found.shape))
        return self._asked(arr, axis, result, unsure)

    def _asked(self, arr: Any, axis: int, result: Any, unsure: Any) -> Any:
        """The result, with what the method itself gives for some slices."""
        if not bool(arrays.compat(arr).any(unsure)):
            return result
        host, result = arrays.on_host(unsure), arrays.on_host(result).copy()
        core = result.ndim - arr.ndim + 1
        host = np.moveaxis(host, range(axis, axis + core), range(-core, 0)) if core else host
        host = host.any(tuple(range(host.ndim - core, host.ndim)))
        rows = np.moveaxis(arrays.on_host(arr), axis, -1)[host]
        last = np.moveaxis(result, range(axis, axis + core), range(-core, 0)) if core else result
        try:
            last[host] = along(self._alive, (), {}, rows, 1)
        except Exception as error:  # it is raised again, where the slice stands
            let_pass(error)
            return along(self._alive, (), {}, arr, axis)
        return back(result, arr)


def _taken(arr: Any, takes: Takes) -> bool:
    """Whether a method accepts all numbers, by a sum or the extremes."""
    name = arrays.dtype_name(arr)
    if (takes.nan and takes.infinite) or not name.startswith(("float", "bfloat")):
        return True
    xp = arrays.compat(arr)
    with np.errstate(all="ignore"):
        if takes.below is not None:
            quick = (xp.max(arr) < takes.below) & (xp.min(arr) > -takes.below)
        else:  # unless it is too large itself
            quick = name in ("float32", "float64") and xp.isfinite(xp.sum(arr))
        if bool(quick):
            return True
        below = np.inf if takes.below is None else takes.below
        fine = xp.abs(arr) < below
        return bool(xp.all(fine | (arr != arr) if takes.nan else fine))
