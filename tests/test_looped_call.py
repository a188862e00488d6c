"""The plain loop of vectorize: at which index it raises, however the arrays lie in memory."""

import copy
import gc
import math
import pickle
import sys
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import xpapply
from xpapply.functions.cache import cache_of
from xpapply.limits import LIMITS
from xpapply.planning.python.typed_loop import TypedLoop


@st.composite
def laid_out(draw):
    """An array of different integers, in any memory order."""
    shape = tuple(draw(st.lists(st.integers(1, 4), min_size=1, max_size=3)))
    x = np.arange(np.prod(shape)).reshape(shape).transpose(draw(st.permutations(range(len(shape)))))
    x = np.array(x, order=draw(st.sampled_from("CF")))
    x = x[..., :: draw(st.sampled_from([1, -1]))]
    return x[:: draw(st.sampled_from([1, 2, -1]))]


@given(laid_out(), st.data())
def test_the_note_names_the_index(x, data):
    shape = data.draw(st.sampled_from([x.shape, x.shape[-1:], ()]))
    y = np.ones(shape, order=data.draw(st.sampled_from("CF")))
    bad = data.draw(st.sampled_from(x.ravel().tolist()))
    otypes, swapped = data.draw(st.sampled_from([None, "d"])), data.draw(st.booleans())

    def f(*given):
        if given[swapped] == bad:
            raise KeyError(bad)
        return given[0]

    operands = (y, x) if swapped else (x, y)
    with xpapply.options(engine="loop"), pytest.raises(KeyError) as info:
        xpapply.vectorize(f, otypes=otypes)(*operands)
    index = tuple(map(int, np.argwhere(x == bad)[0]))
    assert info.value.__notes__ == [f"raised at the index {index} of the loop dimensions"]


# --- what stands around f -------------------------------------------------------------------------


def frames(call):
    """How many Python frames a call enters, but for those of functions in this file."""
    entered = []
    gc.disable()  # what is called when it has run is none of ours
    sys.setprofile(
        lambda frame, event, _: event == "call" and entered.append(frame.f_code.co_filename)
    )
    try:
        call()
    finally:
        sys.setprofile(None)
        gc.enable()
    return len([name for name in entered if name != __file__])


def sign(a):
    return "neg" if a < 0 else "pos"


def both(a):
    return a, "x"


def shown(a, b=1):
    return f"{a}{b}"


AROUND = {
    "texts": (0, sign, {}, {}),
    "otypes": (0, sign, {"otypes": ["U3"]}, {}),
    "objects": (0, sign, {"otypes": [object]}, {}),
    "two results": (0, both, {}, {}),
    "two otypes": (0, both, {"otypes": [float, object]}, {}),
    "keywords": (1, shown, {}, {"b": 2}),
    "excluded": (1, shown, {"excluded": {"b"}}, {"b": 2}),
    "cache": (1, sign, {"cache": True}, {}),
}


SIGNATURES = {
    "(n)->()": (0, lambda v: str(v[0])),
    "(n)->(k)": (0, lambda v: [str(v[0]), "x"]),
    "()->()": (0, str),
}


@pytest.mark.parametrize("signature", SIGNATURES)
def test_nothing_stands_around_functions_of_slices(signature):
    most, f = SIGNATURES[signature]
    v, x = xpapply.vectorize(f, signature=signature), np.ones((400, 2))
    with xpapply.options(fallback="silent"):
        v(x)
        many, few = frames(lambda: v(x)), frames(lambda: v(x[:200]))
    assert abs(many - few - most * len(x) / 2) < 100


def counted():
    count = 0

    def f(v):
        nonlocal count
        count += 1
        return count

    return f


def several_ways(v):
    return hash(v[0]) if v[0] > 0.5 else len(v)


REFUSED = {
    "it counts": counted(),
    "it branches": several_ways,
    "it asks for its time": lambda v: time.time() and v[0],
    "it returns texts": lambda v: str(v[0])[:3],
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_function_that_runs_in_the_loop_is_not_looked_at_before_each(name):
    """A look takes some tenth of a millisecond, which is more than short loops may be dearer."""
    f, x = REFUSED[name], np.linspace(0, 1, 200).reshape(100, 2)
    # as where loops have taken long enough for a plan
    long_enough = LIMITS.set(first_loops=0.0, plan_worth=0.0, typed_short=0.0)
    with xpapply.options(fallback="silent"), long_enough:
        for _ in range(30):
            xpapply.apply_along_axis(f, 1, x)
        found = sorted(frames(lambda: xpapply.apply_along_axis(f, 1, x)) for _ in range(10))
    assert found[8] < 50  # in one of them it may be looked at


def bits(n):
    count = 0
    while n:
        n &= n - 1
        count += 1
    return count


def steps_of_slice(v):
    count = 0
    while v[0] > count and v[1] < 9:
        count += 1
    return count


@pytest.mark.parametrize("several", [True, False], ids=["vectorize", "apply_along_axis"])
def test_few_slices_of_a_function_that_was_compiled_are_not_decided_on_anew(several):
    """The loop takes less there; what compiling waited for is over, and ends no loop."""
    pytest.importorskip("llvmlite")
    f = xpapply.vectorize(bits) if several else None
    few = np.arange(20) if several else np.arange(40).reshape(20, 2) % 7

    def call(x):
        return f(x) if several else xpapply.apply_along_axis(steps_of_slice, 1, x)

    soon = LIMITS.set(first_loops=0.0, plan_worth=0.0, typed_short=0.0, typed_worth=0.05)
    with xpapply.options(fallback="silent"), soon:
        compiled = cache_of(bits if several else steps_of_slice)[0].traced
        for _ in range(20_000):
            if any(isinstance(x, TypedLoop) for x in compiled.values()):
                break
            call(few)
        else:
            pytest.fail("it was never compiled")
        found = sorted(frames(lambda: call(few)) for _ in range(20))
    assert found[15] < 50, found


def test_a_function_that_counts_is_one_function():
    f, x = counted(), np.zeros((40, 2))
    with xpapply.options(fallback="silent"):
        for k in range(4):
            found = xpapply.apply_along_axis(f, 1, x)
            np.testing.assert_array_equal(found, np.arange(1, 41) + 40 * k)


def test_a_module_is_not_walked_for_each_slice():
    torch = pytest.importorskip("torch")

    class Either(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = torch.nn.Linear(4, 2), torch.nn.Linear(4, 2)

        def forward(self, v):
            return self.a(v) if v.mean() > 0 else self.b(v)

    m, x = Either().eval(), np.linspace(-1, 1, 1600).reshape(400, 4)
    with xpapply.options(fallback="silent"):
        first = xpapply.apply_along_axis(m, 1, x)
        few = frames(lambda: xpapply.apply_along_axis(m, 1, x[:200]))
        many = frames(lambda: xpapply.apply_along_axis(m, 1, x))
        m.double()
        again = xpapply.apply_along_axis(m, 1, x)
    assert many - few < 35 * 200
    assert (first.dtype, again.dtype) == ("float32", "float64")
    np.testing.assert_allclose(first, again, atol=1e-6)


@pytest.mark.parametrize("name", AROUND)
def test_next_to_nothing_stands_around_f(name):
    most, function, made, named = AROUND[name]

    v = xpapply.vectorize(function, **made)
    with xpapply.options(fallback="silent"):
        v(np.arange(2000.0), **named)
        few = frames(lambda: v(np.arange(3000.0), **named))
        many = frames(lambda: v(np.arange(5000.0), **named))
    assert abs(many - few - most * 2000) < 900  # one of them may be looked at anew


@pytest.mark.parametrize("given", [3.0, 3, "abc", [1.0, 2.0], np.arange(5.0), np.array(2.0)])
def test_few_elements_are_not_looked_at(given):
    f = str
    own, ours = np.vectorize(f), xpapply.vectorize(f)
    ours(given)  # with it, the options of the environment are read
    assert frames(lambda: ours(given)) <= frames(lambda: own(given)) + 12


def test_few_objects_are_not_looked_at():
    own, ours = (made(sign, otypes=[object]) for made in (np.vectorize, xpapply.vectorize))
    for x in 3.0, np.arange(5.0):
        ours(x)
        entered = [frames(lambda made=made, x=x: made(x)) for made in (ours, own)]
        assert entered[0] <= entered[1] + 12


def test_the_loop_is_not_decided_on_anew():
    def f(a):
        return "yes" if a in (1, "b") else "no"

    v, own, x = xpapply.vectorize(f), np.vectorize(f), np.array(["a", "b"] * 20)
    v(x)
    assert frames(lambda: v(x)) <= frames(lambda: own(x)) + 15
    again = xpapply.vectorize(f)
    assert frames(lambda: again(x)) <= frames(lambda: own(x)) + 25


AGAIN = {
    "builtin": (math.gcd, {}, (np.arange(40), np.arange(40) + 7)),
    "list of otypes": (lambda a: [a], {"otypes": [object]}, (np.arange(40.0),)),
    "text of otypes": (lambda a: [a], {"otypes": "O"}, (np.arange(40.0),)),
    "a slice": (lambda v: v[0], {"signature": "(n)->()"}, (np.ones((1, 4)),)),
    "two of several arrays": (
        lambda v, w: (v[0], str(w)),
        {"signature": "(n),(n)->(),()"},
        (np.ones((8, 4)), np.ones(4)),
    ),
}


@pytest.mark.parametrize("name", AGAIN)
def test_a_repeated_loop_is_found_at_once(name):
    f, how, args = AGAIN[name]
    ours, own = xpapply.vectorize(f, **how), np.vectorize(f, **how)
    with LIMITS.set(vectorize_unknown=128, plan_worth=60.0), xpapply.options(fallback="silent"):
        for _ in range(4):
            ours(*args)
        own(*args)
        assert frames(lambda: ours(*args)) <= frames(lambda: own(*args)) + 10


def test_a_repeated_loop_is_another_one_for_other_otypes_and_core_dims():
    v, x = xpapply.vectorize(lambda a: a * 2, otypes=[float]), np.arange(40)
    for dtype in (float, int, np.int8):
        v.otypes[0] = np.dtype(dtype).char  # NumPy's list, in place
        for _ in range(3):
            assert v(x).dtype == dtype
    v = xpapply.vectorize(lambda v: v[::-1], signature="(n)->(n)")
    for n in (3, 5, 3, 4):
        rows = np.random.default_rng(n).random((8, n))
        for _ in range(3):
            np.testing.assert_array_equal(v(rows), rows[:, ::-1])


def test_masked_is_so_among_several_results():
    def f(v):
        return (np.ma.masked if v[0] > 1 else v[0]), v[1]

    found, other = xpapply.vectorize(f, signature="(n)->(),()")(np.arange(6.0).reshape(3, 2))
    assert found.mask.tolist() == [False, True, True]
    assert type(other) is np.ndarray


def test_a_new_function_is_called_though_otypes_are_given():
    v = xpapply.vectorize(str, otypes=[object])
    assert list(v([1, 2])) == ["1", "2"]
    v.pyfunc = float
    assert list(v([1, 2])) == [1.0, 2.0]
    for made in copy.copy(v), copy.deepcopy(v), pickle.loads(pickle.dumps(v)):
        assert list(made([1, 2])) == [1.0, 2.0]


def test_what_f_reaches_may_change_after_it_was_looped_over():
    factor = ["a"]

    def f(a):
        return factor[0] * a

    v, x = xpapply.vectorize(f), np.arange(1, 400)
    with xpapply.options(fallback="silent"):
        for factor[0] in "a", 2.5, "b", 3, 1j:
            for _ in range(3):
                want, got = np.vectorize(f)(x), v(x)
                assert got.dtype == want.dtype
                np.testing.assert_array_equal(got, want)


def test_options_hold_for_few_elements_too():
    v, x = xpapply.vectorize(lambda a: str(a)), np.arange(5.0)
    v(x)
    with xpapply.options(fallback="raise"), pytest.raises(xpapply.UnsupportedError):
        v(x)
    with xpapply.options(engine="numpy"), pytest.raises(xpapply.UnsupportedError):
        v(x)


def reversed_objects(x):
    return x.astype(object)[::-1]


@pytest.mark.parametrize("otypes", [None, "O", "OO"])
@pytest.mark.parametrize("n", [1, 5, 300])
@pytest.mark.parametrize("kind", [np.asarray, list, np.ma.array, reversed_objects])
def test_the_note_of_any_call(n, otypes, kind):
    x = np.arange(n) + 1000
    for bad in {1000, 1000 + n // 2, 999 + n}:
        seen = []

        def f(a, *, bad=bad, seen=seen):
            seen.append(a)
            if a == bad and (otypes or len(seen) > 1):
                raise KeyError(a)
            return (None, a) if otypes == "OO" else None

        given = kind(x)
        index = tuple(map(int, np.argwhere(np.asarray(given) == bad)[0]))
        with xpapply.options(fallback="silent"), pytest.raises(KeyError) as info:
            xpapply.vectorize(f, otypes=otypes)(given)
        assert info.value.__notes__ == [f"raised at the index {index} of the loop dimensions"]


# --- what random calls found ----------------------------------------------------------------------


def test_what_a_signature_promises_is_asked_of_each():
    """Another one of the same function was traced before."""

    def f(a):
        return a * 2.5 + 1

    x = np.arange(4000.0)
    xpapply.vectorize(f, signature="()->()")(x)
    for signature in "()->(k)", "()->(),()":
        silent = xpapply.options(fallback="silent")
        with silent, pytest.raises(ValueError, match=r"dimensions|outputs"):
            xpapply.vectorize(f, signature=signature)(x)


@pytest.mark.parametrize("signature", ["()->()", "(n)->()", None])
def test_results_that_are_classes(signature):
    for x in np.ones((3, 2)), np.ma.ones((3, 2)):
        want = np.vectorize(type, signature=signature)(x)
        got = xpapply.vectorize(type, signature=signature)(x)
        assert (got.shape, got.dtype) == (want.shape, want.dtype)
        assert got.ravel().tolist() == want.ravel().tolist()


@pytest.mark.parametrize("result", [(1, 2), [1], np.array([1, 2]), np.ma.masked, {}])
@pytest.mark.parametrize("x", [0.5, np.array(0.5), np.array([0.5]), [0.5], np.ones((1, 1))])
def test_containers_of_arrays_of_no_dims(x, result):
    want = np.vectorize(lambda a: result, otypes=[object])(x)
    for how in {}, {"engine": "loop"}, {"workers": 1}:
        with xpapply.options(**how):
            got = xpapply.vectorize(lambda a: result, otypes=[object])(x)
        assert (got.shape, got.dtype, str(got)) == (want.shape, want.dtype, str(want))
