"""A Series that a function of groups returns, as an expression of all rows and of numbers."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from types import CodeType
from typing import Any

import numpy as np
import pandas as pd

from ..runtime.warning_filters import silent
from . import methods
from .labels import NUMPY, Refused
from .series import Rewriter
from .trees import constant, copied, numpys

ROWS = "_xpapply_rows"
COUNTS = "_xpapply_counts"
_NUMBER = "_xpapply_result_{}"
_TOLD = "_xpapply_told"
_GROUPED = "_xpapply_grouped"
_ROLLED = "_xpapply_rolled"
_CLIPPED = "_xpapply_clipped"


@dataclass(frozen=True)
class Spread:
    """What a Series that is returned is made of its argument and of numbers.

    Attributes
    ----------
    code : code
        An expression of `ROWS`, of `COUNTS` (how many there are of each group), of the numbers
        ``number(k)``, and of functions.
    known : dict
        What else it reaches.
    numbers : int
        How many numbers there are.
    """

    code: CodeType
    known: dict[str, Any]
    numbers: int


def number(k: int) -> str:
    """What the number of this place is called."""
    return _NUMBER.format(k)


def spread(
    series: Rewriter, once: dict[str, ast.expr | None], value: ast.expr, file: str
) -> tuple[Spread, list[ast.expr]]:
    """What is returned, and the expressions of its numbers.

    `once`: what names are that are assigned once, whatever happens; None: others.
    """
    to = _OfRows(series, once)
    expr = ast.fix_missing_locations(ast.Expression(to.of(copied(value))))
    with silent():
        code = compile(expr, file, "eval")
    return Spread(code, to.known, len(to.numbers)), to.numbers


class _OfRows:
    def __init__(self, series: Rewriter, once: dict[str, ast.expr | None]) -> None:
        self._series, self._once = series, once
        self.numbers: list[ast.expr] = []
        self.known: dict[str, Any] = {
            NUMPY: np, _TOLD: _told, _GROUPED: _grouped, _ROLLED: _rolled, _CLIPPED: _clipped,
        }  # fmt: skip

    def of(self, node: ast.expr) -> Any:
        """An expression of all rows; what is a number in each call goes to `numbers`."""
        if self._series.array(node) is None:
            if isinstance(node, (ast.Tuple, ast.List, ast.Dict, ast.Set, ast.ListComp)):
                raise Refused("it returns a container")
            if isinstance(node, ast.Constant) and type(node.value) not in (int, float, bool, str):
                raise Refused("it returns what is no number")
            self.numbers.append(node)
            return ast.Name(number(len(self.numbers) - 1), ast.Load())
        self._series.whole = True
        if isinstance(node, ast.Name):
            return self._named(node)
        if isinstance(node, ast.BinOp):
            return ast.BinOp(self.of(node.left), node.op, self.of(node.right))
        if isinstance(node, ast.UnaryOp):
            return ast.UnaryOp(node.op, self.of(node.operand))
        if isinstance(node, ast.Compare):
            return ast.Compare(self.of(node.left), node.ops, [self.of(node.comparators[0])])
        found = None
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if self._series.array(node.func.value) is not None:
                found = self._method(node.func, node)
            elif (windows := methods.windows(self._series, node.func.value)) is not None:
                found = self._rolled(windows, node)
            else:
                found = self._function(node)
        elif isinstance(node, ast.Call):
            found = self._function(node)
        if found is None:
            raise Refused("it returns a part of a Series, or something of several elements each")
        return found

    def _named(self, node: ast.Name) -> Any:
        if node.id not in self._once:
            return ast.Name(ROWS, ast.Load())
        once = self._once[node.id]
        if once is None or any(
            isinstance(x, ast.Name) and self._once.get(x.id, once) is None for x in ast.walk(once)
        ):
            raise Refused(f"{node.id!r} may be one Series or another")
        return self.of(copied(once))

    def _method(self, function: ast.Attribute, node: ast.Call) -> Any:
        of, name, args = self.of(function.value), function.attr, node.args
        if name in ("copy", "reset_index"):
            return of if name == "copy" else None
        if name == "abs":
            return numpys("abs", of)
        if name in ("isna", "isnull", "notna", "notnull"):
            found: Any = numpys("isnan", of)
            return ast.UnaryOp(ast.Invert(), found) if name[:3] == "not" else found
        if name == "fillna":
            return numpys("where", numpys("isnan", copied(of)), self.of(args[0]), of)
        if name in methods.OPERATORS:
            return ast.BinOp(of, methods.OPERATORS[name], self.of(args[0]))
        if name in methods.COMPARISONS:
            return ast.Compare(of, [methods.COMPARISONS[name]], [self.of(args[0])])
        if name in _BY_GROUPS:
            given = [ast.Name(COUNTS, ast.Load()), ast.Constant(name), of]
            return ast.Call(ast.Name(_GROUPED, ast.Load()), [*given, *args], node.keywords)
        if name == "clip":
            bounds = dict(zip(("lower", "upper"), args, strict=False))
            bounds |= {k.arg or "": k.value for k in node.keywords}
            none = ast.Constant(None)
            each = [bounds.get(k, none) for k in ("lower", "upper")]
            each = [x if constant(x) is None and _is_none(x) else self.of(x) for x in each]
            return ast.Call(ast.Name(_CLIPPED, ast.Load()), [of, *each], [])
        return None

    def _rolled(self, windows: tuple[str, ast.expr, list[ast.keyword]], node: ast.Call) -> Any:
        name, value, keywords = windows
        assert isinstance(node.func, ast.Attribute)
        given = [ast.Name(COUNTS, ast.Load()), ast.Constant(name), self.of(value)]
        given.append(ast.Constant(node.func.attr))
        return ast.Call(ast.Name(_ROLLED, ast.Load()), given, keywords)

    def _function(self, node: ast.Call) -> Any:
        function = self._series.value(node.func)
        if function is abs:
            return numpys("abs", self.of(node.args[0]))
        if not isinstance(function, np.ufunc):
            return None
        name = f"_xpapply_ufunc_{len(self.known)}"
        self.known[name] = function
        of = [ast.Name(name, ast.Load()), self.of(node.args[0])]
        return ast.Call(ast.Name(_TOLD, ast.Load()), of, [])


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


# --- functions of all rows ----------------------------------------------------------------------

_BY_GROUPS = (
    "shift", "diff", "pct_change", "ffill", "bfill", "cumsum", "cumprod", "cummax", "cummin",
    "rank",
)  # fmt: skip
"""Methods whose results depend on the other elements of a group."""


def _told(ufunc: np.ufunc, x: np.ndarray) -> np.ndarray:
    """A ufunc of the user's, which warns where pandas calls it: then it raises here."""
    with np.errstate(all="raise", under="ignore"):
        return ufunc(x)  # type: ignore[no-any-return]


def _by(counts: np.ndarray, rows: np.ndarray) -> Any:
    """The rows by their groups, for pandas' own methods."""
    groups = np.repeat(np.arange(len(counts)), counts)
    return pd.Series(rows).groupby(groups, sort=False)


def _grouped(counts: np.ndarray, name: str, rows: np.ndarray, *args: Any, **more: Any) -> Any:
    """A method of each group."""
    if name in ("diff", "pct_change"):
        before = _by(counts, rows).shift(*args, **more).to_numpy()
        return rows - before if name == "diff" else rows / before - 1
    if name not in _ACCUMULATED:
        return getattr(_by(counts, rows), name)(*args, **more).to_numpy()
    of, neutral = _ACCUMULATED[name]
    lost = np.isnan(rows) if rows.dtype.kind == "f" else None
    found = rows.copy() if lost is None else np.where(lost, neutral, rows)
    _accumulate(of, counts, found)
    if lost is not None:
        found[lost] = np.nan
    return found


_ACCUMULATED: dict[str, tuple[np.ufunc, float]] = {
    "cumsum": (np.add, 0.0),
    "cumprod": (np.multiply, 1.0),
    "cummax": (np.maximum, -np.inf),
    "cummin": (np.minimum, np.inf),
}
"""pandas' own methods of groups add in another order."""


def _accumulate(of: np.ufunc, counts: np.ndarray, found: np.ndarray) -> None:
    """Each group from its first row on, in place: place by place, or group by group."""
    ends = np.cumsum(counts)
    if len(counts) < counts.max(initial=0):
        for end, count in zip(ends.tolist(), counts.tolist(), strict=True):
            part = found[end - count : end]
            part[:] = of.accumulate(part)
        return
    starts = ends - counts
    for k in range(1, int(counts.max(initial=0))):
        at = starts[counts > k] + k
        found[at] = of(found[at - 1], found[at])


def _rolled(counts: np.ndarray, how: str, rows: np.ndarray, name: str, **more: Any) -> Any:
    """What pandas makes of the windows in each group."""
    windows = getattr(_by(counts, rows), how)(**more)
    return getattr(windows, name)().to_numpy()


def _clipped(rows: np.ndarray, lower: Any, upper: Any) -> np.ndarray:
    """Elements between bounds, of which NaN is none; in the wrong order they change places."""
    if lower is not None and upper is not None:
        swapped = lower > upper
        lower, upper = np.where(swapped, upper, lower), np.where(swapped, lower, upper)
    found = rows if lower is None else np.where(rows < lower, lower, rows)
    return found if upper is None else np.where(found > upper, upper, found)
