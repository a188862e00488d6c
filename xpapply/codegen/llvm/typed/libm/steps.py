"""Functions of the C library as glibc computes them: the same steps, so the same bits.

No argument of usual size is left to a call, where error bounds leave up to 1 of 16. That this C
library takes these steps is seen once, by its results: `xpapply.runtime.c_library.takes`.

Methods: of sine and cosine S. Gal and B. Bachelis, An accurate elementary mathematical library for
the IEEE floating point standard, ACM Transactions on Mathematical Software 17, 1991; of exponential
and logarithm P. T. P. Tang, ACM Transactions on Mathematical Software 15 and 16, 1989 and 1990; of
the error function W. J. Cody, Rational Chebyshev approximations for the error function, Mathematics
of Computation 23, 1969.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np

from .....runtime import c_library
from ..function import FunctionWriter
from .doubles import Double, entry, in_two, seldom

Found = tuple[Double, Double]
_WHOLE = 1.5 * 2.0**52


def _high(word: int) -> int:
    """The bits of a float whose upper half is given."""
    return word << 32


# --- exponential --------------------------------------------------------------------------------

_PARTS = 128
_EXP = (float.fromhex("0x1.ffffffffffdbdp-2"), float.fromhex("0x1.555555555543cp-3"),
        float.fromhex("0x1.55555cf172b91p-5"), float.fromhex("0x1.1111167a4d017p-7"))  # fmt: skip
_PER_PART = float.fromhex("0x1.71547652b82fep+7")
_PART = (float.fromhex("-0x1.62e42fefa0000p-8"), float.fromhex("-0x1.cf79abc9e3b3ap-47"))


@functools.cache
def _powers() -> list[tuple[float, float]]:
    """Powers of two, and what they are off by, relative to them."""
    with localcontext(prec=60):
        exact = [Fraction(Decimal(2) ** (Decimal(k) / _PARTS)) for k in range(_PARTS)]
    return [(float(x), float((x - Fraction(float(x))) / Fraction(float(x)))) for x in exact]


def exp(w: FunctionWriter, x: Double) -> Found:
    """``2**(k / 128)`` times a polynomial of what is left."""
    is_near = _is_usual(x)
    return _exp(w, is_near.chosen(x, 1.0)), is_near


def _is_usual(x: Double) -> Double:
    """Whether an exponential is no special case."""
    return (((x.bits() >> 52) & 0x7FF) - 0x3C9).below(0x3F)


def _exp(w: FunctionWriter, x: Double, more: Double | None = None) -> Double:
    """The exponential of a sum, whose second part is small."""
    moved = x.fused(_PER_PART, _WHOLE)
    n = moved - _WHOLE
    r = n.fused(_PART[1], n.fused(_PART[0], x))
    r = r if more is None else r + more
    k = moved.bits()
    part = k & (_PARTS - 1)
    power, tail = entry(w, "stepped.powers", _powers(), part)
    scale = (power.bits() + ((k - part) << 45)).of_bits()
    square = r * r
    rest = r.fused(_EXP[1], _EXP[0]).fused(square, r + tail)
    rest = (square * square).fused(r.fused(_EXP[3], _EXP[2]), rest)
    return scale.fused(rest, scale)


# --- logarithm ----------------------------------------------------------------------------------

_OFF = 0x3FE6000000000000
_NEAR_ONE = (1 - 2.0**-4, 1 + float.fromhex("0x1.09p-4"))
_SPLIT = 2.0**27


def log(w: FunctionWriter, x: Double) -> Found:
    """``k * ln(2) + log(c) + log(z / c)``; beside 1 a polynomial whose first part is exact."""
    known = c_library.of_logarithm("log")
    assert known is not None
    high_ln2, low_ln2, *a = known.far
    is_known = (x.bits() - (1 << 52)).below(0x7FE << 52)
    v = is_known.chosen(x, 3.0)
    low, most = (x.constant(end).bits() for end in _NEAR_ONE)
    beside = (v.bits() - low).below(most - low)
    k, z, at = _parted(v, _OFF)
    inverse, part = entry(w, "stepped.logarithms", known.table, at)
    r = z.fused(inverse, -1.0)
    most = k.fused(high_ln2, part)
    high = most + r
    rest = k.fused(low_ln2, (most - high) + r)
    square = r * r
    rest = square.fused(a[0], rest)
    more = r.fused(a[4], a[3]).fused(square, r.fused(a[2], a[1]))
    usual = (r * square).fused(more, rest) + high
    found = seldom(w, beside, lambda: _beside_one(beside.chosen(v, 1.5) - 1.0, known.near), usual)
    return found, is_known


def _parted(x: Double, off: int) -> tuple[Double, Double, Double]:
    """The exponent of a number, what is left of it, and its place in a table."""
    bits = x.bits()
    moved = bits - off
    far = (moved + (1023 << 52)) >> 52
    z = (bits - (far << 52) + (1023 << 52)).of_bits()
    # a whole number as the last bits of a float
    k = (far + 0x4330000000000000).of_bits() - (2.0**52 + 1023)
    return k, z, (moved >> 45) & 127


def _beside_one(r: Double, b: Sequence[float]) -> Double:
    """``log(1 + r)``, its first two terms in two parts each."""
    square = r * r
    cube = r * square
    first = square.fused(b[3], r.fused(b[2], b[1]))
    second = square.fused(b[6], r.fused(b[5], b[4]))
    third = cube.fused(b[10], square.fused(b[9], r.fused(b[8], b[7])))
    more = third.fused(cube, second).fused(cube, first)
    upper = (-r).fused(_SPLIT, r.fused(_SPLIT, r))
    exact = upper * upper
    high = exact.fused(b[0], r)
    rest = exact.fused(b[0], r - high)
    rest = ((r - upper) * b[0]).fused(r + upper, rest)
    return high + more.fused(cube, rest)


# --- powers -------------------------------------------------------------------------------------

_OFF_POWER = 0x3FE6955500000000


def pow(w: FunctionWriter, x: Double, y: Double) -> Found:
    """The exponential of `y` times the logarithm, both of these in two parts."""
    known = c_library.of_logarithm("pow")
    assert known is not None
    high_ln2, low_ln2, *a = known.far
    is_known = (x.bits() - (1 << 52)).below(0x7FE << 52)
    is_known = is_known & (((y.bits() >> 52) & 0x7FF) - 0x3BE).below(0x80)
    v, times = is_known.chosen(x, 3.0), is_known.chosen(y, 1.0)
    k, z, at = _parted(v, _OFF_POWER)
    rows = [(row[0], row[2], row[3], 0.0) for row in known.table]
    inverse, part, tail, _ = entry(w, "stepped.logarithms.of.powers", rows, at)
    r = z.fused(inverse, -1.0)
    most = k.fused(high_ln2, part)
    total = most + r
    half = r * a[0]
    square = r * half
    high = total + square
    low = k.fused(low_ln2, tail) + ((most - total) + r)
    low = low + half.fused(r, -square) + ((total - high) + square)
    more = r.fused(a[6], a[5]).fused(square, r.fused(a[4], a[3]))
    low = (r * square).fused(more.fused(square, r.fused(a[2], a[1])), low)
    log = high + low
    rest = (high - log) + low
    exponent = times * log
    rest = times.fused(rest, log.fused(times, -exponent))
    is_near = _is_usual(exponent)
    found = _exp(w, is_near.chosen(exponent, 1.0), is_near.chosen(rest, 0.0))
    return found, is_known & is_near


# --- sine and cosine ----------------------------------------------------------------------------

_SINE = (-0.16666666666666488, 0.008333332142857223)
_COSINE = (0.5, -0.04166666666666644, 0.001388888740079376)
_SMALL = (-0.16666666666666666, 0.008333333333332329, -0.00019841269834414642,
          2.755729806860771e-06, -2.5022014848318398e-08)  # fmt: skip
_HALF_PI = (1.5707963267948966, 6.123233995736766e-17)
_PER_HALF_PI = 0.6366197723675814
_PARTS_OF_PI = (1.5707963407039642, -1.3909067564377153e-08, -4.97899623147991e-17,
                -1.9034889620193266e-25)  # fmt: skip
_STEPS = 128
_MOVE = 1.5 * 2.0**45
_LOW = 0.126
_TINY, _ONE, _TWO, _FAR = map(_high, (0x3E400000, 0x3FEB6000, 0x400368FD, 0x419921FB))
_ROUNDED = {9: 1, 41: 1, 93: 39, 107: 1, 109: 1, 133: 1, 137: 1, 145: 1, 161: -2, 179: 1,
            283: 1, 301: 1, 303: -2, 319: 1, 341: 1, 361: -2, 377: 1, 429: 1}  # fmt: skip
"""Numbers of the library's table that are not the nearest: by how many last bits they are off."""


@functools.cache
def _angles() -> list[tuple[float, ...]]:
    """Sine and cosine of multiples of 1 / 128, in two parts each."""
    found: list[float] = []
    for k in range(110):
        x, term, n = Fraction(k, _STEPS), Fraction(1), 0
        sums = [Fraction(0), Fraction(0)]
        while n < 40:
            sums[n % 2] += term if n % 4 < 2 else -term
            n += 1
            term *= x / n
        found += [*in_two(sums[1]), *in_two(sums[0])]
    table = np.array(found).view(np.int64)
    for k, off in _ROUNDED.items():
        table[k] += off
    return [tuple(row) for row in table.view(float).reshape(-1, 4).tolist()]


def _turned(w: FunctionWriter, x: Double, ahead: int) -> Found:
    """The sine of an argument, or of one that is a quarter of a turn further.

    But for the last lines they are the same text, which LLVM writes once where both are asked for.
    """
    bits = x.size().bits()
    is_known, is_tiny = bits.below(_FAR), bits.below(_TINY)
    v = (is_known & is_tiny.opposite()).chosen(x, 1.0)
    size = v.size()
    bits = size.bits()
    is_one, is_two = bits.below(_ONE), bits.below(_TWO)
    # any number of quarters away
    n = v.fused(_PER_HALF_PI, _WHOLE)
    turn = n.bits()
    n = -(n - _WHOLE)
    y = n.fused(_PARTS_OF_PI[1], n.fused(_PARTS_OF_PI[0], v))
    t = n.fused(_PARTS_OF_PI[2], y)
    lost = n.fused(_PARTS_OF_PI[2], y - t)
    a = n.fused(_PARTS_OF_PI[3], t)
    rest = lost + n.fused(_PARTS_OF_PI[3], t - a)
    # beside a quarter: to pi / 2, which is exact but for the second part of that
    beside = x.constant(_HALF_PI[0]) - size
    whole = beside + _HALF_PI[1]
    a = is_one.chosen(v, is_two.chosen(whole, a))
    rest = is_one.chosen(x.constant(0.0), is_two.chosen((beside - whole) + _HALF_PI[1], rest))
    # both functions at the nearest multiple of 1 / 128, and what is left
    size = a.size()
    moved = size + _MOVE
    near = size - (moved - _MOVE)
    at = moved.bits() & (_STEPS - 1)
    s, s_low, c, c_low = entry(w, "stepped.angles", _angles(), at)
    own = a.least(0.0).chosen(rest, -rest)
    square = near * near
    cube = near * square
    less = near + cube.fused(square.fused(_SINE[1], _SINE[0]), own)
    more = near.fused(own, square * _cosine(square))
    sine = less.fused(c, (-more).fused(s, less.fused(c_low, s_low)))
    sine = (s + sine).signed(a)
    square = a * a
    small = square.fused(_SMALL[4], _SMALL[3])
    for coefficient in _SMALL[2::-1]:
        small = small.fused(square, coefficient)
    small = a + square.fused(small.fused(a, rest * -0.5), rest)
    sine = size.least(_LOW).chosen(sine, small)
    near = near + own
    square = near * near
    cube = near * square
    less = cube.fused(square.fused(_SINE[1], _SINE[0]), near)
    more = square * _cosine(square)
    cosine = c + (-less).fused(s, (-more).fused(c, (-less).fused(s_low, c_low)))
    # cosine takes the part that pi / 2 is added to last: it must be beside the same multiple
    alike = (moved.bits() ^ (beside.size() + _MOVE).bits()).below(1)
    is_known = is_known & (is_one | is_two.opposite() | alike)
    quarter = turn.constant(0) if ahead else ((v.bits() >> 63) << 1) + 1
    turn = is_one.chosen(turn.constant(ahead), is_two.chosen(quarter, turn + ahead))
    found = (turn & 1).below(1).chosen(sine, cosine)
    found = (found.bits() ^ ((turn >> 1) << 63)).of_bits()
    return is_tiny.chosen(x.constant(1.0) if ahead else x, found), is_known


def _cosine(square: Double) -> Double:
    return square.fused(_COSINE[2], _COSINE[1]).fused(square, _COSINE[0])


def sin(w: FunctionWriter, x: Double) -> Found:
    """``sin(x)``."""
    return _turned(w, x, 0)


def cos(w: FunctionWriter, x: Double) -> Found:
    """``cos(x)``."""
    return _turned(w, x, 1)


# --- error function -----------------------------------------------------------------------------

_ERF = (
    (
        (0.12837916709551256, -0.3250421072470015, -0.02848174957559851, -0.005770270296489442,
         -2.3763016656650163e-05),
        (1.0, 0.39791722395915535, 0.0650222499887673, 0.005081306281875766,
         0.00013249473800432164, -3.960228278775368e-06),
    ),
    (
        (-0.0023621185607526594, 0.41485611868374833, -0.3722078760357013, 0.31834661990116175,
         -0.11089469428239668, 0.035478304325618236, -0.002166375594868791),
        (1.0, 0.10642088040084423, 0.540397917702171, 0.07182865441419627, 0.12617121980876164,
         0.01363708391202905, 0.011984499846799107),
    ),
    (
        (-0.009864944034847148, -0.6938585727071818, -10.558626225323291, -62.375332450326006,
         -162.39666946257347, -184.60509290671104, -81.2874355063066, -9.814329344169145),
        (1.0, 19.651271667439257, 137.65775414351904, 434.56587747522923, 645.3872717332679,
         429.00814002756783, 108.63500554177944, 6.570249770319282, -0.0604244152148581),
    ),
    (
        (-0.0098649429247001, -0.799283237680523, -17.757954917754752, -160.63638485582192,
         -637.5664433683896, -1025.0951316110772, -483.5191916086514),
        (1.0, 30.33806074348246, 325.7925129965739, 1536.729586084437, 3199.8582195085955,
         2553.0504064331644, 474.52854120695537, -22.44095244658582),
    ),
)  # fmt: skip
"""Numerators and denominators, from power 0 up, by the size of the argument."""
_ENDS = tuple(map(_high, (0x3FEB0000, 0x3FF40000, 0x4006DB6E)))
_NONE, _LAST = map(_high, (0x3E300000, 0x40180000))
_MIDDLE = 0.8450629115104675


def _rational(x: Double, of: Sequence[Double]) -> Double:
    """A polynomial of up to 9 coefficients, whose sums are rounded as they are written here."""
    second = x * x
    fourth = second * second
    powers = second, fourth, fourth * second
    found = of[0] + x * of[1]
    for k, power in enumerate(powers):
        found = found + power * (of[2 * k + 2] + x * of[2 * k + 3])
    return found if len(of) < 9 else found + fourth * fourth * of[8]


def erf(w: FunctionWriter, x: Double) -> Found:
    """Rational functions, of what is near 0 and near 1; from 1.25 on of ``log(erfc(x) * x)``."""
    bits = x.size().bits()
    is_known = (bits - _NONE).below(_LAST - _NONE)
    v = is_known.chosen(x, 1.0)
    size = v.size()
    ranges = [size.bits().below(e) for e in _ENDS]

    def of(*values: Double) -> Double:
        *others, found = values
        for here, value in zip(ranges[::-1], others[::-1], strict=True):
            found = here.chosen(value, found)
        return found

    square = v * v
    inverse = x.constant(1.0) / square
    given = of(square, size - 1.0, inverse, inverse)
    parts = []
    for which, count in ((0, 8), (1, 9)):
        columns = [(*r[which], *[0.0] * (count - len(r[which]))) for r in _ERF]
        parts.append(
            _rational(given, [of(*map(x.constant, c)) for c in zip(*columns, strict=True)])
        )
    y = parts[0] / parts[1]
    found = ranges[0].chosen(v + v * y, (y + _MIDDLE).signed(v))
    is_far = ranges[1].opposite()

    def far() -> Double:
        cut = (size.bits() & -(1 << 32)).of_bits()
        first = _exp(w, is_far.chosen(-cut * cut - 0.5625, 1.0))
        second = _exp(w, is_far.chosen((cut - size) * (cut + size) + y, 1.0))
        return (x.constant(1.0) - first * second / size).signed(v)

    return seldom(w, is_far, far, found), is_known


FUNCTIONS: dict[str, Callable[..., Found]] = {
    "exp": exp, "log": log, "pow": pow, "sin": sin, "cos": cos, "erf": erf,
}  # fmt: skip
"""Writers by name."""
