"""The text of a network's steps on maps in shared memory, in two versions.

The quick one multiplies on tensor cores and trusts the range of float16; the careful one, which
runs for slices that leave that range, has float32 and one thread for each result.
"""

from __future__ import annotations

import numpy as np

from ...ir.ops import OPS
from ..cxx import literal
from ..schedule import Step
from ..tensor_network.target import Refused
from .products import Products
from .words import loop

_ACROSS = 12
"""Reads of a number for which lanes put their results together."""


class Steps(Products):
    """Writes steps."""

    def write(self, step: Step) -> list[str]:
        """The text of a step but the input."""
        n = self.queries.graph.nodes[step.out]
        if n.aval.dtype not in ("float32",) and step.out != self.queries.graph.out:
            raise Refused(f"{n.aval.dtype} values")
        if step.product is not None:
            return self.product(step)
        if step.out in self.maps.copies:
            root, places = self.maps.copies[step.out]
            table = places.reshape(-1) + self.maps._rows[root]
            read = self.number(root, self.index(table, "n"))
            return self._each(step.out, [f"const float v = {read};"])
        if step.region is not None:
            operand = self._operand("n", n.aval.shape)
            body = self._statements(list(step.region.nodes), operand)
            return self._each(step.out, [*body, f"const float v = t{step.region.out};"])
        if n.op in ("pad", "concat"):
            return self._joined(step.out)
        if step.out in self.maps.windows:
            return self._reduction(step.out)
        raise Refused(f"{n.op} of a value in shared memory")

    def _each(
        self,
        i: int,
        body: list[str],
        places: np.ndarray | None = None,
        of_warp: bool = False,
    ) -> list[str]:
        """A loop over slices and numbers of a value, of which `body` computes ``v``.

        With `of_warp` all lanes of a warp compute it together.
        """
        places = self.maps.places(i) if places is None else places
        size = places.size
        before, behind = self.look(i)
        first, by = ("warp", "XP_WARPS") if of_warp else ("threadIdx.x", "XP_THREADS")
        put = [*self.put(i, self.index(places, "n"), "v"), *behind]
        if of_warp:
            put = ["if (lane == 0) {", *("  " + b for b in put), "}"]
        return [
            *loop(f"for (int e = {first}; e < {self.images * size}; e += {by}) {{"),
            "  " + self.divided("e", size, self.images * size, ("s", "n")),
            f"  u32* const map = maps + s * {self.pitch};",
            *("  " + b for b in (*before, *body, *put)),
            "}",
        ]

    def _joined(self, i: int) -> list[str]:
        """Write what is left of a padded or joined map."""
        n, q = self.queries.graph.nodes[i], self.queries
        lines, places = [], self.maps.places(i)
        inside = np.zeros(q.size(i), bool)
        for a, target in self.maps.parts(i):
            inside[target] = True
            if self.maps.is_there(a, i, target):
                continue
            if not q.dependent[a]:
                raise Refused("joining a constant")
            found = self.number(a, self.index(self.maps.places(a), "n"))
            read = [f"const float v = {found};"]
            lines += self._each(i, read, places=places[target])
        border = np.flatnonzero(~inside)
        if border.size:
            fill = literal(float(n.attr("number")), "float32")
            lines += self._each(i, [f"const float v = {fill};"], places=places[border])
        return lines

    def _reduction(self, i: int) -> list[str]:
        a, table = self.maps.windows[i]
        joins, _ = self.maps.behind.get(i, (i, None))
        row = OPS[self.queries.graph.nodes[joins].op]
        if not row.c or row.finds_position:
            raise Refused(f"{row.name} of a value in shared memory")
        read = self.maps.places(a)[table.reshape(-1, table.shape[-1])]
        apart, count = read - read[:, :1], read.shape[1]
        # lanes that would read from one bank begin at different places of their windows
        turns = np.bincount(read[:32, 0] % 32).max()
        behind = self.behind(i, "joined")
        if behind:
            behind = ["const float joined = v;", *behind, f"v = t{i};"]
        apart_from = turns > 2 and not self.careful
        joined = row.c.format("v", "o")
        at = f"const int at = {self.index(read[:, 0], 'n')};"
        number = self.number(a, f"at + {self.index(apart[0], 'k')}")
        if (apart != apart[0]).any():  # they lie unevenly
            at = f"const int at = n * {count};"
            number = self.number(a, self.index(read, "(at + k)"))
        every = self.images * len(read)
        alone = -(-every // (32 * self.warps)) * count
        if count >= 32 and -(-every // self.warps) * (count / 32 + _ACROSS) < alone:
            body = [
                at,
                "int k = lane;",
                f"float v = {number};",
                f"for (k += 32; k < {count}; k += 32) {{",
                f"  const float o = {number}; v = {joined};",
                "}",
                "XP_ALL for (int by = 16; by; by /= 2) {",
                f"  const float o = __shfl_xor_sync(XP_WARP, v, by); v = {joined};",
                "}",
            ]
            return self._each(i, [*body, *behind], of_warp=True)
        if apart_from and not count & (count - 1):
            body = [
                at,
                f"const int turn = n & {count - 1};",
                f"const auto of = [&](const int k) {{ return {number}; }};",
                "float v = of(turn);",
                "#pragma unroll 16",
                f"for (int j = 1; j < {count}; ++j) {{",
                f"  const float o = of(j ^ turn); v = {joined};",
                "}",
            ]
            return self._each(i, [*body, *behind])
        body = [
            at,
            f"int k = {f'n % {count}' if apart_from else '0'};",
            f"float v = {number};",
            f"for (int j = 1; j < {count}; ++j) {{",
            f"  if (++k == {count}) k = 0;",
            f"  const float o = {number}; v = {joined};",
            "}",
        ]
        return self._each(i, [*body, *behind])
