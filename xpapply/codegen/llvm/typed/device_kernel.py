"""The kernel of a typed function on a GPU: each thread finds its slice, and what it shares.

What a thread does is in `device`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from ....ir.typed import Array, TypedFunction
from ....ir.typed.function import COUNTED, OTHER
from ....ir.typed.lifetimes import MADE
from .device import NAME, DeviceWriter
from .device_called import CallingOnDevice
from .forms import Frame, size

THREADS = 128
"""Threads of a block."""
_BLOCKS = 5, 8
"""Blocks that a multiprocessor has room for; of kernels that call functions of a library, too.

So many registers a thread has: a function that is linked may take more than it gains by. Fits,
which fetch their slices, take all that there are.
"""
_SHARED = 40_000
"""Bytes of memory that a block shares."""
_AT_ONCE = 16
"""Numbers that a thread copies at once."""


class Tile(NamedTuple):
    """Memory that a block shares, for an operand: how many numbers of a slice, how far apart."""

    many: int
    apart: int
    size: int

    @property
    def kind(self) -> str:
        """A number, as it is copied."""
        return f"i{8 * self.size}"


def gathers(count: int, stride: int, size: int) -> bool:
    """Whether a thread copies a slice before it reads it, whose elements lie so far apart.

    So they are all under way at once, whatever the function decides before it reads one. None of
    its parts looks packed after that, or before.
    """
    return 1 < count <= _AT_ONCE and stride > size


def asked(made: TypedFunction, known: Mapping[int, int]) -> int:
    """Bytes of a thread for all arrays that a function makes, if they are as long as its slices."""
    longest = max((known.get(k, 0) for k in Frame(made).lengths), default=0)
    kinds = [x.result.type for x in made.instructions if x.op in MADE and x.result is not None]
    sizes = [longest * size(kind.dtype) for kind in kinds if isinstance(kind, Array)]
    return sum(-(-n // 16) * 16 for n in sizes)


def tiles(
    made: TypedFunction,
    known: Mapping[int, int],
    frame: Any,
    packed: Collection[int] = (),
    gathered: Collection[int] = (),
) -> dict[str, Tile]:
    """The operands that go through memory that a block shares, by their names in the kernel.

    A thread takes a slice, whose numbers lie side by side: read or written one by one where they
    are, those of several threads are far from each other. Here they lie an odd number of elements
    apart, so that threads are in each other's way less often.
    """
    found: dict[str, Tile] = {}
    left = _SHARED
    operands: list[tuple[str, Any, Any]]
    operands = [(f"out{k}", y, frame.results[k]) for k, y in enumerate(made.results)]
    copied = sorted((*packed, *gathered))
    operands += [(f"in{k}", made.inputs[k], frame.inputs[k]) for k in copied]
    for name, kind, (dims, strides) in operands:
        if not all(d in known for d in (*dims, *strides)):
            continue
        own = size(str(kind.dtype))
        count, is_packed = 1, True
        for d, s in zip(reversed(dims), reversed(strides), strict=True):
            is_packed = is_packed and known[s] == count * own
            count *= known[d]
        tile = Tile(count, count + (1 - count % 2), own)
        if name.startswith("in") and int(name[2:]) in gathered:
            is_packed, tile = True, Tile(count, count, own)
        if count > 1 and is_packed and THREADS * tile.apart * own <= left:
            found[name] = tile
            left -= THREADS * tile.apart * own
    return found


def _copied(name: str, tile: Tile, before: str, *, inwards: bool) -> list[str]:
    """All threads of a block copy the numbers of its slices, side by side; `before`: the block.

    Those of a whole block are all under way at once, where slices are short: each thread copies
    as many as a slice has.
    """
    lines = [
        f"  %{name}.all = mul i64 %rows, {tile.many}",
        f"  %{name}.begun = mul i64 %begin, {tile.many * tile.size}",
        f"  %{name}.first = add i64 %{name}.base, %{name}.begun",
        f"  %{name}.whole = inttoptr i64 %{name}.first to ptr addrspace(1)",
    ]
    if tile.many <= _AT_ONCE:
        lines += [f"  br i1 %few, label %{name}.one.by.one, label %{name}.at.once"]
        lines += [f"{name}.at.once:"]
        ways = [_moved(name, tile, f"{name}.k{k}", k, inwards) for k in range(tile.many)]
        lines += [x for way in ways for x in way[:-1]] + [way[-1] for way in ways]
        lines += [f"  br label %{name}.over", f"{name}.one.by.one:"]
        before = f"{name}.one.by.one"
    return [
        *lines,
        f"  br label %{name}.head",
        f"{name}.head:",
        f"  %{name}.i = phi i64 [%tid, %{before}], [%{name}.next, %{name}.body]",
        f"  %{name}.goes = icmp slt i64 %{name}.i, %{name}.all",
        f"  br i1 %{name}.goes, label %{name}.body, label %{name}.over",
        f"{name}.body:",
        *_moved(name, tile, name, None, inwards),
        f"  %{name}.next = add i64 %{name}.i, {THREADS}",
        f"  br label %{name}.head",
        f"{name}.over:",
    ]


def _moved(name: str, tile: Tile, own: str, k: int | None, inwards: bool) -> list[str]:
    """A thread copies a number: its `k`-th one, or that at ``%NAME.i``; the last line stores it."""
    i, kind, align = f"%{own}.i", tile.kind, tile.size
    shared, far = f"%{own}.shared", f"%{own}.numbers"
    return [
        *([] if k is None else [f"  {i} = add i64 %tid, {k * THREADS}"]),
        f"  %{own}.short = trunc i64 {i} to i32",
        f"  %{own}.slice = udiv i32 %{own}.short, {tile.many}",
        f"  %{own}.gaps = mul i32 %{own}.slice, {tile.apart - tile.many}",
        f"  %{own}.place = add i32 %{own}.short, %{own}.gaps",
        f"  {shared} = getelementptr {kind}, ptr addrspace(3) @tile.{name}, i32 %{own}.place",
        f"  {far} = getelementptr {kind}, ptr addrspace(1) %{name}.whole, i64 {i}",
        *(
            [
                _loaded(f"%{own}.value", far, tile),
                f"  store {kind} %{own}.value, ptr addrspace(3) {shared}, align {align}",
            ]
            if inwards
            else [
                f"  %{own}.value = load {kind}, ptr addrspace(3) {shared}, align {align}",
                _stored(f"%{own}.value", far, tile),
            ]
        ),
    ]


_REGISTERS = {2: "h", 4: "r", 8: "l"}
"""The letters of registers in LLVM, by their bytes."""


def _loaded(value: str, at: str, tile: Tile) -> str:
    """Load a number of a slice, which is read once: past the first cache, 10 % more of them.

    No branch may take it along (`convergent`), so that those of a slice are all under way at once.
    """
    if tile.size not in _REGISTERS:
        return f"  {value} = load {tile.kind}, ptr addrspace(1) {at}, align {tile.size}"
    how = f"ld.global.nc.L1::no_allocate.b{8 * tile.size} $0, [$1];"
    asm = f'asm "{how}", "={_REGISTERS[tile.size]},l"(ptr addrspace(1) {at})'
    return f"  {value} = call {tile.kind} {asm} convergent nounwind willreturn memory(none)"


def _stored(value: str, at: str, tile: Tile) -> str:
    """Store a number of a result, which nothing reads soon."""
    if tile.size not in _REGISTERS:
        return f"  store {tile.kind} {value}, ptr addrspace(1) {at}, align {tile.size}"
    how = f"st.global.cs.b{8 * tile.size} [$0], $1;"
    given = f"ptr addrspace(1) {at}, {tile.kind} {value}"
    return f'  call void asm sideeffect "{how}", "l,{_REGISTERS[tile.size]}"({given}) nounwind'


def _gathered(o: str, tile: Tile, stride: int, how: str) -> list[str]:
    """A thread copies the numbers of its slice, beside those of the other threads' slices.

    `how`: "volatile" where rounds that decide would have ptxas load each number just before.
    """
    kind, align, each = tile.kind, tile.size, range(tile.many)
    lines = []
    for k in each:
        lines.append(
            f"  %{o}.g{k} = getelementptr i8, ptr addrspace(1) %{o}.global, i64 {k * stride}"
        )
        lines.append(_loaded(f"%{o}.v{k}", f"%{o}.g{k}", tile))
    lines.append(f"  %{o}.own = getelementptr {kind}, ptr addrspace(3) @tile.{o}, i64 %tid")
    lines.append(f"  %{o}.p = addrspacecast ptr addrspace(3) %{o}.own to ptr")
    for k in each:
        lines.append(f"  %{o}.t{k} = getelementptr {kind}, ptr %{o}.p, i64 {k * THREADS}")
        lines.append(f"  store {how} {kind} %{o}.v{k}, ptr %{o}.t{k}, align {align}")
    return lines


def kernel(
    made: TypedFunction,
    known: Mapping[int, int],
    batch: int,
    memory: int = 0,
    packed: Collection[int] = (),
    gathered: Collection[int] = (),
) -> str:
    """The text of a kernel, for slices along so many axes of a batch.

    `known`, `memory`: as of `DeviceWriter`. A block has `THREADS` threads, one for each slice.
    Results lie one after the other, those of `tiles` without gaps, and so do the slices of the
    inputs with the numbers `packed`. Of those with the numbers `gathered` see `gathers`.

    Its arguments, each of 64 bits: how many slices there are; where marks go (16 bits each, of
    which those are written that are not 0), and where it is noted that there are some; the
    numbers of the frame that are not `known`; for each axis of the batch but the first its length;
    then for each input and result its address and its strides along those axes, in bytes.
    """
    frame = Frame(made)
    shared = tiles(made, known, frame, packed, gathered)
    copied = {f"in{k}": frame.inputs[k][1][0] for k in gathered if f"in{k}" in shared}
    near = {stride: THREADS * shared[o].size for o, stride in copied.items()}
    of = CallingOnDevice if made.functions else DeviceWriter
    writer = of(made, {**known, **near}, memory)
    one = writer.text()
    words = [k for k in range(writer.frame.count) if k not in known]
    operands = [f"in{k}" for k in range(len(made.inputs))]
    operands += [f"out{k}" for k in range(len(made.results))]
    names = ["count", "marks", "marked", *(f"w{k}" for k in words)]
    names += [f"n{d}" for d in range(1, batch)]
    names += [f"{o}.{x}" for o in operands for x in ("base", *(f"s{d}" for d in range(batch)))]
    read = {o: t for o, t in shared.items() if o.startswith("in") and o not in copied}
    lines = [
        f"@tile.{o} = internal addrspace(3) global [{THREADS * t.apart} x {t.kind}] undef, align 16"
        for o, t in shared.items()
    ]
    lines += [f"define ptx_kernel void @{NAME}({', '.join(f'i64 %{n}' for n in names)}) #0 {{"]
    lines += ["entry:"]
    for n, register in (("tid", "tid"), ("block", "ctaid")):
        lines.append(f"  %{n}.short = call i32 @llvm.nvvm.read.ptx.sreg.{register}.x()")
        lines.append(f"  %{n} = zext i32 %{n}.short to i64")
    lines += [
        f"  %begin = mul i64 %block, {THREADS}",
        "  %k = add i64 %begin, %tid",
        "  %p.marks = inttoptr i64 %marks to ptr addrspace(1)",
        "  %p.marked = inttoptr i64 %marked to ptr addrspace(1)",
        "  %p.differs = alloca i1, align 1",
        "  %left = sub i64 %count, %begin",
        f"  %few = icmp slt i64 %left, {THREADS}",
        f"  %rows = select i1 %few, i64 %left, i64 {THREADS}",
    ]
    before = "entry"
    for o, tile in read.items():
        lines += _copied(o, tile, before, inwards=True)
        before = f"{o}.over"
    lines += [
        *(["  call void @llvm.nvvm.barrier0()"] if read else []),
        "  %more = icmp slt i64 %k, %count",
        "  br i1 %more, label %slice, label %done",
        "slice:",
    ]
    rest = "%k"
    places = []
    for d in range(batch - 1, 0, -1):
        lines.append(f"  %at{d} = urem i64 {rest}, %n{d}")
        lines.append(f"  %rest{d} = udiv i64 {rest}, %n{d}")
        places.append((d, f"%at{d}"))
        rest = f"%rest{d}"
    places.append((0, rest))
    for o in operands:
        if o in shared and o not in copied:
            kind, far = shared[o].kind, shared[o].apart
            lines.append(f"  %{o}.row = mul i64 %tid, {far}")
            lines.append(
                f"  %{o}.own = getelementptr {kind}, ptr addrspace(3) @tile.{o}, i64 %{o}.row"
            )
            lines.append(f"  %{o}.p = addrspacecast ptr addrspace(3) %{o}.own to ptr")
            continue
        at = f"%{o}.base"
        for d, place in places if batch else []:
            lines.append(f"  %{o}.far{d} = mul i64 {place}, %{o}.s{d}")
            lines.append(f"  %{o}.at{d} = add i64 {at}, %{o}.far{d}")
            at = f"%{o}.at{d}"
        lines.append(f"  %{o}.global = inttoptr i64 {at} to ptr addrspace(1)")
        if o in copied:
            loops = any(b.instructions[-1].what == COUNTED for b in made.blocks)
            how = "volatile" if loops else ""
            lines += _gathered(o, shared[o], known[copied[o]], how)
            continue
        lines.append(f"  %{o}.p = addrspacecast ptr addrspace(1) %{o}.global to ptr")
    given = ", ".join(
        ["ptr %p.differs", *(f"i64 %w{k}" for k in words), *(f"ptr %{o}.p" for o in operands)]
    )
    lines += [
        "  store i1 false, ptr %p.differs",
        f"  %own = call i32 @slice({given})",
        "  %is.other = load i1, ptr %p.differs",
        "  %is.first = icmp eq i64 %k, 0",
        "  %is.done = icmp eq i32 %own, 0",
        "  %is.either = and i1 %is.other, %is.first",
        "  %is.all = and i1 %is.either, %is.done",
        f"  %mark = select i1 %is.all, i32 {OTHER}, i32 %own",
        "  %is.plain = icmp eq i32 %mark, 0",
        "  br i1 %is.plain, label %done, label %noted",
        "noted:",
        "  %mark.short = trunc i32 %mark to i16",
        "  %p.mark = getelementptr i16, ptr addrspace(1) %p.marks, i64 %k",
        "  store i16 %mark.short, ptr addrspace(1) %p.mark, align 2",
        "  store i64 1, ptr addrspace(1) %p.marked, align 8",
        "  br label %done",
        "done:",
    ]
    before = "done"
    if any(o.startswith("out") for o in shared):
        lines.append("  call void @llvm.nvvm.barrier0()")
    for o, tile in shared.items():
        if o.startswith("out"):
            lines += _copied(o, tile, before, inwards=False)
            before = f"{o}.over"
    lines += ["  ret void", "}"]
    declared = [
        *(f"declare i32 @llvm.nvvm.read.ptx.sreg.{r}.x()" for r in ("tid", "ctaid")),
        "declare void @llvm.nvvm.barrier0()",
    ]
    traits = '"denormal-fp-math-f32"="preserve-sign,preserve-sign"' if made.flushes else ""
    if not made.fetches:
        blocks = _BLOCKS[any(name.startswith("xpapply") for name in writer.declared)]
        traits += f' "nvvm.maxntid"="{THREADS}" "nvvm.minctasm"="{blocks}"'
    tail = [
        f"attributes #0 = {{ nounwind {traits} }}",
        '!0 = !{!"branch_weights", i32 1, i32 1000000}',
        "!1 = !{}",
        "!5 = !{!6, !6, i64 0}",
        '!6 = !{!"element", !9}',
        "!7 = !{!8, !8, i64 0}",
        '!8 = !{!"head of a list", !9}',
        '!9 = !{!"memory"}',
        '!11 = !{!"branch_weights", i32 1000000, i32 1}',
    ]
    if writer.loops:
        tail.append(f'!12 = !{{!"llvm.loop.unroll.{"full" if writer.unrolls else "disable"}"}}')
    tail += [f"!{k} = distinct !{{!{k}, !12}}" for k in sorted(writer.loops)]
    head = 'target triple = "nvptx64-nvidia-cuda"'
    return "\n".join([head, *declared, *writer.declared.values(), one, *lines, *tail, ""])
