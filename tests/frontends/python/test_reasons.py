"""The line in a reason is a line of the function, never of who called it."""

import re
import warnings

import numpy as np
import pytest
from scipy import optimize

import xpapply
from conftest import library
from xpapply.limits import LIMITS

A = np.random.default_rng(0).random((50, 12))
FILE = "test_reasons.py"


def returns_text(v):
    w = v + 1
    return str(w.sum())


def returns_a_set(v):
    return {v.sum()}


def reads_memory(v):
    w = v * 2
    return np.lib.stride_tricks.as_strided(w, (2, 2), (8, 8)).sum()


def raises_for_all(v):
    w = v[:0]
    return w.max()


def fits(v):
    return optimize.curve_fit(lambda x, a: a * x, np.arange(12.0), v)[0]


def returns_objects(v):
    return np.array([v.sum(), None])


def opens(v):
    with open("nothing") as file:
        return v.sum() + len(file.read())


@pytest.mark.parametrize(
    "f",
    [returns_text, returns_a_set, reads_memory, fits, returns_objects, opens],
    ids=lambda f: f.__name__,
)
def test_the_line_is_in_the_function(f):
    with warnings.catch_warnings(), xpapply.options(fallback="silent"):
        warnings.simplefilter("ignore")
        try:
            plan = xpapply.explain(f, -1, A)
        except FileNotFoundError:
            return
    assert not plan.vectorized
    first = f.__code__.co_firstlineno
    lines = [int(n) for why in plan.reasons for n in re.findall(rf"{FILE}:(\d+)", why)]
    assert lines, plan.reasons
    assert all(first <= n <= first + 4 for n in lines), plan.reasons


def test_the_line_of_an_exception():
    plan = xpapply.explain(raises_for_all, -1, A)
    assert not plan.vectorized
    line = raises_for_all.__code__.co_firstlineno + 2
    assert f"({FILE}:{line}" in plan.reasons[0]


def test_a_library_function_has_no_line():
    plan = xpapply.explain(np.poly, -1, A)
    assert not plan.vectorized
    assert FILE not in "; ".join(plan.reasons)
    assert "(?)" not in "; ".join(plan.reasons)


def test_the_line_is_in_the_module():
    torch = library("torch")

    class Net(torch.nn.Module):
        def forward(self, x):
            return x if x.sum() > 0 else -x

    net = Net().eval()
    plan = xpapply.explain(net, -1, A.astype(np.float32))
    reasons = "; ".join(plan.reasons)
    first = Net.forward.__code__.co_firstlineno
    assert f"{FILE}:{first + 1}" in reasons
    lstm = xpapply.explain(torch.nn.LSTMCell(12, 3).eval(), -1, A.astype(np.float32))
    assert FILE not in "; ".join(lstm.reasons)


def test_why_an_engine_was_refused():
    """A graph that torch has no operation for, on arrays that it could have taken."""
    library("torch")
    plan = xpapply.compile(lambda v: v[::-1] * 2, (12,), "float64")
    said = pytest.raises(xpapply.UnsupportedError, match="torch has no slices with negative")
    with xpapply.options(engine="torch"), said:
        plan(A, -1)
    np.testing.assert_array_equal(plan(A, -1), A[:, ::-1] * 2)


def test_the_line_where_the_number_of_values_counts():
    def steps(v):
        good = v[v > 0.3]
        w = good + 1
        return np.diff(w).max() if len(good) > 1 else 0.0

    x = np.random.default_rng(0).random((4000, 30))
    with LIMITS.set(paths=6), xpapply.options(fallback="silent"):
        xpapply.apply_along_axis(steps, -1, x)
        (said,) = xpapply.explain(steps, -1, x).reasons
    assert "one for each number of values that a mask leaves" in said
    line = steps.__code__.co_firstlineno + 3
    assert f"({FILE}:{line}: return np.diff" in said
    assert "; use what is known of the values of a mask" in said
