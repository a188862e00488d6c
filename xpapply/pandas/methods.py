"""Methods of Series, each as an expression of the array inside."""

from __future__ import annotations

import ast
from collections.abc import Hashable
from dataclasses import replace
from types import FunctionType
from typing import Any, Protocol

from . import helpers
from .labels import LACKING, Array, Labels, Refused
from .trees import HELPER, constant, copied, helped, method, numpys


class Reader(Protocol):
    """Who reads a function, as of `Rewriter`."""

    whole: bool
    asks_numpy: bool

    def array(self, node: ast.expr) -> Array | None:
        """The array that stands for a Series; None: the expression is none."""

    def scalar(self, node: ast.expr) -> Any:
        """What stands beside a Series."""

    def value(self, node: ast.expr) -> Any:
        """What an expression of global names is by now; None: that is not known."""


REDUCED = {
    "sum": ("sum", "nansum"),
    "mean": ("mean", "nanmean"),
    "prod": ("prod", "nanprod"),
    "min": ("min", "nanmin"),
    "max": ("max", "nanmax"),
    "median": ("median", "nanmedian"),
    "std": ("std", "nanstd"),
    "var": ("var", "nanvar"),
}
"""Methods: NumPy's functions that do the same, without and with NaN to leave out."""
SPREAD = ("std", "var")
OF_NONE = ("sum", "mean", "prod", "median", "std", "var")
"""Those that NumPy's arrays without elements have as well."""
FLOATS = ("mean", "median", "std", "var", "sem", "quantile")
"""Those that give floats, whatever they are of."""
IN_RUNS = ("sum", "mean", "std", "var")
"""Those that add what lies between missing elements of a nullable dtype, run by run."""
OR_NAN = {"min": "smallest", "max": "largest", "mean": "mean", "median": "median"}
"""Those that have NaN for none, and the helpers that do so."""
OPERATORS: dict[str, ast.operator] = {
    "add": ast.Add(), "sub": ast.Sub(), "subtract": ast.Sub(), "mul": ast.Mult(),
    "multiply": ast.Mult(), "div": ast.Div(), "truediv": ast.Div(), "divide": ast.Div(),
}  # fmt: skip
COMPARISONS: dict[str, ast.cmpop] = {
    "eq": ast.Eq(), "ne": ast.NotEq(), "lt": ast.Lt(), "le": ast.LtE(), "gt": ast.Gt(),
    "ge": ast.GtE(),
}  # fmt: skip


def helper(name: str) -> FunctionType | None:
    """The helper that a name in a function written anew stands for."""
    found = getattr(helpers, name[len(HELPER) :], None) if name.startswith(HELPER) else None
    return found if isinstance(found, FunctionType) else None


def _bound(
    names: tuple[str, ...], args: list[ast.expr], keywords: list[ast.keyword]
) -> dict[str, ast.expr] | None:
    """Arguments by their names; None: there are others."""
    found = dict(zip(names, args, strict=False))
    more = {k.arg or "**": k.value for k in keywords}
    if len(args) > len(names) or {*more} - {*names} or {*more} & {*found}:
        return None
    return found | more


def _number(given: dict[str, ast.expr], name: str, default: int) -> int | None:
    """An integer that is written in the source; None: another argument."""
    value = constant(given[name]) if name in given else default
    return value if type(value) is int else None


# --- Series of Series ---------------------------------------------------------------------------


def of_series(
    to: Reader, inner: Array, name: str, args: list[ast.expr], keywords: list[ast.keyword]
) -> Array | None:
    """The Series that a method gives; None: it gives none, or is not known."""
    labels, expr = inner.labels, inner.expr
    known = _BY_NAME.get(name)
    if labels.masked and (known is not None or name in _RUNNING):
        return None
    if known is not None:
        kinds, names, write = known
        if labels.kind not in kinds:
            return None
        given = _bound(names, args, keywords)
        return None if given is None else write(to, inner, given)
    if keywords:
        return None
    if name in COMPARISONS and len(args) == 1:
        return to.array(ast.Compare(_again(inner), [COMPARISONS[name]], args))
    if name in OPERATORS and len(args) == 1:
        return to.array(ast.BinOp(_again(inner), OPERATORS[name], args[0]))
    if name == "copy" and not args:
        return Array(method(expr, "copy"), labels)
    if name == "abs" and not args and labels.kind in "fin":
        return Array(numpys("abs", expr), labels)
    if name in ("isna", "isnull", "notna", "notnull") and not args and labels.kind == "f":
        found = numpys("isnan", expr)
        if name.startswith("not"):
            found = ast.UnaryOp(ast.Invert(), found)
        return Array(found, replace(labels, kind="b", gaps=False))
    if name in _RUNNING and not args and labels.kind in "fi":
        return _running(to, inner, name)
    if name == "fillna" and len(args) == 1 and labels.kind == "f":
        return _filled(to, inner, args[0])
    if name == "dropna" and not args and labels.kind in "fib":
        return _there(inner)
    return None


def _there(inner: Array) -> Array:
    """Those of a Series that are there."""
    labels = inner.labels
    if not labels.gaps or labels.kind != "f":
        return inner
    kept = ast.UnaryOp(ast.Invert(), numpys("isnan", inner.expr))
    some = replace(labels, names=None, some=True, gaps=False)
    return Array(ast.Subscript(inner.expr, kept, ast.Load()), some)


_RUNNING = {
    "cumsum": ("cumsum", 0.0),
    "cumprod": ("cumprod", 1.0),
    "cummax": ("maximum", float("-inf")),
    "cummin": ("minimum", float("inf")),
}
"""Methods: NumPy's functions, and what pandas has them take in the place of NaN."""


def _running(to: Reader, inner: Array, name: str) -> Array:
    """What goes on from element to element, and leaves NaN out."""
    (of, neutral), labels = _RUNNING[name], inner.labels
    to.whole = True
    expr, gaps = inner.expr, labels.gaps and labels.kind == "f"
    isnan = numpys("isnan", expr)
    if gaps:
        number = ast.Constant(neutral) if abs(neutral) < 2 else _infinite(neutral)
        expr = numpys("where", isnan, number, expr)
    if of == name:
        expr = method(expr, name)
    else:
        accumulate = ast.Attribute(numpys(of).func, "accumulate", ast.Load())
        expr = ast.Call(accumulate, [expr], [])
    if gaps:
        expr = numpys("where", isnan, numpys("nan").func, expr)
    return Array(expr, labels if of != name else replace(labels, gaps=True))


def _infinite(x: float) -> Any:
    found = numpys("inf").func
    return found if x > 0 else ast.UnaryOp(ast.USub(), found)


def _again(inner: Array) -> Any:
    """A Series that is known already, where an expression of one is asked for."""
    return KnownSeries(inner)


class KnownSeries(ast.expr):
    """An expression whose Series is known."""

    def __init__(self, found: Array) -> None:
        super().__init__()
        self.found = found

    def __deepcopy__(self, memo: Any) -> KnownSeries:
        return KnownSeries(Array(copied(self.found.expr), self.found.labels))


def _filled(to: Reader, inner: Array, by: ast.expr) -> Array | None:
    labels, value = inner.labels, constant(by)
    isnan = numpys("isnan", inner.expr)
    if type(value) in (int, float):
        filled = numpys("where", isnan, ast.Constant(float(value)), inner.expr)
        return Array(filled, replace(labels, gaps=value != value))
    # a float, as what is asked is one of a Series of floats
    if isinstance(by, ast.Call) and isinstance(by.func, ast.Attribute):
        of = to.array(by.func.value)
        if of is not None and of.labels.kind == "f" and by.func.attr in {*REDUCED, "quantile"}:
            to.whole = True
            filled = numpys("where", isnan, to.scalar(by), inner.expr)
            return Array(filled, replace(labels, gaps=True))
    return None


def _shifted(to: Reader, inner: Array, given: dict[str, ast.expr]) -> Array | None:
    periods = _number(given, "periods", 1)
    if periods is None:
        return None
    expr = helped("shift", inner.expr, ast.Constant(periods))
    return Array(expr, replace(inner.labels, gaps=True))


def _changed(op: ast.operator, less: int) -> Any:
    def write(to: Reader, inner: Array, given: dict[str, ast.expr]) -> Array | None:
        before = _shifted(to, inner, given)
        if before is None:
            return None
        to.whole = True
        found = ast.BinOp(inner.expr, op, before.expr)
        if less:
            found = ast.BinOp(found, ast.Sub(), ast.Constant(less))
        return Array(found, before.labels)

    return write


def _filling(name: str) -> Any:
    return lambda to, inner, given: Array(helped(name, inner.expr), inner.labels)


def _ranked(to: Reader, inner: Array, given: dict[str, ast.expr]) -> Array | None:
    share = constant(given["pct"]) if "pct" in given else False
    if type(share) is not bool or inner.labels.some:
        return None
    found = helped("rank", inner.expr, ast.Constant(share))
    return Array(found, replace(inner.labels, kind="f"))


def _sorted(to: Reader, inner: Array, given: dict[str, ast.expr]) -> Array | None:
    ascending = constant(given["ascending"]) if "ascending" in given else True
    if type(ascending) is not bool or (inner.labels.gaps and not ascending):
        return None
    return Array(_ordered(inner.expr, ascending), replace(inner.labels, names=None))


def _ordered(expr: Any, ascending: bool) -> Any:
    found = numpys("sort", expr)
    backwards = ast.Slice(None, None, ast.UnaryOp(ast.USub(), ast.Constant(1)))
    return found if ascending else ast.Subscript(found, backwards, ast.Load())


def _first(ascending: bool) -> Any:
    def write(to: Reader, inner: Array, given: dict[str, ast.expr]) -> Array | None:
        n = _number(given, "n", 5)
        if n is None or n < 1:
            return None
        first = ast.Slice(None, ast.Constant(n), None)
        there = _there(inner)
        found = ast.Subscript(_ordered(there.expr, ascending), first, ast.Load())
        return Array(found, replace(there.labels, names=None))

    return write


def _end(of: Any) -> Any:
    def write(to: Reader, inner: Array, given: dict[str, ast.expr]) -> Array | None:
        n = _number(given, "n", 5)
        if n is None or n < 1:
            return None
        names = inner.labels.names
        bounds = of(n).start, of(n).stop
        part = ast.Slice(*(None if x is None else ast.Constant(x) for x in bounds))
        labels = replace(inner.labels, names=None if names is None else names[of(n)])
        return Array(ast.Subscript(inner.expr, part, ast.Load()), labels)

    return write


def _clipped(to: Reader, inner: Array, given: dict[str, ast.expr]) -> Array | None:
    bounds: list[Any] = []
    for name, without in (("lower", float("-inf")), ("upper", float("inf"))):
        node = given.get(name)
        if node is None or (isinstance(node, ast.Constant) and node.value is None):
            bounds.append(_infinite(without))
            continue
        value = constant(node)
        if to.array(node) is not None:
            return None
        if value is None:
            bounds.append(to.scalar(node))
        elif type(value) in (int, float) and value == value:
            bounds.append(ast.Constant(float(value)))
        else:
            return None
    to.whole = True
    return Array(helped("clip", inner.expr, *bounds), inner.labels)


def _between(to: Reader, inner: Array, given: dict[str, ast.expr]) -> Array | None:
    if {*given} != {"left", "right"}:
        return None
    low = to.array(ast.Compare(_again(inner), [ast.GtE()], [given["left"]]))
    high = to.array(ast.Compare(_again(inner), [ast.LtE()], [given["right"]]))
    assert low is not None
    assert high is not None
    return Array(ast.BinOp(low.expr, ast.BitAnd(), high.expr), low.labels)


def _one_of(to: Reader, inner: Array, given: dict[str, ast.expr]) -> Array | None:
    among = given.get("values")
    if not isinstance(among, (ast.List, ast.Tuple, ast.Set)) or not among.elts:
        return None
    found: Any = None
    for value in map(constant, among.elts):
        if type(value) not in (int, float) or value != value:
            return None
        one = ast.Compare(copied(inner.expr), [ast.Eq()], [ast.Constant(value)])
        found = one if found is None else ast.BinOp(found, ast.BitOr(), one)
    to.whole = True
    return Array(found, replace(inner.labels, kind="b", gaps=False))


def _rounded(to: Reader, inner: Array, given: dict[str, ast.expr]) -> Array | None:
    digits = _number(given, "decimals", 0)
    if digits is None:
        return None
    return Array(numpys("round", inner.expr, ast.Constant(digits)), inner.labels)


def _as_floats(to: Reader, inner: Array, given: dict[str, ast.expr]) -> Array | None:
    dtype = given.get("dtype")
    named = isinstance(dtype, ast.Name) and dtype.id == "float" and to.value(dtype) is float
    if not named and (dtype is None or constant(dtype) not in ("float", "float64")):
        return None
    found = ast.Call(ast.Attribute(inner.expr, "astype", ast.Load()), [numpys("float64").func], [])
    return Array(found, replace(inner.labels, kind="f"))


def _chosen(keep: bool) -> Any:
    def write(to: Reader, inner: Array, given: dict[str, ast.expr]) -> Array | None:
        mask = to.array(given["cond"]) if "cond" in given else None
        other = given.get("other")
        if mask is None or mask.labels.kind != "b" or mask.labels.names != inner.labels.names:
            return None
        if mask.labels.some or inner.labels.some or (other and to.array(other) is not None):
            return None
        value = None if other is None else constant(other)
        if other is not None and type(value) not in (int, float):
            return None
        instead = numpys("nan").func if value is None else ast.Constant(float(value))
        both = [inner.expr, instead] if keep else [instead, inner.expr]
        to.whole = True
        return Array(numpys("where", mask.expr, *both), replace(inner.labels, gaps=True))

    return write


def _numbered(to: Reader, inner: Array, given: dict[str, ast.expr]) -> Array | None:
    if "drop" not in given or constant(given["drop"]) is not True or inner.labels.names is not None:
        return None
    return inner


_BY_NAME: dict[str, tuple[str, tuple[str, ...], Any]] = {
    "shift": ("f", ("periods",), _shifted),
    "diff": ("f", ("periods",), _changed(ast.Sub(), 0)),
    "pct_change": ("f", ("periods",), _changed(ast.Div(), 1)),
    "ffill": ("f", (), _filling("ffill")),
    "bfill": ("f", (), _filling("bfill")),
    "rank": ("fi", ("pct",), _ranked),
    "sort_values": ("fi", ("ascending",), _sorted),
    "nlargest": ("fi", ("n",), _first(False)),
    "nsmallest": ("fi", ("n",), _first(True)),
    "head": ("fib", ("n",), _end(lambda n: slice(None, n))),
    "tail": ("fib", ("n",), _end(lambda n: slice(-n, None))),
    "clip": ("f", ("lower", "upper"), _clipped),
    "between": ("fi", ("left", "right"), _between),
    "isin": ("fi", ("values",), _one_of),
    "round": ("f", ("decimals",), _rounded),
    "astype": ("fi", ("dtype",), _as_floats),
    "where": ("f", ("cond", "other"), _chosen(True)),
    "mask": ("f", ("cond", "other"), _chosen(False)),
    "reset_index": ("fib", ("drop",), _numbered),
}
"""Methods that give Series: kinds of Series that they are for, and names of arguments."""


# --- what is no Series --------------------------------------------------------------------------


def asked(
    to: Reader, inner: Array, name: str, node: ast.Call, args: Any = None, keywords: Any = None
) -> Any:
    """What a method gives that gives no Series."""
    labels = inner.labels
    args = node.args if args is None else args
    keywords = node.keywords if keywords is None else keywords
    if labels.masked:
        of_masked(inner, name not in (*REDUCED, "count"))
        if labels.some and name in OR_NAN:
            raise Refused(f"{name!r} of a Series that may be empty")
    elif name in _ASKED and (found := _ASKED[name](to, inner, args, keywords)) is not None:
        return ast.copy_location(found, node)
    known = {k.arg: constant(k.value) for k in keywords}
    if name in ("to_numpy", "tolist", "to_list", "argmax", "argmin") and not (args or known):
        if name.startswith("arg") and (labels.gaps or labels.some):
            raise Refused(f"{name!r} of a Series with NaN, or of some of its elements")
        found = inner.expr
        to.asks_numpy |= name == "to_numpy"
        if name != "to_numpy":
            found = method(found, name.replace("to_l", "tol"))
        return ast.copy_location(found, node)
    if name in ("any", "all") and labels.kind == "b" and not (args or known):
        return ast.copy_location(method(inner.expr, name), node)
    if name == "count" and labels.kind in "fib" and not (args or known):
        if labels.kind != "f":
            return ast.copy_location(_length(inner.expr), node)
        kept = ast.UnaryOp(ast.Invert(), numpys("isnan", inner.expr))
        return ast.copy_location(method(kept, "sum"), node)
    if name not in REDUCED or args or (name not in ("sum", "mean") and labels.kind == "b"):
        raise Refused(f"{name!r} of a Series")
    if known and (name not in SPREAD or {*known} != {"ddof"} or known["ddof"] not in (0, 1)):
        raise Refused(f"{name!r} of a Series, with more arguments")
    of_none = labels.some and not labels.masked and labels.kind == "f" and not labels.gaps
    if of_none and name in OR_NAN:
        return ast.copy_location(helped(OR_NAN[name], inner.expr), node)
    # of which there may be too few: NumPy warns, pandas does not
    if name in SPREAD and labels.names is None and not labels.masked and labels.kind in "fi":
        of = name + "_of_those" * (labels.gaps and labels.kind == "f")
        to.whole = True
        ddof = ast.Constant(known.get("ddof", 1))
        return ast.copy_location(helped(of, inner.expr, ddof), node)
    if labels.some and (name not in OF_NONE or labels.kind == "b"):
        raise Refused(f"{name!r} of a Series that may be empty")
    if labels.kind == "n" and name != "mean":
        raise Refused(f"{name!r} of a Series whose dtype is not known")
    to.whole = True
    more = [ast.keyword("ddof", ast.Constant(known.get("ddof", 1)))] * (name in SPREAD)
    gaps = labels.gaps and labels.kind in "fn"
    if gaps and labels.masked and name in IN_RUNS:
        found = helped(name + "_in_runs", inner.expr, *(k.value for k in more))
    else:
        found = numpys(REDUCED[name][gaps], inner.expr, keywords=more)
    return ast.copy_location(found, node)


def of_masked(inner: Array, known: bool = True) -> Array:
    """The same, if it has no gaps in the place of pandas' NA; `known`: or if that is no matter."""
    if known and inner.labels.masked and inner.labels.gaps:
        raise Refused(LACKING)
    return inner


def _length(expr: Any) -> Any:
    return ast.Call(ast.Name("len", ast.Load()), [expr], [])


def _quantile(to: Reader, inner: Array, args: Any, keywords: Any) -> Any:
    given, labels = _bound(("q",), args, keywords), inner.labels
    if given is None or labels.kind not in "fi":
        return None
    to.whole = True
    q = given.get("q", ast.Constant(0.5))
    value = constant(q)
    if type(value) in (int, float) and 0 <= value <= 1:  # as pandas asks NumPy
        return _percentile(inner, ast.Constant(value * 100.0))
    if value is not None or isinstance(q, (ast.List, ast.Tuple)) or to.array(q) is not None:
        raise Refused("'quantile' of a Series, with more arguments")
    if not isinstance(q, ast.Name):
        return None
    raise Refused("'quantile' of a Series at a place that is no constant")


def _percentile(inner: Array, q: ast.expr) -> Any:
    there = _there(inner)
    if there.labels.some:
        return helped("percentile", there.expr, q)
    return numpys("percentile", inner.expr, q)


def _counted(to: Reader, inner: Array, args: Any, keywords: Any) -> Any:
    if args or keywords or inner.labels.kind not in "fi":
        return None
    return helped("nunique", inner.expr)


def _pair(to: Reader, inner: Array, args: Any, keywords: Any, name: str) -> Any:
    """A helper of this Series and another one of the same labels."""
    if len(args) != 1 or keywords:
        return None
    other = to.array(args[0])
    both = [x.labels for x in (inner, other) if x is not None]
    if len(both) < 2 or any(x.some or x.kind not in "fi" for x in both):
        return None
    if both[0].names != both[1].names:
        return None
    to.whole = True
    assert other is not None
    if name == "dot":
        return numpys("dot", inner.expr, other.expr)
    return helped(name + "_of_both" * any(x.gaps for x in both), inner.expr, other.expr)


def _with_another(name: str) -> Any:
    return lambda to, inner, args, keywords: _pair(to, inner, args, keywords, name)


def _autocorr(to: Reader, inner: Array, args: Any, keywords: Any) -> Any:
    given = _bound(("lag",), args, keywords)
    lag = None if given is None else _number(given, "lag", 1)
    labels = inner.labels
    if lag is None or lag < 1 or labels.some or labels.kind != "f":
        return None
    to.whole = True
    parts = [
        ast.Subscript(inner.expr, ast.Slice(*x), ast.Load())
        for x in ((ast.Constant(lag), None), (None, ast.UnaryOp(ast.USub(), ast.Constant(lag))))
    ]
    return helped("corr" + "_of_both" * labels.gaps, *parts)


def _sem(to: Reader, inner: Array, args: Any, keywords: Any) -> Any:
    labels = inner.labels
    if args or keywords or labels.gaps or labels.some or labels.kind not in "fi":
        return None
    to.whole = True
    ddof = ast.keyword("ddof", ast.Constant(1))
    var = numpys("var", inner.expr, keywords=[ddof])
    return ast.BinOp(numpys("sqrt", var), ast.Div(), numpys("sqrt", _length(inner.expr)))


_ASKED: dict[str, Any] = {
    "quantile": _quantile,
    "nunique": _counted,
    "corr": _with_another("corr"),
    "cov": _with_another("cov"),
    "dot": _with_another("dot"),
    "autocorr": _autocorr,
    "sem": _sem,
}


def commonest(inner: Array) -> Any:
    """``x.mode()[0]``."""
    if inner.labels.kind not in "fi":
        raise Refused("'mode' of a Series of no numbers")
    return helped("commonest", _there(inner).expr)


def of_both(name: str, arrays: list[Array]) -> Any:
    """A function of NumPy of two Series that is a helper; None: it is none."""
    kinds = {x.labels.kind for x in arrays}
    return helped(name, *(x.expr for x in arrays)) if kinds == {"f"} else None


class Windows(ast.Name):
    """What stands for windows of a Series where it is in a function of one group."""


_WINDOWS = {
    "rolling": ("window", "min_periods", "center"),
    "expanding": ("min_periods",),
    "ewm": ("com", "span", "halflife", "alpha", "min_periods", "adjust"),
}
_OF_WINDOWS = ("mean", "sum", "std", "var", "min", "max", "median", "count")


def windows(to: Reader, node: ast.expr) -> tuple[str, ast.expr, list[ast.keyword]] | None:
    """``x.rolling(3)`` as its name, the Series and arguments; None: it is something else."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return None
    names, series = _WINDOWS.get(node.func.attr), to.array(node.func.value)
    if names is None or series is None or series.labels.kind not in "fi" or series.labels.some:
        return None
    given = _bound(names, node.args, node.keywords)
    if given is None or not all(type(constant(x)) in (int, float, bool) for x in given.values()):
        return None
    more = [ast.keyword(name, value) for name, value in given.items()]
    return node.func.attr, node.func.value, more


def of_windows(to: Reader, function: ast.Attribute, node: ast.Call) -> Array | None:
    """What a method of windows gives."""
    if function.attr not in _OF_WINDOWS or node.args or node.keywords:
        return None
    if windows(to, function.value) is None:
        return None
    assert isinstance(function.value, ast.Call)
    assert isinstance(function.value.func, ast.Attribute)
    series = to.array(function.value.func.value)
    assert series is not None
    return Array(Windows("windows", ast.Load()), replace(series.labels, kind="f", gaps=True))


def labels_of_one(labels: Labels, label: Hashable) -> int:
    """The place of a label that is there once."""
    names = labels.names
    if names is None:
        raise Refused(f"its labels are not known: {label!r}")
    found = [k for k, x in enumerate(names) if type(x) is type(label) and x == label]
    if len(found) != 1:
        raise Refused(f"there is no single column {label!r}")
    return found[0]
