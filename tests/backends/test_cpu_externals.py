"""NumPy's inner loops as compiled code calls them: what they leave of a processor's notes."""

import numpy as np
import pytest
from typed_parity import marked

from xpapply.backends.cpu import externals
from xpapply.backends.cpu import typed as backend
from xpapply.errors import UnsupportedError
from xpapply.ir.typed.function import KEEP_NOTES

pytestmark = pytest.mark.skipif(backend.why_not() is not None, reason=str(backend.why_not()))
NAMES = sorted(KEEP_NOTES)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("name", NAMES)
def test_loops_that_keep_notes_do(name, dtype):
    """Or functions with them would not be compiled."""
    assert externals.address("ufunc", name, *[dtype] * getattr(np, name).nargs)[0]


@pytest.mark.parametrize(
    ("name", "types"), [("maximum", ["float64"] * 3), ("isfinite", ["float64", "bool"])]
)
def test_it_is_seen_that_others_forget(name, types):
    loop = externals._of_ufunc(name, tuple(types))
    assert not externals._keeps_notes(*loop, tuple(types))


def test_a_loop_that_forgets_is_not_called(monkeypatch):
    monkeypatch.setattr(externals, "_keeps_notes", lambda *given: False)
    with pytest.raises(UnsupportedError, match="multiply forgets"):
        externals._of_ufunc("multiply", ("float64",) * 3)


def before_others(v):
    first = 1.0 / v[:1]  # of which NumPy warns for zero
    return np.exp(-v * 2.0) + np.sqrt(v * v) * first


def between_those_that_forget(v):
    high = np.maximum(v, 0.5)
    ratio = high / v
    return np.minimum(ratio * 1.0 + v, np.abs(v) * 2.0)


def overflows(v):
    return np.exp(v * 500.0) * 1.0 - 1.0


def ignored(v):
    with np.errstate(divide="ignore"):
        first = 1.0 / v
    return first * 2.0 + v


@pytest.mark.parametrize(
    "f", [before_others, between_those_that_forget, overflows, ignored], ids=lambda f: f.__name__
)
@pytest.mark.parametrize("n", [1, 7, 16])
def test_what_numpy_would_warn_of_is_marked(f, n):
    rows = np.random.default_rng(0).uniform(0.1, 2.0, (40, n))
    rows[::5, 0] = 0.0
    marked(f, rows)
