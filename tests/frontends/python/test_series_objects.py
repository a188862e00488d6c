"""Series of `numpy.polynomial` that a function makes: fits, values, derivatives."""

import numpy as np
import pytest
from numpy.polynomial import Chebyshev, Hermite, Legendre, Polynomial
from outcomes import outcome

import xpapply

RNG = np.random.default_rng(5)
PLACES = np.arange(14.0)
ROWS = RNG.normal(size=(200, 14)).cumsum(1)
CURVE = Polynomial([1.0, 2.0, 0.5])


def whole(v):
    return Polynomial.fit(PLACES, v, 2).convert().coef


def line(v):
    b, a = Polynomial.fit(PLACES, v, deg=1).convert()
    return a / b


def slope(v):
    return Polynomial.fit(PLACES, v, 1).convert().coef[1]


def without_trend(v):
    return v - Polynomial.fit(PLACES, v, 2)(PLACES)


def at_a_number(v):
    return Polynomial.fit(PLACES, v, 3)(2.5)


def at_a_place_of_its_own(v):
    return Polynomial.fit(PLACES, v, 3)(v.max())


def changes(v):
    return Polynomial.fit(PLACES, v, 3).deriv()(PLACES)


def bends(v):
    return Polynomial.fit(PLACES, v, 3).deriv(2).coef


def area(v):
    p = Polynomial.fit(PLACES, v, 3).integ()
    return p(10.0) - p(1.0)


def of_chebyshev(v):
    return Chebyshev.fit(PLACES, v, 4)(PLACES[:3])


def of_legendre(v):
    return Legendre.fit(PLACES, v, 3).deriv().coef


def with_weights(v):
    return Hermite.fit(PLACES, v, 2, w=1 / (1 + PLACES)).coef


def within_a_domain(v):
    p = Polynomial.fit(PLACES, v, 2, domain=[0, 20], window=[0, 1])
    return np.append(p.coef, [p.degree(), len(p), p.domain[1], p.window[0]])


def in_the_class_domain(v):
    return np.polynomial.Polynomial.fit(PLACES / 14, v, 2, []).coef


def made(v):
    return Polynomial(v[:3])(PLACES) + Polynomial([1, 2])(3.0)


def made_of_numbers(v):
    return Chebyshev([v[0], 1.0, v[1]], domain=[0, 5]).deriv().coef


def by_cases(v):
    p = Polynomial.fit(PLACES, v, 1).convert()
    return p.coef[1] if p.coef[0] > 0.1234 else np.nan


AT_ONCE = [
    whole, slope, without_trend, at_a_number, changes, bends, area, of_chebyshev, of_legendre,
    with_weights, within_a_domain, in_the_class_domain, made, made_of_numbers, by_cases,
]  # fmt: skip


def values_on(v):
    return Polynomial.fit(v.cumsum(), v, 1).coef


def roots_of(v):
    return Polynomial.fit(PLACES, v, 1).roots()


def arithmetic(v):
    return (Polynomial.fit(PLACES, v, 1) + 1).coef


def of_a_curve(v):
    return v[0] * CURVE(2.0)


def all_of_it(v):
    return Polynomial.fit(PLACES, v, 1, full=True)[1][1]


IN_THE_LOOP = [line, at_a_place_of_its_own, values_on, roots_of, arithmetic, of_a_curve, all_of_it]


def check(f, rows):
    want, warned = outcome(lambda: np.apply_along_axis(f, 1, rows))
    got, said = outcome(lambda: xpapply.apply_along_axis(f, 1, rows))
    assert {x for x in said if x[0] is not xpapply.FallbackWarning} == warned
    if not isinstance(want, np.ndarray):
        assert got == want
        return
    assert got.dtype == want.dtype
    scale = np.abs(rows[np.isfinite(rows)]).max(initial=0.0)
    np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-11 * scale)


@pytest.mark.parametrize("f", AT_ONCE, ids=lambda f: f.__name__)
def test_at_once(f, plan_always):
    check(f, ROWS)
    assert "loop" not in str(xpapply.explain(f, 1, ROWS)).splitlines()[1]


@pytest.mark.parametrize("f", [*AT_ONCE, *IN_THE_LOOP], ids=lambda f: f.__name__)
@pytest.mark.parametrize("kind", ["as it is", "float32", "int64", "equal", "zeros", "nan"])
def test_as_the_loop(f, kind):
    rows = ROWS.copy()
    if kind in ("float32", "int64"):
        rows = (3 * rows).astype(kind)
    elif kind == "equal":
        rows[:] = rows[:, :1]
    elif kind == "zeros":
        rows[7] = 0
    elif kind == "nan":
        rows[3, 4], rows[60, 2] = np.nan, np.inf
    check(f, rows)


def test_places_that_change(plan_always):
    places = PLACES.copy()

    def f(v):
        return Polynomial.fit(places, v, 1)(places)

    for _ in range(3):
        check(f, ROWS)
        places += RNG.random(14)
