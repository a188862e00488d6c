"""Roots of functions of one number, as ``scipy.optimize`` finds them, for the compiler.

Sources: R. P. Brent, Algorithms for Minimization without Derivatives, Prentice-Hall 1973, chapter 4
(`brentq`); J. C. P. Bus and T. J. Dekker, ACM Transactions on Mathematical Software 1 (1975) 330
(`brenth`, by hyperbolas); C. J. F. Ridders, IEEE Transactions on Circuits and Systems 26 (1979) 979
(`ridder`). Operations are in SciPy's order, so roots have its bits.

A solver gives a root, how many rounds it took, how often it called the function, and whether the
root is near enough. `quiet`: no RuntimeError if it is not. ValueError and RuntimeError are raised
where SciPy raises them; NotImplementedError where it warns.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .of_results import Result

Found = tuple[Any, int, int, bool]
"""A root, rounds (which SciPy does not set if it is an end), calls, and whether it is one."""


def root(solver: Any, quiet: bool, given: Any) -> Any:
    """The root that a solver finds."""
    return solver(*given, quiet)[0]


def full_root(solver: Any, quiet: bool, given: Any) -> Any:
    """The root, and what SciPy says of it if ``full_output=True``."""
    found = result(solver, quiet, given)
    return found.root, found


def result(solver: Any, quiet: bool, given: Any) -> Any:
    """``scipy.optimize.root_scalar``."""
    x, rounds, calls, near = solver(*given, quiet)
    flag = _FLAGS[1 if near else 0]
    return Result(root=x, iterations=rounds, function_calls=calls, converged=near, flag=flag)


_FLAGS = "convergence error", "converged"


def _value(f: Any, x: float, args: Any, quiet: bool) -> float:
    y = float(f(x, *args))
    if y != y:
        if quiet:
            raise NotImplementedError
        raise ValueError
    return y


def _is_negative(x: float) -> bool:
    """Whether the sign bit is set, of zeros too."""
    return math.copysign(1.0, x) < 0.0


def _check(xtol: float, rtol: float, maxiter: int) -> None:
    if xtol <= 0 or rtol < 4 * _EPS or maxiter < 0:
        raise ValueError


_EPS = float(np.finfo(float).eps)


def _ends(
    f: Any, a: float, b: float, args: Any, xtol: float, rtol: float, maxiter: int, quiet: bool
) -> tuple[float, float]:
    """The values at both ends, of which one is zero, or which have different signs."""
    _check(xtol, rtol, maxiter)
    fa = _value(f, a, args, quiet)
    fb = _value(f, b, args, quiet)
    if fa != 0.0 and fb != 0.0 and _is_negative(fa) == _is_negative(fb):
        raise ValueError
    return fa, fb


def _secant(x0: float, f0: float, x1: float, f1: float, xb: float, fb: float) -> float:
    """A step to where a line, or a curve of the second order in y, is zero."""
    if x0 == xb:
        return -f1 * (x1 - x0) / (f1 - f0)
    slope = (f0 - f1) / (x0 - x1)
    other = (fb - f1) / (xb - x1)
    return -f1 * (fb * other - f0 * slope) / (other * slope * (fb - f0))


def _hyperbola(x0: float, f0: float, x1: float, f1: float, xb: float, fb: float) -> float:
    """A step to where a line, or a hyperbola, is zero."""
    if x0 == xb:
        return -f1 * (x1 - x0) / (f1 - f0)
    slope = (f0 - f1) / (x0 - x1)
    other = (fb - f1) / (xb - x1)
    return -f1 * (fb - f0) / (fb * slope - f0 * other)


def _between(
    step: Any, f: Any, a: float, b: float, args: Any, xtol: float, rtol: float, maxiter: int,
    quiet: bool,
) -> Found:  # fmt: skip
    """Brent's method: `x1` is the best place, `xb` has a value of the other sign.

    Steps that fall by less than half are halved brackets.
    """
    x0 = float(a)
    x1 = float(b)
    f0, f1 = _ends(f, x0, x1, args, xtol, rtol, maxiter, quiet)
    if f0 == 0.0:
        return x0, 0, 2, True
    if f1 == 0.0:
        return x1, 0, 2, True
    xb = 0.0
    fb = 0.0
    last = 0.0
    now = 0.0
    for k in range(maxiter):
        if f0 != 0.0 and f1 != 0.0 and _is_negative(f0) != _is_negative(f1):
            xb = x0
            fb = f0
            last = x1 - x0
            now = last
        if abs(fb) < abs(f1):
            x0 = x1
            x1 = xb
            xb = x0
            f0 = f1
            f1 = fb
            fb = f0
        delta = (xtol + rtol * abs(x1)) / 2.0
        half = (xb - x1) / 2.0
        if f1 == 0.0 or abs(half) < delta:
            return x1, k + 1, k + 2, True
        next_one = half
        if abs(last) > delta and abs(f1) < abs(f0):
            tried = step(x0, f0, x1, f1, xb, fb)
            if 2.0 * abs(tried) < min(abs(last), 3.0 * abs(half) - delta):
                last = now
                next_one = tried
            else:
                last = half
        else:
            last = half
        now = next_one
        x0 = x1
        f0 = f1
        if abs(now) > delta:
            x1 += now
        elif half > 0.0:
            x1 += delta
        else:
            x1 -= delta
        f1 = _value(f, x1, args, quiet)
    if not quiet:
        raise RuntimeError
    return x1, maxiter, maxiter + 2, False


def brentq(
    f: Any, a: float, b: float, args: Any, xtol: float, rtol: float, maxiter: int, quiet: bool
) -> Found:
    """``scipy.optimize.brentq(f, a, b, args)``."""
    return _between(_secant, f, a, b, args, xtol, rtol, maxiter, quiet)


def brenth(
    f: Any, a: float, b: float, args: Any, xtol: float, rtol: float, maxiter: int, quiet: bool
) -> Found:
    """``scipy.optimize.brenth(f, a, b, args)``."""
    return _between(_hyperbola, f, a, b, args, xtol, rtol, maxiter, quiet)


def bisect(
    f: Any, a: float, b: float, args: Any, xtol: float, rtol: float, maxiter: int, quiet: bool
) -> Found:
    """``scipy.optimize.bisect(f, a, b, args)``."""
    a = float(a)
    b = float(b)
    fa, fb = _ends(f, a, b, args, xtol, rtol, maxiter, quiet)
    if fa == 0.0:
        return a, 0, 2, True
    if fb == 0.0:
        return b, 0, 2, True
    width = b - a
    for k in range(maxiter):
        width *= 0.5
        x = a + width
        y = _value(f, x, args, quiet)
        if _is_negative(y) == _is_negative(fa):
            a = x
        if y == 0.0 or abs(width) < xtol + rtol * abs(x):
            return x, k + 1, k + 3, True
    if not quiet:
        raise RuntimeError
    return a, maxiter, maxiter + 2, False


def ridder(*given: Any) -> Found:
    """``scipy.optimize.ridder(f, a, b, args)`` before SciPy 1.18."""
    return _by_ridders(_step, *given)


def ridder_by_shares(*given: Any) -> Found:
    """Ridders' method with the steps since then."""
    return _by_ridders(_step_by_shares, *given)


def _step(fa: float, fb: float, fm: float, half: float) -> float:
    sign = 1.0 if fb - fa > 0.0 else -1.0
    return sign * half * fm / math.sqrt(fm * fm - fa * fb)


def _step_by_shares(fa: float, fb: float, fm: float, half: float) -> float:
    """The step, of values that may be denormal."""
    share = fm / fa
    return -(half * share / math.sqrt(share * share - fb / fa))


def _by_ridders(
    stepped: Any, f: Any, a: float, b: float, args: Any, xtol: float, rtol: float, maxiter: int,
    quiet: bool,
) -> Found:  # fmt: skip
    a = float(a)
    b = float(b)
    fa, fb = _ends(f, a, b, args, xtol, rtol, maxiter, quiet)
    if fa == 0.0:
        return a, 0, 2, True
    if fb == 0.0:
        return b, 0, 2, True
    tol = xtol + rtol * min(abs(a), abs(b))
    x = 0.0
    for k in range(maxiter):
        half = 0.5 * (b - a)
        middle = a + half
        fm = _value(f, middle, args, quiet)
        step = stepped(fa, fb, fm, half)
        size = min(abs(step), abs(half) - 0.5 * tol)
        x = middle - (size if step > 0.0 else -size)
        y = _value(f, x, args, quiet)
        if _is_negative(y) != _is_negative(fm):
            a = x
            fa = y
            b = middle
            fb = fm
        elif _is_negative(y) != _is_negative(fa):
            b = x
            fb = y
        else:
            a = x
            fa = y
        tol = xtol + rtol * x
        if y == 0.0 or abs(b - a) < tol:
            return x, k + 1, 2 * k + 4, True
    if not quiet:
        raise RuntimeError
    return x, maxiter, 2 * maxiter + 2, False


def _is_close(a: Any, b: Any, rtol: float, atol: float) -> bool:
    """``numpy.isclose`` of two numbers that are finite."""
    if a - a != 0.0 or b - b != 0.0:
        raise NotImplementedError
    return bool(abs(a - b) <= atol + rtol * abs(b))


def newton(
    f: Any, x0: Any, fprime: Any, args: Any, tol: float, maxiter: int, fprime2: Any, rtol: float,
    quiet: bool,
) -> Found:  # fmt: skip
    """``scipy.optimize.newton(f, x0, fprime, args, ...)`` with a derivative, or two."""
    if tol <= 0 or maxiter < 1:
        raise ValueError
    x = x0 * 1.0
    calls = 0
    for k in range(maxiter):
        y = f(x, *args)
        if y == 0:
            return x, k, calls + 1, True
        slope = fprime(x, *args)
        calls += 2
        if slope == 0:
            if quiet:
                raise NotImplementedError
            raise RuntimeError
        step = y / slope
        if fprime2 is not None:
            bent = step * fprime2(x, *args) / slope / 2
            calls += 1
            if abs(bent) < 1:
                step /= 1.0 - bent
        there = x - step
        if _is_close(there, x, rtol, tol):
            return there, k + 1, calls, True
        x = there
    if not quiet:
        raise RuntimeError
    return x, maxiter, calls, False


def secant(
    f: Any, x0: Any, args: Any, tol: float, maxiter: int, x1: Any, rtol: float, quiet: bool
) -> Found:
    """``scipy.optimize.newton(f, x0, args=args, ...)`` without a derivative."""
    if tol <= 0 or maxiter < 1:
        raise ValueError
    p0 = x0 * 1.0
    if x1 is None:
        p1 = p0 * (1 + 1e-4)
        p1 += 1e-4 if p1 >= 0 else -1e-4
    else:
        p1 = x1
        if p1 == p0:
            raise ValueError
    q0 = f(p0, *args)
    q1 = f(p1, *args)
    if abs(q1) < abs(q0):
        p0, p1, q0, q1 = p1, p0, q1, q0
    p = p0
    for k in range(maxiter):
        if q1 == q0:
            if p1 != p0:
                if quiet:
                    raise NotImplementedError
                raise RuntimeError
            return (p1 + p0) / 2.0, k + 1, k + 2, False  # which SciPy calls an error
        if abs(q1) > abs(q0):
            p = (-q0 / q1 * p1 + p0) / (1 - q0 / q1)
        else:
            p = (-q1 / q0 * p0 + p1) / (1 - q1 / q0)
        if _is_close(p, p1, rtol, tol):
            return p, k + 1, k + 2, True
        p0, q0 = p1, q1
        p1 = p
        q1 = f(p1, *args)
    if not quiet:
        raise RuntimeError
    return p, maxiter, maxiter + 2, False
