"""What waits until compiling pays is read once, to tell why the loop runs."""

import numpy as np
import pytest

import xpapply
from xpapply.backends.cpu import typed as backend
from xpapply.limits import LIMITS
from xpapply.planning.python import typed_loop

pytestmark = pytest.mark.skipif(backend.why_not() is not None, reason=str(backend.why_not()))


def test_what_waits_is_read_once(monkeypatch):
    """Further calls, and those who ask why, do not read it again."""
    integrate = pytest.importorskip("scipy.integrate")
    readings = []
    read = typed_loop.read
    monkeypatch.setattr(typed_loop, "read", lambda *given: readings.append(1) or read(*given))
    monkeypatch.setattr(LIMITS, "typed_short_solver", 1e6)

    def f(x):
        return integrate.quad(lambda s: s * s, 0.0, x)[0]

    x = np.linspace(0.0, 1.0, 2000)
    with xpapply.options(fallback="silent"):
        for _ in range(4):
            got = xpapply.vectorize(f)(x)
            said = str(xpapply.vectorize(f).explain(x))
    assert np.array_equal(got, np.vectorize(f)(x))
    assert "once loops have taken" in said
    assert len(readings) <= 2  # for calls, and for who asks
