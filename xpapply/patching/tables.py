"""What stands in the places of pandas' own loops while they are patched.

pandas has no plug-in point for these: methods of its classes are replaced, those that call the
user's function, by ones that look at it first. All that pandas does around them is its own.
"""

from __future__ import annotations

import functools
import os
import sys
import time
from collections.abc import Callable
from types import FunctionType
from typing import Any

import numpy as np

from ..limits import LIMITS
from ..pandas.applied import Host, Job, OfPandas
from .along_axis import Attempt, busy
from .records import SeenFunction, seen

_perf = time.perf_counter


class Counting(Host):
    """Runs a function, and counts what ran it: nobody is warned."""

    def __init__(self, known: SeenFunction) -> None:
        self._known = known
        self._attempt: Attempt | None = None

    def run(self, what: OfPandas) -> Any:
        """The results at once; an `Own` with pandas' own result where they cannot be."""
        self._attempt = Attempt(self._known, what.slices, 1)
        return self._attempt.run(what)

    def tell(self, job: Job, why: str) -> None:
        """The report tells it."""
        assert self._attempt is not None
        self._attempt.why = why

    def loop(self, job: Job) -> Any:
        """pandas' own result, while something runs."""
        assert self._attempt is not None
        return self._attempt.loop(job.loop)

    def by_pandas(self, job: Job, why: str) -> Any:
        """pandas' own result, where it is known that nothing else can be."""
        attempt = self._attempt = Attempt(self._known, job.slices, 1)
        attempt.why = why
        return attempt.told(attempt.loop(job.loop))


def _counted(
    name: str, f: Any, slices: int, own: Callable[[Any], Any], run: Callable[[Host], Any],
    unknown: int = 0,
) -> Any:  # fmt: skip
    """`own`, or what `run` gives, where a look at the function is worth it.

    `unknown`: so many slices of a function that is not known are not.
    """
    known = seen(f, name)
    few = max(LIMITS.few_patched, 0 if known.is_known else unknown)
    if slices > few and known.python and known.is_worth(slices, 1):
        return run(Counting(known))
    started = _perf()
    found = own(f)
    known.fell_back(slices, 1, _perf() - started, known.why)
    return found


# --- rows ---------------------------------------------------------------------------------------


def _apply_standard(original: Callable[..., Any], self: Any) -> Any:
    """In the place of ``FrameApply.apply_standard``: a function of rows, or of columns."""
    f, frame = self.func, self.obj
    if self.axis != 1 or self.engine != "python" or busy.get() or not callable(f):
        return original(self)
    from ..pandas import rows

    def own(f: Any) -> Any:
        before = self.func
        self.func = f
        try:
            return original(self)
        finally:
            self.func = before

    args, kwargs = tuple(self.args), dict(self.kwargs)
    run = functools.partial(rows.apply, frame, f, args, kwargs, own, result_type=self.result_type)
    return _counted("DataFrame.apply", f, len(frame), own, run, LIMITS.unknown_rows)


# --- elements -----------------------------------------------------------------------------------


def _map_values(original: Callable[..., Any], self: Any, mapper: Any, na_action: Any = None) -> Any:
    """In the place of ``IndexOpsMixin._map_values``: a function of elements."""
    values = self._values
    f, args, kwargs = _bound(mapper)
    if busy.get() or values.ndim != 1 or not _is_function(f):
        return original(self, mapper, na_action=na_action)
    from ..pandas import elements

    def own(f: Any) -> Any:
        f = _with(f, args, kwargs) if args else functools.partial(f, **kwargs)
        return original(self, f, na_action=na_action)

    def run(host: Host) -> Any:
        return elements.apply(values, f, args, kwargs, na_action == "ignore", own, host)

    if na_action not in (None, "ignore"):
        return own(f)
    return _counted("Series.map", f, len(values), own, run, LIMITS.unknown_elements)


def _after(f: Any, args: tuple, kwargs: dict[str, Any], x: Any) -> Any:
    return f(x, *args, **kwargs)


def _is_function(f: Any) -> bool:
    return callable(f) and not isinstance(f, type)


def _bound(f: Any) -> tuple[Any, tuple, dict[str, Any]]:
    """A function of elements, and what else pandas has it called with."""
    if type(f) is functools.partial and not f.args:
        inner, args, kwargs = _bound(f.func)
        return inner, args, {**kwargs, **f.keywords}
    if _is_pandas(f, "SeriesApply.apply_standard.<locals>.curried"):
        held = dict(zip(f.__code__.co_freevars, f.__closure__ or (), strict=True))
        if {*held} == {"func", "self"}:
            of = held["self"].cell_contents
            return held["func"].cell_contents, tuple(of.args), dict(of.kwargs)
    return f, (), {}


def _is_pandas(f: Any, *names: str) -> bool:
    """Whether it is one of pandas' own functions around the user's, of these names."""
    if type(f) is not FunctionType or f.__code__.co_qualname not in names:
        return False
    return str(f.__globals__.get("__name__")).startswith("pandas.")


# --- windows ------------------------------------------------------------------------------------


def _roll_apply(
    original: Callable[..., Any], obj: Any, start: Any, end: Any, minp: int, **how: Any
) -> Any:
    """In the place of ``roll_apply``, the loop over windows of any kind."""

    def own(f: Any) -> Any:
        return original(obj, start, end, minp, **{**how, "function": f})

    f = how.get("function")
    if busy.get() or {*how} != {"function", "raw", "args", "kwargs"} or not callable(f):
        return original(obj, start, end, minp, **how)
    from pandas._libs.window import aggregations

    from ..pandas import windows

    values = np.asarray(obj)
    if values.dtype != np.float64 or not len(values):
        return own(f)

    def run(host: Host) -> Any:
        # as the original counts
        finite = np.isfinite(values).astype(float)
        called = np.flatnonzero(aggregations.roll_sum(finite, start, end, minp) >= minp)
        if len(called) <= LIMITS.few_patched:
            return own(f)
        more = bool(how["raw"]), tuple(how["args"]), dict(how["kwargs"])
        return windows.apply(obj, start, end, called, f, *more, own, host)

    return _counted("rolling.apply", f, len(start), own, run)


# --- groups -------------------------------------------------------------------------------------


def _aggregated(original: Callable[..., Any], self: Any, obj: Any, func: Any) -> Any:
    """In the place of ``_aggregate_series_pure_python``: a function of each group's Series."""
    f, args, kwargs = _of_groups(func)

    def own(f: Any) -> Any:
        return original(self, obj, _with(f, args, kwargs))

    return _grouped("groupby.agg", self, obj, f, args, kwargs, own, lambda group, k: group)


def _groupwise(original: Callable[..., Any], self: Any, f: Any, data: Any) -> Any:
    """In the place of ``apply_groupwise``: a function of groups, whose results are a list."""
    f, args, kwargs = _of_groups(f)

    def own(f: Any) -> Any:
        return original(self, _with(f, args, kwargs), data)

    found = _grouped("groupby.apply", self, data, f, args, kwargs, own, _named(self), series=True)
    if isinstance(found, list) and data.ndim == 1:
        groups = self._get_splitter(data)
        return found, not all(x.index.equals(y.index) for x, y in zip(found, groups, strict=True))
    # results that are no Series have not the index of their groups
    return ([*found], True) if isinstance(found, (np.ndarray, list)) else found


def _transformed(
    original: Callable[..., Any],
    self: Any,
    f: Any,
    engine: Any,
    how: Any,
    *args: Any,
    **kwargs: Any,
) -> Any:
    """In the place of ``_transform_general``: a function whose results are as long as groups."""

    def own(f: Any) -> Any:
        return original(self, f, engine, how, *args, **kwargs)

    grouper, data = self._grouper, self._obj_with_exclusions
    is_frame = type(data).__name__ == "DataFrame"
    if engine is not None or not _is_plain(self, data) or (is_frame and not _has_names(data)):
        return own(f)
    name = _same if is_frame else _named(grouper)
    found = _grouped("groupby.transform", grouper, data, f, args, kwargs, own, name, True)
    if not isinstance(found, list):
        return found
    import pandas as pd

    if not is_frame:
        result = self._set_result_index_ordered(pd.Series(found[0], name=data.name))
        result.name = self.obj.name
        return result
    frame = pd.DataFrame(dict(enumerate(found)), copy=False).set_axis(data.columns, axis=1)
    return self._set_result_index_ordered(frame)


def _filtered(
    original: Callable[..., Any],
    self: Any,
    func: Any,
    dropna: bool = True,
    *args: Any,
    **kwargs: Any,
) -> Any:
    """In the place of ``filter``: a function that says which groups stay."""
    import pandas as pd

    def own(f: Any) -> Any:
        return original(self, f, dropna, *args, **kwargs)

    grouper, frame = self._grouper, hasattr(self, "_choose_path")
    data = self._selected_obj if frame else self._obj_with_exclusions
    if not _is_plain(self, data):
        return own(func)
    name = _named(grouper) if frame else _same
    found = _grouped("groupby.filter", grouper, data, func, args, kwargs, own, name, truths=True)
    if not isinstance(found, np.ndarray):
        return found
    if pd.api.types.infer_dtype(found) != "boolean":  # which pandas takes, or names the class of
        return own(func)
    stays, ids = found.astype(bool), grouper.ids
    return self._apply_filter([np.flatnonzero(stays[ids] & (ids >= 0))], dropna)


def _is_plain(self: Any, data: Any) -> bool:
    """Whether groups are found by keys, not by times, and have nothing but values and labels."""
    from pandas.core.groupby import ops

    if type(self._grouper) is not ops.BaseGrouper or self.obj.attrs or len(data) == 0:
        return False
    # which pandas finds no more
    lost = not self._grouper.dropna and any(x.hasnans for x in self._grouper.levels)
    return not lost and self.obj.flags.allows_duplicate_labels


def _has_names(frame: Any) -> bool:
    return bool(len(frame.columns) and frame.columns.is_unique)


def _same(group: Any, k: int) -> Any:
    return group


def _named(grouper: Any) -> Callable[[Any, int], Any]:
    def name(group: Any, k: int) -> Any:
        object.__setattr__(group, "name", grouper.result_index[k])
        return group

    return name


def _grouped(
    loop: str, self: Any, data: Any, f: Any, args: tuple, kwargs: dict[str, Any],
    own: Callable[[Any], Any], name: Callable[[Any, int], Any], spread: bool = False, **more: Any,
) -> Any:  # fmt: skip
    """What a function gives for each group, as an array of objects; or what `own` gives.

    `spread`: for each row, a list of arrays by columns.
    """
    import pandas as pd

    # functions of pandas' own are closures of theirs
    mine = type(f) is FunctionType and not str(f.__module__).startswith("pandas.")
    if busy.get() or not mine or type(data) not in (pd.Series, pd.DataFrame):
        return own(f)

    def run(host: Host) -> Any:
        from pandas._libs import lib

        from ..pandas import groups, transforms
        from ..pandas.applied import Own

        splitter = self._get_splitter(data)
        bounds = lib.generate_slices(splitter._slabels, self.ngroups)
        start, end = map(np.asarray, bounds)
        how = args, kwargs, own, name, host
        apply = (transforms if spread else groups).apply
        found = apply(splitter._sorted_data, start, end, f, *how, **more)
        return found.result if isinstance(found, Own) else found

    return _counted(loop, f, self.ngroups, own, run)


def _with(f: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
    return functools.partial(_after, f, args, kwargs) if args or kwargs else f


_BY_GROUPS = (
    "SeriesGroupBy._python_agg_general.<locals>.<lambda>",
    "DataFrameGroupBy._python_agg_general.<locals>.<lambda>",
    "GroupBy.apply.<locals>.f",
    "Resampler._groupby_and_aggregate.<locals>.<lambda>",
)


def _of_groups(f: Any) -> tuple[Any, tuple, dict[str, Any]]:
    """A function of groups, and what else pandas has it called with."""
    if not _is_pandas(f, *_BY_GROUPS):
        return f, (), {}
    held = dict(zip(f.__code__.co_freevars, f.__closure__ or (), strict=True))
    inner = held.pop("func", None) or held.pop("how", None)
    if inner is None or {*held} != {"args", "kwargs"}:
        return f, (), {}
    args, kwargs = held["args"].cell_contents, held["kwargs"].cell_contents
    f, first, named = _of_groups(inner.cell_contents)
    return f, (*first, *args), {**named, **kwargs}


# --- in their places ----------------------------------------------------------------------------


def _places() -> list[tuple[Any, str, Callable[..., Any]]]:
    """Owners, names, and what stands there."""
    from pandas._libs.window import aggregations
    from pandas.core import apply, base
    from pandas.core.groupby import generic, ops

    return [
        (apply.FrameApply, "apply_standard", _apply_standard),
        (base.IndexOpsMixin, "_map_values", _map_values),
        (aggregations, "roll_apply", _roll_apply),
        (ops.BaseGrouper, "_aggregate_series_pure_python", _aggregated),
        (ops.BaseGrouper, "apply_groupwise", _groupwise),
        *(
            (owner, name, instead)
            for owner in (generic.SeriesGroupBy, generic.DataFrameGroupBy)
            for name, instead in (("_transform_general", _transformed), ("filter", _filtered))
        ),
    ]


_replaced: list[tuple[Any, str, Any, Any]] = []


def install() -> None:
    """Replace them, if pandas has them where they are known to be."""
    if _replaced or "pandas" not in sys.modules:
        return
    try:
        places = _places()
    except ImportError:  # another pandas, whose loops run as ever
        return
    for owner, name, instead in places:
        original = vars(owner).get(name)
        if original is not None:
            _put(owner, name, _standing(original, instead))
    _warn_as_pandas()


def _put(owner: Any, name: str, made: Any) -> None:
    _replaced.append((owner, name, vars(owner)[name], made))
    setattr(owner, name, made)


def _warn_as_pandas() -> None:
    """Have pandas' warnings name the user's line: it is the first one outside of these folders."""
    from pandas.util import _exceptions

    own = os.path.dirname(os.path.dirname(__file__)) + os.sep
    if hasattr(_exceptions, "_pkg_dir") and hasattr(_exceptions, "_test_dir"):
        _exceptions.find_stack_level()  # which finds its folders
        if isinstance(_exceptions._pkg_dir, str):
            _put(_exceptions, "_pkg_dir", (_exceptions._pkg_dir, own))


def _standing(original: Any, instead: Callable[..., Any]) -> Any:
    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        return instead(original, *args, **kwargs)

    return call


def uninstall() -> None:
    """Put back the originals."""
    for owner, name, original, made in _replaced:
        if vars(owner).get(name) is made:
            setattr(owner, name, original)
    _replaced.clear()
