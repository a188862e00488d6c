"""Statements: assignments, writes, branches, loops."""

from __future__ import annotations

from dataclasses import replace

from .writer import E, Writer, rule

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
