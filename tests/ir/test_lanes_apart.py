"""Arrays that lanes give, which lie beside each other and are turned into rows."""

import numpy as np
import pytest
from loop_functions import for_others, machine_code, typed_function

from xpapply.backends.cpu import typed as backend
from xpapply.backends.cpu.typed import LANES, ONE
from xpapply.codegen.llvm.target import TARGETS
from xpapply.codegen.llvm.typed import kernel_of_lanes

RNG = np.random.default_rng(11)
needs_cpu = pytest.mark.skipif(backend.why_not() is not None, reason=str(backend.why_not()))


def smoothed(v):
    out = np.zeros(len(v))
    s = 0.0
    for i in range(len(v)):
        s = 0.5 * s + v[i]
        out[i] = s
    return out


def counted(v):
    out = np.zeros(len(v), dtype=np.int64)
    n = 0
    for i in range(len(v)):
        if v[i] > 0:
            n += 1
        out[i] = n
    return out


def either(v):
    """Some lanes end before the others, with another array."""
    out, other = np.zeros(len(v)), np.ones(len(v))
    for i in range(len(v)):
        out[i] = 2 * v[i]
        if v[i] > 1.5:
            return other
        other[i] = -v[i]
    return out


def left(v):
    """Some slices are left to the function."""
    out = np.zeros(len(v))
    for i in range(len(v)):
        if v[i] > 2.5:
            raise ValueError
        out[i] = 3 * v[i]
    return out


def single(v):
    out = np.zeros(len(v), dtype=np.float32)
    for i in range(len(v)):
        out[i] = v[i]
    return out


FUNCTIONS = [smoothed, counted, either, left, single]


def results(f, arr, form, lies):
    """Results and marks; results lie in rows, in columns or apart."""
    made, (like,) = typed_function(f, np.full(arr.shape[1], 0.25))
    n, m = arr.shape
    if lies == "columns":
        out = np.full((m, n), 7, like.dtype).T
    else:
        out = np.full((n, 2 * m), 7, like.dtype)[:, : 2 * m : 2] if lies == "apart" else None
    out = np.full((n, m), 7, like.dtype) if out is None else out
    marks = backend.Compiled(made).run([arr], [out], 1, form=form)
    return out, marks


@needs_cpu
@pytest.mark.parametrize("lies", ["rows", "columns", "apart"])
@pytest.mark.parametrize("f", FUNCTIONS, ids=lambda f: f.__name__)
def test_results_are_those_of_one_after_the_other(f, lies):
    for length in (1, 3, 4, 5, 8, 21):
        arr = RNG.standard_normal((75, length))
        want, marks = results(f, arr, ONE, lies)
        found, again = results(f, arr, LANES, lies)
        np.testing.assert_array_equal(again, marks)
        np.testing.assert_array_equal(found[marks == 0], want[marks == 0])
        for row, x in zip(want[marks == 0], arr[marks == 0], strict=True):
            np.testing.assert_array_equal(row, f(x))


@needs_cpu
@pytest.mark.parametrize("count", [1, 2, 15, 16, 17, 31, 33, 47])
def test_the_last_slice_fills_the_lanes(count, monkeypatch):
    """None is done again for that, and what lies after results and marks stays as it was."""
    runs = []
    go_again = backend.Compiled._go_again

    def counted_again(self, form, *given):
        runs.append(go_again(self, form, *given))
        return runs[-1]

    monkeypatch.setattr(backend.Compiled, "_go_again", counted_again)
    arr = RNG.standard_normal((count, 5))
    made, _ = typed_function(smoothed, arr[0])
    whole = np.full((count + 3, 5), 7.0)
    marks = backend.Compiled(made).run([arr], [whole[:count]], 1, form=LANES)
    assert runs == [0]
    assert not marks.any()
    np.testing.assert_array_equal(whole[:count], [smoothed(v) for v in arr])
    assert (whole[count:] == 7.0).all()


@for_others
def test_texts_compile_for_other_cpus(name):
    made, _ = typed_function(either, np.full(5, 0.25))
    text = kernel_of_lanes(made, TARGETS[name], 8, True)
    assert "@apart.float64" in text
    machine_code(text, name)
