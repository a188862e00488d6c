"""Numbers, arrays of a length that depends on the data, conditions."""

from __future__ import annotations

from dataclasses import replace

from .arrays import _combine
from .writer import E, Writer, _join, rule

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
