"""Functions for the suite `loops`: of numbers, through `vectorize`; roots and steps by hand."""

from __future__ import annotations

import math

import numpy as np

from .loop_rows import row

NUMBERS, SOLVERS = "functions of numbers", "roots and steps by hand"


def _plane(rng, n):
    return -2.0 + 2.6 * rng.random(n), -1.2 + 2.4 * rng.random(n)


@row(NUMBERS, 50_000, _plane, "")
def mandelbrot(cx, cy, most=100):
    x = y = 0.0
    for k in range(most):
        if x * x + y * y > 4.0:
            return k
        x, y = x * x - y * y + cx, 2 * x * y + cy
    return most


@row(NUMBERS, 30_000, lambda rng, n: (rng.integers(1, 100_000, n),), "")
def collatz(n):
    steps = 0
    while n != 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        steps += 1
    return steps


@row(NUMBERS, 200_000, lambda rng, n: tuple(rng.integers(1, 1_000_000, (2, n))), "")
def gcd(a, b):
    while b:
        a, b = b, a % b
    return a


@row(NUMBERS, 200_000, lambda rng, n: (2 * np.pi * rng.random(n), 0.9 * rng.random(n)), "")
def kepler(mean, e):
    """The eccentric anomaly."""
    x = mean if e < 0.8 else math.pi
    for _ in range(50):
        step = (x - e * math.sin(x) - mean) / (1 - e * math.cos(x))
        x -= step
        if abs(step) < 1e-12:
            break
    return x


def _days(rng, n):
    return rng.integers(1800, 2100, n), rng.integers(1, 13, n), rng.integers(1, 29, n)


@row(NUMBERS, 500_000, _days, "")
def julian_date(year, month, day):
    """Meeus, Astronomical Algorithms."""
    if month <= 2:
        year -= 1
        month += 12
    a = year // 100
    b = 2 - a + a // 4
    whole = int(365.25 * (year + 4716)) + int(30.6001 * (month + 1))
    return whole + day + b - 1524.5


@row(NUMBERS, 100_000, lambda rng, n: (rng.integers(0, 1 << 40, n),), "")
def popcount(n):
    count = 0
    while n:
        n &= n - 1
        count += 1
    return count


@row(NUMBERS, 10_000, lambda rng, n: (rng.integers(2, 100_000, n),), "")
def cycle_length(n):
    """Floyd's tortoise and hare for x -> (x * x + 1) % n."""
    slow = 2 % n
    fast = (slow * slow + 1) % n
    while slow != fast:
        slow = (slow * slow + 1) % n
        fast = (fast * fast + 1) % n
        fast = (fast * fast + 1) % n
    length = 1
    fast = (slow * slow + 1) % n
    while slow != fast:
        fast = (fast * fast + 1) % n
        length += 1
    return length


@row(NUMBERS, 1000, lambda rng, n: (rng.integers(100, 5000, n),), "")
def primes_below(n):
    sieve = [True] * n
    count = 0
    for p in range(2, n):
        if sieve[p]:
            count += 1
            for k in range(p * p, n, p):
                sieve[k] = False
    return count


# --- roots and steps ----------------------------------------------------------------------


@row(SOLVERS, 20_000, lambda rng, n: (5 * rng.random(n), 5 * rng.random(n)), "")
def bisection(a, b):
    low, high = 0.0, 10.0
    while high - low > 1e-10:
        middle = 0.5 * (low + high)
        if middle**3 + a * middle - b - 1 > 0:
            high = middle
        else:
            low = middle
    return 0.5 * (low + high)


@row(SOLVERS, 50_000, lambda rng, n: (1 + 99 * rng.random(n), 0.5 + 0.4 * rng.random(n)), "")
def newton(friction, slope):
    """x * exp(x) = friction, as solved for flow and for Lambert's W."""
    x = math.log(friction + 1) * slope
    for _ in range(30):
        e = math.exp(x)
        change = (x * e - friction) / (e * (x + 1))
        x -= change
        if abs(change) < 1e-13 * (1 + abs(x)):
            return x
    return math.nan


def _residual(x, k):
    return math.cos(x) - k * x


@row(SOLVERS, 50_000, lambda rng, n: (0.5 + rng.random(n),), "")
def secant(k):
    x0, x1 = 0.0, 1.0
    f0, f1 = _residual(x0, k), _residual(x1, k)
    for _ in range(40):
        if f1 == f0:
            break
        x2 = x1 - f1 * (x1 - x0) / (f1 - f0)
        x0, f0 = x1, f1
        x1, f1 = x2, _residual(x2, k)
        if abs(x1 - x0) < 1e-12:
            break
    return x1


def _growth(y, rate, capacity):
    return rate * y * (1 - y / capacity)


def _populations(rng, n):
    return 0.5 + rng.random(n), 0.1 + rng.random(n), 5 + 5 * rng.random(n)


@row(SOLVERS, 5_000, _populations, "")
def logistic_rk4(y, rate, capacity, h=0.1, steps=60):
    for _ in range(steps):
        k1 = _growth(y, rate, capacity)
        k2 = _growth(y + 0.5 * h * k1, rate, capacity)
        k3 = _growth(y + 0.5 * h * k2, rate, capacity)
        k4 = _growth(y + h * k3, rate, capacity)
        y += h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    return y
