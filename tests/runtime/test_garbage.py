"""Python's garbage collector rests while functions are read, and is left as it was."""

import gc

import numpy as np
import pytest

import xpapply
from xpapply.planning.python import typed_results
from xpapply.runtime.warning_filters import paused


@pytest.fixture(autouse=True)
def collector():
    """It is on, whatever tests of other libraries have left."""
    was_on = gc.isenabled()
    gc.enable()
    yield
    if not was_on:
        gc.disable()


def test_it_is_left_as_it_was():
    assert gc.isenabled()
    with pytest.raises(ZeroDivisionError), paused():
        print(1 // gc.isenabled())
    assert gc.isenabled()
    gc.disable()
    try:
        with paused():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_it_rests_while_a_function_is_read_and_not_while_it_runs(monkeypatch):
    from xpapply.planning.python import typed_loop

    seen = []
    typed_of = typed_results.typed_of

    def of(*args):
        seen.append(("read", gc.isenabled()))
        return typed_of(*args)

    def drawdown(v):
        seen.append(("run", gc.isenabled()))
        top = worst = 0.0
        for x in v:
            top = max(top, x)
            worst = max(worst, top - x)
        return worst

    monkeypatch.setattr(typed_loop, "typed_of", of)
    with xpapply.options(fallback="silent"):
        xpapply.apply_along_axis(drawdown, 1, np.random.default_rng(0).random((20000, 20)))
    assert ("run", False) not in seen
    assert ("read", True) not in seen
