"""A refusal names the operation, and the line in the function or its helper."""

import random

import numpy as np
import pytest
from many_slices import array

import xpapply

pytestmark = pytest.mark.usefixtures("plan_always")


TABLE = np.array([1.0, 2.0, 3.0, 4.0])


def helper(x):
    return x * 2


def _prints(v):
    print(v)
    return v.sum()


def _opens(v):
    with open("nowhere") as file:
        return file.read()


def _draws(v):
    w = v * 2
    return w + np.random.rand()


def _appends(v, log=[]):  # noqa: B006
    log.append(1)
    return v.sum()


def _sets_global(v):
    global SCALE
    SCALE = 2.0
    return v.sum()


def _sets_attribute(v):
    helper.calls = 1
    return v.sum()


def _writes_slice(v):
    w = v
    w[0] = 1
    return w


def _formats(v):
    w = v.max()
    return float(f"{w:.3f}")


def _hashes(v):
    return hash(v[0])


def _looks_up(v):
    return {1.0: 2.0}.get(v[0], 3.0)


def _writes_table(v):
    TABLE[0] = 1
    return v.sum()


def _no_rule(v):
    return np.poly(v)


def _views(v):
    return v.view(np.int64)


def _unknown(v):
    return random.SystemRandom().random() + v[0]


def _in_helper(v):
    return v.max() + _hashes(v)


@pytest.mark.parametrize(
    ("f", "words", "line"),
    [
        (_prints, "print", 1),
        (_opens, "open", 1),
        (_draws, "numpy.random.rand", 2),
        (_appends, "list", 1),
        (_sets_global, "SCALE", 2),
        (_sets_attribute, "calls", 1),
        (_writes_slice, "writes", 2),
        (_formats, "format", 2),
        (_hashes, "hash", 1),
        (_looks_up, "hash", 1),
        (_writes_table, "writes", 1),
        (_no_rule, "numpy.poly", 1),
        (_views, "view", 1),
        (_unknown, "random", 1),
    ],
    ids=lambda x: getattr(x, "__name__", str(x)),
)
def test_reasons_name_the_operation_and_the_line(f, words, line):
    plan = xpapply.explain(f, 1, array())
    assert not plan.vectorized
    why = "; ".join(plan.reasons)
    assert words in why
    assert f"test_refused_operations.py:{f.__code__.co_firstlineno + line}" in why


@pytest.mark.parametrize(
    ("f", "kind"),
    [
        (lambda v: (x for x in v), "generator"),
        (lambda v: map(abs, v), "map"),
        (lambda v: lambda: 1, "function"),
        (lambda v: None, "NoneType"),
    ],
)
def test_results_that_are_no_numbers(f, kind):
    (why,) = xpapply.explain(f, 1, array(40)).reasons
    assert why.startswith(f"it returns {kind} (test_refused_operations.py:")


def test_reasons_name_the_line_in_the_helper():
    why = "; ".join(xpapply.explain(_in_helper, 1, array()).reasons)
    assert f"test_refused_operations.py:{_hashes.__code__.co_firstlineno + 1}" in why
