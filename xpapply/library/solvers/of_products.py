"""Products of small matrices in the order of the BLAS that is in NumPy's wheels, for the compiler.

That is what OpenBLAS does on processors of x86 with fused multiplications, found by trying: with
AVX-512 (its kernels "SkylakeX"), and without (its "Haswell", which AMD's "Zen" has too), where most
of what it adds one by one is rounded twice. `are_known` says whether this NumPy computes so: else
results are equal but for rounding.

Source: the functions themselves, compared with `numpy.dot` over random numbers.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from ..of_series import product

_ZERO = np.float64(0.0)


def anyones(x: Any) -> Any:
    """A number that is Python's or NumPy's, as it comes."""
    return x


def fma(x: Any, y: Any, z: Any) -> Any:
    """``x * y + z``, rounded once; the compiler has an instruction for it."""
    found = x * y + z
    if found - found != 0.0:
        return found
    (a, of_a), (b, of_b), (c, of_c) = (float(v).as_integer_ratio() for v in (x, y, z))
    exact = a * b * of_c + c * of_a * of_b
    return np.float64(exact / (of_a * of_b * of_c)) if exact else found


_IS_FUSED = bool(np.dot([-1.0, 1.0 + 2.0**-27], [1.0, 1.0 + 2.0**-27]) != 2.0**-26)
"""Whether it rounds once what it multiplies and adds one by one."""


def added(x: Any, y: Any, z: Any) -> Any:
    """``x * y + z``, as it is rounded outside of loops over several numbers at a time."""
    return fma(x, y, z) if _IS_FUSED else x * y + z


def weighed(k: Any, a: Any, count: int, j: int) -> Any:
    """``np.dot(k[:count].T, a[:count])[j]``."""
    n = k.shape[1]
    total = np.float64(0.0)
    first = 0
    if 1 < n < 4:
        first = count // 4 * 4
        for i in range(0, first, 4):
            total += added(k[i, j], a[i], k[i + 1, j] * a[i + 1])
            total += added(k[i + 2, j], a[i + 2], k[i + 3, j] * a[i + 3])
    elif j < n // 4 * 4:
        fours = count // 4 * 4
        for i in range(0, fours, 4):
            if _IS_FUSED:
                part = fma(k[i + 2, j], a[i + 2], fma(k[i, j], a[i], k[i + 1, j] * a[i + 1]))
                total += fma(k[i + 3, j], a[i + 3], part)
            else:
                part = fma(k[i + 2, j], a[i + 2], k[i, j] * a[i])
                total += part + fma(k[i + 3, j], a[i + 3], k[i + 1, j] * a[i + 1])
        if count - fours > 1:
            total += added(k[fours, j], a[fours], k[fours + 1, j] * a[fours + 1])
            fours += 2
        if fours < count:
            total += k[fours, j] * a[fours]
        return total
    for i in range(first, count):
        total = added(k[i, j], a[i], total)
    return total


def chained(a: Any, b: Any, count: int) -> Any:
    """An element of a product of two matrices."""
    total = np.float64(0.0)
    for i in range(count):
        total = fma(a[i], b[i], total)
    return total


def of_square(a: Any, b: Any, i: int, j: int, n: int) -> Any:
    """The element ``[i, j]`` of a product of two matrices of n rows, by its row and its column."""
    if _IS_FUSED or n < 8 or n % 2 == 0 or i < n - 1 or j >= n // 4 * 4:
        return chained(a, b, n)
    lanes = np.zeros(4)
    for k in range(n):
        at = k % 4 if k < n // 8 * 8 else 0
        lanes[at] = fma(a[k], b[k], lanes[at])
    return (lanes[0] + lanes[1]) + (lanes[2] + lanes[3])


def paired(a: Any, b: Any, count: int) -> Any:
    """An element of a product of a matrix that lies in rows with a vector, of 3 or of 4 k."""
    if count == 3:
        return fma(a[2], b[2], fma(a[0], b[0], a[1] * b[1]))
    lanes = np.zeros(4)
    for i in range(0, count, 4):
        for j in range(4):
            lanes[j] = fma(a[i + j], b[i + j], lanes[j])
    return (lanes[0] + lanes[2]) + (lanes[1] + lanes[3])


def of_sixteen(a: Any, b: Any, i: int, n: int) -> Any:
    """``np.dot(a, k)[i]`` of 16 numbers and a column `b` of the n of `k`, some rows at a time."""
    if n == 1:
        return paired(a, b, 16)
    if n % 8 > 4 or i < n // 8 * 8 or not _IS_FUSED:
        return chained(a, b, 16)
    lanes = np.zeros(8)
    for j in range(8):
        lanes[j] = fma(a[j + 8], b[j + 8], a[j] * b[j])
    first = (lanes[0] + lanes[1]) + (lanes[2] + lanes[3])
    return first + ((lanes[4] + lanes[5]) + (lanes[6] + lanes[7]))


def inner(a: Any, b: Any) -> Any:
    """``np.dot(a, b)``."""
    n = len(a)
    return short(a, b, n) if n < 16 else product(a, b)


def short(a: Any, b: Any, count: int) -> Any:
    """The same of fewer than 16 numbers."""
    total = np.float64(0.0)
    for i in range(count):
        total = added(a[i], b[i], total)
    return total


def length(x: Any) -> Any:
    """``np.linalg.norm(x)``."""
    return np.sqrt(inner(x, x))


def of_row(
    a: Any, b: Any, j: int, rows: int, total: Any = _ZERO, sign: float = 1.0
) -> Any:  # fmt: skip
    """An element of a product of a matrix with a vector, of the j-th row `a` of so many.

    It is added to, or subtracted from, `total`.
    """
    n = len(a)
    fours = n // 4 * 4
    if fours > 4 and j >= rows // 4 * 4:
        wide = 2 if j % 4 < rows % 4 // 2 * 2 else 4
        lanes = np.zeros(4)
        for i in range(fours):
            lanes[i % wide] += a[i] * b[i]
        total = fma(sign, (lanes[0] + lanes[2]) + (lanes[1] + lanes[3]), total)
    elif fours > 0:
        total = fma(sign, paired(a, b, fours), total)
    if n - fours == 1:
        total = fma(sign * a[fours], b[fours], total)
    elif n - fours > 1:
        part = fma(a[fours], b[fours], a[fours + 1] * b[fours + 1])
        if n - fours == 3:
            part = fma(a[fours + 2], b[fours + 2], part)
        total = fma(sign, part, total)
    return total


def times(a: Any, b: Any) -> Any:
    """``a @ b`` of a matrix that lies in rows or columns, and has no more than 8192 elements."""
    rows, n = a.shape
    out = np.empty(rows)
    if b.strides[0] != 8 or (a.strides[0] != 8 and a.strides[1] != 8):
        raise NotImplementedError
    for i in range(rows):
        if rows == 1:
            out[i] = inner(a[i].copy(), b)
        elif a.strides[1] == 8:
            out[i] = of_row(a[i], b, i, rows)
        else:
            out[i] = weighed(a.T, b, n, i)
    return out


def _rounded(high: float, low: float) -> float:
    """The rest of a sum of two floats, to eleven digits of two beyond those of the first one."""
    most = _MANY * (float(np.nextafter(high, math.inf)) - high)
    return (low + most) - most


_MANY = 1.5 * 2.0**41


def long_length(x: Any) -> float:
    """BLAS's ``nrm2``, which adds in numbers of 64 digits of two."""
    total = 0.0
    rest = 0.0
    for i in range(len(x)):
        part = float(x[i]) * float(x[i])
        low = rest + _rounded(part, float(fma(x[i], x[i], -part)))
        after = total + part
        off = after - total
        low += (total - (after - off)) + (part - off)
        total = after + low
        rest = _rounded(total, low - (total - after))
    if total == 0.0 or total - total != 0.0:
        return math.sqrt(total)
    root = math.sqrt(total)
    return root + _rounded(root, (float(fma(-root, root, total)) + rest) / (2.0 * root))


def factored(a: Any, first: int, n: int) -> bool:
    """The factor of Cholesky, as LAPACK's ``potrf`` computes it: whether there is one.

    A matrix is held by its columns; `first` is where the one begins that is written over. Of up to
    16 rows it has LAPACK's bits.
    """
    for j in range(first, first + n):
        own = a[j, first:j]
        here = float(a[j, j])
        if j > first:
            here -= float(short(own, own, j - first))
        if here <= 0.0:
            return False
        here = math.sqrt(here)
        a[j, j] = here
        part = 1.0 / here
        rows = first + n - j - 1
        for k in range(rows):
            to = a[j + 1 + k]
            to[j] = float(of_row(to[first:j], own, k, rows, to[j], -1.0)) * part
    return True


def add_times(x: Any, part: float, y: Any, n: int) -> None:
    """Add a multiple of a vector: ``axpy``."""
    for j in range(n):
        x[j] = fma(part, y[j], x[j]) if j < n // 16 * 16 else added(part, y[j], x[j])


def solved_below(a: Any, x: Any, n: int) -> None:
    """Solve ``a.T x = b`` of an upper triangle that is held by its columns: ``trtrs``."""
    for i in range(n):
        here = float(x[i])
        if i > 0:
            here -= float(inner(a[i, :i], x[:i]))
        x[i] = here / float(a[i, i])


def solved_above(a: Any, x: Any, n: int) -> None:
    """Solve ``a x = b``."""
    for i in range(n - 1, -1, -1):
        here = float(x[i]) / float(a[i, i])
        x[i] = here
        add_times(x, -here, a[i], i)


def all_solved_below(a: Any, n: int) -> None:
    """The same as `solved_below` of `n` right sides, the columns that follow in `a`."""
    if n == 1:
        a[1, 0] = float(a[1, 0]) / float(a[0, 0])
        return
    first = 0
    while first < n:
        size = 1
        while 2 * size <= min(n - first, 16 if _IS_FUSED else 4):
            size *= 2
        for c in range(n, 2 * n):
            for i in range(first, first + size):
                here = float(a[c, i])
                if first > 0:
                    here -= float(chained(a[i, :first], a[c, :first], first))
                for k in range(first, i):
                    here = float(added(-float(a[i, k]), a[c, k], here))
                a[c, i] = here * (1.0 / float(a[i, i]))
        first += size


@functools.cache
def are_known() -> bool:
    """Whether NumPy's products have these bits."""
    rng = np.random.default_rng(0)
    for count in (1, 2, 3, 4, 6, 7, 12, 13, 15):
        x = rng.normal(size=count)
        if length(x) != np.linalg.norm(x):
            return False
        for n in (1, 2, 3, 4, 6, 9):
            k, b = rng.normal(size=(count + 1, n)), rng.normal(size=(count, 3))
            by_x, by_b = np.dot(k[:count].T, x), np.dot(k[:count].T, b)
            if any(weighed(k, x, count, j) != by_x[j] for j in range(n)):
                return False
            if n > 1 and any(chained(k[:, j], b[:, 1], count) != by_b[j, 1] for j in range(n)):
                return False
            for a in (np.ascontiguousarray(k[:count].T), k[:count].T):
                if not np.array_equal(times(a, x), a @ x):
                    return False
    for n in () if _IS_FUSED else (9, 16, 19):
        a, b = rng.normal(size=(2, n, n))
        found = a @ b
        for i, j in ((0, 0), (n - 1, 0), (n - 1, n - 1)):
            if of_square(a[i], b[:, j], i, j, n) != found[i, j]:
                return False
    for count, n in ((3, 2), (3, 7), (4, 2), (4, 5), (16, 4)):
        q, p = rng.normal(size=(n, count)), rng.normal(size=(count, 1))
        if any(paired(q[j], p[:, 0], count) != np.dot(q, p)[j, 0] for j in range(n)):
            return False
    return True


@functools.cache
def are_sixteen_known() -> bool:
    """The same of `of_sixteen`."""
    rng = np.random.default_rng(0)
    for n in (1, 2, 4, 5, 9):
        a, k = rng.normal(size=(4, 16)), rng.normal(size=(16, n))
        found = np.dot(a, k)
        if any(of_sixteen(a[j], k[:, i], i, n) != found[j, i] for j in range(4) for i in range(n)):
            return False
    return True
