"""`vectorize` of functions that give texts: as NumPy has them, as long as the longest."""

import numpy as np
import pytest
from outcomes import outcome

import xpapply
from xpapply.backends.cpu import typed as backend
from xpapply.limits import LIMITS

pytestmark = [
    pytest.mark.skipif(backend.why_not() is not None, reason=str(backend.why_not())),
    pytest.mark.usefixtures("by_source"),
]
RNG = np.random.default_rng(5)
X = RNG.normal(size=(23, 200)) * 30


def grade(x):
    if x > 30:
        return "A"
    return "good" if x > 0 else "" if x < -60 else "poor enough"


def season(n):
    if n in (12, 1, 2):
        return "DJF"
    if n in (3, 4, 5):
        return "MAM"
    return "JJA" if n in (6, 7, 8) else "SON"


def clock(h):
    m, s = divmod(abs(h) * 3600, 60)
    hours, m = divmod(m, 60)
    return f"{int(hours):02d}:{int(m):02d}:{int(s):02d}"


def roman(n):
    out = ""
    for value, sign in ((10, "X"), (9, "IX"), (5, "V"), (4, "IV"), (1, "I")):
        while n >= value:
            out += sign
            n -= value
    return out


def signed(x):
    return f"{x:+.1f}" if x > 0 else "none"


def root_of(x):
    return f"{x**0.5:.3f}"  # complex of what is below 0: another format


def quotient(x):
    return f"{100 // x}"


def letters_of(n):
    return "ab" * n


def compared(f, *args, engine="cpu", **made):
    """Check that values, dtype and exception are those of NumPy's loop."""
    ours = xpapply.vectorize(f, **made)
    with xpapply.options(engine=engine):
        (want, _), (got, _) = (
            outcome(lambda f=v: f(*args)) for v in (np.vectorize(f, **made), ours)
        )
    np.testing.assert_array_equal(got, want)  # of an exception its class and text
    assert getattr(got, "dtype", None) == getattr(want, "dtype", None)


@pytest.mark.parametrize("f", [grade, clock, signed])
def test_texts_of_floats(f):
    compared(f, X)
    compared(f, np.abs(X))  # of other lengths
    compared(f, X.astype("f4"))
    compared(f, X[::2, ::-1])


@pytest.mark.parametrize("f", [season, roman])
def test_texts_of_integers(f):
    n = RNG.integers(1, 13, (60, 60))
    compared(f, n)
    compared(f, n[:2].astype("u1"))


def test_only_texts_that_are_there_make_the_result_long():
    ours = xpapply.vectorize(grade)
    assert ours(np.full(50, 40.0)).dtype == "<U1"
    assert ours(X).dtype == "<U11"
    none = np.full(50, -70.0)
    assert ours(none).dtype == np.vectorize(grade)(none).dtype  # of nothing but empty ones: U2


def test_long_texts_are_the_function_s():
    """There is place for some letters; a text of more is made by the function itself."""
    n = RNG.integers(0, 9, 2000)
    compared(letters_of, n)
    n[[3, 77]] = LIMITS.typed_letters, LIMITS.typed_letters // 2 + 1
    compared(letters_of, n)
    assert xpapply.vectorize(letters_of)(n).dtype == f"<U{2 * LIMITS.typed_letters}"
    compared(letters_of, n[::-1])


def test_what_raises_or_is_of_another_kind():
    compared(root_of, np.abs(X))
    compared(root_of, X, engine="")
    compared(quotient, np.arange(1, 900))
    compared(quotient, np.arange(-5, 900))


def test_texts_are_asked_for():
    compared(grade, X, otypes=[object], engine="")
    compared(grade, X, otypes="U", engine="")
    compared(grade, X, otypes=["U3"], engine="")
