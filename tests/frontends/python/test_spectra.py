"""Eigenvalues and roots: real for some slices, complex for others, as NumPy gives them."""

import warnings

import numpy as np
import pytest

import xpapply

RNG = np.random.default_rng(0)
BASE = RNG.normal(size=(300, 9))
ZEROS = BASE.copy()
ZEROS[::3, :2] = 0.0
ZEROS[::5, -1] = -0.0
ZEROS[7] = 0.0
ZEROS[9, 1:] = 0.0


def symmetric(v):
    m = v.reshape(3, 3)
    return m + m.T


FUNCTIONS = {
    "real parts": lambda v: np.sort(np.linalg.eigvals(v.reshape(3, 3)).real),
    "largest": lambda v: np.abs(np.linalg.eigvals(v.reshape(3, 3))).max(),
    "of symmetric": lambda v: np.linalg.eigvals(symmetric(v)).sum(),
    "as they are": lambda v: np.linalg.eigvals(v.reshape(3, 3)).astype(complex),
    "vectors": lambda v: np.abs(np.linalg.eig(v.reshape(3, 3))[1]),
    "by name": lambda v: np.linalg.eig(v.reshape(3, 3)).eigenvalues.real.max(),
    "kind": lambda v: np.linalg.eigvals(v.reshape(3, 3)).dtype.kind == "c",
    "roots": lambda v: np.abs(np.roots(v[:4])).max(initial=0),
    "count": lambda v: len(np.roots(v)),
    "real roots": lambda v: np.sum(np.isreal(np.roots(v[:4]))),
    "of a line": lambda v: np.roots(v[:2]).sum(),
    "of a list": lambda v: np.roots([1.0, v[0], v[1]]).real.max(),
    "largest real": lambda v: max(
        (r.real for r in np.roots(v[2:6]) if abs(r.imag) < 1e-9), default=0
    ),
    "of a polynomial": lambda v: np.sort(np.poly1d(v[:4]).r.real).max(initial=0),
}
DATA = {
    "floats": BASE,
    "zeros": ZEROS,
    "single": BASE.astype("f4"),
    "integers": RNG.integers(-4, 5, (200, 9)),
    "positive": np.abs(BASE),
    "complex": BASE + 1j * ZEROS,
}


def outcome(apply, f, x):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return apply(f, 1, x)
        except Exception as error:
            return type(error)


@pytest.mark.parametrize("data", DATA)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_as_the_loop(name, data):
    f, x = FUNCTIONS[name], DATA[data]
    want, got = outcome(np.apply_along_axis, f, x), outcome(xpapply.apply_along_axis, f, x)
    if isinstance(want, type):
        assert got is want
        return
    assert got.dtype == want.dtype
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("name", ["real parts", "vectors", "roots", "of a list"])
def test_slices_part_by_what_they_have(name):
    x = np.concatenate([BASE] * 30)
    with xpapply.options(engine="numpy"):
        got = xpapply.apply_along_axis(FUNCTIONS[name], 1, x)
    np.testing.assert_array_equal(got, np.apply_along_axis(FUNCTIONS[name], 1, x))
    assert xpapply.explain(FUNCTIONS[name], 1, x).engine == "numpy"


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_not_finite_raises(bad):
    x = BASE.copy()
    x[5, 3] = bad
    for name in ("largest", "roots", "vectors"):
        assert outcome(np.apply_along_axis, FUNCTIONS[name], x) is np.linalg.LinAlgError
        assert outcome(xpapply.apply_along_axis, FUNCTIONS[name], x) is np.linalg.LinAlgError
