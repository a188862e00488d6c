"""What a call gives or raises, and what it warns of: for tests that compare two ways."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import xpapply


def outcome(run: Callable[[], Any]) -> tuple[Any, set[tuple[type[Warning], str]]]:
    """What a call gives, or the class and text of what it raises; and its warnings."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        try:
            found = run()
        except Exception as error:
            found = type(error), str(error)
    return found, {(x.category, str(x.message)) for x in seen}


def check_along_rows(f: Callable[..., Any], x: np.ndarray) -> None:
    """Check that values to the bit, dtype, exception and warnings are those of NumPy's loop."""
    ours, numpys = xpapply.apply_along_axis, np.apply_along_axis
    want, got = (outcome(lambda a=apply: a(f, 1, x)) for apply in (numpys, ours))
    np.testing.assert_array_equal(got[0], want[0])
    own = [{w for w in said if w[0] is not xpapply.FallbackWarning} for _, said in (got, want)]
    assert own[0] == own[1]
    if isinstance(want[0], np.ndarray):
        assert got[0].dtype == want[0].dtype
