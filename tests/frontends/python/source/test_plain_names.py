"""Names of which it makes no difference whose floats they are: on a device they are its own."""

import numpy as np
import pytest
from on_standin import made, of_standin

from xpapply.frontends.python.source.reading.find import tree_of
from xpapply.frontends.python.source.reading.flow import flow_of
from xpapply.ir.typed.evaluate import evaluate

RNG = np.random.default_rng(3)


def names(f):
    return {n for n in flow_of(tree_of(f)).plain if not n.startswith(".")}


def bucket(v):
    level, lost = 0.0, 0.0
    for x in v:
        level = level + x
        if level > 1.0:
            lost += level - 1.0
            level = 1.0
        elif level < 0.0:
            level = 0.0
    return lost


def divided(v):
    s = 0.0
    for x in v:
        if x > 0:
            s = s + x
    return 1.0 / s


def through(v):
    s = 1.0
    for x in v:
        t = s - 1.0
        if x > 0:
            s = s + x
        u = x / (t + 1.0)
    return s + u


def kept(v):
    s = 0.0
    out = []
    for x in v:
        s = s + x
        out.append(s)
    return len(out)


def answered(v):
    s = 0.0
    for x in v:
        if x > 0:
            s = s + x
    return s > 1.0


def inner(v):
    s = 0.0

    def add(x):
        nonlocal s
        s = s + x

    for x in v:
        add(x)
    return s


def test_which_names_are_plain():
    assert names(bucket) >= {"level", "lost"}
    assert "s" not in names(divided)
    assert not {"s", "t"} & names(through)
    assert "s" not in names(kept)
    assert "s" not in names(answered)
    assert "s" not in names(inner)


CASES = [
    (f, d) for f in (bucket, divided, through, answered) for d in ("float64", "float32", "int64")
]


@pytest.mark.parametrize(("f", "dtype"), CASES)
def test_results_are_as_ever(f, dtype):
    x = (RNG.standard_normal((40, 6)) * 3).astype(dtype)
    x[5] = -1  # of which nothing is added
    function = None
    for v in x:
        try:
            want = of_standin(f, v)
        except ZeroDivisionError:
            want = None
        if function is None:
            function = made(f, dtype, [want])
        out = np.empty((), want.dtype if want is not None else np.float64)
        mark = evaluate(function, [v], [out])
        if want is None:
            assert mark
        elif not mark:
            assert np.array_equal(out, want.astype(out.dtype))


def test_one_version_of_a_loop():
    """Python's float becomes the device's before the loop: there is one loop, not four."""
    of_doubles = made(bucket, "float64", [np.zeros(())])
    of_short = made(bucket, "float32", [np.zeros((), np.float32)])
    assert len(of_doubles.blocks) < len(of_short.blocks) // 2


def test_beside_short_floats_it_makes_a_difference():
    """A float of Python's stays one beside a float32 of the function's own."""

    def f(v):
        s = 0.0
        w = v.astype(np.float32)
        for k in range(len(v)):
            s = s + w[k] if v[k] > 0 else 0.5
        return s

    x = RNG.standard_normal((30, 5))
    x[0] = 1.0
    function = made(f, "float64", [of_standin(f, x[0])])
    for v in x:
        want = of_standin(f, v)
        out = np.empty((), np.float32)
        if not evaluate(function, [v], [out]):
            assert np.array_equal(out, want.astype(np.float32))


def test_integers_that_floats_have_not():
    """Python compares them as they are."""

    def f(v):
        s = 0.0
        n = (1 << 53) - 1
        for x in v:
            n = n + 1
            s = 9007199254740992.0
            if s == n:
                s = s + x
        return s

    x = RNG.standard_normal((4, 5))
    function = made(f, "float64", [of_standin(f, x[0])])
    for v in x:
        out = np.empty(())
        if not evaluate(function, [v], [out]):
            assert out == of_standin(f, v)
