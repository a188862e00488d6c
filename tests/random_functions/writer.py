"""What productions are, and what they write with."""

from __future__ import annotations

from dataclasses import dataclass, replace
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
        ok = [x for x in self.vars if x.form == "mat" and x.shape == shape]
        if ok and self.chance(0.8):
            return ok[self.r.randrange(len(ok))]
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
