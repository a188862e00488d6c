"""The thin loop gives what NumPy's own loop gives, call for call."""

import warnings

import numpy as np
import pytest

import xpapply
from xpapply.loop import reference, thin

RNG = np.random.default_rng(0)
ARRAYS = {
    "C": RNG.random((4, 5)),
    "F": np.asfortranarray(RNG.random((4, 5))),
    "steps": RNG.random((8, 10))[::2, ::-2],
    "3 axes": RNG.random((3, 4, 5)),
    "4 axes": RNG.random((2, 1, 3, 4)).transpose(3, 0, 2, 1),
    "integers": RNG.integers(0, 9, (4, 5), np.uint8),
    "foreign": RNG.random((4, 5)).astype(">f4"),
    "broadcast": np.broadcast_to(RNG.random(5), (4, 5)),
    "texts": np.array([["a", "bc"], ["d", ""]]),
    "objects": np.array([[1, None], ["x", 2.5]], object),
}
RESULTS = {
    "number": lambda v: v[0],
    "Python's": lambda v: 1 if v[0] == v[-1] else 2.5,
    "list": lambda v: [v[0], v[-1]],
    "matrix": lambda v: np.zeros((2, 3)) + len(v),
    "slice": lambda v: v,
    "text": lambda v: str(v[0]),
    "none": lambda v: None,
    "empty": lambda v: v[:0],
    "one in an array": lambda v: [len(v)],
    "masked": lambda v: np.ma.masked_array([1.0, 2.0], [0, 1]),
    "np.matrix": lambda v: np.matrix([[1, 2]]),
    "date": lambda v: np.datetime64("2020-01-01"),
    "0-d": lambda v: np.array(2.0),
    "record": lambda v: np.array((1, 2.0), "i4,f8")[()],
}


def outcome(call):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        try:
            found = call()
        except Exception as error:
            return type(error), str(error), error.__cause__, [str(w.message) for w in seen]
    return type(found), found.dtype, found.shape, found.tolist(), [str(w.message) for w in seen]


ONE_SLICE = {"one": (1, 5), "one of three": (1, 1, 5), "in the middle": (1, 4, 1)}
ARRAYS |= {name: RNG.random(shape) for name, shape in ONE_SLICE.items()}


@pytest.mark.parametrize("arr", ONE_SLICE)
def test_the_result_of_a_single_slice_is_its_own(arr):
    x, kept = ARRAYS[arr].copy(), np.zeros(3)
    axis = np.argmax(x.shape)
    assert not np.shares_memory(reference.apply(lambda v: v, axis, x, (), {}), x)
    assert not np.shares_memory(reference.apply(lambda v: kept, axis, x, (), {}), kept)


@pytest.mark.filterwarnings("ignore:.*matrix subclass")
@pytest.mark.parametrize("result", RESULTS)
@pytest.mark.parametrize("arr", ARRAYS)
def test_as_numpys(arr, result):
    x, f = ARRAYS[arr], RESULTS[result]
    for axis in range(-x.ndim, x.ndim):
        want = outcome(lambda: np.apply_along_axis(f, axis, x))  # noqa: B023
        assert repr(outcome(lambda: reference.apply(f, axis, x, (), {}))) == repr(want)  # noqa: B023
        known = [f(v) for v in np.moveaxis(x, axis, -1).reshape(-1, x.shape[axis])[:2]]
        got = outcome(lambda: reference.apply(f, axis, x, (), {}, known))  # noqa: B023
        assert repr(got[:-1]) == repr(want[:-1])  # what the first calls warned of came before


@pytest.mark.parametrize("first", [0.0, [0, 0], np.zeros((2, 1)), "a", np.int8(1), np.zeros(1)])
@pytest.mark.parametrize(
    "other", [1.5, np.nan, [1, 2], [3.0], np.ones((2, 3)), "abc", 300, None, [[1], [2]], 10**30, 1j]
)
def test_results_of_other_kinds(first, other):
    def f(v):
        return first if v[0] == 0 else other

    x = np.arange(6.0).reshape(3, 2)
    want = outcome(lambda: np.apply_along_axis(f, 1, x))
    assert repr(outcome(lambda: reference.apply(f, 1, x, (), {}))) == repr(want)


def test_slices_are_views_of_the_array_itself():
    x = np.zeros((3, 2, 4))
    bases = []

    def f(v):
        bases.append(v.base)
        v += len(bases)
        return v.flags.writeable

    assert reference.apply(f, 1, x, (), {}).all()
    assert all(b is x for b in bases)
    want = np.zeros((3, 2, 4))
    bases.clear()
    np.apply_along_axis(f, 1, want)
    np.testing.assert_array_equal(x, want)


def test_arguments_calls_and_order():
    calls = []

    def f(v, a, k=0):
        calls.append((v.tolist(), a, k))
        return a + k

    x = np.arange(12.0).reshape(2, 3, 2)
    reference.apply(f, 1, x, (1,), {"k": 2})
    mine, calls[:] = list(calls), []
    np.apply_along_axis(f, 1, x, 1, k=2)
    assert mine == calls
    calls.clear()
    reference.apply(f, 1, x, (1,), {"k": 2}, [3, 3])
    assert mine[2:] == calls


def test_results_that_f_writes_into_later():
    buffer, listed = np.zeros(2), [0.0, 0.0]

    def in_array(v):
        buffer[:] = v[:2]
        return buffer

    def in_list(v):
        listed[:] = v[:2].tolist()
        return listed

    x = np.random.default_rng(0).random((400, 3))
    for f in (in_array, in_list):
        with xpapply.options(fallback="silent"):
            np.testing.assert_array_equal(
                xpapply.apply_along_axis(f, 1, x), np.apply_along_axis(f, 1, x)
            )


def test_where_it_was():
    def f(v):
        if v[0] == 5:
            raise KeyError("x") from OSError("y")
        return [0, 0] if v[0] == 7 else 0

    x = np.arange(6.0).reshape(3, 1, 2)
    with pytest.raises(KeyError) as error:
        reference.apply(f, 1, x, (), {})
    assert isinstance(error.value.__cause__, OSError)
    assert error.value.__notes__ == ["raised at the slice arr[2, :, 1]"]
    x[1, 0, 1] = 7
    with pytest.raises(ValueError, match="could not broadcast") as error:
        xpapply.apply_along_axis(f, 1, x)
    shapes, place = error.value.__notes__
    assert "shape (2,), and () for the first slice" in shapes
    assert place == "raised at the slice arr[1, :, 1]"


@pytest.mark.filterwarnings("ignore:.*matrix subclass")
def test_what_it_takes():
    x = np.zeros((2, 3))
    assert thin.takes(x, -2)
    no = [(x, 2), (x[0], 0), (x[:0], 1), (np.ma.array(x), 1), (np.matrix(x), 1), (x, True)]
    assert not any(thin.takes(*given) for given in no)


def test_one_frame_around_f():
    import sys

    frames = []

    def f(v):
        frames.append((sys._getframe(1).f_code.co_name, sys._getframe(1).f_globals["__name__"]))
        return 0

    reference.apply(f, 1, np.zeros((3, 2)), (), {})
    assert {frame[0] for frame in frames} == {"apply"}
    assert {frame[1] for frame in frames} == {"xpapply.loop.thin"}
