"""``scipy.integrate.solve_ivp``: what all methods have in common, for the compiler.

What a method remembers from step to step is its own: of that the driver knows that the fourth part
has how often the function and its Jacobian were asked for, and how many matrices were factored.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...of_results import Result
from .equations import check, check_places
from .events import active, evaluate, gathered, happened
from .solution import solution


def solved(
    f: Any, args: Any, begin: float, start: Any, end: Any, y: Any, given: Any, places: Any,
    limits: Any, tables: Any, methods: Any, told: Any, texts: Any, events: Any, dense: Any,
) -> Any:  # fmt: skip
    """``scipy.integrate.solve_ivp(f, (begin, end), y, t_eval=given, args=args, ...)``.

    Parameters
    ----------
    start : float
        `begin`, as Python's number or as NumPy's.
    places : ndarray of float64 or None
        `given`.
    limits : tuple
        `rtol`, `atol` (an array), `max_step` and `first_step`.
    tables : tuple of ndarray
        Coefficients of the method.
    methods : tuple
        What a method begins with, its steps (and what they are given at last), what values between
        steps are made of, the values at one place and at some; whether SciPy puts these in columns,
        and whether a place where two steps meet belongs to the later one.
    told : tuple
        What else the method is told.
    texts : tuple of str
        Why it ended: at the end, where an event ended it, or where steps get too short.
    events : tuple or None
        Functions whose zeros are looked for, the first values as they are given, after how many
        zeros it ends, and which way signs are to change.
    dense : object
        Something if the solution is wanted at any place, else None.
    """
    begins, steps, of_steps, between, one, some, turned, later = methods
    n = len(y)
    check(n, begin, end, y, *limits)
    sign = np.float64(1.0 if end > begin else -1.0)
    done = most = 0
    ts = [start]
    ys = [y[0]]
    out = np.empty((n, 0))
    if places is None:
        for i in range(1, n):
            ys.append(y[i])
    else:
        check_places(places, begin, end)
        out = np.empty((n, len(places)))
    y = y.copy()
    t = start
    state = begins(f, args, start, end, y, sign, limits, tables, told)
    status = 0
    parts = np.empty((0, 0))
    rows = 0
    if dense is not None:
        meets = [begin]
        ends = [0.0]
        olds = [0.0]
        pieces = [0.0]
    if events is not None:
        whiches = [0]
        zeros = [0.0]
        values = [0.0]
        functions, first_y, ends_after, ways = events
        count = len(ways)
        g = np.empty(count)
        after = np.empty(count)
        seen = np.zeros(count, int)
        which = np.zeros(count, int)
        order = np.zeros(count, int)
        roots = np.empty(count)
        evaluate(functions, begin, first_y, args, g)
    while sign * (t - end) < 0:
        is_found, now, there = steps(
            f, args, t, end, y, sign, limits, tables, told, state, of_steps
        )
        if not is_found:
            status = -1
            break
        until = now
        is_known = False
        if dense is not None:
            parts = between(f, args, t, now, y, there, state, tables)
            is_known = True
            rows = len(parts)
            ends.append(float(t))
            ends.append(float(now))
            for i in range(n):
                olds.append(float(y[i]))
            for i in range(rows):
                for j in range(parts.shape[1]):
                    pieces.append(float(parts[i, j]))
        if events is not None:
            evaluate(functions, now, there, args, after)
            count = active(g, after, ways, which)
            if count > 0:
                if not is_known:
                    parts = between(f, args, t, now, y, there, state, tables)
                    is_known = True
                count, stops = happened(
                    functions, args, one, parts, t, now, y, ends_after, seen, which, count, order,
                    roots,
                )  # fmt: skip
                for k in range(count):
                    whiches.append(int(order[k]))
                    zeros.append(float(roots[k]))
                    found = one(parts, t, now, y, roots[k])
                    for i in range(n):
                        values.append(float(found[i]))
                if stops:
                    status = 1
                    until = roots[count - 1]
            for k in range(len(g)):
                g[k] = after[k]
        if dense is not None:
            meets.append(float(until))
        if places is None:
            ts.append(until)
            if status == 1:
                there = one(parts, t, now, y, until)
            for i in range(n):
                ys.append(there[i])
        else:
            last = done
            while last < len(places) and sign * (places[last] - until) <= 0:
                last += 1
            if last > done:
                if not is_known:
                    parts = between(f, args, t, now, y, there, state, tables)
                some(parts, t, now, y, places, done, last, out)
            most = max(most, last - done)
            done = last
        y = there
        t = now
        if status == 1:
            break
    if places is None:
        out = np.empty((len(ts), n))
        for s in range(len(ts)):
            for i in range(n):
                out[s, i] = ys[s * n + i]
        out = out.T
        when = np.array(ts)
    else:
        if done == 0:
            raise NotImplementedError
        when = given[:done].copy()
        if done < len(places):
            out = out[:, :done].copy()
        if turned and n > 1 and most > 1:  # each step's values are in columns
            out = out.T.copy().T
    times = None
    tables_ = None
    if events is not None:
        times, tables_ = gathered(functions, whiches[1:], zeros[1:], values[1:], n)
    sol = None
    if dense is not None:
        steps_ = len(meets) - 1
        if steps_ == 0:
            raise NotImplementedError
        for k in range(steps_):
            if sign * (meets[k + 1] - meets[k]) <= 0.0:
                raise NotImplementedError
        old = np.empty((steps_, n))
        held = np.empty((steps_ * rows, (len(pieces) - 1) // (steps_ * rows)))
        p = 1
        for k in range(steps_):
            for i in range(n):
                old[k, i] = olds[1 + k * n + i]
        for k in range(steps_ * rows):
            for j in range(held.shape[1]):
                held[k, j] = pieces[p]
                p += 1
        sol = solution(one, some, later, np.array(meets), ends[1:], old, held)
    counts = state[3]
    return Result(
        t=when, y=out, sol=sol, t_events=times, y_events=tables_, nfev=int(counts[0]),
        njev=int(counts[1]), nlu=int(counts[2]), status=status, message=texts[status],
        success=status >= 0,
    )  # fmt: skip
