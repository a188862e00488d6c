"""Random Python functions of one slice, as source code, and arrays to run them on.

`Function.draw(r, ...)` writes a function with a `random.Random`, so Hypothesis (``st.randoms()``)
and a fixed seed can both steer it. Values are typed: shape, kind of number, and whether they are
exact. What depends on the order of rounding (products, powers, transcendental functions) is
never compared, rounded, sorted or branched on.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

THEMES = ("arithmetic", "reductions", "indexing", "branches", "python", "everything")
DTYPES = ("float64", "float64", "float32", "int64", "int32", "uint8", "bool")
SKIPPED: set[str] = set()
"""Names of productions that are left out, for looking past a known failure."""
OTHER_ORDER = frozenset(
    "cumulative keepdims percentiles matrix_reduction edge matrix_centred reduction percentile "
    "reduction_more reduction_where ufunc_reduce of_dynamic mask_count lookup".split()
)
"""Productions whose results are not those of NumPy to the last bit on a GPU."""
HEAD = "def f(v):"
NAMESPACE_LINE = "    np = xpapply.get_array_module(v)"


@dataclass(frozen=True)
class E:
    """An expression: its source and what is known of its value."""

    src: str
    form: str
    """"arr", "mat", "dyn" (an array of a length that depends on the data), "num", "list"."""
    shape: tuple[int, ...] = ()
    dt: str = "f"
    """"f", "i", "u" (uint8) or "b"."""
    exact: bool = True
    owned: bool = False
    """Whether it is an array that `f` may write into."""
    name: bool = False


@dataclass(frozen=True)
class Production:
    name: str
    form: str
    themes: frozenset[str]
    make: Any
    gpu: bool


TABLE: dict[str, list[Production]] = {}

_CORE = frozenset(THEMES)
_TAGS = {
    "a": {"arithmetic"},
    "r": {"reductions"},
    "i": {"indexing"},
    "b": {"branches"},
    "p": {"python"},
    "c": set(THEMES),
}


def rule(form: str, tags: str, gpu: bool = True) -> Any:
    """A production; `tags`: first letters of its themes, "c" for all of them."""
    themes = frozenset({"everything"}.union(*(_TAGS[t] for t in tags)))

    def add(make: Any) -> Any:
        TABLE.setdefault(form, []).append(Production(make.__name__, form, themes, make, gpu))
        return make

    return add


def _join(*dts: str) -> str:
    return "f" if "f" in dts else "i" if "i" in dts else "u" if "u" in dts else "b"


class Writer:
    """Writes one function."""

    def __init__(self, r: Any, length: int, dtype: str, theme: str, gpu: bool = False) -> None:
        self.r, self.length, self.theme, self.gpu = r, length, theme, gpu
        self.dtype = np.dtype(dtype)
        dt = "u" if dtype == "uint8" else self.dtype.kind
        self.vars = [E("v", "arr", (length,), dt, name=True)]
        self.lines = [HEAD]
        if gpu:
            self.lines.append(NAMESPACE_LINE)
        self.depth = 1
        self.count = 0
        self.level = 0
        self.inexact = False
        self.only_exact = 0
        self.used: list[str] = []
        self.helpers: list[tuple[str, str]] = []

    # --- choosing ---------------------------------------------------------------------

    def chance(self, p: float) -> bool:
        return self.r.randrange(100) < 100 * p

    def pick(self, *options: Any) -> Any:
        return options[self.r.randrange(len(options))]

    def produce(self, form: str, leaf: Any, *args: Any, exact: bool = False) -> E:
        exact = exact or bool(self.only_exact)
        if self.level >= 3 or self.chance(0.15 + 0.2 * self.level):
            return leaf(*args)
        known = [
            p
            for p in TABLE[form]
            if self.theme in p.themes and p.name not in SKIPPED and (p.gpu or not self.gpu)
        ]
        self.level += 1
        try:
            for _ in range(3):
                p = known[self.r.randrange(len(known))]
                inexact, used = self.inexact, len(self.used)
                self.used.append(p.name)
                if exact:
                    self.only_exact += 1
                made = p.make(self, *args)
                if exact:
                    self.only_exact -= 1
                if made is not None and self.gpu and p.name in OTHER_ORDER:
                    made = replace(made, exact=made.exact and made.dt != "f")
                if made is not None and (made.exact or not exact):
                    self.inexact = self.inexact or not made.exact
                    return made
                self.inexact = inexact
                del self.used[used:]
        finally:
            self.level -= 1
        return leaf(*args)

    def operator(self) -> str:
        known = "+ - * / // %".split()
        return self.pick(*known[: 4 if self.gpu else 6])  # CuPy's // and % round otherwise

    def listed(self, src: str) -> str:
        """A list as an argument: CuPy's functions want arrays."""
        return f"np.array({src})" if self.gpu else src

    # --- leaves -----------------------------------------------------------------------

    def const(self, dt: str = "f") -> str:
        if dt == "u":
            return str(self.pick(1, 2, 3, 0, 7, 100))
        if dt == "i" or self.chance(0.3):
            return str(self.pick(1, 2, 3, 0, -1, 5, -2, 10))
        return self.pick("0.5", "2.0", "0.0", "1.0", "-1.5", "0.1", "3.7", "-0.25", "1e-3")

    def consts(self, n: int, dt: str = "f") -> str:
        return "[" + ", ".join(self.const(dt) for _ in range(n)) + "]"

    def arr(self, n: int | None = None, exact: bool = False) -> E:
        n = self.some_length() if n is None else n
        return self.produce("arr", self.arr_leaf, n, exact=exact)

    def arr_leaf(self, n: int) -> E:
        ok = [
            x
            for x in self.vars
            if x.form == "arr" and x.shape == (n,) and (x.exact or not self.only_exact)
        ]
        if ok:
            return ok[-1 - self.r.randrange(len(ok))] if self.chance(0.7) else ok[0]
        v = self.vars[0]
        if n <= self.length:
            k = self.r.randrange(self.length - n + 1)
            src = self.pick(
                f"v[{k}:{k + n}]",
                f"v[{n - 1 - self.length}::-1]" if n < self.length else "v[::-1]",
                f"v[:{n}]",
            )
            return replace(v, src=src, shape=(n,), name=False)
        if self.chance(0.3):
            return E(f"np.arange({n})", "arr", (n,), "i", owned=True)
        before = self.r.randrange(n - self.length + 1)
        src = f"np.pad(v, ({before}, {n - self.length - before}))"
        return replace(v, src=src, shape=(n,), owned=True, name=False)

    def some_length(self) -> int:
        known = [x.shape[0] for x in self.vars if x.form == "arr"]
        if self.chance(0.8):
            return known[self.r.randrange(len(known))]
        return 1 + self.r.randrange(6)

    def numeric(self, n: int | None = None, exact: bool = False) -> E:
        """An array of numbers, not of truth values."""
        a = self.arr(n, exact)
        if a.dt != "b":
            return a
        src, dt = self.pick(
            (f"({a.src} * 1)", "i"), (f"{a.src}.astype(float)", "f"), (f"({a.src} + 0.5)", "f")
        )
        return replace(a, src=src, dt=dt, owned=True, name=False)

    def floats(self, n: int | None = None, exact: bool = False) -> E:
        a = self.arr(n, exact)
        if a.dt == "f":
            return a
        return replace(a, src=f"{self.par(a)}.astype(float)", dt="f", owned=True, name=False)

    def ints(self, n: int, exact: bool = True) -> E:
        a = self.arr(n, True)
        if a.dt in "iu":
            return a
        src = self.pick(
            f"({a.src} > {self.const()}).astype(int)",
            f"np.clip(np.nan_to_num({a.src}), -9, 9).astype(int)"
            if a.dt == "f"
            else f"({a.src} * 1)",
        )
        return E(src, "arr", (n,), "i", owned=True)

    def mask(self, n: int) -> E:
        return self.produce("mask", self.mask_leaf, n, exact=True)

    def mask_leaf(self, n: int) -> E:
        a = self.arr(n, True)
        if a.dt == "b" and self.chance(0.6):
            return a
        op = self.pick(">", "<", ">=", "<=", "==", "!=")
        return E(f"({a.src} {op} {self.const(a.dt)})", "arr", (n,), "b", owned=True)

    def num(self, exact: bool = False) -> E:
        return self.produce("num", self.num_leaf, exact=exact)

    def num_leaf(self) -> E:
        ok = [x for x in self.vars if x.form == "num" and (x.exact or not self.only_exact)]
        if ok and self.chance(0.6):
            return ok[-1 - self.r.randrange(len(ok))]
        k = self.r.randrange(self.length)
        return E(f"v[{self.pick(k, k - self.length)}]", "num", (), self.vars[0].dt)

    def number(self, exact: bool = False) -> E:
        """A number that is no truth value."""
        x = self.num(exact)
        if x.dt != "b":
            return x
        return replace(x, src=f"({x.src} * 1)", dt="i", name=False)

    def mat(self, shape: tuple[int, int], exact: bool = False) -> E:
        return self.produce("mat", self.mat_leaf, shape, exact=exact)

    def mat_leaf(self, shape: tuple[int, int]) -> E:
        p, q = shape
        if p * q == self.length:
            return replace(
                self.vars[0], src=f"v.reshape({p}, {q})", shape=shape, form="mat", name=False
            )
        a = self.numeric(p)
        b = self.numeric(q)
        return E(
            f"({a.src}[:, None] + {self.par(b)})",
            "mat",
            shape,
            _join(a.dt, b.dt),
            a.exact and b.exact,
            True,
        )

    def dyn(self) -> E:
        return self.produce("dyn", self.dyn_leaf, exact=True)

    def dyn_leaf(self) -> E:
        ok = [x for x in self.vars if x.form == "dyn"]
        if ok and self.chance(0.7):
            return ok[-1]
        n = self.some_length()
        a, m = self.arr(n, True), self.mask(n)
        return E(f"{self.par(a)}[{m.src}]", "dyn", (), a.dt, owned=True)

    def cond(self) -> str:
        return self.produce("cond", self.cond_leaf, exact=True).src

    def cond_leaf(self) -> E:
        x = self.num(True)
        op = self.pick(">", "<", ">=", "<=", "==", "!=")
        return E(f"{x.src} {op} {self.const(x.dt)}", "cond")

    def par(self, x: E) -> str:
        return x.src if x.name or (x.src.endswith(")") and _closed(x.src)) else f"({x.src})"

    # --- statements -------------------------------------------------------------------

    def line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    def name(self) -> str:
        self.count += 1
        return "abcdeghijklmnopqrstuwxyz"[self.count - 1] if self.count <= 23 else f"x{self.count}"

    def assign(self, e: E) -> E:
        name = self.name()
        self.line(f"{name} = {e.src}")
        found = replace(e, src=name, name=True)
        self.vars.append(found)
        return found

    def statement(self) -> None:
        known = [
            p
            for p in TABLE["statement"]
            if self.theme in p.themes and p.name not in SKIPPED and (p.gpu or not self.gpu)
        ]
        p = known[self.r.randrange(len(known))]
        self.used.append(p.name)
        p.make(self)

    def block(self, body: Any) -> None:
        """An indented block; variables made in it are forgotten."""
        before, lines = list(self.vars), len(self.lines)
        self.depth += 1
        body()
        if len(self.lines) == lines:
            self.line("pass")
        self.depth -= 1
        self.vars = before

    def result(self) -> None:
        """A return statement of the form that this function returns."""
        form, n = self.returns
        if form == "num":
            src = (
                self.num().src
                if self.chance(0.85)
                else self.pick(self.cond(), self.const(), f"[{self.num().src}]")
            )
        elif form == "arr":
            src = self.arr(n).src
        elif form == "mat":
            src = self.pick(
                lambda: self.mat(n).src,
                lambda: "[" + ", ".join(self.arr(n[1]).src for _ in range(n[0])) + "]",
            )()
        else:
            parts = ", ".join(
                self.const() if self.chance(0.1) and not self.gpu else self.num().src
                for _ in range(n)
            )
            src = self.pick(
                f"[{parts}]",
                f"({parts},)",
                f"np.array([{parts}])" if not self.gpu else f"[{parts}]",
            )
        self.line(f"return {src}")

    def write(self) -> str:
        form = self.pick("num", "arr", "list", "mat", "num", "arr")
        n: Any = self.some_length()
        if form == "mat":
            n = (1 + self.r.randrange(3), 1 + self.r.randrange(3))
        if form == "list":
            n = 1 + self.r.randrange(4)
        self.returns = form, n
        for _ in range(self.r.randrange(6 if self.theme in ("branches", "everything") else 5)):
            self.statement()
        self.result()
        return "\n".join(self.lines) + "\n"


def _closed(src: str) -> bool:
    """Whether the first parenthesis, or call, closes at the end only."""
    if not (src[0] == "(" or src.startswith("np.")):
        return False
    level = 0
    for k, c in enumerate(src):
        level += (c in "([") - (c in ")]")
        if not level and c in ")]":
            return k == len(src) - 1
    return False


# --- arrays: arithmetic ---------------------------------------------------------------


def _combine(w: Writer, op: str, a: E, b: E, form: str, shape: tuple) -> E | None:
    """``a op b`` of expressions that are exact, or that stay accurate."""
    exact = a.exact and b.exact
    if not exact and op not in ("*",):
        return None  # sums may cancel
    dt = _join(a.dt, b.dt)
    if op in ("//", "%") and not exact:
        return None
    if op == "/":
        dt = "f"
    if dt == "b":
        op, dt = w.pick(("&", "b"), ("|", "b"), ("^", "b"), ("+", "b"), ("*", "b"))
    return E(f"({a.src} {op} {b.src})", form, shape, dt, exact, form != "num")


@rule("arr", "c")
def binary(w: Writer, n: int) -> E | None:
    a, b = w.numeric(n), w.numeric(n)
    return _combine(w, w.operator(), a, b, "arr", (n,))


@rule("arr", "c")
def binary_constant(w: Writer, n: int) -> E | None:
    a = w.numeric(n)
    c = E(w.const(a.dt), "num")
    c = replace(c, dt="f" if "." in c.src or "e" in c.src else a.dt)
    a, b = w.pick((a, c), (c, a))
    return _combine(w, w.operator(), a, b, "arr", (n,))


@rule("arr", "c")
def binary_number(w: Writer, n: int) -> E | None:
    a, x = w.numeric(n), w.number()
    a, b = w.pick((a, x), (x, a))
    return _combine(w, w.operator(), a, b, "arr", (n,))


@rule("arr", "a")
def bits(w: Writer, n: int) -> E:
    a, b = w.ints(n), w.ints(n)
    op = w.pick("&", "|", "^")
    return E(f"({a.src} {op} {b.src})", "arr", (n,), _join(a.dt, b.dt), owned=True)


@rule("arr", "a")
def shifts(w: Writer, n: int) -> E:
    a = w.ints(n)
    op = w.pick("<<", ">>")
    return E(f"({a.src} {op} {w.pick(1, 2, 3)})", "arr", (n,), a.dt, owned=True)


@rule("arr", "a")
def unary(w: Writer, n: int) -> E:
    a = w.numeric(n)
    if a.dt in "iu" and w.chance(0.3):
        return replace(a, src=f"(~{a.src})", owned=True, name=False)
    return replace(
        a, src=w.pick(f"(-{a.src})", f"abs({a.src})", f"(+{a.src})"), owned=True, name=False
    )


@rule("arr", "a")
def power(w: Writer, n: int) -> E:
    a = w.numeric(n, True)
    c = w.pick("2", "3", "0.5", "-1", "2.0", "1")
    dt = "f" if "." in c else a.dt
    return E(f"({a.src} ** {c})", "arr", (n,), dt, a.dt != "f" and dt != "f", True)


@rule("arr", "a")
def ufunc(w: Writer, n: int) -> E:
    a = w.numeric(n, True)
    f = w.pick(
        "floor",
        "abs",
        "square",
        "sign",
        "ceil",
        "trunc",
        "rint",
        "negative",
        "fabs",
        "positive",
        "conjugate",
    )
    return replace(
        a, src=f"np.{f}({a.src})", owned=True, name=False, dt="f" if f in ("rint", "fabs") else a.dt
    )


@rule("arr", "a")
def ufunc_float(w: Writer, n: int) -> E:
    a = w.floats(n, True)
    f = w.pick(
        "sqrt({})",
        "sqrt(np.abs({}))",
        "reciprocal({})",
        "nan_to_num({})",
        *(() if w.gpu else ("spacing({})", "round({}, 2)", "round({})")),
    )
    return E(f"np.{f.format(a.src)}", "arr", (n,), "f", owned=True)


@rule("arr", "a")
def transcendental(w: Writer, n: int) -> E:
    a = w.floats(n, True)
    f = w.pick(
        "exp({})",
        "log(np.abs({}) + 1)",
        "sin({})",
        "tanh({})",
        "arctan({})",
        "log1p({})",
        "cos({})",
        "log({})",
        "exp2({})",
        "cbrt({})",
        "expm1({})",
        "deg2rad({})",
    )
    return E(f"np.{f.format(a.src)}", "arr", (n,), "f", False, True)


@rule("arr", "a")
def ufunc_two(w: Writer, n: int) -> E:
    a, b = w.numeric(n, True), w.numeric(n, True)
    f = w.pick(
        "maximum",
        "minimum",
        "fmax",
        "fmin",
        "subtract",
        "true_divide",
        "add",
        "multiply",
        *(() if w.gpu else ("remainder", "floor_divide")),
    )
    dt = "f" if f == "true_divide" else _join(a.dt, b.dt)
    return E(f"np.{f}({a.src}, {b.src})", "arr", (n,), dt, owned=True)


@rule("arr", "a", gpu=False)
def ufunc_two_floats(w: Writer, n: int) -> E:
    a, b = w.floats(n, True), w.floats(n, True)
    f = w.pick("copysign", "fmod", "hypot", "arctan2", "nextafter", "heaviside", "logaddexp")
    exact = f not in ("hypot", "arctan2", "logaddexp")
    return E(f"np.{f}({a.src}, {b.src})", "arr", (n,), "f", exact, True)


@rule("arr", "a", gpu=False)
def ufunc_where(w: Writer, n: int) -> E:
    a, b, m = w.floats(n, True), w.floats(n, True), w.mask(n)
    f = w.pick("divide", "add", "multiply", "maximum")
    out = w.pick(f"np.zeros({n})", f"np.ones({n})", f"np.full({n}, np.nan)")
    return E(f"np.{f}({a.src}, {b.src}, out={out}, where={m.src})", "arr", (n,), "f", owned=True)


@rule("arr", "a")
def where(w: Writer, n: int) -> E:
    m, a = w.mask(n), w.numeric(n)
    b = w.pick(lambda: w.numeric(n), lambda: E(w.const(a.dt), "num", (), a.dt), w.number)()
    return E(
        f"np.where({m.src}, {a.src}, {b.src})",
        "arr",
        (n,),
        _join(a.dt, b.dt),
        a.exact and b.exact,
        True,
    )


@rule("arr", "a")
def clip(w: Writer, n: int) -> E:
    a = w.numeric(n)
    lo, hi = w.pick(("0", "2"), ("1", "3"), ("0", "None"), ("None", "5"))
    src = w.pick(f"np.clip({a.src}, {lo}, {hi})", f"{w.par(a)}.clip({lo}, {hi})")
    return replace(a, src=src, owned=True, name=False)


@rule("arr", "a")
def astype(w: Writer, n: int) -> E:
    a = w.arr(n, True)
    if a.dt == "f":
        to = w.pick("float", "bool", "np.float32", "np.float64", "'f8'")
    else:
        to = w.pick("float", "int", "np.float32", "np.int64", "bool", "np.uint8")
    dt = {"bool": "b", "int": "i", "np.int64": "i", "np.uint8": "u"}.get(to, "f")
    if (dt == "f" and a.dt != "f") or dt == "f":
        return E(f"{w.par(a)}.astype({to})", "arr", (n,), "f", owned=True)
    return E(f"{w.par(a)}.astype({to})", "arr", (n,), dt, owned=True)


@rule("arr", "a")
def logical(w: Writer, n: int) -> E:
    return w.mask(n)


@rule("arr", "a", gpu=False)
def cumulative(w: Writer, n: int) -> E:
    a = w.numeric(n, True)
    src = w.pick(
        f"np.cumsum({a.src})",
        f"{w.par(a)}.cumsum()",
        f"np.cumprod({a.src})",
        f"np.maximum.accumulate({a.src})",
        f"np.add.accumulate({a.src})",
        f"np.nancumsum({a.src})",
        f"np.minimum.accumulate({a.src})",
    )
    dt = "i" if a.dt == "u" and ("cum" in src or "add" in src) else a.dt
    return E(src, "arr", (n,), dt, owned=True)


@rule("arr", "a")
def constant_array(w: Writer, n: int) -> E:
    src, dt = w.pick(
        (f"np.arange({n})", "i"),
        (f"np.ones({n})", "f"),
        (f"np.zeros({n})", "f"),
        (f"np.linspace(0, 1, {n})", "f"),
        (f"np.array({w.consts(n)})", "f"),
        (f"np.full({n}, 2)", "i"),
        (f"np.arange({n}) * 0.5", "f"),
    )
    if src.endswith("0.5"):
        src = f"({src})"
    return E(src, "arr", (n,), dt, owned=True)


@rule("arr", "a")
def like(w: Writer, n: int) -> E:
    a = w.numeric(n, True)
    src = w.pick(
        f"np.zeros_like({a.src})",
        f"np.ones_like({a.src})",
        f"np.full_like({a.src}, {w.const(a.dt)})",
        f"{w.par(a)}.copy()",
    )
    return replace(a, src=src, owned=True, name=False)


@rule("arr", "a")
def products(w: Writer, n: int) -> E:
    if w.only_exact:
        return w.arr_leaf(n)
    k = 1 + w.r.randrange(4)
    kind = w.pick("convolve", "correlate", "matmul", "matmul_left", "dot")
    if kind in ("convolve", "correlate"):
        a, c = w.floats(max(n, k), True), w.consts(k)
        m = a.shape[0]
        modes = {m: "same", m + k - 1: "full", m - k + 1: "valid"}
        if n not in modes:
            return w.arr_leaf(n)
        return E(
            f"np.{kind}({a.src}, np.array({c}), mode={modes[n]!r})", "arr", (n,), "f", False, True
        )
    a = w.floats(k, True)
    if kind == "matmul":
        c = "[" + ", ".join(w.consts(k) for _ in range(n)) + "]"
        return E(f"(np.array({c}) @ {w.par(a)})", "arr", (n,), "f", False, True)
    c = "[" + ", ".join(w.consts(n) for _ in range(k)) + "]"
    if kind == "dot":
        return E(f"np.dot({a.src}, np.array({c}))", "arr", (n,), "f", False, True)
    return E(f"({w.par(a)} @ np.array({c}))", "arr", (n,), "f", False, True)


# --- arrays: reductions and order -----------------------------------------------------


@rule("arr", "r")
def sort(w: Writer, n: int) -> E:
    a = w.arr(n, True)
    src = w.pick(f"np.sort({a.src})", f"np.sort({a.src})[::-1]", f"np.sort({a.src}, kind='stable')")
    return replace(a, src=src, owned=False, name=False)


@rule("arr", "r")
def argsort(w: Writer, n: int) -> E:
    a = w.arr(n, True)
    src = w.pick(
        f"np.argsort({a.src}, kind='stable')",
        f"{w.par(a)}.argsort(kind='stable')",
        f"np.argsort(np.argsort({a.src}, kind='stable'), kind='stable')",
    )
    return E(src, "arr", (n,), "i", owned=True)


@rule("arr", "r")
def difference(w: Writer, n: int) -> E:
    a = w.numeric(n + 1, True)
    return E(f"np.diff({a.src})", "arr", (n,), a.dt, owned=True)


@rule("arr", "r")
def keepdims(w: Writer, n: int) -> E:
    a = w.numeric(w.some_length(), True)
    if n != 1:
        b = w.numeric(n, True)
        f = w.pick("sum", "max", "mean")
        return E(
            f"({b.src} - {w.par(b)}.{f}(keepdims=True))",
            "arr",
            (n,),
            "f" if f == "mean" else _join(b.dt, "i" if f == "sum" else b.dt),
            owned=True,
        )
    f = w.pick("sum", "max", "mean", "std")
    return E(
        f"np.{f}({a.src}, keepdims=True)",
        "arr",
        (1,),
        "f" if f in ("mean", "std") else a.dt,
        owned=True,
    )


@rule("arr", "r", gpu=False)
def percentiles(w: Writer, n: int) -> E:
    a = w.numeric(w.some_length(), True)
    q = ", ".join(str(w.pick(0, 25, 50, 90, 100, 33.3)) for _ in range(n))
    how = w.pick("", "", ", method='lower'", ", method='nearest'", ", method='midpoint'")
    return E(
        f"np.{w.pick('percentile', 'nanpercentile')}({a.src}, [{q}]{how})",
        "arr",
        (n,),
        "f",
        owned=True,
    )


@rule("arr", "r")
def histogram(w: Writer, n: int) -> E:
    a = w.floats(w.some_length(), True)
    src = w.pick(
        f"np.histogram({a.src}, bins={n}, range=(-3, 3))[0]",
        f"np.histogram({a.src}, bins={w.listed(str(list(range(-2, n - 1))))})[0]",
    )
    return E(src, "arr", (n,), "i", owned=True)


@rule("arr", "r")
def bincount(w: Writer, n: int) -> E:
    m = w.some_length()
    if n == 1:
        a = E(f"np.clip({w.ints(m).src}, 0, 0)", "arr")
    else:
        a = w.pick(
            lambda: E(f"{w.par(w.mask(m))}.astype(int)", "arr"),
            lambda: E(f"np.clip({w.ints(m).src}, 0, {n - 1})", "arr"),
        )()
    return E(f"np.bincount({a.src}, minlength={n})", "arr", (n,), "i", owned=True)


@rule("arr", "r")
def lookup(w: Writer, n: int) -> E:
    a = w.floats(n, True)
    kind = w.r.randrange(4)
    if kind == 0:
        return E(
            f"np.digitize({a.src}, {w.listed('[-1.0, 0.0, 0.5, 2.0]')})",
            "arr",
            (n,),
            "i",
            owned=True,
        )
    if kind == 1:
        side = w.pick("left", "right")
        return E(
            f"np.searchsorted({w.listed('[-1.0, 0.0, 1.0, 3.0]')}, {a.src}, side={side!r})",
            "arr",
            (n,),
            "i",
            owned=True,
        )
    if kind == 2:
        x, y = w.listed("[-1.0, 0.0, 2.0]"), w.listed("[3.0, 1.0, 7.0]")
        return E(f"np.interp({a.src}, {x}, {y})", "arr", (n,), "f", True, True)
    b = w.floats(w.some_length(), True)
    return E(f"np.searchsorted(np.sort({b.src}), {a.src})", "arr", (n,), "i", owned=True)


@rule("arr", "r")
def interp_table(w: Writer, n: int) -> E:
    y = w.floats(w.length if w.length > 1 else 2, True)
    x = ", ".join(map(str, sorted(w.pick(-1, 0, 0.5, 1.5, 3, 10) for _ in range(n))))
    return E(
        f"np.interp({w.listed(f'[{x}]')}, np.arange({y.shape[0]}), {y.src})",
        "arr",
        (n,),
        "f",
        False,
        True,
    )


@rule("arr", "r")
def matrix_reduction(w: Writer, n: int) -> E:
    k = 1 + w.r.randrange(3)
    f = w.pick(
        "sum", "max", "mean", "argmax", "min", "std", "any", "prod", "cumsum", "var", "median"
    )
    axis = w.pick(0, 1, -1)
    m = w.mat((k, n) if axis == 0 else (n, k), True)
    if f == "cumsum":
        tail = "[-1]" if axis == 0 else "[:, -1]"
        return E(
            f"{w.par(m)}.cumsum(axis={axis}){tail}", "arr", (n,), "i" if m.dt in "ub" else m.dt
        )
    dt = {"mean": "f", "std": "f", "var": "f", "median": "f", "argmax": "i", "any": "b"}.get(f)
    if dt is None:
        dt = m.dt if f in ("max", "min") else "i" if m.dt in "ub" else m.dt
    call = f"np.{f}({m.src}, axis={axis})"
    if f != "median" and w.chance(0.5):
        call = f"{w.par(m)}.{f}(axis={axis})"
    return E(call, "arr", (n,), dt, owned=True)


@rule("arr", "ri")
def concatenate(w: Writer, n: int) -> E | None:
    if n < 2:
        return None
    k = 1 + w.r.randrange(n - 1)
    a, b = w.numeric(k), w.numeric(n - k)
    src = w.pick(
        f"np.concatenate([{a.src}, {b.src}])",
        f"np.hstack(({a.src}, {b.src}))",
        f"np.append({a.src}, {b.src})",
        f"np.r_[{a.src}, {b.src}]" if False else f"np.concatenate(({a.src}, {b.src}), axis=0)",
    )
    return E(src, "arr", (n,), _join(a.dt, b.dt), a.exact and b.exact, True)


@rule("arr", "rip")
def array_of_numbers(w: Writer, n: int) -> E | None:
    if n > 4:
        return None
    parts = [w.num() for _ in range(n)]
    src = "np.array([" + ", ".join(x.src for x in parts) + "])"
    return E(src, "arr", (n,), _join(*(x.dt for x in parts)), all(x.exact for x in parts), True)


# --- arrays: positions ----------------------------------------------------------------


@rule("arr", "i")
def rolled(w: Writer, n: int) -> E:
    a = w.arr(n)
    src = w.pick(
        f"np.roll({a.src}, {w.pick(1, -1, 2, 0)})",
        f"np.flip({a.src})",
        f"{w.par(a)}[::-1]",
        f"{w.par(a)}.ravel()",
        f"np.atleast_1d({a.src})",
    )
    return replace(a, src=src, owned=False, name=False)


@rule("arr", "i")
def padded(w: Writer, n: int) -> E | None:
    if n < 2:
        return None
    a = w.arr(n - 1)
    before = w.r.randrange(2)
    mode = w.pick("", ", mode='edge'", ", mode='wrap'", ", constant_values=1")
    return replace(
        a,
        src=f"np.pad({a.src}, ({before}, {1 - before}){mode})",
        shape=(n,),
        owned=True,
        name=False,
    )


@rule("arr", "i")
def sliced(w: Writer, n: int) -> E:
    step = w.pick(1, 2, -1, -2)
    m = n if abs(step) == 1 else 2 * n
    a = w.arr(m)
    if step == 1:
        a = w.arr(n + 1)
        src = w.pick(f"{w.par(a)}[1:]", f"{w.par(a)}[:-1]", f"{w.par(a)}[-{n}:]")
    else:
        src = f"{w.par(a)}[::{step}]"
    return replace(a, src=src, shape=(n,), owned=False, name=False)


@rule("arr", "i")
def fancy(w: Writer, n: int) -> E:
    m = w.some_length()
    a = w.arr(m)
    at = ", ".join(str(w.r.randrange(m) - w.pick(0, m)) for _ in range(n))
    src = w.pick(
        f"{w.par(a)}[[{at}]]",
        f"np.take({a.src}, {w.listed(f'[{at}]')})",
        f"{w.par(a)}[np.array([{at}])]",
    )
    return replace(a, src=src, shape=(n,), owned=True, name=False)


@rule("arr", "i")
def gathered(w: Writer, n: int) -> E:
    a = w.arr(n)
    b = w.arr(n, True)
    src = w.pick(
        f"{w.par(a)}[np.argsort({b.src}, kind='stable')]",
        f"np.take_along_axis({a.src}, np.argsort({b.src}, kind='stable'), 0)"
        if not w.gpu
        else f"{w.par(a)}[np.argsort({b.src}, kind='stable')]",
        f"np.roll({a.src}, 1)[np.argsort({b.src}, kind='stable')[::-1]]",
    )
    return replace(a, src=src, owned=True, name=False)


@rule("arr", "i")
def table(w: Writer, n: int) -> E:
    """A constant table, indexed by what depends on the slice."""
    i = w.ints(n)
    k = 2 + w.r.randrange(3)
    return E(f"np.array({w.consts(k)})[{i.src} % {k}]", "arr", (n,), "f", owned=True)


@rule("arr", "i")
def matrix_part(w: Writer, n: int) -> E:
    k = 1 + w.r.randrange(3)
    m = w.mat((k, n))
    j = w.r.randrange(k)
    src = w.pick(f"{w.par(m)}[{j}]", f"{w.par(m)}.T[:, {j}]", f"{w.par(m)}[{j - k}, :]")
    return E(src, "arr", (n,), m.dt, m.exact)


@rule("arr", "i")
def matrix_flat(w: Writer, n: int) -> E:
    k = max(k for k in (1, 2, 3) if n % k == 0)
    m = w.mat((k, n // k))
    src = w.pick(f"{w.par(m)}.ravel()", f"{w.par(m)}.reshape(-1)", f"{w.par(m)}.T.flatten()")
    return E(src, "arr", (n,), m.dt, m.exact)


@rule("arr", "i")
def repeated(w: Writer, n: int) -> E | None:
    if n % 2:
        return None
    a = w.arr(n // 2)
    return replace(
        a,
        src=w.pick(f"np.repeat({a.src}, 2)", f"np.tile({a.src}, 2)"),
        shape=(n,),
        owned=True,
        name=False,
    )


@rule("arr", "i")
def edge(w: Writer, n: int) -> E:
    a = w.floats(n, True)
    if n < 2:
        return a
    return E(
        w.pick(f"np.gradient({a.src})", f"np.ediff1d({a.src}, to_begin=0.0)"),
        "arr",
        (n,),
        "f",
        True,
        True,
    )


@rule("arr", "p", gpu=False)
def comprehension(w: Writer, n: int) -> E:
    a = w.numeric(n, True)
    body = w.pick(
        f"x * {w.const('u')}",
        "abs(x)",
        "x - 1" if a.dt != "u" else "x + 1",
        "max(x, 0)",
        "x if x > 1 else -x" if a.dt != "u" else "x if x > 1 else 0",
        "float(x)",
        "x > 0",
    )
    dt = "b" if body == "x > 0" else "f" if body == "float(x)" else a.dt
    return E(f"np.array([{body} for x in {a.src}])", "arr", (n,), dt, owned=True)


@rule("arr", "p", gpu=False)
def sorted_list(w: Writer, n: int) -> E:
    a = w.arr(n, True)
    src = w.pick(
        f"np.array(sorted({a.src}))",
        f"np.array(list({a.src}))",
        f"np.array({w.par(a)}.tolist())",
        f"np.asarray(sorted({a.src}, reverse=True))",
        f"np.array([x for x in reversed({a.src})])",
    )
    return replace(a, src=src, owned=True, name=False, dt="i" if a.dt == "u" else a.dt)


@rule("arr", "p", gpu=False)
def zipped(w: Writer, n: int) -> E:
    a, b = w.numeric(n, True), w.numeric(n, True)
    body = w.pick("x + y", "max(x, y)", "x * y", "x if x > y else y", "min(x, y)")
    return E(
        f"np.array([{body} for x, y in zip({a.src}, {b.src})])",
        "arr",
        (n,),
        _join(a.dt, b.dt),
        owned=True,
    )


@rule("arr", "p")
def helper_call(w: Writer, n: int) -> E:
    a = w.floats(n, True)
    if not w.helpers or w.depth > 1:
        return a
    name, kind = w.helpers[w.r.randrange(len(w.helpers))]
    return E(f"{name}({a.src})", "arr", (n,), "f", True, True) if kind == "arr" else a


# --- masks ----------------------------------------------------------------------------


@rule("mask", "c")
def compared(w: Writer, n: int) -> E:
    return w.mask_leaf(n)


@rule("mask", "c")
def compared_arrays(w: Writer, n: int) -> E:
    a, b = w.numeric(n, True), w.pick(lambda: w.numeric(n, True), lambda: w.number(True))()
    op = w.pick(">", "<", "==", "<=", "!=", ">=")
    return E(f"({a.src} {op} {b.src})", "arr", (n,), "b", owned=True)


@rule("mask", "c")
def combined(w: Writer, n: int) -> E:
    a, b = w.mask(n), w.mask(n)
    src = w.pick(
        f"({a.src} & {b.src})",
        f"({a.src} | {b.src})",
        f"({a.src} ^ {b.src})",
        f"(~{a.src})",
        f"np.logical_and({a.src}, {b.src})",
        f"np.logical_not({b.src})",
    )
    return E(src, "arr", (n,), "b", owned=True)


@rule("mask", "ai")
def tested(w: Writer, n: int) -> E:
    a = w.floats(n, True)
    f = w.pick("isnan", "isfinite", "isinf", "signbit")
    return E(f"np.{f}({a.src})", "arr", (n,), "b", owned=True)


@rule("mask", "i")
def member(w: Writer, n: int) -> E:
    a = w.numeric(n, True)
    return E(f"np.isin({a.src}, {w.listed('[0, 1, 3]')})", "arr", (n,), "b", owned=True)


# --- matrices -------------------------------------------------------------------------


@rule("mat", "c")
def outer(w: Writer, shape: tuple) -> E:
    a, b = w.numeric(shape[0], True), w.numeric(shape[1], True)
    src = w.pick(
        f"np.outer({a.src}, {b.src})",
        f"({w.par(a)}[:, None] - {w.par(b)})",
        f"np.subtract.outer({a.src}, {b.src})",
        f"np.maximum({w.par(a)}[:, None], {b.src})",
        f"({w.par(a)}.reshape(-1, 1) * {w.par(b)}[None, :])",
    )
    return E(src, "mat", shape, _join(a.dt, b.dt), owned=True)


@rule("mat", "c")
def stacked(w: Writer, shape: tuple) -> E:
    rows = [w.numeric(shape[1]) for _ in range(shape[0])]
    listed = ", ".join(x.src for x in rows)
    src = w.pick(
        f"np.stack([{listed}])",
        f"np.vstack([{listed}])",
        f"np.vstack(({listed},))" if w.gpu else f"np.array([{listed}])",
    )
    return E(src, "mat", shape, _join(*(x.dt for x in rows)), all(x.exact for x in rows), True)


@rule("mat", "c")
def transposed(w: Writer, shape: tuple) -> E:
    m = w.mat(shape[::-1])
    src = w.pick(f"{w.par(m)}.T", f"np.transpose({m.src})", f"{w.par(m)}.swapaxes(0, 1)")
    return E(src, "mat", shape, m.dt, m.exact)


@rule("mat", "c")
def reshaped(w: Writer, shape: tuple) -> E:
    a = w.arr(shape[0] * shape[1])
    src = w.pick(
        f"{w.par(a)}.reshape({shape[0]}, {shape[1]})",
        f"np.reshape({a.src}, {shape})",
        f"{w.par(a)}.reshape({shape[0]}, -1)",
    )
    return E(src, "mat", shape, a.dt, a.exact)


@rule("mat", "ar")
def matrix_sorted(w: Writer, shape: tuple) -> E:
    m = w.mat(shape, True)
    axis = w.pick(0, 1, -1)
    src = w.pick(
        f"np.sort({m.src}, axis={axis})",
        f"np.flip({m.src}, axis={axis})",
        f"np.roll({m.src}, 1, axis={axis})",
        f"np.flipud({m.src})",
        f"np.maximum.accumulate({m.src}, axis={axis})",
    )
    return E(src, "mat", shape, m.dt, owned=True)


@rule("mat", "r")
def matrix_centred(w: Writer, shape: tuple) -> E:
    m = w.mat(shape, True)
    dt = m.dt
    src = m.src if dt != "b" else f"({m.src} * 1)"
    axis = w.pick(0, 1)
    return E(
        f"({src} - {w.par(E(src, 'mat'))}.mean(axis={axis}, keepdims=True))",
        "mat",
        shape,
        "f",
        owned=True,
    )


# --- numbers --------------------------------------------------------------------------


@rule("num", "c")
def reduction(w: Writer) -> E:
    a = w.arr(None, True)
    f = w.pick(
        "sum",
        "mean",
        "max",
        "min",
        "std",
        "var",
        "prod",
        "argmax",
        "argmin",
        "any",
        "all",
        "ptp",
        "median",
    )
    dt = {
        "mean": "f",
        "std": "f",
        "var": "f",
        "median": "f",
        "argmax": "i",
        "argmin": "i",
        "any": "b",
        "all": "b",
    }.get(f)
    if f in ("ptp", "median") and a.dt == "b":
        f = "sum"
    if dt is None:
        dt = "i" if f in ("sum", "prod") and a.dt in "ub" else a.dt
    method = f not in ("ptp", "median") and w.chance(0.5)
    extra = ""
    if f in ("std", "var"):
        extra = w.pick("", "ddof=1", "ddof=1, dtype=float" if a.dt != "f" else "dtype=np.float64")
    elif f in ("sum", "mean", "prod"):
        extra = w.pick("", "", "axis=0", "dtype=np.float64", "axis=-1")
        if "float64" in extra:
            dt = "f"
    elif f in ("max", "min"):
        extra = w.pick("", "", "axis=0", "" if w.gpu else "initial=0")
    if method:
        return E(f"{w.par(a)}.{f}({extra})", "num", (), dt)
    return E(f"np.{f}({a.src}{', ' if extra else ''}{extra})", "num", (), dt)


@rule("num", "r")
def reduction_more(w: Writer) -> E:
    a = w.floats(None, True)
    f = w.pick(
        "nansum",
        "nanmax",
        "nanmin",
        "nanmean",
        "nanstd",
        "count_nonzero",
        "nanmedian",
        "nanargmax",
        "average",
        "amax",
    )
    dt = "i" if f in ("count_nonzero", "nanargmax") else "f"
    return E(f"np.{f}({a.src})", "num", (), dt)


@rule("num", "r", gpu=False)
def reduction_where(w: Writer) -> E:
    n = w.some_length()
    a, m = w.numeric(n, True), w.mask(n)
    f, extra = w.pick(("sum", ""), ("mean", ""), ("max", ", initial=0"), ("min", ", initial=9"))
    return E(
        f"np.{f}({a.src}, where={m.src}{extra})",
        "num",
        (),
        "f" if f == "mean" else "i" if a.dt == "u" and f == "sum" else a.dt,
    )


@rule("num", "r", gpu=False)
def ufunc_reduce(w: Writer) -> E:
    a = w.numeric(None, True)
    f = w.pick("add", "multiply", "maximum", "minimum", "fmax", "logical_or", "logical_and")
    dt = "b" if "logical" in f else a.dt
    return E(f"np.{f}.reduce({a.src})", "num", (), dt)


@rule("num", "r")
def percentile(w: Writer) -> E:
    a = w.numeric(None, True)
    src = w.pick(
        f"np.percentile({a.src}, {w.pick(50, 25, 90, 0)})",
        f"np.quantile({a.src}, {w.pick(0.5, 0.1, 1)})",
        f"np.nanquantile({a.src}, 0.75)",
    )
    return E(src, "num", (), "f")


@rule("num", "r")
def unique_number(w: Writer) -> E:
    a = w.arr(None, True)
    src, dt = w.pick(
        (f"len(np.unique({a.src}))", "i"),
        (f"np.unique({a.src}).size", "i"),
        (f"np.unique({a.src}, return_counts=True)[1].max()", "i"),
        (f"np.unique({a.src})[0]", a.dt),
        (f"np.unique({a.src})[-1]", a.dt),
    )
    return E(src, "num", (), dt)


@rule("num", "r")
def partitioned(w: Writer) -> E:
    a = w.numeric(None, True)
    n = a.shape[0]
    k = w.r.randrange(n)
    return E(
        w.pick(
            f"np.partition({a.src}, {k})[{k}]",
            f"np.sort({a.src})[{k}]",
            f"np.sort({a.src})[-{k + 1}]",
        ),
        "num",
        (),
        a.dt,
    )


@rule("num", "r")
def product_sum(w: Writer) -> E:
    n = w.some_length()
    a, b = w.floats(n, True), w.floats(n, True)
    src = w.pick(
        f"np.dot({a.src}, {b.src})",
        f"({w.par(a)} @ {w.par(b)})",
        f"{w.par(a)}.dot({b.src})",
        f"np.linalg.norm({a.src})",
        f"np.inner({a.src}, {b.src})",
        f"np.vdot({a.src}, {b.src})",
        f"np.trapezoid({a.src})",
    )
    return E(src, "num", (), "f", False)


@rule("num", "i")
def element(w: Writer) -> E:
    a = w.arr()
    n = a.shape[0]
    k = w.r.randrange(n)
    return E(f"{w.par(a)}[{w.pick(k, k - n)}]", "num", (), a.dt, a.exact)


@rule("num", "i")
def matrix_element(w: Writer) -> E:
    m = w.mat((2, 1 + w.r.randrange(3)))
    k = w.r.randrange(m.shape[1])
    return E(w.pick(f"{w.par(m)}[1, {k}]", f"{w.par(m)}[-1][{k}]"), "num", (), m.dt, m.exact)


@rule("num", "i")
def traced_index(w: Writer) -> E:
    a = w.arr()
    n = a.shape[0]
    b = w.arr(n, True)
    m = w.mask(n)
    at = w.pick(
        f"np.argmax({b.src})",
        f"{w.par(b)}.argmin()",
        f"int(np.argmax({b.src}))",
        f"{m.src}.sum() % {n}",
        f"np.argsort({b.src}, kind='stable')[0]",
        f"-np.argmax({b.src})",
        f"np.argmax({m.src})",
        f"int({m.src}.sum()) - 1",
    )
    return E(f"{w.par(a)}[{at}]", "num", (), a.dt, a.exact)


@rule("num", "i")
def of_dynamic(w: Writer) -> E:
    d = w.dyn()
    src, dt = w.pick(
        (f"{w.par(d)}.sum()", d.dt),
        (f"len({d.src})", "i"),
        (f"{w.par(d)}.size", "i"),
        (f"{w.par(d)}.mean()", "f"),
        (f"np.sum({d.src})" if w.gpu else f"np.max({d.src}, initial=0)", d.dt),
        (f"({d.src}).max() if len({d.src}) else 0", d.dt),
        (f"{w.par(d)}.max()", d.dt),
    )
    if " if " in src:
        src = f"({src})"
    return E(src, "num", (), "i" if dt in "ub" else dt)


@rule("num", "i")
def mask_count(w: Writer) -> E:
    m = w.mask(w.some_length())
    src, dt = w.pick(
        (f"{m.src}.sum()", "i"),
        (f"np.count_nonzero({m.src})", "i"),
        (f"{m.src}.mean()", "f"),
        (f"len(np.nonzero({m.src})[0])", "i"),
        (f"len(np.flatnonzero({m.src}))", "i"),
        (f"np.where({m.src})[0].size", "i"),
    )
    return E(src, "num", (), dt)


@rule("num", "i")
def first_where(w: Writer) -> E:
    m = w.mask(w.some_length())
    src = w.pick(
        f"(np.nonzero({m.src})[0][0] if {m.src}.any() else -1)",
        f"np.flatnonzero({m.src})[-1:].sum()",
        f"next((i for i, x in enumerate({m.src}) if x), -1)"
        if not w.gpu
        else f"(np.where({m.src})[0][0] if {m.src}.any() else -1)",
        f"np.nonzero({m.src})[0][0]",
    )
    return E(src, "num", (), "i")


@rule("num", "c")
def arithmetic(w: Writer) -> E | None:
    a, b = w.number(), w.number()
    return _combine(w, w.operator(), a, b, "num", ())


@rule("num", "c")
def arithmetic_constant(w: Writer) -> E | None:
    a = w.number()
    c = E(w.const(a.dt), "num")
    c = replace(c, dt="f" if "." in c.src or "e" in c.src else a.dt)
    a, b = w.pick((a, c), (c, a))
    return _combine(w, w.operator(), a, b, "num", ())


@rule("num", "bp")
def ternary(w: Writer) -> E:
    a, c = w.num(), w.cond()
    b = w.pick(w.num, lambda: E(w.const(a.dt), "num", (), a.dt))()
    return E(f"({a.src} if {c} else {b.src})", "num", (), _join(a.dt, b.dt), a.exact and b.exact)


@rule("num", "ap")
def number_function(w: Writer) -> E:
    x = w.number(True)
    src, dt = w.pick(
        (f"abs({x.src})", x.dt),
        (f"(-{w.par(x)})", x.dt),
        (f"np.floor({x.src})", x.dt),
        (f"np.sqrt({x.src})", "f"),
        (f"np.abs({x.src})", x.dt),
        (f"np.maximum({x.src}, 0)", x.dt),
        (f"np.sign({x.src})", x.dt),
        (f"np.where({x.src} > 0, {x.src}, 0)", x.dt),
        (f"np.clip({x.src}, 0, 2)", x.dt),
        (f"(0.5 * {x.src})" if w.gpu else f"np.float64({x.src})", "f"),
    )
    return E(src, "num", (), dt)


@rule("num", "a")
def number_transcendental(w: Writer) -> E:
    x = w.number(True)
    return E(
        w.pick(
            f"np.exp({x.src})",
            f"np.log({x.src})",
            f"np.sin({x.src})",
            f"({x.src} ** 2)",
            f"np.tanh({x.src})",
            f"(abs({x.src}) ** 0.5)",
        ),
        "num",
        (),
        "f",
        False,
    )


@rule("num", "p", gpu=False)
def converted(w: Writer) -> E:
    x = w.num(True)
    src, dt = w.pick(
        (f"float({x.src})", "f"),
        (f"int({x.src})", "i"),
        (f"bool({x.src})", "b"),
        (f"round({x.src})", "i"),
        (f"round(float({x.src}), 1)", "f"),
        (f"round({x.src}, 2)", "f"),
        (f"{w.par(x)}.item()", x.dt),
        (f"float({x.src}).is_integer()", "b"),
    )
    if (x.dt == "b" and "round(" in src) or (".item" in src and not x.src.startswith("v[")):
        return E(f"float({x.src})", "num", (), "f")
    return E(src, "num", (), dt)


@rule("num", "p", gpu=False)
def builtin(w: Writer) -> E:
    a = w.arr(None, True)
    src, dt = w.pick(
        (f"max({a.src})", a.dt),
        (f"min({a.src})", a.dt),
        (f"sum({a.src})", a.dt),
        (f"len({a.src})", "i"),
        (f"any({a.src})", "b"),
        (f"all({a.src})", "b"),
        (f"sorted({a.src})[0]", a.dt),
        (f"sum({w.par(a)}.tolist())", a.dt),
        (f"max({w.par(a)}.tolist())", a.dt),
        (f"sorted({a.src})[-1]", a.dt),
        (f"list({a.src})[-1]", a.dt),
        (f"sum(list({a.src}))", a.dt),
        (f"max({a.src}, default=0)", a.dt),
        (f"min({a.src}, key=abs)", a.dt),
    )
    if a.dt == "b":
        dt = "b" if dt == "b" else "i"
        src = f"({src} * 1)"
    return E(src, "num", (), "i" if dt in "ub" and "sum(" in src else dt)


@rule("num", "p", gpu=False)
def builtin_numbers(w: Writer) -> E:
    a, b = w.number(True), w.number(True)
    src = w.pick(
        f"max({a.src}, {b.src})",
        f"min({a.src}, {b.src}, 2)",
        f"sum([{a.src}, {b.src}])",
        f"max([{a.src}, {b.src}, 0.5])",
        f"divmod({a.src}, {b.src})[1]",
        f"sorted([{a.src}, {b.src}])[0]",
        f"abs({a.src} - {b.src})",
        f"max(({a.src}, {b.src}))",
    )
    return E(src, "num", (), _join(a.dt, b.dt))


@rule("num", "p", gpu=False)
def generator(w: Writer) -> E:
    a = w.numeric(None, True)
    src, dt = w.pick(
        (f"sum(x for x in {a.src} if x > 0)", a.dt),
        (f"sum(1 for x in {a.src} if x > {w.const(a.dt)})", "i"),
        (f"any(x > 2 for x in {a.src})", "b"),
        (f"all(x == x for x in {a.src})", "b"),
        (f"max(abs(x) for x in {a.src})", a.dt),
        (f"sum(i * x for i, x in enumerate({a.src}))", a.dt),
        (f"len([x for x in {a.src} if x != 0])", "i"),
        (f"sum(map(abs, {a.src}))", a.dt),
        (f"len(list(filter(lambda x: x > 0, {a.src})))", "i"),
    )
    return E(src, "num", (), "i" if dt == "u" else dt)


@rule("num", "p", gpu=False)
def math_exact(w: Writer) -> E:
    x = w.number(True)
    src, dt = w.pick(
        (f"math.floor({x.src})", "i"),
        (f"math.sqrt(abs({x.src}))", "f"),
        (f"math.isnan({x.src})", "b"),
        (f"math.fabs({x.src})", "f"),
        (f"math.sqrt({x.src})", "f"),
        (f"math.ceil({x.src})", "i"),
        (f"math.copysign(1.0, {x.src})", "f"),
        (f"math.trunc({x.src})", "i"),
        (f"math.isfinite({x.src})", "b"),
        (f"math.isinf({x.src})", "b"),
        (f"math.fmod({x.src}, 2.0)", "f"),
    )
    return E(src, "num", (), dt)


@rule("num", "p", gpu=False)
def math_inexact(w: Writer) -> E:
    x = w.number(True)
    src = w.pick(
        f"math.exp({x.src})",
        f"math.log({x.src})",
        f"math.log(abs({x.src}) + 1)",
        f"math.sin({x.src})",
        f"math.tanh({x.src})",
        f"math.atan2({x.src}, 2.0)",
        f"math.hypot({x.src}, 1.0)",
        f"math.pow(abs({x.src}), 0.5)",
        f"math.log10({x.src})",
        f"(float({x.src}) ** 2)",
        f"math.asin({x.src})",
        f"math.cosh({x.src})",
        f"math.degrees({x.src})",
        f"(math.pi * {w.par(x)})",
        f"math.log2({x.src})",
        f"math.log1p({x.src})",
        f"math.atan({x.src})",
    )
    return E(src, "num", (), "f", False)


# --- arrays of a length that depends on the data --------------------------------------


@rule("dyn", "c")
def compressed(w: Writer) -> E:
    return w.dyn_leaf()


@rule("dyn", "c")
def dynamic_more(w: Writer) -> E:
    n = w.some_length()
    a, m = w.arr(n, True), w.mask(n)
    src, dt = w.pick(
        (f"np.compress({m.src}, {a.src})", a.dt),
        (f"np.flatnonzero({m.src})", "i"),
        (f"np.nonzero({m.src})[0]", "i"),
        (f"np.unique({a.src})", a.dt),
        (f"np.where({m.src})[0]", "i"),
        (f"np.extract({m.src}, {a.src})", a.dt),
        (f"np.delete({a.src}, np.argmax({a.src}))", a.dt),
        (f"{w.par(a)}[np.nonzero({m.src})]", a.dt),
        (f"{w.par(a)}[: {m.src}.sum()]", a.dt),
        (f"{w.par(a)}[np.argmax({m.src}):]", a.dt),
    )
    return E(src, "dyn", (), dt)


@rule("dyn", "ia")
def dynamic_arithmetic(w: Writer) -> E:
    d = w.dyn()
    if d.dt == "b":
        return d
    src = w.pick(
        f"({d.src} * {w.const(d.dt)})",
        f"np.sort({d.src})",
        f"{w.par(d)}[::-1]",
        f"np.cumsum({d.src})",
        f"np.abs({d.src})",
        f"np.diff({d.src})",
        f"{w.par(d)}[1:]",
    )
    return replace(d, src=src, owned=False, name=False, dt="f" if "." in src else d.dt)


# --- conditions -----------------------------------------------------------------------


@rule("cond", "c")
def comparison(w: Writer) -> E:
    return w.cond_leaf()


@rule("cond", "c")
def comparison_numbers(w: Writer) -> E:
    a, b = w.number(True), w.number(True)
    return E(f"{a.src} {w.pick('>', '<', '==', '<=')} {b.src}", "cond")


@rule("cond", "bp")
def chained(w: Writer) -> E:
    a, b = w.number(True), w.number(True)
    return E(
        w.pick(f"0 < {a.src} < 2", f"{a.src} <= {b.src} < 5", f"1 > {b.src} != {a.src}"), "cond"
    )


@rule("cond", "bp")
def connected(w: Writer) -> E:
    a, b = w.cond(), w.cond()
    return E(w.pick(f"({a} and {b})", f"({a} or {b})", f"not ({a})"), "cond")


@rule("cond", "b")
def of_mask(w: Writer) -> E:
    m = w.mask(w.some_length())
    return E(
        w.pick(
            f"{m.src}.any()",
            f"{m.src}.all()",
            f"np.any({m.src})",
            f"{m.src}.sum() > 1",
            f"not np.all({m.src})",
        ),
        "cond",
    )


@rule("cond", "b")
def of_length(w: Writer) -> E:
    d = w.dyn()
    return E(w.pick(f"len({d.src}) > 1", f"{w.par(d)}.size == 0", f"len({d.src})"), "cond")


@rule("cond", "bp")
def truth(w: Writer) -> E:
    x = w.num(True)
    return E(
        w.pick(
            x.src,
            f"np.isnan({x.src})",
            f"{x.src} in (0, 1, 2)",
            f"{x.src} == {x.src}",
            f"np.isfinite({x.src})",
        ),
        "cond",
    )


# --- statements -----------------------------------------------------------------------


@rule("statement", "c")
def assign_array(w: Writer) -> None:
    w.assign(w.arr())


@rule("statement", "c")
def assign_number(w: Writer) -> None:
    w.assign(w.num())


@rule("statement", "ri")
def assign_matrix(w: Writer) -> None:
    m = w.assign(w.mat((1 + w.r.randrange(3), 1 + w.r.randrange(3))))
    w.assign(
        E(
            f"{m.src}{w.pick('[0]', '.max(axis=0)', '[-1]')}" if m.exact else f"{m.src}[0]",
            "arr",
            m.shape[1:],
            m.dt,
            m.exact,
        )
    )


@rule("statement", "i")
def assign_dynamic(w: Writer) -> None:
    w.assign(w.dyn())


@rule("statement", "ab")
def in_place(w: Writer) -> None:
    a = w.floats(None, True)
    x = w.assign(a if a.owned else replace(a, src=f"{w.par(a)}.copy()", owned=True, name=False))
    n = x.shape[0]
    w.only_exact += 1
    for _ in range(1 + w.r.randrange(2)):
        other = w.pick(
            lambda: w.const(), lambda: w.numeric(n, True).src, lambda: w.number(True).src
        )()
        w.line(f"{x.src} {w.pick('+=', '-=', '*=', '/=')} {other}")
    w.only_exact -= 1


@rule("statement", "i")
def write_masked(w: Writer) -> None:
    x = _copied(w)
    n = x.shape[0]
    w.only_exact += 1
    m = w.mask(n)
    text = w.pick(
        f"[{m.src}] = {w.const(x.dt)}",
        f"[{m.src}] = {w.number(True).src}",
        f"[{m.src}] += 1",
        f"[{m.src}] = {w.par(w.numeric(n, True))}[{m.src}]",
        f"[{m.src}] *= 2",
        f"[np.nonzero({m.src})] = 0",
    )
    w.only_exact -= 1
    w.line(x.src + text)


@rule("statement", "i")
def write_element(w: Writer) -> None:
    x = _copied(w)
    n = x.shape[0]
    w.only_exact += 1
    k = w.r.randrange(n)
    at = w.pick(f"{k}", f"{k - n}", f"np.argmax({w.arr(n, True).src})")
    text = w.pick(f"[{at}] = {w.number(True).src}", f"[{at}] += 1", f"[{at}] = {w.const(x.dt)}")
    w.only_exact -= 1
    w.line(x.src + text)


@rule("statement", "i")
def write_slice(w: Writer) -> None:
    x = _copied(w)
    n = x.shape[0]
    w.only_exact += 1
    k = w.r.randrange(n)
    text = w.pick(
        f"[{k}:] = {w.number(True).src}",
        f"[:] = {w.numeric(n, True).src}",
        f"[:{n - k}] = {w.numeric(n - k, True).src}",
        "[::2] *= 2",
        f"[{k}:] += 1",
        f"[...] = {w.const(x.dt)}",
    )
    w.only_exact -= 1
    w.line(x.src + text)


@rule("statement", "i")
def write_view(w: Writer) -> None:
    x = _copied(w)
    y = w.name()
    w.line(f"{y} = {x.src}[{w.pick('1:', '::2', '::-1', ':-1')}]")
    w.line(f"{y} {w.pick('+= 1', '*= 2', '[:] = 0', '[...] = 1')}")
    if w.chance(0.5):
        w.line(f"del {y}")


@rule("statement", "ri", gpu=False)
def write_sorted(w: Writer) -> None:
    x = _copied(w)
    w.line(
        w.pick(
            f"{x.src}.sort()",
            f"{x.src}.fill({w.const('u')})",
            f"np.copyto({x.src}, 1)",
            f"{x.src}[::-1].sort()",
        )
    )


def _copied(w: Writer) -> E:
    a = w.numeric(None, True)
    src = w.pick(f"{w.par(a)}.copy()", f"np.array({a.src})", f"np.copy({a.src})")
    if a.dt == "u":
        src, a = f"{w.par(a)}.astype(float)", replace(a, dt="f")
    return w.assign(replace(a, src=src, owned=True, name=False))


@rule("statement", "i")
def write_slice_itself(w: Writer) -> None:
    if w.chance(0.1):  # f may write into the array: the loop has to run
        w.line(f"v[{w.r.randrange(w.length)}] = {w.const(w.vars[0].dt)}")


@rule("statement", "bp")
def branch(w: Writer) -> None:
    if w.depth > 3:
        return
    w.only_exact += 1
    x = w.assign(w.pick(w.num, lambda: w.floats(None, True))())
    w.line(f"if {w.cond()}:")
    w.block(lambda: _branch_body(w, x))
    if w.chance(0.3):
        w.line(f"elif {w.cond()}:")
        w.block(lambda: _branch_body(w, x))
    if w.chance(0.5):
        w.line("else:")
        w.block(lambda: _branch_body(w, x))
    w.only_exact -= 1
    w.vars[-1] = replace(w.vars[-1], dt="f" if x.dt == "f" else x.dt, owned=False)


def _branch_body(w: Writer, x: E) -> None:
    if w.chance(0.3) and w.depth < 4:
        w.statement()
    if w.chance(0.25):
        w.result()
    elif x.form == "num":
        y = w.number(True) if x.dt != "b" else E(w.cond(), "num")
        if x.dt != "f" and x.dt != "b" and y.dt != x.dt:
            y = E(w.const("u"), "num")
        w.line(f"{x.src} = {y.src}")
    else:
        w.line(f"{x.src} = {w.floats(x.shape[0], True).src}")


@rule("statement", "b")
def early(w: Writer) -> None:
    w.line(f"if {w.cond()}:")
    w.block(w.result)


@rule("statement", "b")
def raising(w: Writer) -> None:
    if w.chance(0.1):
        w.line(f"if {w.cond()}:")
        w.block(lambda: w.line(f"raise {w.pick('ValueError', 'RuntimeError', 'KeyError')}('no')"))


@rule("statement", "bp", gpu=False)
def loop(w: Writer) -> None:
    if w.depth > 2:
        return
    a = w.numeric(None, True)
    n = a.shape[0]
    s, x = w.name(), w.name()
    start = w.pick("0.0", "0", "v[0]" if w.vars[0].dt != "b" else "1")
    w.line(f"{s} = {start}")
    kind = w.r.randrange(5)
    add = w.pick(
        f"{s} += {x}",
        f"{s} = max({s}, {x})",
        f"{s} = {s} * 0.5 + {x}",
        f"{s} += 1",
        f"{s} = {s} - {x}" if a.dt != "u" else f"{s} = {s} + {x}",
    )
    stop = w.pick(
        "",
        "",
        f"if {x} > {w.const(a.dt)}:\n@break",
        f"if {x} != {x}:\n@continue",
        f"if {x} < {s}:\n@break",
    )
    if kind < 2:
        w.line(f"for {x} in {a.src}:")
        body = [stop, add]
    elif kind == 2:
        i = w.name()
        w.line(f"for {i}, {x} in enumerate({a.src}):")
        body = [stop, add, f"{s} += {i}"]
    elif kind == 3:
        i = w.name()
        w.line(f"for {i} in range({n}):")
        body = [f"{x} = {w.par(a)}[{i}]", stop, add]
    else:
        i = w.name()
        w.line(f"{i} = 0")
        w.line(f"while {i} < {n} and {w.par(a)}[{i}] > {w.const(a.dt)}:")
        body = [f"{x} = {w.par(a)}[{i}]", add, f"{i} += 1"]

    def write() -> None:
        for text in filter(None, body):
            for line in text.split("\n"):
                w.line(line.replace("@", "    "))
        if w.chance(0.2):
            w.line(f"if {x} == 0:")
            w.block(w.result)

    w.block(write)
    if w.chance(0.15):
        w.line("else:")
        w.block(lambda: w.line(f"{s} = {s} + 1"))
    w.vars.append(E(s, "num", (), "f", name=True))


@rule("statement", "p", gpu=False)
def collected(w: Writer) -> None:
    a = w.numeric(None, True)
    name, x = w.name(), w.name()
    w.line(f"{name} = []")
    w.line(f"for {x} in {a.src}:")
    w.block(lambda: w.line(f"{name}.append({w.pick(x, f'{x} * 2', f'abs({x})', f'float({x})')})"))
    w.vars.append(
        E(f"np.array({name})", "arr", a.shape, "f" if a.dt == "f" else "i", owned=True, name=True)
    )


@rule("statement", "p", gpu=False)
def running(w: Writer) -> None:
    """A list that grows or not, depending on the data."""
    a = w.numeric(None, True)
    name, x = w.name(), w.name()
    w.line(f"{name} = [{w.const('u')}]")
    w.line(f"for {x} in {a.src}:")

    def body() -> None:
        w.line(f"if {x} > {name}[-1]:")
        w.block(lambda: w.line(f"{name}.append({x})"))

    w.block(body)
    w.vars.append(
        E(
            w.pick(f"len({name})", f"{name}[-1]", f"sum({name})"),
            "num",
            (),
            a.dt if a.dt == "f" else "i",
            name=True,
        )
    )


@rule("statement", "p", gpu=False)
def guarded(w: Writer) -> None:
    name = w.name()
    x = w.number(True)
    what = w.pick(
        "ValueError",
        "(ValueError, ZeroDivisionError)",
        "Exception",
        "ZeroDivisionError",
        "OverflowError",
        "ArithmeticError",
    )
    w.line("try:")
    w.block(
        lambda: w.line(
            name
            + " = "
            + w.pick(
                f"math.sqrt({x.src})",
                f"1.0 / float({x.src})",
                f"int({x.src})",
                f"int({x.src}) % 3",
                f"10 // int({x.src})",
                f"1 / ({x.src})",
            )
        )
    )
    w.line(f"except {what}:")
    w.block(lambda: w.line(f"{name} = {w.const()}"))
    w.vars.append(E(name, "num", (), "f", name=True))


@rule("statement", "p")
def helper(w: Writer) -> None:
    if w.depth > 1:
        return
    name = w.name()
    body, kind = w.pick(
        ("x * 2 + 1", "arr"),
        ("x - x.mean()", "arr"),
        ("np.sort(x)", "arr"),
        ("np.where(x > 0, x, 0.0)", "arr"),
        ("x[x > 0].sum()", "num"),
        ("x.max() if x[0] > 0 else x.min()", "num"),
        ("x.sum() / len(x)", "num"),
    )
    if w.chance(0.5):
        w.line(f"{name} = lambda x: {body}")
    else:
        w.line(f"def {name}(x, k={w.const('u')}):")
        w.block(lambda: w.line(f"return {body}" + (" + k" if kind == "num" else "")))
    w.helpers.append((name, kind))
    a = w.floats(None, True)
    w.assign(E(f"{name}({a.src})", kind, a.shape if kind == "arr" else (), "f"))


@rule("statement", "pr", gpu=False)
def unpacked(w: Writer) -> None:
    a = w.numeric(2 + w.r.randrange(3), True)
    n = a.shape[0]
    names = [w.name() for _ in range(n)]
    if w.chance(0.3):
        w.line(f"{names[0]}, *{names[1]} = {a.src}")
        w.vars.append(E(names[0], "num", (), a.dt, name=True))
        w.vars.append(E(f"{names[1]}[0]", "num", (), a.dt, name=True))
        return
    w.line(", ".join(names) + f" = {a.src}")
    w.vars += [E(x, "num", (), a.dt, name=True) for x in names]


@rule("statement", "rp")
def assigned_pair(w: Writer) -> None:
    a, b = w.num(True), w.num(True)
    x, y = w.name(), w.name()
    w.line(f"{x}, {y} = {a.src}, {b.src}")
    w.vars += [replace(a, src=x, name=True), replace(b, src=y, name=True)]


@rule("statement", "p", gpu=False)
def in_dict(w: Writer) -> None:
    a, b = w.num(True), w.num(True)
    x = w.name()
    w.line(f"{x} = {{'a': {a.src}, 'b': {b.src}}}")
    w.vars += [replace(a, src=f"{x}['a']", name=True), replace(b, src=f"{x}['b']", name=True)]


@rule("statement", "ab", gpu=False)
def quiet(w: Writer) -> None:
    a, b = w.floats(None, True), w.number(True)
    x = w.name()
    w.line("with np.errstate(all='ignore'):")
    w.block(lambda: w.line(f"{x} = {a.src} / {b.src}"))
    w.vars.append(E(x, "arr", a.shape, "f", name=True, owned=True))


# --- the function, and arrays for it --------------------------------------------------


@dataclass
class Function:
    """A function, and what is known of it."""

    source: str
    inexact: bool
    """Whether its results may differ in rounding."""
    used: list[str] = field(repr=False)
    """The names of the productions."""

    def make(self, **namespace: Any) -> Any:
        """The function itself; new every time, so nothing is known of it."""
        space = {"np": np, "math": math, "__name__": "random_function", **namespace}
        exec(compile(self.source, "<random function>", "exec"), space)
        return space["f"]

    @classmethod
    def draw(
        cls, r: Any, length: int, dtype: str, theme: str = "everything", gpu: bool = False
    ) -> Function:
        w = Writer(r, length, dtype, theme, gpu)
        source = w.write()
        return cls(source, w.inexact, w.used)


def slices(r: Any, length: int, dtype: str, kinds: int = 4) -> tuple[np.ndarray, int]:
    """An array of more slices than the plain loop would get, and the axis.

    `kinds`: 2 without NaN and infinities, 3 without numbers of all sizes, 4 with everything.
    """
    counts = [(17 + r.randrange(44),), (4 + r.randrange(4), 5 + r.randrange(3))][r.randrange(2)]
    shape = list(counts)
    axis = r.randrange(len(shape) + 1)
    shape.insert(axis, length)
    rng = np.random.default_rng(r.randrange(2**32))
    kind = r.randrange(kinds)
    x = _numbers(rng, shape, np.dtype(dtype), kind)
    order = r.randrange(5)
    if order == 1:
        x = np.asfortranarray(x)
    elif order == 2:
        wide = np.zeros([2 * n for n in shape], x.dtype)
        wide[tuple(slice(None, None, 2) for _ in shape)] = x
        x = wide[tuple(slice(None, None, 2) for _ in shape)]
    elif order == 3:
        x = x[tuple(slice(None, None, -1) for _ in shape)]
    elif order == 4:
        x = np.moveaxis(np.ascontiguousarray(np.moveaxis(x, axis, 0)), 0, axis)
    return x, axis - r.choice([0, len(shape)])


def _numbers(rng: Any, shape: list[int], dtype: np.dtype, kind: int) -> np.ndarray:
    """Kinds: 0 ties, 1 numbers, 2 with NaN and infinities, 3 of all sizes."""
    if dtype.kind == "b":
        return rng.random(shape) < 0.5
    if dtype.kind in "iu":
        if kind == 3:
            info = np.iinfo(dtype)
            x = rng.integers(info.min, info.max, shape, dtype, endpoint=True)
            return np.where(rng.random(shape) < 0.6, rng.integers(0, 5, shape).astype(dtype), x)
        low = 0 if dtype.kind == "u" else -4
        return rng.integers(low, 5 if kind == 0 else 50, shape).astype(dtype)
    if kind == 0:
        return rng.integers(-3, 4, shape).astype(dtype) / dtype.type(2)
    x = (3 * rng.standard_normal(shape)).astype(dtype)
    if kind >= 2:
        odd = [np.nan, np.inf, -np.inf, -0.0, 0.0, float(np.finfo(dtype).smallest_subnormal)]
        if kind == 3:
            big = float(np.finfo(dtype).max)
            odd += [big, -big, big / 2, 1e-30, 1e17, -1e17, float(np.finfo(dtype).tiny)]
        some = rng.random(shape) < rng.choice([0.02, 0.15])
        x[some] = rng.choice(np.array(odd, dtype), int(some.sum()))
    return x
