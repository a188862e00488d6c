"""Random functions of whole arrays of CuPy's, read by its rules, beside a stand-in for CuPy."""

from __future__ import annotations

import linecache
import random
import warnings
from collections import Counter

import numpy as np
from on_standin import made, of_standin

from xpapply.codegen.llvm.typed import device
from xpapply.errors import TraceError
from xpapply.ir.typed.evaluate import evaluate

counts: Counter[str] = Counter()
refused: Counter[str] = Counter()
DTYPES = ["float64"] * 6 + "float32 int32 uint8 int64 bool".split()
METHODS = "sum mean max min std var argmax argmin any all ptp".split()
FUNCTIONS = "median sum mean max min count_nonzero ptp std".split()
UFUNCS = "abs square sign floor sqrt negative isnan exp".split()


class Source:
    """Draws expressions; `depth` says how deep they may be."""

    def __init__(self, r: random.Random) -> None:
        self.r = r

    def number(self, depth: int) -> str:
        r, d = self.r, depth - 1
        kind = r.randrange(12)
        if d < 0 or kind < 3:
            return str(r.choice(["v[0]", "v[-1]", "2", "0.5", "-1.5", "1", "len(v)", "v[1]*1"]))
        if kind < 7:
            return f"{self.array(d)}.{r.choice(METHODS)}()"
        if kind == 7:
            return f"np.{r.choice(FUNCTIONS)}({self.array(d)})"
        if kind == 8:
            return f"({self.number(d)} {r.choice('+-*/')} {self.number(d)})"
        if kind == 9:
            asked = f"{self.number(d)} {r.choice(['>', '<', '>='])} {self.number(d)}"
            return f"({self.number(d)} if {asked} else {self.number(d)})"
        return f"{r.choice(['abs', 'float'])}({self.number(d)})"

    def either(self, depth: int) -> str:
        return self.r.choice([self.array, self.number])(depth)

    def mask(self, depth: int) -> str:
        r, d = self.r, depth - 1
        kind = r.randrange(5)
        if d < 0 or kind < 3:
            compared = r.choice(["<", ">", "<=", ">=", "==", "!="])
            return f"({self.array(d)} {compared} {self.either(d)})"
        if kind == 3:
            return f"({self.mask(d)} {r.choice('&|^')} {self.mask(d)})"
        return f"(~{self.mask(d)})"

    def array(self, depth: int) -> str:
        r, d = self.r, depth - 1
        kind = r.randrange(14)
        if d < 0 or kind < 3:
            return str(r.choice(["v", "v", "v[::-1]", "w"]))
        if kind < 6:
            return f"({self.array(d)} {r.choice('+-*/')} {self.either(d)})"
        if kind == 6:
            return f"({self.number(d)} {r.choice('+-*/')} {self.array(d)})"
        if kind == 7:
            return f"np.{r.choice(UFUNCS)}({self.array(d)})"
        if kind == 8:
            return f"np.where({self.mask(d)}, {self.either(d)}, {self.either(d)})"
        if kind == 9:
            return f"np.{r.choice(['maximum', 'minimum'])}({self.array(d)}, {self.either(d)})"
        if kind == 10:
            return f"np.{r.choice(['sort', 'diff'])}({self.array(d)})"
        if kind == 11:
            return f"(-{self.array(d)})"
        if kind == 12:
            return f"({self.array(d)} ** 2)"
        return f"{self.array(d)}.astype({r.choice(['float', 'np.float32', 'np.float64'])})"

    def function(self) -> str:
        chosen = self.r.choice(["sum", "mean", "max", "std"])
        result = self.r.choice(
            [
                *(self.number(3), self.number(3), self.array(2)),
                f"{self.array(1)}[{self.mask(1)}].{chosen}()",
            ]
        )
        body = f"    w = v\n    w = {self.array(2)}\n    return {result}\n"
        return f"import numpy as np\n\ndef f(v):\n{body}"


def case(r: random.Random) -> str | None:
    """Draw a function, and compare its evaluated form with what it gives."""
    source = Source(r).function()
    name = f"<device {hash(source)}>"
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    namespace: dict = {}
    exec(compile(source, name, "exec"), namespace)
    f = namespace["f"]
    dtype, rng = r.choice(DTYPES), np.random.default_rng(r.randrange(2**32))
    x = rng.standard_normal((5, 8)) * (2 if dtype.startswith("f") else 9)
    x = (np.abs(x) if dtype.startswith("u") else x).astype(dtype)
    if dtype.startswith("f") and r.random() < 0.3:
        x[rng.random(x.shape) < 0.1] = np.nan
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return _compared(f, x, source)


def _compared(f, x: np.ndarray, source: str) -> str | None:
    try:
        want = [of_standin(f, v) for v in x]
    except Exception as error:
        counts[f"raises {type(error).__name__}"] += 1
        return None
    try:
        function = made(f, x.dtype.name, want[:1])
    except TraceError as error:
        counts["refused"] += 1
        refused[str(error).partition(" (line")[0]] += 1
        return None
    if why := device.why_not(function):
        return f"{source}\n{x.dtype}: {why}"
    counts["compiled"] += 1
    for v, w in zip(x, want, strict=True):
        if (w.dtype, w.shape) != (want[0].dtype, want[0].shape):
            continue
        out = np.empty_like(want[0])
        if evaluate(function, [v], [out]):
            counts["slices marked"] += 1
        elif not _alike(out, w, {x.dtype.name, w.dtype.name, "float32" * ("32" in source)}):
            return f"{source}\n{x.dtype}: slice {v!r} differs: {out!r}, by the stand-in {w!r}"
    return None


def _alike(a: np.ndarray, b: np.ndarray, dtypes: set[str]) -> bool:
    """Whether results are alike: CuPy adds in another order than the stand-in."""
    if a.dtype.kind != "f":
        return bool(np.array_equal(a, b))
    short = dtypes & {"float32", "uint8", "bool"}
    eps = 1e4 * np.finfo("float32" if short else "float64").eps
    scale = 1 + np.nanmax(np.abs(np.where(np.isfinite(b), b, 0)), initial=0)
    return bool(np.allclose(a, b, rtol=eps, atol=eps * scale, equal_nan=True))


def report() -> str:
    """What was compiled, and why the rest was not."""
    lines = [f"{n:8} {what}" for what, n in counts.most_common()]
    return "\n".join([*lines, *(f"{n:8} {why}" for why, n in refused.most_common(8))])
