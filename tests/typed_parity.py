"""What a typed function does with slices, compiled and in its evaluator, against Python."""

import warnings

import numpy as np

from xpapply.backends.cpu.typed import Compiled
from xpapply.frontends.python.source.typed import Expected, Input, typed
from xpapply.functions.guards import Guards
from xpapply.ir.typed import Array
from xpapply.ir.typed.evaluate import evaluate
from xpapply.ir.typed.function import WARNED
from xpapply.ir.typed.verify import verify


def same(a, b):
    """Whether two results have the same bits, but for the payload of NaN."""
    a, b = np.asarray(a), np.asarray(b)
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    if a.dtype.kind == "c":
        return same(a.real, b.real) and same(a.imag, b.imag)
    if a.dtype.kind != "f":
        return np.array_equal(a, b)
    nan = np.isnan(a)
    return np.array_equal(a, b, equal_nan=True) and (np.signbit(a) == np.signbit(b))[~nan].all()


def plainly(f, v):
    """What a function gives or raises, and whether it warns."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            return f(v), bool(said)
        except Exception as error:
            return error, True


def marked(f, arr):
    """How many slices are marked for which `f` neither raises nor warns; all others are right."""
    wanted = [plainly(f, v.copy()) for v in arr]
    first = next(found for found, _ in wanted if not isinstance(found, Exception))
    several = isinstance(first, tuple)
    expected = [
        Expected(np.asarray(p).dtype.name, np.shape(p)) for p in (first if several else (first,))
    ]
    guards = Guards()
    guards.start(f)
    made = typed(f, [Input(0)], {}, [Array(arr.dtype.name, arr.ndim - 1)], expected, guards)
    verify(made)
    outs = [np.zeros((len(arr), *e.shape), e.dtype) for e in expected]
    marks = Compiled(made).run([arr.copy()], outs, 1)
    needless = 0
    for k, (found, left) in enumerate(wanted):
        mine = [np.zeros(e.shape, e.dtype) for e in expected]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            mark = evaluate(made, [arr[k].copy()], mine)
        if WARNED not in (mark, marks[k]):  # a warning that one of them may note without need
            assert mark == marks[k], (arr[k], mark, marks[k])
        if left:
            assert 0 not in (mark, marks[k]), (arr[k], found)
        elif marks[k]:
            needless += 1
        else:
            for out, own, want in zip(outs, mine, found if several else (found,), strict=True):
                assert same(out[k], np.asarray(want).astype(out.dtype)), (arr[k], out[k], want)
                assert mark or same(own, out[k]), (arr[k], own, out[k])
    return needless
