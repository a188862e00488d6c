"""Products with weights as text, in the forms that `register_network` describes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...ir.rewrite import Region
from ..cxx import TYPES
from ..graph_queries import GraphQueries
from .values import UNROLL, Values


class Products:
    """Writes products, of values and into values."""

    def __init__(self, queries: GraphQueries, values: Values) -> None:
        self._queries, self._graph, self._values = queries, queries.graph, values
        self._slices, self._lanes = values.slices, values.lanes

    def _by_columns(self, i: int, w: int) -> tuple[int, int]:
        """Begin sums over columns of weights: how long one is in memory, and where they are."""
        n, k = self._graph.nodes[w].aval.shape
        padded = -(-n // self._lanes) * self._lanes
        offset = self._values.weights.add(k * padded, (w,), "columns")
        self._values.declare(i)
        self._values.loop(n, [f"v{i}[j][r] = {self._values.start(i)};"])
        return padded, offset

    def lead(self, i: int, source: Region | None) -> None:
        w = self._graph.nodes[i].args[0]
        n, k = self._graph.nodes[w].aval.shape
        lanes = self._lanes
        padded, offset = self._by_columns(i, w)
        start = self._graph.entry
        at = {start: "in"}
        if source is not None:
            for a in source.inputs:
                if a != start:
                    at[a] = self._values.constant(a, "0" if self._queries.size(a) == 1 else "k")
        body = [] if source is None else self._values.body(source, at)
        value = "in" if source is None else self._values.last(source, at)
        ctype = TYPES[self._graph.input.dtype]

        def accumulate(k: str, read: str, indent: str) -> list[str]:
            return [
                f"{indent}T xk[{self._slices}];",
                f"{indent}{UNROLL}",
                f"{indent}for (int r = 0; r < {self._slices}; ++r) {{",
                f"{indent}  const {ctype} in = {read};",
                *(f"{indent}  {b}" for b in body),
                f"{indent}  xk[r] = {value};",
                f"{indent}}}",
                f"{indent}{UNROLL}",
                f"{indent}for (int q = 0; q < {padded // lanes}; ++q) {{",
                f"{indent}  {_pack('p', f'w + {offset} + ({k}) * {padded} + q * {lanes}')}",
                *self._spread(i, n, "q", "p", "xk[r]", indent + "  "),
                f"{indent}}}",
            ]

        in_lanes = 16 // np.dtype(self._graph.input.dtype).itemsize
        if k % in_lanes == 0:
            R = self._slices
            self._values.emit(
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
        R = self._slices
        self._values.emit(
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
            self._values.emit("#endif")

    def _spread(self, i: int, n: int, q: str, pack: str, value: str, indent: str) -> list[str]:
        """``v<i>[j] += pack * value`` for the lanes of one vector of weights."""
        lanes = self._lanes
        lines = [f"{indent}{UNROLL}", f"{indent}for (int r = 0; r < {self._slices}; ++r) {{"]
        for z in range(lanes):
            target = f"v{i}[{q} * {lanes} + {z}][r]"
            guard = "" if n % lanes == 0 else f"if ({q} * {lanes} + {z} < {n}) "
            if guard:
                target = f"v{i}[{q} * {lanes} + {z} < {n} ? {q} * {lanes} + {z} : 0][r]"
            lines.append(f"{indent}  {guard}{target} += {pack}.a[{z}] * {value};")
        return [*lines, f"{indent}}}"]

    def pair(self, first: int, region: Region | None, second: int) -> None:
        """Two products at once: hidden features are used as they come, and not kept."""
        v = self._graph.nodes[second].args[0]
        m = self._graph.nodes[v].aval.shape[0]
        self._values.declare(second)
        self._values.loop(m, [f"v{second}[j][r] = {self._values.start(second)};"])

        def use(own: int) -> list[str]:
            return [
                f"v{second}[{j}][r] += b[u][{(own + j) // self._lanes}]"
                f".a[{(own + j) % self._lanes}] * (T)h;"
                for j in range(m)
            ]

        self._features(first, region, (v,), m, use)

    def stream(self, product: int, region: Region | None) -> None:
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
        after the product wants of constants, its column of the next W.
        """
        w, x = self._graph.nodes[product].args
        n, k = self._graph.nodes[w].aval.shape
        lanes, R = self._lanes, self._slices
        own: list[int] = []
        if region is not None:
            own = [a for a in region.inputs if a != product]
        row = -(-k // lanes) * lanes
        tail = -(-(len(own) + columns) // lanes) * lanes
        record = row + tail
        offset = self._values.weights.add(n * record, (w, *own, *column_of), f"records {len(own)}")
        at = {a: f"b[u][{c // lanes}].a[{c % lanes}]" for c, a in enumerate(own)}
        at[product] = "s[u][r]"
        bias = self._queries.bias(product)
        start = at[bias[1]] if bias is not None and bias[1] in at else "0"
        done = self._values.last(region, at) if region is not None else "s[u][r]"
        body = self._values.body(region, at) if region is not None else []
        out = product if region is None else region.out
        J = next(c for c in (4, 3, 2, 1) if n % c == 0)  # independent chains of sums
        each = f"for (int r = 0; r < {R}; ++r)"
        features = f"for (int u = 0; u < {J}; ++u)"
        self._values.emit(
            f"{UNROLL} 1",
            f"for (int j0 = 0; j0 < {n}; j0 += {J}) {{",
            f"  const T* const p = w + {offset} + j0 * {record};",
            f"  T s[{J}][{R}];",
        )
        if tail:
            self._values.emit(
                f"  xpapply_t4 b[{J}][{tail // lanes}];",
                f"  {UNROLL}",
                f"  {features} {{",
                f"    {UNROLL}",
                f"    for (int q = 0; q < {tail // lanes}; ++q) b[u][q] = "
                f"*reinterpret_cast<const xpapply_t4*>(p + u * {record} + {row} + q * {lanes});",
                "  }",
            )
        self._values.emit(
            f"  {UNROLL}",
            f"  {features} {{",
            f"    {UNROLL}",
            f"    {each} s[u][r] = {start};",
            "  }",
            f"  {UNROLL}",
            f"  for (int q = 0; q < {row // lanes}; ++q) {{",
            f"    {UNROLL}",
            f"    {features} {{",
            f"      {_pack('a', f'p + u * {record} + q * {lanes}')}",
            f"      {UNROLL}",
            f"      {each} {{",
        )
        for z in range(lanes):
            guard = "" if k % lanes == 0 else f"if (q * {lanes} + {z} < {k}) "
            value = self._clamped(x, f"q * {lanes} + {z}", k)
            self._values.emit(f"        {guard}s[u][r] += a.a[{z}] * {value};")
        self._values.emit(
            "      }",
            "    }",
            "  }",
            f"  {UNROLL}",
            f"  {features} {{",
            f"    {UNROLL}",
            f"    {each} {{",
            *("      " + line for line in body),
            f"      const {TYPES[self._graph.nodes[out].aval.dtype]} h = {done};",
            *("      " + line for line in use(len(own))),
            "    }",
            "  }",
            "}",
        )

    def _clamped(self, x: int, index: str, n: int) -> str:
        """An element of a value; the index stays inside also where a guard skips it."""
        return (
            f"v{x}[{index}][r]" if n % self._lanes == 0 else f"v{x}[{index} < {n} ? {index} : 0][r]"
        )

    def dense(self, i: int) -> None:
        w, x = self._graph.nodes[i].args
        n, k = self._graph.nodes[w].aval.shape
        lanes = self._lanes
        padded, offset = self._by_columns(i, w)
        self._values.emit(
            UNROLL,
            f"for (int k = 0; k < {k}; ++k) {{",
            f"  {UNROLL}",
            f"  for (int q = 0; q < {padded // lanes}; ++q) {{",
            f"    {_pack('p', f'w + {offset} + k * {padded} + q * {lanes}')}",
            *self._spread(i, n, "q", "p", f"v{x}[k][r]", "    "),
            "  }",
            "}",
        )


def _pack(name: str, offset: str) -> str:
    return f"const xpapply_t4 {name} = *reinterpret_cast<const xpapply_t4*>({offset});"
