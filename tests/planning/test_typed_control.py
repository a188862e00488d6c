"""How control flows in compiled functions: what they handle, and which warnings they ignore."""

import control_functions
import numpy as np
import pytest
from typed_parity import marked

from xpapply.backends.cpu import typed as backend

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
