"""Functions that are known where they get a Series, and what names in a function mean."""

from __future__ import annotations

import ast
import builtins
import sys
from dataclasses import dataclass, field
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np
import pandas as pd

from ..errors import TraceError
from ..frontends.python.source.reading import find
from ..functions.purity import of_library
from .trees import constant

BY_METHOD = {
    getattr(np, name): name for name in ("sum", "mean", "prod", "min", "max", "argmax", "argmin")
}
"""Functions of NumPy that call the method of this name."""
OF_ARRAYS = (
    np.median, np.percentile, np.quantile, np.polyfit, np.asarray, np.array, np.diff, np.interp,
    np.nansum, np.nanmean, np.nanmin, np.nanmax, np.nanstd, np.nanvar, np.nanmedian,
    np.corrcoef, np.sort, np.argsort, np.average, np.cov, np.dot, np.inner, np.vdot, np.trapezoid,
    np.convolve, np.nanpercentile, np.nanquantile, np.ptp, np.linalg.norm, np.where,
    np.count_nonzero, np.gradient, np.histogram, np.unique,
)  # fmt: skip
"""Functions of NumPy that make an array of a Series first."""
OF_SCIPY = frozenset(
    "linregress skew kurtosis iqr sem median_abs_deviation trim_mean gmean hmean pmean variation "
    "percentileofscore scoreatpercentile pearsonr spearmanr kendalltau theilslopes siegelslopes "
    "ttest_1samp ttest_ind ttest_rel mannwhitneyu wilcoxon ks_2samp shapiro normaltest jarque_bera "
    "skewtest kurtosistest entropy moment kstat f_oneway levene".split()
)
"""Functions of `scipy.stats` that make an array of a Series first, and give numbers."""
OF_MASKED = (np.median, np.percentile, np.quantile)
"""Those that are known for nullable dtypes, too."""
SERIES_OF = {np.cumsum: "cumsum", np.cumprod: "cumprod"}
"""Functions of NumPy that call the method of this name, which gives a Series."""
WITHOUT_DDOF = {np.std: "std", np.var: "var"}
"""Those that call a method with ``ddof=0``, if nothing else is said."""
ELEMENT_BY_ELEMENT = (sum, max, min, sorted, list, tuple, set, enumerate, zip, any, all)
"""Builtins that go through a Series, whose elements are Python's numbers then."""

_MEANT = frozenset(
    {
        *BY_METHOD,
        *OF_ARRAYS,
        *SERIES_OF,
        *WITHOUT_DDOF,
        *ELEMENT_BY_ELEMENT,
        abs,
        float,
        len,
        pd.Series,
    }
    | {pd.isna, pd.isnull, pd.notna, pd.notnull}
)


def known_as_it_is(x: Any) -> Any:
    """`x` if it is a function that is known here, NumPy or pandas; these are for ever."""
    if x is np or x is pd or x is pd.NA or x is np.linalg or isinstance(x, np.ufunc):
        return x
    if is_stats(x) or of_stats(x):
        return x
    return x if isinstance(x, _FUNCTIONS) and x in _MEANT else None


_FUNCTIONS = (FunctionType, BuiltinFunctionType, type(np.sum), type)


def is_stats(x: Any) -> bool:
    """Whether something is SciPy, or its module of statistics."""
    return type(x) is ModuleType and x.__name__ in ("scipy", "scipy.stats")


def of_stats(x: Any) -> bool:
    """Whether something is a function of `scipy.stats` that is known."""
    name = getattr(x, "__name__", None) if type(x) is FunctionType else None
    return name in OF_SCIPY and getattr(sys.modules.get("scipy.stats"), name, None) is x


def meant(f: FunctionType) -> tuple[Any, ...]:
    """What the names in a function mean by now, as far as it is known here."""
    found: list[Any] = []
    codes = [f.__code__]
    for code in codes:
        codes += [x for x in code.co_consts if isinstance(x, CodeType)]
        for name in code.co_names:
            found.append(known_as_it_is(f.__globals__.get(name, vars(builtins).get(name))))
    for cell in f.__closure__ or ():
        try:
            found.append(known_as_it_is(cell.cell_contents))
        except ValueError:  # not yet set
            found.append(None)
    return tuple(found)


# --- functions that do nothing but hand their row on: lambda row: score(row, weights) ---------


@dataclass
class Called:
    """A function, and what it gets beside a row."""

    f: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    held: list[tuple[FunctionType, ast.expr, Any]] = field(default_factory=list)
    """By which functions and expressions these were found, and what they were."""

    def unchanged(self) -> bool:
        """Whether the same would be called with the same: `f` may bind names anew."""
        return all(_value(f, node) is value for f, node, value in self.held)


_NONE: Any = object()


def through(f: Any, args: tuple, kwargs: dict[str, Any]) -> Called:
    """What is called for each row in the end, if all others only hand the row on."""
    found = Called(f, args, kwargs)
    for _ in range(4):
        inner = None if found.args or found.kwargs else _handed_on(found.f)
        if inner is None:
            break
        inner.held += found.held
        found = inner
    return found


def _handed_on(f: Any) -> Called | None:
    """What a function calls with its row, and returns; None: it does something else."""
    if type(f) is not FunctionType or f.__defaults__ or f.__kwdefaults__:
        return None
    try:
        tree = find.tree_of(f)
    except TraceError:
        return None
    a, node = tree.args, _returned(tree)
    names = [x.arg for x in (*a.posonlyargs, *a.args)]
    if len(names) != 1 or a.vararg or a.kwarg or a.kwonlyargs or not isinstance(node, ast.Call):
        return None
    (row,), g = names, _value(f, node.func)
    given = [*node.args[1:], *(k.value for k in node.keywords)]
    if any(
        isinstance(n, ast.Name) and n.id == row for x in (node.func, *given) for n in ast.walk(x)
    ):
        return None
    first, *rest = node.args or [ast.Constant(None)]
    if not isinstance(first, ast.Name) or first.id != row or row in f.__code__.co_cellvars:
        return None
    if type(g) is not FunctionType or of_library(g.__code__.co_filename):
        return None
    values = [_value(f, x) for x in given]
    if any(x is _NONE for x in values) or any(k.arg is None for k in node.keywords):
        return None
    kwargs = dict(zip((str(k.arg) for k in node.keywords), values[len(rest) :], strict=True))
    held = [(f, node.func, g)]
    held += [(f, x, v) for x, v in zip(given, values, strict=True) if constant(x) is None]
    return Called(g, tuple(values[: len(rest)]), kwargs, held)


def _returned(tree: Any) -> ast.expr | None:
    """The expression that is all that a function has."""
    if isinstance(tree, ast.Lambda):
        return tree.body
    if not isinstance(tree, ast.FunctionDef):
        return None
    body = tree.body[1:] if ast.get_docstring(tree, clean=False) is not None else tree.body
    return body[0].value if len(body) == 1 and isinstance(body[0], ast.Return) else None


def _value(f: FunctionType, node: ast.expr) -> Any:
    """What a constant, a name of the function's surroundings, or one in a module is now."""
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Attribute):
        owner = _value(f, node.value)
        return getattr(owner, node.attr, _NONE) if isinstance(owner, ModuleType) else _NONE
    if not isinstance(node, ast.Name):
        found = constant(node)
        return _NONE if found is None else found
    if node.id in f.__code__.co_freevars:
        try:
            return (f.__closure__ or ())[f.__code__.co_freevars.index(node.id)].cell_contents
        except ValueError:  # not yet set
            return _NONE
    return f.__globals__.get(node.id, vars(builtins).get(node.id, _NONE))
