"""Arrays by positions, masks and matrices."""

from __future__ import annotations

from dataclasses import replace

from .writer import E, Writer, _join, rule

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
