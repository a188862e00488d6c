"""Integrals of functions of one number, as ``scipy.integrate.quad`` has them, for the compiler.

Source: R. Piessens, E. de Doncker-Kapenga, C. W. Überhuber and D. K. Kahaner, QUADPACK, Springer
1983: QAGS and QAGI, rules of Gauss and Kronrod on parts of the interval that are halved where the
error is largest, and Wynn's epsilon algorithm where halves get short. Operations are in QUADPACK's
order, so integrals have SciPy's bits. Where QUADPACK gives up, and SciPy warns, NotImplementedError
is raised.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

_EPS = math.ulp(1.0)
_TINY = float(np.finfo(float).tiny)
_HUGE = float(np.finfo(float).max)

_NODES = np.array([
    0.995657163025808080735527280689003, 0.973906528517171720077964012084452,
    0.930157491355708226001207180059508, 0.865063366688984510732096688423493,
    0.780817726586416897063717578345042, 0.679409568299024406234327365114874,
    0.562757134668604683339000099272694, 0.433395394129247190799265943165784,
    0.294392862701460198131126603103866, 0.148874338981631210884826001129720,
    0.0,
])  # fmt: skip
_KRONROD = np.array([
    0.011694638867371874278064396062192, 0.032558162307964727478818972459390,
    0.054755896574351996031381300244580, 0.075039674810919952767043140916190,
    0.093125454583697605535065465083366, 0.109387158802297641899210590325805,
    0.123491976262065851077958109585166, 0.134709217311473325928054001771707,
    0.142775938577060080797094273138717, 0.147739104901338491374841515972068,
    0.149445554002916905664936468389821,
])  # fmt: skip
_GAUSS = np.array([
    0.066671344308688137593568809893332, 0.149451349150580593145863396957697,
    0.219086362515982043995534934228163, 0.269266719309996355091226921569469,
    0.295524224714752870173815619188769,
])  # fmt: skip
"""Nodes of 10 and 21 points: Gauss' are every second one."""

_NODES_15 = np.array([
    0.991455371120812639206854697526329, 0.949107912342758524526189684047851,
    0.864864423359769072789712788640926, 0.741531185599394439863864773280788,
    0.586087235467691130294144691693, 0.405845151377397166906606412076961,
    0.207784955007898467600689403773245, 0.0,
])  # fmt: skip
_KRONROD_15 = np.array([
    0.022935322010529224963732008058970, 0.063092092629978553290700663189204,
    0.104790010322250183839876322541518, 0.140653259715525918745189590510238,
    0.169004726639267902826583426598550, 0.190350578064785409913256402421014,
    0.204432940075298892414161999234649, 0.209482141084727828012999174891714,
])  # fmt: skip
_GAUSS_15 = np.array([
    0.0, 0.129484966168869693270611432679082, 0.0, 0.279705391489276667901467771423780,
    0.0, 0.381830050505118944950369775488975, 0.0, 0.417959183673469387755102040816327,
])  # fmt: skip


def _error(off: float, size: float, spread: float) -> float:
    """QUADPACK's error estimate of a rule."""
    if spread != 0.0 and off != 0.0:
        off = spread * min(1.0, (200.0 * off / spread) ** 1.5)
    if size > _TINY / (50.0 * _EPS):
        off = max(_EPS * 50.0 * size, off)
    return off


def _rated(
    y: Any, weights: Any, total: float, gauss: float, size: float, half: float
) -> tuple[float, float, float, float]:
    """Integral, error, and integrals of magnitude and spread, from a rule's sums.

    `weights`: those of Kronrod, from an end to the middle.
    """
    last = len(weights) - 1
    mean = total * 0.5
    spread = float(weights[last]) * abs(float(y[last]) - mean)
    for k in range(last):
        off = abs(float(y[k]) - mean) + abs(float(y[2 * last - k]) - mean)
        spread += float(weights[k]) * off
    size *= abs(half)
    spread *= abs(half)
    return total * half, _error(abs((total - gauss) * half), size, spread), size, spread


def _by_21_points(f: Any, args: Any, a: float, b: float) -> tuple[float, float, float, float]:
    """An integral, its error, and integrals of sizes and of distances from the mean."""
    middle = 0.5 * (a + b)
    half = 0.5 * (b - a)
    y = np.empty(21)
    for k in range(21):
        j = k if k < 11 else 20 - k
        off = half * float(_NODES[j])
        y[k] = float(f(middle - off if k < 11 else middle + off, *args))
    gauss = 0.0
    total = float(_KRONROD[10]) * float(y[10])
    size = abs(total)
    for j in range(5):
        k = 2 * j + 1
        low = float(y[k])
        high = float(y[20 - k])
        gauss += float(_GAUSS[j]) * (low + high)
        total += float(_KRONROD[k]) * (low + high)
        size += float(_KRONROD[k]) * (abs(low) + abs(high))
    for j in range(5):
        k = 2 * j
        low = float(y[k])
        high = float(y[20 - k])
        total += float(_KRONROD[k]) * (low + high)
        size += float(_KRONROD[k]) * (abs(low) + abs(high))
    return _rated(y, _KRONROD, total, gauss, size, half)


def _by_15_points(
    f: Any, args: Any, a: float, b: float, bound: float, side: int
) -> tuple[float, float, float, float]:
    """The same for an infinite range, mapped to x between 0 and 1.

    `side`: to which infinity; 2: to both.
    """
    middle = 0.5 * (a + b)
    half = 0.5 * (b - a)
    y = np.empty(15)
    for k in range(15):
        j = k if k < 8 else 14 - k
        off = half * float(_NODES_15[j])
        x = middle - off if k < 8 else middle + off
        there = bound + (-1.0 if side == -1 else 1.0) * (1.0 - x) / x
        value = float(f(there, *args))
        if side == 2:
            value += float(f(-there, *args))
        y[k] = value / x / x
    gauss = float(_GAUSS_15[7]) * float(y[7])
    total = float(_KRONROD_15[7]) * float(y[7])
    size = abs(total)
    for k in range(7):
        low = float(y[k])
        high = float(y[14 - k])
        gauss += float(_GAUSS_15[k]) * (low + high)
        total += float(_KRONROD_15[k]) * (low + high)
        size += float(_KRONROD_15[k]) * (abs(low) + abs(high))
    return _rated(y, _KRONROD_15, total, gauss, size, half)


def _put_in_order(order: Any, errors: Any, last: int, limit: int, worst: int, at: int) -> int:
    """Put the parts in order of falling errors, after one was halved; where the worst is now.

    `worst`: the part that was halved; `at`: its place in the order; `last`: how many there are.
    """
    if last <= 2:
        order[0] = 0
        order[1] = 1
        return at
    most = float(errors[worst])
    while at > 0 and most > float(errors[order[at - 1]]):
        order[at] = order[at - 1]
        at -= 1
    count = limit + 3 - last if last > limit // 2 + 2 else last
    least = float(errors[last - 1])
    i = at + 1
    while i < count - 1 and most < float(errors[order[i]]):
        order[i - 1] = order[i]
        i += 1
    if i >= count - 1:
        order[count - 2] = worst
        order[count - 1] = last - 1
        return at
    order[i - 1] = worst
    k = count - 2
    while k >= i and least >= float(errors[order[k]]):
        order[k + 1] = order[k]
        k -= 1
    order[k + 1] = last - 1
    return at


def _extrapolated(table: Any, n: int, before: Any, calls: int) -> tuple[int, float, float]:
    """Wynn's epsilon algorithm: how many numbers the table has now, the limit, and its error.

    `table`: the last diagonal, and a number that is new at its end. `before`: the last limits.
    """
    found = float(table[n - 1])
    error = _HUGE
    if n < 3:
        return n, found, max(error, 5.0 * _EPS * abs(found))
    table[n + 1] = table[n - 1]
    new = (n - 1) // 2
    table[n - 1] = _HUGE
    many = n
    k = n - 1
    for i in range(new):
        e0 = float(table[k - 2])
        e1 = float(table[k - 1])
        e2 = float(table[k + 2])
        d2 = e2 - e1
        d3 = e1 - e0
        same2 = abs(d2) <= max(abs(e2), abs(e1)) * _EPS
        same3 = abs(d3) <= max(abs(e1), abs(e0)) * _EPS
        if same2 and same3:
            error = abs(d2) + abs(d3)
            return n, e2, max(error, 5.0 * _EPS * abs(e2))
        e3 = float(table[k])
        table[k] = e1
        d1 = e1 - e3
        if abs(d1) <= max(abs(e1), abs(e3)) * _EPS or same2 or same3:
            n = i + i + 1
            break
        bent = 1.0 / d1 + 1.0 / d2 - 1.0 / d3
        if abs(bent * e1) <= 1e-4:
            n = i + i + 1
            break
        there = e1 + 1.0 / bent
        table[k] = there
        k -= 2
        off = abs(d2) + abs(there - e2) + abs(d3)
        if off <= error:
            error = off
            found = there
    if n == 50:
        n = 49
    k = 1 if many % 2 == 0 else 0
    for _ in range(new + 1):
        table[k] = table[k + 2]
        k += 2
    if many != n:
        for i in range(n):
            table[i] = table[many - n + i]
    if calls < 4:
        before[calls - 1] = found
        error = _HUGE
    else:
        error = abs(found - float(before[2])) + abs(found - float(before[1]))
        error += abs(found - float(before[0]))
        before[0] = before[1]
        before[1] = before[2]
        before[2] = found
    return n, found, max(error, 5.0 * _EPS * abs(found))


def _integral(
    f: Any, args: Any, a: float, b: float, bound: float, side: int,
    epsabs: float, epsrel: float, limit: int,
) -> tuple[float, float]:  # fmt: skip
    """QAGS between two places; QAGI, if there is a `side`."""
    if limit < 1 or (epsabs <= 0.0 and epsrel < max(50.0 * _EPS, 5e-29)):
        raise NotImplementedError
    begins = np.empty(limit)
    ends = np.empty(limit)
    values = np.empty(limit)
    errors = np.empty(limit)
    order = np.empty(limit + 1, int)
    table = np.empty(53)
    before = np.empty(3)
    worst = 0
    at = 0
    area = 0.0
    total_error = 0.0
    most = 0.0
    size = 0.0
    found = 0.0
    found_error = _HUGE
    sign_changes = True
    extrapolates = False
    never = False
    rounded = 0
    rounded_later = 0
    grown = 0
    calls = 0
    in_vain = 0
    entries = 2
    small = 0.0
    large_error = 0.0
    wanted = 0.0
    ends_here = False
    for last in range(1, limit + 1):
        begin = float(begins[worst]) if last > 1 else a
        end = float(ends[worst]) if last > 1 else b
        middle = 0.5 * (begin + end) if last > 1 else b
        before_error = most
        value1 = 0.0
        error1 = 0.0
        spread1 = 0.0
        value2 = 0.0
        error2 = 0.0
        spread2 = 0.0
        for k in range(1 if last == 1 else 2):
            low = begin if k == 0 else middle
            high = middle if k == 0 else end
            if side == 0:
                value, error, sizes, spread = _by_21_points(f, args, low, high)
            else:
                value, error, sizes, spread = _by_15_points(f, args, low, high, bound, side)
            if value - value != 0.0 or error - error != 0.0:
                raise NotImplementedError
            if k == 0:
                value1 = value
                error1 = error
                spread1 = spread
            else:
                value2 = value
                error2 = error
                spread2 = spread
            if last == 1:
                size = sizes
        if last == 1:
            bounded = max(epsabs, epsrel * abs(value1))
            if error1 <= 100.0 * _EPS * size and error1 > bounded:
                raise NotImplementedError
            if limit == 1:
                raise NotImplementedError
            if (error1 <= bounded and error1 != spread1) or error1 == 0.0:
                return value1, error1
            begins[0] = a
            ends[0] = b
            values[0] = value1
            errors[0] = error1
            order[0] = 0
            table[0] = value1
            most = error1
            area = value1
            total_error = error1
            sign_changes = abs(value1) < (1.0 - 50.0 * _EPS) * size
            continue
        value = value1 + value2
        error = error1 + error2
        total_error = total_error + error - most
        area = area + value - float(values[worst])
        if spread1 != error1 and spread2 != error2:
            alike = abs(float(values[worst]) - value) <= 1e-5 * abs(value)
            if alike and error >= 0.99 * most:
                if extrapolates:
                    rounded_later += 1
                else:
                    rounded += 1
            if last > 10 and error > most:
                grown += 1
        bounded = max(epsabs, epsrel * abs(area))
        fails = rounded + rounded_later >= 10 or grown >= 20 or last == limit
        fails = fails or max(abs(begin), abs(end)) <= (1.0 + 100.0 * _EPS) * (
            abs(middle) + 1000.0 * _TINY
        )
        if error2 > error1:
            begins[worst] = middle
            begins[last - 1] = begin
            ends[last - 1] = middle
            values[worst] = value2
            values[last - 1] = value1
            errors[worst] = error2
            errors[last - 1] = error1
        else:
            begins[last - 1] = middle
            ends[worst] = middle
            ends[last - 1] = end
            values[worst] = value1
            values[last - 1] = value2
            errors[worst] = error1
            errors[last - 1] = error2
        at = _put_in_order(order, errors, last, limit, worst, at)
        worst = int(order[at])
        most = float(errors[worst])
        if total_error <= bounded:
            if fails:
                raise NotImplementedError
            total = 0.0
            for i in range(last):
                total += float(values[i])
            return total, total_error
        if fails:
            raise NotImplementedError
        if last == 2:
            small = 0.375 if side != 0 else abs(b - a) * 0.375
            large_error = total_error
            wanted = bounded
            table[1] = area
            continue
        if never:
            continue
        large_error -= before_error
        if abs(middle - begin) > small:
            large_error += error
        if not extrapolates:
            if abs(float(ends[worst]) - float(begins[worst])) > small:
                continue
            extrapolates = True
            at = 1
        goes_on = False
        if rounded_later < 5 and large_error > wanted:
            count = limit + 3 - last if last > 2 + limit // 2 else last
            for _ in range(at, count):
                worst = int(order[at])
                most = float(errors[worst])
                if abs(float(ends[worst]) - float(begins[worst])) > small:
                    goes_on = True
                    break
                at += 1
        if goes_on:
            continue
        entries += 1
        table[entries - 1] = area
        calls += 1
        entries, there, off = _extrapolated(table, entries, before, calls)
        in_vain += 1
        if in_vain > 5 and found_error < 1e-3 * total_error:
            raise NotImplementedError
        if off < found_error:
            in_vain = 0
            found_error = off
            found = there
            wanted = max(epsabs, epsrel * abs(there))
            if found_error <= wanted:
                ends_here = True
                break
        if entries == 1:
            never = True
        worst = int(order[0])
        most = float(errors[worst])
        at = 0
        extrapolates = False
        small *= 0.5
        large_error = total_error
    if not ends_here or rounded_later >= 5:
        raise NotImplementedError
    if sign_changes and max(abs(found), abs(area)) <= size * 0.01:
        return found, found_error
    if area == 0.0 or found / area < 0.01 or found / area > 100.0 or total_error > abs(area):
        raise NotImplementedError
    return found, found_error


def quad(
    f: Any, a: float, b: float, args: Any, epsabs: float, epsrel: float, limit: int, side: int
) -> tuple[float, float]:
    """``scipy.integrate.quad(f, a, b, args, ...)``; `side`: which bound is infinite, 2: both."""
    if a == b:
        return 0.0, 0.0
    flipped = b < a
    low = min(a, b)
    high = max(a, b)
    if side == 0:
        if low - low != 0.0 or high - high != 0.0:
            raise NotImplementedError
        value, error = _integral(f, args, low, high, 0.0, 0, epsabs, epsrel, limit)
    else:
        bound = low if side == 1 else high if side == -1 else 0.0
        if bound - bound != 0.0:  # both are infinite, one of them unknown before; or NaN
            raise NotImplementedError
        value, error = _integral(f, args, 0.0, 1.0, bound, side, epsabs, epsrel, limit)
    return (-value if flipped else value), error
