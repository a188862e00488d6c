"""Random tables and functions that pandas calls for rows, elements, windows and groups.

Values, dtypes, labels, exceptions and warnings are those of pandas' own loop, by ``engine=xpapply``
and under ``xpapply.patch()``: of columns of many kinds, with missing values, labels twice, several
levels or no rows at all.
"""

from __future__ import annotations

import collections
import contextlib
import random
from typing import Any

import numpy as np
import outcomes

import xpapply
from xpapply.limits import LIMITS

from .loops import made

try:
    import pandas as pd
except ImportError:  # then there is nothing to draw
    pd = None

counts: collections.Counter[str] = collections.Counter()
"""What became of calls, by their doors and what ran them."""
_ALWAYS: dict[str, Any] = dict.fromkeys(
    "few_slices few_elements plan_worth blocks_call call_in_block unknown_elements unknown_rows"
    " few_patched patched_again".split(), 0,
)  # fmt: skip
_ALWAYS |= {"given_up_from": 1e9, "paths_at_least": 60.0, "patched_worth": -1.0, "rows_of_texts": 1}
NUMBERS = ("float64", "gaps", "int64", "Int64", "float32", "bool", "int8", "uint64", "Float64")
NULLABLE = ("Int64", "Float64", "boolean", "Int8", "Float32", "int64[pyarrow]", "double[pyarrow]")
KINDS = (*NUMBERS, *NULLABLE, "str", "category", "object", "datetime", "delta", "complex", "string")
_METHODS = "sum mean median min max std var prod count any all size argmax idxmax nunique".split()


# --- tables -------------------------------------------------------------------------------------


def _column(r: random.Random, kind: str, n: int) -> Any:
    """Numbers are few halves: sums of them are exact."""
    rng = np.random.default_rng(r.randrange(2**32))
    whole = rng.integers(*r.choice([(-9, 9), (-1, 2), (1, 9), (0, 3)]), n)
    lost = rng.random(n) < r.choice([0, 0, 0.1, 0.4, 1])
    if kind in ("float64", "gaps", "float32", "complex"):
        found = whole / r.choice([1, 2, 4])
        if kind == "gaps":
            found[lost] = np.nan
        return found.astype("float64" if kind == "gaps" else kind)
    if kind in ("str", "category", "object", "string"):
        found = rng.choice(["x", "y", "zz", ""][: r.choice([2, 4])], n).astype(object)
        if kind == "object" and r.random() < 0.5:
            found = whole.astype(object)
        found[lost] = r.choice([None, np.nan])
        return found if kind == "object" else pd.array(found, dtype=kind)
    if kind in ("datetime", "delta"):
        found = pd.to_timedelta(whole, unit="h").to_series(index=range(n))
        found[lost] = pd.NaT
        return (found + pd.Timestamp(2020, 1, 1) if kind == "datetime" else found).to_numpy()
    if kind in NULLABLE:
        pairs = zip(whole.tolist(), lost.tolist(), strict=True)
        whole = [pd.NA if gone else x > 0 if kind == "boolean" else x for x, gone in pairs]
        try:
            return pd.array(whole, dtype=kind)
        except ImportError:  # there is no pyarrow
            return pd.array(whole, dtype="Int64")
    return (whole % 2 == 0) if kind == "bool" else np.abs(whole).astype(kind)


def _index(r: random.Random, n: int) -> Any:
    name = r.choice([None, "i"])
    found = [
        pd.RangeIndex(n, name=name),
        pd.Index(np.arange(n) // 3, name=name),
        pd.Index([f"r{k}" for k in range(n)], name=name),
        pd.date_range("2020", periods=n, freq="min", name=name),
        pd.MultiIndex.from_arrays([np.arange(n) // 2, ["u", "v"] * (n // 2) + ["u"] * (n % 2)]),
        pd.Index(np.arange(n)[::-1] / 2),
    ]
    return r.choice(found)


_NAMES = (list("abcde"), list("abcde"), ["a", "b", "sum", "x y", "size"], [0, 1, 2, "a", 2.5])
_TWICE = list("abcab")


def _table(r: random.Random) -> Any:
    n = r.choice([0, 1, 2, 20, 40, 40, 60])
    width = r.choice([1, 2, 3, 4, 5])
    one = r.random() < 0.4 and r.choice(KINDS if r.random() < 0.5 else NUMBERS[:4])
    kinds = [one or r.choice(NUMBERS if r.random() < 0.75 else KINDS) for _ in range(width)]
    names = r.choice(_NAMES)[:width] if r.random() < 0.9 else _TWICE[:width]
    index = _index(r, n)
    parts = {k: pd.Series(_column(r, kind, n), index=index) for k, kind in enumerate(kinds)}
    table = pd.DataFrame(parts, index=index)
    table.columns = names
    if r.random() < 0.04:
        table.columns = pd.MultiIndex.from_product([["m"], names])
    elif r.random() < 0.2:
        table.columns.name = "columns"
    return table


# --- functions ----------------------------------------------------------------------------------


def _is_attribute(label: Any) -> bool:
    return str(label).isidentifier() and not hasattr(pd.Series, str(label))


class _Program:
    """The text of a function of a row, an element, or a Series."""

    def __init__(self, r: random.Random, subject: str, labels: list[Any]) -> None:
        self.r, self.subject, self.labels = r, subject, labels
        self.names: list[str] = []
        self.lines = [f"def f({'x' if subject == 'element' else 's'}):"]
        if r.random() < 0.12:  # its calls count, and what it gets
            self.lines += ["    global count", "    count += 1", f"    SEEN.append({self._seen()})"]
            self.names.append("count")
        for _ in range(r.choice([0, 0, 1, 2])):
            self._statement("    ")
        self.lines.append(f"    return {self._returned()}")

    @property
    def source(self) -> str:
        imports = "import math\nimport numpy as np\nimport pandas as pd\n\nSEEN, count = [], 0\n"
        return f"{imports}\n\n" + "\n".join(self.lines)

    def _seen(self) -> str:
        if self.subject == "row":
            return f"repr(({self._element()}, s.name))"
        return "repr(x)" if self.subject == "element" else "len(s)"

    def _element(self) -> str:
        r = self.r
        if self.subject == "element":
            return "x"
        if self.subject == "series":
            return f"s.iloc[{r.choice([0, -1, 0, 3])}]"
        label = r.choice(self.labels)
        forms = ["s[{0!r}]"] * 4 + ["s.get({0!r})", "s.loc[{0!r}]", "s.at[{0!r}]"]
        if self.subject == "frame":
            return f"{self._series()}.{r.choice(['sum()', 'mean()', 'iloc[0]', 'max()'])}"
        if _is_attribute(label):
            forms += ["s.{0}"] * 3
        if r.random() < 0.1:
            return r.choice(["s.get('zz', 1)", "s.iloc[0]", "s.iat[-1]", "s.get('zz')", "s['zz']"])
        return r.choice(forms).format(label)

    def _series(self, depth: int = 1) -> str:
        r = self.r
        if self.subject == "frame":
            label = r.choice(self.labels)
            return f"s.{label}" if _is_attribute(label) and r.random() < 0.5 else f"s[{label!r}]"
        of = "s"
        if self.subject == "row" and r.random() < 0.25:
            some = r.sample(self.labels, min(len(self.labels), r.choice([1, 2, 2])))
            of = r.choice([f"s[{some!r}]", "s.iloc[1:]", "s.iloc[:2]"])
        if not depth or r.random() < 0.4:
            return of
        return r.choice([
            "({0} {2} {1})", "({0} {2} {1})", "({0} - {0}.mean())", "({0} / {0}.sum())", "-{0}",
            "{0}.abs()", "{0}.fillna({1})", "{0}.dropna()", "{0}[{0} > {1}]", "({0} > {1})",
            "{0}.isna()", "np.sqrt({0})", "{0}.cumsum()", "{0}.copy()", "{0}.shift(1)", "abs({0})",
            "{0}.fillna({0}.mean())", "{0}.where({0} > 0)", "({0} > {0}.mean())", "({0} != 1)",
        ]).format(of, self._constant(), r.choice("+ - * / // ** %".split()))  # fmt: skip

    def _constant(self) -> str:
        return self.r.choice(["0", "1", "2", "0.5", "-1", "2.0", "True", "3"])

    def _asked(self) -> str:
        """A number of a whole Series."""
        r, of = self.r, self._series()
        name = r.choice("sum mean max median std".split())
        return r.choice([
            *["{0}.{1}()"] * 8, "len({0})", "np.{2}({0})", "np.{2}({0})", "sum({0})", "max({0})",
            "{0}.iloc[0]", "{0}.values.{2}()", "{0}.to_numpy().sum()", "{0}.std(ddof=0)",
            "np.percentile({0}, 30)", "sum(v * 2 for v in {0})", "{0}.tolist()[0]", "s.name",
        ]).format(of, r.choice(_METHODS[:11]), name)  # fmt: skip

    def _number(self, depth: int = 2) -> str:
        r = self.r
        kind = r.random()
        if not depth or kind < 0.3:
            some = [self._element, self._element, self._constant]
            if self.names:
                some.append(lambda: r.choice(self.names))
            return r.choice(some)()
        if kind < 0.5 and self.subject != "element":
            return self._asked()
        if kind < 0.8:
            op = r.choice("+ - * / + - * // % **".split())
            return f"({self._number(depth - 1)} {op} {self._number(depth - 1)})"
        if kind < 0.88:
            return f"({self._number(depth - 1)} if {self._test(depth - 1)} else {self._number(0)})"
        return r.choice([
            "abs({0})", "min({0}, {1})", "max({0}, {1})", "float({0})", "int({0})", "round({0})",
            "math.sqrt(abs({0}))", "np.sqrt({0})", "math.floor({0})", "np.log({0})", "bool({0})",
            "round({0}, 1)", "np.float32({0})", "np.maximum({0}, {1})", "math.exp({0})", "len({1})",
        ]).format(self._number(depth - 1), self._element())  # fmt: skip

    def _test(self, depth: int = 1) -> str:
        r = self.r
        return r.choice([
            *["{0} {2} {1}"] * 5, "pd.isna({3})", "pd.notna({3})", "{3} == 'x'",
            "{3} in ('x', 'y')", "{3} is None", "{3} is pd.NA", "{0}", "not {0} > {1}",
            "{3} != {3}", "{3} is not None", "{0} > 0 and {1} > 0", "{0} > 1 or {1} < 0",
            "0 < {0} <= 2", "np.isnan({0})",
        ]).format(self._number(depth), self._number(0), r.choice("> < >= == !=".split()),
                  self._element())  # fmt: skip

    def _returned(self) -> str:
        r, number = self.r, self._number
        kind = r.random()
        if kind < 0.5:
            return number()
        if kind < 0.62:
            texts = [
                r.choice(["'low'", "'high'", "None", "1", "np.nan", "pd.NA", number(0)])
                for _ in "12"
            ]
            return f"{texts[0]} if {self._test()} else {texts[1]}"
        if kind < 0.68:
            return self._test()
        if self.subject == "element":
            return r.choice(
                ["str(x)", "None", "(x, 1)", "x", "np.nan", "'a'", "[x]", "pd.NA", "2**60"]
            )
        if kind < 0.82:
            return self._series()
        if kind < 0.92 and self.subject == "row":
            large = f"(2**{r.choice([53, 62, 63, 64])} if {self._test()} else {r.choice('01')})"
            parts = [
                r.choice([number(1), number(1), number(1), number(1), "'t'", "None", large])
                for _ in range(r.choice([1, 2, 3]))
            ]
            keys = r.choice([list("pqr"), [0, 1, 2], list("abc")])[: len(parts)]
            pairs = ", ".join(f"{k!r}: {x}" for k, x in zip(keys, parts, strict=True))
            listed = ", ".join(parts)
            return r.choice([f"pd.Series({{{pairs}}})", f"pd.Series([{listed}], index={keys})",
                             f"[{listed}]", f"({listed},)", f"{{{pairs}}}"])  # fmt: skip
        return r.choice(["None", "'a'", "s", "str(s.sum())", "np.nan", "s.sum() > 0", "s.index[0]"])

    def _statement(self, to: str) -> None:
        r, add = self.r, self.lines.append
        kind = r.random()
        name = f"n{len(self.names)}"
        if kind < 0.4:
            add(f"{to}{name} = {self._number()}")
            self.names.append(name)
        elif kind < 0.7:
            add(f"{to}if {self._test()}:")
            add(f"{to}    return {self._returned()}")
        elif kind < 0.8:
            add(f"{to}{name} = 0")
            again = (
                self._series()
                if self.subject in ("series", "row") and r.random() < 0.5
                else "range(3)"
            )
            add(f"{to}for v in {again}:")
            add(f"{to}    {name} += v * {self._number(0)}")
            self.names.append(name)
        elif kind < 0.9:
            add(f"{to}try:")
            add(f"{to}    {name} = {self._number()}")
            add(f"{to}except {r.choice(['Exception', 'ZeroDivisionError', 'TypeError'])}:")
            add(f"{to}    {name} = {self._constant()}")
            self.names.append(name)
        else:
            add(f"{to}if {self._test()}:")
            add(f"{to}    raise KeyError({self._constant()})")


# --- doors --------------------------------------------------------------------------------------


def _rows(r: random.Random, table: Any) -> tuple[str, Any, str]:
    how = r.choice([{}, {}, {}, {"result_type": "expand"}])
    engine = {} if how or r.random() < 0.4 else {"engine": xpapply}
    return "row", lambda f, **more: table.apply(f, axis=1, **how, **more), engine


def _elements(r: random.Random, table: Any) -> tuple[str, Any, str]:
    how = {"na_action": r.choice([None, "ignore"])}
    if r.random() < 0.2:
        return "element", lambda f, **more: table.map(f, **how), {}
    column = table.iloc[:, 0]
    engine = {} if r.random() < 0.5 else {"engine": xpapply}
    if r.random() < 0.1:
        return "element", lambda f, **more: column.apply(f), {}
    return "element", lambda f, **more: column.map(f, **how, **more), engine


def _windows(r: random.Random, table: Any) -> tuple[str, Any, str]:
    column = table.iloc[:, 0] if r.random() < 0.8 else table
    raw = r.random() < 0.2
    n = r.choice([1, 3, 5, 80])
    how: dict[str, Any] = {"min_periods": r.choice([None, 1, n]), "center": r.random() < 0.2}
    how["step"] = r.choice([None, None, 2])
    how["closed"] = r.choice([None, None, "both", "neither", "left"])
    made = r.choice([
        lambda: column.rolling(n, **how), lambda: column.expanding(r.choice([1, 3])),
        lambda: column.rolling("5min"),
    ])  # fmt: skip
    rolled = lambda f, **more: made().apply(f, raw=raw)  # noqa: E731
    seed = r.randrange(2**32)

    def run(f: Any, **more: Any) -> Any:
        r.seed(seed)
        return rolled(f)

    return "series", run, {}


def _groups(r: random.Random, table: Any) -> tuple[str, Any, str]:
    n = len(table)
    rng = np.random.default_rng(r.randrange(2**32))
    key: Any = rng.integers(0, r.choice([1, 4, 9]), n)
    if r.random() < 0.2:
        key = np.array(["u", "v", None], dtype=object)[rng.integers(0, 3, n)]
    elif r.random() < 0.1:
        key = pd.Categorical(np.array(["u", "v"])[rng.integers(0, 2, n)], ["w", "v", "u"])
    how = {"sort": r.random() < 0.8, "dropna": r.random() < 0.8, "observed": r.random() < 0.7}
    how["group_keys"] = r.random() < 0.8
    wide = r.random() < 0.4
    column = table.iloc[:, 0]
    method = r.choice(["agg", "apply", "transform", "filter"])
    keys = pd.Series(key, index=table.index) if r.random() < 0.3 else key
    if r.random() < 0.2:
        keys = [keys, rng.integers(0, 2, n)]
    if r.random() < 0.1:
        return "series", lambda f, **more: column.resample("10min").apply(f), {}

    def run(f: Any, **more: Any) -> Any:
        return getattr((table if wide else column).groupby(keys, **how), method)(f)

    frame = wide and method in ("apply", "filter")
    return ("frame" if frame else "series"), run, {}


_DOORS = (_rows, _rows, _elements, _windows, _groups, _groups)


# --- what is compared ---------------------------------------------------------------------------


def _outcome(run: Any) -> Any:
    found, shown = outcomes.outcome(run)
    ours = {x for x in shown if x[0] is xpapply.FallbackWarning}
    return found, shown - ours, ours


def _same(x: Any, y: Any) -> bool:
    """Whether two elements are alike: Python's and NumPy's numbers are, and floats to rounding."""
    plain = [v.item() if isinstance(v, (np.float64, np.int64, np.bool_)) else v for v in (x, y)]
    if type(plain[0]) is not type(plain[1]):
        return False
    if callable(x) or isinstance(x, (pd.Index, pd.api.extensions.ExtensionArray)):
        return repr(x) == repr(y)
    if isinstance(x, (list, tuple)):
        return len(x) == len(y) and all(map(_same, x, y))
    if isinstance(x, dict):
        return [*x] == [*y] and all(map(_same, x.values(), y.values()))
    if isinstance(x, (pd.Series, pd.DataFrame, np.ndarray)):
        return _differ(x, y) is None
    if x is y or x is pd.NaT:
        return True
    if isinstance(x, (float, complex, np.inexact)):
        rtol = 1e-6 if isinstance(x, np.float32) else 1e-10
        return bool(np.isclose(x, y, rtol=rtol, atol=1e-12, equal_nan=True))
    return bool(x == y)


def _differ(want: Any, got: Any) -> str | None:
    """What differs between two outcomes."""
    if type(want) is not type(got):
        return f"{type(want)} {type(got)}"
    if isinstance(want, pd.DataFrame):
        if not want.columns.identical(got.columns) or not want.index.identical(got.index):
            return f"labels: {want.columns} {got.columns}"
        for k in range(want.shape[1]):
            if (why := _differ(want.iloc[:, k], got.iloc[:, k])) is not None:
                return f"column {k}: {why}"
        return None
    if isinstance(want, np.ndarray):
        want, got = pd.Series(want.ravel()), pd.Series(got.ravel())
    if isinstance(want, pd.Series):
        if want.dtype != got.dtype or want.name != got.name or want.attrs != got.attrs:
            return f"{want.dtype} {want.name}, {got.dtype} {got.name}"
        if not want.index.identical(got.index):
            return f"labels: {want.index} {got.index}"
        if want.dtype == np.float32 or str(want.dtype) == "Float32":
            want, got = want.astype(float), got.astype(float)
            near = np.allclose(want, got, rtol=1e-6, atol=1e-6, equal_nan=True)
            return None if near else "values"
        bad = [k for k, (x, y) in enumerate(zip(want, got, strict=True)) if not _same(x, y)]
        return f"at {bad[0]}: {want.iloc[bad[0]]!r} {got.iloc[bad[0]]!r}" if bad else None
    return None if _same(want, got) else f"{want} {got}"


def _method(source: str) -> str:
    """The same with the function as a method of an object, which has a private name."""
    head, _, body = source.partition("def f(")
    lines = [f"    {line}" for line in f"def score(self, {body}".split("\n")]
    made = ["class Held:", "    def __init__(self):", "        self.__by = 1", "", *lines]
    return head + "\n".join(made) + "\n\n\nf = Held().score"


_HELD: dict[str, Any] = {
    "by a file": lambda source: source,
    "by a method": _method,
    "by one that hands on": lambda source: f"{source}\n\n\ng = f\nf = lambda row: g(row)",
}
"""What holds a function, and "by no file"."""


def _function(source: str, held: str) -> tuple[Any, list[Any]]:
    """The function of a source, and where it notes what it gets."""
    if held == "by no file":
        space: dict[str, Any] = {"__name__": "a_program"}
        exec(source, space)
        return space["f"], space["SEEN"]
    f = made(_HELD[held](source))
    return f, getattr(f, "__func__", f).__globals__["SEEN"]


def case(r: random.Random) -> str | None:
    """Draw a table, a function and a door, and compare two calls."""
    if pd is None:
        return None
    table = _table(r)
    door = r.choice(_DOORS)
    subject, run, engine = door(r, table)
    labels = [x[1] if isinstance(x, tuple) else x for x in table.columns]
    source = _Program(r, subject, labels).source
    held = r.choice(["by a file"] * 7 + [*_HELD, "by no file"])
    g, wanted = _function(source, held)
    want, warned, _ = _outcome(lambda: run(g))
    options = {} if engine or r.random() < 0.3 else {"engine": "cpu"}
    (f, seen), told = _function(source, held), set()
    for turn in range(2):
        with LIMITS.set(**_ALWAYS), contextlib.ExitStack() as stack:
            stack.enter_context(xpapply.options(**options))
            patched = None if engine else stack.enter_context(xpapply.patch())
            got, also, ours = _outcome(lambda: run(f, **engine))
        told |= {text for _, text in ours}
        for row in patched.report.rows if patched else ():
            told |= {*row.reasons} | ({"looped"} if "loop" in row.engines else set())
        why = _differ(want, got)
        if why is None and seen != wanted:
            why = f"it has seen {str(seen)[:200]}, not {str(wanted)[:200]}"
        if why is None and warned == also:
            if seen:
                break  # the next call would count on
            continue
        return (
            f"{source}\n\n{held}, {door.__name__} {engine and 'engine'} {options} turn {turn}: "
            f"{why}\n"
            f"{table.dtypes.to_dict()} {table.shape} {type(table.index).__name__}\n"
            f"want {str(want)[:300]} {warned}\ngot  {str(got)[:300]} {also}\n{str(told)[:300]}"
        )
    kind = "raises" if isinstance(want, tuple) else "; ".join(sorted(told)) or "at once"
    counts[f"{door.__name__}: {kind[:150]}"] += 1
    return None


def report() -> str:
    """What became of calls."""
    return "\n".join(f"{n:6} {why}" for why, n in counts.most_common(60))
