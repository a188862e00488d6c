"""Elements for which a function gives more or fewer results than for the first one."""

import numpy as np
import pytest
from outcomes import outcome

import xpapply
from xpapply.backends.cpu import typed as backend

pytestmark = [
    pytest.mark.skipif(backend.why_not() is not None, reason=str(backend.why_not())),
    pytest.mark.usefixtures("by_source"),
]
X = np.append(np.random.default_rng(4).normal(size=300), [9.0, 1.0, -2.0])
RNG = np.random.default_rng(1)


def more(x):
    return (x, 1.0) if x < 8 else (x, 2.0, 3.0)


def none(x):
    return (x, 1.0) if x < 8 else None


def array(x):
    return (x, 1.0) if x < 8 else np.array([x, 2.0])


def text(x):
    return ("ab", "c") if x < 8 else "ab"


def fewer_texts(x):
    return ("ab", "c") if x < 8 else ("a",)


def drawn(x):
    y = RNG.random()
    return (x + y, 1.0) if x < 8 else None


@pytest.mark.parametrize("f", [more, none, array, text, fewer_texts, drawn])
def test_what_numpy_makes_of_them(f):
    ours = xpapply.vectorize(f)
    for _ in range(3):
        RNG.bit_generator.state = np.random.default_rng(1).bit_generator.state
        want, _ = outcome(lambda: np.vectorize(f)(X))
        state = RNG.bit_generator.state
        RNG.bit_generator.state = np.random.default_rng(1).bit_generator.state
        got, _ = outcome(lambda: ours(X))
        assert type(got) is type(want)
        np.testing.assert_equal(got, want)
        assert RNG.bit_generator.state == state


def test_a_signature_raises():
    def f(v):
        n = 0
        for x in v:
            if x > 8:
                return v.sum(), n, n
            n += x > 0
        return v.sum(), n

    rows = X.reshape(-1, 3)
    with pytest.raises(ValueError, match="wrong number of outputs from pyfunc: expected 2, got 3"):
        xpapply.vectorize(f, signature="(n)->(),()")(rows)
