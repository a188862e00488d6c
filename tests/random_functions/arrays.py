"""Arrays: arithmetic, reductions and order."""

from __future__ import annotations

from dataclasses import replace

from .writer import E, Writer, _join, rule

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
