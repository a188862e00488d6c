"""Powers of arrays to what is computed, starred arrays in lists, and the gamma function."""

import math

import numpy as np
import pytest
from typed_parity import marked

from xpapply.backends.cpu import typed as backend
from xpapply.errors import TraceError

pytestmark = pytest.mark.skipif(backend.why_not() is not None, reason=str(backend.why_not()))
RNG = np.random.default_rng(0)
ROWS = RNG.uniform(0.1, 4.0, (60, 37))
ROWS[:, 0] = RNG.choice([2.0, 0.5, -1.0, 0.0, 1.0, 3.0, 1.5, -0.5, -2.0], len(ROWS))
ROWS[::7, 3] = -0.5
ROWS[3, 5], ROWS[4, 5], ROWS[5, 5] = 0.0, np.inf, np.nan


def by_number(v):
    return v[1:] ** v[0]


def by_float(v):
    return v[1:] ** float(v[0])


def by_int(v):
    return v[1:] ** int(v[0])


def of_number(v):
    return v[1] ** v


def of_python(v):
    return 2.0**v


def of_two(v):
    return v[1:] ** v[:-1]


def over(v):
    return v**-1


def over_float(v):
    return v**-1.0


def to_nothing(v):
    return v**0 + v**1


def squared(v):
    a = v[1:]
    a **= v[0]
    return a * 2.0


def of_integers(v):
    return np.arange(5) ** v[0]


POWERS = [
    by_number, by_float, by_int, of_number, of_python, of_two, over, over_float, to_nothing,
    squared, of_integers,
]  # fmt: skip


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("f", POWERS, ids=lambda f: f.__name__)
def test_powers_have_numpys_bits(f, dtype):
    needless = marked(f, ROWS.astype(dtype))
    assert needless <= (np.sum(ROWS[:, 0] == 0.5) if f is by_float else 2)


def listed(v):
    return np.array([*v[:3], v.max(), len(v)])


def between(v):
    return np.array([1, *v[v > 1.0][:2], 2.5, *(3, v[0])])


def given(v):
    return [*(v[:2] * 2.0), v[1]]


def as_tuple(v):
    first = v[:2]
    return (*first, *np.sqrt(np.abs(v[2:4])))


def then_changed(v):
    a = v[:3] * 1.0
    kept = [*a, 1.0]
    a[0] = 9.0
    return np.array(kept)


def with_a_dtype(v):
    return np.array([*v[:2], 1], dtype=np.float64)


@pytest.mark.parametrize(
    "f", [listed, between, given, as_tuple, then_changed, with_a_dtype], ids=lambda f: f.__name__
)
def test_starred_arrays(f):
    assert marked_in_an_array(f) == 0


def marked_in_an_array(f):
    """A result that is a tuple is one array here, as in `apply_along_axis`."""
    return marked(lambda v: as_list(f(v)), ROWS) if f is as_tuple else marked(f, ROWS)


def as_list(x):
    return np.asarray(x)


def gamma_of(v):
    return np.array([math.lgamma(abs(v[0]) + 0.1), math.gamma(abs(v[0]) * 20 + 0.1)])


def gamma_or_nothing(v):
    try:
        return math.gamma(v[0])
    except ValueError:
        return -1.0


def test_gamma_has_pythons_bits():
    assert marked(gamma_of, ROWS) == 0
    wide = np.concatenate([10 ** RNG.uniform(-19, 2, 200), np.arange(1.0, 139.0)])[:, None]
    assert marked(lambda v: np.array([math.gamma(v[0]), math.lgamma(v[0])]), wide) == 0
    marked(gamma_or_nothing, ROWS)


def test_what_is_starred_and_not_compiled_says_so():
    def f(v):
        kept = [*v[:3], 1.0]
        s = 0.0
        for x in kept:
            s += x
        return s

    with pytest.raises(TraceError, match="starred"):
        marked(f, ROWS)
