"""Kernels for functions of the slices of several arrays: one read of what they need, one write.

A slice is shared by `lanes` threads, which hold a piece of it in registers: the whole of it,
where it is short enough (``held``), else piece by piece. Accumulators are found of a thread's
piece, combined over pieces and over lanes. Where there are few long slices, several blocks
share one (``split``): one launch per level of the graph writes their states to memory, and the
next one combines them.

The text stands alone (no headers), compiles with NVRTC, and with one lane as host C++.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..ir.graph import Node
from ..ir.ops import OPS, Kind
from ..ir.slicewise import Accumulator, SliceGraph, number
from .cxx import FUNCTIONS, TYPES, literal

_PREAMBLE = """
#ifdef __CUDACC_RTC__
#define XP_DEVICE __device__ __forceinline__
#define XP_UNROLL _Pragma("unroll")
struct alignas(2) float16 {
  unsigned short bits;
  float16() = default;
  XP_DEVICE float16(const float x) { asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x)); }
  XP_DEVICE operator float() const {
    float x;
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(bits));
    return x;
  }
};
#else
#define XP_DEVICE inline
#define XP_UNROLL
#endif
struct Yes { static constexpr bool value = true; };
struct No { static constexpr bool value = false; };
template <class T, int V> struct alignas(sizeof(T) * V) Pack { T a[V]; };
"""

_ACROSS_LANES = """
template <class T> XP_DEVICE T xp_shuffle(const T x, const int mask) {
  constexpr int N = (sizeof(T) + 3) / 4;
  union { T whole; unsigned words[N]; } from, to;
  from.words[N - 1] = 0;
  from.whole = x;
  XP_UNROLL
  for (int i = 0; i < N; ++i) to.words[i] = __shfl_xor_sync(0xffffffffu, from.words[i], mask);
  return to.whole;
}
"""


@dataclass(frozen=True)
class Sharing:
    """How threads share the slices: all that the text of the kernels depends on.

    Attributes
    ----------
    lanes : int
        Threads per slice in a block, a power of two.
    slices : int
        Slices per block.
    vector : int
        Elements that lie side by side in memory and are moved at once.
    pieces : int
        Such vectors that a thread holds at a time.
    across : bool
        Neighbouring threads have neighbouring slices, not neighbouring elements of one.
    held : bool
        The whole slice is held.
    split : bool
        Several blocks share a slice.
    length : int
        Elements of a slice if they are few; 0: told at launch.
    core, batch : int
        Dims of a slice and of the batch, after those that lie together were merged.
    steps : tuple of int
        For each array, inputs first: its step along the slice if that is 0 or 1, -1: told at
        launch.
    wide : bool
        Offsets do not fit in 32 bits.
    """

    lanes: int
    slices: int
    vector: int = 1
    pieces: int = 1
    across: bool = False
    held: bool = False
    split: bool = False
    length: int = 0
    core: int = 1
    batch: int = 1
    steps: tuple[int, ...] = ()
    wide: bool = False

    @property
    def threads(self) -> int:
        """Threads per block."""
        return self.lanes * self.slices

    @property
    def elements(self) -> int:
        """Elements that a thread holds at a time."""
        return self.vector * self.pieces


@dataclass(frozen=True)
class SliceKernels:
    """The text of the kernels for a graph.

    Attributes
    ----------
    source : str
        CUDA C++.
    names : tuple of str
        The kernels, in the order of their launches: one, or one per level with `Sharing.split`.
    state_bytes : int
        Memory for the states of one slice and block, for all levels.
    """

    source: str
    names: tuple[str, ...]
    state_bytes: int


def why_not(graph: SliceGraph) -> str | None:
    """Why there are no such kernels for `graph`, or None."""
    for by in (None, *(by for by, _ in graph.accumulations())):
        for part in (graph,) if by is None else (by.chunk, by.combine):
            for n in part.nodes if part is not None else ():
                if n.aval.dtype not in TYPES:
                    return f"no kernels for {n.aval.dtype}"
                row = OPS.get(n.op)
                if row is not None and row.kind is Kind.ELEMENTWISE and not row.c:
                    return f"{n.op} has no C++"
    return None


def slice_kernels(graph: SliceGraph, sharing: Sharing) -> SliceKernels:
    """The kernels that run `graph` on slices that are shared so."""
    return _Writer(graph, sharing).kernels()


def state_size(by: Accumulator) -> int:
    """Bytes of an accumulator's numbers as C++ lays them out."""
    offset = widest = 1 if by.identity is None else 0
    for d in by.dtypes:
        size = np.dtype(d).itemsize
        offset = -(-offset // size) * size + size
        widest = max(widest, size)
    return -(-offset // widest) * widest


_INTEGER = {"abs": "({0} < 0 ? -{0} : {0})", "floor": "{0}", "ceil": "{0}"}
_T = re.compile(r"\bT\b")


def statement(node: Node, name: str, args: Sequence[str], operand_dtype: str) -> str:
    """``const T name = ...;`` for an elementwise op."""
    ctype = TYPES[node.aval.dtype]
    if node.op == "cast":
        return f"const {ctype} {name} = ({ctype})({args[0]});"
    form = OPS[node.op].c
    if np.dtype(operand_dtype).kind in "biu":
        form = _INTEGER.get(node.op, form)
    text = _T.sub(ctype, form.format(*args))
    if operand_dtype in ("float32", "float16"):  # C's name of the function: no doubt which one
        text = FUNCTIONS.sub(r"\1f(", text)
    return f"const {ctype} {name} = {text};"


def written_number(value: Any, dtype: str) -> str:
    """A number of a dtype."""
    kind = np.dtype(dtype).kind
    if kind in "iu":
        suffix = "ull" if kind == "u" else "ll"
        if int(value) == np.iinfo("int64").min:
            return "(-9223372036854775807ll - 1)"
        return f"({TYPES[dtype]})({int(value)}{suffix})"
    if dtype == "float16":
        return f"float16({literal(float(value), 'float32')})"
    return literal(value if kind == "b" else float(value), dtype)


class _Writer:
    """Writes the kernels of one graph."""

    def __init__(self, graph: SliceGraph, sharing: Sharing) -> None:
        self.graph, self.s = graph, sharing
        self.level = graph.levels()
        self.accumulators = list(graph.accumulations().items())
        self.top = max(self.level, default=0)
        self.index = "long long" if sharing.wide else "int"
        self._named: set[int] = set()
        self._named_by_level = self._plan_numbers()

    # --- the whole ----------------------------------------------------------------------------

    def kernels(self) -> SliceKernels:
        preamble = [_PREAMBLE, f"typedef {self.index} I;"]
        if self.s.lanes > 1 or self.s.split:
            preamble.append(_ACROSS_LANES)
        for k, ((by, _), _) in enumerate(self.accumulators):
            preamble += self._state(k, by)
        if not self.s.split:
            names = ["xpapply_slices"]
            bodies = [self._one_kernel(names[0])]
        else:
            names = [f"xpapply_level{p}" for p in range(1, self.top + 1)]
            bodies = [self._level_kernel(name, p) for p, name in enumerate(names, 1)]
            names.append("xpapply_last")
            bodies.append(self._last_kernel(names[-1]))
        size = sum(-(-state_size(by) // 16) * 16 for (by, _), _ in self.accumulators)
        return SliceKernels("\n".join([*preamble, *bodies]), tuple(names), size)

    def _state(self, k: int, by: Accumulator) -> list[str]:
        """The struct of an accumulator, its identity and how two are combined."""
        fields = [f"{TYPES[d]} f{i};" for i, d in enumerate(by.dtypes)]
        optional = by.identity is None
        if optional:  # there may be no numbers yet
            fields.insert(0, "bool has;")
        identity = by.identity if by.identity is not None else (0,) * len(by.dtypes)
        names: dict[int, str] = {}
        half = len(by.combine.inputs) // 2
        for at, i in enumerate(by.combine.inputs):
            names[i] = f"{'ab'[at // half]}.f{at % half}"
        lines: list[str] = []
        _numbers(by.combine, names, "n", lines.append)
        return [
            f"struct State{k} {{ {' '.join(fields)} }};",
            f"XP_DEVICE State{k} xp_nothing{k}() {{",
            f"  State{k} s;",
            *(["  s.has = false;"] if optional else []),
            *(
                f"  s.f{i} = {written_number(v, d)};"
                for i, (v, d) in enumerate(zip(identity, by.dtypes, strict=True))
            ),
            "  return s;",
            "}",
            f"XP_DEVICE State{k} xp_combine{k}(const State{k} a, const State{k} b) {{",
            *(["  if (!a.has) return b;", "  if (!b.has) return a;"] if optional else []),
            *("  " + line for line in lines),
            f"  State{k} s;",
            *(["  s.has = true;"] if optional else []),
            *(f"  s.f{i} = {names[o]};" for i, o in enumerate(by.combine.outs)),
            "  return s;",
            "}",
        ]

    def _parameters(self, split: bool) -> str:
        g, s = self.graph, self.s
        found = []
        for k, i in enumerate(g.inputs):
            ctype = TYPES[g.nodes[i].aval.dtype]
            found.append(f"const {ctype}* const p{k}" if g.is_vector(i) else f"const {ctype} p{k}")
        found += [f"{TYPES[g.nodes[o].aval.dtype]}* const q{k}" for k, o in enumerate(g.outs)]
        found += ["const long long n_slices_", "const long long n_"]
        found += [f"const long long c{d}" for d in range(s.core)]
        found += [f"const long long b{d}" for d in range(s.batch)]
        for a in self._arrays():
            found += [f"const long long {a}_c{d}" for d in range(s.core)]
            found += [f"const long long {a}_b{d}" for d in range(s.batch)]
        if split:
            found += ["char* const scratch", "const long long per_block", "const int n_blocks"]
        return ", ".join(found)

    def _arrays(self) -> list[str]:
        """The arrays with strides: inputs that are vectors, then outs."""
        g = self.graph
        ins = [f"p{k}" for k, i in enumerate(g.inputs) if g.is_vector(i)]
        return [*ins, *(f"q{k}" for k in range(len(g.outs)))]

    def _one_kernel(self, name: str) -> str:
        body = [*self._where("blockIdx.x"), "const I from = 0, until = n;"]
        if self.s.held:
            body += self._load("from", guarded=self._guarded())
        for p in range(1, self.top + 1):
            body += self._pass(p)
            body += self._merged_over_lanes(p)
            body += self._numbers_of(p)
        body += self._results("lane == 0 && live")
        return self._kernel(name, body, split=False)

    def _level_kernel(self, name: str, p: int) -> str:
        body = [*self._where("blockIdx.x"), *self._range()]
        for earlier in range(1, p):
            body += self._from_memory(earlier)
            body += self._numbers_of(earlier)
        body += self._pass(p)
        body += self._merged_over_lanes(p)
        body += ["if (lane == 0 && live) {"]
        for k in self._at(p):
            body.append(f"  *({self._stored(k, 'blockIdx.y')}) = s{k};")
        return self._kernel(name, [*body, "}"], split=True)

    def _last_kernel(self, name: str) -> str:
        body = [*self._where("blockIdx.x"), *self._range()]
        for p in range(1, self.top + 1):
            body += self._from_memory(p)
            body += self._numbers_of(p)
        body += self._results("lane == 0 && live && blockIdx.y == 0")
        return self._kernel(name, body, split=True)

    def _kernel(self, name: str, body: Iterable[str], split: bool) -> str:
        s = self.s
        bounds = f"__launch_bounds__({s.threads})"
        shared = ""
        if s.threads > 32 and s.lanes > 1 and (s.across or s.lanes > 32):
            largest = max((state_size(by) for (by, _), _ in self.accumulators), default=0)
            count = s.threads if s.across else s.threads // 32
            if largest:
                shared = f"  __shared__ alignas(16) char xp_shared[{max(16, largest) * count}];\n"
        text = "\n".join("  " + line for line in body)
        parameters = self._parameters(split)
        return f'extern "C" __global__ void {bounds} {name}({parameters}) {{\n{shared}{text}\n}}'

    # --- where things are ---------------------------------------------------------------------

    def _where(self, tile: str) -> list[str]:
        """Which slice this thread works on, and where that starts in every array."""
        s = self.s
        n = str(s.length) if s.length else "(I)n_"
        of_thread = (
            ["const int lane = 0;", "const I local = threadIdx.x;"]
            if s.lanes == 1
            else [
                f"const int lane = threadIdx.x {'/' if s.across else '%'} {s.slices if s.across else s.lanes};",
                f"const I local = threadIdx.x {'%' if s.across else '/'} {s.slices if s.across else s.lanes};",
            ]
        )
        lines = [
            f"const I n = {n}, n_slices = (I)n_slices_;",
            *of_thread,
            f"I row = (I){tile} * {s.slices} + local;",
            "const bool live = row < n_slices;",
            "if (!live) row = n_slices - 1;",
            *(f"I {a}_at = 0;" for a in self._arrays()),
        ]
        if s.batch:
            lines += ["{", "  I rest = row;"]
            for d in range(s.batch - 1, -1, -1):
                if d:
                    lines += [f"  const I i{d} = rest % (I)b{d};", f"  rest /= (I)b{d};"]
                else:
                    lines.append("  const I i0 = rest;")
                lines += [f"  {a}_at += i{d} * (I){a}_b{d};" for a in self._arrays()]
            lines.append("}")
        return lines + self._numbers_of(0)

    def _range(self) -> list[str]:
        return [
            "const I from = (I)blockIdx.y * (I)per_block;",
            "const I until = from + (I)per_block < n ? from + (I)per_block : n;",
        ]

    def _guarded(self) -> bool:
        """Whether a held slice may be shorter than what threads hold."""
        s = self.s
        return s.length != s.lanes * s.elements

    def _element(self, base: str, piece: str) -> str:
        """The first element of a vector: all lanes have theirs side by side."""
        s = self.s
        lane = "" if s.lanes == 1 else " + lane" if s.vector == 1 else f" + lane * {s.vector}"
        return f"{base} + {piece} * {s.lanes * s.vector}{lane}"

    def _offset(self, array: str, j: str) -> str:
        """Where element j of the slice lies, counted from the start of the slice."""
        s = self.s
        if s.core > 1:
            return f"xp_{array}"
        step = s.steps[self._arrays().index(array)] if s.core else 0
        return {0: "0", 1: j}.get(step, f"({j}) * (I){array}_c0")

    def _offsets(self, arrays: Iterable[str], j: str) -> list[str]:
        """Statements that find the offsets of element j in slices of several dims."""
        s = self.s
        if s.core < 2:
            return []
        arrays = list(arrays)
        lines = [*(f"I xp_{a} = 0;" for a in arrays), "{", f"  I rest = {j};"]
        for d in range(s.core - 1, -1, -1):
            last = d == 0
            lines.append(f"  const I i{d} = {'rest' if last else f'rest % (I)c{d}'};")
            if not last:
                lines.append(f"  rest /= (I)c{d};")
            lines += [f"  xp_{a} += i{d} * (I){a}_c{d};" for a in arrays]
        return [*lines, "}"]

    # --- loading ------------------------------------------------------------------------------

    def _used(self) -> list[int]:
        """The inputs that are vectors, by number."""
        g = self.graph
        return [k for k, i in enumerate(g.inputs) if g.is_vector(i)]

    def _load(self, base: str, guarded: bool) -> list[str]:
        """A thread's piece of every input into registers: ``x<k>[e]``, from element `base`."""
        s, g = self.s, self.graph
        lines = []
        for k in self._used():
            lines.append(f"{TYPES[g.nodes[g.inputs[k]].aval.dtype]} x{k}[{s.elements}];")
        lines += ["XP_UNROLL", f"for (int u = 0; u < {s.pieces}; ++u) {{"]
        lines.append(f"  const I j = {self._element(base, 'u')};")
        lines += ["  " + line for line in self._load_vector(guarded)]
        return [*lines, "}"]

    def _load_vector(self, guarded: bool) -> list[str]:
        s, g = self.s, self.graph
        one = []
        for k in self._used():
            ctype = TYPES[g.nodes[g.inputs[k]].aval.dtype]
            step = s.steps[self._arrays().index(f"p{k}")] if s.core == 1 else -1
            if s.vector > 1 and step == 1:
                one += [
                    f"const Pack<{ctype}, {s.vector}> w{k} = "
                    f"*reinterpret_cast<const Pack<{ctype}, {s.vector}>*>(p{k} + p{k}_at + j);",
                    "XP_UNROLL",
                    f"for (int v = 0; v < {s.vector}; ++v) x{k}[u * {s.vector} + v] = w{k}.a[v];",
                ]
        each = []
        arrays = [f"p{k}" for k in self._used()]
        singles = [
            k
            for k in self._used()
            if s.vector == 1 or s.core != 1 or s.steps[self._arrays().index(f"p{k}")] != 1
        ]
        each = self._singly(singles, arrays)
        if not guarded:
            return [*one, *each]
        if s.vector == 1:
            return [f"if (j < {self._limit()}) {{", *("  " + x for x in each), "}"]
        tail = self._singly(self._used(), arrays, guarded=True)
        return [
            f"if (j + {s.vector} <= {self._limit()}) {{",
            *("  " + x for x in (*one, *each)),
            "} else {",
            *("  " + x for x in tail),
            "}",
        ]

    def _limit(self) -> str:
        return "until"

    def _singly(self, inputs: Sequence[int], arrays: list[str], guarded: bool = False) -> list[str]:
        s = self.s
        if not inputs:
            return []
        guard = f"if (j + v < {self._limit()}) " if guarded else ""
        return [
            "XP_UNROLL",
            f"for (int v = 0; v < {s.vector}; ++v) {guard}{{",
            "  const I jv = j + v;",
            *("  " + line for line in self._offsets(arrays, "jv")),
            *(
                f"  x{k}[u * {s.vector} + v] = p{k}[p{k}_at + {self._offset(f'p{k}', 'jv')}];"
                for k in inputs
            ),
            "}",
        ]

    # --- one pass -----------------------------------------------------------------------------

    def _at(self, p: int) -> list[int]:
        """The accumulators of a level, by number."""
        return [k for k, (_, nodes) in enumerate(self.accumulators) if self.level[nodes[0]] == p]

    def _pass(self, p: int) -> list[str]:
        """``s<k>``: this thread's state of every accumulator of level p."""
        ks = self._at(p)
        declared = [f"State{k} s{k} = xp_nothing{k}();" for k in ks]
        s = self.s
        if s.held:
            return [*declared, *self._piece(ks, self._guarded(), whole=self._by_primitives())]
        step = s.lanes * s.elements
        full = self._load("base", guarded=False) + self._piece(ks, False, whole=False)
        tail = self._load("base", guarded=True) + self._piece(ks, True, whole=False)
        return [
            *declared,
            "{",
            "  I base = from;",
            f"  for (; base + {step} <= until; base += {step}) {{",
            *("    " + line for line in full),
            "  }",
            "  if (base < until) {",
            *("    " + line for line in tail),
            "  }",
            "}",
        ]

    def _by_primitives(self) -> bool:
        """Whether lanes share each sum and maximum at once: cheaper than combining states."""
        return self.s.held and not self.s.across and self.s.lanes <= 32

    def _piece(self, ks: Sequence[int], guarded: bool, whole: bool) -> list[str]:
        """Add a thread's piece, in registers, to its states."""
        lines: list[str] = ["{"]
        emit = lines.append
        s = self.s
        if guarded and not whole:
            emit("int have = 0;")
            self._loop(emit, ["++have;"], guarded)
        numbers: dict[int, dict[int, str]] = {k: {} for k in ks}
        depth = {}
        for k in ks:
            by = self.accumulators[k][0][0]
            depth[k] = _inner_levels(by.chunk) if by.chunk is not None else []
        most = max((max(d, default=0) for d in depth.values()), default=0)
        for q in range(1, most + 1):
            inside: list[str] = []
            known: dict[Any, str] = {}
            after: list[Callable[[], None]] = []
            for k in ks:
                by, args = self.accumulators[k][0]
                if by.chunk is None:
                    continue
                if q == 1:
                    self._leaves(by.chunk, numbers[k], guarded, whole)
                for r, n in enumerate(by.chunk.nodes):
                    if OPS[n.op].kind is not Kind.REDUCTION or depth[k][r] != q:
                        continue
                    name = f"r{k}_{r}"
                    dtype = by.chunk.nodes[n.args[0]].aval.dtype
                    value = self._vector(by.chunk, n.args[0], k, args, numbers[k], known, inside)
                    self._reduce(emit, inside, n, name, dtype, value)
                    numbers[k][r] = name if n.op not in ("argmax", "argmin") else f"{name}_at"
                    if whole:
                        after.append(
                            lambda n=n, name=name, dtype=dtype: self._share(emit, n, name, dtype)
                        )
            self._loop(emit, inside, guarded)
            for share in after:
                share()
            for k in ks:
                by, _ = self.accumulators[k][0]
                if by.chunk is not None:
                    self._chunk_numbers(by.chunk, depth[k], q, k, numbers[k], emit)
        for k in ks:
            by, args = self.accumulators[k][0]
            if by.chunk is None:
                inside = []
                known = {}
                emit(f"State{k} piece{k} = xp_nothing{k}();")
                inside.append(f"State{k} one{k};")
                if by.identity is None:
                    inside.append(f"one{k}.has = true;")
                for field, a in enumerate(args):
                    value = self._outer(a, known, inside)
                    inside.append(f"one{k}.f{field} = {value};")
                inside.append(f"piece{k} = xp_combine{k}(piece{k}, one{k});")
                self._loop(emit, inside, guarded)
            else:
                emit(f"State{k} piece{k};")
                for field, o in enumerate(by.chunk.outs):
                    emit(f"piece{k}.f{field} = {numbers[k][o]};")
            held = s.held
            emit(f"s{k} = piece{k};" if held else f"s{k} = xp_combine{k}(s{k}, piece{k});")
        return [*lines, "}"]

    def _leaves(self, chunk: SliceGraph, names: dict[int, str], guarded: bool, whole: bool) -> None:
        s = self.s
        for i, n in enumerate(chunk.nodes):
            if n.op == "scalar":
                names[i] = written_number(number(n), n.aval.dtype)
            elif n.op == "length":
                count = "n" if whole else "have" if guarded else str(s.elements)
                names[i] = f"({TYPES[n.aval.dtype]}){count}"

    def _reduce(
        self, emit: Any, inside: list[str], n: Node, name: str, dtype: str, value: str
    ) -> None:
        """Declare a reduction of the table and write how an element joins it."""
        ctype = TYPES[dtype]
        if n.op in ("argmax", "argmin"):
            start = _smallest(dtype) if n.op == "argmax" else _largest(dtype)
            emit(f"{ctype} {name} = {start};")
            emit(f"long long {name}_at = 9223372036854775807ll;")
            takes = OPS[n.op].c.format(name, value)
            first = f"{name}_at == 9223372036854775807ll"
            inside.append(
                f"if ({first} || ({takes})) {{ {name} = {value}; {name}_at = (long long)jv; }}"
            )
            return
        start = {
            "sum": "0",
            "prod": "1",
            "max": _smallest(dtype),
            "min": _largest(dtype),
        }[n.op]
        emit(f"{ctype} {name} = ({ctype})({start});")
        inside.append(f"{name} = {OPS[n.op].c.format(name, value)};")

    def _share(self, emit: Any, n: Node, name: str, dtype: str) -> None:
        """A reduction of the table over all lanes of a slice."""
        offset = self.s.lanes // 2
        ctype = TYPES[dtype]
        while offset:
            emit("{")
            emit(f"  const {ctype} other = xp_shuffle({name}, {offset});")
            if n.op in ("argmax", "argmin"):
                emit(f"  const long long other_at = xp_shuffle({name}_at, {offset});")
                takes = OPS[n.op].c.format(name, "other")
                same = f"(other == {name} || (other != other && {name} != {name}))"
                none = "9223372036854775807ll"
                emit(
                    f"  if (other_at != {none} && ({name}_at == {none} || ({takes}) || "
                    f"({same} && other_at < {name}_at)))"
                    f" {{ {name} = other; {name}_at = other_at; }}"
                )
            else:
                emit(f"  {name} = {OPS[n.op].c.format(name, 'other')};")
            emit("}")
            offset //= 2

    def _loop(self, emit: Any, inside: Sequence[str], guarded: bool) -> None:
        """A loop over the elements ``e`` of a thread's piece; ``jv`` is their place in the slice."""
        if not inside:
            return
        s = self.s
        base = "from" if s.held else "base"
        emit("XP_UNROLL")
        emit(f"for (int e = 0; e < {s.elements}; ++e) {{")
        if guarded or any("jv" in line for line in inside):
            piece = f"e / {s.vector}" if s.vector > 1 else "e"
            within = f" + e % {s.vector}" if s.vector > 1 else ""
            emit(f"  const I jv = {self._element(base, piece)}{within};")
        if guarded:
            emit(f"  if (jv < {self._limit()}) {{")
        for line in inside:
            emit("    " + line)
        emit("  }" + ("}" if guarded else ""))

    def _chunk_numbers(
        self,
        chunk: SliceGraph,
        depth: Sequence[int],
        q: int,
        k: int,
        names: dict[int, str],
        emit: Any,
    ) -> None:
        """The numbers of a piece that are known after its reductions of depth q."""
        for i, n in enumerate(chunk.nodes):
            if i in names or chunk.is_vector(i) or depth[i] > q or n.op == "input":
                continue
            if all(a in names for a in n.args):
                name = f"m{k}_{i}"
                dtype = chunk.nodes[n.args[-1]].aval.dtype
                emit(statement(n, name, [names[a] for a in n.args], dtype))
                names[i] = name

    def _vector(
        self,
        chunk: SliceGraph,
        i: int,
        k: int,
        args: Sequence[int],
        numbers: dict[int, str],
        known: dict[Any, str],
        lines: list[str],
    ) -> str:
        """The element of a vector inside an accumulator; statements for it go to `lines`."""
        n = chunk.nodes[i]
        if n.op == "input":
            return self._outer(args[n.attr("k")], known, lines)
        if i in numbers:
            return numbers[i]
        if (k, i) not in known:
            given = [self._vector(chunk, a, k, args, numbers, known, lines) for a in n.args]
            name = f"c{k}_{i}"
            lines.append(statement(n, name, given, chunk.nodes[n.args[-1]].aval.dtype))
            known[k, i] = name
        return known[k, i]

    def _outer(self, i: int, known: dict[Any, str], lines: list[str]) -> str:
        """An element of a vector (or a number) of the graph itself."""
        g = self.graph
        n = g.nodes[i]
        if n.op == "input":
            return f"x{n.attr('k')}[e]" if g.is_vector(i) else f"p{n.attr('k')}"
        if n.op == "scalar":
            return written_number(number(n), n.aval.dtype)
        if n.op == "length":
            return f"({TYPES[n.aval.dtype]})n"
        if n.op == "accumulate":
            k = next(k for k, (_, nodes) in enumerate(self.accumulators) if i in nodes)
            return f"s{k}.f{n.attr('field')}"
        if not g.is_vector(i) and i in self._named:
            return f"t{i}"
        if i not in known:
            given = [self._outer(a, known, lines) for a in n.args]
            lines.append(statement(n, f"t{i}", given, g.nodes[n.args[-1]].aval.dtype))
            known[i] = f"t{i}"
        return known[i]

    # --- combining ----------------------------------------------------------------------------

    def _merged_over_lanes(self, p: int) -> list[str]:
        """Combine states over the lanes of a slice: afterwards all of them have the result."""
        s = self.s
        if (
            s.lanes == 1
            or (self._by_primitives()
            and all(self.accumulators[k][0][0].chunk is not None for k in self._at(p)))
        ):
            return []
        lines = []
        for k in self._at(p):
            if self._by_primitives() and self.accumulators[k][0][0].chunk is not None:
                continue
            lines += self._merge(k)
        return lines

    def _merge(self, k: int) -> list[str]:
        s = self.s
        lines: list[str] = []
        if s.across:
            return [
                "{",
                f"  State{k}* const all = reinterpret_cast<State{k}*>(xp_shared);",
                "  __syncthreads();",
                f"  all[lane * {s.slices} + (int)local] = s{k};",
                "  __syncthreads();",
                f"  for (int half = {s.lanes // 2}; half; half /= 2) {{",
                "    if (lane < half) {",
                f"      s{k} = xp_combine{k}(s{k}, all[(lane + half) * {s.slices} + (int)local]);",
                f"      all[lane * {s.slices} + (int)local] = s{k};",
                "    }",
                "    __syncthreads();",
                "  }",
                f"  s{k} = all[(int)local];",
                "}",
            ]
        for offset in _halves(min(s.lanes, 32)):
            lines += [
                "{",
                f"  const State{k} other = xp_shuffle(s{k}, {offset});",
                f"  s{k} = lane & {offset} ? xp_combine{k}(other, s{k}) : xp_combine{k}(s{k}, other);",
                "}",
            ]
        if s.lanes > 32:
            warps = s.lanes // 32
            lines += [
                "{",
                f"  State{k}* const all = reinterpret_cast<State{k}*>(xp_shared);",
                "  __syncthreads();",
                f"  if (lane % 32 == 0) all[(int)local * {warps} + lane / 32] = s{k};",
                "  __syncthreads();",
                f"  s{k} = all[(int)local * {warps} + lane % {warps}];",
            ]
            for offset in _halves(warps):
                lines += [
                    "  {",
                    f"    const State{k} other = xp_shuffle(s{k}, {offset});",
                    f"    s{k} = lane & {offset} ? xp_combine{k}(other, s{k})"
                    f" : xp_combine{k}(s{k}, other);",
                    "  }",
                ]
            lines.append("}")
        return lines

    def _stored(self, k: int, block: str) -> str:
        """The address of the state of a slice and block."""
        sizes = [-(-state_size(by) // 16) * 16 for (by, _), _ in self.accumulators]
        before = sum(sizes[:k])
        return (
            f"reinterpret_cast<State{k}*>(scratch + ({before}ll * n_slices_ * n_blocks) + "
            f"((long long)row * n_blocks + {block}) * {sizes[k]})"
        )

    def _from_memory(self, p: int) -> list[str]:
        """Combine the states that the blocks of a slice have written."""
        lines = []
        s = self.s
        for k in self._at(p):
            lines += [
                f"State{k} s{k} = xp_nothing{k}();",
                f"for (int block = lane; block < n_blocks; block += {s.lanes}) "
                f"s{k} = xp_combine{k}(s{k}, *({self._stored(k, 'block')}));",
            ]
            if s.lanes > 1:
                lines += self._merge(k)
        return lines

    # --- results ------------------------------------------------------------------------------

    def _numbers_of(self, p: int) -> list[str]:
        """Numbers that are known after level p and that later vectors read."""
        g = self.graph
        lines: list[str] = []
        for i in self._named_by_level.get(p, ()):
            n = g.nodes[i]
            given = [self._outer(a, {}, lines) for a in n.args]
            lines.append(statement(n, f"t{i}", given, g.nodes[n.args[-1]].aval.dtype))
            self._named.add(i)
        return lines

    def _results(self, one: str) -> list[str]:
        """Write numbers where `one` is true, and vectors element by element."""
        g, s = self.graph, self.s
        lines: list[str] = []
        numbers = [(k, o) for k, o in enumerate(g.outs) if not g.is_vector(o)]
        vectors = [(k, o) for k, o in enumerate(g.outs) if g.is_vector(o)]
        if numbers:
            lines.append(f"if ({one}) {{")
            known: dict[Any, str] = {}
            for k, o in numbers:
                inside: list[str] = []
                value = self._outer(o, known, inside)
                lines += ["  " + x for x in (*inside, f"q{k}[q{k}_at] = {value};")]
            lines.append("}")
        if not vectors:
            return lines
        if s.held:
            return [*lines, *self._mapped(vectors, self._guarded())]
        step = s.lanes * s.elements
        full = [*self._load("base", False), *self._mapped(vectors, False)]
        tail = [*self._load("base", True), *self._mapped(vectors, True)]
        return [
            *lines,
            "{",
            "  I base = from;",
            f"  for (; base + {step} <= until; base += {step}) {{",
            *("    " + x for x in full),
            "  }",
            "  if (base < until) {",
            *("    " + x for x in tail),
            "  }",
            "}",
        ]

    def _mapped(self, vectors: Sequence[tuple[int, int]], guarded: bool) -> list[str]:
        """Compute and store a thread's piece of the results."""
        g, s = self.graph, self.s
        lines = []
        for k, o in vectors:
            lines.append(f"{TYPES[g.nodes[o].aval.dtype]} y{k}[{s.elements}];")
        inside: list[str] = []
        known: dict[Any, str] = {}
        for k, o in vectors:
            value = self._outer(o, known, inside)
            inside.append(f"y{k}[e] = {value};")
        self._loop(lines.append, inside, guarded)
        base = "from" if s.held else "base"
        lines += ["XP_UNROLL", f"for (int u = 0; u < {s.pieces}; ++u) {{"]
        lines.append(f"  const I j = {self._element(base, 'u')};")
        one: list[str] = []
        singles: list[int] = []
        for k, o in vectors:
            ctype = TYPES[g.nodes[o].aval.dtype]
            step = s.steps[self._arrays().index(f"q{k}")] if s.core == 1 else -1
            if s.vector > 1 and step == 1:
                one += [
                    f"Pack<{ctype}, {s.vector}> w{k};",
                    "XP_UNROLL",
                    f"for (int v = 0; v < {s.vector}; ++v) w{k}.a[v] = y{k}[u * {s.vector} + v];",
                    f"*reinterpret_cast<Pack<{ctype}, {s.vector}>*>(q{k} + q{k}_at + j) = w{k};",
                ]
            else:
                singles.append(k)
        every = [k for k, _ in vectors]
        whole = [*one, *self._store_singly(singles, False)]
        if not guarded:
            stored = ["if (live) {", *("  " + x for x in whole), "}"]
        elif s.vector == 1:
            stored = [f"if (live && j < {self._limit()}) {{", *("  " + x for x in whole), "}"]
        else:
            stored = [
                f"if (live && j + {s.vector} <= {self._limit()}) {{",
                *("  " + x for x in whole),
                "} else if (live) {",
                *("  " + x for x in self._store_singly(every, True)),
                "}",
            ]
        return [*lines, *("  " + x for x in stored), "}"]

    def _store_singly(self, outs: Sequence[int], guarded: bool) -> list[str]:
        s = self.s
        if not outs:
            return []
        guard = f"if (j + v < {self._limit()}) " if guarded else ""
        arrays = [f"q{k}" for k in outs]
        return [
            "XP_UNROLL",
            f"for (int v = 0; v < {s.vector}; ++v) {guard}{{",
            "  const I jv = j + v;",
            *("  " + line for line in self._offsets(arrays, "jv")),
            *(
                f"  q{k}[q{k}_at + {self._offset(f'q{k}', 'jv')}] = y{k}[u * {s.vector} + v];"
                for k in outs
            ),
            "}",
        ]

    def _plan_numbers(self) -> dict[int, list[int]]:
        """Which numbers get a name at which level: those that some vector reads."""
        g = self.graph
        found: dict[int, list[int]] = {}
        wanted: set[int] = set()
        for i in range(len(g.nodes) - 1, -1, -1):
            n = g.nodes[i]
            if g.is_vector(i) or i in wanted:
                wanted.update(a for a in n.args if not g.is_vector(a))
        for i in sorted(wanted):
            if g.nodes[i].op not in ("input", "scalar", "length", "accumulate"):
                found.setdefault(self.level[i], []).append(i)
        return found


def _halves(n: int) -> Iterable[int]:
    while n > 1:
        n //= 2
        yield n


def _inner_levels(chunk: SliceGraph) -> list[int]:
    """For every node of a chunk how many reductions lie on the longest way to it."""
    found: list[int] = []
    for n in chunk.nodes:
        is_reduction = OPS[n.op].kind is Kind.REDUCTION
        found.append(max((found[a] for a in n.args), default=0) + is_reduction)
    return found


def _numbers(
    graph: SliceGraph, names: dict[int, str], prefix: str, emit: Callable[[str], Any]
) -> None:
    """Statements for all nodes of a graph of numbers."""
    for i, n in enumerate(graph.nodes):
        if i in names:
            continue
        if n.op == "scalar":
            names[i] = written_number(number(n), n.aval.dtype)
            continue
        dtype = graph.nodes[n.args[-1]].aval.dtype
        emit(statement(n, f"{prefix}{i}", [names[a] for a in n.args], dtype))
        names[i] = f"{prefix}{i}"


def _smallest(dtype: str) -> str:
    kind = np.dtype(dtype).kind
    if kind == "f":
        return written_number(-np.inf, dtype)
    return written_number(False if kind == "b" else np.iinfo(dtype).min, dtype)


def _largest(dtype: str) -> str:
    kind = np.dtype(dtype).kind
    if kind == "f":
        return written_number(np.inf, dtype)
    return written_number(True if kind == "b" else np.iinfo(dtype).max, dtype)
