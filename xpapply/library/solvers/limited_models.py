"""Quadratic models within bounds of a few steps that are remembered, for `limited_memory`.

Its sources say more, sections are those of the first one. Names are the paper's: rows of `s` and
`y` are steps and how the slopes changed with them, of which `m` are kept, in a ring; `sy` is S'Y
and `ss` is S'S; ``theta I`` is what the update begins with. Triangles are held by their columns.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .of_products import add_times, all_solved_below, factored, inner, solved_above, solved_below

_EPS = float(np.finfo(float).eps)
FREE, AT_LOWER, AT_UPPER, FIXED = range(4)
"""Where a variable stands; below `FREE`: it has no bounds, or does not move."""
HEAD, COUNT, UPDATES, LAST = range(4)
"""Of the ring: where it begins, how many rows it has, how many there were, the last one."""
NFREE, ENTER, LEAVE = range(3)
"""How many variables are free, how many have become so, and where those begin that are no more."""


def _middle(sy: Any, t: Any, col: int, v: Any, p: Any) -> None:
    """The product of the middle matrix, (2.13) in the paper, with a vector."""
    for i in range(col):
        total = 0.0
        for k in range(i):
            total += float(sy[i, k]) * float(v[k]) / float(sy[k, k])
        p[col + i] = float(v[col + i]) + total
    solved_below(t, p[col : 2 * col], col)
    for i in range(col):
        p[i] = float(v[i]) / math.sqrt(float(sy[i, i]))
    solved_above(t, p[col : 2 * col], col)
    for i in range(col):
        total = 0.0
        for k in range(i + 1, col):
            total += float(sy[k, i]) * float(p[col + k]) / float(sy[i, i])
        p[i] = -float(p[i]) / math.sqrt(float(sy[i, i])) + total


def _added(x: Any, part: float, y: Any, n: int) -> None:
    """The same as `add_times`, but that nothing is not added."""
    if part != 0.0:
        add_times(x, part, y, n)


def cauchy(
    x: Any, g: Any, bounds: Any, where: Any, d: Any, breaks: Any, z: Any, memory: Any, ring: Any,
    theta: float, rows: Any,
) -> None:  # fmt: skip
    """The first minimum along the projected direction of steepest descent, in `z`.

    `where` says which variables it leaves at bounds; the first of `rows` is what the paper calls
    W'(z - x).
    """
    lower, upper = bounds
    c, p, w, v = rows[0], rows[1], rows[2], rows[3]
    s, y, sy, _, t = memory
    n = len(x)
    col = int(ring[COUNT])
    head = int(ring[HEAD])
    two = 2 * col
    for j in range(two):
        p[j] = 0.0
        c[j] = 0.0
    f1 = 0.0
    count = 0
    moves = False
    is_bounded = True
    for i in range(n):
        down = -float(g[i])
        low = float(x[i]) - float(lower[i])
        high = float(upper[i]) - float(x[i])
        if where[i] != FIXED and where[i] != -1:
            where[i] = FREE
            if low <= 0.0:
                if down <= 0.0:
                    where[i] = AT_LOWER
            elif high <= 0.0:
                if down >= 0.0:
                    where[i] = AT_UPPER
            elif down == 0.0:
                where[i] = -3
        breaks[i] = -1.0
        d[i] = 0.0
        z[i] = x[i]
        if where[i] == FREE or where[i] == -1:
            d[i] = down
            f1 -= down * down
            for j in range(col):
                at = (head + j) % len(s)
                p[j] += float(y[at, i]) * down
                p[col + j] += float(s[at, i]) * down
            if low < math.inf and down < 0.0:
                breaks[i] = low / -down
                count += 1
            elif high < math.inf and down > 0.0:
                breaks[i] = high / down
                count += 1
            else:
                moves = True
                if down != 0.0:
                    is_bounded = False
    if theta != 1.0:
        for j in range(col, two):
            p[j] *= theta
    if count == 0 and not moves:
        return
    f2 = -theta * f1
    least = _EPS * f2
    if col > 0:
        _middle(sy, t, col, p, v)
        f2 -= float(inner(v[:two], p[:two]))
    ahead = -f1 / f2
    along = 0.0
    before = 0.0
    while count > 0:
        at = -1
        for i in range(n):
            if float(breaks[i]) >= 0.0 and (at < 0 or float(breaks[i]) < float(breaks[at])):
                at = i
        here = float(breaks[at])
        step = here - before
        if ahead < step:
            break
        before = here
        breaks[at] = -1.0
        count -= 1
        along += step
        down = float(d[at])
        d[at] = 0.0
        if down > 0.0:
            z[at] = upper[at]
            where[at] = AT_UPPER
        else:
            z[at] = lower[at]
            where[at] = AT_LOWER
        off = float(z[at]) - float(x[at])
        square = down * down
        f1 = f1 + step * f2 + square - theta * down * off
        f2 -= theta * square
        if col > 0:
            _added(c, step, p, two)
            for j in range(col):
                k = (head + j) % len(s)
                w[j] = y[k, at]
                w[col + j] = theta * float(s[k, at])
            _middle(sy, t, col, w, v)
            for j in range(3):
                part = float(inner(rows[j, :two], v[:two]))
                if j == 0:
                    f1 += down * part
                else:
                    f2 += down * 2.0 * part if j == 1 else -square * part
            _added(p, -down, w, two)
        f2 = max(least, f2)
        if count == 0 and is_bounded:
            ahead = 0.0
        else:
            ahead = -f1 / f2
    if ahead <= 0.0:
        ahead = 0.0
    _added(z, along + ahead, d, n)
    if col > 0:
        _added(c, ahead, p, two)


def freed(where: Any, order: Any, changed: Any, sets: Any, is_later: bool) -> None:
    """Which variables are free, and which have become free, or are no more."""
    n = len(where)
    sets[ENTER] = 0
    sets[LEAVE] = n
    if is_later:
        for i in range(n):
            k = int(order[i])
            if i < sets[NFREE]:
                if where[k] > FREE:
                    sets[LEAVE] -= 1
                    changed[sets[LEAVE]] = k
            elif where[k] <= FREE:
                changed[sets[ENTER]] = k
                sets[ENTER] += 1
    free = 0
    last = n
    for i in range(n):
        if where[i] <= FREE:
            order[free] = i
            free += 1
        else:
            last -= 1
            order[last] = i
    sets[NFREE] = free


def _of_some(a: Any, b: Any, which: Any, first: int, last: int) -> float:
    """The product of two rows, of some of their elements."""
    total = 0.0
    for k in range(first, last):
        j = int(which[k])
        total += float(a[j]) * float(b[j])
    return total


def keep_products(
    n1: Any, memory: Any, ring: Any, order: Any, changed: Any, sets: Any, updated: bool
) -> None:
    """Keep the products of steps and changes, of free variables and of others."""
    s, y = memory[0], memory[1]
    m, n = s.shape
    col = int(ring[COUNT])
    head = int(ring[HEAD])
    free = int(sets[NFREE])
    old = col
    if updated:
        old = col - 1
        if ring[UPDATES] > m:
            for j in range(m - 1):
                for i in range(j, m - 1):
                    n1[i, j] = n1[i + 1, j + 1]
                    n1[m + i, m + j] = n1[m + i + 1, m + j + 1]
                for i in range(m - 1):
                    n1[m + i, j] = n1[m + i + 1, j + 1]
    for i in range(col):
        for j in range(col):
            anew = i >= old or j >= old
            for block in range(3):
                if j > i and block < 2:  # a lower triangle
                    continue
                first = y[(head + i) % m] if block == 0 else s[(head + i) % m]
                second = s[(head + j) % m] if block == 1 else y[(head + j) % m]
                low = i + m if block > 0 else i
                high = j + m if block == 1 else j
                inside = block == 0 or (block == 2 and i <= j)
                if anew:
                    begins = 0 if inside else free
                    ends = free if inside else n
                    n1[low, high] = _of_some(first, second, order, begins, ends)
                else:
                    more = _of_some(first, second, changed, 0, int(sets[ENTER]))
                    less = _of_some(first, second, changed, int(sets[LEAVE]), n)
                    here = float(n1[low, high])
                    n1[low, high] = here + more - less if inside else here - more + less


def formed(k: Any, n1: Any, sy: Any, theta: float, col: int) -> bool:
    """The factors of the matrix K of section 5.1: whether there are any."""
    m = len(sy)
    for i in range(col):
        for j in range(i + 1):
            k[i, j] = float(n1[i, j]) / theta
            k[col + i, col + j] = float(n1[m + i, m + j]) * theta
        for j in range(col):
            part = float(n1[m + i, j])
            k[col + i, j] = -part if j < i else part
        k[i, i] += float(sy[i, i])
    if not factored(k, 0, col):
        return False
    all_solved_below(k, col)
    for i in range(col, 2 * col):
        for j in range(i, 2 * col):
            k[j, i] += float(inner(k[i, :col], k[j, :col]))
    return factored(k, col, col)


def reduced(
    x: Any, g: Any, z: Any, r: Any, memory: Any, ring: Any, theta: float, rows: Any, order: Any,
    free: int, bounded: bool,
) -> None:  # fmt: skip
    """The slopes of the quadratic model at the point of Cauchy, but for their sign."""
    s, y, sy, _, t = memory
    m = len(s)
    col = int(ring[COUNT])
    if not bounded:
        for i in range(len(x)):
            r[i] = -float(g[i])
        return
    for i in range(free):
        k = int(order[i])
        r[i] = -theta * (float(z[k]) - float(x[k])) - float(g[k])
    p = rows[1]
    _middle(sy, t, col, rows[0], p)
    for j in range(col):
        at = (int(ring[HEAD]) + j) % m
        a1 = float(p[j])
        a2 = theta * float(p[col + j])
        for i in range(free):
            k = int(order[i])
            r[i] = float(r[i]) + float(y[at, k]) * a1 + float(s[at, k]) * a2


def in_subspace(
    z: Any, r: Any, x: Any, g: Any, bounds: Any, memory: Any, ring: Any, theta: float, k: Any,
    order: Any, free: int, v: Any, kept: Any,
) -> None:  # fmt: skip
    """Move `z` to the minimum over the free variables, as far as bounds let it."""
    lower, upper = bounds
    s, y = memory[0], memory[1]
    m = len(s)
    col = int(ring[COUNT])
    head = int(ring[HEAD])
    for j in range(col):
        at = (head + j) % m
        one = 0.0
        other = 0.0
        for i in range(free):
            q = int(order[i])
            one += float(y[at, q]) * float(r[i])
            other += float(s[at, q]) * float(r[i])
        v[j] = one
        v[col + j] = theta * other
    solved_below(k, v, 2 * col)
    for j in range(col):
        v[j] = -float(v[j])
    solved_above(k, v, 2 * col)
    for j in range(col):
        at = (head + j) % m
        for i in range(free):
            q = int(order[i])
            part = float(y[at, q]) * float(v[j]) / theta
            r[i] = float(r[i]) + part + float(s[at, q]) * float(v[col + j])
    part = 1.0 / theta
    for i in range(free):
        r[i] *= part
    for j in range(len(z)):
        kept[j] = z[j]
    ends = False
    for i in range(free):
        q = int(order[i])
        here = max(float(lower[q]), float(z[q]) + float(r[i]))
        here = min(float(upper[q]), here)
        z[q] = here
        if here == float(lower[q]) or here == float(upper[q]):
            ends = True
    if not ends:
        return
    slope = 0.0
    for j in range(len(z)):
        slope += (float(z[j]) - float(x[j])) * float(g[j])
    if slope <= 0.0:
        return
    for j in range(len(z)):
        z[j] = kept[j]
    alpha = 1.0
    most = 1.0
    last = -1
    for i in range(free):
        q = int(order[i])
        step = float(r[i])
        if step < 0.0:
            off = float(lower[q]) - float(z[q])
            if off >= 0.0:
                most = 0.0
            elif step * alpha < off:
                most = off / step
        elif step > 0.0:
            off = float(upper[q]) - float(z[q])
            if off <= 0.0:
                most = 0.0
            elif step * alpha > off:
                most = off / step
        if most < alpha:
            alpha = most
            last = i
    if last >= 0:
        q = int(order[last])
        if float(r[last]) != 0.0:
            z[q] = upper[q] if float(r[last]) > 0.0 else lower[q]
            r[last] = 0.0
    for i in range(free):
        q = int(order[i])
        z[q] = float(z[q]) + alpha * float(r[i])


def remembered(
    d: Any, r: Any, memory: Any, ring: Any, theta: float, change: float, square: float
) -> bool:
    """Put a step and a change into the ring; whether the matrix has a factor then."""
    s, y, sy, ss, t = memory
    m = len(s)
    n = len(d)
    ring[UPDATES] += 1
    if ring[UPDATES] <= m:
        ring[COUNT] = ring[UPDATES]
        ring[LAST] = (ring[HEAD] + ring[UPDATES] - 1) % m
    else:
        ring[LAST] = (ring[LAST] + 1) % m
        ring[HEAD] = (ring[HEAD] + 1) % m
    col = int(ring[COUNT])
    for j in range(n):
        s[ring[LAST], j] = d[j]
        y[ring[LAST], j] = r[j]
    if ring[UPDATES] > m:
        for j in range(1, col):
            for i in range(j):
                ss[i, j - 1] = ss[i + 1, j]
            for i in range(j, col):
                sy[i - 1, j - 1] = sy[i, j]
    for j in range(col - 1):
        at = (int(ring[HEAD]) + j) % m
        sy[col - 1, j] = inner(d, y[at])
        ss[j, col - 1] = inner(s[at], d)
    ss[col - 1, col - 1] = square
    sy[col - 1, col - 1] = change
    for i in range(col):
        for j in range(i, col):
            total = 0.0
            for k in range(i):
                total += float(sy[i, k]) * float(sy[j, k]) / float(sy[k, k])
            t[j, i] = total + theta * float(ss[i, j])
    return factored(t, 0, col)
