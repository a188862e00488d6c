"""Values and slopes of functions of several numbers, and searches along a line, for the compiler.

Source: J. J. Moré and D. J. Thuente, "Line search algorithms with guaranteed sufficient decrease",
ACM Transactions on Mathematical Software 20 (1994) 286: the step of section 4, and the interval of
section 3, with the constants of MINPACK-2. Operations are in SciPy's order. What is raised is said
in ``of_fits``.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .of_products import anyones

_EPS = float(np.finfo(float).eps)
_STEP = math.sqrt(_EPS)
CALLS, SLOPES, HAS_VALUE, HAS_SLOPES = range(4)
"""What is counted and known: how often values and slopes were asked for, and what is there now."""


def value(y: Any) -> Any:
    """What a function gives, as a number: also of an array of one."""
    return np.asarray(y).item() if isinstance(y, np.ndarray) else y


def only(y: Any) -> float:
    """The number in an array of one."""
    if len(y) != 1:
        raise ValueError
    return float(y[0])


def gradient(g: Any) -> Any:
    """What gives the slopes of a function, as an array of float64."""
    return np.atleast_1d(np.asarray(g))


def _step(here: float, j: int, how: Any) -> float:
    """How far to go from a place for a difference, within bounds."""
    eps, lower, upper = how
    h = _STEP * max(1.0, abs(here))
    if here < 0.0:
        h = -h
    if eps is not None and (here + eps) - here != 0.0:
        h = eps
    if lower is None:
        return h
    below = here - float(lower[j])
    above = float(upper[j]) - here
    if here + h < float(lower[j]) or here + h > float(upper[j]):
        if abs(h) <= max(below, above):
            return -h
        return above if above >= below else -below
    if abs(h) > max(below, above):
        return above if above >= below else -below
    return h


def looked(
    f: Any, jac: Any, both: Any, args: Any, x: Any, sloped: bool, how: Any, y: Any, at: Any,
    slopes: Any, seen: Any,
) -> Any:  # fmt: skip
    """The value of `f` at `x`, and its slopes there if they are asked for, each but once.

    Parameters
    ----------
    jac : callable or None
        What gives slopes; None: differences.
    both : object
        None: `f` gives its value alone, not its slopes too.
    sloped : bool
        Whether slopes are asked for.
    how : tuple
        Of differences: the step, or None; bounds, or None.
    y : float
        The value at `at`, where it was called last; ``slopes``: those there.
    seen : ndarray of int
        What is counted and known.
    """
    n = len(x)
    for j in range(n):
        if float(x[j]) != float(at[j]):
            seen[HAS_VALUE] = 0
            seen[HAS_SLOPES] = 0
            at[j] = float(x[j])
    wants = sloped and seen[HAS_SLOPES] == 0
    first = 0 if seen[HAS_VALUE] == 1 else -1
    last = n if wants and jac is None and both is None else 0
    for j in range(first, last):
        point = at.copy()
        d = 0.0
        if jac is None and both is None and j >= 0:
            here = float(at[j])
            h = _step(here, j, how)
            point[j] = here + h
            d = (here + h) - here
        if both is not None:
            found, own = f(point, *args)
            g = gradient(own)
            if len(g) != n:
                raise NotImplementedError
            for i in range(n):
                slopes[i] = g[i]
        else:
            found = f(point, *args)
        there = anyones(value(found))
        if float(there) - float(there) != 0.0:
            raise NotImplementedError
        if jac is not None or both is not None or j < 0:
            y = there
        else:
            slopes[j] = (float(there) - float(y)) / d
        seen[CALLS] += 1
    seen[HAS_VALUE] = 1
    if wants:
        if jac is not None:
            g = gradient(jac(at.copy(), *args))
            if len(g) != n:
                raise NotImplementedError
            for i in range(n):
                slopes[i] = g[i]
        for j in range(n):
            if float(slopes[j]) - float(slopes[j]) != 0.0:
                raise NotImplementedError
        seen[HAS_SLOPES] = 1
        seen[SLOPES] += 1
    return y


# --- the search of Moré and Thuente -------------------------------------------------------------

_X, _FX, _GX, _Y, _FY, _GY, _LOW, _HIGH, _WIDTH, _WIDTH_BEFORE, _F, _G, _BETWEEN, _SECOND = range(
    14
)
SEARCHED = 14
"""How many numbers a search keeps."""
GOES_ON, FOUND, ROUNDED, AT_MOST, AT_LEAST, NARROW = range(6)
"""What a search says: it goes on, or why it ends."""


def begin(s: Any, step: float, f: float, g: float, least: float, most: float) -> None:
    """Begin a search at a place with a value and a slope, which tries a step first."""
    for k in range(SEARCHED):
        s[k] = 0.0
    s[_FX] = f
    s[_FY] = f
    s[_F] = f
    s[_GX] = g
    s[_GY] = g
    s[_G] = g
    s[_WIDTH] = most - least
    s[_WIDTH_BEFORE] = (most - least) / 0.5
    s[_HIGH] = step + 4.0 * step


def _nearest(theta: float, size: float, a: float, b: float) -> float:
    """The root in the minimum of a cubic, whose slopes at both ends are `a` and `b`."""
    return size * math.sqrt((theta / size) ** 2 - a / size * (b / size))


def _tried(
    s: Any, step: float, f: float, g: float, x: float, fx: float, gx: float, fy: float, gy: float
) -> float:
    """The next step: by a cubic, a quadratic or a secant, kept within the interval."""
    y = float(s[_Y])
    between = float(s[_BETWEEN]) != 0.0
    opposite = (g < 0.0 < gx) or (gx < 0.0 < g)
    low = float(s[_LOW])
    high = float(s[_HIGH])
    if f > fx:
        theta = 3.0 * (fx - f) / (step - x) + gx + g
        root = _nearest(theta, max(abs(theta), abs(gx), abs(g)), gx, g)
        if step < x:
            root = -root
        ratio = ((root - gx) + theta) / (((root - gx) + root) + g)
        cubic = x + ratio * (step - x)
        other = x + gx / ((fx - f) / (step - x) + gx) / 2.0 * (step - x)
        found = cubic if abs(cubic - x) <= abs(other - x) else cubic + (other - cubic) / 2.0
        s[_BETWEEN] = 1.0
    elif opposite:
        theta = 3.0 * (fx - f) / (step - x) + gx + g
        root = _nearest(theta, max(abs(theta), abs(gx), abs(g)), gx, g)
        if step > x:
            root = -root
        ratio = ((root - g) + theta) / (((root - g) + root) + gx)
        cubic = step + ratio * (x - step)
        other = step + g / (g - gx) * (x - step)
        found = cubic if abs(cubic - step) > abs(other - step) else other
        s[_BETWEEN] = 1.0
    elif abs(g) < abs(gx):
        theta = 3.0 * (fx - f) / (step - x) + gx + g
        size = max(abs(theta), abs(gx), abs(g))
        root = size * math.sqrt(max(0.0, (theta / size) ** 2 - gx / size * (g / size)))
        if step > x:
            root = -root
        ratio = ((root - g) + theta) / ((root + (gx - g)) + root)
        if ratio < 0.0 and root != 0.0:
            cubic = step + ratio * (x - step)
        else:
            cubic = high if step > x else low
        other = step + g / (g - gx) * (x - step)
        if between:
            found = cubic if abs(cubic - step) < abs(other - step) else other
            far = step + 0.66 * (y - step)
            found = min(far, found) if step > x else max(far, found)
        else:
            found = cubic if abs(cubic - step) > abs(other - step) else other
            found = min(max(found, low), high)
    elif between:
        theta = 3.0 * (f - fy) / (y - step) + gy + g
        root = _nearest(theta, max(abs(theta), abs(gy), abs(g)), gy, g)
        if step > y:
            root = -root
        ratio = ((root - g) + theta) / (((root - g) + root) + gy)
        found = step + ratio * (y - step)
    else:
        found = high if step > x else low
    if f > fx:
        s[_Y] = step
        fy = f
        gy = g
    else:
        if opposite:
            s[_Y] = x
            fy = fx
            gy = gx
        s[_X] = step
        fx = f
        gx = g
    s[_FX] = fx
    s[_GX] = gx
    s[_FY] = fy
    s[_GY] = gy
    return found


def searched(s: Any, step: float, f: float, g: float, limits: Any) -> tuple[int, float]:
    """What a search says of a step with a value and a slope, and the step to try next.

    `limits`: of sufficient decrease, of the slope, of the interval; the least and the largest step.
    """
    ftol, gtol, xtol, least, most = limits
    part = ftol * float(s[_G])
    enough = float(s[_F]) + step * part
    if float(s[_SECOND]) == 0.0 and f <= enough and g >= 0.0:
        s[_SECOND] = 1.0
    between = float(s[_BETWEEN]) != 0.0
    low = float(s[_LOW])
    high = float(s[_HIGH])
    says = GOES_ON
    if between and (step <= low or step >= high):
        says = ROUNDED
    if between and high - low <= xtol * high:
        says = NARROW
    if step == most and f <= enough and g <= part:
        says = AT_MOST
    if step == least and (f > enough or g >= part):
        says = AT_LEAST
    if f <= enough and abs(g) <= gtol * -float(s[_G]):
        says = FOUND
    if says != GOES_ON:
        return says, step
    if float(s[_SECOND]) != 0.0 or f > float(s[_FX]) or f <= enough:
        part = 0.0
    x = float(s[_X])
    y = float(s[_Y])
    step = _tried(
        s, step, f - step * part, g - part, x, float(s[_FX]) - x * part, float(s[_GX]) - part,
        float(s[_FY]) - y * part, float(s[_GY]) - part,
    )  # fmt: skip
    x = float(s[_X])
    y = float(s[_Y])
    s[_FX] = float(s[_FX]) + x * part
    s[_FY] = float(s[_FY]) + y * part
    s[_GX] = float(s[_GX]) + part
    s[_GY] = float(s[_GY]) + part
    between = float(s[_BETWEEN]) != 0.0
    if between:
        if abs(y - x) >= 0.66 * float(s[_WIDTH_BEFORE]):
            step = x + 0.5 * (y - x)
        s[_WIDTH_BEFORE] = s[_WIDTH]
        s[_WIDTH] = abs(y - x)
        low = min(x, y)
        high = max(x, y)
    else:
        low = step + 1.1 * (step - x)
        high = step + 4.0 * (step - x)
    s[_LOW] = low
    s[_HIGH] = high
    step = min(max(step, least), most)
    if between and (step <= low or step >= high or high - low <= xtol * high):
        step = x
    return GOES_ON, step
