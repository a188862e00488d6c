"""Sine, cosine, tangent and their inverses.

Coefficients are those of the least largest error, by Remez's algorithm in 45 digits, of
``(f(r) / r - 1) / r**2`` or the like in powers of ``r**2``.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Sequence

from .extended import product_of, sum_of
from .polynomials import nearest_multiple, polynomial
from .registers import INDEX, POINTER, Register, Type
from .writer import Writer

_PI = {
    "float": (3.141592502593994, 1.5099578831723193e-07, 1.078060505991553e-14),
    "double": (3.141592653589793, 1.224646799147353e-16, 2.1657133478438278e-32),
}
"""Pi as sums of numbers of a type, none negative: what is left of -0.0 is -0.0."""
_PI_IN_SHORT = (3.1415926534682512, 1.2154201012607932e-10, 4.044532497591901e-21)
"""Pi as a sum of two doubles with 33 bits, and a rest."""

_SIN_HALF = {
    "float": (-0.16666666625884857, 0.008333331097036104, -0.0001984086665275222,
              2.7525302438681012e-06, -2.388743112642258e-08),
    "double": (-0.16666666666666666, 0.008333333333333333, -0.0001984126984126967,
               2.7557319223939856e-06, -2.505210837844522e-08, 1.605904319277567e-10,
               -7.647127116475832e-13, 2.8101996904135365e-15, -7.981082782693994e-18),
}  # fmt: skip
"""sin up to pi / 2."""
_SIN_QUARTER = {
    "float": (-0.16666654516705667, 0.008332154767430032, -0.00019514454047074697),
    "double": (-0.16666666666666666, 0.008333333333333323, -0.00019841269841254606,
               2.7557319213963274e-06, -2.505210485499915e-08, 1.605835969445532e-10,
               -7.57836584704928e-13),
}  # fmt: skip
"""sin up to pi / 4."""
_COS_QUARTER = {
    "float": (0.041666645519290224, -0.0013887308120037088, 2.4432209768187073e-05),
    "double": (0.041666666666666595, -0.001388888888887285, 2.480158728871977e-05,
               -2.7557314140215693e-07, 2.087569540390017e-09, -1.135824869875106e-11),
}  # fmt: skip
"""cos up to pi / 4."""
_ATAN = {
    "float": (-0.3333294229368329, 0.19977419497596163, -0.13874273427712672,
              0.08041928713804586),
    "double": (-0.33333333333333187, 0.1999999999995114, -0.14285714279944214,
               0.11111110770597897, -0.09090897381746728, 0.07692053429402265,
               -0.06663025900092304, 0.058473137617346245, -0.05036682142529858,
               0.03799722894781206, -0.017832749154055635),
}  # fmt: skip
"""atan up to tan(pi / 8)."""
_ASIN = {
    "float": (0.16666753925658737, 0.07495242001568339, 0.04547706246611196,
              0.02414779101760571, 0.042218248290998184),
    "double": (0.16666666666665383, 0.07500000000343039, 0.04464285682348145,
               0.03038195933137003, 0.022371753520362678, 0.01735977114288399,
               0.013884598223283522, 0.012173280268875568, 0.006510851829112691,
               0.01957390344530795, -0.016294059002380935, 0.031958948830575706),
}  # fmt: skip
"""asin up to 1 / 2."""


_INLINE = 64
"""Uses of a function with branches in one kernel that are written out where they stand.

60 sines of 200,000 slices take 5.2 ms written out and 7.3 ms where 44 of them are calls. The first
call of 480 takes 6.3 s where all are written out, and 0.6 s so.
"""


@functools.cache
def _reciprocal_of_pi() -> Sequence[int]:
    """1 / pi in binary, as words of 64 bits, the first of which stands before the point."""
    bits = 64 * 21

    def inverse_tangent(n: int) -> int:
        term = total = (1 << (2 * bits)) // n
        k = 1
        while term:
            term //= -n * n
            k += 2
            total += term // k
        return total

    pi = 16 * inverse_tangent(5) - 4 * inverse_tangent(239)  # Machin 1706
    digits = (1 << (3 * bits)) // pi
    words = [digits >> (bits - 64 * k) & (2**64 - 1) for k in range(bits // 64)]
    return [w - 2**64 if w >> 63 else w for w in words]


def _reduced(writer: Writer, x: Register, parts: int) -> tuple[Register, Register]:
    """``x - n * pi / parts``, the least of them, and an integer with the lowest bits of `n`."""
    element = x.type.element
    limit = 3e4 if element == "float" else 1e9 if writer.target.fma else 1e6
    rest, n = _reduced_small(writer, x, parts)
    large = writer.abs(x) > limit

    def exact() -> tuple[Register, Register]:
        found, count = _reduced_large(writer, x, parts)
        return writer.select(large, found, rest), writer.select(large, count, n)

    rest, n = writer.either(writer.any_lane(large), exact, lambda: (rest, n), rare=True)
    return rest, n


def _reduced_small(writer: Writer, x: Register, parts: int) -> tuple[Register, Register]:
    """Reduce numbers within the limits of `_reduced`."""
    element = x.type.element
    n, bits = nearest_multiple(writer, x, parts / math.pi)
    if writer.target.fma:
        for part in _PI[element]:
            x = writer.fma(n, -part / parts, x)
        return x, bits
    first, second, third = (p / parts for p in _PI_IN_SHORT)
    if element == "float":
        m = writer.cast(n, "double")
        x = (writer.cast(x, "double") - m * first) - m * second
        return writer.cast(x, "float"), bits
    above, below = sum_of(x - n * first, n * -second)
    return writer.select(n.eq(0.0), x, above + (below - n * third)), bits


def _reduced_large(writer: Writer, x: Register, parts: int) -> tuple[Register, Register]:
    """Reduce larger numbers, lane by lane: Payne and Hanek 1983, doi 10.1145/1057600.1057602.

    Only the bits of ``1 / pi`` count that give neither multiples of `parts` times 2 nor anything
    below the last bit of the result.
    """
    lanes, element = x.type.lanes, x.type.element
    # one place for all uses: LLVM takes n ** 2 for the places of a chain of n
    given = writer.shared_scratch("double", lanes, "reduced.given")
    rests = writer.shared_scratch("double", lanes, "reduced.rests")
    counts = writer.shared_scratch("i64", lanes, "reduced.counts")
    writer.store(writer.cast(x, "double"), given)

    def all_numbers(given: Register, rests: Register, counts: Register, count: Register) -> None:
        table = writer.table(_reciprocal_of_pi(), "i64")

        def one(i: Register) -> None:
            number = writer.load(writer.offset(given, i, "double"), Type("double"))
            rest, n = _reduced_number(writer, number, table, parts)
            writer.store(rest, writer.offset(rests, i, "double"))
            writer.store(n, writer.offset(counts, i, "i64"))

        writer.loop(count, one)

    parameters = [*((name, POINTER) for name in ("given", "rests", "counts")), ("count", INDEX)]
    operands = [given, rests, counts, writer.constant(lanes, INDEX)]
    writer.call_own(f"reduced.{parts}", parameters, all_numbers, operands)
    rest = writer.cast(writer.load(rests, Type("double", lanes)), element)
    n = writer.cast(writer.load(counts, Type("i64", lanes)), x.type.integer.element)
    return rest, n


def _reduced_number(
    writer: Writer, x: Register, table: Register, parts: int
) -> tuple[Register, Register]:
    """The same for a scalar double."""

    def shifted(kind: str, number: Register, by: Register | int) -> Register:
        return writer.binary("", kind, number, by)

    def wide(number: Register) -> Register:
        return writer.cast(number, "i128", signed=False)

    bits = writer.bitcast(writer.abs(x), "i64")
    exponent = shifted("lshr", bits, 52)
    fraction = (bits & (2**52 - 1)) | 2**52
    # from the bit of 1 / pi whose products count 2: those before it make multiples of 4
    first = exponent - (1075 + 2 - 64 - (parts - 1))
    first = writer.select(first < 0, 0, first)
    at = writer.offset(table, shifted("lshr", first, 6), "i64")
    by = first & 63
    words = [writer.load(writer.offset(at, k, "i64"), INDEX) for k in range(4)]
    a, b, c = (
        shifted("shl", u, by) | shifted("lshr", shifted("lshr", v, 1), 63 - by)
        for u, v in itertools.pairwise(words)
    )
    product = wide(fraction) * wide(b) + shifted("lshr", wide(fraction) * wide(c), 64)
    product = product + shifted("shl", wide(fraction) * wide(a), 64)
    n = writer.cast(shifted("lshr", product, 126), "i64")
    part = shifted("shl", product, 2)
    above = part < 0
    n = n + writer.cast(above, "i64")
    size = writer.select(above, -part, part)
    zeros = writer.call("llvm.ctlz.i128", Type("i128"), size, writer.constant(0, Type("i1")))
    size = shifted("shl", size, zeros & 127)
    upper = writer.cast(writer.cast(shifted("lshr", size, 75), "i64"), "double")
    lower = writer.cast(writer.cast(shifted("lshr", size, 22), "i64") & (2**53 - 1), "double")
    scale = writer.bitcast((1023 - 53 - writer.cast(zeros, "i64")) << 52, "double")
    near, rest = (p / parts for p in _PI["double"][:2])
    total, off = product_of(writer, upper, writer.constant(near, upper.type))
    found = (total + (off + (upper * rest + lower * (near * 2.0**-53)))) * scale
    negative = x < 0.0
    found = writer.select(negative ^ above, -found, found)
    n = writer.select(negative, -n, n)
    finite = writer.abs(x) < math.inf
    return writer.select(finite, found, x - x), n


def _seldom_inline(
    function: Callable[[Writer, Register], Register],
) -> Callable[[Writer, Register], Register]:
    """A function that is one of its own after some uses: LLVM takes n ** 2 for n branches."""

    @functools.wraps(function)
    def used(writer: Writer, x: Register) -> Register:
        element, lanes = x.type.element, x.type.lanes
        name = f"{function.__name__}.{element}.{lanes}"
        if writer.used_here(name) <= _INLINE:
            return function(writer, x)

        def body(at: Register) -> None:
            writer.store(function(writer, writer.load(at, x.type)), at)

        at = writer.shared_scratch(element, lanes, "angle")
        writer.store(x, at)
        writer.call_own(name, [("at", POINTER)], body, [at])
        return writer.load(at, x.type)

    return used


def _with_sign_of_bit(writer: Writer, x: Register, bits: Register) -> Register:
    """`x`, negated where the lowest of the `bits` is set."""
    integer = x.type.integer
    sign = writer.bitcast(x, integer.element) ^ (bits << (integer.bits - 1))
    return writer.bitcast(sign, x.type.element)


@_seldom_inline
def sin(writer: Writer, x: Register) -> Register:
    """Sine; at most 2.9 ulp off."""
    rest, n = _reduced(writer, x, 1)
    square = rest * rest
    found = polynomial(writer, square, (1.0, *_SIN_HALF[x.type.element]))
    return _with_sign_of_bit(writer, rest * found, n)


def _sine_and_cosine(writer: Writer, rest: Register) -> tuple[Register, Register]:
    """Evaluate up to pi / 4."""
    element = rest.type.element
    square = rest * rest
    sine = rest * polynomial(writer, square, (1.0, *_SIN_QUARTER[element]))
    cosine = polynomial(writer, square, (1.0, -0.5, *_COS_QUARTER[element]))
    return sine, cosine


@_seldom_inline
def cos(writer: Writer, x: Register) -> Register:
    """Cosine; at most 2 ulp off."""
    rest, n = _reduced(writer, x, 2)
    sine, cosine = _sine_and_cosine(writer, rest)
    odd = (n & 1).ne(0)
    found = writer.select(odd, sine, cosine)
    return _with_sign_of_bit(writer, found, writer.binary("", "lshr", n + 1, 1))


@_seldom_inline
def tan(writer: Writer, x: Register) -> Register:
    """Tangent; at most 3.5 ulp off."""
    rest, n = _reduced(writer, x, 2)
    sine, cosine = _sine_and_cosine(writer, rest)
    odd = (n & 1).ne(0)
    above = writer.select(odd, -cosine, sine)
    return above / writer.select(odd, sine, cosine)


def _angle(writer: Writer, y: Register, x: Register) -> Register:
    """The angle of a point that is not left of nor below the origin."""
    element = x.type.element
    steep, middle = y > x * (1 + math.sqrt(2)), y > x * (math.sqrt(2) - 1)
    above = writer.select(steep, -x, writer.select(middle, y - x, y))
    below = writer.select(steep, y, writer.select(middle, y + x, x))
    ratio = above / below
    square = ratio * ratio
    found = writer.fma(ratio * square, polynomial(writer, square, _ATAN[element]), ratio)
    high, low, _ = _PI[element]
    zero = writer.constant(0.0, found.type)
    start = writer.select(steep, high / 2, writer.select(middle, high / 4, zero))
    off = writer.select(steep, low / 2, writer.select(middle, low / 4, zero))
    return start + (found + off)


def atan(writer: Writer, x: Register) -> Register:
    """Inverse tangent; at most 2.3 ulp off."""
    one = writer.constant(1.0, x.type)
    return writer.copysign(_angle(writer, writer.abs(x), one), x)


def atan2(writer: Writer, y: Register, x: Register) -> Register:
    """The angle of the point (x, y); at most 2.3 ulp off."""
    kind = max(x.type, y.type, key=lambda t: t.lanes)
    x, y = writer.broadcast(x, kind.lanes), writer.broadcast(y, kind.lanes)
    high, low, _ = _PI[kind.element]
    a, b = writer.abs(y), writer.abs(x)
    # sums must not overflow; where both are infinite, they count as equal
    large = 2.0 ** (120 if kind.element == "float" else 1000)
    scale = writer.select((a > large) | (b > large), 0.125, writer.constant(1.0, kind))
    both = a.eq(math.inf) & b.eq(math.inf)
    a, b = writer.select(both, 1.0, a * scale), writer.select(both, 1.0, b * scale)
    found = _angle(writer, a, b)
    found = writer.select(a.eq(0.0), a, found)
    left = writer.compare("", "slt", writer.bitcast(x, kind.integer.element), 0)
    found = writer.select(left, high - (found - low), found)
    found = writer.copysign(found, y)
    return writer.select(writer.compare("uno", "", x, y), x + y, found)


def _arc(writer: Writer, x: Register) -> tuple[Register, Register]:
    """asin of |x| up to 1 / 2, else half the angle whose cosine that is; and whether it is this."""
    size = writer.abs(x)
    far = size > 0.5
    square = writer.select(far, (1.0 - size) * 0.5, size * size)
    side = writer.select(far, writer.sqrt(square), size)
    series = polynomial(writer, square, _ASIN[x.type.element])
    return writer.fma(side * square, series, side), far


def asin(writer: Writer, x: Register) -> Register:
    """Inverse sine; at most 2.5 ulp off."""
    high, low, _ = _PI[x.type.element]
    found, far = _arc(writer, x)
    found = writer.select(far, high / 2 - (found + found - low / 2), found)
    return writer.copysign(found, x)


def acos(writer: Writer, x: Register) -> Register:
    """Inverse cosine; at most 2 ulp off."""
    high, low, _ = _PI[x.type.element]
    found, far = _arc(writer, x)
    double = found + found
    far_off = writer.select(x > 0.0, double, high - (double - low))
    return writer.select(far, far_off, high / 2 - (writer.copysign(found, x) - low / 2))
