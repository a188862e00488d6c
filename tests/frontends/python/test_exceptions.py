"""Exceptions of a function pass unchanged, whichever slice raises them."""

import warnings

import numpy as np
import pytest
from calls_of import calls_of
from many_slices import SLICES, array

import xpapply

pytestmark = pytest.mark.usefixtures("plan_always")


class Odd(Exception):
    """With more than a message."""

    def __init__(self, value, *, code):
        super().__init__(f"odd {value}", code)
        self.code = code


def _raise_middle(v):
    if v[0] == 77:
        raise Odd(7, code=3)
    return v.sum()


def _raise_with_value(v):
    if v[0] == 77:
        raise ValueError("value is", float(v[0]))
    return v.sum()


def _raise_formatted(v):
    if v[0] > 70:
        raise RuntimeError(f"slice starts with {v[0]:.2f}")
    return v.sum()


def _raise_from(v):
    try:
        if v[0] == 77:
            raise KeyError("inner")
    except KeyError as error:
        raise LookupError("outer") from error
    return v.sum()


def _helper(x):
    if x == 77:
        raise ZeroDivisionError("mine")
    return x


def _raise_in_helper(v):
    return _helper(v[0]) + v[1]


def _assertion(v):
    assert v[0] != 77, "not this one"
    return v.max()


def _key(v):
    return {0: 1.0, 1: 2.0}[int(v[0] == 77) * 5]


def _index(v):
    return v[int(v[0] == 77) * 10]


def _divide(v):
    return 1.0 / float(v[0] - 77)


def _to_int(v):
    return int(v[0] / (v[0] - 77))


def _stop(v):
    if v[0] == 77:
        return next(iter(()))
    return v.sum()


def _numpy_error(v):
    return np.linalg.inv(np.array([[v[0] - 77, 0.0], [0.0, 1.0]])).ravel()


def _empty(v):
    return v[v < 70].max() if v[0] == 77 else v[v > 1e9].max()


def _shape(v):
    return v[:2] if v[0] == 77 else v


def _exit(v):
    if v[0] == 77:
        raise SystemExit(3)
    return v.sum()


def _interrupt(v):
    if v[0] == 77:
        raise KeyboardInterrupt
    return v.sum()


def _unbound(v):
    if v[0] != 77:
        x = 1.0
    return x


def _attribute(v):
    return (v[0] if v[0] != 77 else "text").real


def _argument(v):
    return math_like(v[0], 1) if v[0] == 77 else v.sum()


def math_like(x):
    return x


def _strict(v):
    with np.errstate(divide="raise"):
        return 1 / (v - 77)


def _swallowed(v):
    try:
        return int(1 / float(v[0] - 77))
    except ZeroDivisionError:
        return -1


def _swallowed_and_raised(v):
    try:
        x = 1 / float(v[0] - 77)
    except ZeroDivisionError as error:
        raise Odd(str(error), code=1) from None
    return x


@pytest.mark.parametrize(
    "f",
    [
        *(_raise_middle, _raise_with_value, _raise_formatted, _raise_from, _raise_in_helper),
        *(_assertion, _key, _index, _divide, _to_int, _stop, _numpy_error, _empty, _shape, _exit),
        *(_interrupt, _unbound, _attribute, _argument, _strict, _swallowed, _swallowed_and_raised),
    ],
    ids=lambda f: f.__name__,
)
@pytest.mark.parametrize("at", [0, SLICES // 2, SLICES - 1])
def test_exceptions_pass_unchanged(f, at):
    arr = array()
    arr[at, 0] = 77
    raised = []
    for apply in (np.apply_along_axis, xpapply.apply_along_axis):
        try:
            raised.append(apply(f, 1, arr))
        except BaseException as error:
            raised.append(error)
    want, got = raised
    if not isinstance(want, BaseException):
        np.testing.assert_array_equal(got, want)
        return
    assert type(got) is type(want)
    assert str(got) == str(want)
    assert got.args == want.args
    assert getattr(got, "code", None) == getattr(want, "code", None)
    assert type(got.__cause__) is type(want.__cause__)


def peak(v):
    try:
        return np.nanargmax(v)
    except ValueError:
        return -1


def largest_of_few(v):
    try:
        return v[v > 1].max() - v[v < -1].min()
    except ValueError:
        return np.nan


def peak_and_more(v):
    try:
        return np.nanargmin(v[1:]) + int(v[0])
    except ValueError as error:
        return -1 if "NaN slice" in str(error) else -2


@pytest.mark.parametrize("f", [peak, largest_of_few, peak_and_more])
@pytest.mark.parametrize("share", [0.0, 0.05, 0.3])
def test_rules_tell_which_slices_raise(f, share):
    rng = np.random.default_rng(5)
    x = rng.normal(size=(3000, 8)) * 2
    x[0] = [2, -2, 3, -3, 1, 1, 1, 1]
    gone = rng.random(3000) < share
    gone[0] = False
    x[gone] = np.nan
    x[rng.random(3000) < share / 2, 1:] = np.nan
    x[0] = np.arange(8) - 3.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        want = np.apply_along_axis(f, 1, x)
        with calls_of(f) as calls:
            got = xpapply.apply_along_axis(f, 1, x)
    np.testing.assert_array_equal(got, want)
    assert got.dtype == want.dtype
    assert calls.number < 3000
