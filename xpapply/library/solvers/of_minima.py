"""Minima of functions of one number, as ``scipy.optimize`` finds them, for the compiler.

Sources: R. P. Brent, Algorithms for Minimization without Derivatives, Prentice-Hall 1973, chapter
5; G. E. Forsythe, M. A. Malcolm and C. B. Moler, Computer Methods for Mathematical Computations,
Prentice-Hall 1977 (between bounds); J. Kiefer, Proceedings of the American Mathematical Society 4
(1953) 502 (golden sections); and the search downhill for three places of which the middle one is
lowest, of W. H. Press et al., Numerical Recipes. Operations are in SciPy's order, so minima have
its bits.

The function is called in as few places as can be: where it is called, it is compiled.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..of_results import Result

Three = tuple[Any, Any, Any, Any, Any, Any, int, bool]
"""Three places, the values there, calls, and whether the middle one is lowest."""

_GROWTH = 1.618034
_SHORT = 0.3819660
_LONG = 0.61803399
_LEAST = 1e-21


def downhill(f: Any, args: Any, xa: Any, xb: Any) -> Three:
    """``scipy.optimize.bracket(f, xa, xb, args)``."""
    fa = fb = 0.0
    for k in range(2):
        y = f(xa if k == 0 else xb, *args)
        if k == 0:
            fa = y
        else:
            fb = y
    return _further_down(f, args, xa, xb, fa, fb)


def from_integers(f: Any, args: Any, first: Any, second: Any, xa: Any, xb: Any) -> Three:
    """The same from two integers, which are `xa` and `xb` as floats."""
    return _further_down(f, args, xa, xb, f(first, *args), f(second, *args))


def _further_down(f: Any, args: Any, xa: Any, xb: Any, fa: Any, fb: Any) -> Three:
    if fa < fb:
        xa, xb = xb, xa
        fa, fb = fb, fa
    w = xc = xb + _GROWTH * (xb - xa)
    fc = fb
    calls = 2
    rounds = 0
    how = 0  # 1, 2: a place that is tried; 3: one that is gone on to; 0: the first
    while True:
        fw = f(w, *args)
        calls += 1
        if how == 1 and fw < fc:
            xa, xb = xb, w
            fa, fb = fb, fw
            break
        if how == 1 and fw > fb:
            xc, fc = w, fw
            break
        if how == 1 or (how == 2 and fw < fc):
            if how == 2:
                xb, xc = xc, w
                fb, fc = fc, fw
            w = xc + _GROWTH * (xc - xb)
            how = 3
            continue
        if how == 0:
            fc = fw
        else:
            xa, xb, xc = xb, xc, w
            fa, fb, fc = fb, fc, fw
        if not fc < fb:
            break
        one = (xb - xa) * (fb - fc)
        other = (xb - xc) * (fb - fa)
        off = other - one
        below = 2.0 * _LEAST if abs(off) < _LEAST else 2.0 * off
        w = xb - ((xb - xc) * other - (xb - xa) * one) / below
        far = xb + 110.0 * (xc - xb)
        if rounds > 1000:
            raise RuntimeError
        rounds += 1
        how = 3
        if (w - xc) * (xb - w) > 0.0:
            how = 1
        elif (w - far) * (far - xc) >= 0.0:
            w = far
        elif (w - far) * (xc - w) > 0.0:
            how = 2
        else:
            w = xc + _GROWTH * (xc - xb)
    lowest = (fb < fc and fb <= fa) or (fb < fa and fb <= fc)
    between = xa < xb < xc or xc < xb < xa
    finite = xa - xa == 0.0 and xb - xb == 0.0 and xc - xc == 0.0
    return xa, xb, xc, fa, fb, fc, calls, lowest and between and finite


def given_three(
    f: Any, args: Any, first: Any, middle: Any, last: Any, xa: Any, xb: Any, xc: Any
) -> Three:
    """Three places that are given, which are `xa`, `xb` and `xc` as floats."""
    if first > last:
        first, last = last, first
        xa, xc = xc, xa
    if not (xa < xb and xb < xc):
        raise ValueError
    fa = f(first, *args)
    fb = f(middle, *args)
    fc = f(last, *args)
    if not (fb < fa and fb < fc):
        raise ValueError
    return xa, xb, xc, fa, fb, fc, 3, True


def _no_valley(three: Any) -> Any:
    """What SciPy gives if it finds no three places."""
    xa, xb, xc, fa, fb, fc, calls, _ = three
    some = xa + xb + xc + fa + fb + fc
    if some - some != 0.0:
        raise NotImplementedError
    x, y = xa, fa
    if fb < y:
        x, y = xb, fb
    if fc < y:
        x, y = xc, fc
    return _found(x, y, 0, calls, False)


def _found(x: Any, y: Any, rounds: int, calls: int, success: bool) -> Any:
    is_known = bool(x == x and y == y)
    y = np.multiply(y, 1)  # NumPy's number, as SciPy gives it
    return Result(x=np.float64(x), fun=y, nit=rounds, nfev=calls, success=success and is_known)


def brent(search: Any, given: Any, f: Any, args: Any, xtol: float, maxiter: int) -> Any:
    """``minimize_scalar(f, args=args, method="brent")``.

    ``search(f, args, *given)``: three places, between which it looks.
    """
    if xtol < 0:
        raise ValueError
    three = search(f, args, *given)
    xa, x, xc, _, fx, _, calls, found = three
    if not found:
        return _no_valley(three)
    w = v = x
    fw = fv = fx
    a = min(xa, xc)
    b = max(xa, xc)
    before = 0.0
    step = 0.0
    rounds = 0
    while rounds < maxiter:
        near = xtol * abs(x) + 1.0e-11
        nearer = 2.0 * near
        middle = 0.5 * (a + b)
        if abs(x - middle) < nearer - 0.5 * (b - a):
            break
        golden = True
        if abs(before) > near:
            one = (x - w) * (fx - fv)
            other = (x - v) * (fx - fw)
            p = (x - v) * other - (x - w) * one
            other = 2.0 * (other - one)
            if other > 0.0:
                p = -p
            other = abs(other)
            last = before
            before = step
            inside = p > other * (a - x) and p < other * (b - x)
            if inside and abs(p) < abs(0.5 * other * last):
                golden = False
                step = p * 1.0 / other
                u = x + step
                if u - a < nearer or b - u < nearer:
                    step = near if middle - x >= 0 else -near
        if golden:
            before = a - x if x >= middle else b - x
            step = _SHORT * before
        if abs(step) < near:
            u = x + near if step >= 0 else x - near
        else:
            u = x + step
        fu = f(u, *args)
        calls += 1
        if fu > fx:
            if u < x:
                a = u
            else:
                b = u
            if fu <= fw or w == x:
                v, w = w, u
                fv, fw = fw, fu
            elif fu <= fv or v in (x, w):
                v, fv = u, fu
        else:
            if u >= x:
                a = x
            else:
                b = x
            v, w, x = w, x, u
            fv, fw, fx = fw, fx, fu
        rounds += 1
    return _found(x, fx, rounds, calls, rounds < maxiter)


def golden(search: Any, given: Any, f: Any, args: Any, xtol: float, maxiter: int) -> Any:
    """``minimize_scalar(f, args=args, method="golden")``."""
    three = search(f, args, *given)
    x0, xb, x3, fa, _, _, calls, found = three
    if not found:
        return _no_valley(three)
    rest = 1.0 - _LONG
    if abs(x3 - xb) > abs(xb - x0):
        x1 = xb
        x2 = xb + rest * (x3 - xb)
    else:
        x2 = xb
        x1 = xb - rest * (xb - x0)
    f1 = f2 = fa
    rounds = 0
    left = True
    begun = 0
    while True:
        if begun == 2:
            if rounds == maxiter or abs(x3 - x0) <= xtol * (abs(x1) + abs(x2)):
                break
            left = not f2 < f1
            if left:
                x3 = x2
                x2 = x1
                x1 = _LONG * x2 + rest * x0
                f2 = f1
            else:
                x0 = x1
                x1 = x2
                x2 = _LONG * x1 + rest * x3
                f1 = f2
            rounds += 1
        y = f(x1 if left else x2, *args)
        calls += 1
        if left:
            f1 = y
        else:
            f2 = y
        if begun < 2:
            begun += 1
            left = False
    first = f1 < f2
    x, y = (x1, f1) if first else (x2, f2)
    return _found(x, y, rounds, calls, rounds < maxiter)


def between(f: Any, a: Any, b: Any, args: Any, xatol: float, maxiter: int) -> Any:
    """A minimum between bounds: where, the value there, calls, and why it ended."""
    if a - a != 0.0 or b - b != 0.0 or a > b:
        raise ValueError
    eps = math.sqrt(2.2e-16)
    part = np.float64(0.5 * (3.0 - math.sqrt(5.0)))
    v = a + part * (b - a)
    w = x = v
    fx = f(x, *args)
    calls = 1
    fu = fv = fw = fx
    last = 0.0
    step = 0.0
    middle = 0.5 * (a + b)
    near = eps * abs(x) + xatol / 3.0
    nearer = 2.0 * near
    status = 0
    while abs(x - middle) > nearer - 0.5 * (b - a):
        by_gold = True
        if abs(last) > near:
            r = (x - w) * (fx - fv)
            q = (x - v) * (fx - fw)
            p = (x - v) * q - (x - w) * r
            q = 2.0 * (q - r)
            if q > 0.0:
                p = -p
            q = abs(q)
            r = last
            last = step
            if abs(p) < abs(0.5 * q * r) and p > q * (a - x) and p < q * (b - x):
                by_gold = False
                step = (p + 0.0) / q
                u = x + step
                if u - a < nearer or b - u < nearer:
                    step = near if middle - x >= 0.0 else -near
        if by_gold:
            last = a - x if x >= middle else b - x
            step = part * last
        size = max(abs(step), near)
        u = x + size if step >= 0.0 else x - size
        fu = f(u, *args)
        calls += 1
        if fu <= fx:
            if u >= x:
                a = x
            else:
                b = x
            v, fv = w, fw
            w, fw = x, fx
            x, fx = u, fu
        else:
            if u < x:
                a = u
            else:
                b = u
            if fu <= fw or w == x:
                v, fv = w, fw
                w, fw = u, fu
            elif fu <= fv or v in (x, w):
                v, fv = u, fu
        middle = 0.5 * (a + b)
        near = eps * abs(x) + xatol / 3.0
        nearer = 2.0 * near
        if calls >= maxiter:
            status = 1
            break
    if x != x or fx != fx or fu != fu:
        status = 2
    return x, fx, calls, status


def bounded(f: Any, a: Any, b: Any, args: Any, xatol: float, maxiter: int) -> Any:
    """``minimize_scalar(f, bounds=(a, b), args=args)``."""
    x, y, calls, status = between(f, a, b, args, xatol, maxiter)
    y = np.multiply(y, 1)
    return Result(x=x, fun=y, status=status, success=status == 0, nit=calls, nfev=calls)


def fminbound(f: Any, a: Any, b: Any, args: Any, xtol: float, maxfun: int) -> Any:
    """``scipy.optimize.fminbound(f, a, b, args, ...)``."""
    return full_fminbound(f, a, b, args, xtol, maxfun)[0]


def full_fminbound(f: Any, a: Any, b: Any, args: Any, xtol: float, maxfun: int) -> Any:
    """The same with ``full_output=True``."""
    x, y, calls, status = between(f, a, b, args, xtol, maxfun)
    if status:
        raise NotImplementedError  # SciPy warns
    return x, y, status, calls
