"""How control flows in compiled functions: what they handle, and which warnings they ignore."""

import warnings

import control_functions
import numpy as np
import pytest
from typed_parity import marked

import xpapply
from xpapply.backends.cpu import typed as backend
from xpapply.errors import TraceError
from xpapply.limits import LIMITS

RNG = np.random.default_rng(1)
PLAIN = np.round(RNG.standard_normal((40, 7)) * 2) / 2
SPECIAL = PLAIN.copy()
SPECIAL[RNG.random(PLAIN.shape) < 0.06] = np.nan
SPECIAL[RNG.random(PLAIN.shape) < 0.06] = np.inf
SPECIAL[RNG.random(PLAIN.shape) < 0.06] = -0.0

pytestmark = pytest.mark.skipif(backend.why_not() is not None, reason=str(backend.why_not()))


HUGE = np.where(RNG.random(PLAIN.shape) < 0.06, -1e300, SPECIAL)


@pytest.mark.parametrize("f", control_functions.HANDLED, ids=lambda f: f.__name__)
def test_no_slice_is_left_where_all_is_handled(f):
    assert marked(f, PLAIN) == 0
    assert marked(f, SPECIAL) == 0
    marked(f, HUGE)
    marked(f, SPECIAL.astype(np.float32))
    marked(f, (PLAIN * 2).astype(np.int32))


@pytest.mark.parametrize(
    "f",
    [
        control_functions.not_handled,
        control_functions.quiet_and_loud,
        control_functions.quiet_until_it_raises,
    ],
    ids=lambda f: f.__name__,
)
def test_what_is_not_handled_is_left(f):
    for arr in (PLAIN, HUGE, np.abs(PLAIN) + 1):
        marked(f, arr)


def test_what_one_of_two_numbers_has_is_not_handled_for_both():
    def asked(v):
        total = 0
        for k in range(1, 5):
            try:  # of an integer it raises, of a float it does so if that is Python's
                total += min(3.25, total).item()
            except AttributeError:
                total += v[0] * 0 + k
        return total

    marked(asked, PLAIN)


@pytest.mark.parametrize("f", control_functions.DEFINED, ids=lambda f: f.__name__)
def test_functions_that_it_defines(f):
    assert marked(f, PLAIN) == 0
    marked(f, HUGE)
    marked(f, PLAIN.astype(np.float32))
    marked(f, (PLAIN * 2).astype(np.int32))


@pytest.mark.parametrize("f", control_functions.VALUES, ids=lambda f: f.__name__)
def test_values_that_are_asked_what_they_are(f):
    assert marked(f, PLAIN) == 0
    assert marked(f, PLAIN.astype(np.float32)) == 0
    assert marked(f, (PLAIN * 2).astype(np.int64)) == 0
    marked(f, HUGE)


@pytest.mark.parametrize("f", control_functions.RECURSIVE, ids=lambda f: f.__name__)
def test_functions_that_call_themselves(f):
    assert marked(f, PLAIN) == (f is control_functions.changes_type) * 0
    marked(f, HUGE)
    marked(f, PLAIN.astype(np.float32))
    marked(f, (PLAIN * 2).astype(np.int64))


def test_a_list_that_gets_its_type_meanwhile_is_refused():
    with pytest.raises(TraceError, match="a list gets its type"):
        marked(control_functions.grows_a_list, PLAIN)


def test_deep_recursion_is_left():
    assert marked(control_functions.too_deep, PLAIN) == (PLAIN[:, 0] <= 0).sum()


@pytest.mark.parametrize("rare", [np.ma.masked, np.array([7.0]), np.array([[7.0]]), np.float32(7)])
def test_results_of_slices_that_are_left_are_written_as_the_loop_writes_them(rare):
    def f(v):
        if v[0] > 1:
            return rare
        total = 0.0
        for x in v:
            total += x
        return total

    want = np.apply_along_axis(f, -1, PLAIN)
    first = dict.fromkeys(("first_loops", "plan_worth", "typed_worth"), 0.0)
    with LIMITS.set(**first), warnings.catch_warnings():
        warnings.simplefilter("error")
        got = xpapply.apply_along_axis(f, -1, PLAIN)
    assert (type(got), got.dtype) == (type(want), want.dtype)
    np.testing.assert_array_equal(got, want)
