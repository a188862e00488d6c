"""pandas' loop over rows without a Series for each: for functions that read elements by name alone.

``row.a``, ``row["b"]``, ``row.get("c")`` and ``row.name`` become parameters, and the function is
called with the elements that the Series would have. Whatever else it does is Python's: it is called
once for each row, in order.
"""

from __future__ import annotations

import ast
import functools
import inspect
import operator
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import suppress
from types import FunctionType, MethodType
from typing import Any

import numpy as np
import pandas as pd
from pandas.core.apply import frame_apply

from ..errors import TraceError
from ..frontends.python.source.reading import find
from ..functions.cache import BoundedDict, kept
from ..functions.purity import names as names_of
from .applied import Known, given
from .helpers import Columns, Elements, Indexed
from .known import Called, meant
from .labels import Labels, Refused
from .returns import compiled, elements_of, function_of
from .series import Rewriter
from .trees import bound, constant, copied, helped
from .written_out import Held, meanings, relied_on, stays, written_out

_NAME, _ELEMENT = "_xpapply_name", "_xpapply_element_{}"
"""The parameters that are the label of the row, and an element of it."""
_LOOKS = frozenset("locals vars dir eval exec globals currentframe _getframe super".split())
"""What may see parameters without their names."""
_LATER = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


class Rows:
    """The rows of a table, by the elements that a function reads.

    Parameters
    ----------
    frame : DataFrame
        The table.
    what : Called
        The function, and what it gets beside a row.
    by_pandas : callable
        ``by_pandas(k)`` is what pandas' way gives for a row.
    result_type : str or None
        As of ``DataFrame.apply``.

    Raises
    ------
    TraceError
        If it does something else with a row than to read elements of known names.
    """

    def __init__(
        self, frame: pd.DataFrame, what: Called, by_pandas: Callable[[int], Any], result_type: Any
    ) -> None:
        f, before, kwargs, self._holds = _unwrapped(what.f, what.kwargs)
        args, self._what, self._by_pandas = what.args, what, by_pandas
        if isinstance(frame.columns, pd.MultiIndex) or not frame.columns.is_unique:
            raise Refused("its columns have labels of several levels, or some of them twice")
        _check(f, (*before, None, *args), kwargs)
        columns = tuple(frame.columns.tolist())
        key = f.__code__, len(before), meant(f), meanings(f), columns, tuple(map(type, columns))
        found = _written.get(key)
        if found is None:
            try:
                found = _Reader(f, len(before), columns).written()
            except TraceError as error:
                found = error
            _written[key] = found
        if isinstance(found, TraceError):
            raise found.with_traceback(None)
        code, tree, places, names = found
        if names and not stays(f, names):
            raise Refused("what it calls may change its helpers")
        what.held += relied_on(f, names)
        made = function_of(code, tree, f)
        self._frame, self._args, self._kwargs = frame, args, kwargs
        self._result_type, self._places = result_type, places
        self._f = functools.partial(made, *before) if before else made
        self._index = frame.index  # that of the result, whatever becomes of the table's own
        self._each: list[Sequence[Any]] | None = None
        self._columns: dict[int, Columns] = {}
        if not _is_known(frame):
            raise Refused("its rows are of a dtype whose elements pandas makes for each row")

    @property
    def _elements(self) -> list[Sequence[Any]]:
        """The elements of all rows that are read, for each of the parameters."""
        if self._each is None:
            of_rows = [p for p in self._places if p is not None]
            self._first = self._frame.iloc[0]  # what is written to the table then goes to a copy
            read = dict(zip(of_rows, elements(self._frame, of_rows), strict=True))
            self._each = [self._labels() if p is None else read[p] for p in self._places]
        return self._each

    def _labels(self) -> Sequence[Any]:
        """Those of all rows, as pandas' loop names them."""
        if isinstance(self._frame.iloc[0].dtype, np.dtype):
            return list(self._index)
        return _AsTheyAre(len(self._index), lambda k: self._frame.index[k])

    def _unchanged(self) -> Callable[[], bool]:
        """What says whether the same would be called with the same: it may bind names anew."""
        checks = [*self._holds]
        if self._what.held:
            checks.append(self._what.unchanged)
        return checks[0] if len(checks) == 1 else lambda: all(same() for same in checks)

    def call(self, k: int) -> Any:
        """The result for a row."""
        if not self._unchanged()():
            return self._by_pandas(k)
        found = self._f(*(x[k] for x in self._elements), *self._args, **self._kwargs)
        if isinstance(found, Columns):
            self._columns[k] = found
            return _series(found)
        return found

    def loop(self, f: Any) -> Any:
        """What pandas gives; `f`: the function, or one of which some results are known."""
        known = f.known | self._columns if type(f) is Known else {}
        inner, args, kwargs, unchanged = self._f, self._args, self._kwargs, self._unchanged()
        results: dict[int, Any] = {}
        # tuples of numbers and texts are nothing that the collector of garbage goes through
        parts: dict[int, tuple[Any, ...]] = {}
        first: Columns | None = None
        labels: list[Any] = []
        each: Any = zip(*self._elements, strict=True)
        for k, row in enumerate(each if self._places else [()] * len(self._frame)):
            if k in known:
                found = given(known[k])
            elif not unchanged():
                found = self._by_pandas(k)
            else:
                found = inner(*row, *args, **kwargs)
            if isinstance(found, Columns):
                if first is None:
                    first, labels = found, [*found]
                # 1, 1.0 and True are other labels
                if type(found) is type(first) and len(found) == len(labels):
                    if all(map(operator.is_, found, labels)):
                        parts[k] = (*found.values(),)
                        continue
                found = _series(found)
            # as in pandas, whose results may be one and the same Series
            results[k] = found.copy(deep=False) if isinstance(found, pd.Series) else found
        made = None
        if first is not None and not results and not self._result_type:
            made = _table(first, [*parts.values()], self._index)
        if made is None:
            if first is not None:
                of = type(first)
                some = {k: _series(of(zip(labels, x, strict=True))) for k, x in parts.items()}
                every = results | some
                results = {k: every[k] for k in range(len(self._frame))}
            how = {"axis": 1, "result_type": self._result_type, "kwargs": {}}
            op: Any = frame_apply(self._frame, len, **how)  # type: ignore[arg-type]
            made = op.wrap_results(results, self._index)
        return made.__finalize__(self._frame, method="apply")


def _series(x: Columns) -> pd.Series:
    if isinstance(x, Indexed):
        return pd.Series([*x.values()], index=[*x])
    return pd.Series([*x.values()] if isinstance(x, Elements) else dict(x))


def _table(first: Columns, rows: list[tuple[Any, ...]], index: pd.Index) -> pd.DataFrame | None:
    """What Series with the labels of the first become, made column by column.

    None: the classes of their elements differ.
    """
    columns = [*zip(*rows, strict=True)]
    kinds = [{*map(type, x)} for x in columns]
    if not all(len(k) == 1 and k <= _KINDS for k in kinds):
        return None
    series = _series(first)
    dtype = series.dtype
    if isinstance(dtype, np.dtype) and dtype.kind in "bif":
        try:
            each = [
                np.array(x, np.int64) if k == {int} else x
                for x, k in zip(columns, kinds, strict=True)
            ]
        except OverflowError:  # of some rows the Series are objects, or unsigned
            return None
        values = np.array(each, dtype).T
        return pd.DataFrame(values, index, series.index)
    if isinstance(dtype, np.dtype) and dtype.kind != "O":  # unsigned, where all are large integers
        return None
    made = pd.DataFrame(dict(enumerate(columns)), index, dtype=dtype)
    made.columns = series.index
    return made.infer_objects()


_KINDS = frozenset({int, float, bool, str, np.float64, np.int64, np.bool_})
"""Classes of elements of which a Series has one dtype, whichever they are."""
_written: BoundedDict = kept(BoundedDict())
"""By the code of a function, and the labels of columns."""


def _unwrapped(
    f: Any, kwargs: dict[str, Any]
) -> tuple[FunctionType, tuple, dict[str, Any], list[Callable[[], bool]]]:
    """The function that a call runs, what it gets before a row, and by name.

    And what says whether that is still so: the function may change what holds it.
    """
    before: tuple[Any, ...] = ()
    holds: list[Callable[[], bool]] = []
    while type(f) is not FunctionType:
        if type(f) is functools.partial:
            if f.keywords:
                holds.append(functools.partial(_has, f, {**f.keywords}))
            before, kwargs, f = (*f.args, *before), {**f.keywords, **kwargs}, f.func
        elif type(f) is MethodType:
            before, f = (f.__self__, *before), f.__func__
        elif type(call := getattr(type(f), "__call__", None)) is FunctionType:  # noqa: B004
            holds.append(functools.partial(_calls, f, call))
            before, f = (f, *before), call
        else:
            raise Refused("it is no function of Python")
    if any(x is _PLACEHOLDER for x in before):
        raise Refused("it has places for arguments")
    holds.append(functools.partial(_is_same, f, f.__code__, f.__defaults__, f.__kwdefaults__))
    return f, before, kwargs, holds


def _has(f: functools.partial, was: dict[str, Any]) -> bool:
    now = f.keywords
    return now.keys() == was.keys() and all(now[k] is x for k, x in was.items())


def _calls(f: Any, call: FunctionType) -> bool:
    return getattr(type(f), "__call__", None) is call  # noqa: B004


def _is_same(f: FunctionType, code: Any, defaults: Any, named: Any) -> bool:
    return f.__code__ is code and f.__defaults__ is defaults and f.__kwdefaults__ is named


_PLACEHOLDER = getattr(functools, "Placeholder", object())


def _check(f: FunctionType, args: tuple, kwargs: dict[str, Any]) -> None:
    """Refuse arguments of which Python says how many there may be."""
    try:
        inspect.signature(f).bind(*args, **kwargs)
    except TypeError:
        raise Refused("it does not take such arguments") from None


def _is_known(frame: pd.DataFrame) -> bool:
    """Whether the elements of a row are those of its columns, or of the table as an array."""
    dtype, dtypes = frame.iloc[0].dtype, frame.dtypes.tolist()
    if isinstance(dtype, np.dtype) and dtype.kind in "biufcO":
        return True
    is_known = isinstance(dtype, pd.StringDtype) or dtype.kind in "Mm"
    return is_known and all(d == dtype for d in dtypes)


def elements(frame: pd.DataFrame, places: Sequence[int]) -> list[Sequence[Any]]:
    """Those of some columns, as pandas' loop finds them in the Series of a row.

    Where that reads the memory of the table row by row, so does who goes through these.
    """
    dtype = frame.iloc[0].dtype
    is_numpys = isinstance(dtype, np.dtype)
    if is_numpys and (dtype.kind in "biufc" or {*frame.dtypes} == {np.dtype(object)}):
        values = frame.to_numpy()
        return [values[:, k] for k in places]
    if is_numpys and dtype.kind == "O":
        return [frame.iloc[:, k].to_numpy(object).tolist() for k in places]
    if is_numpys or isinstance(dtype, pd.ArrowDtype):
        return [list(frame.iloc[:, k]) for k in places]
    columns = [frame._get_column_array(k) for k in places]
    if all(isinstance(x, pd.arrays.NumpyExtensionArray) for x in columns):
        return [x._ndarray for x in columns]
    return [_AsTheyAre(len(x), x.__getitem__) for x in columns]


class _AsTheyAre(Sequence[Any]):
    """Elements that are looked for when it is their turn: a function may write to later rows."""

    def __init__(self, count: int, get: Callable[[int], Any]) -> None:
        self._count, self._get = count, get

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, k: Any) -> Any:
        return self._get(k)

    def __iter__(self) -> Iterator[Any]:
        return map(self._get, range(self._count))


class _Reader(ast.NodeTransformer):
    """Puts parameters in the place of a row's elements."""

    def __init__(self, f: FunctionType, place: int, columns: tuple[Hashable, ...]) -> None:
        self._f, self._place, self._columns = f, place, columns
        self._read: dict[int | None, str] = {}
        self._row, self._depth = "", 0
        self._names = Rewriter(f, "", Labels(None), "")

    def written(self) -> tuple[Any, Any, list[int | None], Held]:
        """The code, its tree, and of which column each parameter is; None: the row's label.

        And the names of the helpers that are written out.
        """
        if not _LOOKS.isdisjoint(names_of(self._f.__code__)):
            raise Refused("it may look at its own names")
        if self._f.__code__.co_flags & _LATER:
            raise Refused("it is a generator, or a coroutine")
        tree = copied(find.tree_of(self._f))
        arguments, place = tree.args, self._place
        every = [*arguments.posonlyargs, *arguments.args]
        if len(every) <= place or len(arguments.defaults) >= len(every) - place:
            raise Refused("its row has no name, or a default")
        row = every[place]
        if any(row.arg in _bound(n) for n in ast.walk(tree) if n is not row):
            raise Refused("the name of its row is that of something else, too")
        self._row = row.arg
        held: Held = []
        tree = written_out(tree, self._f, row.arg, self._columns, held)
        is_lambda = isinstance(tree, ast.Lambda)
        body = [ast.copy_location(ast.Return(tree.body), tree.body)] if is_lambda else tree.body
        body = [self.visit(s) for s in body]
        target = arguments.posonlyargs if row in arguments.posonlyargs else arguments.args
        at = target.index(row)
        target[at : at + 1] = [ast.arg(name) for name in self._read.values()]
        for argument in ast.walk(arguments):
            if isinstance(argument, ast.arg):
                argument.annotation = None
        arguments.defaults = [ast.Constant(None) for _ in arguments.defaults]
        arguments.kw_defaults = [x and ast.Constant(None) for x in arguments.kw_defaults]
        name = self._f.__name__ if self._f.__name__.isidentifier() else "function"
        made = ast.FunctionDef(name, arguments, body, [], lineno=tree.lineno)
        ast.fix_missing_locations(ast.copy_location(made, tree))
        return compiled(made, self._f), made, [*self._read], held

    def visit_Return(self, node: ast.Return) -> ast.Return:
        if node.value is not None:
            node.value = self.visit(node.value) if self._depth else self._result(node.value)
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> Any:
        self._depth += 1
        found = self.generic_visit(node)
        self._depth -= 1
        return found

    visit_AsyncFunctionDef: Any = visit_FunctionDef

    def _result(self, node: ast.expr) -> Any:
        """What is returned: in the place of a Series what it is made of."""
        if isinstance(node, ast.IfExp):
            test = self.visit(node.test)
            return ast.IfExp(test, self._result(node.body), self._result(node.orelse))
        if isinstance(node, ast.Call) and self._names.value(node.func) is pd.Series:
            with suppress(Refused):
                found = elements_of(node)
                labels: list[Any] = [ast.Constant(k) for k in found]  # type: ignore[arg-type]
                each = ast.Dict(labels, [self.visit(x) for x in found.values()])
                listed = "indexed" if node.keywords else "elements"
                name = "columns" if isinstance(node.args[0], ast.Dict) else listed
                return ast.copy_location(helped(name, each), node)
        return self.visit(node)

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id == self._row:
            raise Refused(f"it uses the row itself, line {node.lineno}")
        return node

    def visit_Attribute(self, node: ast.Attribute) -> Any:
        if not self._is_row(node.value):
            return self.generic_visit(node)
        if not isinstance(node.ctx, ast.Load):
            raise Refused(f"it sets an attribute of its row, line {node.lineno}")
        if node.attr == "name":
            return self._parameter(None, node)
        own = getattr(pd.Series, "_internal_names_set", ())
        if node.attr in own or hasattr(_SERIES, node.attr) or hasattr(pd.Series, node.attr):
            raise Refused(f"it uses {node.attr} of its row, line {node.lineno}")
        return self._element(node.attr, node)

    def visit_Subscript(self, node: ast.Subscript) -> Any:
        if not self._is_row(node.value):
            return self.generic_visit(node)
        if not isinstance(node.ctx, ast.Load):
            raise Refused(f"it writes to its row, line {node.lineno}")
        return self._element(constant(node.slice), node)

    def visit_Call(self, node: ast.Call) -> Any:
        f = node.func
        if isinstance(f, ast.Attribute) and f.attr == "get" and self._is_row(f.value):
            rest = node.args[1:]
            if node.args and not node.keywords and all(isinstance(x, ast.Constant) for x in rest):
                return self._element(constant(node.args[0]), node)
        return self.generic_visit(node)

    def _is_row(self, node: ast.expr) -> bool:
        return isinstance(node, ast.Name) and node.id == self._row

    def _element(self, label: Any, node: ast.expr) -> ast.expr:
        own = [k for k, x in enumerate(self._columns) if type(x) is type(label) and x == label]
        if not own or type(label) not in (str, int):
            raise Refused(f"it reads a part of its row that is no known column, line {node.lineno}")
        return self._parameter(own[0], node)

    def _parameter(self, k: int | None, node: ast.expr) -> ast.expr:
        name = self._read.setdefault(k, _NAME if k is None else _ELEMENT.format(k))
        return ast.copy_location(ast.Name(name, ast.Load()), node)


def _bound(node: ast.AST) -> tuple[Any, ...]:
    """Names that a node binds."""
    if isinstance(node, ast.alias):
        return (node.asname or node.name,)
    if isinstance(node, (ast.MatchAs, ast.MatchStar)):
        return (node.name,)
    return (node.rest,) if isinstance(node, ast.MatchMapping) else tuple(bound(node))


_SERIES = pd.Series([0], dtype=object)
