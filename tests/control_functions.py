"""Functions of a slice that raise, handle, match and define, for the compiler of loops."""

import math

import numpy as np


def reciprocals(v):
    n = 0
    s = 0.0
    for x in v:
        try:
            s += 1.0 / float(x)
        except ZeroDivisionError:
            n += 1
    return n + s


def logs(v):
    s = 0.0
    bad = 0
    for x in v:
        try:
            s += math.log(x)
        except (ValueError, OverflowError) as error:  # noqa: F841
            bad += 1
        else:
            s += 0.5
        finally:
            s *= 0.5
    return s, bad


def indices(v):
    n = 0
    some = [1, 2]
    for i in range(len(v) + 3):
        try:
            n += int(v[i]) + some[i]
        except IndexError:
            n += 1000
        except ValueError:
            n += 1
        except OverflowError:
            n += 100
    return n


def root(x):
    if x < 0:
        raise ValueError(f"negative {x}")
    return math.sqrt(x)


def of_a_helper(v):
    s = 0.0
    for x in v:
        try:
            s += root(x)
        except Exception:
            s -= 1
    return s


def nested(v):
    s = 0.0
    for x in v:
        try:
            try:
                assert x > -1
                s += 1
            except ValueError:
                s += 1e6
            finally:
                s += 0.25
        except AssertionError as error:
            s -= 3
            try:
                raise error
            except AssertionError:
                s -= 0.125
            try:
                try:
                    raise
                except IndexError:
                    s = 0
            except:  # noqa: E722
                s += 0.0625
    return s


def leaves_by_finally(v):
    for k in range(len(v)):
        try:
            if v[k] > 1:
                return k
            if v[k] < -1:
                break
            if v[k] < 0:
                continue
            1 / int(v[k])
        except ZeroDivisionError:
            pass
        finally:
            k += 100
    return k


def powers(v):
    s = 0
    for x in v:
        try:
            s += abs(float(x)) ** -2.5
        except ZeroDivisionError:
            s += 7
        except OverflowError:
            s += 9
    return s


def returns_in_finally(v):
    for x in v:
        try:
            if x > 1:
                return 1
            [1, 2][int(x)]
        except IndexError:
            return 2
        finally:
            if x < -1:
                return 3  # noqa: B012
    return 4


class Odd(ArithmeticError):
    """An exception of the user's."""


def own_classes(v):
    n = 0
    for x in v:
        try:
            if x > 1:
                raise Odd("so much", x)
            elif x < -1:
                raise Odd from None
            n += 1
        except ArithmeticError:
            n += 10
    return n


def not_handled(v):
    s = 0.0
    for x in v:
        try:
            s += 1 / float(x)
        except ValueError:
            s = -1.0
    return s


def quiet(v):
    s = 0.0
    with np.errstate(divide="ignore", invalid="ignore"):
        for x in v:
            s += 1.0 / x
    return s


def quiet_in_part(v):
    s = 0.0
    for x in v:
        with np.errstate(all="ignore"):
            y = np.log(x)
        if np.isfinite(y):
            s += y
        else:
            continue
    return s


def quiet_and_loud(v):
    s = 0.0
    for x in v:
        with np.errstate(all="ignore"):
            with np.errstate(divide="warn"):
                s += np.log(abs(x))
            w = (v / x).max()
        s += 0.0 if w != w else w
    return s


def quiet_until_it_raises(v):
    s = 0.0
    for x in v:
        try:
            with np.errstate(all="ignore"):
                s += np.sqrt(x)
                if x > 1:
                    raise ValueError
                if x == 0:
                    continue
        except ValueError:
            s += np.exp(x)
    return s


HANDLED = [
    reciprocals, logs, indices, of_a_helper, nested, leaves_by_finally, powers,
    returns_in_finally, own_classes, quiet, quiet_in_part,
]  # fmt: skip
"""Those that handle all that they raise, for ordinary numbers, NaN and infinities."""


def matches(v):
    n = 0
    for k, x in enumerate(v):
        match k, bool(x > 0):
            case 0, _:
                n += 1
            case (1 | 2) as which, True:
                n += 10 * which
            case (a, True) if a > 4:
                n += 1000 + a
            case _, False:
                n -= 1
            case other:
                n += other[0]
    match n % 4:
        case 0:
            return -1
        case 1 | 2:
            return n
        case m if m > 7:
            return 7
    return n


def matches_kinds(v):
    s = 0.0
    for x in v:
        y = int(x) if abs(x) < 5 else None
        match y:
            case None:
                s += 100.0
            case 0:
                s += 0.5
            case int():
                s += y
    match [s, 1.0]:
        case [a, b, c]:
            return a + b + c
        case [a, b]:
            return a - b
    return s


def counts_by_nonlocal(v):
    n = 0
    best = -1.0

    def see(x, step=1):
        nonlocal n, best
        if x > best:
            best = x
            n += step
        return n + step

    s = 0
    for x in v:
        s += n + see(x)
        s += see(x / 2, step=2)
    return s + n


def closures(v):
    limit = 0.5
    above = lambda x: x > limit  # noqa: E731

    def count(f, *more, scale=1):
        k = 0
        for x in v:
            if f(x):
                k += scale
        for g in more:
            k += 100 if g(v[0]) else 0
        return k

    first = count(above)
    limit = -0.5
    pair = (above, lambda x: x < limit)
    return first + 1000 * count(*pair, scale=2)


def newton(v):
    def root(f, df, x):
        for _ in range(20):
            step = f(x) / df(x)
            x = x - step
            if abs(step) < 1e-10:
                break
        return x

    c = abs(float(v[0])) + 1.0
    if c > 1e10:
        return 0.0
    return root(lambda x: x * x - c, lambda x: 2 * x, c)


def keys(v):
    a = max(v, key=lambda x: abs(x - 0.25))
    b = min(range(len(v)), key=lambda i: (v[i] > 0) + 0.5 * i)
    c = max((x for x in v if x > 5), default=-1.0)
    d = min(v[0], v[1], key=lambda x: -x)
    return a + b + c + d


def orders(v):
    n = 0
    for i, j in enumerate(sorted(range(len(v)), key=lambda k: abs(v[k]), reverse=True)):
        n += i * j
    a = sorted(v, reverse=True)
    b = sorted(v, key=lambda x: (x > 0) * 2 + (x < 0))
    return n + a[0] - a[-1] + b[0] + 0.5 * b[3]


def spreads(v):
    pair = v[0], v[1]

    def add(a, b, c=0.5):
        return a - 2 * b + c

    return add(*pair) + add(*pair, 3.0) + add(1.0, *(2.0,), c=v[2]) + max(*pair)


def stops_early(v):
    n = 0

    def see(x):
        nonlocal n
        n += 1
        return x > 0.5

    found = any(see(x) for x in v)
    s = 0
    try:
        s += all(1.0 / float(x) > -1 for x in v if x == x)
    except ZeroDivisionError:
        s = -3
    return s + n * 10 + found


def names_generators(v):
    squares = (x * x for x in v)
    a = sum(squares)
    large = (i for i, x in enumerate(v) if x > 0)
    return a + max(large, default=-1)


DEFINED = [
    stops_early, names_generators,
    matches, matches_kinds, counts_by_nonlocal, closures, newton, keys, orders, spreads,
]  # fmt: skip
"""Those that match, and define functions."""


def modes(v):
    s = 0.0
    mode = "soft"
    for x in v:
        mode = "hard" if x > 1 else "soft" if x > 0 else mode
        if mode == "soft":
            s += x
        elif mode in ("hard", "rigid") and mode != "none":
            s -= 1
    return s


def methods(v):
    w = v.copy()
    w.fill(2.0)
    w[0] = v.max()
    total = 0.0
    for x in w.flat:
        total += x.item()
    n = v.size + v.shape[0] * v.ndim + len(v.tolist())
    if v.dtype == np.float64:
        n += 100
    if v.dtype.kind == "f":
        n += 1000
    if v.dtype != np.dtype(int):
        n += 10000
    return total + n + v.dtype.itemsize + v.astype(np.float64)[0]


def kinds(v, extra=None, scale=2):
    s = 0
    for x in v:
        if isinstance(x, (float, np.floating)):
            s += 1
        if isinstance(x, int):
            s += 100
        if isinstance(scale, (int, float)) and not isinstance(extra, str):
            s += scale
        if extra is not None:
            s += extra
    if isinstance(v, np.ndarray) and not isinstance(v, (list, tuple)):
        s += 0.5
    return s


VALUES = [modes, methods, kinds]
"""Those that ask values what they are."""
