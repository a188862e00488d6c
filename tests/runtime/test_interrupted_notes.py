"""What is noted of NumPy's errors and of warnings ends with whoever noted, interrupted or not."""

import sys
import warnings

import numpy as np
import pytest

from xpapply.runtime import error_state, warning_filters


def left():
    """What belongs to the process or the thread, and says what is shown."""
    return list(warnings.filters), warning_filters.here.add, np.geterr(), np.geterrcall()


@pytest.mark.parametrize(
    "where",
    [
        error_state.noting.__enter__,
        error_state.noting.__exit__,
        np.errstate.__enter__,
        np.errstate.__exit__,
    ],
)
@pytest.mark.parametrize("nested", [False, True])
def test_an_interruption_where_noting_begins_or_ends_leaves_nothing(where, nested):
    def look(frame, event, arg):
        if event == "call" and frame.f_code is where.__code__:
            sys.settrace(None)
            raise KeyboardInterrupt

    def noted():
        sys.settrace(look)
        with error_state.noting(set().add, error_state.IGNORED):
            pass

    def within():
        with error_state.noting(None, error_state.IGNORED):
            noted()

    before, traced, was_raised = left(), sys.gettrace(), False
    try:
        (within if nested else noted)()
    except KeyboardInterrupt:  # which is dropped at the end, with the frames that it went through
        was_raised = True
    finally:
        sys.settrace(traced)
    assert was_raised
    assert left() == before
