"""Decisions at discontinuities: a whole number, a comparison or a branch that the last bit turns.

Compositions of functions of `math` and of NumPy that are whole numbers, ties or one another up to
rounding, at arguments where they are.
"""

from __future__ import annotations

import random

import numpy as np

import xpapply

from .alike import differ, outcome, short

ONE = np.arange(1, 120.0)
RANDOM = np.random.default_rng(0).random(4000) * 40 + 0.1

# expressions of the number a, and the numbers for which they are whole, or nearly so
WHOLE = (
    ("{m}.exp({m}.log(a))", ONE),
    ("{m}.log({m}.exp(a))", ONE),
    ("{m}.expm1({m}.log1p(a))", ONE),
    ("{m}.sqrt(a) * {m}.sqrt(a)", ONE),
    ("{m}.sqrt(a) ** 2", ONE),
    ("(a ** 0.5) ** 2", ONE),
    ("a ** (1 / 3)", ONE**3),
    ("a ** 0.25", ONE**4),
    ("a ** -1 * a", ONE),
    ("{m}.log(a) / {m}.log(3)", 3.0 ** np.arange(1, 34)),
    ("{m}.log10(a)", 10.0 ** np.arange(-20, 23)),
    ("{m}.log2(a)", 2.0 ** np.arange(-20, 60)),
    ("{m}.tan({m}.{a}tan(a))", ONE),
    ("{m}.sinh({m}.{a}sinh(a))", ONE),
    ("{m}.cosh({m}.{a}cosh(a))", ONE + 1),
    ("{m}.{a}tanh({m}.tanh(a / 10)) * 10", ONE),
    ("{m}.hypot(3 * a, 4 * a) / 5", ONE),
    ("{m}.hypot(a, a) / 2 ** 0.5", ONE),
    ("{m}.{a}tan2(a, a) * 4 / {m}.pi", ONE),
    ("{m}.degrees({m}.radians(a))", ONE),
    ("{m}.sin(a) ** 2 + {m}.cos(a) ** 2", RANDOM),
    ("{m}.cosh(a) ** 2 - {m}.sinh(a) ** 2", RANDOM / 20),
    ("{m}.tanh(a) * 2.0 ** 53", RANDOM),
    ("{m}.exp(a) * {m}.exp(-a)", RANDOM),
    ("{m}.log(a) + {m}.log(1 / a)", RANDOM),
    ("a ** 1.5 / {m}.sqrt(a) / a", RANDOM),
    ("{m}.pow(a, 3) / a ** 2 / a", RANDOM),
)
OF_SLICES = (
    ("v.mean() * 3", ONE),
    ("v.sum() / 0.1", ONE / 10),
    ("np.exp(np.log(v)).sum()", ONE),
    ("np.linalg.norm(v) ** 2", ONE),
    ("np.dot(v, v) / v[0]", ONE / 10),
    ("(v @ v) ** 0.5 / v[1]", RANDOM),
    ("v.std() / v[0] * 10", ONE / 10),
    ("np.sqrt((v ** 2).mean())", ONE / 10),
    ("np.prod(v ** (1 / 3)) / v[0]", ONE / 10),
    ("np.percentile(v, 30) / v[0]", ONE / 10),
    ("np.hypot(v[0], v[1]) / v[0]", ONE),
    ("v[0] ** 2 / v[1] ** 2", RANDOM),
)
DECISIONS = (
    "int({x})",
    "math.floor({x})",
    "math.ceil({x})",
    "round({x})",
    "round({x}, 1)",
    "{x} // 1",
    "{x} % 1 > 0.5",
    "{x} == round({x})",
    "{x} >= {y}",
    "1 if {x} > round({x}) else -1",
    "(10, 20)[int({x} < {y})]",
    "max({x}, {y}) == {x}",
    "np.floor({x})",
    "np.rint({x} + 0.5)",
    "np.sign({x} - {y})",
    "np.argmax([{x}, {y}, {x}])",
    "np.argsort([{x}, {y}])[0]",
    "bool({x})",
    "sorted([{x}, {y}])[0] == {x}",
    "np.searchsorted([1.0, 2.0, 3.0], {x})",
    "len(set([{x}, {y}]))",
    "int(np.array([{x}, {y}]).astype(int)[0])",
    "[k for k in range(4) if k >= {x}].__len__()",
)
FORMS = (
    "return {d}",
    "x = {x}\n    if x >= {y}:\n        return {d}\n    return -7",
    "if {x} != {y}:\n        return 0\n    return {d}",
    "n = 0\n    for k in (0, 1, 2):\n        n += 1 if {x} > {y} - 1 + k else 0\n    return n",
    "try:\n        return math.sqrt({x} - {y})\n    except ValueError:\n        return -1.0",
    "return 1.0 if 1 / (abs({x} - {y}) + 1e-300) > 1e200 else 0.0",
)


def _draw(r: random.Random) -> tuple[str, np.ndarray, bool]:
    """The source of a function of ``v`` or of ``a``, the numbers, and whether they are slices."""
    slices = r.random() < 0.3
    form, numbers = r.choice(OF_SLICES if slices else WHOLE)
    names = [{"m": "math", "a": "a"}, {"m": "np", "a": "arc"}]
    own = r.choice(names)
    if "pow" in form and own["m"] == "np":
        own = names[0]
    x = form.format(**own)
    y = r.choice((f"round({x})", x, "1.0", "a" if not slices else "v[0]"))
    if r.random() < 0.4 and not slices and "pow" not in form:
        y = form.format(**r.choice(names))
    decision = r.choice(DECISIONS).format(x=f"({x})", y=f"({y})")
    body = r.choice(FORMS).format(d=decision, x=f"({x})", y=f"({y})")
    return f"def f({'v' if slices else 'a'}):\n    {body}", numbers, slices


def _made(source: str):
    scope = {"np": np, "math": __import__("math")}
    exec(source, scope)
    return scope["f"]


def case(r: random.Random) -> str | None:
    source, numbers, slices = _draw(r)
    numbers = np.tile(numbers, 1 + 3000 // len(numbers))
    if r.random() < 0.3:
        numbers = numbers[np.random.default_rng(r.randrange(2**32)).permutation(len(numbers))]
    if slices:
        length = r.choice((2, 3, 5, 8, 17))
        x = np.lib.stride_tricks.sliding_window_view(numbers, length)
        x = np.ascontiguousarray(x) if r.random() < 0.7 else x
        call = lambda library: lambda f, axis, x: library.apply_along_axis(f, axis, x)  # noqa: E731
        f = _made(source)
    elif r.random() < 0.5:
        x = numbers
        call = lambda library: lambda f, axis, x: library.vectorize(f)(x)  # noqa: E731
        f = _made(source)
    else:
        x = np.stack([numbers, numbers], 1)
        call = lambda library: lambda f, axis, x: library.apply_along_axis(f, axis, x)  # noqa: E731
        scalar = r.choice(("v[0]", "float(v[0])", "v[0].item()"))
        source = f"{source}\ng = lambda v: f({scalar})"
        scope = {"np": np, "math": __import__("math")}
        exec(source, scope)
        f = scope["g"]
    want, got = outcome(call(np), f, x), outcome(call(xpapply), f, x)
    # what is no decision may be off by some bits
    if differ(want, got, True):
        which = ""
        if not isinstance(want, str) and not isinstance(got, str) and want.shape == got.shape:
            k = int(np.flatnonzero(~((want == got) | ((want != want) & (got != got))))[0])
            which = f"at {x[k].tolist()!r}: {want[k]!r}, {got[k]!r}\n"
        return f"{source}\n{which}want {short(want)}\ngot  {short(got)}"
    return None
