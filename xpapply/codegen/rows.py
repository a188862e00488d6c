"""A whole graph as one C++ function of R slices, activations in registers.

The function reads R slices in place, keeps every intermediate value in
registers and returns the results, so that a kernel reads the input once and
writes the output once. Register arrays need compile-time indices, that is
unrolled loops; a network unrolled in full overflows the instruction cache. So
products come in three forms:

lead
    ``y += W[:, k] * x[k]`` with a loop over k that is *not* unrolled: for the
    first layer, whose x[k] are read from memory one by one.
pair
    two layers at once, with a loop over the hidden features j that is not
    unrolled: ``s = act(W[j] @ x + b[j]); y += V[:, j] * s``. The hidden
    values are never stored.
stream
    the last layer, if no pair takes it: results are stored as they come.
dense
    everything unrolled: for what is left.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from ..ir.graph import Graph, indexed_shape
from ..ir.ops import OPS, Kind
from ..ir.rewrite import Region, expand
from .cxx import TYPES, statements
from .layers import Layers

UNROLL = "#pragma unroll"


@dataclass
class Weights:
    """The constants of a kernel, packed in the order in which it reads them."""

    lanes: int
    size: int = 0
    pieces: list[tuple[int, tuple[tuple[int, ...], str]]] = field(default_factory=list)

    def add(self, size: int, nodes: tuple[int, ...], how: str) -> int:
        """Reserve `size` values, aligned to a vector; `how` names the packing."""
        offset = self.size
        self.pieces.append((offset, (nodes, how)))
        self.size += -(-size // self.lanes) * self.lanes
        return offset


@dataclass(frozen=True)
class RowFunction:
    """The text of the function, and how to pack its weights.

    `numbers` is the size of the largest value of one slice that it keeps in registers.
    """

    text: str
    graph: Graph
    name: str
    rows: int
    weights: Weights
    dtype: str
    numbers: int

    def pack(self, consts: Sequence[np.ndarray]) -> np.ndarray:
        """The weights in the order in which the function reads them."""
        packed = np.zeros(max(self.weights.size, self.weights.lanes), self.dtype)
        lanes = self.weights.lanes
        value = {i: consts[n.attr("k")] for i, n in enumerate(self.graph.nodes) if n.op == "const"}
        for i, n in enumerate(self.graph.nodes):
            if n.op == "reshape" and n.args[0] in value:
                value[i] = value[n.args[0]]
        for offset, (nodes, how) in self.weights.pieces:
            if how == "flat":
                flat = value[nodes[0]].reshape(-1)
            elif how == "columns":  # W by columns, each padded
                w = value[nodes[0]]
                flat = _padded(w.T, lanes).reshape(-1)
            else:  # one record per hidden feature: row of W, its constants, column of V
                w, count = value[nodes[0]], int(how.split()[1])
                own = [value[c].reshape(-1) for c in nodes[1 : 1 + count]]
                tail = [np.broadcast_to(c, (len(w),)) for c in own]
                tail += [v for c in nodes[1 + count :] for v in value[c]]
                parts = [w, np.column_stack(tail)] if tail else [w]
                flat = np.hstack([_padded(part, lanes) for part in parts]).reshape(-1)
            packed[offset : offset + flat.size] = flat
        return packed


def _padded(a: np.ndarray, lanes: int) -> np.ndarray:
    return np.pad(a, ((0, 0), (0, -a.shape[1] % lanes)))


_MOST_NUMBERS = 512
"""No value of more numbers is worth trying to keep in registers."""


def prepare(graph: Graph) -> Graph:
    """The graph as `row_function` takes it."""
    return expand(
        graph, {name for name, row in OPS.items() if row.kind is Kind.COMPOSITE and row.c}
    )


def why_not(graph: Graph) -> str | None:
    """Why there is no such function, or None."""
    graph = prepare(graph)
    dependent = graph.dependent()
    for i, n in enumerate(graph.nodes):
        kind = OPS[n.op].kind
        if n.aval.dtype not in TYPES:
            return f"dtype {n.aval.dtype} has no C++ type"
        if not dependent[i]:
            if kind is not Kind.LEAF and n.op != "reshape":
                return f"{n.op} of constants"
            continue
        if math.prod(n.aval.shape) > _MOST_NUMBERS and n.op != "input":
            return f"a value of {math.prod(n.aval.shape)} numbers does not fit in registers"
        if kind is Kind.ELEMENTWISE and not OPS[n.op].c:
            return f"{n.op} has no C++ expression"
    if not dependent[graph.out]:
        return "the result does not depend on the slice"
    compute = {n.aval.dtype for n in graph.nodes if n.op == "einsum"}
    if len(compute) > 1:
        return "products in several dtypes"
    return None


def compute_dtype(graph: Graph) -> str:
    """The dtype of the arithmetic: float32 or float64."""
    wide = any(n.aval.dtype == "float64" for n in graph.nodes if n.op not in ("input", "cast"))
    return "float64" if wide or graph.result.dtype == "float64" else "float32"


def row_function(graph: Graph, rows: int, *, name: str = "xpapply_rows") -> RowFunction:
    """Write the function of `rows` slices.

    ``void name(const IN* const (&x)[R], const I xs, const T* w, OUT* const (&y)[R], const I ys)``:
    ``x[r]`` points at a slice, whose elements are ``xs`` apart, ``y[r]`` at its
    result; ``XPAPPLY_VECTOR`` says that slices are contiguous and aligned to 16 bytes.
    """
    return _Writer(prepare(graph), rows, name).function()


class _Writer(Layers):
    def __init__(self, graph: Graph, rows: int, name: str) -> None:
        super().__init__(graph)
        self.rows, self.name = rows, name
        self.dtype = compute_dtype(graph)
        self.lanes = 16 // np.dtype(self.dtype).itemsize
        self.weights = Weights(self.lanes)
        self.lines: list[str] = []
        self.flat: dict[int, int] = {}  # where a constant lies in the weights
        self.numbers = 1

    # --- what runs how ----------------------------------------------------------------

    def _private(self, region: Region, value: int) -> bool:
        """Whether a region maps `value`, and nothing else that depends on the slice, one to one."""
        shape = self.graph.nodes[value].aval.shape
        for a in region.inputs:
            if a != value and self.dependent[a]:
                return False
            if not self.dependent[a] and self._size(a) not in (1, math.prod(shape)):
                return False
        return self.graph.nodes[region.out].aval.shape == shape

    def _follower(self, i: int) -> tuple[Region | None, int] | None:
        """The region behind product `i` and the product behind that, if nobody else looks on."""
        users = set(self.uses.get(i, []))
        region: Region | None = None
        out = i
        if users and all(u in self.region_of for u in users):
            found = {self.region_of[u].out for u in users}
            if len(found) != 1:
                return None
            region = self.regions[found.pop()]
            out = region.out
            if not self._private(region, i):
                return None
        behind = self.uses.get(out, [])
        if out == self.graph.out or len(behind) != 1 or not self._affine(behind[0]):
            return None
        return region, behind[0]

    def _streamed(
        self, products: list[int], taken: set[int], lead: int | None
    ) -> tuple[int, Region | None] | None:
        """The last product, if its results (and a region behind it) can be stored as they come."""
        if not products or products[-1] in taken or products[-1] == lead:
            return None
        i, out = products[-1], self.graph.out
        if i == out:
            return i, None
        region = self.region_of.get(out)
        if region is None or region.out != out or i not in region.inputs:
            return None
        only = all(self.region_of.get(u) is region for u in self.uses[i])
        return (i, region) if only and self._private(region, i) else None

    def _source(self, i: int) -> Region | bool | None:
        """For a product that may lead: the region between input and product (None: directly)."""
        x = self.graph.nodes[i].args[1]
        if self.graph.nodes[x].op == "input":
            return None
        region = self.regions.get(x)
        start = self.graph.entry
        if region is None or start not in region.inputs or not self._private(region, start):
            return False
        return region

    # --- text -------------------------------------------------------------------------

    def function(self) -> RowFunction:
        graph, R = self.graph, self.rows
        products = [i for i in range(len(graph.nodes)) if self._affine(i)]
        paired: dict[int, tuple[Region | None, int]] = {}  # first product -> (region, second)
        taken: set[int] = set()
        lead: int | None = None
        if products:
            chain, i = 1, products[0]
            while (behind := self._follower(i)) is not None:
                chain, i = chain + 1, behind[1]
            w = graph.nodes[graph.nodes[products[0]].args[0]].aval
            narrows = chain > 1 or w.shape[0] <= w.shape[1]
            if chain % 2 and narrows and self._source(products[0]) is not False:
                lead = products[0]
        for i in products:
            if i in taken or i == lead:
                continue
            behind = self._follower(i)
            if behind is not None and behind[1] not in taken:
                paired[i] = behind
                taken |= {i, behind[1]}
        skipped: set[int] = set()
        if lead is not None:
            source = self._source(lead)
            x = graph.nodes[lead].args[1]
            if isinstance(source, Region) and self.uses[x] == [lead]:
                skipped |= set(source.nodes)
        for region, _ in paired.values():
            if region is not None:
                skipped |= set(region.nodes)
        second = {b: a for a, (_, b) in paired.items()}
        stream = self._streamed(products, taken, lead)
        if stream is not None and stream[1] is not None:
            skipped |= set(stream[1].nodes)
        for i, n in enumerate(graph.nodes):
            if not self.dependent[i] or i in skipped or i in paired:
                continue
            if stream is not None and i == stream[0]:
                self._stream(*stream)
            elif i in second:
                self._pair(second[i], paired[second[i]][0], i)
            elif i == lead:
                source = self._source(i)
                self._lead(i, source if isinstance(source, Region) else None)
            elif i in self.regions:
                self._region(self.regions[i])
            elif i in self.region_of:
                continue
            elif self._affine(i):
                self._dense(i)
            elif n.op == "input":
                needed = [u for u in self.uses.get(i, []) if u not in skipped and u != lead]
                if needed or i == graph.out:
                    self._load(i)
            else:
                self._other(i)
        N, out = self._size(graph.out), TYPES[graph.result.dtype]
        if stream is None:
            self._loop(N, [f"y[r][j * ys] = {self._at(graph.out, 'j')};"])
        text = f"""
template <typename I>
XPAPPLY_INLINE void {self.name}(
    const IN* const (&x)[{R}], const I xs, const T* w, {out}* const (&y)[{R}], const I ys) {{
{chr(10).join("  " + line for line in self.lines)}
}}
"""
        return RowFunction(text, graph, self.name, R, self.weights, self.dtype, self.numbers)

    def _emit(self, *lines: str) -> None:
        self.lines += lines

    def _loop(self, n: int, body: list[str], *, index: str = "j") -> None:
        """An unrolled loop over the numbers of a value and over the rows."""
        self._emit(UNROLL, f"for (int {index} = 0; {index} < {n}; ++{index}) {{", "  " + UNROLL)
        self._emit(f"  for (int r = 0; r < {self.rows}; ++r) {{", *("    " + b for b in body))
        self._emit("  }", "}")

    def _declare(self, i: int) -> None:
        self.numbers = max(self.numbers, self._size(i))
        self._emit(f"{TYPES[self.graph.nodes[i].aval.dtype]} v{i}[{self._size(i)}][{self.rows}];")

    def _constant(self, i: int, index: str) -> str:
        """An element of a constant."""
        if i not in self.flat:
            self.flat[i] = self.weights.add(self._size(i), (i,), "flat")
        return f"w[{self.flat[i]} + ({index})]"

    def _at(self, i: int, index: str) -> str:
        return f"v{i}[{index}][r]" if self.dependent[i] else self._constant(i, index)

    def _load(self, i: int) -> None:
        n, lanes = self._size(i), 16 // np.dtype(self.graph.input.dtype).itemsize
        self._declare(i)
        if n % lanes == 0:
            self._emit("#ifdef XPAPPLY_VECTOR")
            self._loop(
                n // lanes,
                [
                    f"const xpapply_in4 q = xpapply_load(x[r] + j * {lanes});",
                    UNROLL,
                    f"for (int z = 0; z < {lanes}; ++z) v{i}[j * {lanes} + z][r] = q.a[z];",
                ],
            )
            self._emit("#else")
        self._loop(n, [f"v{i}[j][r] = x[r][j * xs];"])
        if n % lanes == 0:
            self._emit("#endif")

    def _start(self, product: int) -> str:
        """What the sums of a product start from."""
        bias = self._bias(product)
        if bias is None:
            return "0"
        return self._constant(bias[1], "0" if self._size(bias[1]) == 1 else "j")

    def _body(self, region: Region, at: dict[int, str], suffix: str = "") -> list[str]:
        """The statements of a region, given the names of its inputs."""
        nodes = list(region.nodes)
        names = dict(at)
        for value in region.inputs:
            bias = self._bias(value) if self._affine(value) else None
            if bias is not None and bias[0] in nodes:  # added when the sum was started
                nodes.remove(bias[0])
                names[bias[0]] = names[value]
        return statements(self.graph, nodes, lambda a: names[a], suffix)

    def _last(self, region: Region, at: dict[int, str], suffix: str = "") -> str:
        """The name of a region's result after `_body`."""
        for value in region.inputs:
            bias = self._bias(value) if self._affine(value) else None
            if bias is not None and bias[0] == region.out:
                return at[value]
        return f"t{region.out}{suffix}"

    def _region(self, region: Region) -> None:
        shape = self.graph.nodes[region.out].aval.shape
        at: dict[int, str] = {}
        for a in region.inputs:
            at[a] = self._at(a, self._index(self.graph.nodes[a].aval.shape, shape, a, region.out))
        self._declare(region.out)
        body = self._body(region, at)
        done = self._last(region, at)
        self._loop(self._size(region.out), [*body, f"v{region.out}[j][r] = {done};"])

    def _index(self, shape: tuple[int, ...], into: tuple[int, ...], a: int, out: int) -> str:
        """The position in a value of `shape` of element j of a value of shape `into`."""
        if math.prod(shape) == 1:
            return "0"
        if math.prod(shape) == math.prod(into):
            return "j"
        source = np.arange(math.prod(shape)).reshape(shape)
        return self._table(np.broadcast_to(source, into), f"{a}_{out}")

    def _table(self, indices: np.ndarray, name: str) -> str:
        flat = ", ".join(map(str, indices.reshape(-1)))
        self._emit(f"constexpr int m{name}[] = {{{flat}}};")
        return f"m{name}[j]"

    def _pack(self, name: str, offset: str) -> str:
        return f"const xpapply_t4 {name} = *reinterpret_cast<const xpapply_t4*>({offset});"

    def _lead(self, i: int, source: Region | None) -> None:
        w = self.graph.nodes[i].args[0]
        n, k = self.graph.nodes[w].aval.shape
        lanes = self.lanes
        padded = -(-n // lanes) * lanes
        offset = self.weights.add(k * padded, (w,), "columns")
        self._declare(i)
        self._loop(n, [f"v{i}[j][r] = {self._start(i)};"])
        start = self.graph.entry
        at = {start: "in"}
        if source is not None:
            for a in source.inputs:
                if a != start:
                    at[a] = self._constant(a, "0" if self._size(a) == 1 else "k")
        body = [] if source is None else self._body(source, at)
        value = "in" if source is None else self._last(source, at)
        ctype = TYPES[self.graph.input.dtype]

        def accumulate(k: str, read: str, indent: str) -> list[str]:
            return [
                f"{indent}T xk[{self.rows}];",
                f"{indent}{UNROLL}",
                f"{indent}for (int r = 0; r < {self.rows}; ++r) {{",
                f"{indent}  const {ctype} in = {read};",
                *(f"{indent}  {b}" for b in body),
                f"{indent}  xk[r] = {value};",
                f"{indent}}}",
                f"{indent}{UNROLL}",
                f"{indent}for (int q = 0; q < {padded // lanes}; ++q) {{",
                f"{indent}  {self._pack('p', f'w + {offset} + ({k}) * {padded} + q * {lanes}')}",
                *self._spread(i, n, "q", "p", "xk[r]", indent + "  "),
                f"{indent}}}",
            ]

        in_lanes = 16 // np.dtype(self.graph.input.dtype).itemsize
        if k % in_lanes == 0:
            R = self.rows
            self._emit(
                "#ifdef XPAPPLY_VECTOR",
                f"{UNROLL} 1",
                f"for (int k0 = 0; k0 < {k}; k0 += {in_lanes}) {{",
                f"  xpapply_in4 now[{R}];",
                f"  {UNROLL}",
                f"  for (int r = 0; r < {R}; ++r) now[r] = xpapply_load(x[r] + k0);",
                f"  {UNROLL}",
                f"  for (int z = 0; z < {in_lanes}; ++z) {{",
                "    const int k = k0 + z;",
                *accumulate("k", "now[r].a[z]", "    "),
                "  }",
                "}",
                "#else",
            )
        R = self.rows
        self._emit(
            f"IN ahead[{R}];",
            UNROLL,
            f"for (int r = 0; r < {R}; ++r) ahead[r] = x[r][0];",
            f"{UNROLL} 1",
            f"for (int k = 0; k < {k}; ++k) {{",
            f"  IN now[{R}];",
            f"  {UNROLL}",
            f"  for (int r = 0; r < {R}; ++r) {{",
            "    now[r] = ahead[r];",
            f"    if (k + 1 < {k}) ahead[r] = x[r][(k + 1) * xs];",
            "  }",
            *accumulate("k", "now[r]", "  "),
            "}",
        )
        if k % in_lanes == 0:
            self._emit("#endif")

    def _spread(self, i: int, n: int, q: str, pack: str, value: str, indent: str) -> list[str]:
        """``v<i>[j] += pack * value`` for the lanes of one vector of weights."""
        lanes = self.lanes
        lines = [f"{indent}{UNROLL}", f"{indent}for (int r = 0; r < {self.rows}; ++r) {{"]
        for z in range(lanes):
            target = f"v{i}[{q} * {lanes} + {z}][r]"
            guard = "" if n % lanes == 0 else f"if ({q} * {lanes} + {z} < {n}) "
            if guard:
                target = f"v{i}[{q} * {lanes} + {z} < {n} ? {q} * {lanes} + {z} : 0][r]"
            lines.append(f"{indent}  {guard}{target} += {pack}.a[{z}] * {value};")
        return [*lines, f"{indent}}}"]

    def _pair(self, first: int, region: Region | None, second: int) -> None:
        """Two products at once: hidden features are used as they come, and not kept."""
        v = self.graph.nodes[second].args[0]
        m = self.graph.nodes[v].aval.shape[0]
        self._declare(second)
        self._loop(m, [f"v{second}[j][r] = {self._start(second)};"])

        def use(own: int) -> list[str]:
            return [
                f"v{second}[{j}][r] += b[u][{(own + j) // self.lanes}]"
                f".a[{(own + j) % self.lanes}] * (T)h;"
                for j in range(m)
            ]

        self._features(first, region, (v,), m, use)

    def _stream(self, product: int, region: Region | None) -> None:
        """The last product: results are stored as they come."""
        self._features(product, region, (), 0, lambda own: ["y[r][(j0 + u) * ys] = h;"])

    def _features(
        self,
        product: int,
        region: Region | None,
        column_of: tuple[int, ...],
        columns: int,
        use: Callable[[int], list[str]],
    ) -> None:
        """A loop over the features j of a product, which is not unrolled.

        The weights of one feature lie together: its row of W, what the region
        behind the product wants of constants, its column of the next W.
        """
        w, x = self.graph.nodes[product].args
        n, k = self.graph.nodes[w].aval.shape
        lanes, R = self.lanes, self.rows
        own: list[int] = []
        if region is not None:
            own = [a for a in region.inputs if a != product]
        row = -(-k // lanes) * lanes
        tail = -(-(len(own) + columns) // lanes) * lanes
        record = row + tail
        offset = self.weights.add(n * record, (w, *own, *column_of), f"records {len(own)}")
        at = {a: f"b[u][{c // lanes}].a[{c % lanes}]" for c, a in enumerate(own)}
        at[product] = "s[u][r]"
        bias = self._bias(product)
        start = at[bias[1]] if bias is not None and bias[1] in at else "0"
        done = self._last(region, at) if region is not None else "s[u][r]"
        body = self._body(region, at) if region is not None else []
        out = product if region is None else region.out
        J = next(c for c in (4, 3, 2, 1) if n % c == 0)  # independent chains of sums
        each = f"for (int r = 0; r < {R}; ++r)"
        features = f"for (int u = 0; u < {J}; ++u)"
        self._emit(
            f"{UNROLL} 1",
            f"for (int j0 = 0; j0 < {n}; j0 += {J}) {{",
            f"  const T* const p = w + {offset} + j0 * {record};",
            f"  T s[{J}][{R}];",
        )
        if tail:
            self._emit(
                f"  xpapply_t4 b[{J}][{tail // lanes}];",
                f"  {UNROLL}",
                f"  {features} {{",
                f"    {UNROLL}",
                f"    for (int q = 0; q < {tail // lanes}; ++q) b[u][q] = "
                f"*reinterpret_cast<const xpapply_t4*>(p + u * {record} + {row} + q * {lanes});",
                "  }",
            )
        self._emit(
            f"  {UNROLL}",
            f"  {features} {{",
            f"    {UNROLL}",
            f"    {each} s[u][r] = {start};",
            "  }",
            f"  {UNROLL}",
            f"  for (int q = 0; q < {row // lanes}; ++q) {{",
            f"    {UNROLL}",
            f"    {features} {{",
            f"      {self._pack('a', f'p + u * {record} + q * {lanes}')}",
            f"      {UNROLL}",
            f"      {each} {{",
        )
        for z in range(lanes):
            guard = "" if k % lanes == 0 else f"if (q * {lanes} + {z} < {k}) "
            value = self._clamped(x, f"q * {lanes} + {z}", k)
            self._emit(f"        {guard}s[u][r] += a.a[{z}] * {value};")
        self._emit(
            "      }",
            "    }",
            "  }",
            f"  {UNROLL}",
            f"  {features} {{",
            f"    {UNROLL}",
            f"    {each} {{",
            *("      " + line for line in body),
            f"      const {TYPES[self.graph.nodes[out].aval.dtype]} h = {done};",
            *("      " + line for line in use(len(own))),
            "    }",
            "  }",
            "}",
        )

    def _clamped(self, x: int, index: str, n: int) -> str:
        """An element of a value; the index stays inside also where a guard skips it."""
        return (
            f"v{x}[{index}][r]" if n % self.lanes == 0 else f"v{x}[{index} < {n} ? {index} : 0][r]"
        )

    def _dense(self, i: int) -> None:
        w, x = self.graph.nodes[i].args
        n, k = self.graph.nodes[w].aval.shape
        lanes = self.lanes
        padded = -(-n // lanes) * lanes
        offset = self.weights.add(k * padded, (w,), "columns")
        self._declare(i)
        self._loop(n, [f"v{i}[j][r] = {self._start(i)};"])
        self._emit(
            UNROLL,
            f"for (int k = 0; k < {k}; ++k) {{",
            f"  {UNROLL}",
            f"  for (int q = 0; q < {padded // lanes}; ++q) {{",
            f"    {self._pack('p', f'w + {offset} + k * {padded} + q * {lanes}')}",
            *self._spread(i, n, "q", "p", f"v{x}[k][r]", "    "),
            "  }",
            "}",
        )

    def _other(self, i: int) -> None:
        """Reductions, layouts and other contractions, by tables of indices."""
        n = self.graph.nodes[i]
        kind = OPS[n.op].kind
        shapes = [self.graph.nodes[a].aval.shape for a in n.args]
        attrs = dict(n.attrs)
        self._declare(i)
        if kind is Kind.REDUCTION:
            source = np.arange(math.prod(shapes[0])).reshape(shapes[0])
            axes = attrs["axis"]
            kept = [a for a in range(len(shapes[0])) if a not in axes]
            table = source.transpose(*kept, *axes).reshape(self._size(i), -1)
            count = table.shape[1]
            name = self._table(table, str(i)).partition("[")[0]
            first = self._at(n.args[0], f"{name}[j * {count}]")
            other = self._at(n.args[0], f"{name}[j * {count} + c]")
            step = OPS[n.op].c.format("s", "e")
            if OPS[n.op].result != "same":
                self._position(i, first, other, count)
                return
            self._loop(
                self._size(i),
                [
                    f"T s = {first};",
                    UNROLL,
                    f"for (int c = 1; c < {count}; ++c) {{ const T e = {other}; s = {step}; }}",
                    f"v{i}[j][r] = s;",
                ],
            )
            return
        if kind is Kind.CONTRACTION:
            self._einsum(i, attrs["subscripts"], shapes)
            return
        if n.op == "concat":
            start, axis = 0, attrs["axis"]
            whole = np.arange(self._size(i)).reshape(n.aval.shape)
            for c, (a, shape) in enumerate(zip(n.args, shapes, strict=True)):
                key = (*(slice(None),) * axis, slice(start, start + shape[axis]))
                start += shape[axis]
                where = self._table(whole[key], f"{i}_{c}")
                self._loop(math.prod(shape), [f"v{i}[{where}][r] = {self._at(a, 'j')};"])
            return
        source = np.arange(math.prod(shapes[0])).reshape(shapes[0])
        if n.op == "permute_dims":
            source = source.transpose(attrs["axes"])
        elif n.op == "index":
            key = tuple(slice(*k) if isinstance(k, tuple) else k for k in attrs["key"])
            source = source[key]
            assert source.shape == indexed_shape(shapes[0], attrs["key"])
        elif n.op == "broadcast_to":
            source = np.broadcast_to(source, attrs["shape"])
        index = "j" if n.op == "reshape" else self._table(source, str(i))
        self._loop(self._size(i), [f"v{i}[j][r] = {self._at(n.args[0], index)};"])

    def _position(self, i: int, first: str, other: str, count: int) -> None:
        """argmax or argmin: where the number stands that no later one takes the place of."""
        n = self.graph.nodes[i]
        dtype = self.graph.nodes[n.args[0]].aval.dtype
        # the dtype of the numbers, not T: a float64 input may be all that is float64
        ctype = "float" if dtype == "float16" else TYPES[dtype]
        replaces = OPS[n.op].c.format("s", "e")
        self._loop(
            self._size(i),
            [
                f"{ctype} s = {first};",
                "int at = 0;",
                UNROLL,
                f"for (int c = 1; c < {count}; ++c) {{",
                f"  const {ctype} e = {other};",
                f"  if ({replaces}) {{ s = e; at = c; }}",
                "}",
                f"v{i}[j][r] = at;",
            ],
        )

    def _einsum(self, i: int, subscripts: str, shapes: list[tuple[int, ...]]) -> None:
        sources, _, result = subscripts.partition("->")
        names = sources.split(",")
        sizes = {
            k: n for ks, s in zip(names, shapes, strict=True) for k, n in zip(ks, s, strict=True)
        }
        inner = [k for k in sizes if k not in result]
        letters = [*result, *inner]
        grid = np.indices([sizes[k] for k in letters]).reshape(len(letters), self._size(i), -1)
        count = grid.shape[2]
        operands = []
        for c, (ks, shape) in enumerate(zip(names, shapes, strict=True)):
            flat = np.ravel_multi_index([grid[letters.index(k)] for k in ks], shape)
            table = self._table(flat, f"{i}_{c}").partition("[")[0]
            operands.append(self._at(self.graph.nodes[i].args[c], f"{table}[j * {count} + c]"))
        self._loop(
            self._size(i),
            [
                "T s = 0;",
                UNROLL,
                f"for (int c = 0; c < {count}; ++c) s += {' * '.join(operands)};",
                f"v{i}[j][r] = s;",
            ],
        )
