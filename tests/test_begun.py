"""The first calls of a loop, which tell what one takes: they are those that NumPy would make."""

import numpy as np
import pytest

import xpapply

RESULTS = {
    "no array": lambda k: (1, [2, 3]),
    "no array later": lambda k: (1, [2, 3]) if k == 3 else (1, 2),
    "another shape": lambda k: [1.0] * (2 + (k == 2)),
    "no number": lambda k: "a" if k == 2 else 1,
    "texts in a list": lambda k: ["a", "b"] if k == 4 else [1, 2],
    "an integer beyond 64 bits": lambda k: 2**64 if k == 2 else 1,
    "another shape, then an exception": lambda k: 1 // (4 - k) if k != 3 else [1, 2],
}


@pytest.mark.parametrize("name", RESULTS)
def test_calls_before_a_result_that_does_not_fit(name):
    """A result that NumPy's loop cannot place ends it: no further slice is seen."""
    said, calls = [], []
    for apply in (np.apply_along_axis, xpapply.apply_along_axis):
        seen = []

        def f(v, seen=seen):
            seen.append(v[0])
            return RESULTS[name](len(seen) - 1)

        with pytest.raises((ValueError, TypeError, OverflowError)) as raised:
            apply(f, -1, np.arange(900.0).reshape(300, 3))
        said.append(str(raised.value))
        calls.append(seen)
    assert said[0] == said[1]
    assert calls[0] == calls[1]
