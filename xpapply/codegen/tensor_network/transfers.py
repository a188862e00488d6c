"""Reading the slices of a tile and storing its results: how a kernel finds them, as text."""

from __future__ import annotations

import math

from ..access import EVEN, Access, locate
from ..cxx import TYPES
from ..graph_queries import GraphQueries
from .fragments import Value
from .packing import Slots, natural
from .target import Target

CTYPES = {**TYPES, "bfloat16": "bfloat16"}
"""C++ types of what is read and written; in between there is float32."""


class Transfers:
    """Slices and results in memory, for one access.

    Parameters
    ----------
    queries : GraphQueries
        The graph.
    access, target : Access, Target
        How slices lie, and what the kernel is written for.
    m : int
        Tiles that a group takes at once.
    in_order : bool
        Features of the input are held in their order, not as loads of four have them.
    result : str
        What results are rounded to.
    """

    def __init__(
        self,
        queries: GraphQueries,
        access: Access,
        target: Target,
        m: int,
        *,
        in_order: bool,
        result: str,
    ) -> None:
        self._graph, self._access, self._m, self._result = queries.graph, access, m, result
        self._n = queries.size(queries.graph.entry)
        entry = queries.graph.input
        narrow = entry.itemsize <= 4  # four of them in 16 bytes
        self.quads = access.vector and narrow and entry.shape[0] % 16 == 0 and not in_order
        """Whether four features of the input are one load."""
        # whether all slices of a tile have the batch dims before the axis in common
        self._even = access.even and EVEN % (16 * target.warps * m) == 0

    @property
    def slots(self) -> Slots:
        """The places of the input's features, if that is distributed over lanes."""
        n = self._n
        if not self.quads:
            return natural(n)
        # one load of four numbers: lane t has features 4 t ... 4 t + 3 of 16
        return tuple(
            16 * (j // 2) + 4 * t + 2 * (j % 2) + c
            for j in range(n // 8)
            for t in range(4)
            for c in range(2)
        )

    @property
    def _slice(self) -> str:
        """The index of slice number (m, h) of a lane, after the first."""
        return "2 * m + h" if self._access.aligned else "m * XP_STEP + 8 * h"

    def fetch(self, x: Value) -> list[str]:
        """Statements that read the input of a tile into `ahead`."""
        access, n = self._access, self._n
        # where the lane's own features start: added before the one multiplication by the item size
        stride = "(I)1" if access.vector else "(I)s_m"
        start = "0"
        if x.slots is not None:
            start = "4 * t" if self.quads else f"2 * t * {stride}"
        loop = f"XP_ALL for (int m = 0; m < {self._m}; ++m) XP_ALL for (int h = 0; h < 2; ++h)"
        anywhere = [
            f"{loop} {{",
            f"  I row = tile * XP_SLICES + own + {self._slice};",
            "  row = row < (I)n_slices ? row : (I)n_slices - 1;",
            f"  I at = {start};",
            *("  " + s for s in locate(access)),
            "  const IN* const p = x + at;",
            *self._read(x, n, stride),
            "}",
        ]
        small = x.slots is None or x.tiles <= 8  # twice the text is compiled twice as long
        if self._even and small:
            return [
                "const I before = tile * XP_SLICES / (I)n_behind;",
                "const I behind = tile * XP_SLICES - before * (I)n_behind + own;",
                "if (tile < tiles) {",
                f"const IN* const corner = x + (before * (I)s_b0 + behind + (I)({start}));",
                *self._side_by_side(loop, x, n, stride),
                "}",
            ]
        if not access.dense or not small:
            return anywhere
        # of whole tiles the addresses differ by constants
        inside = "if ((tile + 1) * XP_SLICES <= (I)n_slices) {"
        if access.after:
            corner = f"const IN* const corner = x + (tile * XP_SLICES + own + (I)({start}));"
            whole = [corner, *self._side_by_side(loop, x, n, stride)]
        else:
            whole = [
                f"const IN* const corner = x + ((tile * XP_SLICES + own) * (I){n} + (I)({start}));",
                f"{loop} {{",
                f"  const IN* const p = corner + ({self._slice}) * {n};",
                *self._read(x, n, stride),
                "}",
            ]
        return [inside, *whole, "} else {", *anywhere, "}"]

    def _side_by_side(self, loop: str, x: Value, n: int, stride: str) -> list[str]:
        """Statements that read a whole tile, of slices whose elements lie side by side."""
        if not self._access.aligned:
            return [
                f"{loop} {{",
                f"  const IN* const p = corner + ({self._slice});",
                *self._read(x, n, stride),
                "}",
            ]
        count = 2 * self._m
        guard = other = ""
        if x.slots is None:
            head, feature = f"XP_ALL for (int k = 0; k < {n}; ++k) {{", "k"
            to = "ahead[r / 2][k][r % 2]"
        else:
            head = (
                f"XP_ALL for (int j = 0; j < {x.tiles}; ++j) XP_ALL for (int c = 0; c < 2; ++c) {{"
            )
            feature, to = "8 * j + c", "ahead[r / 2][j][r % 2 * 2 + c]"
            if n % 8:
                guard, other = f"if (8 * j + 2 * t + c < {n}) ", " = {}"
        size = self._graph.input.itemsize
        vector = min(count, 16 // size)
        return [
            head,
            f"  xp_vector<IN, {vector}> q[{count // vector}]{other};",
            f"  {guard}XP_ALL for (int r = 0; r < {count // vector}; ++r)",
            f"    q[r] = xp_read<{vector}>(corner + ({feature}) * {stride} + r * {vector});",
            f"  XP_ALL for (int r = 0; r < {count}; ++r) {to} = q[r / {vector}].a[r % {vector}];",
            "}",
        ]

    def _read(self, x: Value, n: int, stride: str) -> list[str]:
        """Statements that read one slice's features, from `p` on."""
        if x.slots is None:
            return [
                f"  XP_ALL for (int k = 0; k < {n}; ++k) ahead[m][k][h] = "
                f"xp_read<1>(p + k * {stride}).a[0];"
            ]
        if self.quads:
            return [
                f"  XP_ALL for (int j = 0; j < {x.tiles}; j += 2) {{",
                "    const xp_vector<IN, 4> q = xp_read<4>(p + 8 * j);",
                "    ahead[m][j][2 * h] = q.a[0]; ahead[m][j][2 * h + 1] = q.a[1];",
                "    ahead[m][j + 1][2 * h] = q.a[2]; ahead[m][j + 1][2 * h + 1] = q.a[3];",
                "  }",
            ]
        if self._access.vector and n % 2 == 0:
            guard = "" if n % 8 == 0 else f"if (8 * j + 2 * t < {n}) "
            return [
                f"  XP_ALL for (int j = 0; j < {x.tiles}; ++j) {{",
                "    xp_vector<IN, 2> q = {};",
                f"    {guard}q = xp_read<2>(p + 8 * j);",
                "    ahead[m][j][2 * h] = q.a[0]; ahead[m][j][2 * h + 1] = q.a[1];",
                "  }",
            ]
        guard = "" if n % 8 == 0 else f"8 * j + 2 * t + c < {n} ? "
        other = "" if n % 8 == 0 else " : IN(0)"
        return [
            f"  XP_ALL for (int j = 0; j < {x.tiles}; ++j)",
            "    XP_ALL for (int c = 0; c < 2; ++c) ahead[m][j][2 * h + c] =",
            f"      {guard}xp_read<1>(p + (8 * j + c) * {stride}).a[0]{other};",
        ]

    def store(self, v: Value) -> list[str]:
        """Statements that write the results of tile `now`, or what is there of them."""
        out, n = CTYPES[self._result], v.size
        row, group = "row * (I)o_row", []
        if self._even:
            group = [
                "const I before = now * XP_SLICES / (I)n_behind;",
                "const I apart = before * (I)o_group - before * (I)n_behind;",
            ]
            row = "row + apart"
        elif self._access.grouped:
            row = "row % (I)n_group * (I)o_row + row / (I)n_group * (I)o_group"
        loop = f"XP_ALL for (int m = 0; m < {self._m}; ++m) XP_ALL for (int h = 0; h < 2; ++h) {{"
        if v.dealt:
            loop = (
                f"XP_ALL for (int q = 0; q < {self._m // 2}; ++q) {{"
                "  const int m = 2 * q + t / 2, h = t % 2;"
            )
        lines = [
            "{",
            *group,
            loop,
            f"  const I row = now * XP_SLICES + own + {self._slice};",
            "  if (row < (I)n_slices) {",
            f"    {out}* const r = y + {row};",
        ]
        tile = "(j + first)" if v.window else "j"
        whole = v.slots is None or -1 not in v.slots
        if v.dealt:
            lines.append(
                f"    XP_ALL for (int k = 0; k < {n}; ++k) r[k * (I)o_j] = {out}({v.name}[q][k]);"
            )
        elif v.slots is None:
            for k in range(n):
                lines.append(f"    if (t == {k % 4}) r[{k} * (I)o_j] = {out}({v.name}[m][{k}][h]);")
        elif v.slots != natural(n) and not v.window:  # joined from pieces, or the input
            for j in range(v.tiles):
                for c, k in enumerate(v.slots[8 * j : 8 * j + 8]):
                    if k >= 0:
                        lines.append(
                            f"    if (t == {c // 2}) r[{k} * (I)o_j] = "
                            f"{out}({v.name}[m][{j}][2 * h + {c % 2}]);"
                        )
        elif n % 2 == 0 and not self._access.after:
            guard = "" if whole else f"if (8 * {tile} + 2 * t < {n}) "
            lines += [
                f"    XP_ALL for (int j = 0; j < {v.tiles}; ++j) {guard}{{",
                f"      xp_vector<{out}, 2> q;",
                f"      q.a[0] = {out}({v.name}[m][j][2 * h]);",
                f"      q.a[1] = {out}({v.name}[m][j][2 * h + 1]);",
                f"      *(xp_vector<{out}, 2>*)(r + 8 * {tile} + 2 * t) = q;",
                "    }",
            ]
        else:
            guard = "" if whole else f"if (8 * {tile} + 2 * t + c < {n}) "
            lines += [
                f"    XP_ALL for (int j = 0; j < {v.tiles}; ++j)",
                "      XP_ALL for (int c = 0; c < 2; ++c)",
                f"        {guard}r[(8 * {tile} + 2 * t + c) * (I)o_j] =",
                f"          {out}({v.name}[m][j][2 * h + c]);",
            ]
        return [*lines, "  }", "}", "}"]

    def numbers(self) -> tuple[list[str], dict[str, int]]:
        """Names of the numbers of `geometry` and `placement`, and the values that are known."""
        access, n = self._access, self._n
        names = ["n_slices", "n_behind", "s_m"]
        for d, count in (("b", access.before), ("c", access.after)):
            names += [f"{k}_{d}{i}" for i in range(count) for k in "ns"]
        names += ["o_row", "o_j", *(["n_group", "o_group"] if access.grouped else [])]
        fixed: dict[str, int] = {}
        if access.after:
            fixed["o_row"] = 1
        else:
            fixed |= {"n_behind": 1, "o_row": math.prod(self._graph.result.shape), "o_j": 1}
        if access.dense:
            fixed |= {"s_c0": 1} if access.after else {"s_b0": n, "s_m": 1}
        return names, fixed
