"""Functions of the C library, inlined: seldom called.

They take the steps that glibc takes. Small powers and remainders are computed to more bits: where a
result is so far from the midpoint of two floats that every value within glibc's error bound rounds
to the same float, that is glibc's. For other arguments the function is called. No flag but
"inexact" is set here.

Functions that draw random numbers are inlined too, where their ziggurat and the steps of the
generator are known: see `xpapply.runtime.ziggurats`.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from ....ir.typed import Array, Instruction, Literal
from ....runtime import c_library, ziggurats
from ....runtime.generators import BOUNDED, EXCHANGES, MERSENNE, MT19937, is_known
from ....runtime.ziggurats import FACTOR, INNER, OWN, PCG64, STATE, Ziggurat
from .forms import literal, machine
from .function import FunctionWriter
from .libm import powers, steps
from .libm.doubles import Double, fmod


def quick(w: FunctionWriter, x: Instruction) -> tuple[str, str] | None:
    """An inline result of a call, and whether it is exact; None: call the function."""
    name = w.made.externals[x.what][1]
    if not w.near_libm or x.result is None or x.result.type != "float64":
        return None
    by = x.args[1] if name == "pow" else None
    power = powers.WITH.get(float(by.value)) if isinstance(by, Literal) else None
    given = [Double(w, w.operand(a, 1.0)) for a in x.args]
    if name == "fmod":
        high, is_known = fmod(*given)
    elif power is not None:
        high, is_known = power(w, given[0])
    elif not w.on_vectors:  # one takes no longer there
        return None
    elif c_library.takes(name):
        high, is_known = steps.FUNCTIONS[name](w, *given)
    else:
        return None
    return high.text, is_known.text


# --- random numbers -----------------------------------------------------------------------------

_FETCHED = """
  %s = load ptr, ptr %words, align 8, !invariant.load !1
  %p = load ptr, ptr %s, align 8, !invariant.load !1
  %q = getelementptr i8, ptr %p, i64 16
  %state = load i128, ptr %p, align 8, !tbaa !13
  %inc = load i128, ptr %q, align 8, !invariant.load !1
"""
"""The state of PCG64."""


def _step(of: str = "%state") -> str:
    """The next one, and 64 random bits."""
    return f"""
  %times = mul i128 {of}, {FACTOR}
  %next = add i128 %times, %inc
  %low = trunc i128 %next to i64
  %far = lshr i128 %next, 64
  %high = trunc i128 %far to i64
  %mixed = xor i64 %high, %low
  %turn = lshr i64 %high, 58
  %bits = call i64 @llvm.fshr.i64(i64 %mixed, i64 %mixed, i64 %turn)
"""


_STATE = _FETCHED + _step()
_KEEP = "  store i128 %next, ptr %p, align 8, !tbaa !13\n"
"""A state is kept once it is known that its bits are used."""
_HALF = f"""
  %h = getelementptr i8, ptr %s0, i64 8
  %k = getelementptr i8, ptr %s0, i64 12
  %has = load i32, ptr %h, align 4, !tbaa !13
  %is.kept = icmp ne i32 %has, 0
  br i1 %is.kept, label %kept, label %new
kept:
  %half.kept = load i32, ptr %k, align 4, !tbaa !13
  br label %found
new:{_STATE}
  %half.new = trunc i64 %bits to i32
  %upper = lshr i64 %bits, 32
  %half.other = trunc i64 %upper to i32
  br label %found
found:
  %half = phi i32 [%half.kept, %kept], [%half.new, %new]
  %next.half = phi i32 [0, %kept], [%half.other, %new]
  %next.state = phi i128 [0, %kept], [%next, %new]
"""
"""Draw 32 bits: the kept half of a word, or half of a new one."""
_KEEP_HALF = """
  br i1 %is.kept, label %take, label %make
take:
  store i32 0, ptr %h, align 4, !tbaa !13
  br label %done
make:
  %p.state = load ptr, ptr %s0, align 8, !invariant.load !1
  store i128 %next.state, ptr %p.state, align 8, !tbaa !13
  store i32 1, ptr %h, align 4, !tbaa !13
  store i32 %next.half, ptr %k, align 4, !tbaa !13
  br label %done
done:
"""
"""Keep the other half."""


def drawn(w: FunctionWriter, x: Instruction, function: Callable[[], str]) -> bool:
    """Write what a function draws as it is here; False: it is to be called.

    `function`: what gives its address.
    """
    _, name, kind, *_ = w.made.externals[x.what]
    words, *values = x.args
    given = [f"{_machine(v)} {w.array(v).base if isinstance(v.type, Array) else w.value(v)}"
             for v in values]  # fmt: skip
    base = f"ptr {w.array(words).base}"
    if kind == MT19937:
        return _of_mersenne(w, x, name, base, given, function)
    write = _DRAWN.get(name)
    if kind not in (PCG64, OWN) or write is None or not ziggurats.steps_are_known():
        return False
    return write(w, x, base, given, function)


def _machine(x: object) -> str:
    kind = x.type  # type: ignore[attr-defined]
    return "ptr" if isinstance(kind, Array) else machine(kind)


def _defined(w: FunctionWriter, x: Instruction, name: str, text: str) -> str:
    """The name of a function of the module, which is written once.

    A generator that the function makes is written to, so nothing of it is known before.
    """
    w.declared["draw bits"] = "declare i64 @llvm.fshr.i64(i64, i64, i64)"
    full = f"draw.{name}"
    if w.made.externals[x.what][2] == OWN:
        full = f"draw.{name}.own"
        text = text.replace(f"@draw.{name}(", f"@{full}(")
        lines = [
            y.replace(", !invariant.load !1", ", !tbaa !13") if _OF_STATE.search(y) else y
            for y in text.split("\n")
        ]
        text = "\n".join(lines)
    w.declared[full] = text
    return full


_OF_STATE = re.compile(r"load (ptr|i128)")


def _by_ziggurat(of: Callable[[], Ziggurat | None], name: str) -> Callable[..., bool]:
    def write(w: FunctionWriter, x: Instruction, words: str, given: list[str], f: object) -> bool:
        found = of()
        if found is None:
            return False
        w.declared[f"widths {name}"] = _tables(found, name)
        full = _defined(w, x, name, _text_of(found, name))
        w.set(x, w.emit(f"call double @{full}({words}, ptr {f()})"))  # type: ignore[operator]
        return True

    return write


def _tables(of: Ziggurat, name: str) -> str:
    """Tables of widths, and of steps within them; twice with a sign bit."""
    tables, times = [], 1 if of.sign < 0 else 2
    widths = [*of.widths, *(-x for x in of.widths * (times - 1))]
    for what, kind, values in (("widths", "double", widths), ("within", "i64", of.within * times)):
        dtype = "float64" if kind == "double" else "int64"
        text = ", ".join(f"{kind} {literal(v, dtype)}" for v in values)
        n = len(values)
        tables.append(f"@{name}.{what} = internal unnamed_addr constant [{n} x {kind}] [{text}]")
    return "\n".join(tables)


def _text_of(of: Ziggurat, name: str) -> str:
    """A function that draws by a ziggurat."""
    return f"""
define internal double @draw.{name}(ptr %words, ptr %f) alwaysinline nounwind {{{_STATE}
  %part.at = lshr i64 %bits, {of.part}
  %part = and i64 %part.at, {255 if of.sign < 0 else 511}
  %steps.all = lshr i64 %bits, {of.steps}
  %steps = and i64 %steps.all, {-1 if of.sign < 0 else (1 << 52) - 1}
  %p.width = getelementptr double, ptr @{name}.widths, i64 %part
  %width = load double, ptr %p.width, align 8, !invariant.load !1
  %p.most = getelementptr i64, ptr @{name}.within, i64 %part
  %most = load i64, ptr %p.most, align 8, !invariant.load !1
  %is.within = icmp ult i64 %steps, %most
  br i1 %is.within, label %within, label %else, !prof !11
within:
  %as.float = sitofp i64 %steps to double
  %x = fmul double %as.float, %width
{_KEEP}  ret double %x
else:
  %other = call double %f(ptr %words)
  ret double %other
}}"""


def _uniform(w: FunctionWriter, x: Instruction, words: str, given: list[str], f: object) -> bool:
    text = f"""
define internal double @draw.uniform(ptr %words) alwaysinline nounwind {{{_STATE}{_KEEP}
  %steps = lshr i64 %bits, 11
  %as.float = sitofp i64 %steps to double
  %x = fmul double %as.float, {literal(ziggurats.UNIT, "float64")}
  ret double %x
}}"""
    full = _defined(w, x, "uniform", text)
    w.set(x, w.emit(f"call double @{full}({words})"))
    return True


_BOUNDED = f"""
define internal i64 @draw.bounded(ptr %words, ptr %f, i64 %low0, i64 %width, i64 %mask, i64 %masked)
    alwaysinline nounwind {{
  %s0 = load ptr, ptr %words, align 8, !invariant.load !1
  %less = sub i64 %width, 1
  %is.short = icmp ult i64 %less, 4294967294
  %is.plain = icmp eq i64 %masked, 0
  %is.here = and i1 %is.short, %is.plain
  br i1 %is.here, label %here, label %else
here:{_HALF}
  %count = add i64 %width, 1
  %wide = zext i32 %half to i64
  %product = mul i64 %wide, %count
  %rest = and i64 %product, 4294967295
  %is.even = icmp uge i64 %rest, %count
  br i1 %is.even, label %even, label %else, !prof !11
even:{_KEEP_HALF}
  %at = lshr i64 %product, 32
  %found.it = add i64 %low0, %at
  ret i64 %found.it
else:
  %other = call i64 %f(ptr %words, i64 %low0, i64 %width, i64 %mask, i64 %masked)
  ret i64 %other
}}"""


def _exchange(part: str, i: str, mask: str, other: str) -> str:
    """The exchange of an element; indices beyond the range are drawn anew for the same element.

    So nothing waits for what cannot be foreseen. `mask`: which bits are drawn; `other`: for the
    element before it.
    """
    return f"""
  %to{part} = and i64 %wide{part}, {mask}
  %p{part} = getelementptr i64, ptr %out, i64 {i}
  store i64 %to{part}, ptr %p{part}, align 8
  %is.fine{part} = icmp ule i64 %to{part}, {i}
  %less{part} = sub i64 {i}, 1
  %i{part} = select i1 %is.fine{part}, i64 %less{part}, i64 {i}
  %m{part} = select i1 %is.fine{part}, i64 {other}, i64 {mask}
  %before{part} = sub i64 %i{part}, 1
  %half{part} = lshr i64 %m{part}, 1
  %is.half{part} = icmp ule i64 %before{part}, %half{part}
  %o{part} = select i1 %is.half{part}, i64 %half{part}, i64 %m{part}
"""


_MASKS = """
  %last = sub i64 %n, 1
  %zeros = call i64 @llvm.ctlz.i64(i64 %last, i1 true)
  %mask = lshr i64 -1, %zeros
  %before = sub i64 %last, 1
  %half = lshr i64 %mask, 1
  %is.half = icmp ule i64 %before, %half
  %other = select i1 %is.half, i64 %half, i64 %mask
"""
"""The last element, which bits are drawn for it, and which for the one before."""
_EXCHANGES = f"""
define internal void @draw.exchanges(ptr %words, i64 %n, ptr %out) noinline nounwind {{
entry:
  %is.none = icmp slt i64 %n, 2
  br i1 %is.none, label %none, label %begin
none:
  ret void
begin:{_FETCHED}
  %h = getelementptr i8, ptr %s, i64 8
  %k = getelementptr i8, ptr %s, i64 12
  %has = load i32, ptr %h, align 4, !tbaa !13
{_MASKS}
  %is.kept = icmp ne i32 %has, 0
  br i1 %is.kept, label %kept, label %new
kept:
  %half.kept = load i32, ptr %k, align 4, !tbaa !13
  %wide.z = zext i32 %half.kept to i64
{_exchange(".z", "%last", "%mask", "%other")}  store i32 0, ptr %h, align 4, !tbaa !13
  %is.all = icmp eq i64 %i.z, 0
  br i1 %is.all, label %none, label %new
new:
  %i = phi i64 [%last, %begin], [%i.z, %kept], [%i.b, %upper]
  %m = phi i64 [%mask, %begin], [%m.z, %kept], [%m.b, %upper]
  %o = phi i64 [%other, %begin], [%o.z, %kept], [%o.b, %upper]
  %now = phi i128 [%state, %begin], [%state, %kept], [%next, %upper]
{_step(of="%now")}
  %wide.a = and i64 %bits, 4294967295
  %wide.b = lshr i64 %bits, 32
{_exchange(".a", "%i", "%m", "%o")}  %is.end.a = icmp eq i64 %i.a, 0
  br i1 %is.end.a, label %over, label %upper
upper:
{_exchange(".b", "%i.a", "%m.a", "%o.a")}  %is.end.b = icmp eq i64 %i.b, 0
  br i1 %is.end.b, label %over, label %new
over:
  %rest = phi i32 [1, %new], [0, %upper]
  %kept.half = trunc i64 %wide.b to i32
{_KEEP}  store i32 %rest, ptr %h, align 4, !tbaa !13
  store i32 %kept.half, ptr %k, align 4, !tbaa !13
  ret void
}}"""
"""The exchanges of a shuffle, from the last element to the second."""


def _exchanges(w: FunctionWriter, x: Instruction, words: str, given: list[str], f: object) -> bool:
    full = _defined(w, x, "exchanges", _EXCHANGES)
    w.declared["draw zeros"] = "declare i64 @llvm.ctlz.i64(i64, i1)"
    w.line(f"call void @{full}({', '.join([words, *given])})")
    return True


def _bounded(w: FunctionWriter, x: Instruction, words: str, given: list[str], f: object) -> bool:
    full = _defined(w, x, "bounded", _BOUNDED)
    numbers = ", ".join([words, f"ptr {f()}", *given])  # type: ignore[operator]
    w.set(x, w.emit(f"call i64 @{full}({numbers})"))
    return True


_MERSENNE = """
define internal void @draw.mersenne(ptr %words, i64 %seed) nounwind {
entry:
  %s = load ptr, ptr %words, align 8
  %first = trunc i64 %seed to i32
  br label %more
more:
  %k = phi i64 [0, %entry], [%next.k, %more]
  %x = phi i32 [%first, %entry], [%next, %more]
  %p = getelementptr i32, ptr %s, i64 %k
  store i32 %x, ptr %p, align 4
  %far = lshr i32 %x, 30
  %mixed = xor i32 %x, %far
  %times = mul i32 %mixed, 1812433253
  %next.k = add i64 %k, 1
  %less = trunc i64 %next.k to i32
  %next = add i32 %times, %less
  %is.over = icmp eq i64 %next.k, 624
  br i1 %is.over, label %over, label %more
over:
  %p.place = getelementptr i32, ptr %s, i64 624
  store i32 624, ptr %p.place, align 4
  ret void
}"""
"""See `xpapply.runtime.generators.MERSENNE`."""


def _tempered(part: str, at: str) -> str:
    """32 random bits of an MT19937, of the word of its state there."""
    return f"""
  %p{part} = getelementptr i32, ptr %s, i64 {at}
  %x{part} = load i32, ptr %p{part}, align 4
  %x1{part} = lshr i32 %x{part}, 11
  %x2{part} = xor i32 %x{part}, %x1{part}
  %x3{part} = shl i32 %x2{part}, 7
  %x4{part} = and i32 %x3{part}, {0x9D2C5680 - (1 << 32)}
  %x5{part} = xor i32 %x2{part}, %x4{part}
  %x6{part} = shl i32 %x5{part}, 15
  %x7{part} = and i32 %x6{part}, {0xEFC60000 - (1 << 32)}
  %x8{part} = xor i32 %x5{part}, %x7{part}
  %x9{part} = lshr i32 %x8{part}, 18
  %half{part} = xor i32 %x8{part}, %x9{part}
  %wide{part} = zext i32 %half{part} to i64
"""


_AT = """
  %s = load ptr, ptr %words, align 8
  %p.at = getelementptr i32, ptr %s, i64 624
  %at32 = load i32, ptr %p.at, align 4
  %at = zext i32 %at32 to i64
"""
"""The next word of the state of 624."""
_OF_MERSENNE = {
    "random_standard_uniform": f"""
define internal double @draw.twister.unit(ptr %words, ptr %f) nounwind {{{_AT}
  %is.here = icmp ult i64 %at, 623
  br i1 %is.here, label %here, label %else, !prof !11
here:
  %at.b = add i64 %at, 1{_tempered(".a", "%at")}{_tempered(".b", "%at.b")}
  %next = add i32 %at32, 2
  store i32 %next, ptr %p.at, align 4
  %upper.a = lshr i64 %wide.a, 5
  %upper = shl i64 %upper.a, 26
  %lower = lshr i64 %wide.b, 6
  %steps = or i64 %upper, %lower
  %as.float = sitofp i64 %steps to double
  %unit = fmul double %as.float, {literal(ziggurats.UNIT, "float64")}
  ret double %unit
else:
  %other = call double %f(ptr %words)
  ret double %other
}}""",
    EXCHANGES: f"""
define internal void @draw.twister.exchanges(ptr %words, i64 %n, ptr %out) noinline nounwind {{
entry:
  %is.none = icmp slt i64 %n, 2
  br i1 %is.none, label %none, label %begin
none:
  ret void
begin:{_AT}
  %p.f = getelementptr ptr, ptr %words, i64 2
  %f = load ptr, ptr %p.f, align 8
{_MASKS}
  br label %more
more:
  %i = phi i64 [%last, %begin], [%i.h, %drawn]
  %m = phi i64 [%mask, %begin], [%m.h, %drawn]
  %o = phi i64 [%other, %begin], [%o.h, %drawn]
  %now = phi i64 [%at, %begin], [%next, %drawn]
  %is.here = icmp ult i64 %now, 624
  br i1 %is.here, label %here, label %anew, !prof !11
here:{_tempered(".k", "%now")}
  %next.k = add i64 %now, 1
  br label %drawn
anew:
  store i32 624, ptr %p.at, align 4
  %half.n = call i32 %f(ptr %s)
  %wide.n = zext i32 %half.n to i64
  br label %drawn
drawn:
  %wide.h = phi i64 [%wide.k, %here], [%wide.n, %anew]
  %next = phi i64 [%next.k, %here], [1, %anew]
{_exchange(".h", "%i", "%m", "%o")}
  %is.over = icmp eq i64 %i.h, 0
  br i1 %is.over, label %over, label %more
over:
  %next32 = trunc i64 %next to i32
  store i32 %next32, ptr %p.at, align 4
  ret void
}}""",
    MERSENNE: _MERSENNE,
}
"""Draws of an MT19937."""


def _of_mersenne(
    w: FunctionWriter, x: Instruction, name: str, words: str, given: list[str], f: object
) -> bool:
    text = _OF_MERSENNE.get(name)
    if text is None or not is_known(MERSENNE):
        return False
    w.declared[f"twister {name}"] = text
    w.declared["draw zeros"] = "declare i64 @llvm.ctlz.i64(i64, i1)"
    full = text.partition("@")[2].partition("(")[0]
    if x.result is None:
        w.line(f"call void @{full}({', '.join([words, *given])})")
    else:
        w.set(x, w.emit(f"call double @{full}({words}, ptr {f()})"))  # type: ignore[operator]
    return True


_DRAWN: dict[str, Callable[..., bool]] = {
    "random_standard_normal": _by_ziggurat(ziggurats.normal, "normal"),
    "random_standard_exponential": _by_ziggurat(ziggurats.exponential, "exponential"),
    "random_standard_uniform": _uniform, EXCHANGES: _exchanges, BOUNDED: _bounded,
}  # fmt: skip


def seeded(w: FunctionWriter, words: str, like: str, halves: list[str]) -> None:
    """Make a PCG64 in an array: see `xpapply.runtime.ziggurats.started`."""

    def put(kind: str, value: str, at: int) -> None:
        place = w.emit(f"getelementptr i64, ptr {words}, i64 {at}")
        w.line(f"store {kind} {value}, ptr {place}, align 8, !tbaa !13")

    for k in range(1, STATE):
        place = w.emit(f"getelementptr i64, ptr {like}, i64 {k}")
        put("i64", w.emit(f"load i64, ptr {place}, align 8"), k)
    put("ptr", w.emit(f"getelementptr i64, ptr {words}, i64 {STATE}"), 0)
    if not halves:
        return
    put("ptr", w.emit(f"getelementptr i64, ptr {words}, i64 {INNER}"), STATE)
    put("i64", "0", STATE + 1)
    seeds = []
    for first in (0, 4):
        whole = "0"
        for k, far in zip(range(first, first + 4), (64, 96, 0, 32), strict=True):
            wide = w.emit(f"zext i64 {halves[k]} to i128")
            whole = w.emit(f"or i128 {whole}, {w.emit(f'shl i128 {wide}, {far}')}")
        seeds.append(whole)
    twice = w.emit(f"shl i128 {seeds[1]}, 1")
    inc = w.emit(f"or i128 {twice}, 1")
    begun = w.emit(f"add i128 {inc}, {seeds[0]}")
    state = w.emit(f"add i128 {w.emit(f'mul i128 {begun}, {FACTOR}')}, {inc}")
    put("i128", state, INNER)
    put("i128", inc, INNER + 2)
