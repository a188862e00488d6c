"""Roots of as many functions as numbers, by Powell's hybrid method, for the compiler.

Sources: M. J. D. Powell, "A hybrid method for nonlinear equations", in Numerical Methods for
Nonlinear Algebraic Equations, Gordon and Breach 1970; J. J. Moré, B. S. Garbow and K. E. Hillstrom,
User Guide for MINPACK-1, Argonne National Laboratory, ANL-80-74, 1980 (hybrd and hybrj); C. G.
Broyden, Mathematics of Computation 19 (1965) 577 (the update of rank one). Order of operations and
constants are those of that guide, so roots have SciPy's bits. What is raised is said in
``of_fits``, and how matrices are held.

The function is called in one place: where it is called, it is compiled.
"""

from __future__ import annotations

import math
import sys
from typing import Any

import numpy as np

from .. import of_fits
from ..of_results import Result
from .lengths import norm
from .line_searches import gradient

_EPS = float(np.finfo(float).eps)
_LEAST = 1.0 / sys.float_info.max
_BEGINS, _SLOPES, _TRIES = range(3)
"""Why a place is looked at."""


def _factored(a: Any, diagonal: Any, norms: Any) -> None:
    """Householder's factors: vectors in `a`, above them R, its diagonal, and lengths of columns."""
    n = len(a)
    for j in range(n):
        norms[j] = norm(a[j], 0)
    for j in range(n):
        size = norm(a[j], j)
        if size != 0.0:
            if float(a[j, j]) < 0.0:
                size = -size
            for i in range(j, n):
                a[j, i] /= size
            a[j, j] += 1.0
            for k in range(j + 1, n):
                total = 0.0
                for i in range(j, n):
                    total += float(a[j, i]) * float(a[k, i])
                part = total / float(a[j, j])
                for i in range(j, n):
                    a[k, i] -= part * float(a[j, i])
        diagonal[j] = -size


def _formed(a: Any, r: Any, values: Any, diagonal: Any, qtf: Any, work: Any) -> None:
    """R by its rows, Q in the place of its vectors, and Q'f."""
    n = len(a)
    for i in range(n):
        qtf[i] = values[i]
    for j in range(n):
        if float(a[j, j]) != 0.0:
            total = 0.0
            for i in range(j, n):
                total += float(a[j, i]) * float(qtf[i])
            part = -total / float(a[j, j])
            for i in range(j, n):
                qtf[i] += float(a[j, i]) * part
        for i in range(j):
            r[i, j] = a[j, i]
            a[j, i] = 0.0
        r[j, j] = diagonal[j]
    for k in range(n - 1, -1, -1):
        for i in range(k, n):
            work[i] = a[k, i]
            a[k, i] = 0.0
        a[k, k] = 1.0
        if float(work[k]) != 0.0:
            for j in range(k, n):
                total = 0.0
                for i in range(k, n):
                    total += float(a[j, i]) * float(work[i])
                part = total / float(work[k])
                for i in range(k, n):
                    a[j, i] -= part * float(work[i])


def _stepped(r: Any, scale: Any, qtf: Any, delta: float, p: Any, steep: Any, work: Any) -> None:
    """Powell's step of up to a length, in `p`: Newton's, along the slope, or between both."""
    n = len(p)
    for j in range(n - 1, -1, -1):
        total = 0.0
        for i in range(j + 1, n):
            total += float(r[j, i]) * float(p[i])
        here = float(r[j, j])
        if here == 0.0:
            for i in range(j + 1):
                here = max(here, abs(float(r[i, j])))
            here *= _EPS
            if here == 0.0:
                here = _EPS
        p[j] = (float(qtf[j]) - total) / here
    for j in range(n):
        steep[j] = 0.0
        work[j] = float(scale[j]) * float(p[j])
    far = norm(work, 0)
    if far <= delta:
        return
    for j in range(n):
        for i in range(j, n):
            steep[i] += float(r[j, i]) * float(qtf[j])
        steep[j] /= float(scale[j])
    slope = norm(steep, 0)
    along = 0.0
    alpha = delta / far
    if slope != 0.0:
        for j in range(n):
            steep[j] = float(steep[j]) / slope / float(scale[j])
        for j in range(n):
            total = 0.0
            for i in range(j, n):
                total += float(r[j, i]) * float(steep[i])
            work[j] = total
        bend = norm(work, 0)
        along = slope / bend / bend
        alpha = 0.0
        if along < delta:
            size = norm(qtf, 0)
            part = size / slope * (size / far) * (along / delta)
            share = along / delta
            short = delta / far
            rest = (1.0 - short * short) * (1.0 - share * share)
            off = part - short
            part = part - short * (share * share) + math.sqrt(off * off + rest)
            alpha = short * (1.0 - share * share) / part
    part = (1.0 - alpha) * min(along, delta)
    for j in range(n):
        p[j] = part * float(steep[j]) + alpha * float(p[j])


def _rotation(a: float, b: float) -> tuple[float, float, float]:
    """Cosine and sine of the rotation that makes `b` zero beside `a`, and a number for both."""
    if abs(a) < abs(b):
        ratio = a / b
        sine = 0.5 / math.sqrt(0.25 + 0.25 * (ratio * ratio))
        cosine = sine * ratio
        return cosine, sine, 1.0 / cosine if abs(cosine) > _LEAST else 1.0
    ratio = b / a
    cosine = 0.5 / math.sqrt(0.25 + 0.25 * (ratio * ratio))
    sine = cosine * ratio
    return cosine, sine, sine


def _rotated(a: Any, number: float, sign: float, j: int, rows: int) -> None:
    """Rotate a column of a matrix and its last one, by the number of a rotation."""
    last = len(a) - 1
    if abs(number) > 1.0:
        cosine = 1.0 / number
        sine = math.sqrt(1.0 - cosine * cosine)
    else:
        sine = number
        cosine = math.sqrt(1.0 - sine * sine)
    sine *= sign
    for i in range(rows):
        here = float(a[j, i])
        end = float(a[last, i])
        a[j, i] = cosine * here + sine * end
        a[last, i] = cosine * end - sine * here


def _updated(r: Any, u: Any, v: Any, w: Any) -> None:
    """The factor of R + u v', and in `v` and `w` the numbers of the rotations that make it one."""
    last = len(r) - 1
    w[last] = r[last, last]
    for j in range(last - 1, -1, -1):
        w[j] = 0.0
        if float(v[j]) != 0.0:
            cosine, sine, number = _rotation(float(v[last]), float(v[j]))
            v[last] = sine * float(v[j]) + cosine * float(v[last])
            v[j] = number
            for i in range(j, last + 1):
                here = float(r[j, i])
                r[j, i] = cosine * here - sine * float(w[i])
                w[i] = sine * here + cosine * float(w[i])
    for i in range(last + 1):
        w[i] += float(v[last]) * float(u[i])
    for j in range(last):
        if float(w[j]) != 0.0:
            cosine, sine, number = _rotation(float(r[j, j]), float(w[j]))
            for i in range(j, last + 1):
                here = float(r[j, i])
                r[j, i] = cosine * here + sine * float(w[i])
                w[i] = -sine * here + cosine * float(w[i])
            w[j] = number
    r[last, last] = w[last]


def hybrid(
    f: Any, jac: Any, start: Any, args: Any, xtol: float, most: int, eps: float, factor: float
) -> Any:  # fmt: skip
    """``scipy.optimize.root(f, start, args, method="hybr", jac=jac)``."""
    n = len(start)
    if n == 0 or xtol < 0.0 or most < 0 or factor <= 0.0:
        raise NotImplementedError
    if most == 0:
        most = 200 * (n + 1) if jac is None else 100 * (n + 1)
    wide = math.sqrt(max(eps, _EPS))
    x = start.copy()
    point = start.copy()
    values = np.zeros(n)
    there = np.zeros(n)
    a = np.zeros((n, n))
    r = np.zeros((n, n))
    q = np.zeros((n, 1))
    scale = np.zeros(n)
    qtf = np.zeros(n)
    diagonal = np.zeros(n)
    norms = np.zeros(n)
    p = np.zeros(n)
    work = np.zeros(n)
    other = np.zeros(n)
    calls = slopes = status = at = 0
    failed = succeeded = slow = slower = 0
    size = delta = length = step = 0.0
    phase = _BEGINS
    is_first = True
    is_fresh = True
    while True:
        found = gradient(f(point.copy(), *args))
        calls += 1
        if len(found) != n:
            raise TypeError
        for i in range(n):
            there[i] = found[i]
            if float(there[i]) - float(there[i]) != 0.0:
                raise NotImplementedError
        if phase == _BEGINS:
            for i in range(n):
                values[i] = there[i]
            length = norm(values, 0)
            phase = _SLOPES
        elif phase == _SLOPES:
            for i in range(n):
                a[at, i] = (float(there[i]) - float(values[i])) / step
            at += 1
        else:
            after = norm(there, 0)
            walked = norm(work, 0)
            actual = 1.0 - after / length * (after / length) if after < length else -1.0
            for i in range(n):
                total = 0.0
                for j in range(i, n):
                    total += float(r[i, j]) * float(p[j])
                other[i] = float(qtf[i]) + total
            left = norm(other, 0)
            predicted = 1.0 - left / length * (left / length) if left < length else 0.0
            ratio = actual / predicted if predicted > 0.0 else 0.0
            if ratio < 0.1:
                succeeded = 0
                failed += 1
                delta *= 0.5
            else:
                failed = 0
                succeeded += 1
                if ratio >= 0.5 or succeeded > 1:
                    delta = max(delta, walked / 0.5)
                if abs(ratio - 1.0) <= 0.1:
                    delta = walked / 0.5
            if ratio >= 0.0001:
                for i in range(n):
                    x[i] = point[i]
                    work[i] = float(scale[i]) * float(x[i])
                    values[i] = there[i]
                size = norm(work, 0)
                length = after
                is_first = False
            slow = 0 if actual >= 0.001 else slow + 1
            if is_fresh:
                slower += 1
            if actual >= 0.1:
                slower = 0
            if delta <= xtol * size or length == 0.0:
                status = 1
                break
            if calls >= most:
                status = 2
            if 0.1 * max(0.1 * delta, walked) <= _EPS * size:
                status = 3
            if slower == 5:
                status = 4
            if slow == 10:
                status = 5
            if status != 0:
                break
            if failed == 2:
                phase = _SLOPES
                at = 0
            else:
                for j in range(n):
                    total = 0.0
                    for i in range(n):
                        total += float(a[j, i]) * float(there[i])
                    work[j] = (total - float(other[j])) / walked
                    p[j] = float(scale[j]) * (float(scale[j]) * float(p[j]) / walked)
                    if ratio >= 0.0001:
                        qtf[j] = total
                _updated(r, p, work, other)
                for j in range(n):
                    q[j, 0] = qtf[j]
                for k in range(2 * (n - 1)):
                    j = n - 2 - k if k < n - 1 else k - n + 1
                    number = float(work[j]) if k < n - 1 else float(other[j])
                    sign = -1.0 if k < n - 1 else 1.0
                    _rotated(a, number, sign, j, n)
                    _rotated(q, number, sign, j, 1)
                for j in range(n):
                    qtf[j] = q[j, 0]
                is_fresh = False
        if phase == _SLOPES:
            if jac is None and at < n:
                for i in range(n):
                    point[i] = x[i]
                step = wide * abs(float(x[at]))
                if step == 0.0:
                    step = wide
                point[at] = float(x[at]) + step
                continue
            if jac is not None:
                of_fits.weighted(jac(x.copy(), *args), None, a)
            slopes += 1
            _factored(a, diagonal, norms)
            if is_first:
                for j in range(n):
                    scale[j] = norms[j] if float(norms[j]) != 0.0 else 1.0
                    work[j] = float(scale[j]) * float(x[j])
                size = norm(work, 0)
                delta = factor * size
                if delta == 0.0:
                    delta = factor
            _formed(a, r, values, diagonal, qtf, work)
            for j in range(n):
                scale[j] = max(float(scale[j]), float(norms[j]))
            is_fresh = True
            phase = _TRIES
        _stepped(r, scale, qtf, delta, p, other, work)
        for j in range(n):
            p[j] = -float(p[j])
            point[j] = float(x[j]) + float(p[j])
            work[j] = float(scale[j]) * float(p[j])
        if is_first:
            delta = min(delta, norm(work, 0))
    return Result(
        x=x, fun=values, nfev=calls + 2, njev=slopes, status=status, success=status == 1,
        message=_MESSAGES[status], is_said=status not in (2, 3),
    )  # fmt: skip


_MESSAGES = (
    "",
    "The solution converged.",
    "",
    "",
    "The iteration is not making good progress, as measured by the \n improvement from the last "
    "five Jacobian evaluations.",
    "The iteration is not making good progress, as measured by the \n improvement from the last "
    "ten iterations.",
)


def fsolve(*given: Any) -> Any:
    """``scipy.optimize.fsolve``."""
    found = hybrid(*given)
    if found.status != 1:
        raise NotImplementedError  # of which SciPy warns
    return found.x


def fsolve_told(*given: Any) -> Any:
    """``scipy.optimize.fsolve`` with ``full_output``, which warns of nothing."""
    found = hybrid(*given)
    if found.status == 2 or found.status == 3:
        raise NotImplementedError  # the message has numbers
    return found.x, Result(fvec=found.fun, nfev=found.nfev), found.status, found.message
