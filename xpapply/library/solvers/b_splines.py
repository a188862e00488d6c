"""Interpolating splines as FITPACK has them, for the compiler.

Sources: P. Dierckx, Curve and Surface Fitting with Splines, Oxford University Press 1993, chapters
1 (values and derivatives by de Boor and Cox) and 4 (coefficients by Givens' rotations, a point at a
time). Order of operations is FITPACK's, so results have SciPy's bits.

A spline is its knots, its coefficients and its degree. NotImplementedError is raised where SciPy
raises, or warns.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from .splines import without_axes

EXTENDS, ZEROS, RAISES, STAYS = range(4)
"""What is done beyond the ends."""


def _basis(t: Any, k: int, x: float, at: int, h: Any, before: Any) -> None:
    """The ``k + 1`` splines that are not zero between a knot and the next one, at a place."""
    h[0] = 1.0
    for j in range(1, k + 1):
        for i in range(j):
            before[i] = h[i]
        h[0] = 0.0
        for i in range(1, j + 1):
            left = float(t[at + i - j])
            right = float(t[at + i])
            h[i] = 0.0
            if right != left:
                part = float(before[i - 1]) / (right - left)
                h[i - 1] = float(h[i - 1]) + part * (right - x)
                h[i] = part * (x - left)


def knots(x: Any, k: int) -> Any:
    """Knots of the spline of a degree through points, and what makes its coefficients of values.

    That is for each point where its row of the system begins, and the rotations that turn it into
    the triangle, which is given last.
    """
    m = len(x)
    n = m + k + 1
    if m <= k or k < 1 or k > 5:
        raise NotImplementedError
    for i in range(1, m):
        if not float(x[i]) > float(x[i - 1]):
            raise NotImplementedError
    t = np.empty(n)
    for j in range(k + 1):
        t[j] = x[0]
        t[n - 1 - j] = x[m - 1]
    for j in range(m - k - 1):
        here = float(x[k // 2 + 1 + j])
        t[k + 1 + j] = here if k % 2 == 1 else (here + float(x[k // 2 + j])) * 0.5
    rows = np.zeros(m, np.int64)
    cosines = np.zeros((m, k + 1))
    sines = np.zeros((m, k + 1))
    r = np.zeros((m, k + 1))
    h = np.zeros(k + 1)
    before = np.zeros(k + 1)
    at = k
    for p in range(m):
        place = float(x[p])
        while at < m - 1 and place >= float(t[at + 1]):
            at += 1
        _basis(t, k, place, at, h, before)
        rows[p] = at - k
        for i in range(k + 1):
            pivot = float(h[i])
            if pivot == 0.0:
                continue
            row = at - k + i
            size = float(r[row, 0])
            if abs(pivot) >= size:
                length = abs(pivot) * math.sqrt(1.0 + size / pivot * (size / pivot))
            else:
                length = size * math.sqrt(1.0 + pivot / size * (pivot / size))
            cosine = size / length
            sine = pivot / length
            cosines[p, i] = cosine
            sines[p, i] = sine
            r[row, 0] = length
            for j in range(1, k + 1 - i):
                here = float(h[i + j])
                there = float(r[row, j])
                r[row, j] = cosine * there + sine * here
                h[i + j] = cosine * here - sine * there
    return t, rows, cosines, sines, r


def coefficients(y: Any, rows: Any, cosines: Any, sines: Any, r: Any, k: int) -> Any:
    """Those of values at the points; as many as knots."""
    m = len(rows)
    if len(y) != m:
        raise NotImplementedError
    c = np.zeros(m + k + 1)
    for p in range(m):
        value = float(y[p])
        first = int(rows[p])
        for i in range(k + 1):
            cosine = float(cosines[p, i])
            sine = float(sines[p, i])
            if sine != 0.0:
                there = float(c[first + i])
                c[first + i] = cosine * there + sine * value
                value = cosine * value - sine * there
    for i in range(m - 1, -1, -1):
        total = float(c[i])
        for j in range(1, min(k + 1, m - i)):
            total -= float(c[i + j]) * float(r[i, j])
        c[i] = total / float(r[i, 0])
    return c


def representation(x: Any, y: Any, k: int) -> Any:
    """``scipy.interpolate.splrep(x, y, k=k)``."""
    t, rows, cosines, sines, r = knots(x, k)
    return t, coefficients(y, rows, cosines, sines, r, k), k


def weights(t: Any, k: int, beyond: int, order: int, places: Any) -> Any:
    """Which coefficients of a derivative make its value at places, and what they are times.

    The first of them is below zero where the value is zero.
    """
    m = len(t) - k - 1
    if order < 0 or order > k or m <= k or beyond < 0 or beyond > 3:
        raise NotImplementedError
    first = np.zeros(len(places), np.int64)
    shares = np.zeros((len(places), k + 1))
    before = np.zeros(k + 1)
    low = float(t[k])
    high = float(t[m])
    at = k
    for p in range(len(places)):
        place = float(places[p])
        if place < low or place > high:
            if beyond == RAISES:
                raise NotImplementedError
            if beyond == ZEROS:
                first[p] = -1
                continue
            if beyond == STAYS and order == 0:
                place = low if place < low else high
        while at > k and place < float(t[at]):
            at -= 1
        while at < m - 1 and place >= float(t[at + 1]):
            at += 1
        first[p] = at - k
        _basis(t, k - order, place, at, shares[p], before)
    return first, shares


def values(t: Any, c: Any, k: int, order: int, first: Any, shares: Any) -> Any:
    """A derivative of a spline of an order, by `weights`."""
    m = len(t) - k - 1
    if len(c) < m:
        raise NotImplementedError
    if order > 0:
        c = c.copy()
        for r in range(order):
            for i in range(m - 1 - r):
                width = float(t[i + 1 + k]) - float(t[i + 1 + r])
                if width > 0.0:
                    c[i] = float(k - r) * (float(c[i + 1]) - float(c[i])) / width
    out = np.zeros(len(first))
    for p in range(len(first)):
        begin = int(first[p])
        if begin >= 0:
            total = 0.0
            for j in range(k + 1 - order):
                total += float(c[begin + j]) * float(shares[p, j])
            out[p] = total
    return out


def at(t: Any, c: Any, k: int, beyond: int, order: int, places: Any) -> Any:
    """A spline at some places, or its derivative of an order."""
    first, shares = weights(t, k, beyond, order, places)
    return values(t, c, k, order, first, shares)


def at_one(t: Any, c: Any, k: int, beyond: int, order: int, place: Any) -> Any:
    """The same at one place, as an array without axes."""
    places = np.empty(1)
    places[0] = place
    return without_axes(at(t, c, k, beyond, order, places)[0])


def curve(x: Any, y: Any, k: int, beyond: int) -> Any:
    """``scipy.interpolate.InterpolatedUnivariateSpline(x, y, k=k, ext=beyond)``."""
    t, c, _ = representation(x, y, k)
    return called(t, c, k, beyond)


def interpolating(x: Any, y: Any, k: int) -> Any:
    """``scipy.interpolate.make_interp_spline(x, y, k)``, but for rounding: knots are the same."""
    t, c, _ = representation(x, y, k)
    total = float(t[len(t) - 1]) - float(t[0])
    for i in range(len(y)):
        total += float(y[i]) - float(y[i])
    if total - total != 0.0:
        raise NotImplementedError
    return extended(t, c, k)


def curve_of(known: Any, made: Any, y: Any, k: int, beyond: int) -> Any:
    """The same of places that all slices have; `made`: all but the first of `knots`."""
    rows, cosines, sines, r = made
    return called(known, coefficients(y, rows, cosines, sines, r, k), k, beyond)


def called(t: Any, c: Any, k: int, beyond: int) -> Any:
    """What can be called with places, and the order of a derivative."""
    return functools.partial(asked, t, c, k, beyond)


def asked(t: Any, c: Any, k: int, beyond: int, places: Any, nu: int = 0) -> Any:
    """The spline at one place, or at several."""
    return (at if np.ndim(places) else at_one)(t, c, k, beyond, nu, places)


def extended(t: Any, c: Any, k: int) -> Any:
    """The same of a spline that is there beyond its ends."""
    return functools.partial(asked_anywhere, t, c, k)


def asked_anywhere(t: Any, c: Any, k: int, places: Any, nu: int = 0) -> Any:
    """That at one place, or at several."""
    return asked(t, c, k, EXTENDS, places, nu)
