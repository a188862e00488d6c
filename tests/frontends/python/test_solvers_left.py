"""Solvers that are left to SciPy: the reason names the solver, the line, and the way out."""

import re

import numpy as np
import pytest

import xpapply

optimize = pytest.importorskip("scipy.optimize")
integrate = pytest.importorskip("scipy.integrate")
interpolate = pytest.importorskip("scipy.interpolate")
POINTS = np.random.default_rng(1).random((8, 2))
A = np.random.default_rng(0).random((30, 8))
TIMES = np.linspace(0.0, 1.0, 8)
MATRIX = np.eye(8)


def off(p, v):
    return ((p - v[0]) ** 2).sum()


def by_odeint(v):
    return integrate.odeint(lambda y, t: -v[0] * y, 1.0, TIMES)[:, 0]


def by_lsoda(v):
    return integrate.solve_ivp(lambda t, y: -v[0] * y, (0, 1), [1.0], method="LSODA").y[0, -1]


def by_evolution(v):
    return optimize.differential_evolution(off, [(0, 1)], (v,), seed=1, maxiter=2).x


def by_annealing(v):
    return optimize.dual_annealing(lambda p: off(p, v), [(0, 1)], seed=1, maxiter=2).x


def by_grid(v):
    return optimize.brute(lambda p: off(p, v), [(0, 1)], Ns=5)


def linear(v):
    return optimize.linprog(v, A_ub=MATRIX, b_ub=np.ones(8)).fun


def between_points(v):
    return interpolate.griddata(POINTS, v, POINTS[:2] + 0.01)


LEFT = {
    by_odeint: ("scipy.integrate.odeint", "solve_ivp with method='BDF'"),
    by_lsoda: ("integrate.solve_ivp", "by LSODA: BDF, Radau and RK45 are compiled"),
    by_evolution: ("differential_evolution", "method='Nelder-Mead' from several places"),
    by_annealing: ("dual_annealing", "method='Nelder-Mead' from several places"),
    by_grid: ("brute", "method='Nelder-Mead' from several places"),
    linear: ("linprog", "a formula for the corner"),
    between_points: ("griddata", r"weights = griddata\(points, np.eye\(len\(points\)\), xi\)"),
}


@pytest.mark.parametrize("f", LEFT, ids=lambda f: f.__name__)
def test_the_reason_names_the_solver_and_the_way_out(f, capfd):
    with xpapply.options(fallback="silent"):
        plan = xpapply.explain(f, -1, A)
        found = xpapply.apply_along_axis(f, -1, A)
    assert plan.engine == "loop"
    why = "; ".join(plan.reasons)
    named, instead = LEFT[f]
    assert re.search(rf"{named}.*; .*{instead}", why), why
    assert f"test_solvers_left.py:{f.__code__.co_firstlineno + 1}" in why
    np.testing.assert_array_equal(found, np.apply_along_axis(f, -1, A))
    assert capfd.readouterr().err == ""


def by_root(v):
    return optimize.root(lambda p: p - v[0], [0.0]).x


def test_what_compiled_code_of_scipys_would_print_is_not_printed(capfd):
    with xpapply.options(fallback="silent"):
        plan = xpapply.explain(by_root, -1, A)
    assert "scipy.optimize.root" in plan.reasons[0] or plan.vectorized
    assert capfd.readouterr().err == ""
