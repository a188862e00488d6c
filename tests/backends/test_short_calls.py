"""Compiled loops on few slices, again and again: the memory of a call is the next one's."""

import math
import threading

import numpy as np
import pytest
from loop_functions import typed_function

from xpapply.backends.cpu import typed as backend
from xpapply.backends.cpu.typed_calls import LANES, ONE
from xpapply.ir.typed.function import WARNED
from xpapply.limits import LIMITS

pytestmark = pytest.mark.skipif(backend.why_not() is not None, reason=str(backend.why_not()))
RNG = np.random.default_rng(0)


def steps(v):
    """Newton's steps, which warn where they divide by zero, and raise where there are too many."""
    x, count = v[0], 0
    while abs(x) > 1.0:
        x = x / v[1]
        count += 1
        if count > 40:
            raise ValueError("it does not end")
    return count


def first_above(v):
    for i in range(len(v)):
        if v[i] > 0.9:
            return i
    return -1


def settled(f, arr, form):
    """The compiled function, whose trial of both forms has ended."""
    made, _ = typed_function(f, arr[0])
    compiled = backend.Compiled(made)
    out = np.zeros(len(arr), np.int64)
    compiled.run([arr], [out], 1, form=form)
    (layout,) = compiled._layouts.values()
    layout.lanes.is_good = form == LANES
    layout.rates[form] = 1e-9
    assert layout.settled() == form
    return compiled, layout


def fresh(count, *, zero=0.0, endless=0.0):
    """Slices, some of which the function warns of or raises for."""
    arr = np.stack([RNG.uniform(0, 900, count), RNG.uniform(1.5, 3, count)], axis=1)
    arr[RNG.random(count) < zero, 1] = 0.0
    arr[RNG.random(count) < endless, 1] = 1.0
    return arr


def of(arr):
    """Results where nothing is wrong, and where something is."""
    bad = (arr[:, 0] > 1) & (arr[:, 1] <= 1)
    return np.array([0 if b else steps(v) for v, b in zip(arr, bad, strict=True)]), bad


@pytest.mark.parametrize("form", [ONE, LANES])
def test_marks_come_and_go(form):
    compiled, layout = settled(steps, fresh(203), form)
    for k in range(40):
        share = 0.1 if k % 3 == 1 else 0.0
        arr = fresh(203, zero=share, endless=share * (k % 2))
        want, bad = of(arr)
        out = np.full(203, -7)
        marks = compiled.run([arr], [out], 1, short=True)
        if not bad.any():
            assert marks is None or not marks.any()
            np.testing.assert_array_equal(out, want)
            continue
        np.testing.assert_array_equal(marks != 0, bad)
        np.testing.assert_array_equal(out[~bad], want[~bad])
        assert (marks[bad & (arr[:, 1] == 1.0)] != WARNED).all()
    assert len(layout.kits) <= 1


def test_marks_that_were_given_out_stay_as_they_are():
    compiled, _ = settled(steps, fresh(50), ONE)
    arr = fresh(50)
    arr[::7, :] = 5.0, 0.0
    marks = compiled.run([arr], [np.zeros(50, int)], 1, short=True)
    before = marks.copy()
    for _ in range(3):
        assert compiled.run([fresh(50)], [np.zeros(50, int)], 1, short=True) is None
    np.testing.assert_array_equal(marks, before)


def test_a_kernel_that_may_mark_is_asked_for_the_marks():
    """LLVM may do several slices at once, which then do not say whether one is marked."""
    arr = RNG.random((100, 12))
    compiled, layout = settled(first_above, arr, ONE)
    out = np.zeros(100, int)
    assert compiled.run([arr], [out], 1, short=True) is None
    np.testing.assert_array_equal(out, [first_above(v) for v in arr])
    assert len(layout.kits) == 1


@pytest.mark.parametrize("form", [ONE, LANES])
def test_threads_have_memory_of_their_own(form):
    compiled, layout = settled(steps, fresh(300), form)
    wrong = []

    def work(seed):
        rng = np.random.default_rng(seed)
        arr = np.stack([rng.uniform(0, 900, 300), rng.uniform(1.5, 3, 300)], axis=1)
        want, _ = of(arr)
        for _ in range(200):
            out = np.full(300, -7)
            marks = compiled.run([arr], [out], 1, short=True)
            if (marks is not None and marks.any()) or (out != want).any():
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong
    assert len(layout.kits) <= 4


def test_threads_that_begin_at_once_read_one_table_of_functions(monkeypatch):
    """Each has asked for the functions; no table goes whose address calls have."""

    def f(v):
        return math.exp(v[0]) + math.log(v[1])

    made, _ = typed_function(f, np.ones(2))
    compiled = backend.Compiled(made)
    assert compiled.made.externals
    together, asked = threading.Barrier(2, timeout=10), backend.externals.address
    last = compiled.made.externals[-1]

    def address(*name):
        found = asked(*name)
        if name == last:
            together.wait()
        return found

    monkeypatch.setattr(backend.externals, "address", address)
    found = []
    some = [threading.Thread(target=lambda: found.append(compiled._addresses())) for _ in range(2)]
    for x in some:
        x.start()
    for x in some:
        x.join()
    assert len(found) == 2
    assert found[0] is found[1] is compiled._addresses()


def test_what_takes_long_now_is_shared_again():
    """A rate that has grown ends the short way, until slices take less."""
    compiled, layout = settled(steps, fresh(100), ONE)
    layout.rates[ONE] = 1.0
    assert compiled._workers(ONE, layout) == 0
    assert not compiled.run([fresh(100)], [np.zeros(100, int)], 1, short=True).any()
    assert compiled._workers(ONE, layout) > 0


@pytest.mark.parametrize("form", [ONE, LANES])
def test_what_first_calls_decided_is_looked_at_once_more(form):
    """They touch memory that the process did not have, which says little of either form."""
    compiled, layout = settled(steps, fresh(100), form)
    layout.lanes.looks, layout.lanes.uses = LIMITS.typed_lanes_looks, 0
    with LIMITS.set(typed_lanes_later=4, typed_lanes_price=0.0):
        assert [layout.settled() for _ in range(5)] == [form, form, form, "", ""]
        assert layout.lanes.is_good is None
        for _ in range(40):
            compiled.run([fresh(100)], [np.zeros(100, int)], 1, short=True)
        assert layout.lanes.is_good is not None
        assert layout.settled() == (LANES if layout.lanes.is_good else ONE)


def test_forms_that_are_no_choice_are_not_looked_at_again():
    _, layout = settled(steps, fresh(100), ONE)
    layout.lanes.looks = 0  # as where a function cannot go side by side
    with LIMITS.set(typed_lanes_later=4, typed_lanes_price=0.0):
        assert {layout.settled() for _ in range(20)} == {ONE}


def test_elements_at_odd_places_are_refused():
    arr = fresh(60)
    compiled, _ = settled(steps, arr, ONE)
    odd = np.frombuffer(b"\0" + arr.tobytes(), np.uint8)[1:].view(float).reshape(arr.shape)
    assert not odd.flags.aligned
    with pytest.raises(backend.UnsupportedError, match="odd places"):
        compiled.run([odd], [np.zeros(60, int)], 1, short=True)
