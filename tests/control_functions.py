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
