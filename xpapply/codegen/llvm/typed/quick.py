"""Functions of the C library that are seldom called: what they give is computed to more bits.

Functions that draw random numbers are seldom called either, where a ziggurat is known and how its
generator goes on: see `xpapply.runtime.ziggurats`.

Where that lies so far from the middle between two floats that whoever is off by less than glibc's
functions are rounds it as it is rounded here, it is their result. For other arguments they are
called. Nothing here notes more than that numbers are inexact.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from ....ir.typed import Array, Instruction, Literal
from ....runtime import ziggurats
from ....runtime.generators import BOUNDED, INTERVAL
from ....runtime.ziggurats import FACTOR, INNER, OWN, PCG64, STATE, Ziggurat
from . import exponentials, powers, sines
from .doubles import Double, fmod
from .forms import literal, machine
from .function import FunctionWriter

Found = tuple[Double, Double]
"""A result, and whether it is the one that the function gives."""
_FUNCTIONS: dict[str, Callable[[FunctionWriter, Double], Found]] = {
    "exp": exponentials.exp, "log": exponentials.log, "sin": sines.sin, "cos": sines.cos,
}  # fmt: skip


def quick(w: FunctionWriter, x: Instruction) -> tuple[str, str] | None:
    """What a call gives, and whether that is so; None: the function is to be called."""
    name = w.made.externals[x.what][1]
    if not w.near_libm or x.result is None or x.result.type != "float64":
        return None
    if name == "pow" and isinstance(x.args[1], Literal):
        write = powers.WITH.get(float(x.args[1].value))
    else:
        write = _FUNCTIONS.get(name)
    if name == "fmod":
        high, is_known = fmod(*(Double(w, w.operand(a, 1.0)) for a in x.args))
        return high.text, is_known.text
    if write is None or (name != "pow" and not w.on_vectors):  # one takes no longer there
        return None
    given = Double(w, w.operand(x.args[0], 1.0))
    high, is_known = write(w, given)
    return high.text, is_known.text


# --- random numbers -----------------------------------------------------------------------------

_STATE = f"""
  %s = load ptr, ptr %words, align 8, !invariant.load !1
  %p = load ptr, ptr %s, align 8, !invariant.load !1
  %q = getelementptr i8, ptr %p, i64 16
  %state = load i128, ptr %p, align 8, !tbaa !13
  %inc = load i128, ptr %q, align 8, !invariant.load !1
  %times = mul i128 %state, {FACTOR}
  %next = add i128 %times, %inc
  %low = trunc i128 %next to i64
  %far = lshr i128 %next, 64
  %high = trunc i128 %far to i64
  %mixed = xor i64 %high, %low
  %turn = lshr i64 %high, 58
  %bits = call i64 @llvm.fshr.i64(i64 %mixed, i64 %mixed, i64 %turn)
"""
_KEEP = "  store i128 %next, ptr %p, align 8, !tbaa !13\n"
"""The next state of PCG64, and 64 random bits; it is kept once it is known that they are used."""
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
"""Half of them, or the half that was left ..."""
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
"""... which is kept too."""


def drawn(w: FunctionWriter, x: Instruction, function: Callable[[], str]) -> bool:
    """Write what a function draws as it is here; False: it is to be called.

    `function`: what gives its address.
    """
    _, name, kind, _, *_types = w.made.externals[x.what]
    write = _DRAWN.get(name)
    if kind not in (PCG64, OWN) or write is None or not ziggurats.steps_are_known():
        return False
    words, *values = x.args
    given = [f"{_machine(v)} {w.array(v).base if isinstance(v.type, Array) else w.value(v)}"
             for v in values]  # fmt: skip
    return write(w, x, f"ptr {w.array(words).base}", given, function)


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
        head, *rest = text.split(f"@draw.{name}(")
        text = f"@{full}(".join([head, *rest]).replace(f"@{name}.", f"@{name}.own.")
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
        full = _defined(w, x, name, _text_of(found, name))
        w.set(x, w.emit(f"call double @{full}({words}, ptr {f()})"))  # type: ignore[operator]
        return True

    return write


def _text_of(of: Ziggurat, name: str) -> str:
    """A function that draws by a ziggurat."""
    tables = []
    for what, kind, values in (("widths", "double", of.widths), ("within", "i64", of.within)):
        dtype = "float64" if kind == "double" else "int64"
        text = ", ".join(f"{kind} {literal(v, dtype)}" for v in values)
        n = len(values)
        tables.append(f"@{name}.{what} = internal unnamed_addr constant [{n} x {kind}] [{text}]")
    signed = of.sign >= 0
    sign = f"""
  %sign.at = shl i64 %bits, {63 - of.sign}
  %sign = and i64 %sign.at, {-(1 << 63)}
  %x.bits = bitcast double %x.plain to i64
  %x.signed = xor i64 %x.bits, %sign
  %x = bitcast i64 %x.signed to double
"""
    plain = "\n  %x = fadd double %x.plain, -0.0\n"
    steps = f"  %steps.all = lshr i64 %bits, {of.steps}\n"
    steps += f"  %steps = and i64 %steps.all, {(1 << 52) - 1 if signed else -1}"
    return (
        "\n".join(tables)
        + f"""
define internal double @draw.{name}(ptr %words, ptr %f) alwaysinline nounwind {{{_STATE}
  %part.at = lshr i64 %bits, {of.part}
  %part = and i64 %part.at, {len(of.widths) - 1}
{steps}
  %p.width = getelementptr double, ptr @{name}.widths, i64 %part
  %width = load double, ptr %p.width, align 8, !invariant.load !1
  %p.most = getelementptr i64, ptr @{name}.within, i64 %part
  %most = load i64, ptr %p.most, align 8, !invariant.load !1
  %is.within = icmp ult i64 %steps, %most
  br i1 %is.within, label %within, label %else, !prof !11
within:
  %as.float = sitofp i64 %steps to double
  %x.plain = fmul double %as.float, %width{sign if signed else plain}{_KEEP}  ret double %x
else:
  %other = call double %f(ptr %words)
  ret double %other
}}"""
    )


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
_INTERVAL = f"""
define internal i64 @draw.interval(ptr %words, ptr %f, i64 %most) alwaysinline nounwind {{
entry:
  %s0 = load ptr, ptr %words, align 8, !invariant.load !1
  %less = sub i64 %most, 1
  %is.short = icmp ult i64 %less, 4294967295
  br i1 %is.short, label %here, label %else
here:
  %zeros = call i64 @llvm.ctlz.i64(i64 %most, i1 true)
  %mask = lshr i64 -1, %zeros
  br label %again
again:{_HALF}
  %wide = zext i32 %half to i64
  %x = and i64 %wide, %mask{_KEEP_HALF}
  %is.within = icmp ule i64 %x, %most
  br i1 %is.within, label %within, label %again
within:
  ret i64 %x
else:
  %other = call i64 %f(ptr %words, i64 %most)
  ret i64 %other
}}"""


def _integer(name: str, text: str) -> Callable[..., bool]:
    def write(w: FunctionWriter, x: Instruction, words: str, given: list[str], f: object) -> bool:
        full = _defined(w, x, name, text)
        w.declared["draw zeros"] = "declare i64 @llvm.ctlz.i64(i64, i1)"
        numbers = ", ".join([words, f"ptr {f()}", *given])  # type: ignore[operator]
        w.set(x, w.emit(f"call i64 @{full}({numbers})"))
        return True

    return write


_DRAWN: dict[str, Callable[..., bool]] = {
    "random_standard_normal": _by_ziggurat(ziggurats.normal, "normal"),
    "random_standard_exponential": _by_ziggurat(ziggurats.exponential, "exponential"),
    "random_standard_uniform": _uniform,
    BOUNDED: _integer("bounded", _BOUNDED), INTERVAL: _integer("interval", _INTERVAL),
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
