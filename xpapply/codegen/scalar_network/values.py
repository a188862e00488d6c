"""Values of a network in registers, as text: all but what products compute."""

from __future__ import annotations

import math

import numpy as np

from ...ir.ops import OPS, Kind
from ...ir.rewrite import Region
from ...ir.shapes import indexed_shape
from ..cxx import TYPES, statements
from ..graph_queries import GraphQueries
from .weights import Weights

UNROLL = "#pragma unroll"


class Values:
    """The lines of a function so far, and where each value and constant is.

    Value i is ``v<i>[j][r]``: number j, of slice r of those that a thread has. `numbers` is the
    size of the largest one.
    """

    def __init__(self, queries: GraphQueries, slices: int, dtype: str) -> None:
        self.slices, self.dtype = slices, dtype
        self.lanes = 16 // np.dtype(dtype).itemsize
        self.weights = Weights(self.lanes)
        self.lines: list[str] = []
        self.numbers = 1
        self._queries, self._graph = queries, queries.graph
        self._flat: dict[int, int] = {}  # where a constant lies in the weights

    def emit(self, *lines: str) -> None:
        self.lines += lines

    def loop(self, n: int, body: list[str], *, index: str = "j") -> None:
        """An unrolled loop over the numbers of a value and over the rows."""
        self.emit(UNROLL, f"for (int {index} = 0; {index} < {n}; ++{index}) {{", "  " + UNROLL)
        self.emit(f"  for (int r = 0; r < {self.slices}; ++r) {{", *("    " + b for b in body))
        self.emit("  }", "}")

    def declare(self, i: int) -> None:
        size = self._queries.size(i)
        self.numbers = max(self.numbers, size)
        self.emit(f"{TYPES[self._graph.nodes[i].aval.dtype]} v{i}[{size}][{self.slices}];")

    def constant(self, i: int, index: str) -> str:
        """An element of a constant."""
        if i not in self._flat:
            self._flat[i] = self.weights.add(self._queries.size(i), (i,), "flat")
        return f"w[{self._flat[i]} + ({index})]"

    def at(self, i: int, index: str) -> str:
        return f"v{i}[{index}][r]" if self._queries.dependent[i] else self.constant(i, index)

    def load(self, i: int) -> None:
        n, lanes = self._queries.size(i), 16 // np.dtype(self._graph.input.dtype).itemsize
        self.declare(i)
        if n % lanes == 0:
            self.emit("#ifdef XPAPPLY_VECTOR")
            self.loop(
                n // lanes,
                [
                    f"const xpapply_in4 q = xpapply_load(x[r] + j * {lanes});",
                    UNROLL,
                    f"for (int z = 0; z < {lanes}; ++z) v{i}[j * {lanes} + z][r] = q.a[z];",
                ],
            )
            self.emit("#else")
        self.loop(n, [f"v{i}[j][r] = x[r][j * xs];"])
        if n % lanes == 0:
            self.emit("#endif")

    def start(self, product: int) -> str:
        """The initial value of a product's sums."""
        bias = self._queries.bias(product)
        if bias is None:
            return "0"
        return self.constant(bias[1], "0" if self._queries.size(bias[1]) == 1 else "j")

    def body(self, region: Region, at: dict[int, str], suffix: str = "") -> list[str]:
        """The statements of a region, given the names of its inputs."""
        nodes = list(region.nodes)
        names = dict(at)
        for value in region.inputs:
            bias = self._queries.bias(value) if self._queries.affine(value) else None
            if bias is not None and bias[0] in nodes:  # added when the sum was started
                nodes.remove(bias[0])
                names[bias[0]] = names[value]
        return statements(self._graph, nodes, lambda a: names[a], suffix)

    def last(self, region: Region, at: dict[int, str], suffix: str = "") -> str:
        """The name of a region's result after `_body`."""
        for value in region.inputs:
            bias = self._queries.bias(value) if self._queries.affine(value) else None
            if bias is not None and bias[0] == region.out:
                return at[value]
        return f"t{region.out}{suffix}"

    def region(self, region: Region) -> None:
        shape = self._graph.nodes[region.out].aval.shape
        at: dict[int, str] = {}
        for a in region.inputs:
            at[a] = self.at(a, self._index(self._graph.nodes[a].aval.shape, shape, a, region.out))
        self.declare(region.out)
        body = self.body(region, at)
        done = self.last(region, at)
        self.loop(self._queries.size(region.out), [*body, f"v{region.out}[j][r] = {done};"])

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
        self.emit(f"constexpr int m{name}[] = {{{flat}}};")
        return f"m{name}[j]"

    def other(self, i: int) -> None:
        """Reductions, layouts and other contractions, by tables of indices."""
        n = self._graph.nodes[i]
        kind = OPS[n.op].kind
        shapes = [self._graph.nodes[a].aval.shape for a in n.args]
        attrs = dict(n.attrs)
        self.declare(i)
        if kind is Kind.REDUCTION:
            source = np.arange(math.prod(shapes[0])).reshape(shapes[0])
            axes = attrs["axis"]
            kept = [a for a in range(len(shapes[0])) if a not in axes]
            table = source.transpose(*kept, *axes).reshape(self._queries.size(i), -1)
            count = table.shape[1]
            name = self._table(table, str(i)).partition("[")[0]
            first = self.at(n.args[0], f"{name}[j * {count}]")
            other = self.at(n.args[0], f"{name}[j * {count} + c]")
            step = OPS[n.op].c.format("s", "e")
            if OPS[n.op].result != "same":
                self._position(i, first, other, count)
                return
            self.loop(
                self._queries.size(i),
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
            whole = np.arange(self._queries.size(i)).reshape(n.aval.shape)
            for c, (a, shape) in enumerate(zip(n.args, shapes, strict=True)):
                key = (*(slice(None),) * axis, slice(start, start + shape[axis]))
                start += shape[axis]
                where = self._table(whole[key], f"{i}_{c}")
                self.loop(math.prod(shape), [f"v{i}[{where}][r] = {self.at(a, 'j')};"])
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
        self.loop(self._queries.size(i), [f"v{i}[j][r] = {self.at(n.args[0], index)};"])

    def _position(self, i: int, first: str, other: str, count: int) -> None:
        """argmax or argmin: where the number stands that no later one takes the place of."""
        n = self._graph.nodes[i]
        dtype = self._graph.nodes[n.args[0]].aval.dtype
        # the dtype of the numbers, not T: a float64 input may be all that is float64
        ctype = "float" if dtype == "float16" else TYPES[dtype]
        replaces = OPS[n.op].c.format("s", "e")
        self.loop(
            self._queries.size(i),
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
        grid = np.indices([sizes[k] for k in letters]).reshape(
            len(letters), self._queries.size(i), -1
        )
        count = grid.shape[2]
        operands = []
        for c, (ks, shape) in enumerate(zip(names, shapes, strict=True)):
            flat = np.ravel_multi_index([grid[letters.index(k)] for k in ks], shape)
            table = self._table(flat, f"{i}_{c}").partition("[")[0]
            operands.append(self.at(self._graph.nodes[i].args[c], f"{table}[j * {count} + c]"))
        self.loop(
            self._queries.size(i),
            [
                "T s = 0;",
                UNROLL,
                f"for (int c = 0; c < {count}; ++c) s += {' * '.join(operands)};",
                f"v{i}[j][r] = s;",
            ],
        )
